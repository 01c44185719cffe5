"""A class whose `__torch_dispatch__` depends on state is asked by each capture, and once for equal calls of one."""

from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_map_only

from subclasses.classes import One

BACKENDS = ["eager", "native", "aot_eager"]


class Chosen(One):
    """Computes in the dtype that its class names; counts the calls that captures make."""

    dtype_of_results = torch.float32
    asked = 0

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        Chosen.asked += any(isinstance(each, cls) and isinstance(each.inside, FakeTensor) for each in args)
        args = tree_map_only(Chosen, lambda each: each.inside, args)
        return function(*args, **(kwargs or {})).to(Chosen.dtype_of_results)


@pytest.fixture(autouse=True)
def fresh() -> None:
    gramme.reset()
    Chosen.dtype_of_results, Chosen.asked = torch.float32, 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_state_that_changes_between_segments(backend: str) -> None:
    def f(w: Chosen) -> tuple[torch.Tensor, torch.Tensor]:
        first = w * 2 + 1
        Chosen.dtype_of_results = torch.float64
        torch._dynamo.graph_break()
        return first, w * 2 + 1

    first, second = gramme.compile(f, backend=backend)(Chosen(torch.arange(3.0)))
    assert (first.dtype, second.dtype) == (torch.float32, torch.float64)
    assert first.tolist() == second.tolist() == [1, 3, 5]


@pytest.mark.parametrize("backend", BACKENDS)
def test_state_that_changes_between_captures(backend: str) -> None:
    def f(w: Chosen, n: int) -> torch.Tensor:
        return (w * 2).mul(n)

    compiled, w = gramme.compile(f, backend=backend, dynamic=False), Chosen(torch.arange(3.0))
    assert compiled(w, 1).dtype == torch.float32
    Chosen.dtype_of_results = torch.float64
    assert compiled(w, 2).dtype == torch.float64
    gramme.reset()
    assert compiled(w, 1).dtype == torch.float64


def count(f: Callable[[Chosen, Chosen], Any]) -> int:
    gramme.compile(f, backend="eager", fullgraph=True)(Chosen(torch.ones(3)), Chosen(torch.ones(3)))
    return Chosen.asked


def test_equal_calls_of_a_capture_are_asked_once() -> None:
    def f(v: Chosen, w: Chosen) -> list[torch.Tensor]:
        return [v * 2, w * 2, v * 2, w + 1, v + 1]

    asked = count(f)
    gramme.reset()
    Chosen.asked = 0
    assert asked == count(lambda v, w: [v * 2, v + 1])


def test_other_calls_are_asked() -> None:
    once = count(lambda v, w: v * w)
    for f in (lambda v, w: (v * w, v * v), lambda v, w: (v * w, v * 2), lambda v, w: (v * w, v - w)):
        gramme.reset()
        Chosen.asked = 0
        assert count(f) > once
