"""Recursion without end raises RecursionError, as eager does, where there is much stack and where there is little."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.recursion import FORMS

HERE = Path(__file__).parent
FEW = ["__call__", "method of an existing object", "repr", "compiled"]
# CPython counts levels: a stack of 256 KB ends before a thousand of those that go through C.
IN_PYTHON = ["__call__", "method", "method of an existing object", "closure", "compiled", "compiled with a break"]
LOW_LIMIT = "200"
# Forms that end the process there without gramme, too.
TOO_DEEP_FOR_EAGER = {"key", "__call__"} if sys.version_info[:2] in ((3, 12), (3, 13)) else {"key"}


def bearable(names: list[str], where: str) -> list[str]:
    return [name for name in names if where == "main" or name not in TOO_DEEP_FOR_EAGER]


def outcomes(where: str, limit: str, names: list[str], who: str = "front") -> list[str]:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(HERE / "recursion.py"), who, where, limit, *names],
        capture_output=True,
        text=True,
        timeout=400,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parent), *sys.path])},
        check=False,
    )
    lines = done.stdout.splitlines()
    if done.returncode:
        lines.append(f"exit {done.returncode}: {done.stderr[-1500:]}")
    return [line for line in lines if not line.endswith(": RecursionError")] or [str(len(lines))]


def all_raise(where: str, limit: str, names: list[str]) -> None:
    assert outcomes(where, limit, names) == [str(4 * len(names))]


@pytest.mark.parametrize("where", ["main", "small"])
def test_few_forms(where: str) -> None:
    all_raise(where, "default" if where == "main" else LOW_LIMIT, bearable(FEW, where))


@pytest.mark.slow
@pytest.mark.parametrize("where", ["main", "small"])
def test_all_forms(where: str) -> None:
    names = bearable([*FORMS, "compiled", "compiled with a break"], where)
    for first in range(0, len(names), 8):
        all_raise(where, "default" if where == "main" else LOW_LIMIT, names[first : first + 8])


@pytest.mark.slow
def test_levels_of_python_in_a_small_stack() -> None:
    """A Python function that calls Python functions needs no C stack in eager: the limit of levels ends it."""
    all_raise("small", "default", bearable(IN_PYTHON, "small"))
