"""Constants that a program gives to operations: what a graph's Python cannot write stays out of graphs."""

import enum
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from sampling import steady

from e2e import front
from e2e.harness import Compiled

X = torch.arange(4.0).reshape(2, 2)

TYPES_FOR_DTYPES: dict[str, Callable[[torch.Tensor], Any]] = {
    "to": lambda x: (x.to(float), x.to(bool), x.to(int), x.to(complex)),
    "tensor": lambda x: torch.tensor(0, dtype=int) + x,
    "zeros": lambda x: torch.zeros(2, dtype=complex) + x,
    "sum": lambda x: x.sum(dtype=float),
    "method by keyword": lambda x: x.cumsum(0, dtype=int),
    "function in Python": lambda x: F.softmax(x, 0, dtype=float),
    "view": lambda x: x.to(float).view(int),
    "arange": lambda x: torch.arange(4, dtype=float).view(2, 2) + x,
    "new_ones": lambda x: x.new_ones((2,), dtype=bool) & (x > 0),
}


@pytest.mark.parametrize("name", TYPES_FOR_DTYPES)
def test_types_that_stand_for_dtypes(name: str) -> None:
    program = TYPES_FOR_DTYPES[name]
    compiled = Compiled(program)
    expected = program(X)
    for _ in range(2):
        torch.testing.assert_close(compiled(X), expected, rtol=0, atol=0)
    if front.GRAMME:
        assert len(compiled.recorder.graphs) == 1


NUMBERS = [complex(-0.0, 1), complex(1, -0.0), complex(0, float("inf")), complex(float("nan"), float("nan")), 2 - 3j]


@pytest.mark.parametrize("value", NUMBERS, ids=repr)
def test_complex_numbers(value: complex) -> None:
    def program(x: torch.Tensor) -> Any:
        made = torch.view_as_real(torch.full((1,), value))
        return made.signbit(), made, torch.view_as_real(x * value)

    compiled = Compiled(program)
    for _ in range(2):
        torch.testing.assert_close(compiled(X), program(X), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("number", [float("inf"), -0.0, float("nan"), 1e-320], ids=repr)
def test_floats(number: float) -> None:
    program = lambda x: (torch.full((1,), number).signbit(), x * number)  # noqa: E731
    torch.testing.assert_close(Compiled(program)(X), program(X), rtol=0, atol=0, equal_nan=True)


def test_an_int_of_many_digits() -> None:
    compiled = Compiled(lambda x: x * 10**5000)
    for _ in range(2):
        with pytest.raises(OverflowError):
            compiled(X)


class Color(enum.Enum):
    RED = 1


@torch.compiler.allow_in_graph
def told(x: torch.Tensor, what: Any) -> torch.Tensor:
    """Python functions get what the program gives them, not a dtype in place of a type."""
    known = [int, float, len, torch.add, Color, Color.RED, type(None), torch]
    return x * ([i for i, k in enumerate(known) if k is what] or [10])[0]


@pytest.mark.parametrize(
    "what", [int, len, torch.add, Color, Color.RED, type(None), torch, [int], "a\n'\"", b"a", ..., range(3)], ids=steady
)
def test_objects_for_functions_in_the_graph(what: Any) -> None:
    program = lambda x: told(x, what)  # noqa: E731
    compiled = Compiled(program)
    for _ in range(2):
        assert torch.equal(compiled(X), program(X))
