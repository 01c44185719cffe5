"""Runs a program with gramme behind torch.compile, and reports what was captured.

python -m gramme train.py --epochs 2
python -m gramme explain train.py --epochs 2
"""

from __future__ import annotations

import argparse
import pathlib
import runpy
import sys

from . import install, record
from ._report.summary import show


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m gramme",
        description="Runs a Python program with gramme behind torch.compile. With `explain` first, prints what was "
        "captured, what broke the graph and what to do about it.",
    )
    parser.add_argument("--report", metavar="PAGE", help="write a report, one HTML page (as GRAMME_REPORT=PAGE does)")
    parser.add_argument(
        "-m", dest="module", action="store_true", help="the program is the name of a module, as of python -m"
    )
    parser.add_argument("program", help="a Python file; `explain` may stand before it")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the program")
    said = parser.parse_args()
    said.explains = said.program == "explain"
    if said.explains:
        if said.arguments[:1] == ["-m"]:
            said.module = True
            said.arguments.pop(0)
        if not said.arguments:
            parser.error("explain: expected a program")
        said.program, *said.arguments = said.arguments
    return said


def main() -> None:
    """Runs the program as __main__, with its arguments in sys.argv."""
    said = _arguments()
    sys.argv = [said.program, *said.arguments]
    install()
    if not said.explains and said.report is None:
        _run(said)
        return
    recording = record(said.report)
    try:
        with recording:
            _run(said)
    finally:
        if said.explains:
            show(recording.recorded)


def _run(said: argparse.Namespace) -> None:
    if said.module:
        runpy.run_module(said.program, run_name="__main__", alter_sys=True)
        return
    sys.path[0] = str(pathlib.Path(said.program).resolve().parent)
    runpy.run_path(said.program, run_name="__main__")


if __name__ == "__main__":
    main()
