"""Prints how often torch.compile(backend="eager") compiles each program: python -m shapes.record_torch [name ...]."""

import logging
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from shapes import EVERY_SIZE, Program
from shapes.harness import MOST_CAPTURES, difference, observe
from shapes.programs import PROGRAMS

CALLS = 10


@dataclass
class Recorded:
    """What torch.compile did with a program.

    Attributes:
        compiles: frames compiled, those of what comes after a graph break among them.
        outside: calls, exceptions left out, that compiled nothing and ran no graph.
        differs: what was unlike eager first, attributes of modules left out.

    """

    compiles: int = 0
    outside: int = 0
    differs: str = ""


def record(program: Program, count: int = CALLS) -> Recorded:
    torch._dynamo.reset()
    torch._dynamo.utils.clear_compilation_metrics()
    runs = 0

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            nonlocal runs
            runs += 1
            return graph.forward(*args)

        return run

    eager, compiled = program.callable(), torch.compile(program.callable(), backend=backend)
    recorded = Recorded()
    for seed, sizes in enumerate(program.calls(count)):
        before = runs, recorded.compiles
        expected, found = observe(eager, program, seed, sizes), observe(compiled, program, seed, sizes)
        recorded.compiles = _compiles()
        recorded.outside += (runs, recorded.compiles) == before and expected.error is None
        recorded.differs = recorded.differs or difference(expected, found, (None, None), 0.0) or ""
    return recorded


def _compiles() -> int:
    return sum(metrics.fail_type is None for metrics in torch._dynamo.utils.get_compilation_metrics())


def main(names: list[str]) -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    torch._dynamo.config.recompile_limit = MOST_CAPTURES
    torch._dynamo.config.accumulated_recompile_limit = 100 * MOST_CAPTURES
    within = always = bounded = wrong = total = 0
    for program in PROGRAMS:
        if names and program.name not in names:
            continue
        recorded = record(program)
        limit = program.allowed(program.calls(CALLS))
        fits = recorded.compiles <= limit
        shown = limit if program.limit < EVERY_SIZE else "any"
        outside = f", {recorded.outside} calls outside" if recorded.outside else ""
        differs = f" | {recorded.differs.splitlines()[0][:150]}" if recorded.differs else ""
        print(f"{program.name} | {recorded.compiles} of {shown}{'' if fits else ' OVER'}{outside}{differs}", flush=True)
        if program.limit < EVERY_SIZE:
            bounded += 1
            within += fits
            always += fits and not recorded.outside
        wrong += bool(recorded.differs)
        total += recorded.compiles
    print(f"{total} compiles; {within} of {bounded} programs within their limits, {always} without calls outside of")
    print(f"graphs; {wrong} differ from eager")


if __name__ == "__main__":
    main(sys.argv[1:])
