"""Programs with NumPy arrays: captures and graphs compared with PyTorch's front end, native calls with NumPy.

    python bench/arrays.py

CPU times of one thread, without gradients: the least of several rounds, both sides in turns.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gramme
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from arrays import Program, programs
from arrays.outcomes import Counting

NAMES = (
    *("mandelbrot", "k_means_step", "cart_pole_step", "cart_poles_step"),
    *("transforms", "metrics", "r2_score", "operators"),
)
ROUNDS, CALLS = 5, 1000


def per_call(function: Callable[..., Any], args: tuple[Any, ...], calls: int = CALLS) -> float:
    """Microseconds."""
    start = time.process_time()
    for _ in range(calls):
        function(*args)
    return (time.process_time() - start) / calls * 1e6


def capture(front: Callable[..., Any], program: Program) -> float:
    """Milliseconds of a first call, in a process that has seen the program."""
    torch.compiler.reset()
    compiled = front(program.function, backend="eager")
    return per_call(compiled, program.make(0), 1) / 1e3


def graphs(front: Callable[..., Any], program: Program) -> int:
    """Graphs of a first call."""
    torch.compiler.reset()
    backend = Counting()
    front(program.function, backend=backend)(*program.make(0))
    return backend.graphs


def row(program: Program) -> str:
    args = program.make(0)
    native = gramme.compile(program.function, backend="native")
    for _ in range(3):
        native(*args)
    calls = [(per_call(program.function, args), per_call(native, args)) for _ in range(ROUNDS)]
    captures = [(capture(torch.compile, program), capture(gramme.compile, program)) for _ in range(ROUNDS)]
    numpy, ours = (min(side) for side in zip(*calls, strict=True))
    theirs, captured = (min(side) for side in zip(*captures, strict=True))
    counts = [graphs(torch.compile, program), graphs(gramme.compile, program)]
    return (
        f"{program.name:16} numpy {numpy:7.1f} us  native {ours:7.1f} us ({numpy / ours:4.2f})   "
        f"capture: torch.compile {theirs:6.1f} ms  gramme {captured:5.2f} ms ({theirs / captured:4.1f})   "
        f"graphs {counts[0]} and {counts[1]}"
    )


def main() -> None:
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    known = {program.name: program for program in programs()}
    for name in NAMES:
        print(row(known[name]), flush=True)


if __name__ == "__main__":
    main()
