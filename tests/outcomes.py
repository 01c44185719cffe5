"""Outcomes of programs in a file, a line each: those that are there stay, since they are from before any fix."""

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol, TypeVar

SECONDS = 120


class Named(Protocol):
    name: str


P = TypeVar("P", bound=Named)


def outcomes(left: list[P], outcome: Callable[[P], str]) -> Iterator[tuple[P, str]]:
    """They run in a child process: a program that ends it, or does not end, is a line, and the next child goes on."""
    while left:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            for program in left:
                signal.alarm(SECONDS)
                os.write(writer, outcome(program).replace("\n", " ").encode() + b"\n")
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, errors="replace") as pipe:
            for found in pipe:
                yield left.pop(0), found.rstrip("\n")
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status:
            yield left.pop(0), f"the process ended ({status})"


def record(path: Path, programs: Iterable[P], outcome: Callable[[P], str], names: list[str]) -> None:
    """Adds a line for each program that has none; with names, prints the outcomes of these and keeps none."""
    lines = path.read_text().splitlines() if path.exists() and not names else []
    known = {line.split(" | ")[0]: line for line in lines}
    wanted = [p for p in programs if p.name not in known and (not names or any(n in p.name for n in names))]
    for program, found in outcomes(wanted, outcome):
        known[program.name] = f"{program.name} | {found}"
        print(known[program.name], flush=True)
    if not names:
        path.write_text("".join(known[name] + "\n" for name in sorted(known)))
