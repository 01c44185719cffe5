"""Programs over subclasses of tensors: `__torch_function__` classes, wrappers with `__torch_dispatch__`, and modes."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

FAMILIES = (
    "functions",
    "gradients",
    "jagged",
    "function_classes",
    "instance_dicts",
    "wrappers",
    "wrapper_writes",
    "wrapper_classes",
    "wrapper_training",
    "wrapper_effects",
    "wrapper_functions",
    "wrapper_bodies",
    "modes",
)


def _nothing() -> None: ...


@dataclass(frozen=True)
class Program:
    """A function, and its calls' arguments, made anew for each run.

    state: what else is compared after each call. setup: resets what the program changes. around: a context manager
    that each call is made in. backward: gradients of the results' sums are taken after each call.
    """

    function: Callable[..., Any]
    calls: Callable[[], list[tuple[Any, ...]]]
    state: Callable[[], Any] = _nothing
    setup: Callable[[], None] = _nothing
    around: Callable[[], Any] | None = None
    backward: bool = False

    @property
    def name(self) -> str:
        return f"{self.function.__module__.rpartition('.')[2]}.{self.function.__name__}"


_registry: dict[str, Program] = {}


def program(calls: Callable[[], list[tuple[Any, ...]]], **more: Any) -> Callable[..., Any]:
    """Registers a function as a program."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        made = Program(function, calls, **more)
        assert made.name not in _registry, made.name
        _registry[made.name] = made
        return function

    return register


def programs() -> list[Program]:
    for family in FAMILIES:
        importlib.import_module(f"{__name__}.{family}")
    return list(_registry.values())
