"""`**` of what is no mapping, `*` of what is no iterable: the exception that CPython makes of the one underneath."""

from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch


class Keyed:
    def keys(self) -> list[str]:
        return ["a"]


class Raises:
    def keys(self) -> list[str]:
        raise AttributeError("inner")


class Whole(Keyed):
    def __getitem__(self, key: object) -> int:
        if key == "a":
            return 7
        raise IndexError(key)


def takes(**given: Any) -> dict[str, Any]:
    return given


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "display": lambda v: {**v},
    "display behind": lambda v: {"q": 1, **v},
    "call": lambda v: takes(**v),
    "call behind": lambda v: takes(z=1, **v),
    "call of a class": lambda v: dict(**v),
    "list": lambda v: [*v],
    "tuple": lambda v: (*v,),
    "arguments": lambda v: takes(*v),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("value", [5, None, [1], Keyed(), Raises(), Whole(), {"a": 1}], ids=lambda v: type(v).__name__)
def test_the_exception_is_cpythons(name: str, value: Any) -> None:
    def program(v: Any, x: torch.Tensor) -> tuple[str, torch.Tensor]:
        try:
            found = str(PROGRAMS[name](v))
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
        return found, x + 1

    assert gramme.compile(program, backend="eager")(value, torch.ones(2))[0] == program(value, torch.ones(2))[0]
