"""Programs that show when objects live and die: finalizers, weak references, counts, collections, frames that stay.

Each takes the list of its events, and is a row of `PROGRAMS`. What they say of plain CPython is what counts; no program
knows a version.
"""

import types
from collections.abc import Callable
from typing import Any

PROGRAMS: dict[str, Callable[[list[Any]], Any]] = {}
FUNCTIONS: set[types.CodeType] = set()  # whose frames are taken


def program(function: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    PROGRAMS[function.__name__] = function
    add_codes(function.__code__)
    return function


def add_codes(code: types.CodeType) -> None:
    FUNCTIONS.add(code)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            add_codes(constant)


def helper(function: Callable[..., Any]) -> Callable[..., Any]:
    add_codes(function.__code__)
    return function


class Tracked:
    """Says when it dies."""

    def __init__(self, log: list[Any], name: str) -> None:
        self.log, self.name = log, name

    def __del__(self) -> None:
        self.log.append("del " + self.name)

    def __repr__(self) -> str:
        return self.name


class Number(Tracked):
    """Has operators, each of which says that it ran."""

    def binary(self, other: Any) -> "Number":
        name = f"({self.name}+{getattr(other, 'name', other)})"
        self.log.append("op " + name)
        return Number(self.log, name)

    __add__ = __radd__ = __sub__ = __mul__ = __iadd__ = __and__ = __matmul__ = binary

    def __neg__(self) -> "Number":
        return Number(self.log, "-" + self.name)

    def __invert__(self) -> "Number":
        return Number(self.log, "~" + self.name)

    def __bool__(self) -> bool:
        self.log.append("bool " + self.name)
        return True

    def __eq__(self, other: object) -> bool:
        self.log.append(f"eq {self.name} {other}")
        return False

    def __lt__(self, other: object) -> bool:
        self.log.append(f"lt {self.name} {other}")
        return True

    def __hash__(self) -> int:
        return 1

    def __contains__(self, other: object) -> bool:
        self.log.append(f"in {self.name} {other}")
        return True

    def __getitem__(self, key: object) -> "Number":
        return Number(self.log, f"{self.name}[{key}]")

    def __setitem__(self, key: object, value: object) -> None:
        self.log.append(f"set {self.name} {key} {value}")

    def __delitem__(self, key: object) -> None:
        self.log.append(f"delete {self.name} {key}")

    def __call__(self, *args: Any, **kwargs: Any) -> "Number":
        self.log.append(f"call {self.name} {args} {kwargs}")
        return Number(self.log, self.name + "()")

    def method(self, *args: Any) -> "Number":
        self.log.append(f"method {self.name} {args}")
        return Number(self.log, self.name + ".m")

    def __iter__(self) -> Any:
        return iter([Number(self.log, self.name + "0"), Number(self.log, self.name + "1")])

    def __format__(self, spec: str) -> str:
        self.log.append("format " + self.name)
        return self.name

    def __enter__(self) -> "Number":
        self.log.append("enter " + self.name)
        return Number(self.log, self.name + "e")

    def __exit__(self, kind: Any, value: Any, where: Any) -> bool:
        self.log.append(f"exit {self.name} {kind and kind.__name__}")
        return self.name.startswith("swallow")


class Failing(Number):
    def binary(self, other: Any) -> "Number":
        self.log.append("op fails")
        raise ValueError("failing")

    __add__ = __radd__ = __sub__ = __mul__ = __iadd__ = binary

    def __bool__(self) -> bool:
        raise ValueError("bool")

    def __lt__(self, other: object) -> bool:
        raise ValueError("lt")

    def __getitem__(self, key: object) -> "Number":
        raise ValueError("item")

    def __setitem__(self, key: object, value: object) -> None:
        raise ValueError("set")

    def __call__(self, *args: Any, **kwargs: Any) -> "Number":
        raise ValueError("call")

    def __iter__(self) -> Any:
        raise ValueError("iter")
