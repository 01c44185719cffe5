"""Where graphs run as they are, an operation is the program's own: its dtypes, bits, checks and names.

Compilers get the form that PyTorch's front end has: rows of a tensor as subscripts, torch.full as empty and fill_,
torch.tensor of tensors by operators, addcdiv as a product.
"""

from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch

EXECUTORS = ["eager", "native"]

KINDS: dict[str, Callable[[], torch.Tensor]] = {
    "float": lambda: torch.tensor(2.5),
    "double": lambda: torch.tensor(2.5, dtype=torch.float64),
    "half": lambda: torch.tensor(2.5, dtype=torch.float16),
    "bfloat16": lambda: torch.tensor(2.5, dtype=torch.bfloat16),
    "int": lambda: torch.tensor(2),
    "int8": lambda: torch.tensor(2, dtype=torch.int8),
    "uint8": lambda: torch.tensor(200, dtype=torch.uint8),
    "bool": lambda: torch.tensor(True),
    "complex": lambda: torch.tensor(1 + 2j),
    "needs a gradient": lambda: torch.tensor(2.5, requires_grad=True),
    "one element": lambda: torch.tensor([2.5]),
    "two elements": lambda: torch.tensor([2.5, 3.5]),
    "parameter": lambda: torch.nn.Parameter(torch.tensor(2.5)),
    "infinite": lambda: torch.tensor(float("inf")),
    "large": lambda: torch.tensor(1e30, dtype=torch.float64),
    "too large": lambda: torch.tensor(1e300, dtype=torch.float64),
}

CALLS: dict[str, Callable[[torch.Tensor], Any]] = {
    "full": lambda t: torch.full((2,), t),
    "full by names": lambda t: torch.full(size=(2,), fill_value=t),
    "full with a name": lambda t: torch.full((2,), fill_value=t),
    "full by names in another order": lambda t: torch.full(dtype=torch.float64, fill_value=t, size=(2,)),
    "full given twice": lambda t: torch.full((2,), t, fill_value=t),
    "full of no size": lambda t: torch.full(fill_value=t),
    "full of a dtype": lambda t: torch.full((2,), t, dtype=torch.uint8),
    "full of half": lambda t: torch.full((2,), t, dtype=torch.float16),
    "full with gradients": lambda t: torch.full((2,), t, dtype=torch.float32, requires_grad=True),
    "full_like": lambda t: torch.full_like(torch.ones(2), t),
    "new_full": lambda t: torch.ones(2).new_full((2,), t),
    "addcdiv": lambda t: torch.addcdiv(torch.linspace(0, 1, 9), torch.ones(9) / 3, torch.linspace(1, 2, 9), value=t),
    "addcdiv_": lambda t: torch.linspace(0, 1, 9).addcdiv_(torch.ones(9) / 3, torch.linspace(1, 2, 9), value=t),
    "addcmul": lambda t: torch.addcmul(torch.ones(3), torch.ones(3) / 3, torch.ones(3) / 7, value=t),
    "add with alpha": lambda t: torch.add(torch.ones(3), torch.ones(3) / 3, alpha=t),
    "tensor of one": lambda t: torch.tensor([t]),
    "tensor of two": lambda t: torch.tensor([t, t * 2]),
    "tensor of one and a number": lambda t: torch.tensor([t, 1]),
    "tensor of one and a float": lambda t: torch.tensor([t, 1.5]),
    "tensor of ints": lambda t: torch.tensor([t], dtype=torch.int64),
    "tensor of bools": lambda t: torch.tensor([t], dtype=torch.bool),
    "tensor of complex": lambda t: torch.tensor([t, 1j]),
    "tensor that needs a gradient": lambda t: torch.tensor([t, t], requires_grad=True),
    "nested": lambda t: torch.tensor([[t, t], [t, t]]),
    "ragged": lambda t: torch.tensor([[t, t], [t]]),
    "tensor of a tuple": lambda t: torch.tensor((t, t)),
    "new_tensor": lambda t: torch.ones(1, dtype=torch.float64).new_tensor([t, t]),
}


