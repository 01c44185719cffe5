"""Classes that the library makes by a call: carried out for real, and nothing of the library is captured."""

import collections
import dataclasses
import enum
import typing
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch


def named_tuple(x: torch.Tensor) -> Any:
    kind = collections.namedtuple("kind", "a b", defaults=[2])  # noqa: PYI024
    pair = kind(x + 1)
    return pair.a * pair.b, kind.__module__, kind.__qualname__, pair._fields


def typed_tuple(x: torch.Tensor) -> Any:
    kind = typing.NamedTuple("kind", [("a", Any), ("b", int)])  # noqa: UP014
    return kind(x + 1, 2).a * 2, kind.__module__, kind.__annotations__


def enumeration(x: torch.Tensor) -> Any:
    kind = enum.Enum("kind", "A B")
    return x + kind.B.value, kind.__module__, [member.name for member in kind]


def flags(x: torch.Tensor) -> Any:
    kind = enum.Flag("kind", ["A", "B"])
    return x + (kind.A | kind.B).value, kind.__module__


def data_class(x: torch.Tensor) -> Any:
    kind = dataclasses.make_dataclass("kind", ["a", ("b", int, 3)])
    made = kind(x + 1)
    return made.a * made.b, [field.name for field in dataclasses.fields(kind)], kind.__doc__


@pytest.mark.parametrize("program", [named_tuple, typed_tuple, enumeration, flags, data_class])
def test_one_break_and_no_capture_of_the_library(program: Callable[..., Any]) -> None:
    x = torch.ones(2)
    found = gramme.explain(program)(x)
    assert len({each.reason for each in found.break_reasons}) == (program not in (named_tuple, enumeration, flags))
    gramme.reset()
    entry = gramme.compile(program, backend="eager")
    for call in range(3):
        with gramme.meter() as meter:
            assert str(entry(x)) == str(program(x))
        assert meter.graphs == 1
        assert meter.captures <= (1 if call else 4)  # another class each time, and the segment before it


def test_a_decorated_class_and_what_its_making_calls() -> None:
    made: list[str] = []

    class Base:
        def __init_subclass__(cls) -> None:
            made.append(cls.__name__)

    def program(x: torch.Tensor) -> Any:
        @dataclasses.dataclass
        class Pair(Base):
            a: Any
            b: int = 3

        class Color(enum.Enum):
            RED = 2

        pair = Pair(x)
        return pair.a * pair.b + Color.RED.value, repr(Pair(1)), Color.RED.name

    entry, x = gramme.compile(program, backend="eager"), torch.ones(2)
    for _ in range(2):
        assert str(entry(x)) == str(program(x))
    assert made == ["Pair"] * 4
