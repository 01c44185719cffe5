"""torch.cond, while_loop, map and scan: their functions as graphs, and what the program sees of them."""

import gc
import inspect
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import gramme
import pytest
import torch
from torch._dynamo.exc import UncapturedHigherOrderOpError
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan as torch_scan
from torch._higher_order_ops.while_loop import while_loop as torch_while_loop
from torch.utils import _pytree as pytree

from e2e.nested_text import Shown

BACKENDS = ["eager", "native", "aot_eager"]
outside = torch.arange(3.0)
hop = SimpleNamespace(map=torch_map, scan=torch_scan, while_loop=torch_while_loop)


class Branches(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a = torch.nn.Linear(3, 3)
        self.b = torch.nn.Linear(3, 3)
        self.register_buffer("s", torch.ones(3))

    def forward(self, x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, self.a, lambda v: self.b(v) + self.a.bias + self.s, (x,))


branches = Branches()


def operands(x: torch.Tensor, y: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (x,))


def closures(x: torch.Tensor, y: torch.Tensor) -> Any:
    w = y + 1

    def yes(a: torch.Tensor) -> Any:
        return {"r": a * w + outside, "k": (a - y, 3)}

    def no(a: torch.Tensor) -> Any:
        return {"r": a - w, "k": (a * y * x, 3)}

    return torch.cond(x.sum() > 0, yes, no, (x,))


def modules(x: torch.Tensor, y: torch.Tensor) -> Any:
    return branches(x) * y


def cond_in_cond(x: torch.Tensor, y: torch.Tensor) -> Any:
    def inner(a: torch.Tensor) -> torch.Tensor:
        return torch.cond(a.min() > -9, lambda b: b + x * y, lambda b: b - y, (a,))

    return torch.cond(x.sum() > 0, inner, lambda a: a * 2, (x,))


def two_after_each_other(x: torch.Tensor, y: torch.Tensor) -> Any:
    z = torch.cond(x.sum() > 0, lambda: x * 2, lambda: y * 3)
    return torch.cond(z.mean() > 0, lambda a, b: (a @ b, b.exp()), lambda a, b: (a.sum(), b + z), (z, y))


def no_operands(x: torch.Tensor, y: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda: torch.ones(2), lambda: torch.zeros(2))


def by_keyword(x: torch.Tensor, y: torch.Tensor) -> Any:
    return torch.cond(pred=x.sum() > 0, true_fn=lambda v: v + 1, false_fn=lambda v: v - y, operands=[x])


def dict_operand(x: torch.Tensor, y: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda d, k: d["a"] + k, lambda d, k: d["a"] - d["b"], ({"a": x, "b": y}, y))


def float_predicate(x: torch.Tensor, y: torch.Tensor) -> Any:
    return torch.cond(x.sum().clamp(min=0), lambda v: v + 1, lambda v: v - 1, (x,))


def write_to_own_tensor(x: torch.Tensor, y: torch.Tensor) -> Any:
    def yes(a: torch.Tensor) -> torch.Tensor:
        b = a * 2
        b[1:].add_(y[1:])
        return b

    return torch.cond(x.sum() > 0, yes, lambda a: a.clone().mul_(3), (x,))


def list_of_its_own(x: torch.Tensor, y: torch.Tensor) -> Any:
    def yes(a: torch.Tensor) -> torch.Tensor:
        made = [a + 1]
        for k in range(3):
            made.append(made[-1] * k + y)
        return sum(made)

    return torch.cond(x.sum() > 0, yes, lambda a: a * 1, (x,))


def view_of_its_own(x: torch.Tensor, y: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda a: (a * 2).view(3, 1), lambda a: a.sin().view(3, 1), (x,)) + y


def written_afterwards(x: torch.Tensor, y: torch.Tensor) -> Any:
    z = torch.cond(x.sum() > 0, lambda a: a * 2, lambda a: a.sin(), (x,))
    z.mul_(y)
    return z, z[1:]


def grad_mode_inside(x: torch.Tensor, y: torch.Tensor) -> Any:
    def no(a: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            b = a * 3
        return a * b

    return torch.cond(x.sum() > 0, lambda a: a * y, no, (x,))


def predicate_of_sizes(x: torch.Tensor, y: torch.Tensor) -> Any:
    return torch.cond(x.shape[0] > 2, lambda a: a.sin(), lambda a: a.cos(), (x,))


def constant_predicate(x: torch.Tensor, y: torch.Tensor) -> Any:
    log = []
    z = torch.cond(True, lambda a: (log.append(a + 1), a.sin())[1], lambda a: a.cos(), (x,))
    return z, log


def loop(x: torch.Tensor, y: torch.Tensor) -> Any:
    n, z = torch.tensor(0), y.detach()
    return hop.while_loop(lambda i, v: i < 4, lambda i, v: (i + 1, v * 1.5 + z), (n, x.detach()))


def loop_that_never_runs(x: torch.Tensor, y: torch.Tensor) -> Any:
    return hop.while_loop(lambda v: v.sum() > 100, lambda v: (v + 1,), (x.detach(),))


def loop_over_a_dict(x: torch.Tensor, y: torch.Tensor) -> Any:
    def body(d: Any, n: torch.Tensor) -> Any:
        return {"a": d["a"] * 2, "b": d["b"] + d["a"]}, n - 1

    start = {"a": x.detach() + 0, "b": y.detach() * 1}
    return hop.while_loop(lambda d, n: (n > 0) & (d["b"].sum() < 50), body, (start, torch.tensor(5)))


def cond_in_a_loop(x: torch.Tensor, y: torch.Tensor) -> Any:
    z = y.detach()

    def body(n: torch.Tensor, v: torch.Tensor) -> Any:
        return n + 1, torch.cond(v.sum() > 3, lambda a: a - z * 2, lambda a: a * 2 + z, (v,))

    return hop.while_loop(lambda n, v: n < 5, body, (torch.tensor(0), x.detach()))


def counted_loop(x: torch.Tensor, y: torch.Tensor) -> Any:
    z = y.detach()
    n, v = hop.while_loop(lambda i, v: i < 4, lambda i, v: (i + 1, v * 1.5 + z * i), (0, x.detach()))
    return n, v * n


def loop_of_numbers_alone(x: torch.Tensor, y: torch.Tensor) -> Any:
    n, total = hop.while_loop(lambda i, total: i * 2 < 11, lambda i, total: (i + 2, total + i * i), (1, 0))
    return x * total + n, (n, total)


def counted_loop_that_never_runs(x: torch.Tensor, y: torch.Tensor) -> Any:
    return hop.while_loop(lambda d, v: d["n"] > 9, lambda d, v: ({"n": d["n"] - 1}, v + 1), ({"n": 7}, x.detach()))


def loop_counted_by_tensors(x: torch.Tensor, y: torch.Tensor) -> Any:
    def body(n: int, v: torch.Tensor) -> Any:
        return n + 3, torch.cond(v.sum() > 3, lambda a: a - n, lambda a: a * 2 + n, (v,))

    return hop.while_loop(lambda n, v: v.abs().sum() + n < 20, body, (1, x.detach()))


def mapped(x: torch.Tensor, y: torch.Tensor) -> Any:
    return hop.map(lambda a, b: (a + b, {"k": a * x}), torch.stack([x, x * 2, y]), y)


def mapped_tree(x: torch.Tensor, y: torch.Tensor) -> Any:
    xs = {"a": torch.stack([x, y]), "b": torch.stack([y, y]).t().contiguous().t()}
    return hop.map(lambda d: d["a"].sin() * d["b"].sum(), xs)


def scanned(x: torch.Tensor, y: torch.Tensor) -> Any:
    return hop.scan(lambda c, v: (c + v * y, (c * v).clone()), torch.zeros(3), torch.stack([x, y, x * y]))


def scanned_with_closure(x: torch.Tensor, y: torch.Tensor) -> Any:
    return hop.scan(lambda c, v: (c + v * y, c * x), x * 0, torch.stack([x, y, x]))


def scanned_backwards(x: torch.Tensor, y: torch.Tensor) -> Any:
    def step(carry: Any, v: torch.Tensor) -> Any:
        state = torch.tanh(branches.a(carry["h"]) + v)
        return {"h": state, "n": carry["n"] + state.sum()}, (state * 2, v.exp() + state)

    begin = {"h": torch.zeros(3), "n": torch.zeros(())}
    return hop.scan(step, begin, torch.stack([x, y, x * y], dim=1), dim=1, reverse=True)


LOOPS = [
    loop,
    loop_that_never_runs,
    loop_over_a_dict,
    cond_in_a_loop,
    counted_loop,
    loop_of_numbers_alone,
    counted_loop_that_never_runs,
    loop_counted_by_tensors,
    mapped,
    mapped_tree,
    scanned,
    scanned_with_closure,
    scanned_backwards,
]
COND = [
    operands,
    closures,
    modules,
    cond_in_cond,
    two_after_each_other,
    no_operands,
    by_keyword,
    dict_operand,
    float_predicate,
    write_to_own_tensor,
    list_of_its_own,
    view_of_its_own,
    written_afterwards,
    grad_mode_inside,
    predicate_of_sizes,
    constant_predicate,
]


def python_cond(pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
    """What torch.cond means."""
    return true_fn(*operands) if pred else false_fn(*operands)


def python_while_loop(condition: Any, body: Any, carried: Any) -> Any:
    while condition(*carried):
        carried = body(*carried)
    return carried


def stacked(results: list[Any], dim: int = 0) -> Any:
    return pytree.tree_map(lambda *leaves: torch.stack(leaves, dim), results[0], *results[1:])


def python_map(function: Any, xs: Any, *args: Any) -> Any:
    count = pytree.tree_leaves(xs)[0].shape[0]
    items = [pytree.tree_map(lambda x, i=i: x[i], xs) for i in range(count)]
    return stacked([function(item, *args) for item in items])


def python_scan(function: Any, carry: Any, xs: Any, dim: int = 0, reverse: bool = False) -> Any:
    order = range(pytree.tree_leaves(xs)[0].shape[dim])
    results = []
    for i in reversed(order) if reverse else order:
        carry, result = function(carry, pytree.tree_map(lambda x, i=i: x.select(dim, i), xs))
        results.append(result)
    return carry, stacked(results[::-1] if reverse else results, dim)


def by_python(program: Callable[..., Any], *args: Any) -> Any:
    """What the program gives where operators of control flow are what they mean."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "cond", python_cond)
        patch.setattr(hop, "while_loop", python_while_loop)
        patch.setattr(hop, "map", python_map)
        patch.setattr(hop, "scan", python_scan)
        return program(*args)


def arguments(sign: float, gradients: bool) -> list[torch.Tensor]:
    x = torch.tensor([0.5, -0.25, 1.5]) * sign
    return [x.requires_grad_(gradients), torch.tensor([1.0, 0.5, 2.0]).requires_grad_(gradients)]


def tensors_in(result: Any) -> list[torch.Tensor]:
    return [leaf for leaf in torch.utils._pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def outcome(program: Callable[..., Any], sign: float, gradients: bool) -> Any:
    """The result, and the gradients of inputs and of the module's parameters."""
    own = arguments(sign, gradients)
    result = program(*own)
    made = [leaf for leaf in tensors_in(result) if leaf.requires_grad]
    if not made:
        return result, own, None
    leaves = [leaf for leaf in own + list(branches.parameters()) if leaf.requires_grad]
    total = sum((leaf.sin().sum() for leaf in made), torch.zeros(()))
    return result, own, torch.autograd.grad(total, leaves, allow_unused=True)


@pytest.mark.sampled(80)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("program", COND + LOOPS)
def test_what_python_means(program: Callable[..., Any], gradients: bool, backend: str) -> None:
    compiled = gramme.compile(program, backend=backend, fullgraph=True)
    for sign in (1.0, -1.0, 1.0, -1.0):
        want = outcome(lambda *args: by_python(program, *args), sign, gradients)
        got = outcome(compiled, sign, gradients)
        assert [t.requires_grad for t in tensors_in(got[0])] == [t.requires_grad for t in tensors_in(want[0])]
        if backend == "aot_eager" and want[2] is not None:  # zeros for what the other branch uses
            assert got[2] is not None
            pairs = list(zip(got[2], want[2], strict=True))
            assert all(torch.equal(a, torch.zeros_like(a)) for a, b in pairs if a is not None and b is None)
            got = (*got[:2], [None if b is None else a for a, b in pairs])
            want = (*want[:2], list(want[2]))
        torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "program",
    [
        operands,
        cond_in_cond,
        two_after_each_other,
        by_keyword,
        dict_operand,
        loop,
        loop_over_a_dict,
        cond_in_a_loop,
        counted_loop,
        loop_of_numbers_alone,
        loop_counted_by_tensors,
        mapped,
        scanned_with_closure,
    ],
)
def test_graph_is_that_of_torch_compile(program: Callable[..., Any]) -> None:
    mine, theirs = Shown(), Shown()
    gramme.compile(program, backend=mine, fullgraph=True)(*arguments(1.0, False))
    torch._dynamo.reset()
    torch.compile(program, backend=theirs, fullgraph=True)(*arguments(1.0, False))
    assert mine.graphs == theirs.graphs


def test_cond_is_captured_once_for_both_branches() -> None:
    shown = Shown()
    compiled = gramme.compile(operands, backend=shown, fullgraph=True)
    for sign in (1.0, -1.0):
        compiled(*arguments(sign, False))
    assert len(shown.graphs) == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_sizes_that_vary(backend: str) -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> Any:
        n = x.shape[0]
        z = torch.cond(x.sum() > 0, lambda v: v * n + y.shape[0], lambda v: v - y[:1], (x,))
        return torch.cond(n > 4, lambda v: v.sin(), lambda v: v.cos(), (z,))

    compiled = gramme.compile(program, backend=backend, fullgraph=True)
    for size in (3, 4, 5, 6, 7, 3):
        for sign in (1, -1):
            x, y = torch.linspace(-0.5, 1, size) * sign, torch.ones(size + 2)
            torch.testing.assert_close(compiled(x, y), by_python(program, x, y))


class Holder:
    kind = 1

    def __init__(self) -> None:
        self.value = 1
        self.items: list[Any] = [1]
        self.names: dict[str, Any] = {"a": 1}
        self.members: set[int] = {1}
        self.recent: deque[Any] = deque([1])
        self.tensor = torch.zeros(3)

    def count(self) -> Any:
        yield from range(100)


COUNTED = 0


def effects(x: torch.Tensor) -> dict[str, Callable[[torch.Tensor], Any]]:
    """Functions that change something outside, each on its first line."""
    holder, numbers = Holder(), iter(range(100))
    generator, items, number = holder.count(), [1], 0

    def append(a: torch.Tensor) -> Any:
        holder.items.append(a)
        return a + 1

    def append_to_new(a: torch.Tensor) -> Any:
        items.append(2)
        return a + 1

    def set_item(a: torch.Tensor) -> Any:
        holder.names["b"] = 2
        return a + 1

    def add(a: torch.Tensor) -> Any:
        holder.members.add(2)
        return a + 1

    def push(a: torch.Tensor) -> Any:
        holder.recent.append(2)
        return a + 1

    def set_attribute(a: torch.Tensor) -> Any:
        holder.value = 2
        return a + 1

    def set_class_attribute(a: torch.Tensor) -> Any:
        Holder.kind = 2
        return a + 1

    def set_variable(a: torch.Tensor) -> Any:
        nonlocal number
        number += 1
        return a + 1

    def set_global(a: torch.Tensor) -> Any:
        global COUNTED
        COUNTED += 1
        return a + 1

    def take_next(a: torch.Tensor) -> Any:
        return a + next(numbers)

    def resume(a: torch.Tensor) -> Any:
        return a + next(generator)

    def write_operand(a: torch.Tensor) -> Any:
        a.add_(1)
        return a + 1

    def write_view(a: torch.Tensor) -> Any:
        a[1:].mul_(2)
        return a + 1

    def write_outside(a: torch.Tensor) -> Any:
        holder.tensor.add_(1)
        return a + 1

    def write_out(a: torch.Tensor) -> Any:
        torch.add(a, 1, out=holder.tensor)
        return a + 1

    def mark(a: torch.Tensor) -> Any:
        a.mark = 1  # type: ignore[attr-defined]
        return a + 1

    def show(a: torch.Tensor) -> Any:
        print("shown")
        return a + 1

    def divide(a: torch.Tensor) -> Any:
        return a + 1 / (holder.value - 1)

    def read(a: torch.Tensor) -> Any:
        return a + (2 if a.sum() > 1 else 3)

    def break_off(a: torch.Tensor) -> Any:
        gramme.graph_break()
        return a + 1

    made = dict(locals())
    return {name: made[name] for name in made if inspect.isfunction(made[name])}


@pytest.mark.parametrize("name", effects(torch.ones(3)))
def test_change_of_what_is_outside_is_refused(name: str) -> None:
    x = torch.ones(3)
    function = effects(x)[name]

    def program(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, function, lambda a: a * 2, (x,))

    with pytest.raises(UncapturedHigherOrderOpError, match="cond") as error:
        gramme.compile(program, backend="eager", fullgraph=True)(x)
    assert isinstance(error.value, gramme.CaptureError)
    lines, first = inspect.getsourcelines(function)
    assert error.value.file == __file__
    if name in ("set_attribute", "set_variable", "set_global"):  # they might be put back
        assert "torch.cond" in error.value.source_line
    elif name == "divide":
        assert f"ZeroDivisionError in line {first + 1}" in str(error.value)
    else:
        assert first < error.value.line < first + len(lines)
    torch.testing.assert_close(x, torch.ones(3), rtol=0, atol=0)


RETURNS: dict[str, tuple[Any, Any]] = {
    "operand": (lambda a: a, lambda a: a * 2),
    "view of the operand": (lambda a: a.view(3, 1)[:, 0], lambda a: a * 2),
    "one tensor twice": (lambda a: (lambda t: (t, t))(a + 1), lambda a: (a + 2, a + 3)),
    "other tree": (lambda a: (a + 1,), lambda a: [a + 1]),
    "other keys": (lambda a: {"a": a + 1}, lambda a: {"b": a + 1}),
    "other dtype": (lambda a: a.double(), lambda a: a * 2),
    "other shape": (lambda a: a[:2] + 0, lambda a: a * 2),
    "other strides": (lambda a: a.view(3, 1) + a, lambda a: (a.view(3, 1) + a).t()),
    "other rank": (lambda a: a.sum(), lambda a: a * 2),
    "other gradient": (lambda a: a.detach() * 2, lambda a: a * 2),
    "other float": (lambda a: (a + 1, 0.0), lambda a: (a + 2, -0.0)),
    "tensor or number": (lambda a: a + 1, lambda a: 3),
}


@pytest.mark.parametrize("name", RETURNS)
def test_branches_that_return_different_things_are_refused(name: str) -> None:
    yes, no = RETURNS[name]

    def program(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, yes, no, (x,))

    with pytest.raises(UncapturedHigherOrderOpError, match="cond"):
        gramme.compile(program, backend="eager", fullgraph=True)(torch.ones(3, requires_grad=True))


SAME: dict[str, tuple[Any, Any]] = {
    "number": (lambda a: (a + 1, 7), lambda a: (a + 2, 7)),
    "text, float, None": (lambda a: (a + 1, "t", 1.5, None, True), lambda a: (a + 2, "t", 1.5, None, True)),
    "object": (lambda a: (a + 1, branches), lambda a: (a + 2, branches)),
    "outer tensor": (lambda a: (a + 1, outside), lambda a: (a + 2, outside)),
    "nothing": (lambda a: None, lambda a: None),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", SAME)
def test_what_both_branches_return_passes_by(name: str, backend: str) -> None:
    yes, no = SAME[name]

    def program(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, yes, no, (x,)), x * 2

    compiled = gramme.compile(program, backend=backend, fullgraph=True)
    for x in (torch.ones(3), -torch.ones(3)):
        got, want = pytree.tree_leaves(compiled(x)), pytree.tree_leaves(by_python(program, x))
        assert len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            assert torch.equal(a, b) if isinstance(a, torch.Tensor) else a is b


def test_attribute_that_is_put_back() -> None:
    holder = Holder()

    def yes(a: torch.Tensor) -> Any:
        holder.value = 3
        b = a * holder.value
        holder.value = 1
        return b

    def program(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, yes, lambda a: a - holder.value, (x,))

    compiled = gramme.compile(program, backend="eager", fullgraph=True)
    for x in (torch.ones(3), -torch.ones(3)):
        torch.testing.assert_close(compiled(x), by_python(program, x), rtol=0, atol=0)


def test_only_the_branch_that_is_taken_draws_random_numbers() -> None:
    def program(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda a: a + torch.rand(3), lambda a: a * 2, (x,)), torch.rand(2)

    for backend in ("eager", "native"):
        compiled = gramme.compile(program, backend=backend, fullgraph=True)
        for x in (torch.ones(3), -torch.ones(3), torch.ones(3)):
            torch.manual_seed(1)
            want = by_python(program, x)
            torch.manual_seed(1)
            torch.testing.assert_close(compiled(x), want, rtol=0, atol=0)


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_gradient_of_a_gradient(backend: str) -> None:
    def program(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda a: a**3, lambda a: a.exp() * a, (x,)).sum()

    compiled = gramme.compile(program, backend=backend, fullgraph=True)
    for sign in (1, -1):
        seconds = []
        for function in (compiled, lambda x: by_python(program, x)):
            x = (torch.tensor([0.5, 1.0, 2.0]) * sign).requires_grad_()
            (first,) = torch.autograd.grad(function(x), x, create_graph=True)
            seconds.append(torch.autograd.grad(first.sum(), x))
        torch.testing.assert_close(seconds[0], seconds[1], rtol=0, atol=0)


def test_random_numbers_where_gradients_are_recorded() -> None:
    """PyTorch's operator would draw others for the gradient."""

    def program(x: torch.Tensor) -> Any:
        y = x * 2
        return torch.cond(x.sum() > 0, lambda a: a * torch.rand(3), lambda a: a * 2, (y,))

    x = torch.ones(3, requires_grad=True)
    with pytest.raises(UncapturedHigherOrderOpError, match="random"):
        gramme.compile(program, backend="aot_eager", fullgraph=True)(x)
    for backend in ("eager", "native"):
        compiled = gramme.compile(program, backend=backend, fullgraph=True)
        for _ in range(2):
            y = compiled(x)
            torch.testing.assert_close(torch.autograd.grad(y.sum(), x)[0], y / x, rtol=0, atol=1e-6)


def test_exception_of_a_branch() -> None:
    index = torch.tensor([0, 7])

    def program(x: torch.Tensor) -> Any:
        y = x + 1
        try:
            return torch.cond(x.sum() > 0, lambda a: a[index], lambda a: a[:2] * 2, (y,))
        except IndexError:
            return y * 100

    for backend in BACKENDS:
        compiled = gramme.compile(program, backend=backend)
        for x in (torch.ones(3), -torch.ones(3), torch.ones(3)):
            torch.testing.assert_close(compiled(x), by_python(program, x), rtol=0, atol=0)


def test_nothing_is_left_of_captures() -> None:
    def program(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (x,))

    def count() -> int:
        gc.collect()
        return sum(isinstance(each, (torch.Tensor, torch.fx.GraphModule)) for each in gc.get_objects())

    counts = []
    for _ in range(3):
        for _ in range(10):
            for backend in ("eager", "native"):
                compiled = gramme.compile(program, backend=backend, fullgraph=True)
                compiled(torch.ones(3))
                compiled(-torch.ones(3))
                del compiled
            gramme.reset()
        counts.append(count())
    assert counts[2] <= counts[1]


def test_without_fullgraph_it_is_called_for_real() -> None:
    log: list[int] = []

    def program(x: torch.Tensor) -> Any:
        y = x * 2
        log.append(1)
        z = torch.cond(x.sum() > 0, lambda a: (a + 1, 1.5), lambda a: (a * 2, 2.5), (y,))
        return z[0] + 1

    compiled = gramme.compile(program, backend="eager")
    with pytest.raises(Exception, match="must consist of tensors or ints"):
        compiled(torch.ones(3))
    assert len(log) == 1


@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
def test_other_numbers_are_numbers_out_of_data(backend: str) -> None:
    def program(x: torch.Tensor) -> Any:
        y, (n, m), k = torch.cond(x.sum() > 0, lambda a: (a + 1, (3, 7), -2), lambda a: (a - 1, (5, 7), 4), (x,))
        return y * n, n + m, k, torch.zeros(n).shape

    compiled = gramme.compile(program, backend=backend, fullgraph=True)
    for x in (torch.ones(3), -torch.ones(3), torch.ones(3)):
        n, k = (3, -2) if x.sum() > 0 else (5, 4)
        product, sum_, last, sizes = compiled(x)
        assert product.tolist() == ((x + 1 if n == 3 else x - 1) * n).tolist()
        assert (sum_, last, sizes) == (n + 7, k, torch.Size([n]))
    assert gramme.statistics(compiled).captures == 1
