"""Leaf functions: called as they are where the graph runs, with eager's gradients and effects."""

from typing import Any

import gramme
import pytest
import torch
from torch._dynamo.decorators import leaf_function

from e2e.front import GRAMME

pytestmark = pytest.mark.skipif(not GRAMME, reason="asks for gramme's graphs")

BACKENDS = ["eager", "native", "aot_eager"]
seen: list[float] = []


@leaf_function
def noted(x: torch.Tensor, options: dict[str, Any], *, k: float) -> Any:
    seen.append(float(x.sum()))
    return {"a": x.sin() * k, "b": [x * options["y"]]} if k > 5 else (x.sin() * k, [x * options["y"]])


@noted.register_fake
def _(x: torch.Tensor, options: dict[str, Any], *, k: float) -> Any:
    return torch.empty_like(x), [torch.empty_like(x)]


@leaf_function
def without_fake(x: torch.Tensor) -> Any:
    return (x + 1,)


@leaf_function(mutates_args={"x"})
def writes(x: torch.Tensor) -> Any:
    x.add_(1)
    return (x * 2,)


@writes.register_fake
def _(x: torch.Tensor) -> Any:
    return (torch.empty_like(x),)


def program(x: torch.Tensor, y: torch.Tensor) -> Any:
    one, (two,) = noted(x * 2, {"y": y, "n": 3}, k=2.0)
    other, _ = noted(one, {"y": y}, k=3.0)
    return one + other, two


def outcome(function: Any, gradients: bool) -> Any:
    seen.clear()
    x = torch.tensor([0.5, -0.25, 1.5]).requires_grad_(gradients)
    y = torch.tensor([1.0, 2.0, 3.0]).requires_grad_(gradients)
    result = function(x, y)
    total = sum(leaf.sum() for leaf in result)
    return result, torch.autograd.grad(total, [x, y]) if gradients else None, list(seen)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("gradients", [False, True])
def test_results_gradients_and_calls_are_eagers(gradients: bool, backend: str) -> None:
    compiled = gramme.compile(program, backend=backend, fullgraph=True)
    want = outcome(program, gradients)
    for _ in range(3):
        torch.testing.assert_close(outcome(compiled, gradients), want)


def test_whether_an_argument_is_another_constant_is_guarded() -> None:
    def scaled(x: torch.Tensor, k: float) -> Any:
        return noted(x, {"y": x}, k=k)[0]

    compiled, x = gramme.compile(scaled, backend="eager", fullgraph=True), torch.ones(3)
    for k in (1.0, 2.0, 1.0):
        torch.testing.assert_close(compiled(x, k), scaled(x, k))


def test_without_one_graph_the_call_is_made_for_real() -> None:
    def reads(x: torch.Tensor) -> Any:
        noted(x, {"y": x}, k=1.0)
        return x * len(seen)

    compiled, x = gramme.compile(reads, backend="eager"), torch.ones(3)
    for _ in range(2):
        seen.clear()
        want = reads(x)
        seen.clear()
        torch.testing.assert_close(compiled(x), want, rtol=0, atol=0)


@pytest.mark.parametrize("function", [without_fake, writes])
def test_what_is_refused(function: Any) -> None:
    with pytest.raises(gramme.CaptureError, match="a leaf function that writes, or that has none for fakes"):
        gramme.compile(lambda x: function(x), backend="eager", fullgraph=True)(torch.ones(3))
