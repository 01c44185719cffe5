"""Programs that take a tensor and a log, eager against compiled."""

import traceback
from collections.abc import Callable
from typing import Any

import torch

from e2e import front

__all__ = ["Log", "Program", "X", "assert_same", "compare", "outcome"]

X = torch.linspace(-1, 1, 8).reshape(2, 4)
Log = list[Any]
Program = Callable[[torch.Tensor, Log], Any]


def outcome(function: Program, x: torch.Tensor = X) -> tuple[Any, Log]:
    """What the function gives or raises, with the names and lines of the traceback, and its log."""
    log: Log = []
    try:
        result = function(x, log)
    except Exception as error:
        frames = [(frame.name, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
        result = (type(error), str(error), [frame for frame in frames if frame[0] != "outcome"])
    return result, log


def assert_same(given: Any, expected: Any) -> None:
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(given, expected, rtol=0, atol=0)
    elif isinstance(expected, (list, tuple)):
        assert type(given) is type(expected)
        assert len(given) == len(expected)
        for one, other in zip(given, expected, strict=True):
            assert_same(one, other)
    else:
        assert given == expected


def compare(function: Program, times: int = 3) -> Any:
    """The function compiled, whose calls were like eager ones."""
    expected = outcome(function)
    compiled = front.compile(function, backend="eager")
    for _ in range(times):
        assert_same(outcome(compiled), expected)
    return compiled
