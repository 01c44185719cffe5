"""`python -m arrays.outcomes` (in tests) compares eager, torch.compile and gramme, program by program."""

import sys
import warnings
from collections.abc import Callable
from typing import Any

import gramme
import numpy as np
import torch

from arrays import Program, programs

TOLERANCE = {"f2": 1e-2, "f4": 1e-5, "f8": 1e-10, "c8": 1e-5, "c16": 1e-10}


class Sight:
    """What can be seen of a value, as text and numbers; arrays are compared to a tolerance."""

    def __init__(self) -> None:
        self.shown: list[Any] = []
        self.arrays: list[np.ndarray] = []

    def look(self, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            self._array(value.detach().numpy(), f"Tensor {value.dtype} {tuple(value.shape)} {value.requires_grad}")
        elif isinstance(value, np.ndarray):
            flags = value.flags.writeable if value.dtype.names is None else ""
            self._array(value, f"ndarray {value.dtype} {value.shape} {flags}")
        elif isinstance(value, np.generic):
            self._array(np.asarray(value), f"{type(value).__name__}")
        elif isinstance(value, float):
            self._array(np.asarray(value), "float")
        elif isinstance(value, dict):
            self.shown.append(("dict", list(value)))
            for item in value.values():
                self.look(item)
        elif isinstance(value, list | tuple):
            self.shown.append((type(value).__name__, len(value)))
            for item in value:
                self.look(item)
        elif hasattr(value, "__dict__") and not callable(value):
            self.look(vars(value))
        elif callable(value):
            self.shown.append("callable")
        else:
            self.shown.append(repr(value))

    def _array(self, array: np.ndarray, text: str) -> None:
        self.shown.append((text, len(self.arrays)))
        self.arrays.append(array)

    def shared(self) -> list[tuple[int, int]]:
        count = len(self.arrays)
        return [(i, j) for i in range(count) for j in range(i) if np.may_share_memory(self.arrays[i], self.arrays[j])]


def observe(function: Callable[..., Any], program: Program, calls: int = 3) -> list[Sight]:
    """What each call returned and did to its arguments."""
    sights = []
    for n in range(calls):
        args = program.make(n)
        sight = Sight()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sight.look(function(*args))
        sight.look([a for a in args if not isinstance(a, torch.nn.Module)])
        sight.arrays = [np.array(a) if a.dtype == object else a for a in sight.arrays]
        sights.append(sight)
    return sights


def _close(a: np.ndarray, b: np.ndarray) -> bool:
    tolerance = TOLERANCE.get(f"{a.dtype.kind}{a.dtype.itemsize}")
    if tolerance is None:
        return bool(np.array_equal(a, b))
    return bool(np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True))


def difference(expected: list[Sight], seen: list[Sight]) -> str:
    """What differs first, in words; empty if nothing does."""
    for call, (a, b) in enumerate(zip(expected, seen, strict=True), 1):
        for x, y in zip(a.shown, b.shown, strict=False):
            if x != y:
                return f"call {call}: {x} became {y}"
        if len(a.shown) != len(b.shown):
            return f"call {call}: {len(a.shown)} parts became {len(b.shown)}"
        for i, (x, y) in enumerate(zip(a.arrays, b.arrays, strict=True)):
            if not _close(x, y):
                return f"call {call}: values of part {i}"
        if a.shared() != b.shared():
            return f"call {call}: shared memory {a.shared()} became {b.shared()}"
    return ""


class Counting:
    """A backend that counts graphs."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, module: torch.fx.GraphModule, _: list[Any]) -> Callable[..., Any]:
        self.graphs += 1
        return module.forward


def outcome(program: Program, compile_: Callable[..., Any]) -> str:
    """`equal` or what differs, and how many graphs three calls took."""
    expected = observe(program.function, program)
    backend = Counting()
    torch.compiler.reset()
    try:
        seen = observe(compile_(program.function, backend=backend), program)
    except Exception as error:
        return f"raises {type(error).__name__}, {backend.graphs}"
    return f"{difference(expected, seen) or 'equal'}, {backend.graphs}"


def main() -> None:
    front_ends = {"torch": torch.compile, "gramme": gramme.compile}
    chosen = sys.argv[1:]
    for program in programs():
        if chosen and program.name not in chosen:
            continue
        texts = [f"{name}: {outcome(program, front)}" for name, front in front_ends.items()]
        print(f"{program.family}.{program.name} | {' | '.join(texts)}", flush=True)


if __name__ == "__main__":
    main()
