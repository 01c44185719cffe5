"""torch.jit.trace of what was compiled: while it writes down what the thread computes, everything runs plainly."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

from e2e import front


def traced(function: Callable[..., Any], *inputs: torch.Tensor) -> torch.jit.ScriptFunction:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.trace(function, inputs)


def operators(graph: torch.Graph) -> list[str]:
    return [node.kind() for node in graph.nodes()]


def sizes(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + x.shape[0]


def writes(x: torch.Tensor) -> torch.Tensor:
    y = torch.zeros_like(x)
    y[0] = x.sum()
    return y


def breaks(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    front.graph_break()
    return y + 1


@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("function", [sizes, writes, breaks])
def test_of_a_function(function: Callable[..., Any], warm: bool, backend: str) -> None:
    x = torch.arange(3.0)
    compiled = front.compile(function, backend=backend)
    if warm:
        compiled(x)
    made, plain = traced(compiled, x), traced(function, x)
    assert operators(made.graph) == operators(plain.graph)
    for _ in range(2):
        assert torch.equal(made(x + 1), plain(x + 1))
        assert torch.equal(compiled(x + 2), function(x + 2))


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("warm", [False, True])
def test_of_a_module(warm: bool, backend: str) -> None:
    module, x = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU()), torch.ones(2, 3)
    compiled = front.compile(module, backend=backend)
    if warm:
        compiled(x)
    made = traced(compiled, x)
    assert torch.equal(made(x * 2), module(x * 2))
    assert torch.equal(compiled(x * 3), module(x * 3))


def test_a_compiled_part_of_what_is_traced() -> None:
    part = front.compile(sizes, backend="native")
    x = torch.ones(3)
    part(x)
    made = traced(lambda x: part(x * 2) + 1, x)
    assert torch.equal(made(x + 1), sizes((x + 1) * 2) + 1)


def test_calls_while_tracing_leave_no_mark() -> None:
    """They are no captures, so they count for no limit of them."""
    compiled = front.compile(sizes, backend="eager", fullgraph=True)
    for n in range(2, 14):
        torch.jit.trace(compiled, torch.ones(n), check_trace=False)
    assert torch.equal(compiled(torch.ones(2)), sizes(torch.ones(2)))
