"""One half of test_elsewhere.py, in a process of its own.

    python -m portable.elsewhere describe NAME ...   # what each program's captures are described as, to stdout
    python -m portable.elsewhere bind < descriptions  # of another process, bound here; for each program what is wrong

A description is plain data: it is printed and read as Python's literals.
"""

import ast
import sys
import warnings
from collections.abc import Iterable
from typing import Any

from e2e.front import Compiled
from e2e.harness import observe
from gramme import _C
from programs import Program, programs

portable = _C.testing.testing_portable  # type: ignore[attr-defined]

Descriptions = dict[str, list[list[tuple[Any, ...]]]]


def named(names: Iterable[str]) -> list[Program]:
    known = {p.name: p for p in programs()}
    return [known[name] for name in names]


def describe(names: Iterable[str]) -> Descriptions:
    found: Descriptions = {}
    for program in named(names):
        observe(program.function, program, plain=True)  # as there: what the program keeps from one run to the next
        portable.rebind(True)
        observe(Compiled(program.function), program, plain=True)
        found[program.name] = portable.rebound()["rows"]
    return found


def bind(descriptions: Descriptions) -> dict[str, list[str]]:
    """For each program: what its descriptions do not lead to here, and whether it runs otherwise than eagerly."""
    wrong: dict[str, list[str]] = {}
    for program in named(descriptions):
        eager = str(observe(program.function, program, plain=True))
        portable.rebind(True, descriptions[program.name])
        bound = str(observe(Compiled(program.function), program, plain=True))
        came_to = portable.rebound()
        wrong[program.name] = came_to["wrong"] + (["runs otherwise than eagerly"] if bound != eager else [])
        if came_to["segments"] + came_to["graphs"] != len(descriptions[program.name]):
            wrong[program.name].append(f"{len(descriptions[program.name])} segments and graphs, here {came_to}")
    return wrong


def main() -> None:
    assert _C.testing.use_evidence("slots")  # type: ignore[attr-defined]
    warnings.simplefilter("ignore")
    half, *names = sys.argv[1:]
    print(repr(describe(names)) if half == "describe" else repr(bind(ast.literal_eval(sys.stdin.read()))))


if __name__ == "__main__":
    main()
