"""Inputs and outputs that share memory: right however they lie to each other now, whatever it was at capture."""

import itertools
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func

from backends.support import ALL, QUICK, check

Make = Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]

# Two tensors of six elements each; all from one row of ten unless they say otherwise.
PAIRS: dict[str, Make] = {
    "apart": lambda s: (s, s.clone()),
    "disjoint": lambda s: (s[0:4], s[6:10]),
    "overlapping": lambda s: (s[0:4], s[2:6]),
    "overlapping more": lambda s: (s[1:5], s[2:6]),
    "overlapping backwards": lambda s: (s[2:6], s[0:4]),
    "overlapping, moved": lambda s: (s[4:8], s[6:10]),
    "the same": lambda s: (s[0:4],) * 2,
    "the same memory": lambda s: (s[0:4], s[0:4]),
    "interleaved": lambda s: (s.view(5, 2)[:4, 0], s.view(5, 2)[:4, 1]),
    "detached": lambda s: (s[0:4], s[0:4].detach()),
}


def write_then_read(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    a.add_(1)
    return b * 2


def write_both(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    a.mul_(2)
    b.add_(1)
    return a + b


def write_through_a_view(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    view = a[1:]
    view.add_(1)
    return view, b * 2


@pytest.mark.parametrize("backend", QUICK)
@pytest.mark.parametrize("function", [write_then_read, write_both, write_through_a_view])
@pytest.mark.parametrize("first", PAIRS)
def test_captured_with_one_pair_and_called_with_another(first: str, function: Any, backend: str) -> None:
    compiled = gramme.compile(function, backend=backend, recompile_limit=20)
    for name in (first, *PAIRS, first):
        ours, theirs = torch.arange(10.0), torch.arange(10.0)
        actual, expected = compiled(*PAIRS[name](ours)), function(*PAIRS[name](theirs))
        torch.testing.assert_close(actual, expected, rtol=0, atol=0)
        assert torch.equal(ours, theirs), name


@pytest.mark.slow
@pytest.mark.parametrize(("first", "then"), [("disjoint", "overlapping"), ("overlapping", "overlapping more")])
def test_the_same_with_inductor(first: str, then: str) -> None:
    compiled = gramme.compile(write_then_read)
    for name in (first, then, "the same", first):
        ours, theirs = torch.arange(10.0), torch.arange(10.0)
        assert torch.equal(compiled(*PAIRS[name](ours)), write_then_read(*PAIRS[name](theirs)))
        assert torch.equal(ours, theirs), name


def alike(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.sin() + 1, x.sin() + 1


@pytest.mark.parametrize("backend", ALL)
def test_outputs_computed_alike_are_two_tensors(backend: str) -> None:
    x = torch.ones(3, requires_grad=True)
    compiled = gramme.compile(alike, backend=backend)
    for _ in range(2):
        first, second = compiled(x)
        expected = second.detach().clone()
        with torch.no_grad():
            first.add_(1)
        assert torch.equal(second.detach(), expected)


def views_of_an_input(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x[1:], x.view(-1), x, x.t()[0]


def views_of_a_result(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x * 2
    return y, y[0], y.t(), y


@pytest.mark.parametrize("backend", ALL)
@pytest.mark.parametrize("function", [views_of_an_input, views_of_a_result])
@pytest.mark.parametrize("grad", [False, True])
def test_outputs_share_memory_as_in_eager(function: Any, grad: bool, backend: str) -> None:
    def shares(x: torch.Tensor, results: tuple[torch.Tensor, ...]) -> list[bool]:
        pairs = itertools.combinations((x, *results), 2)
        return [a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr() for a, b in pairs]

    compiled = check(function, lambda: (torch.ones(3, 2, requires_grad=grad),), backend)
    x = torch.ones(3, 2, requires_grad=grad)
    actual = compiled(x)
    assert shares(x, actual) == shares(x, function(x))
    assert [a is x for a in actual] == [e is x for e in function(x)]
    assert [a is actual[0] for a in actual] == [e is actual[0] for e in actual]


@pytest.mark.parametrize("backend", QUICK)
def test_one_tensor_under_two_names(backend: str) -> None:
    def f(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.mul_(3)
        return a + b

    check(f, lambda: (torch.ones(2),) * 2, backend)


def test_guards_of_written_inputs_grow_with_their_number() -> None:
    """Batch norm writes three buffers a layer: one check for all inputs, not one for each pair."""

    def guards(layers: int) -> int:
        model = torch.nn.Sequential(*[torch.nn.BatchNorm1d(2) for _ in range(layers)])
        return len(gramme.explain(model)(torch.ones(3, 2)).segments[0].guards)

    few, more, most = guards(2), guards(12), guards(22)
    assert most - more <= (more - few) * 1.1


def test_inputs_that_overlap_unwritten_are_compiled() -> None:
    made: list[int] = []

    def compiler(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        made.append(len(inputs))
        return make_boxed_func(graph.forward)

    def f(a: torch.Tensor, b: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
        total.add_(1)
        return a + b + total

    compiled = gramme.compile(f, backend=aot_autograd(fw_compiler=compiler))
    s, total = torch.arange(6.0), torch.zeros(4)
    assert torch.equal(compiled(s[:4], s[2:], total), s[:4] + s[2:] + 1)
    assert made == [3]
    statistics = gramme.statistics(compiled)
    assert torch.equal(compiled(s[:4], s[1:5], total), s[:4] + s[1:5] + 2)
    assert statistics.captures == gramme.statistics(compiled).captures
    ours, theirs = torch.arange(6.0), torch.arange(6.0)
    assert torch.equal(compiled(ours[:4], ours[2:], ours[1:5]), f(theirs[:4], theirs[2:], theirs[1:5]))
    assert torch.equal(ours, theirs)
