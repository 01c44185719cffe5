"""Processes that capture, break and recompile at different times communicate in the program's order."""

from pathlib import Path

from sampling import SEED, SOAK

from e2e import ranks


def test_random_programs(tmp_path: Path) -> None:
    count = 200 if SOAK else 20
    assert ranks.wrong_seeds(tmp_path, [int(SEED) * 1000 + i for i in range(count)]) == [[], []]
