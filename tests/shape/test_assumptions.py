"""What follows from intervals and guards, and what does not."""

from typing import Any

import gramme
import pytest

shape: Any = gramme._C.testing.shape


def symbols(count: int, low: int = 2) -> tuple[Any, list[Any]]:
    assumptions = shape.Assumptions()
    return assumptions, [assumptions.add_symbol((low, None), 10 * (k + 1)) for k in range(count)]


def test_what_is_left_of_a_captures_guards() -> None:
    """Sizes of two at least decide what operators ask about them."""
    known, (a, b) = symbols(2)
    for expression, answer in [
        (shape.at_least(64 * b, 64), True),
        (shape.not_equal(a * b, 1), True),
        (shape.greater(b * b, 1), True),
        (shape.not_equal(a * b * 3, 0), True),
        (shape.equal(a, 1), False),
        (shape.at_most(a * b, 3), False),
        (shape.less(a, 512), None),
        (shape.equal(a, b), None),
        (shape.at_least(shape.floor(a * 0.5), 0), True),
        (shape.at_least(1 / a**0.5, 0.0), True),
        (shape.less(shape.square_root(a), 0), False),
        (shape.either(shape.less(a, b), shape.at_least(a, 0)), True),
        (shape.both(shape.less(a, b), shape.less(a, 0)), False),
    ]:
        assert known.decide(expression) is answer, expression


def test_guards() -> None:
    known, (a, b, c) = symbols(3)
    known.learn(shape.less(a, b))
    assert known.decide(shape.at_most(a, b)) is True
    assert known.decide(shape.not_equal(a, b)) is True
    assert known.decide(shape.greater(2 * a, 2 * b)) is False
    assert known.decide(shape.less(a + 1, b)) is None
    known.learn(shape.both(shape.at_most(c, 512), shape.not_equal(c, 2)))
    assert known.range(c) == (3, 512)
    assert known.range(3 * c + 1) == (10, 1537)
    assert known.decide(shape.less(c * 2, 1025)) is True
    either = shape.either(shape.equal(a, 5), shape.equal(b, 5))
    assert known.decide(either) is None
    known.learn(either)
    assert known.decide(either) is True
    assert known.decide(shape.negation(either)) is False


def test_sums_of_symbols_have_intervals_of_their_own() -> None:
    known, (a, b) = symbols(2)
    known.learn(shape.at_most(a + b, 100))
    assert known.range(2 * a + 2 * b + 1) == (9, 201)
    assert known.range(-a - b) == (-100, -4)
    assert known.decide(shape.greater(a + b, 100)) is False


def test_an_equality_replaces_a_symbol() -> None:
    known, (a, b, c) = symbols(3)
    known.learn(shape.at_least(c, 129))
    known.learn(shape.equal(c, 64 * b))
    assert repr(known.simplified(c * a)) == "64*s0*s1"
    assert known.range(b) == (3, None)  # of 64*b >= 129
    known.learn(shape.equal(b, a))
    assert repr(known.simplified(c + b)) == "65*s0"
    assert known.decide(shape.equal(c, 64 * a)) is True
    known.learn(shape.equal(a, 7))
    assert repr(known.simplified(c)) == "448"
    assert known.decide(shape.less(b, 8)) is True


def test_what_comes_out_of_data_is_replaced_first() -> None:
    known = shape.Assumptions()
    unbacked, a = known.add_symbol((0, None)), known.add_symbol((2, None), 5)
    known.learn(shape.equal(unbacked, a))
    assert repr(known.simplified(unbacked + a)) == "2*s1"
    assert known.hint(unbacked) is None
    assert known.hint(a * 2) == 10
    assert known.hint(known.simplified(unbacked)) == 5


def test_divisibility() -> None:
    known, (a, b) = symbols(2)
    assert known.decide(shape.equal(a // 4 * 4, a)) is None
    known.learn(shape.equal(a % 4, 0))
    assert known.decide(shape.equal(a // 4 * 4, a)) is True
    assert repr(known.simplified(4 * b * 1 + 8 * (a // 4))) == "2*s0 + 4*s1"
    assert known.decide(shape.equal(a * b, 4 * b * (a // 4))) is True
    known.learn(shape.not_equal(b % 2, 0))
    assert known.range(b % 2) == (1, 1)


def test_products_compare_as_their_factors() -> None:
    known, (a, b, c) = symbols(3)
    assert repr(known.simplified(shape.equal((a * b) % (4 * b), 0))) == "s0%4 == 0"
    assert repr(known.simplified(shape.at_most(a * c, b * c))) == "s0 <= s1"
    loose = shape.Assumptions()
    x, y, z = (loose.add_symbol((0, None), 3) for _ in range(3))
    assert repr(loose.simplified(shape.equal(x * z, y * z))) == "s0*s2 == s1*s2"


def test_simplified() -> None:
    known, (a, b) = symbols(2)
    known.learn(shape.at_most(a, 7))
    for expression, text in [
        (shape.maximum(1, a), "s0"),
        (shape.maximum(a, 9), "9"),
        (shape.minimum(a, b + 8), "s0"),
        (shape.maximum(shape.maximum(1, a), b), "max(s0, s1)"),
        (a % 8, "s0"),
        (a // 8, "0"),
        (a // 4, "s0//4"),
        (shape.equal(a, 9), "False"),
        (shape.both(shape.less(a, 9), shape.less(b, 9)), "s1 <= 8"),
    ]:
        assert repr(known.simplified(expression)) == text


@pytest.mark.parametrize("ends", [(None, None), (None, 5), (-5, None), (2**63 - 1, None), (-(2**63) + 1, -(2**62))])
def test_no_interval_ends_where_64_bits_do(ends: tuple[int | None, int | None]) -> None:
    """Beyond them there are numbers too."""
    known = shape.Assumptions()
    a = known.add_symbol(ends, 5)
    assert known.decide(shape.at_most(a * a * a, 2**63 - 1)) in ((True,) if ends[1] == -(2**62) else (None,))
    low, high = known.range(a * a + a)
    assert low is None or low <= 2**63 - 1
    assert high is None


def test_hints() -> None:
    known, (a, b) = symbols(2)
    assert known.hint(a * b + 1) == 201
    assert known.hint(shape.less(a, b)) is True
    assert known.hint(a / b) == 0.5
    assert known.hint(a // (b - 20)) is None
    assert known.hint(a**10 * b**10) is None
