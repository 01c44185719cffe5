"""Writes first_outcomes.txt, a line a program: what differs from eager under which backends, and how many graphs
gramme and torch.compile make. Lines that are there stay: they are the outcome before any fix.

`PYTHONPATH=tests python -m subclasses.record [name...]`; with names, the outcomes of these are printed and not kept.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import gramme
import torch

from subclasses import Program, programs
from subclasses.harness import BACKENDS, difference, graphs

OUTCOMES = Path(__file__).with_name("first_outcomes.txt")


def outcome(program: Program) -> str:
    found = {backend: why for backend in BACKENDS if (why := difference(program, backend))}
    text = "; ".join(f"{backend}: {why}" for backend, why in found.items()) or "equal"
    return f"{graphs(program, gramme)} | {graphs(program, torch)} | {text}"


def outcomes(left: list[Program]) -> Iterator[tuple[Program, str]]:
    """They run in a child process: a program that ends it is a line, and the next child goes on."""
    while left:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            for program in left:
                os.write(writer, outcome(program).replace("\n", " ").encode() + b"\n")
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, errors="replace") as pipe:
            for found in pipe:
                yield left.pop(0), found.rstrip("\n")
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status:
            yield left.pop(0), f"- | - | the process ended ({status})"


def main(names: list[str]) -> None:
    lines = OUTCOMES.read_text().splitlines() if OUTCOMES.exists() and not names else []
    known = {line.split(" | ")[0]: line for line in lines}
    wanted = [p for p in programs() if p.name not in known and (not names or any(n in p.name for n in names))]
    for program, found in outcomes(wanted):
        known[program.name] = f"{program.name} | {found}"
        print(known[program.name], flush=True)
    if not names:
        OUTCOMES.write_text("".join(known[name] + "\n" for name in sorted(known)))


if __name__ == "__main__":
    main(sys.argv[1:])
