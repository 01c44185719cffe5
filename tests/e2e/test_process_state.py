"""What the process keeps (docs/state.md) is made, dropped and made again: everything works as before, nothing grows."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).parent / "dropped_state.py"
TELLS_LEAKS = os.environ | {"GRAMME_LEAK_WARNINGS": "1"}
MOST_BLOCKS = 1500  # of Python, a round: source texts of the graphs of torch.fx, which linecache keeps


@pytest.fixture(scope="module")
def run() -> tuple[list[dict[str, Any]], list[int], str]:
    done = subprocess.run([sys.executable, PROGRAM], capture_output=True, text=True, timeout=300, env=TELLS_LEAKS)
    assert done.returncode == 0, done.stderr
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    return [json.loads(told) for told, _ in lines], [int(blocks) for _, blocks in lines], done.stderr


def test_results_are_the_same(run: Any) -> None:
    first, *others = (told["results"] for told in run[0])
    assert len(first) > 20
    assert all(other == first for other in others)


def test_rounds_make_the_same(run: Any) -> None:
    """After the first, in which torch registers operators while gramme captures."""
    _, second, *others = run[0]
    assert {"meta/infer.cpp", "meta/traits.cpp", "protocol/accepted.cpp", "backend/metadata.cpp"} <= second[
        "before"
    ].keys()
    for other in others:
        assert other["before"] == second["before"]
        assert other["after"] == second["after"]
        assert other["objects"] == second["objects"]


def test_only_what_lasts_is_left(run: Any) -> None:
    lasting = {
        "aten/spec.cpp",
        "aten/tensor_type.cpp",
        "backend/kept_graph.cpp",
        "cpython/generators.cpp",
        "cpython/watched_dicts.cpp",
        "shape/expression.cpp",
    }
    for told in run[0]:
        assert told["after"].keys() <= lasting
        assert not any(name.endswith(".Entry") for name in told["objects"])


def test_python_objects_do_not_grow(run: Any) -> None:
    blocks = run[1][1:]
    grown = [after - before for before, after in zip(blocks, blocks[1:], strict=False)]
    assert max(grown) < MOST_BLOCKS


def test_nothing_leaks_at_the_end(run: Any) -> None:
    assert "leaked" not in run[2]


def test_leaks_are_told() -> None:
    program = "import ctypes, torch, gramme\nctypes.pythonapi.Py_IncRef(ctypes.py_object(gramme._C.Meter()))"
    told, untold = (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, env=env).stderr
        for env in (TELLS_LEAKS, os.environ)
    )
    assert "nanobind: leaked 1 instances" in told
    assert "nanobind" not in untold
