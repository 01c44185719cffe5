"""Frames of each version of CPython that is there, without torch: programs that show lifetimes, see run.py.

`tools/pythons.py set-up` fetches those that are skipped.
"""

import os
import subprocess
from pathlib import Path

import pytest
import pythons

HERE = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", [*pythons.OF_MACHINE, *pythons.SUITES])
def test_taken_frames_keep_lifetimes(version):
    python = pythons.interpreters().get(version)
    if not python:
        pytest.skip(f"no CPython {version}; tools/pythons.py set-up {version}")
    if not pythons.headers_of(python):
        pytest.skip(f"CPython {version} has no headers")
    env = os.environ | {"PYTHONPATH": str(pythons.compile_module(version, python))}
    command = [str(python), "-W", "ignore", str(HERE / "run.py")]
    done = subprocess.run(command, env=env, text=True, capture_output=True, check=False)
    assert done.stdout.endswith("0 wrong\n"), done.stdout[-4000:] + done.stderr[-2000:]
    assert done.returncode == 0
