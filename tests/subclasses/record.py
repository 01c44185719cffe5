"""Writes first_outcomes.txt, a line a program: what differs from eager under which backends, and how many graphs
gramme and torch.compile make. Lines that are there stay: they are the outcome before any fix.

`PYTHONPATH=tests python -m subclasses.record [name...]`; with names, the outcomes of these are printed and not kept.
"""

import sys
from pathlib import Path

import gramme
import torch
from outcomes import record

from subclasses import Program, programs
from subclasses.harness import BACKENDS, difference, graphs

OUTCOMES = Path(__file__).with_name("first_outcomes.txt")


def outcome(program: Program) -> str:
    found = {backend: why for backend in BACKENDS if (why := difference(program, backend))}
    text = "; ".join(f"{backend}: {why}" for backend, why in found.items()) or "equal"
    return f"{graphs(program, gramme)} | {graphs(program, torch)} | {text}"


if __name__ == "__main__":
    record(OUTCOMES, programs(), outcome, sys.argv[1:])
