"""Data nested deeper than the stack: no crash, and what eager says of it."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gramme
import pytest
import torch
from sampling import some

from e2e.front import GRAMME

pytestmark = pytest.mark.skipif(not GRAMME, reason="gramme's own recursion")

ACTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "repr": lambda v, w: len(repr(v)),
    "format": lambda v, w: len(f"{v}"),
    "percent": lambda v, w: len("%s" % (v,)),  # noqa: UP031
    "equal": lambda v, w: v == w,
    "less": lambda v, w: v < w,
    "key": lambda v, w: len({v: 1}),
    "look-up": lambda v, w: v in {w: 1},
    "isinstance": lambda v, w: isinstance(3, v),
    "issubclass": lambda v, w: issubclass(int, v),
    "hash": lambda v, w: isinstance(hash(v), int),
    "sorted": lambda v, w: len(sorted([v, w])),
    "startswith": lambda v, w: "a".startswith(v),
    "walked": lambda v, w: depth_of(v),
    "returned": lambda v, w: (v, w) and 1,
}


def nested(depth: int) -> Any:
    value: Any = ()
    for _ in range(depth):
        value = (value,)
    return value


def depth_of(value: Any) -> int:
    depth = 0
    while value:
        value, depth = value[0], depth + 1
    return depth


def differing(name: str, depth: int) -> str:
    action = ACTIONS[name]

    def program(x: torch.Tensor, v: Any, w: Any) -> Any:
        y = x + 1
        try:
            return y, action(v, w)
        except Exception as error:
            return y, type(error).__name__

    expected = program(torch.ones(2), nested(depth), nested(depth))
    found = gramme.compile(program, backend="eager")(torch.ones(2), nested(depth), nested(depth))
    return "" if found[1] == expected[1] else f"{name} of {depth} levels: {found[1]}, eagerly {expected[1]}"


def test_deep_data() -> None:
    """In a process of its own: what is tested for would end it. A day's sample; all in a soak."""
    code = (
        "from e2e import test_deep_data as t\n"
        "for name in t.some(t.ACTIONS, 4, 'deep'):\n"
        "    for depth in (700, 40_000):\n"
        "        print(name, depth, t.differing(name, depth), flush=True)\n"
        "import os; os._exit(0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parents[1], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout[-300:] + done.stderr[-2000:]
    wrong = [line for line in done.stdout.splitlines() if ":" in line]
    assert wrong == []
    assert len(done.stdout.splitlines()) == 2 * len(some(ACTIONS, 4, "deep"))
