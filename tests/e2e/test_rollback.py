"""Captures that are abandoned and made again: nothing of the first is left, and ending anywhere is as good as going on.

A capture that meets what it cannot do is thrown away and made again up to there (docs/design.md). So for each program
on side effects: ended at each instruction of its frame, the outcome is eager's; refused at any instruction, of callees
too, what was captured prints the same as what is captured when told to end there; and afterwards a capture to the end
prints the same as the first did.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from programs import ON_BREAKS, Program, programs
from sampling import some

from e2e import front
from e2e.front import GRAMME
from e2e.harness import assert_same, observe

if not GRAMME:
    pytest.skip("about gramme's captures", allow_module_level=True)

from gramme import _C

capturing = _C.testing.testing_capture  # type: ignore[attr-defined]
PROGRAMS = [p for p in programs() if p.category.startswith("fx_") or p.category in ON_BREAKS]
each_program = pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: f"{p.category}-{p.name}")
SHARE = 6
"""Without GRAMME_SOAK, instructions of each program."""


class Limited:
    """A compiled function of which tests decide where its captures end."""

    def __init__(self, program: Program, **limits: Any) -> None:
        self.call = _C.make_entry(
            program.function,  # type: ignore[arg-type]
            backend=lambda graph, inputs: graph.forward,
            fullgraph=False,
            recompile_limit=1000,  # a method called everywhere ends differently at each call
            keep_graphs=True,
        )
        capturing.limit(self.call, **limits)

    def first(self) -> dict[str, Any] | None:
        """What was captured at the function's start, as text; None if nothing was."""
        name = self.call.__wrapped__.__qualname__
        for row, shown in zip(capturing.segments(self.call), _C.segments(self.call), strict=True):
            if row["start"] == 0 and row["function"] == name:
                graph = str(shown["graph"].graph) if shown["graph"] else ""
                return {part: printed(text) for part, text in row.items()} | {"graph": printed(graph)}
        return None


def printed(part: Any) -> Any:
    """Text without the addresses of objects, which every run makes anew."""
    if isinstance(part, list):
        return [printed(line) for line in part]
    return re.sub(r"0x[0-9a-f]+", "0x", part) if isinstance(part, str) else part


def captured(program: Program, **limits: Any) -> dict[str, Any] | None:
    front.reset()
    compiled = Limited(program, **limits)
    observe(compiled.call, program)
    return compiled.first()


def stops(program: Program) -> Iterator[int]:
    """The instructions of the function at which its first segment can be made to end."""
    whole = captured(program)
    last = whole["steps"] if whole else 0
    at = 1
    while at < last:
        ended = captured(program, stop_at=at)
        yield at
        at = max(at, ended["steps"] if ended else at) + 1


@pytest.mark.sampled(30)
@pytest.mark.slow
@pytest.mark.timeout(7200)
@each_program
def test_ended_anywhere(program: Program) -> None:
    ends = list(stops(program))
    eager = observe(program.function, program), observe(program.function, program, 1)
    for at in some(ends, SHARE, f"{program.name} ends"):
        for everywhere in (False, True):
            front.reset()
            compiled = Limited(program, stop_at=at, everywhere=everywhere)
            what = f"{program.name}, ended at instruction {at}{' of each segment' if everywhere else ''}"
            assert_same(eager[0], observe(compiled.call, program), what)
            assert_same(eager[0], observe(compiled.call, program), what + ", again")
            assert_same(eager[1], observe(compiled.call, program, 1), what + ", other data")


@pytest.mark.sampled(30)
@pytest.mark.slow
@pytest.mark.timeout(7200)
@each_program
def test_abandoned_anywhere(program: Program) -> None:
    observe(program.function, program)  # a process's first call may change classes: an optimizer's wraps its step
    undisturbed = captured(program)
    told: dict[int, Any] = {}
    for at in some(range(1, instructions(program) + 1), SHARE, f"{program.name} refusals"):
        refused = captured(program, refuse_at=at)
        assert refused is not None
        steps = refused["steps"]
        if steps == 0:  # stepped over, or run plainly
            continue
        if steps not in told:
            told[steps] = captured(program, stop_at=steps)
        assert refused == told[steps], f"{program.name}, refused at instruction {at}"
        assert captured(program) == undisturbed, f"{program.name}, after a refusal at instruction {at}"


def instructions(program: Program) -> int:
    """How many the first capture carries out, found by bisection: a refusal beyond them changes nothing."""
    undisturbed, low, high = captured(program), 1, 2
    while captured(program, refuse_at=high) != undisturbed:
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if captured(program, refuse_at=middle) == undisturbed else (middle, high)
    return low
