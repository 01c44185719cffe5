"""Programs over subclasses do under every backend what they do eagerly, in no more graphs than graphs.txt says."""

from pathlib import Path

import gramme
import pytest

from subclasses import Program, programs
from subclasses.harness import BACKENDS, difference, graphs

PROGRAMS = programs()
everything = pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
# Graphs that gramme makes of a program, and torch.compile, where its results are eager's.
GRAPHS = {
    name: (int(ours), theirs)
    for name, ours, theirs in (
        line.split(" | ") for line in Path(__file__).with_name("graphs.txt").read_text().splitlines()
    )
}


@everything
@pytest.mark.parametrize("backend", [*BACKENDS[:2], pytest.param("aot_eager", marks=pytest.mark.slow)])
def test_equals_eager(program: Program, backend: str) -> None:
    assert difference(program, backend) is None


@everything
def test_graphs(program: Program) -> None:
    assert graphs(program, gramme) == GRAPHS[program.name][0]
