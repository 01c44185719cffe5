"""Writes first_outcomes.txt: a line a program. Lines that are there stay: they are the outcome before any fix.

`PYTHONPATH=tests python -m documented.record [name...]`; with names, the outcomes of these are printed and not kept.
"""

import sys
from pathlib import Path

from outcomes import record

from documented import Documented, programs
from documented.harness import difference

OUTCOMES = Path(__file__).with_name("first_outcomes.txt")
BACKENDS = ("eager", "native", "aot_eager")


def outcome(program: Documented) -> str:
    found = {}
    for backend in BACKENDS:
        try:
            why = difference(program, backend)
        except BaseException as error:
            why = f"harness: {error!r}"
        if why is not None:
            found[backend] = why
    told = f"{', '.join(found)}: {next(iter(found.values()))}" if found else "equal"
    return f"{program.source} | {told}"


if __name__ == "__main__":
    record(OUTCOMES, programs(), outcome, sys.argv[1:])
