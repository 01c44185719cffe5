"""What one process describes, another with other hashes and addresses binds: to the objects that it would have captured
itself, and with the program's results."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from e2e.front import GRAMME
from programs import programs
from sampling import some

from portable.test_programs import LISTED

pytestmark = pytest.mark.skipif(not GRAMME, reason="gramme's own")

# Programs whose captures are others in another process, and why.
OTHERWISE = {"addresses_among_numbers": "a key is an address: in how many segments it runs depends on that"}


def run(half: str, seed: int, *names: str, given: str = "") -> str:
    """The last line is the answer: programs print."""
    done = subprocess.run(
        [sys.executable, "-m", "portable.elsewhere", half, *names],
        input=given,
        env=os.environ | {"PYTHONHASHSEED": str(seed), "OMP_WAIT_POLICY": "passive"},
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def test_a_description_is_bound_in_another_process() -> None:
    portable = [p.name for p in programs() if p.name not in LISTED]  # of the others parts stay what they are here
    chosen = some(portable, 60, "described elsewhere")
    wrong = ast.literal_eval(run("bind", 2, given=run("describe", 1, *chosen)))
    assert list(wrong) == chosen
    assert len(OTHERWISE) <= len(programs()) // 20
    assert {name: why for name, why in wrong.items() if why and name not in OTHERWISE} == {}
