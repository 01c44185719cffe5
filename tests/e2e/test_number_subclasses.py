"""Operands and indices whose classes are subclasses of int, float and str: who is asked first, and what it is asked."""

import enum
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from e2e.against_eager import BACKENDS, assert_same


class Int(int):
    def __add__(self, other: Any) -> Any:
        return 100

    __radd__ = __rmul__ = __rsub__ = __rtruediv__ = __rpow__ = __rfloordiv__ = __rmatmul__ = __rand__ = __add__

    def __eq__(self, other: Any) -> Any:
        return "eq"

    __lt__ = __gt__ = __le__ = __ge__ = __ne__ = __eq__
    __hash__ = int.__hash__

    def __index__(self) -> int:
        return 0


class PlainInt(int):
    pass


class Float(float):
    def __add__(self, other: Any) -> Any:
        return 200

    __radd__ = __rmul__ = __rsub__ = __rtruediv__ = __rpow__ = __lt__ = __gt__ = __add__

    def __float__(self) -> float:
        return 0.0


class Indexed(float):
    def __index__(self) -> int:
        return 1


class Text(str):
    def __radd__(self, other: Any) -> Any:
        return "radd"

    def __rmod__(self, other: Any) -> Any:
        return "rmod"


class Member(enum.IntEnum):
    ONE = 1
    TWO = 2

    def __radd__(self, other: Any) -> Any:
        return 300

    __lt__ = __rmul__ = __radd__


class Other:
    def __radd__(self, other: Any) -> Any:
        return 400

    __lt__ = __gt__ = __rmul__ = __radd__

    def __index__(self) -> int:
        return 1


class Members(frozenset):
    def __ror__(self, other: Any) -> Any:
        return "ror"

    def __radd__(self, other: Any) -> Any:
        return "radd"


def arithmetic(x: Any, y: Any) -> Any:
    return x + y, x * y, x - y


def reflected(x: Any, y: Any) -> Any:
    return y + x


def division(x: Any, y: Any) -> Any:
    return x / y, x**y


def rounding(x: Any, y: Any) -> Any:
    return x // y


def product(x: Any, y: Any) -> Any:
    return x @ y


def in_place(x: Any, y: Any) -> Any:
    x += y
    return x


def order(x: Any, y: Any) -> Any:
    return x < y, x > y


def equality(x: Any, y: Any) -> Any:
    return x == y, x != y


def union(x: Any, y: Any) -> Any:
    return x | y


LEFT: list[Callable[[], Any]] = [lambda: torch.ones(2), lambda: 3, lambda: 2.5, lambda: True, lambda: 1j]
RIGHT: list[Any] = [
    Int(2),
    PlainInt(2),
    Float(2.0),
    Indexed(2.0),
    Text("b"),
    Member.TWO,
    Other(),
    np.float32(2),
    np.int64(2),
]


@pytest.mark.parametrize("right", RIGHT, ids=lambda right: type(right).__name__)
@pytest.mark.parametrize(
    "function",
    [arithmetic, reflected, division, rounding, product, in_place, order, equality],
    ids=lambda function: function.__name__,
)
def test_operators(function: Callable[..., Any], right: Any) -> None:
    for left in LEFT:
        assert_same(
            lambda v, x, y: (v * 2, function(x, y)),
            lambda: (torch.ones(1), left(), right),  # noqa: B023
            backends=BACKENDS if left is LEFT[0] and function is arithmetic else ("eager",),
        )


def test_values_change() -> None:
    for cls in (Int, PlainInt, Float, np.float64):
        assert_same(
            lambda x, y: (x + y, x < y),
            lambda: (torch.ones(2), cls(0)),  # noqa: B023
            lambda: (torch.ones(2), cls(1)),  # noqa: B023
            lambda: (torch.ones(2), cls(2)),  # noqa: B023
        )


def test_sets() -> None:
    for left in ({1}, frozenset({1}), {1: 2}.keys()):
        for function in (union, arithmetic, equality):
            assert_same(
                lambda v, x, y: (v + 1, function(x, y)),  # noqa: B023
                lambda: (torch.ones(1), left, Members({2})),  # noqa: B023
                backends=("eager",),
            )


INDEXED: dict[str, Callable[..., Any]] = {
    "tensor": lambda x, i: x[i],
    "tensor slice": lambda x, i: x[:i],
    "tensor tuple": lambda x, i: x.reshape(4, 1)[i, 0],
    "list": lambda x, i: [10, 20, 30][i],
    "tuple": lambda x, i: (10, 20, 30)[i],
    "str": lambda x, i: "abc"[i],
    "slice": lambda x, i: [10, 20, 30][i:],
    "store": lambda x, i: x.__setitem__(i, 7.0) or x,
    "range": lambda x, i: list(range(i)),
    "repeat": lambda x, i: [1] * i,
    "shape": lambda x, i: torch.zeros(i),
    "reshape": lambda x, i: x.reshape(i, -1),
    "sum": lambda x, i: x.sum(i - i),
    "format": lambda x, i: (f"{i}", "%s" % i, "%d" % i, f"{i:3}"),
    "int": lambda x, i: (int(i), float(i), bool(i)),
    "dict": lambda x, i: {2: "two"}.get(i),
}


@pytest.mark.parametrize("where", INDEXED)
@pytest.mark.parametrize(
    "index",
    [Int(2), PlainInt(2), Indexed(2.0), Member.TWO, Other(), np.int64(2), np.int32(2)],
    ids=lambda index: type(index).__name__,
)
def test_indices(where: str, index: Any) -> None:
    function = INDEXED[where]
    backends = BACKENDS if where == "tensor" else ("eager",)
    assert_same(lambda x, i: (x + 1, function(x, i)), lambda: (torch.arange(4.0), index), backends=backends)