def outcome(call: Callable[[], Any]) -> Any:
    try:
        result = call()
    except Exception as error:
        return type(error), str(error).splitlines()[0]
    return result.dtype, result.tolist().__repr__(), result.requires_grad, result.is_leaf, tuple(result.shape)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", EXECUTORS)
@pytest.mark.parametrize("name", CALLS)
def test_calls_on_kinds_of_tensors(name: str, backend: str) -> None:
    call = CALLS[name]
    for kind, make in KINDS.items():
        compiled = gramme.compile(call, backend=backend)
        for _ in range(2):
            value, twin = make(), make()
            assert outcome(lambda: compiled(value)) == outcome(lambda: call(twin)), kind  # noqa: B023


@pytest.mark.parametrize("name", ["full", "full with a name", "full by names", "full by names in another order"])
def test_compilers_get_one_graph(name: str) -> None:
    graphs: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        graphs.append(graph)
        return graph.forward

    gramme.compile(lambda t: CALLS[name](t * 1) + 1, backend=backend, fullgraph=True)(torch.tensor(2.0))
    assert len(graphs) == 1


@pytest.mark.parametrize("backend", EXECUTORS)
def test_the_number_is_read_at_each_call(backend: str) -> None:
    x, a, b = torch.randn(500), torch.randn(500), torch.randn(500)

    def f(t: torch.Tensor) -> Any:
        return torch.full((3,), t), torch.addcdiv(x, a, b, value=t), torch.tensor([t, t])

    compiled = gramme.compile(f, backend=backend)
    for n in (0.3, 0.7, 1.1, -2.0):
        for found, wanted in zip(compiled(torch.tensor(n)), f(torch.tensor(n)), strict=True):
            assert torch.equal(found, wanted)


# Rows of a tensor.


def write_rows(x: torch.Tensor) -> Any:
    for row in x[:4]:
        row.mul_(2)
    return x


def write_rows_around_a_break(x: torch.Tensor) -> Any:
    for i, row in enumerate(x):
        row += 1
        if i == 1:
            torch._dynamo.graph_break()
    return x


def write_the_tensor(x: torch.Tensor) -> Any:
    for row in x:
        x.mul_(row.sum())
    return x


def unpack(x: torch.Tensor) -> Any:
    a, b = x
    a.mul_(2)
    return x


def unpack_starred(x: torch.Tensor) -> Any:
    a, *_ = x
    x.add_(1)
    return a * 2


def in_a_list(x: torch.Tensor) -> Any:
    rows = list(x)
    x.add_(1)
    return rows[0] * 2


def zipped(x: torch.Tensor) -> Any:
    return sum(a * b for a, b in zip(x, x, strict=True))


def starred(x: torch.Tensor) -> Any:
    return torch.stack([*x, *reversed(x)])


def computed(x: torch.Tensor) -> Any:
    return sum(row.sin() * i for i, row in enumerate(x))


def mapped(x: torch.Tensor) -> Any:
    return torch.stack(tuple(map(torch.cos, x)))


ROWS = [
    write_rows,
    write_rows_around_a_break,
    write_the_tensor,
    unpack,
    unpack_starred,
    in_a_list,
    zipped,
    starred,
    computed,
    mapped,
]


def rows_of(function: Callable[..., Any], x: torch.Tensor) -> Any:
    try:
        y = function(x * 1)
    except RuntimeError as error:
        return str(error)
    name = y.grad_fn.name() if y.requires_grad else None
    gradient = torch.autograd.grad(y.sum(), x)[0].tolist() if y.requires_grad else None
    return y.tolist(), gradient, name


@pytest.mark.parametrize("backend", EXECUTORS)
@pytest.mark.parametrize("function", ROWS, ids=lambda function: function.__name__)
def test_rows_of_a_tensor(function: Callable[..., Any], backend: str) -> None:
    for order in ((False, True, True), (True, False, True)):
        compiled = gramme.compile(function, backend=backend)
        for needs in order:
            x = torch.arange(1.0, 3.0).requires_grad_(needs)
            assert rows_of(compiled, x) == rows_of(function, x)
        matrix = torch.arange(6.0).reshape(2, 3).requires_grad_()
        assert rows_of(compiled, matrix) == rows_of(function, matrix)


