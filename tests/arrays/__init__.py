"""Programs that compute with NumPy's arrays: `@program` registers a function with a maker of its arguments."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

FAMILIES = ("values", "aliases")


@dataclass(frozen=True)
class Program:
    """A function of arrays; `make(n)` makes its arguments anew, of other values for another n."""

    name: str
    family: str
    function: Callable[..., Any]
    make: Callable[[int], tuple[Any, ...]]
    graphs: int
    """Captures of the first call; 0: nobody counts."""
    why: str
    """Why it is not one graph."""


_registry: dict[str, Program] = {}


def floats(n: int, *shape: int, dtype: Any = np.float64) -> np.ndarray:
    """Values of a normal distribution, the same ones for the same n and shape."""
    return np.asarray(np.random.default_rng(n).standard_normal(shape or (4,)), dtype=dtype)


def ints(n: int, *shape: int, below: int = 10, dtype: Any = np.int64) -> np.ndarray:
    """Whole numbers from 0 on."""
    return np.asarray(np.random.default_rng(n).integers(0, below, shape or (4,)), dtype=dtype)


def program(
    make: Callable[[int], tuple[Any, ...]] = lambda n: (floats(n, 3, 4),), *, graphs: int = 1, why: str = ""
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function under its name."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        family = function.__module__.rpartition(".")[2]
        assert function.__name__ not in _registry, function.__name__
        _registry[function.__name__] = Program(function.__name__, family, function, make, graphs, why)
        return function

    return register


def programs(*families: str) -> list[Program]:
    """All programs, or those of some families, in the order they are written in."""
    for family in FAMILIES:
        importlib.import_module(f"{__name__}.{family}")
    return [p for p in _registry.values() if not families or p.family in families]
