"""What the body of an operator may not change is refused by its name in the program, with the line that changes it."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from gramme.errors import CaptureError

log: list[str] = []
counts: dict[str, int] = {}
turns = 0
Program = Callable[[torch.Tensor], torch.Tensor]
PROGRAMS: list[tuple[Program, str]] = []


def refused(name: str) -> Callable[[Program], Program]:
    """The program is refused, and the text names this."""

    def add(program: Program) -> Program:
        PROGRAMS.append((program, name))
        return program

    return add


def branches(x: torch.Tensor, body: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    return torch.cond(x.sum() > 0, body, lambda x: x.cos(), (x,))


@refused("log")
def global_list(x: torch.Tensor) -> torch.Tensor:
    def body(x: torch.Tensor) -> torch.Tensor:
        log.append("seen")  # here
        return x.sin()

    return branches(x, body)


@refused("counts")
def global_dict(x: torch.Tensor) -> torch.Tensor:
    def body(x: torch.Tensor) -> torch.Tensor:
        counts["body"] = 1  # here
        return x.sin()

    return branches(x, body)


@refused("turns")
def global_number(x: torch.Tensor) -> torch.Tensor:
    def body(x: torch.Tensor) -> torch.Tensor:
        global turns
        turns += 1  # here
        return x.sin()

    return branches(x, body)


@refused("total")
def nonlocal_number(x: torch.Tensor) -> torch.Tensor:
    total = 0

    def body(x: torch.Tensor) -> torch.Tensor:
        nonlocal total
        total += 1  # here
        return x.sin()

    return branches(x, body) + total


@refused("kept")
def list_in_a_closure(x: torch.Tensor) -> torch.Tensor:
    kept: list[torch.Tensor] = []

    def body(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        kept.append(y)  # here
        return y

    return branches(x, body)


@refused("last")
def deque_by_another_name(x: torch.Tensor) -> torch.Tensor:
    recent: deque[int] = deque(maxlen=2)

    def note(last: deque[int]) -> None:
        last.append(1)  # here

    def body(x: torch.Tensor) -> torch.Tensor:
        note(recent)
        return x.sin()

    return branches(x, body)


@refused("names")
def set_in_a_closure(x: torch.Tensor) -> torch.Tensor:
    names: set[str] = set()

    def body(x: torch.Tensor) -> torch.Tensor:
        names.add("sin")  # here
        return x.sin()

    return branches(x, body)


class Counter:
    def __init__(self) -> None:
        self.calls = 0
        self.seen: list[int] = []

    def count(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1  # here
        return x.sin()


counter = Counter()


@refused("self.calls")
def attribute(x: torch.Tensor) -> torch.Tensor:
    return branches(x, counter.count)


@refused("counter.seen")
def list_in_an_attribute(x: torch.Tensor) -> torch.Tensor:
    def body(x: torch.Tensor) -> torch.Tensor:
        counter.seen.append(1)  # here
        return x.sin()

    return branches(x, body)


@refused("made.calls")
def attribute_of_a_new_object(x: torch.Tensor) -> torch.Tensor:
    made = Counter()

    def body(x: torch.Tensor) -> torch.Tensor:
        made.calls = 3  # here
        return x.sin()

    return branches(x, body)


@pytest.mark.parametrize(("program", "name"), PROGRAMS, ids=lambda value: getattr(value, "__name__", None))
def test_the_text_names_the_variable_and_its_line(program: Program, name: str) -> None:
    line = _line_marked_in(Counter.count if name == "self.calls" else program)
    with pytest.raises(CaptureError) as caught:
        gramme.compile(program, backend="eager", fullgraph=True)(torch.ones(3))
    assert f"`{name}` in test_refused_names.py:{line}" in str(caught.value)
    assert not re.search(r"a (List|Dict|Set|Cell|Object)\b", str(caught.value))


@pytest.mark.parametrize("program", [program for program, _ in PROGRAMS], ids=lambda value: value.__name__)
def test_nothing_is_half_done(program: Program) -> None:
    """torch.cond itself refuses such a body when it is called for real; so it does here, and the state is as before."""
    before = _state()
    with pytest.raises(RuntimeError, match="side effect"):
        gramme.compile(program, backend="eager")(torch.ones(3))
    assert _state() == before


def _line_marked_in(function: Any) -> int:
    start = function.__code__.co_firstlineno
    with open(__file__, encoding="utf-8") as file:
        lines = file.readlines()
    return next(number for number, text in enumerate(lines, 1) if number >= start and text.rstrip().endswith("# here"))


def _state() -> Any:
    return list(log), dict(counts), turns, counter.calls, list(counter.seen)
