"""What a call of torch.cond costs beside the branch that it takes, and beside PyTorch's own way; captures beside
those of PyTorch's front end.

    python bench/higher_order.py [--captures]

Times are of one process, side by side: medians of calls, of which to read the differences, and the least of captures,
which count what the calling thread computes, so that others on the machine matter less. Of gramme's captures it is
also printed how long torch.fx generates and compiles the Python of the graph and its bodies, which the first call does.
"""

import argparse
import logging
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gramme
import torch
from torch._higher_order_ops.wrap import wrap

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from e2e.higher_order_programs import CASES

ROUNDS, CALLS = 41, 500


def yes(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * 2


def no(x: torch.Tensor) -> torch.Tensor:
    return x.cos() * 3


def with_cond(x: torch.Tensor) -> torch.Tensor:
    return torch.cond(x.sum() > 0, yes, no, (x,))


def branch_alone(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The same operations without the choice."""
    return yes(x), x.sum() > 0


def microseconds(run: Callable[[torch.Tensor], object], x: torch.Tensor) -> float:
    start = time.perf_counter()
    for _ in range(CALLS):
        run(x)
    return 1e6 * (time.perf_counter() - start) / CALLS


class Generation:
    """Milliseconds of the thread that torch.fx took to make Python of graphs."""

    def __init__(self) -> None:
        self.took, self._depth = 0.0, 0
        self._recompile = torch.fx.GraphModule.recompile
        torch.fx.GraphModule.recompile = lambda module: self._timed(module)  # type: ignore[method-assign]

    def _timed(self, module: torch.fx.GraphModule) -> Any:
        start = time.thread_time()
        self._depth += 1
        try:
            return self._recompile(module)
        finally:
            self._depth -= 1
            if not self._depth:
                self.took += 1e3 * (time.thread_time() - start)


def capture_milliseconds(front: Any, name: str, rounds: int) -> float | None:
    """Null if the program is not captured whole."""
    try:
        return least_milliseconds(front, *CASES[name], rounds)
    except Exception:
        return None


def least_milliseconds(front: Any, function: Any, makers: Sequence[Callable[[], Any]], rounds: int) -> float:
    """The least first call less the least second one, in time of the thread."""

    def calls() -> tuple[float, float]:
        given = [make() for make in makers]
        front.reset()
        compiled = front.compile(function, backend=lambda graph, inputs: graph.forward, fullgraph=True)
        start = time.thread_time()
        compiled(*given)
        between = time.thread_time()
        compiled(*given)
        return between - start, time.thread_time() - between

    firsts, seconds = zip(*[calls() for _ in range(rounds)], strict=True)
    return 1e3 * (min(firsts) - min(seconds))


def nested(depth: int) -> Callable[[torch.Tensor], Any]:
    """A body in a body, so many levels deep."""

    def inner(x: torch.Tensor, left: int) -> Any:
        y = x * 2
        for _ in range(10):
            y = y.sin() + x
        return wrap(lambda a: inner(a, left - 1) + y, y) if left else y

    return lambda x: inner(x, depth)


class Torch:
    compile = staticmethod(torch.compile)

    @staticmethod
    def reset() -> None:
        torch._dynamo.reset()


def captures() -> None:
    ratios, rounds, generation = [], 9, Generation()
    for name in CASES:
        theirs = capture_milliseconds(Torch, name, 3)
        generation.took = 0
        mine = capture_milliseconds(gramme, name, rounds)
        if theirs is None or mine is None:
            continue
        ratios.append(theirs / mine)
        fx = f"{generation.took / rounds:5.2f} of it torch.fx"
        print(f"{name:26} gramme {mine:7.2f} ms, {fx}  torch {theirs:8.1f} ms  {ratios[-1]:5.0f}x", flush=True)
    for depth in (1, 2, 4, 8):
        took = least_milliseconds(gramme, nested(depth), [lambda: torch.ones(3)], 9)
        print(f"{depth} bodies in each other: {took:.2f} ms")
    print(f"{len(ratios)} programs, median {statistics.median(ratios):.0f}x, lowest {min(ratios):.0f}x")


def calls() -> None:
    x = torch.ones(8)
    print(f"{'backend':10} {'branch':>8} {'cond':>8} {'above':>8}  µs a call")
    for backend in ("native", "eager"):
        compiled = [gramme.compile(program, backend=backend) for program in (branch_alone, with_cond)]
        for run in compiled:
            for _ in range(3):
                run(x), run(-x)
        rows = [[microseconds(run, x) for run in compiled] for _ in range(ROUNDS)]
        branch, cond = (statistics.median(column) for column in zip(*rows, strict=True))
        above = statistics.median(b - a for a, b in rows)
        print(f"{backend:10} {branch:8.2f} {cond:8.2f} {above:8.2f}")
    torch.cond(x.sum() > 0, yes, no, (x,))
    real = min(microseconds(with_cond, x) for _ in range(3))
    print(f"called for real {real:.0f} µs")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--captures", action="store_true", help="captures instead of calls")
    if parser.parse_args().captures:
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        captures()
    else:
        calls()


if __name__ == "__main__":
    main()
