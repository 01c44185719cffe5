"""Graphs of any sizes are those of PyTorch's own front end: nodes, names, placeholders and their order."""

import difflib
import warnings
import zlib
from pathlib import Path

import pytest

from shapes import Program, programs
from shapes.graph_text import MODES, compared

GOLDEN = Path(__file__).with_name("graph_text.txt")
MOST_LINES = 10
QUICK = 6  # one of so many

assert programs


def differing() -> set[str]:
    """The names in the golden file, which may only get fewer."""
    lines = [line for line in GOLDEN.read_text().splitlines() if line and not line.startswith("#")]
    assert len(lines) <= MOST_LINES
    return {name for line in lines for name in line.partition(":")[0].split()}


def difference(program: Program, mode: str) -> str:
    both = compared(program, mode)
    if both is None:
        return ""
    theirs, ours = (looked.graphs[0].splitlines() for looked in both)
    lines = list(difflib.unified_diff(theirs, ours, "PyTorch's", "gramme's", lineterm="", n=1))
    return "\n".join([*lines, both[1].story]) if lines else ""


CASES = [
    pytest.param(
        p, mode, id=f"{p.name}-{mode}", marks=[] if zlib.crc32(p.name.encode()) % QUICK == 0 else pytest.mark.slow
    )
    for p in programs.PROGRAMS
    for mode in MODES
]


@pytest.mark.sampled(100)
@pytest.mark.parametrize(("program", "mode"), CASES)
def test_graph_is_pytorchs(program: Program, mode: str) -> None:
    found = difference(program, mode)
    if program.name in differing():
        pytest.skip("known to differ")
    if found and not difference(program, mode):
        warnings.warn(f"{program.name} differed once, and not again: {found}", stacklevel=1)
        return
    assert not found


@pytest.mark.slow
def test_differences_get_fewer() -> None:
    by_name = {p.name: p for p in programs.PROGRAMS}
    for name in sorted(differing()):
        assert any(difference(by_name[name], mode) for mode in MODES), f"{name} does not differ any more: remove it"
