"""Writes first_outcomes.txt: a line a program. Lines that are there stay: they are the outcome before any fix.

`PYTHONPATH=tests python -m documented.record [name...]`; with names, the outcomes of these are printed and not kept.
"""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from documented import Documented, programs
from documented.harness import difference

OUTCOMES = Path(__file__).with_name("first_outcomes.txt")
BACKENDS = ("eager", "native", "aot_eager")
SECONDS = 120


def outcome(program: Documented) -> str:
    found = {}
    for backend in BACKENDS:
        try:
            why = difference(program, backend)
        except BaseException as error:
            why = f"harness: {error!r}"
        if why is not None:
            found[backend] = why.replace("\n", " ")
    return f"{', '.join(found)}: {next(iter(found.values()))}" if found else "equal"


def outcomes(left: list[Documented]) -> Iterator[tuple[Documented, str]]:
    """They run in a child process: a program that ends it, or does not end, is a line, and the next child goes on."""
    while left:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            for program in left:
                signal.alarm(SECONDS)
                os.write(writer, outcome(program).encode() + b"\n")
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, errors="replace") as pipe:
            for found in pipe:
                yield left.pop(0), found.rstrip("\n")
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status:
            yield left.pop(0), f"the process ended ({status})"


def main(names: list[str]) -> None:
    lines = OUTCOMES.read_text().splitlines() if OUTCOMES.exists() and not names else []
    known = {line.split(" | ")[0]: line for line in lines}
    wanted = [p for p in programs() if p.name not in known and (not names or any(n in p.name for n in names))]
    for program, found in outcomes(wanted):
        known[program.name] = f"{program.name} | {program.source} | {found}"
        print(known[program.name], flush=True)
    if not names:
        OUTCOMES.write_text("".join(known[name] + "\n" for name in sorted(known)))


if __name__ == "__main__":
    main(sys.argv[1:])
