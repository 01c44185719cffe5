"""Frames and code of each version of CPython that is there, without torch: see run.py, rooms.py and decoding.py.

`tools/pythons.py set-up` fetches those that are skipped.
"""

import os
import subprocess
from pathlib import Path

import pytest
import pythons

HERE = Path(__file__).parent


ALL = pytest.mark.parametrize("version", [*pythons.OF_MACHINE, *pythons.SUITES])


def run(version: str, ending: str, *script: str) -> None:
    """A script of this folder passes with the version's own modules, and its output ends so."""
    python = pythons.interpreters().get(version)
    if not python:
        pytest.skip(f"no CPython {version}; tools/pythons.py set-up {version}")
    if not pythons.headers_of(python):
        pytest.skip(f"CPython {version} has no headers")
    env = os.environ | {"PYTHONPATH": str(pythons.compile_module(version, python))}
    command = [str(python), "-W", "ignore", str(HERE / script[0]), *script[1:]]
    done = subprocess.run(command, env=env, text=True, capture_output=True, check=False)
    assert done.stdout.endswith(ending), done.stdout[-4000:] + done.stderr[-2000:]
    assert done.returncode == 0


@pytest.mark.slow
@pytest.mark.timeout(600)
@ALL
def test_taken_frames_keep_lifetimes(version):
    run(version, "0 wrong\n", "run.py")


@pytest.mark.slow
@pytest.mark.timeout(600)
@ALL
def test_code_is_decoded_as_cpython_has_it(version):
    run(version, " 0 refused\n", "decoding.py", "--every", "4")


@pytest.mark.slow
@pytest.mark.timeout(600)
@ALL
def test_rooms_do_what_python_does(version):
    run(version, " 0 wrong\n", "rooms.py")
