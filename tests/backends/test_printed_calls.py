"""Graphs whose Python torch.fx prints: the text means the program's call, whatever its operands are."""

import operator
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch

X = torch.tensor([3.0, 2.0, 0.0, 1.0])
BASES = [-1, -2.5, -0.0, float("-inf"), float("nan"), 2, -(2**40)]
INFIX: dict[str, Callable[[Any, Any], Any]] = {
    name: getattr(operator, name)
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "le", "eq", "ne", "gt", "ge")
}


def run_as_it_is(graph: torch.fx.GraphModule, _: Any) -> Any:
    return graph.forward


def assert_same_bits(got: torch.Tensor, expected: torch.Tensor) -> None:
    assert got.dtype == expected.dtype
    torch.testing.assert_close(got, expected, rtol=0, atol=0, equal_nan=True)
    if expected.is_floating_point():
        assert torch.equal(got.signbit() & ~got.isnan(), expected.signbit() & ~expected.isnan())


@pytest.mark.parametrize(
    "backend", ["eager", "native", "aot_eager", run_as_it_is], ids=["eager", "native", "aot_eager", "callable"]
)
@pytest.mark.parametrize("name", INFIX)
def test_numbers_on_the_left(name: str, backend: Any) -> None:
    function = INFIX[name]

    def all_bases(x: torch.Tensor) -> list[torch.Tensor]:
        return [function(base, x) for base in BASES]

    def all_bases_on_the_right(x: torch.Tensor) -> list[torch.Tensor]:
        return [function(x, base) for base in BASES]

    for program in (all_bases, all_bases_on_the_right):
        compiled = gramme.compile(program, backend=backend, fullgraph=True)
        for x in (X, X.double(), X[:2]):
            for got, expected in zip(compiled(x), program(x), strict=True):
                assert_same_bits(got, expected)


def in_place(x: torch.Tensor) -> torch.Tensor:
    power: Any = -2
    power **= x
    return power


POWERS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "minus_one": lambda x: (-1) ** x.long(),
    "nested": lambda x: -(((-2) ** x) ** 2),
    "builtin": lambda x: pow(-3, x),
    "in_place": in_place,
    "method": lambda x: x.__rpow__(-1.5),
    "function": lambda x: torch.pow(-2, x),
    "size": lambda x: x * (-1) ** x.shape[0] + (-0.5) ** x.shape[0],
    "negative_of_a_power": lambda x: -(2**x),
}


@pytest.mark.parametrize("backend", ["eager", "native", run_as_it_is], ids=["eager", "native", "callable"])
@pytest.mark.parametrize("name", POWERS)
def test_powers_of_negative_numbers(name: str, backend: Any) -> None:
    function = POWERS[name]
    compiled = gramme.compile(function, backend=backend, fullgraph=True, dynamic=True)
    for x in (X, X[:3], X.double()):
        assert_same_bits(compiled(x), function(x))


def test_a_power_in_a_body() -> None:
    def function(x: torch.Tensor, flag: torch.Tensor) -> torch.Tensor:
        return torch.cond(flag, lambda x: ((-2.0) ** x).abs(), lambda x: x * 2, (x,))

    compiled = gramme.compile(function, backend="eager", fullgraph=True)
    for flag in (torch.tensor(True), torch.tensor(False)):
        assert_same_bits(compiled(X, flag), function(X, flag))
