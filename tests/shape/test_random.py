"""Random expressions against Python's own arithmetic, at several points at once."""

import math
import operator
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gramme
import pytest

shape: Any = gramme._C.testing.shape

Number = int | float | bool
POINTS = 4
PER_ROUND = 40
EXACT = 2**53


@dataclass
class Sample:
    """An expression, and of each point its value (None: Python has none) and what its parts do not exceed."""

    node: Any
    values: list[Number | None]
    bounds: list[float]

    @property
    def type(self) -> type:
        return next((type(value) for value in self.values if value is not None), object)


def as_float(value: Number) -> float:
    if isinstance(value, float):
        return value
    if abs(value) > EXACT:
        raise OverflowError
    return float(value)


def finite(value: Number) -> Number:
    if isinstance(value, complex) or (isinstance(value, float) and not math.isfinite(value)):
        raise OverflowError
    return value


def lifting(function: Callable[..., Any]) -> Callable[..., Any]:
    """Ints that meet floats are converted where that is exact."""

    def call(*values: Number) -> Any:
        if any(isinstance(value, float) for value in values):
            values = tuple(map(as_float, values))
        return finite(function(*values))

    return call


def grow_by_sum(a: float, b: float) -> float:
    return a + b + 1


def grow_by_product(a: float, b: float) -> float:
    return (a + 1) * (b + 1)


# name, on expressions, on numbers, how bounds grow, takes floats
BINARY: list[tuple[Callable[..., Any], Callable[..., Any], Callable[[float, float], float], bool]] = [
    (operator.add, lifting(operator.add), grow_by_sum, True),
    (operator.sub, lifting(operator.sub), grow_by_sum, True),
    (operator.mul, lifting(operator.mul), grow_by_product, True),
    (operator.mul, lifting(operator.mul), grow_by_product, True),
    (operator.floordiv, operator.floordiv, grow_by_product, False),
    (operator.floordiv, operator.floordiv, grow_by_product, False),
    (operator.mod, operator.mod, grow_by_product, False),
    (operator.truediv, lambda a, b: finite(as_float(a) / as_float(b)), grow_by_product, True),
    (shape.minimum, min, grow_by_sum, False),
    (shape.maximum, max, grow_by_sum, False),
]
COMPARISONS: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
    (shape.equal, operator.eq),
    (shape.not_equal, operator.ne),
    (shape.less, operator.lt),
    (shape.at_most, operator.le),
    (shape.greater, operator.gt),
    (shape.at_least, operator.ge),
]
TO_WHOLE = [(shape.truncate, math.trunc), (shape.floor, math.floor), (shape.ceil, math.ceil), (shape.round, round)]
NO_VALUE = (ZeroDivisionError, OverflowError, ValueError)


class Round:
    """A few symbols, their values at each point, and what is made of them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.large = self.random.random() < 0.2
        self.points = [[self.whole() for _ in range(3)] + [self.random.uniform(-3, 40)] for _ in range(POINTS)]
        self.samples = [self.leaf(shape.symbol(k), [point[k] for point in self.points]) for k in range(3)]
        self.samples.append(self.leaf(shape.float_symbol(3), [point[3] for point in self.points]))

    def whole(self) -> int:
        kind = self.random.random()
        if self.large and kind < 0.5:
            return self.random.choice((-1, 1)) * self.random.randrange(2 ** self.random.randrange(20, 63))
        if kind < 0.7:
            return self.random.randrange(0, 17)
        return self.random.randrange(-20, 2000)

    @staticmethod
    def leaf(node: Any, values: list[Any]) -> Sample:
        return Sample(node, values, [abs(value) + 1 for value in values])

    def operand(self) -> Sample:
        if self.random.random() < 0.25:
            value = self.random.choice((self.whole(), self.random.randrange(-3, 9), self.random.randrange(1, 5)))
            return self.leaf(shape.expression(value), [value] * POINTS)
        if self.random.random() < 0.3:
            return self.samples[self.random.randrange(4)]
        return self.random.choice(self.samples)

    def next(self) -> Sample | None:
        """One more; None if what was drawn cannot be expressed."""
        kind = self.random.random()
        if kind < 0.6:
            on_nodes, on_numbers, grow, takes_floats = self.random.choice(BINARY)
            a, b = self.operand(), self.operand()
            if not takes_floats and (a.type is not int or b.type is not int):
                return None
        elif kind < 0.65:
            exponent = self.random.choice((0, 1, 2, 3, 0.5, -0.5, -1, 2.0))
            a, b = self.operand(), self.leaf(shape.expression(exponent), [exponent] * POINTS)
            on_nodes, on_numbers = operator.pow, lifting(self.power)
            grow = lambda a, b: (a + 1) ** 3  # noqa: E731
        elif kind < 0.72:
            a = b = self.operand()
            whole, number = self.random.choice(TO_WHOLE)
            on_nodes, on_numbers, grow = lambda a, b: whole(a), lambda a, b: number(a), grow_by_sum
        elif kind < 0.76:
            a = b = self.operand()
            on_nodes = lambda a, b: shape.square_root(a)  # noqa: E731
            on_numbers = lambda a, b: math.sqrt(as_float(a))  # noqa: E731
            grow = grow_by_sum
        elif kind < 0.92:
            a, b = self.operand(), self.operand()
            on_nodes, comparison = self.random.choice(COMPARISONS)
            on_numbers, grow = lifting(comparison), grow_by_product
        else:
            a, b = self.operand(), self.operand()
            on_nodes, on_numbers = self.random.choice(((shape.both, operator.and_), (shape.either, operator.or_)))
            grow = grow_by_sum
            if self.random.random() < 0.3 and a.type is bool:
                a = Sample(shape.negation(a.node), [None if v is None else not v for v in a.values], a.bounds)
            if a.type is not bool or b.type is not bool:
                return None
        if kind < 0.92 and bool in (a.type, b.type):
            return None
        made = Sample(on_nodes(a.node, b.node), [], [])
        for x, y, m, n in zip(a.values, b.values, a.bounds, b.bounds, strict=True):
            try:
                made.values.append(None if x is None or y is None else on_numbers(x, y))
            except NO_VALUE:
                made.values.append(None)
            made.bounds.append(min(grow(m, n), 1e30))
        if not made.node.expressed or made.type is object:
            return None
        self.samples.append(made)
        return made

    @staticmethod
    def power(a: Number, b: Number) -> Any:
        if isinstance(b, int) and b < 0:
            a, b = as_float(a), as_float(b)
        return a**b


def is_same(found: Any, wanted: Any) -> bool:
    return type(found) is type(wanted) and bool(found == wanted)


def check_values(sample: Sample, points: list[list[Number]]) -> None:
    """The flat program and the text have Python's value, wherever there is one and it fits."""
    text = repr(sample.node)
    code = compile(text, "expression", "eval")
    for point, value, bound in zip(points, sample.values, sample.bounds, strict=True):
        if value is None:
            continue
        names = {f"s{k}": number for k, number in enumerate(point)} | {"math": math}
        # a float that is out of range on the way is a value of Python's, but none here
        assert is_same(eval(code, names), value) or bound > EXACT, (text, point)
        found = shape.run([sample.node], point)
        if found is None:
            assert bound > EXACT, (text, point, value)
        else:
            assert is_same(found[0], value), (text, point, found, value)
            if sample.type is bool:
                assert shape.check([sample.node], point)[0] == value


