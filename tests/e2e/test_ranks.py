"""Processes that capture, break and recompile at different times communicate in the program's order."""

from pathlib import Path

from sampling import SEED, SOAK

from e2e import ranks
from e2e.several_processes import run


def test_random_programs(tmp_path: Path) -> None:
    count = 200 if SOAK else 20
    assert run(ranks.run_all, tmp_path, 2, [int(SEED) * 1000 + i for i in range(count)]) == [[], []]
