"""Generic classes subscripted in captured code: what typing keeps in its caches and forms is one object."""

from collections.abc import Callable
from types import GenericAlias
from typing import Any, Generic, Optional, TypeVar

import gramme
import pytest
import torch

T = TypeVar("T")
S = TypeVar("S")


class Stack(Generic[T]): ...


class Child(Stack[S]): ...


KEPT = Stack[int]
LISTS = list[int]
EITHER = int | None
CASES: dict[str, Callable[[], Any]] = {
    "kept by the program": lambda: (KEPT is Stack[int], Stack[int] is KEPT, KEPT == Stack[int]),
    "made twice": lambda: (Stack[int] is Stack[int], Stack[int] is Stack[str], Stack[T] is Stack[T]),
    "with a parameter": lambda: (Stack[S] == Stack[S], Stack[S].__args__[0] is S, Stack[S].__parameters__[0] is S),
    "of a base": lambda: (Child.__orig_bases__[0] == Stack[S], Child.__parameters__[0] is S),  # type: ignore[attr-defined]
    "not kept": lambda: (list[int] is list[int], list[int] == list[int], list[T].__args__[0] is T),
    "optional": lambda: (Optional[int] == Optional[int], Optional[T].__args__[0] is T),
    "its parts": lambda: (
        LISTS.__args__ is LISTS.__args__,
        LISTS.__origin__ is list,
        EITHER.__args__ is EITHER.__args__,
    ),
    "parts of a new one": lambda: (
        GenericAlias(Stack, (int,)).__origin__ is Stack,
        GenericAlias(list, (S,)).__args__[0] is S,
    ),
    "a form in a form": lambda: (Stack[Stack[T]].__args__[0] is Stack[T], Stack[Stack[T]] is Stack[Stack[T]]),
}


@pytest.mark.parametrize("name", CASES)
def test_identity(name: str) -> None:
    case = CASES[name]
    compiled = gramme.compile(lambda t: (t + 1, case()), backend="eager")
    for _ in range(2):
        assert compiled(torch.ones(2))[1] == case()