def assumptions_of(made: Round) -> Any:
    """Intervals and guards that hold at the first point."""
    point = made.points[0]
    assumptions = shape.Assumptions()
    for k in range(3):
        low, high = (made.random.choice((None, 0, 1, 5, 300)) for _ in range(2))
        ends = (None if low is None else max(point[k] - low, -(2**63) + 1), None if high is None else point[k] + high)
        assumptions.add_symbol(ends if ends[1] is None or ends[1] < 2**63 else (ends[0], None), point[k])
    assumptions.add_float(point[3])
    return assumptions


def check_assumptions(made: Round) -> None:
    """Nothing that is said to follow from what is true at a point is wrong there."""
    assumptions, point = assumptions_of(made), made.points[0]
    conditions = [sample for sample in made.samples if sample.values[0] is True]
    made.random.shuffle(conditions)
    for learned in [None, *conditions[:8]]:
        if learned:
            assumptions.learn(learned.node)
            assert assumptions.decide(learned.node) is True
        for sample in made.samples[4:] if learned is None else made.random.sample(made.samples, 8):
            value = sample.values[0]
            if value is None:
                continue
            if isinstance(value, bool):
                assert assumptions.decide(sample.node) in (None, value), (sample.node, point, learned)
            elif isinstance(value, int):
                low, high = assumptions.range(sample.node)
                assert low is None or low <= value, (sample.node, point, learned)
                assert high is None or high >= value, (sample.node, point, learned)
            simple = assumptions.simplified(sample.node)
            found = shape.run([simple], point)
            assert (sample.bounds[0] > EXACT) if found is None else is_same(found[0], value), (simple, point)
            hint = assumptions.hint(sample.node)
            assert (sample.bounds[0] > EXACT) if hint is None else is_same(hint, value)


def check_substitution(made: Round) -> None:
    """An expression for a symbol is the symbol with the expression's value."""
    by = made.random.choice([sample for sample in made.samples if sample.type is int])
    number = made.random.randrange(3)
    for sample in made.random.sample(made.samples, 3):
        replaced = shape.substitute(sample.node, [by.node if k == number else shape.symbol(k) for k in range(3)])
        if not replaced.expressed:
            continue
        for point, value in zip(made.points, by.values, strict=True):
            if value is None or abs(value) >= 2**63:
                continue
            changed = [value if k == number else old for k, old in enumerate(point)]
            wanted, found = shape.run([sample.node], changed), shape.run([replaced], point)
            # one of them may have a value where the other overflows or divides by zero
            assert wanted is None or found is None or is_same(found[0], wanted[0]), (sample.node, replaced, point)


def run_rounds(first: int, expressions: int) -> None:
    made = 0
    for seed in range(first, first + expressions):
        current = Round(seed)
        for _ in range(PER_ROUND * 2):
            sample = current.next()
            if sample:
                check_values(sample, current.points)
                made += 1
        check_assumptions(current)
        check_substitution(current)
        if made >= expressions:
            return


def test_random_expressions() -> None:
    run_rounds(0, 20_000)


@pytest.mark.slow
def test_a_million_random_expressions(soak: bool) -> None:
    run_rounds(1_000_000, 1_000_000 if soak else 20_000)
