"""Random mutations of a small heap, eager against captured. hypothesis makes a failing program smaller, prints it."""

import difflib
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from sampling import SOAK

from e2e import front
from e2e.front import GRAMME, Compiled
from e2e.harness import observe
from e2e.random_heaps import Step, places, program, source, steps
from e2e.random_programs import difference_of

PHASES = (Phase.explicit, Phase.generate, Phase.shrink)
COMMON = settings(
    deadline=None, database=None, phases=PHASES, report_multiple_bugs=False, suppress_health_check=list(HealthCheck)
)
QUICK = 120 if GRAMME else 10
SLOW = 20_000 if SOAK else 400
runs = 0


def check(body: Sequence[Step], world: Sequence[int]) -> None:
    global runs
    runs += 1
    if runs % 20 == 0:
        front.reset()
    text = source(body)
    found = difference_of(program(text, world))
    if found is not None:
        lines = difflib.unified_diff(*(o.splitlines() for o in found), "eager", "captured", lineterm="", n=3)
        pytest.fail(f"places {world}\n{text}\n" + "\n".join(lines), pytrace=False)


@settings(COMMON, max_examples=QUICK, derandomize=True)
@given(steps, places)
def test_same_as_eager(body: list[Step], world: list[int]) -> None:
    check(body, world)


@pytest.mark.slow
@settings(COMMON, max_examples=SLOW, derandomize=not SOAK)
@given(steps, places)
def test_many(body: list[Step], world: list[int]) -> None:
    check(body, world)


def test_most_steps_can_be_captured() -> None:
    """Running everything plainly would pass the tests above."""
    captured = 0
    body = [Step("{o}.{n} = {v}", (n % 3, n % 2, n), True) for n in range(8)]
    for world in ([n] * 12 for n in range(4)):
        made = program(source(body), world)
        compiled = Compiled(made.function)
        observe(compiled.call, made)
        captured += bool(compiled.recorder.ops_run)
    assert captured == 4
