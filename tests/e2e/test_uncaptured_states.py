"""Calls that cannot be captured for the state of their arguments or of the thread: later ones are."""

import contextlib
import warnings
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from torch.autograd import forward_ad

from e2e.against_eager import BACKENDS


def function(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * 2


def dual(call: Callable[..., Any]) -> Any:
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(call(forward_ad.make_dual(torch.ones(2), torch.full((2,), 3.0))))


def primal_in_a_level(call: Callable[..., Any]) -> Any:
    with forward_ad.dual_level():
        return call(torch.ones(2))


def under_function_mode(call: Callable[..., Any]) -> Any:
    with torch.device("cpu"):
        return call(torch.ones(2))


def under_vmap(call: Callable[..., Any]) -> Any:
    return torch.vmap(call)(torch.ones(2, 2))


def under_jvp(call: Callable[..., Any]) -> Any:
    return torch.func.jvp(call, (torch.ones(2),), (torch.ones(2),))


def nested_tensor(call: Callable[..., Any]) -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*nested tensors")
        return call(torch.nested.nested_tensor([torch.ones(1), torch.ones(2)])).to_padded_tensor(0.0)


@pytest.mark.parametrize("before", [dual, primal_in_a_level, under_function_mode, under_vmap, under_jvp, nested_tensor])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.filterwarnings("error:gramme")
def test_later_calls_are_captured(before: Callable[..., Any], backend: str) -> None:
    compiled = gramme.compile(function, backend=backend)
    for _ in range(4):
        assert str(before(compiled)) == str(before(function))
    captures = gramme.statistics(compiled).captures
    for size in (3, 4, 3):
        assert torch.equal(compiled(torch.ones(size)), function(torch.ones(size)))
    counts = gramme.statistics(compiled)
    assert counts.captures == captures + 2
    assert counts.segments == 2
    assert str(before(compiled)) == str(before(function))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_level_entered_by_the_program(backend: str) -> None:
    def tangents(x: torch.Tensor) -> Any:
        y = x * 3
        with forward_ad.dual_level():
            parts = forward_ad.unpack_dual(function(forward_ad.make_dual(y, torch.ones_like(y))))
            tangent = parts.tangent.clone()
        return tangent + 1

    compiled = gramme.compile(tangents, backend=backend)
    for size in (2, 2, 3):
        assert torch.equal(compiled(torch.ones(size)), tangents(torch.ones(size)))


def test_a_graph_that_the_backend_refuses_does_not_stop_others() -> None:
    graphs = []

    def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        if inputs[0].shape[0] < 4:
            raise torch._dynamo.exc.SkipFrame("too small")
        graphs.append(module)
        return module

    compiled = gramme.compile(function, backend=backend, dynamic=False)
    for size in (1, 1, 2, 3, 3, 4, 5, 4):
        assert torch.equal(compiled(torch.ones(size)), function(torch.ones(size)))
    assert len(graphs) == 2
    assert gramme.statistics(compiled).captures == 5


def test_under_fullgraph() -> None:
    compiled = gramme.compile(function, backend="eager", fullgraph=True)
    for before in (dual, under_function_mode):
        assert str(before(compiled)) == str(before(function))
    with contextlib.suppress(gramme.errors.CaptureError):
        nested_tensor(compiled)
    assert torch.equal(compiled(torch.ones(3)), function(torch.ones(3)))
    assert gramme.statistics(compiled).segments == 1
