"""Graphs of any sizes in the hands of backends: what they get, what they assume, what comes of it at other sizes."""

from collections.abc import Callable
from functools import partial
from typing import Any

import gramme
import pytest
import torch
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
from torch.nn import functional as F

BACKENDS = ["eager", "aot_eager", "native"]
ALL = [*BACKENDS, pytest.param("inductor", marks=pytest.mark.slow)]
pytestmark = pytest.mark.usefixtures("one_thread")
SIZES = (7, 10, 12, 9, 1, 64, 2, 3, 5, 16)

Program = tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]]]


def t(*sizes: int) -> torch.Tensor:
    return torch.linspace(-1, 1, torch.Size(sizes).numel()).view(sizes)


def written(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.add_(y)
    return x * 2


def window(x: torch.Tensor, k: int) -> torch.Tensor:
    return x[:k] * k + torch.ones(k, x.shape[1])


def halves(x: torch.Tensor) -> torch.Tensor:
    half = x.shape[0] // 2
    return torch.cat([x[half:], x[:half]]) * half


def counted(x: torch.Tensor) -> tuple[torch.Tensor, int]:
    return x.sum() / x.numel(), x.numel() + 1


def norm(x: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, (x.shape[-1],)).softmax(0)


PROGRAMS: dict[str, Program] = {
    "one": (lambda x: x.sin() * 2, lambda n: (t(n),)),
    "two": (lambda x, y: x @ y, lambda n: (t(n, n + 3), t(n + 3, 4))),
    "three": (lambda x: x.permute(2, 0, 1).contiguous().view(x.shape[2], -1), lambda n: (t(n, n + 1, n + 2),)),
    "shared": (lambda x, y: (x * y).sum(1), lambda n: (t(n, 4), t(n, 4) + 1)),
    "transposed": (lambda x: x + 1, lambda n: (t(4, n).t(),)),
    "part of another": (lambda x: x.exp(), lambda n: (t(2 * n + 3, 5)[2 : n + 2, 1:4],)),
    "every other": (lambda x: x.relu(), lambda n: (t(2 * n, 4)[::2],)),
    "an int too": (window, lambda n: (t(n + 1, 4), n)),
    "a written input": (written, lambda n: (t(n, 4), t(n, 4))),
    "a written part": (written, lambda n: (t(2 * n, 4)[n:], t(n, 4))),
    "halves": (halves, lambda n: (t(n, 4),)),
    "numbers out": (counted, lambda n: (t(n, 4),)),
    "reshaped": (lambda x: x.reshape(x.shape[0] * x.shape[1], -1).t(), lambda n: (t(n, 3, 4),)),
    "norm": (norm, lambda n: (t(n, 4),)),
    "broadcast": (lambda x, y: x[:, None] + y, lambda n: (t(n), t(n + 2))),
}


def strides(tensor: torch.Tensor) -> list[int]:
    """Of dimensions in which one can step; Inductor gives the others strides of its own."""
    return [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]


def difference(actual: Any, expected: Any, exact: bool) -> str:
    if type(actual) is not type(expected):
        return f"{type(actual)} for {type(expected)}"
    if isinstance(expected, torch.Tensor):
        if (actual.shape, strides(actual)) != (expected.shape, strides(expected)):
            return f"{actual.shape}, {actual.stride()} for {expected.shape}, {expected.stride()}"
        close = torch.equal if exact else partial(torch.allclose, atol=1e-5)
        return "" if close(actual, expected) else "other values"
    if isinstance(expected, tuple):
        return "".join(map(partial(difference, exact=exact), actual, expected))
    return "" if actual == expected else f"{actual} for {expected}"


@pytest.mark.parametrize("dynamic", [True, None], ids=["all", "automatic"])
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("backend", ALL)
def test_any_size(backend: str, name: str, dynamic: bool | None) -> None:
    function, make = PROGRAMS[name]
    compiled = gramme.compile(function, backend=backend, dynamic=dynamic)
    for size in SIZES:
        ours, theirs = make(size), make(size)
        exact = backend in ("eager", "native")
        found = difference(compiled(*ours), function(*theirs), exact) + difference(ours, theirs, exact)
        assert not found, f"at {size}: {found}"
    statistics = gramme.statistics(compiled)
    assert statistics.captures <= (4 if dynamic else 5), gramme.explain(compiled)


@pytest.mark.parametrize("name", PROGRAMS)
def test_native_records_once(name: str) -> None:
    function, make = PROGRAMS[name]
    compiled = gramme.compile(function, backend="native", dynamic=True)
    for size in (7, 10, 12, 9):
        compiled(*make(size))
    (segment,) = gramme._C.segments(gramme._compile.entry_of(compiled))
    counters = gramme._C.native.counters(segment["native"])
    assert (counters["calls"], counters["recorded"], counters["stepwise"]) == (4, 1, 0)


def test_numbers_that_are_nobodys_size_leave_tapes_as_they_are() -> None:
    def f(x: torch.Tensor, k: int) -> torch.Tensor:
        return (x.view(3, 2)[1:] + 1).t() * k

    compiled = gramme.compile(f, backend="native")
    for k in (2, 3, 4, 5):
        assert torch.equal(compiled(t(6), k), f(t(6), k))
    tapes = [gramme._C.native.tape(s["native"]) for s in gramme._C.segments(gramme._compile.entry_of(compiled))]
    assert not any("s0" in tape for tape in tapes)


# What backends get.


class Affine(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale + x.shape[0]


TEXTS: dict[str, Program] = {
    "two of one size": (lambda x, y: x.sin() + y * 2, lambda n: (torch.ones(n, 3), torch.ones(n, 3))),
    "a view": (lambda x: x.view(x.shape[0] * 2, -1), lambda n: (torch.ones(n, 4),)),
    "an int and a slice": (lambda x, k: x[:k] * k, lambda n: (torch.ones(n + 1, 4), n)),
    "a stride": (lambda x: x + 1, lambda n: (torch.empty_strided((n, 3), (5, 1)).zero_(),)),
    "sizes of two": (lambda x, y: x.mul(y.shape[0] + 1) + y.sum(), lambda n: (torch.ones(n, 4), torch.ones(n + 2))),
    "a parameter": (Affine(), lambda n: (torch.ones(n, 5),)),
}


class Look:
    """A compiler that notes what it is given."""

    def __init__(self, compile_: Callable[[Any, Any], Any] = lambda graph, _: graph.forward) -> None:
        self.compile = compile_
        self.found: list[Any] = []

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        nodes = graph.graph.find_nodes(op="placeholder")
        given = [(type(i), i.shape if isinstance(i, torch.Tensor) else str(i)) for i in inputs]
        examples = [str(node.meta.get("example_value")) for node in nodes]
        places = [(n.name, n.target, n.type, n._dynamo_source.name) for n in nodes if hasattr(n, "_dynamo_source")]
        self.found.append([graph.code, given, examples, places])
        return self.compile(graph, inputs)


@pytest.mark.parametrize("name", TEXTS)
def test_graphs_equal_torch_dynamos(name: str) -> None:
    function, make = TEXTS[name]
    looks = Look(), Look()
    torch._dynamo.reset()
    torch.compile(function, backend=looks[0], dynamic=True)(*make(7))
    gramme.compile(function, backend=looks[1], dynamic=True)(*make(7))
    assert looks[0].found == looks[1].found


def test_a_compiler_that_looks_at_a_size() -> None:
    def compile_(graph: Any, inputs: list[Any]) -> Any:
        size = int(inputs[0]) if isinstance(inputs[0], torch.SymInt) else None
        return lambda *args: graph(*args) if size in (None, args[0]) else None

    compiled = gramme.compile(lambda x: x + 1, backend=Look(compile_), dynamic=True)
    for n in (7, 5, 7, 3):
        assert compiled(t(n)).shape == (n,)
    assert gramme.statistics(compiled).captures == 3


def test_a_compiler_that_branches_on_sizes() -> None:
    def compile_(graph: Any, inputs: list[Any]) -> Any:
        if inputs[0] * inputs[1] <= 64:
            return lambda *args: graph(*args) if args[0] * args[1] <= 64 else None
        return graph.forward

    compiled = gramme.compile(lambda x: x * 2, backend=Look(compile_), dynamic=True)
    for n in (5, 7, 3, 9, 33, 8, 9):
        assert torch.equal(compiled(t(n, n + 1)), t(n, n + 1) * 2)
    assert gramme.statistics(compiled).captures == 2


def test_what_no_guard_can_say_makes_constants() -> None:
    """Logarithms are not among what expressions are made by."""

    def compile_(graph: Any, inputs: list[Any]) -> Any:
        if isinstance(inputs[0], torch.SymInt):
            assert torch._sym_log2(inputs[0]) < 100
        return graph.forward

    compiled = gramme.compile(lambda x: x * 2, backend=Look(compile_), dynamic=True)
    for n in (5, 7, 5):
        assert torch.equal(compiled(t(n)), t(n) * 2)
    assert gramme.statistics(compiled).captures == 2


OF_ITS_OWN = Look(aot_autograd(fw_compiler=lambda graph, _: make_boxed_func(graph.forward)))


@pytest.mark.parametrize("backend", ["aot_eager", OF_ITS_OWN], ids=["named", "callable"])
def test_floats_are_constants_where_sizes_vary(backend: Any) -> None:
    compiled = gramme.compile(lambda x, k: x * k, backend=backend)
    for n, k in ((4, 0.5), (5, 1.5), (6, 2.5), (7, 2.5), (8, 2.5)):
        torch.testing.assert_close(compiled(t(n), k), t(n) * k)


NARROW: dict[str, Callable[[torch.Tensor], Any]] = {
    "filled": lambda x: torch.zeros(2, dtype=torch.uint8).fill_(x.shape[0]),
    "made": lambda x: torch.full((2,), x.shape[0] + 100, dtype=torch.int8),
    "dropped": lambda x: torch.zeros(2, dtype=torch.int16).__setitem__(0, x.shape[0] * 1000),
    "scaled": lambda x: torch.add(torch.ones(2, dtype=torch.int8), 1, alpha=x.shape[0]),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", NARROW)
def test_a_size_that_a_dtype_cannot_hold(name: str, backend: str) -> None:
    compiled = gramme.compile(NARROW[name], backend=backend, dynamic=True)
    for n in (20, 21, 300, 20):
        seen = []
        for run in (compiled, NARROW[name]):
            try:
                result = run(t(n))
                seen.append(result.tolist() if isinstance(result, torch.Tensor) else result)
            except RuntimeError as error:
                seen.append(str(error))
        assert seen[0] == seen[1]


def test_sizes_of_narrow_tensors_vary() -> None:
    compiled = gramme.compile(lambda x: x.view(x.shape[0] * 2, -1) + 1, backend="aot_eager", dynamic=True)
    for n in (3, 5, 400):
        x = torch.ones(n, 4, dtype=torch.uint8)
        assert torch.equal(compiled(x), x.view(n * 2, -1) + 1)
    assert gramme.statistics(compiled).captures == 1


def test_results_are_checked_with_numbers_for_sizes() -> None:
    with torch._dynamo.config.patch(verify_correctness=True):
        compiled = gramme.compile(halves, backend="aot_eager", dynamic=True)
        for n in (6, 9):
            torch.testing.assert_close(compiled(t(n, 4)), halves(t(n, 4)))


# Gradients.


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.view(x.shape[0] * x.shape[1], -1)
        result: torch.Tensor = self.second(self.first(rows).relu()).view(x.shape[0], x.shape[1], 4).mean(1)
        return result


@pytest.mark.parametrize("backend", ALL)
def test_gradients_at_other_sizes(backend: str) -> None:
    torch.manual_seed(0)
    net = Net()
    compiled = gramme.compile(net, backend=backend, dynamic=True)
    for n in (7, 5, 12, 2, 7):
        found: list[list[Any]] = []
        for run in (compiled, net):
            x = t(n, n + 1, 6).requires_grad_()
            net.zero_grad()
            run(x).square().sum().backward()
            found.append([x.grad, *(p.grad.clone() for p in net.parameters() if p.grad is not None)])
        for ours, theirs in zip(*found, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert gramme.statistics(compiled).captures <= 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_leaf_with_a_gradient_from_before(backend: str) -> None:
    compiled = gramme.compile(lambda w: (w * w.shape[0]).sum(), backend=backend, dynamic=True)
    for n in (5, 8, 3):
        ours, theirs = t(n, 4).requires_grad_(), t(n, 4).requires_grad_()
        for leaf, run in ((ours, compiled), (theirs, lambda w: (w * w.shape[0]).sum())):
            leaf.grad = torch.ones(n, 4)
            run(leaf).backward()
        assert ours.grad is not None
        assert theirs.grad is not None
        assert torch.equal(ours.grad, theirs.grad)
    assert gramme.statistics(compiled).captures == 1


@pytest.mark.slow
def test_kernels_of_inductor_for_small_tensors_are_not_used_for_large_ones() -> None:
    compiled = gramme.compile(lambda x: (x * 2).sum(0), backend="inductor", dynamic=True)
    for n in (9, 200, 5000, 9):
        torch.testing.assert_close(compiled(t(n, 40)), (t(n, 40) * 2).sum(0), rtol=1e-3, atol=1e-3)
    conditions = [g for s in gramme._C.segments(gramme._compile.entry_of(compiled)) for g in s["guards"] if "<=" in g]
    assert conditions
    assert gramme.statistics(compiled).captures == 2
