"""The flat program: Python's values, none where there is none."""

import math
from typing import Any

import gramme
import pytest

shape: Any = gramme._C.testing.shape
a, b, c = (shape.symbol(k) for k in range(3))
x = shape.float_symbol(0)
ENDS = (-(2**63), -(2**63) + 1, -(2**62), -1, 0, 1, 2**31, 2**32 - 1, 2**32, 2**62, 2**63 - 1)


@pytest.mark.parametrize("divisor", [*ENDS, -7, -3, 3, 7])
@pytest.mark.parametrize("dividend", [*ENDS, -8, -7, 7, 8])
def test_division(dividend: int, divisor: int) -> None:
    found = [shape.run([e], [dividend, divisor]) for e in (a // b, a % b)]
    if divisor == 0:
        assert found == [None, None]
        return
    quotient = dividend // divisor
    assert found[0] == ([quotient] if quotient < 2**63 else None)
    assert found[1] == [dividend % divisor]


@pytest.mark.parametrize("p", ENDS)
@pytest.mark.parametrize("q", ENDS)
def test_overflow_is_no_value(p: int, q: int) -> None:
    for expression, value in ((a + b, p + q), (a - b, p - q), (a * b, p * q)):
        fits = -(2**63) <= value < 2**63
        assert shape.run([expression], [p, q]) == ([value] if fits else None)
    for condition, holds in ((shape.less(a, b), p < q), (shape.equal(a, b), p == q), (shape.at_most(a, b), p <= q)):
        found = shape.run([condition], [p, q])
        assert found in (None, [holds])
        assert shape.check([condition], [p, q])[0] == (found == [True])


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (x**-1, 0.0),
        (x**0.5, -1.0),
        (shape.square_root(x), -1.0),
        (x * 10, 1e308),
        (1 / x, 0.0),
        (shape.round(x), 1e19),
        (shape.floor(x), -1e19),
        (shape.round(x), 0.5),
        (shape.round(x), 2.5),
        (shape.truncate(x), -2.5),
        (x**2.0, -3.0),
        (x**3.0, -3.0),
    ],
)
def test_floats(expression: Any, value: float) -> None:
    found = shape.run([expression], [value])
    try:
        wanted = eval(repr(expression), {"s0": value, "math": math})
    except (ArithmeticError, ValueError):
        wanted = None
    too_large = isinstance(wanted, complex) or (wanted is not None and abs(wanted) >= 2**63)
    assert found == (None if wanted is None or too_large else [wanted])


def test_whole_numbers_that_are_no_floats() -> None:
    assert shape.run([shape.to_float(a)], [2**53]) == [2.0**53]
    assert shape.run([shape.to_float(a)], [2**53 + 1]) is None
    assert shape.run([a / b], [1, 3]) == [1 / 3]


def test_all_or_nothing() -> None:
    assert shape.run([a + 1, a // b], [5, 2]) == [6, 2]
    assert shape.run([a + 1, a // b], [5, 0]) is None


def test_conditions() -> None:
    conditions = [shape.at_least(a, 2), shape.equal(c, 64 * b), shape.not_equal(a % b, 0)]
    assert shape.check(conditions, [7, 2, 128])[0]
    for values in ([1, 2, 128], [7, 2, 127], [6, 2, 128], [7, 0, 0]):
        assert not shape.check(conditions, values)[0]
    assert shape.check([shape.both(shape.less(a, b), shape.less(b, c))], [1, 2, 3])[0]
    assert not shape.check([shape.either(shape.less(a, b), shape.less(b, c))], [3, 2, 1])[0]
    assert not shape.check([shape.expression(False)], [])[0]
    assert shape.check([shape.expression(True)], [])[0]


def test_what_is_common_is_computed_once() -> None:
    rows = (a + 1) // 2
    assert shape.check([shape.at_most(rows, b), shape.at_most(rows * 3, c)], [3, 9, 9]) == (True, 5)
    assert shape.check([shape.equal(c, 64 * b)], [0, 1, 64]) == (True, 2)
    assert shape.check([shape.at_most(a, 512)], [1, 0, 0]) == (True, 1)
