"""Programs written from the texts of documentation: what those pages promise, mixed with a few tensor operations."""

import importlib
import pkgutil
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Between:
    """Stands in a list of calls for what happens between two of them, never compiled."""

    function: Callable[[], Any]


Call = tuple[Any, ...] | Between


def _nothing() -> None: ...


@dataclass(frozen=True)
class Documented:
    """A function, the promise it depends on, and its calls."""

    function: Callable[..., Any]
    source: str
    calls: Callable[[], list[Call]]
    state: Callable[[], Any]
    setup: Callable[[], None]

    @property
    def name(self) -> str:
        return f"{self.function.__module__.rpartition('.')[2]}.{self.function.__name__}"


_registry: dict[str, Documented] = {}


def documented(
    source: str,
    calls: Callable[[], list[Any]],
    state: Callable[[], Any] = _nothing,
    setup: Callable[[], None] = _nothing,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a function as a program.

    source: page and promise, "library/functools: lru_cache counts hits".
    calls: makes, anew for each run, the arguments of at least four consecutive calls, between which values, lengths,
    types or state change; a `Between` is run where it stands.
    state: what else is compared after each call. setup: resets globals before each run.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        program = Documented(function, source, calls, state, setup)
        assert program.name not in _registry, program.name
        _registry[program.name] = program
        return function

    return register


def programs() -> list[Documented]:
    """All programs of the modules python_*, torch_*, more_python_*, more_torch_*, and since_3_12* to this version."""
    for module in pkgutil.iter_modules(__path__):
        since = re.match(r"since_(\d)_(\d+)", module.name)
        runs = since and sys.version_info >= (int(since[1]), int(since[2]))
        if runs or module.name.startswith(("python_", "torch_", "more_python_", "more_torch_")):
            importlib.import_module(f"{__name__}.{module.name}")
    return list(_registry.values())


def x(*shape: int) -> torch.Tensor:
    """1, 2, 3 … in the shape; four of them without one."""
    return torch.arange(1.0, 1 + torch.Size(shape or (4,)).numel()).view(shape or (4,))
