"""The table that programs are put in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

Made = tuple[Callable[..., Any], Sequence[tuple[Any, ...]]]
TABLE: dict[str, tuple[Callable[[], Callable[..., Any]], Callable[[], Sequence[tuple[Any, ...]]]]] = {}


def add(name: str, make: Callable[[], Any], calls: Callable[[], Sequence[tuple[Any, ...]]]) -> None:
    """A program: `make` gives what is compiled, a module or a function; `calls` the arguments of its calls in turn."""
    assert name not in TABLE, name
    TABLE[name] = (make, calls)


def r(*shape: int, grad: bool = False) -> torch.Tensor:
    return torch.randn(*shape).requires_grad_(grad)


def u(*shape: int, grad: bool = False) -> torch.Tensor:
    return torch.rand(*shape).requires_grad_(grad)


def ints(high: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, high, shape)


def of(*shapes: tuple[int, ...], grad: bool = False) -> Callable[[], list[tuple[torch.Tensor]]]:
    """One call for each shape."""
    return lambda: [(r(*shape, grad=grad),) for shape in shapes]
