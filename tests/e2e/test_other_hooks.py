"""Hooks for frame evaluation go with their owners: the tests of other_hooks.py, in a process of their own."""

import subprocess
import sys
from pathlib import Path

import pytest

from e2e import front


@pytest.mark.skipif(not front.GRAMME, reason="hooks of both front ends")
def test_hooks_go_with_their_owners() -> None:
    tests = Path(__file__).with_name("other_hooks.py")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(tests)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False, cwd=tests.parents[2])
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