@pytest.mark.parametrize("backend", EXECUTORS)
def test_rows_are_views_of_one_call(backend: str) -> None:
    def f(x: torch.Tensor) -> Any:
        a, b = x
        return a, b

    a, b = gramme.compile(f, backend=backend)(torch.ones(2, 3, requires_grad=True) * 1)
    assert type(a.grad_fn).__name__ == "UnbindBackward0"
    assert a.grad_fn is b.grad_fn


@pytest.mark.parametrize("backend", EXECUTORS)
def test_no_rows_and_no_dimensions(backend: str) -> None:
    def count(x: torch.Tensor) -> Any:
        return x + 1, sum(1 for _ in x)

    compiled = gramme.compile(count, backend=backend)
    for rows in (0, 3, 5, 0, 1):
        assert compiled(torch.ones(rows, 2))[1] == rows
    with pytest.raises(TypeError, match="iteration over a 0-d tensor"):
        compiled(torch.tensor(1.0))


def test_compilers_get_subscripts() -> None:
    code: list[str] = []

    def backend(module: torch.fx.GraphModule, _: Any) -> Any:
        code.append(module.code)
        return module.forward

    gramme.compile(computed, backend=backend)(torch.ones(2))
    assert "unbind" not in code[0]
    assert "l_x_[0]" in code[0]


# str.format

TEMPLATES = [
    "{} {}", "{0} {1}", "{} {0}", "{0} {}", "{n} {}", "{} {n}", "{n} {0} {}", "{0[0]} {}", "{.real} {0}", "{:{}}",
    "{:{0}}", "{0:{}}", "{0:{1}}", "{", "}", "{{}}", "{{{}}}", "{}}", "{{}", "{0", "{!r}", "{!x}", "{!}", "{0!r:>5}",
    "{:>{n}}", "{a b}", "{0.}", "{0[}", "{0[]}", "{0]}", "{-1}", "{00}", "{ 0}", "{0 }", "{99}", "{1.real}",
    "{:{:{}}}", "{n.real}", "{n[0]}", "{:%}", "{:d}", "{:s}", "{:,}", "{:q}", "{0!s:d}",
]  # fmt: skip


@pytest.mark.parametrize("template", TEMPLATES)
def test_templates(template: str) -> None:
    def f(x: torch.Tensor, a: int, b: int, n: int) -> Any:
        return x + 1, template.format(a, b, n=n)

    def g(x: torch.Tensor, a: int, b: int, n: int) -> Any:
        return x + 1, template.format_map({"n": n, "a b": a})

    def result(function: Any) -> Any:
        try:
            return function(torch.ones(1), 3, 4, 5)[1]
        except Exception as error:
            return type(error), str(error)

    for function in (f, g):
        assert result(gramme.compile(function, backend="eager")) == result(function)


PERCENT = [
    "%s %s", "%d %x", "%(n)s %(n)d", "%s", "%s %s %s", "%", "%%", "%q %s", "%5.2f %-5d|", "%*d", "%.*f", "%(n", "%(n)",
    "%c %c", "%r %a", "%i %u", "%e %G", "%+d % d", "%#x %#o", "%hd %lld", "%05d %5s", "%.3s %s", "%(n)s %s",
]  # fmt: skip


@pytest.mark.parametrize("template", PERCENT)
def test_percent(template: str) -> None:
    def f(x: torch.Tensor, a: int, b: int) -> Any:
        return x + 1, template % (a, b)

    def g(x: torch.Tensor, a: int, b: int) -> Any:
        return x + 1, template % {"n": a}

    def result(function: Any) -> Any:
        try:
            return function(torch.ones(1), 3, 4)[1]
        except Exception as error:
            return type(error), str(error)

    for function in (f, g):
        assert result(gramme.compile(function, backend="eager")) == result(function)
