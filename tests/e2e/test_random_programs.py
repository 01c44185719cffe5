"""Random programs, eager against captured. A failure names its seed: random_programs.py SEED run makes it smaller."""

import difflib
import random

import pytest

from e2e import front
from e2e.front import GRAMME, Compiled
from e2e.harness import observe
from e2e.random_programs import compiled_source, difference, generate

QUICK = 150 if GRAMME else 20
CHUNKS = 10


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_same_as_eager(chunk: int) -> None:
    run(range(chunk, QUICK, CHUNKS))


@pytest.mark.slow
def test_many(soak: bool) -> None:
    run(range(QUICK, QUICK + (30_000 if soak else 300 if GRAMME else 40)))


@pytest.mark.slow
@pytest.mark.skipif(not GRAMME, reason="tells gramme's captures where to end")
def test_many_with_breaks_anywhere(soak: bool) -> None:
    run(range(100_000, 100_000 + (20_000 if soak else 150)), breaks=True)


def run(seeds: range, breaks: bool = False) -> None:
    for n, seed in enumerate(seeds):
        if n % 20 == 19:
            front.reset()
        source = generate(seed)
        stop_at = random.Random(seed).randint(1, 80) if breaks else 0
        found = difference(source, stop_at)
        if found is not None:
            lines = difflib.unified_diff(*(o.splitlines() for o in found), "eager", "captured", lineterm="", n=3)
            pytest.fail(f"seed {seed}, broken after {stop_at}\n{source}\n" + "\n".join(lines), pytrace=False)


def test_programs_are_captured_not_handed_over() -> None:
    """Running everything plainly would pass the tests above."""
    ran, seeds = 0, range(40 if GRAMME else 10)
    for seed in seeds:
        program = compiled_source(generate(seed))
        compiled = Compiled(program.function)
        for _ in range(2):
            observe(compiled.call, program)
        ran += bool(compiled.recorder.ops_run)
    assert ran >= len(seeds) * 2 // 3


def test_a_seed_names_one_program() -> None:
    assert generate(7) == generate(7)
    assert len({generate(seed) for seed in range(50)}) == 50
