"""What meets in one node, what cannot be expressed, and how expressions read."""

import itertools
import subprocess
import sys
from typing import Any

import gramme
import pytest

shape: Any = gramme._C.testing.shape

a, b, c, d = (shape.symbol(k) for k in range(4))
x = shape.float_symbol(4)


def same(*expressions: Any) -> bool:
    return len({e.id for e in map(shape.expression, expressions)}) == 1


MEETS = [
    (a * b + c, c + b * a),
    ((a + b) + (c + d), (d + a) + (c + b), a - (-b) + c + d),
    (a * (b * c), (c * a) * b, c * (b * a)),
    (2 * (a + b), a * 2 + 2 * b, (a + b) + (b + a)),
    ((2 * a + 2) * b, 2 * ((a + 1) * b), b * (a + 1) + (1 + a) * b),
    ((1 - a) * b, -((a - 1) * b), (a - 1) * -b),
    (a * a * a, a**3, a**2 * a),
    ((a + 1) ** 2, (1 + a) * (a + 1)),
    (a - a, 0 * a, 0),
    (a**0, a // a, 1),
    ((2 * a * b) // 2, a * b, (a * b * c) // c),
    ((4 * a + 6) // 2, 2 * a + 3),
    ((2 * a + 1) // 4, a // 2),
    ((a + 7) // 7, a // 7 + 1),
    ((a // 2) // 3, a // 6),
    (a // -3, -a // 3),
    ((a * b + c) // b, a + c // b),
    ((3 * a) // (2 * a), 1),
    ((a * b) // (a * c), b // c),
    ((2 * a) // (2 * b), a // b),
    ((a + 1) * b // (a + 1), b),
    ((a - b) // (b - c), (b - a) // (c - b)),
    (a % 1, (6 * a) % 3, (a * b) % b, 0),
    ((a + 8) % 8, a % 8),
    ((8 - a) % 8, -a % 8),
    ((2 * a + 1) % 4, 2 * (a % 2) + 1),
    (a % -3, -(-a % 3)),
    ((2 * a) % (2 * b), 2 * (a % b)),
    ((a * b) % (4 * b), b * (a % 4)),
    (shape.maximum(a, shape.maximum(b, a)), shape.maximum(b, a)),
    (shape.maximum(shape.maximum(1, a), 3), shape.maximum(a, 3)),
    (shape.minimum(a, a + 1), a),
    (shape.maximum(a, a + 1), a + 1),
    (shape.less(a, b), shape.greater(b, a), shape.at_least(b - a, 1), shape.negation(shape.at_least(a, b))),
    (shape.at_least(64 * a, 64), shape.greater(a, 0), shape.at_least(a, 1)),
    (shape.less(2 * a, 2 * b + 5), shape.at_least(b - a, -2), shape.at_most(a, b + 2)),
    (shape.equal(2 * a, 2 * b + 2), shape.equal(b + 1, a), shape.equal(a - b, 1)),
    (shape.equal(2 * a, 2 * b + 1), shape.less(a, a), shape.not_equal(a, a), False),
    (shape.not_equal(2 * a, 1), shape.at_most(a, a), True),
    (shape.equal((a + 1) * b, a * b + b), shape.equal((a + b) ** 2, a * a + 2 * a * b + b * b), True),
    (shape.at_most(a // 4, 3), shape.less(a, 16), shape.at_most(a, 15)),
    (shape.at_least(a // 4, 3), shape.at_least(a, 12)),
    (shape.both(shape.less(a, b), shape.less(b, c)), shape.both(shape.less(b, c), shape.less(a, b))),
    (shape.both(shape.less(a, b), shape.at_least(a, b)), shape.both(shape.less(a, b), False), False),
    (shape.either(shape.less(a, b), shape.at_least(a, b)), shape.either(shape.less(a, b), True), True),
    (
        shape.negation(shape.both(shape.less(a, b), shape.equal(c, 1))),
        shape.either(shape.not_equal(c, 1), shape.at_most(b, a)),
    ),
    (x + a, a + x, shape.to_float(a) + x),
    (x * 2, 2.0 * x),
    (shape.negation(shape.less(x, a)), shape.at_most(a, x)),
    (shape.truncate(shape.to_float(a)), shape.floor(a), shape.ceil(a), shape.round(a), a),
    (shape.expression(3) / 2, 1.5),
    (shape.floor(shape.expression(7) / 2), 3),
]


@pytest.mark.parametrize("expressions", MEETS, ids=lambda expressions: repr(shape.expression(expressions[0])))
def test_meets(expressions: tuple[Any, ...]) -> None:
    assert same(*expressions), expressions


def test_every_order_of_a_sum_and_of_a_product() -> None:
    terms = [a * b, 3 * c, d // 2, -a, 7]
    sums = [shape.expression(0)] * 120
    products = [shape.expression(1)] * 120
    for i, order in enumerate(itertools.permutations(terms)):
        for term in order:
            sums[i], products[i] = sums[i] + term, products[i] * term
    assert same(*sums)
    assert same(*products)


@pytest.mark.parametrize(
    "expressions",
    [(a, b), (a + 1, a), (a // b, b // a), (a - b, b - a), (a // 2 * 2, a), (a * 1.0, a), (shape.less(x, 1), x)],
)
def test_does_not_meet(expressions: tuple[Any, ...]) -> None:
    assert len({e.id for e in expressions}) == len(expressions)


LARGE = 2**62


@pytest.mark.parametrize(
    "expression",
    [
        a * LARGE * 4,
        (a * LARGE) * (b * LARGE),
        a * LARGE + a * LARGE,
        (a + LARGE) + LARGE,
        shape.expression(-(2**63)) + a,
        shape.expression(2**64),
        a // 0,
        a % 0,
        a // x,
        a**b,
        a**65,
        shape.minimum(a, x),
        shape.less(a, 1) + 1,
        shape.both(a, b),
        shape.negation(a),
        x / 0.0,
        shape.expression(1) / 0,
        shape.expression(float("nan")),
        x * float("inf"),
        shape.square_root(-1),
        shape.to_float(2**53 + 1),
        shape.round(1e30),
        (a // 0) + 1,
        shape.negation(shape.less(a // 0, 1)),
    ],
)
def test_cannot_be_expressed(expression: Any) -> None:
    assert not expression.expressed


def test_what_is_too_large_cannot_be_expressed() -> None:
    value = a
    for _ in range(2000):
        value = (value + 1) // 2 + b
        if not value.expressed:
            break
        assert value.size <= 1000
    assert not value.expressed


TEXTS = [
    (2 * a - 3, "2*s0 - 3"),
    (3 - a, "3 - s0"),
    (-a - 3, "-s0 - 3"),
    (b - a, "s1 - s0"),
    (a * a * b * 8, "8*s0**2*s1"),
    ((a + 1) * b, "s1*(s0 + 1)"),
    (3 * ((a + 1) // 2), "3*((s0 + 1)//2)"),
    (-(a % 3), "-(s0%3)"),
    (b - a % 3, "s1 - s0%3"),
    (a // (b * c), "s0//(s1*s2)"),
    ((a * b) // c, "s0*s1//s2"),
    ((a // b) % c, "s0//s1%s2"),
    (shape.maximum(a - 2, 1), "max(1, s0 - 2)"),
    (shape.at_most(a, 512), "s0 <= 512"),
    (shape.less(a, b), "s0 < s1"),
    (shape.greater(a, b), "s0 > s1"),
    (shape.at_most(a + 3, b), "s0 <= s1 - 3"),
    (shape.at_least(a, 2 * b - c), "s0 + s2 >= 2*s1"),
    (shape.equal(c, 64 * b), "64*s1 == s2"),
    (shape.not_equal(a % 2, 0), "s0%2 != 0"),
    (shape.both(shape.at_least(a, 2), shape.either(shape.equal(b, 1), shape.equal(c, 1))), None),
    (1 / a**0.5, "1.0/float(s0)**0.5"),
    (a / 3, "s0/3"),
    (shape.truncate(0.75 * a), "math.trunc(0.75*float(s0))"),
    (shape.square_root(a) + 1e20, "1e+20 + math.sqrt(float(s0))"),
]


@pytest.mark.parametrize(("expression", "text"), TEXTS)
def test_text(expression: Any, text: str | None) -> None:
    assert repr(expression) == (text or "s0 >= 2 and (s1 == 1 or s2 == 1)")


def test_names() -> None:
    assert (a * b + c).text(["batch", "", "x.shape[1]"]) == "x.shape[1] + batch*s1"


def test_texts_do_not_depend_on_what_was_made_before() -> None:
    """Order is by structure, never by when a node was made."""
    program = """
import sys, gramme
shape = gramme._C.testing.shape
symbols = [shape.symbol(k) for k in range(6)]
if sys.argv[1] == "backwards":
    for s in reversed(symbols):
        for t in symbols:
            (t // (s + 1)) * s % 7
print(sum((s * t // (s + 2) for s in symbols for t in symbols), shape.maximum(symbols[0], symbols[3])))
"""
    texts = [subprocess.check_output([sys.executable, "-c", program, way]) for way in ("forwards", "backwards")]
    assert texts[0] == texts[1]
    assert len(texts[0]) > 100


def test_substitution() -> None:
    assert same(shape.substitute(a * b + c // 2, [c, 3 * d, 4 * a]), 3 * c * d + 2 * a)
    assert same(shape.substitute(shape.equal(a, b), [b]), True)
    assert not shape.substitute(a // b, [a, shape.expression(0)]).expressed
