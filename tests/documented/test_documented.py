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


@pytest.mark.slow
@everything
def test_is_the_same_twice(program: Documented) -> None:
    assert len([call for call in program.calls() if not isinstance(call, Between)]) >= 4
    assert observe(program, None) == observe(program, None)


@everything
@pytest.mark.parametrize(
    "backend", ["eager", *(pytest.param(b, marks=pytest.mark.slow) for b in ("native", "aot_eager"))]
)
def test_equals_eager(program: Documented, backend: str) -> None:
    found = difference(program, backend)
    if found is not None and (program.name, backend) in OPEN:
        pytest.xfail(OPEN[program.name, backend])
    assert found is None
