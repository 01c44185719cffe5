"""Shared by the tests of backends: comparing with eager, and what backends are tried."""

import re
from collections.abc import Callable, Iterable
from typing import Any

import gramme
import pytest
import torch

QUICK = ["eager", "aot_eager"]
ALL = [*QUICK, pytest.param("inductor", marks=pytest.mark.slow)]
FLOAT = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?|-?inf|nan")


def tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    items: Iterable[Any] = (
        value.values() if isinstance(value, dict) else value if isinstance(value, tuple | list) else ()
    )
    return [t for item in items for t in tensors(item)]


def assert_close(actual: Any, expected: Any) -> None:
    left, right = tensors(actual), tensors(expected)
    assert len(left) == len(right)
    for a, b in zip(left, right, strict=True):
        assert a.requires_grad == b.requires_grad
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def check(function: Callable[..., Any], make: Callable[[], tuple[Any, ...]], backend: Any, calls: int = 2) -> Any:
    """Runs the function captured and eagerly on equal arguments, backward too, and compares all that comes of it."""
    compiled = gramme.compile(function, backend=backend)
    for _ in range(calls):
        ours, theirs = make(), make()
        actual, expected = compiled(*ours), function(*theirs)
        assert_close(actual, expected)
        for result in (actual, expected):
            roots = [t for t in tensors(result) if t.requires_grad]
            if roots:
                sum((t.float().sum() for t in roots), torch.zeros(())).backward()
        for a, b in zip(tensors(ours), tensors(theirs), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
            assert (a.grad is None) == (b.grad is None) if a.is_leaf else True
            if a.is_leaf and a.grad is not None:
                torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-5)
    assert gramme._C.counters(gramme._compile.entry_of(compiled))["graph_errors"] == 0
    return compiled
