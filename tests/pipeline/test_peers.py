"""Processes of a pipeline that die, stop or fail: the others end in time and tell which it was."""

import re

import pytest

from pipeline.processes import run_processes, step_and_fail

LIMIT = 3  # seconds a message waits


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        ("stops", "died or stopped"),
        pytest.param("dies", "died or stopped", marks=pytest.mark.slow),
        pytest.param("raises", "failed: RuntimeError", marks=pytest.mark.slow),
        pytest.param("interrupted", "failed: KeyboardInterrupt", marks=pytest.mark.slow),
    ],
)
def test_of_two(way, expected, tmp_path):
    stops = (1,) if way == "stops" else ()
    (told,) = run_processes(2, tmp_path, step_and_fail, [(1, way)], seconds=LIMIT, limit=40, stops=stops)
    assert [rank for rank in (0, 1) if (tmp_path / f"late.{rank}").exists()] == [1] * (way == "stops")
    assert re.match(rf"PeerError \(1,\) process 1 of 2 {expected}", told[0]), told
    assert float(told[0].split()[-1]) < LIMIT + 5
    if way in ("raises", "interrupted"):
        assert told[1].startswith("RuntimeError ZeroDivisionError" if way == "raises" else "KeyboardInterrupt"), told


@pytest.mark.slow
@pytest.mark.parametrize("way", ["dies", "stops"])
@pytest.mark.parametrize("failing", [0, 2])
def test_of_four(way, failing, tmp_path):
    (told,) = run_processes(4, tmp_path, step_and_fail, [(failing, way)], seconds=LIMIT, limit=60, stops=(failing,))
    for rank, words in enumerate(told):
        if rank != failing:
            assert re.match(rf"PeerError \({failing},\) process {failing} of 4 died or stopped", words), told
            assert float(words.split()[-1]) < LIMIT + 5
