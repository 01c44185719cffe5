"""torch.autograd.Function in graphs: values, gradients, gradients of gradients and errors are eager's, in one graph."""

import functools
import gc
import weakref
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from e2e.nested_text import Shown

BACKENDS = ["eager", "native", "aot_eager"]
LINKED = ["eager", "native"]
LINEAR = nn.Linear(3, 3)
WEIGHT = nn.Parameter(torch.ones(3))

Program = tuple[Callable[..., Any], list[Callable[[], Any]]]
PROGRAMS: dict[str, Program] = {}


def tensor(*sizes: int, grad: bool = True, seed: int = 0) -> Callable[[], torch.Tensor]:
    return lambda: torch.randn(*sizes, generator=torch.Generator().manual_seed(seed)).requires_grad_(grad)


def program(*makers: Callable[[], Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[function.__name__] = function, list(makers)
        return function

    return add


class Scaled(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, k: float) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.k = k
        return x.sin() * k

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return g * x.cos() * ctx.k, None


@program(tensor(3))
def saved_tensor_and_attribute(x: torch.Tensor) -> Any:
    return Scaled.apply(x, 3) + 1


@program(tensor(3))
def twice_in_a_row(x: torch.Tensor) -> Any:
    return Scaled.apply(Scaled.apply(x, 2.0), 0.5).sum()


class Sorted(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        values, order = (x * y).sort()
        ctx.mark_non_differentiable(order)
        ctx.save_for_backward(order, y)
        return values, order, x * 2

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor, _: torch.Tensor, h: torch.Tensor) -> Any:
        order, y = ctx.saved_tensors
        return torch.zeros_like(g).scatter(0, order, g) * y + 2 * h, None


@program(tensor(3), tensor(3, grad=False, seed=1))
def output_without_gradient(x: torch.Tensor, y: torch.Tensor) -> Any:
    values, order, twice = Sorted.apply(x, y)
    return values + twice, order, order.requires_grad


class Doubled(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return g * 2


@program(tensor(3))
def argument_written(x: torch.Tensor) -> Any:
    y = x + 0
    z = Doubled.apply(y)
    return z * 3, y, z is y


@program(tensor(3))
def written_argument_used_without_the_result(x: torch.Tensor) -> Any:
    y = x * 1
    Doubled.apply(y)
    return y.sum()


class ExpAndTimes(Function):
    @staticmethod
    def forward(x: torch.Tensor, n: int = 2) -> Any:
        return x.exp(), x * n

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        _, n = inputs
        ctx.save_for_backward(output[0])
        ctx.n = n

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor, h: torch.Tensor) -> Any:
        (e,) = ctx.saved_tensors
        return g * e + h * ctx.n, None


@program(tensor(3))
def setup_context(x: torch.Tensor) -> Any:
    e, t = ExpAndTimes.apply(x, 2)
    return e + t


@program(tensor(3))
def setup_context_with_a_default(x: torch.Tensor) -> Any:
    return ExpAndTimes.apply(x)


class SquareOnce(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return 2 * g * ctx.saved_tensors[0]


@program(tensor(3))
def differentiable_once(x: torch.Tensor) -> Any:
    return SquareOnce.apply(x)


class Around(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return Scaled.apply(x, 2) * 3

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return Scaled.apply(g, 2) * x


@program(tensor(3))
def function_in_functions(x: torch.Tensor) -> Any:
    return Around.apply(x)


class Pair:
    def __init__(self, t: torch.Tensor) -> None:
        self.t = t


class Mixed(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, pair: Pair, names: list[str], y: torch.Tensor) -> Any:
        ctx.pair = pair
        ctx.middle = x.exp()
        return x * pair.t + LINEAR.bias, "text", y.sum()

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor, _: None, h: torch.Tensor) -> Any:
        return g * ctx.pair.t * ctx.middle, None, None, h * torch.ones(3)


@program(tensor(3), tensor(3, grad=False, seed=1), tensor(3, seed=2))
def objects_and_intermediates(x: torch.Tensor, t: torch.Tensor, y: torch.Tensor) -> Any:
    a, text, b = Mixed.apply(x, Pair(t), ["n"], y)
    return a + b, text


class PlusOne(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x + 1

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return g


@program(tensor(3, grad=False))
def nothing_to_differentiate(x: torch.Tensor) -> Any:
    y = PlusOne.apply(x)
    return y, y.requires_grad


class GivesBack(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        return x, y + 1

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor, h: torch.Tensor) -> Any:
        return g * 5, h


@program(tensor(3), tensor(3, seed=1))
def argument_returned(x: torch.Tensor, y: torch.Tensor) -> Any:
    a, b = GivesBack.apply(x, y)
    return a + b, a is x


@program(tensor(3, grad=False), tensor(3, grad=False, seed=1))
def argument_returned_without_gradient(x: torch.Tensor, y: torch.Tensor) -> Any:
    a, b = GivesBack.apply(x, y)
    return a + b, a is x


@program(tensor(3), tensor(3, seed=1))
def argument_returned_with_grad_mode_off(x: torch.Tensor, y: torch.Tensor) -> Any:
    with torch.no_grad():
        a, b = GivesBack.apply(x, y)
    return a, b, a.requires_grad, a is x


class TwoOfOne(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * 2 + y

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        return g * 2, g * 5


@program(tensor(3))
def same_tensor_twice(x: torch.Tensor) -> Any:
    return TwoOfOne.apply(x, x)


@program(tensor(3), tensor(3, seed=1))
def one_of_two_needs_a_gradient(x: torch.Tensor, y: torch.Tensor) -> Any:
    return TwoOfOne.apply(x, y.detach()).sum()


class UsesWeight(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * WEIGHT

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return g


@program(tensor(3, grad=False))
def parameter_of_a_plain_argument(x: torch.Tensor) -> Any:
    y = UsesWeight.apply(x)
    return y, y.requires_grad


class AsksForMode(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * (1.0 if torch.is_grad_enabled() else 2.0)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return g


@program(tensor(3))
def grad_mode_in_forward(x: torch.Tensor) -> Any:
    return AsksForMode.apply(x), AsksForMode.apply(x.detach()), torch.is_grad_enabled()


class Needs(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor, n: int) -> torch.Tensor:
        ctx.seen = ctx.needs_input_grad
        return x * y * n

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        first, second, third = ctx.needs_input_grad
        return (g * 2 if first and ctx.seen[0] else None), (g * 3 if second else None), g if third else None


@program(tensor(3), tensor(3, grad=False, seed=1))
def needs_input_grad(x: torch.Tensor, y: torch.Tensor) -> Any:
    return Needs.apply(x, y, 2) + Needs.apply(y, x, 3)


class OfList(Function):
    @staticmethod
    def forward(ctx: Any, xs: list[torch.Tensor]) -> torch.Tensor:
        return xs[0] * 2

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> None:
        return None


@program(tensor(3))
def tensor_in_a_list(x: torch.Tensor) -> Any:
    y = OfList.apply([x])
    return y, y.requires_grad


class Remembers(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        (y,) = ctx.saved_tensors
        return g * y


@program(tensor(2, 3))
def saved_output(x: torch.Tensor) -> Any:
    return Remembers.apply(x) * 2


class Copies(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return g


class CopiesMore(Copies):
    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return super(CopiesMore, CopiesMore).backward(ctx, g) * 3


@program(tensor(3))
def backward_of_the_base(x: torch.Tensor) -> Any:
    y = CopiesMore.apply(x)
    return y, y.is_leaf, y.requires_grad


class Pieces(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> Any:
        return x * 2, x * 3

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        return g * 10 + h


@program(tensor(3))
def output_unused(x: torch.Tensor) -> Any:
    return Pieces.apply(x)[0]


class Reversed(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, alpha: float) -> torch.Tensor:
        ctx.alpha = alpha
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        return g.neg() * ctx.alpha, None


@program(tensor(2, 3))
def gradient_reversal(x: torch.Tensor) -> Any:
    return LINEAR(Reversed.apply(LINEAR(x), 0.1))


class StraightThrough(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return (x > 0).float()

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.hardtanh(g)


@program(tensor(2, 3))
def straight_through(x: torch.Tensor) -> Any:
    return StraightThrough.apply(x * 2) * x


class Swish(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        x = ctx.saved_tensors[0]
        s = torch.sigmoid(x)
        return g * (s * (1 + x * (1 - s)))


@program(tensor(2, 3))
def swish_without_memory(x: torch.Tensor) -> Any:
    return Swish.apply(LINEAR(x)).sum()


class Unused(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return y * 1

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        return g * 7, g


@program(tensor(3), tensor(3, seed=1))
def gradient_of_an_unused_argument(x: torch.Tensor, y: torch.Tensor) -> Any:
    return Unused.apply(x, y)


class Normed(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, sizes: tuple[int, ...], eps: float = 1e-5) -> torch.Tensor:
        mean, spread = x.mean(-1, keepdim=True), x.var(-1, unbiased=False, keepdim=True)
        inverse = (spread + eps).rsqrt()
        ctx.save_for_backward(x, mean, inverse, None)
        ctx.sizes, ctx.eps, ctx.shape = sizes, eps, x.shape
        return (x - mean) * inverse

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        x, mean, inverse, nothing = ctx.saved_tensors
        assert nothing is None
        scale = 1.0 if ctx.shape[-1] == 3 else 2.0
        return (g - g.mean(-1, keepdim=True)) * inverse * scale + (x - mean) * 0, None, None


@program(tensor(2, 3))
def norm_with_sizes(x: torch.Tensor) -> Any:
    return Normed.apply(x, (3,), 1e-3)


class AnyNumber(Function):
    @staticmethod
    def forward(ctx: Any, *xs: torch.Tensor) -> torch.Tensor:
        ctx.n = len(xs)
        return torch.stack(xs).sum(0)

    @staticmethod
    def backward(ctx: Any, *gs: torch.Tensor) -> Any:
        return tuple(gs[0] * (i + 1) for i in range(ctx.n))


@program(tensor(3), tensor(3, seed=1))
def any_number_of_arguments(x: torch.Tensor, y: torch.Tensor) -> Any:
    return AnyNumber.apply(x, y, x * 2)


class WithScale(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 3)
        torch.manual_seed(3)
        nn.init.normal_(self.inner.weight)
        nn.init.zeros_(self.inner.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Swish.apply(Reversed.apply(self.inner(x), 0.5))


MODULE = WithScale()


@program(tensor(2, 3))
def in_a_module(x: torch.Tensor) -> Any:
    return MODULE(MODULE(x))


class Trailing(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        return g * 2, None


@program(tensor(3))
def trailing_none(x: torch.Tensor) -> Any:
    return Trailing.apply(x)


class Counts(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        LOG.append("forward")
        ctx.n = len(LOG)
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return g * ctx.n


LOG: list[str] = []


@program(tensor(3))
def effects_of_forward(x: torch.Tensor) -> Any:
    LOG.clear()
    y = Counts.apply(x)
    return Counts.apply(y), list(LOG)


def leaves(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in leaves(item)]
    return []


def assert_same(got: Any, want: Any, rtol: float = 0) -> None:
    if isinstance(want, torch.Tensor):
        torch.testing.assert_close(got, want, rtol=rtol, atol=rtol)
    elif isinstance(want, (tuple, list)):
        assert len(got) == len(want)
        for mine, its in zip(got, want, strict=True):
            assert_same(mine, its, rtol)
    else:
        assert got == want


def outcome(function: Callable[..., Any], makers: list[Callable[[], Any]], twice: bool) -> Any:
    """What a call gives, its gradients and those of the gradients, as far as there are any."""
    args = [make() for make in makers]
    result = function(*args)
    seen = [result, args]
    results = [leaf for leaf in leaves(result) if leaf.requires_grad]
    inputs = [arg for arg in args if isinstance(arg, torch.Tensor) and arg.requires_grad]
    seen.append([(leaf.requires_grad, leaf.is_leaf) for leaf in leaves(result)])
    if results and inputs:
        total = sum(((leaf * leaf).sum() for leaf in results), torch.zeros(()))
        gradients = torch.autograd.grad(total, inputs, create_graph=twice, allow_unused=True)
        seen.append(gradients)
        again = [gradient for gradient in gradients if gradient is not None and gradient.requires_grad]
        if again and twice:
            try:
                seen.append(torch.autograd.grad(sum(g.sin().sum() for g in again), inputs, allow_unused=True))
            except RuntimeError as error:
                seen.append(str(error))
    return seen


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_like_eager_in_one_graph(name: str, backend: str) -> None:
    function, makers = PROGRAMS[name]
    compiled = gramme.compile(function, backend=backend, fullgraph=True)
    twice = backend != "aot_eager"
    want = outcome(function, makers, twice)
    for _ in range(2):
        got = outcome(compiled, makers, twice)
        assert_same(got, want, 1e-6 if backend == "aot_eager" else 0)


# ---- what is right because the node is PyTorch's


def test_node_is_that_of_the_class() -> None:
    for backend in LINKED:
        y = gramme.compile(saved_tensor_and_attribute, backend=backend, fullgraph=True)(tensor(3)())
        node = y.grad_fn.next_functions[0][0]
        assert type(node) is Scaled._backward_cls
        assert node.k == 3


@pytest.mark.parametrize("backend", LINKED)
def test_saved_tensors_are_checked_hooked_and_freed(backend: str) -> None:
    compiled = gramme.compile(lambda x: Remembers.apply(x), backend=backend, fullgraph=True)
    x = tensor(3)()
    y = compiled(x)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="a second time"):
        y.sum().backward()
    y = compiled(x)
    y.detach().add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    packed: list[torch.Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        compiled(x).sum().backward()
    assert len(packed) == 1


class Later(Function):
    factor = 2.0

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, log: list[str]) -> Any:
        ctx.set_materialize_grads(False)
        ctx.log = log
        return x * 1, x * 2

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor | None, h: torch.Tensor | None) -> Any:
        ctx.log.append("unused" if h is None else "used")
        known = [each for each in (g, h) if each is not None]
        return sum(known[1:], known[0]) * Later.factor, None


@pytest.mark.parametrize("backend", BACKENDS)
def test_backward_runs_when_gradients_are_computed(backend: str) -> None:
    compiled = gramme.compile(lambda x, log: Later.apply(x, log), backend=backend)
    log: list[str] = []
    x = tensor(3)()
    a, b = compiled(x, log)
    assert log == []
    Later.factor = 5.0
    try:
        (g,) = torch.autograd.grad(a.sum(), x, retain_graph=True)
        torch.testing.assert_close(g, torch.full((3,), 5.0))
        (g,) = torch.autograd.grad((a + b).sum(), x)
        torch.testing.assert_close(g, torch.full((3,), 10.0))
    finally:
        Later.factor = 2.0
    assert log == ["unused", "used"]


@pytest.mark.parametrize("backend", LINKED)
def test_objects_of_the_context_are_the_program_s(backend: str) -> None:
    compiled = gramme.compile(lambda x, log: Later.apply(x, log)[0] + 1, backend=backend, fullgraph=True)
    log: list[str] = []
    x = tensor(3)()
    for _ in range(3):
        compiled(x, log).sum().backward()
    assert log == ["unused"] * 3


@pytest.mark.parametrize("backend", LINKED)
def test_nothing_is_kept(backend: str) -> None:
    compiled = gramme.compile(objects_and_intermediates, backend=backend, fullgraph=True)
    makers = PROGRAMS["objects_and_intermediates"][1]

    def call() -> weakref.ref[Any]:
        args = [make() for make in makers]
        result, _ = compiled(*args)
        result.sum().backward()
        node = result.grad_fn.next_functions[0][0]
        return weakref.ref(node)

    call()
    nodes = [call() for _ in range(500)]
    gc.collect()
    assert not any(node() for node in nodes)
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(500):
        call()
    gc.collect()
    assert len(gc.get_objects()) - before < 50


# ---- errors


class TooFew(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * y

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return g


class OfAnotherSize(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        return torch.ones(7), None


class WritesSaved(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        ctx.t = x * 2
        return ctx.t + 1

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        ctx.t.add_(1)
        return g * ctx.t, None


class Raises(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if x.shape[0] == 3:
            raise ValueError("three")
        return x * y

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        return g, g


class GivesAlmostAll(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        ctx.mark_dirty(x)
        x.mul_(2)
        return x * y

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        return g, g


def told(function: type[Function], run: Callable[..., Any]) -> Any:
    x, y = tensor(3)(), tensor(3, seed=1)()
    try:
        out = run(lambda x, y: function.apply(x * 1, y))(x, y)
        out.sum().backward(retain_graph=True)
        out.sum().backward()
    except (RuntimeError, ValueError) as error:
        return str(error)
    return [x.grad, y.grad]


@pytest.mark.parametrize("backend", LINKED)
def test_marked_write_counts_without_gradients(backend: str) -> None:
    compiled = gramme.compile(lambda x: Doubled.apply(x), backend=backend)
    for _ in range(2):
        x, y = torch.ones(3), torch.ones(3)
        assert compiled(x) is x
        Doubled.apply(y)
        assert x._version == y._version


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [TooFew, OfAnotherSize, WritesSaved, Raises, GivesAlmostAll])
def test_errors_and_writes_are_those_of_eager(function: type[Function], backend: str) -> None:
    want = told(function, lambda f: f)
    got = told(function, functools.partial(gramme.compile, backend=backend))
    assert_same(got, want)


def written_after(x: torch.Tensor) -> torch.Tensor:
    y = Remembers.apply(x)
    y.mul_(2)
    return y


@pytest.mark.parametrize("backend", BACKENDS)
def test_saved_output_that_is_written(backend: str) -> None:
    x = tensor(3)()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        gramme.compile(written_after, backend=backend)(x).sum().backward()


SCALES = {"k": 2.0}


class ReadsOutside(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * SCALES["k"]

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return g * SCALES["k"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_backward_reads_is_read_then(backend: str) -> None:
    x = tensor(3)()
    compiled = gramme.compile(lambda x: ReadsOutside.apply(x), backend=backend)
    for _ in range(2):
        y = compiled(x)
        SCALES["k"] = 3.0
        try:
            (g,) = torch.autograd.grad(y.sum(), x)
        finally:
            SCALES["k"] = 2.0
        torch.testing.assert_close(g, torch.full((3,), 3.0))


class SeenAs(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.view(1, 3)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return g.view(3) * 5


def view_of_an_intermediate_beside_it(x: torch.Tensor) -> Any:
    y = x * 1
    return SeenAs.apply(y), y


def argument_beside_its_view(x: torch.Tensor) -> Any:
    y = x * 1
    return Reversed.apply(y, 0.1), y


def view_of_a_view(x: torch.Tensor) -> Any:
    return Reversed.apply(x, 0.1).view(1, 3)


def view_that_stays_inside(x: torch.Tensor) -> Any:
    return SeenAs.apply(x * 1) * 2, SeenAs.apply(x)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "function",
    [view_of_an_intermediate_beside_it, argument_beside_its_view, view_of_a_view, view_that_stays_inside],
)
def test_views_keep_their_gradient(function: Callable[..., Any], backend: str) -> None:
    compiled = gramme.compile(function, backend=backend)
    want = outcome(function, [tensor(3)], False)
    for _ in range(2):
        assert_same(outcome(compiled, [tensor(3)], False), want, 1e-6)


# ---- transforms


class OwnRules(Function):
    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x.sin()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(g)

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: torch.Tensor) -> Any:
        return torch.zeros_like(x), 0

    @staticmethod
    def jvp(ctx: Any, t: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(t)


@pytest.mark.parametrize("backend", BACKENDS)
def test_transforms_take_the_rules_of_the_class(backend: str) -> None:
    compile_ = functools.partial(gramme.compile, backend=backend)
    x = tensor(3, grad=False)()
    zeros = torch.zeros(3)
    got = compile_(lambda x: torch.func.grad(lambda v: OwnRules.apply(v).sum())(x))(x)
    torch.testing.assert_close(got, zeros)
    torch.testing.assert_close(compile_(lambda x: torch.func.vmap(lambda v: OwnRules.apply(v))(x))(x), zeros)
    _, got = compile_(lambda x: torch.func.jvp(lambda v: OwnRules.apply(v), (x,), (torch.ones(3),)))(x)
    torch.testing.assert_close(got, zeros)


# ---- the graph


@pytest.mark.parametrize(
    "name",
    [
        "saved_tensor_and_attribute",
        "output_without_gradient",
        "argument_written",
        "setup_context",
        "differentiable_once",
        "function_in_functions",
        "nothing_to_differentiate",
        "argument_returned",
        "gradient_of_an_unused_argument",
        "needs_input_grad",
    ],
)
def test_graph_for_compilers(name: str) -> None:
    function, makers = PROGRAMS[name]
    shown, known = Shown(), Shown()
    gramme.compile(function, backend=shown, fullgraph=True)(*[make() for make in makers])
    torch.compile(function, backend=known, fullgraph=True)(*[make() for make in makers])
    assert shown.graphs == known.graphs


def test_examples_of_what_forward_keeps() -> None:
    """In a backward, an input that is no gradient has the example of what forward kept, not of another node."""

    class Kept(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.rows, ctx.doubles = x.sum(-1), (x * 2).double()
            return x * ctx.rows[:, None]

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            return gradient * ctx.rows[:, None] * ctx.doubles.float()

    def function(x: torch.Tensor) -> torch.Tensor:
        y = torch.zeros(5)
        for _ in range(8):
            y = y + 1
        return Kept.apply(x * 2) + y.sum()

    found: list[list[tuple[tuple[int, ...], torch.dtype]]] = []

    def backend(module: torch.fx.GraphModule, example_inputs: list[Any]) -> Any:
        assert all("example_value" in node.meta for node in module.graph.nodes if node.op == "placeholder")
        inputs = [node for node in module.bwd_body_0.graph.nodes if node.op == "placeholder"]
        examples = [node.meta["example_value"] for node in inputs]
        found.append([(tuple(each.shape), each.dtype) for each in examples])
        return module.forward

    gramme.compile(function, backend=backend)(tensor(2, 3)())
    assert found == [[((2, 3), torch.float32), ((2,), torch.float32), ((2, 3), torch.float64)]]


def test_sizes_that_vary() -> None:
    for backend in BACKENDS:
        compiled = gramme.compile(swish_without_memory, backend=backend, fullgraph=True, dynamic=True)
        for rows in (2, 5, 7, 4):
            makers = [tensor(rows, 3)]
            got, want = outcome(compiled, makers, False), outcome(swish_without_memory, makers, False)
            assert_same(got, want, 1e-5)


def test_forward_breaks() -> None:
    class Breaks(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            y = x.sin()
            gramme.graph_break()
            ctx.save_for_backward(x)
            return y * 2

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
            return g * 2 * ctx.saved_tensors[0].cos()

    for backend in BACKENDS:
        makers = [tensor(3)]
        got = outcome(gramme.compile(lambda x: Breaks.apply(x + 1) * 2, backend=backend), makers, False)
        want = outcome(lambda x: Breaks.apply(x + 1) * 2, makers, False)
        assert_same(got, want, 1e-6)


# ---- grad mode around a call that differentiates nothing


class InItsOwnMode(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> Any:
        with torch.enable_grad():
            y = x * 2
        return y.detach()

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        return g * 2


def behind_no_grad(x: torch.Tensor, w: torch.Tensor) -> Any:
    with torch.no_grad():
        k = x.sum()
    return (PlusOne.apply(x) + k) * w


def before_no_grad(x: torch.Tensor, w: torch.Tensor) -> Any:
    y = PlusOne.apply(x)
    with torch.no_grad():
        k = y.sum()
    return y * w, k


def between_two(x: torch.Tensor, w: torch.Tensor) -> Any:
    with torch.no_grad():
        k = x.sum()
    y = PlusOne.apply(PlusOne.apply(x))
    with torch.no_grad():
        k = k + y.sum()
    return y * w, k


def enabled_inside(x: torch.Tensor, w: torch.Tensor) -> Any:
    with torch.no_grad():
        with torch.enable_grad():
            pass
        with torch.enable_grad():
            y = PlusOne.apply(x)
        k = w * 2
    return y * w, k


def in_its_own_mode(x: torch.Tensor, w: torch.Tensor) -> Any:
    y = InItsOwnMode.apply(x)
    z = w - x
    print(end="")
    return y * w, z, torch.is_grad_enabled()


@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
@pytest.mark.parametrize(
    "function", [behind_no_grad, before_no_grad, between_two, enabled_inside, in_its_own_mode], ids=lambda f: f.__name__
)
def test_grad_mode_around(function: Any, backend: str) -> None:
    def outcome(call: Any) -> Any:
        x, w = torch.arange(3.0), torch.ones(3, requires_grad=True)
        result = call(x, w)
        parts = result if isinstance(result, tuple) else (result,)
        tensors = [part for part in parts if isinstance(part, torch.Tensor)]
        sum(t.sum() for t in tensors if t.requires_grad).backward()
        seen = [(t.tolist(), t.requires_grad) for t in tensors]
        return seen, parts[-1] is True, w.grad.tolist(), torch.is_grad_enabled()

    compiled = gramme.compile(function, backend=backend)
    assert [outcome(compiled) for _ in range(3)] == [outcome(function)] * 3
