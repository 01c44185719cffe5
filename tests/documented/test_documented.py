"""Every program does under every backend what it does eagerly."""

from pathlib import Path

import pytest

from documented import Between, Documented, programs
from documented.harness import difference, observe

PROGRAMS = programs()
# What still differs, and why: a line goes when it is mended, none comes.
OPEN = {
    (name, backend): why
    for name, backend, why in (
        line.split(" | ") for line in Path(__file__).with_name("open.txt").read_text().splitlines()
    )
}
everything = pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)


@pytest.mark.sampled(130)
@pytest.mark.slow
@everything
def test_is_the_same_twice(program: Documented) -> None:
    assert len([call for call in program.calls() if not isinstance(call, Between)]) >= 4
    assert observe(program, None) == observe(program, None)


@pytest.mark.sampled(480)
@everything
@pytest.mark.parametrize(
    "backend", ["eager", *(pytest.param(b, marks=pytest.mark.slow) for b in ("native", "aot_eager"))]
)
def test_equals_eager(program: Documented, backend: str) -> None:
    found, why = difference(program, backend), OPEN.get((program.name, backend))
    if why is not None and found is not None:
        pytest.xfail(why)
    assert found is None
    assert why is None, "mended: its line in open.txt goes"
