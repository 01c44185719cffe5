"""From "What's New In Python 3.14": functools, heapq, operator, map, conversions and numbers around tensors."""

import decimal
import fractions
import functools
import heapq
import itertools
import math
import operator
import pickle
import random
import re

import torch

from documented import documented, x
from documented.attempts import attempt

log: list = []
cleared = {"state": lambda: list(log), "setup": log.clear}
_ = functools.Placeholder


@documented(
    "library/functools: several placeholders are filled in their order, the rest follows",
    lambda: [(x(), 1, 2), (x(), 3, 4), (x(2), 0, 1), (x(2), "s", 2)],
)
def several_placeholders(t, a, b):
    f = functools.partial(lambda p, q, r, s: (p, q * r, s), _, a, _, 5)
    g = functools.partial(f, b)
    try:
        return f(t, t)[1], g(t), f.args.count(_)
    except TypeError as error:
        return t, type(error).__name__


@documented(
    "library/functools: a partial of a partial fills placeholders, with tensors among them",
    lambda: [(x(), 2.0), (x(), 3.0), (x(2), 0.0), (x(2), -1.0)],
)
def filled_placeholders(t, k):
    first = functools.partial(torch.add, _, t)
    second = functools.partial(first, t * k)
    return first(t), second(), second.args[0] + 1, second.func is torch.add


@documented(
    "library/functools: trailing and keyword placeholders are refused",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 0)],
)
def refused_placeholders(t, n):
    return t * n, attempt(
        lambda: functools.partial(len, _),
        lambda: functools.partial(max, 1, key=_),
        lambda: functools.partial(pow, _, 2)(),
        lambda: functools.partial(pow, _, n)(2),
        lambda: repr(_),
        lambda: type(_)() is _,
    )


class Scaled:
    def __init__(self, n):
        self.n = n

    def combine(self, t, k, shift=0):
        return t * k * self.n + shift

    twice = functools.partialmethod(combine, _, 2)
    shifted = functools.partialmethod(combine, k=1, shift=5)


@documented(
    "library/functools: partialmethod() with a placeholder leaves the tensor's place",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 0)],
)
def partial_methods(t, n):
    made = Scaled(n)
    return made.twice(t) + made.shifted(t), made.twice(t, shift=1), Scaled.twice(made, t)


@documented(
    "library/functools: placeholders in map() and in a reduce with its initial by name",
    lambda: [(x(), [1, 2, 3]), (x(), []), (x(2), [5]), (x(2), [0, 1])],
)
def placeholders_in_maps(t, values):
    halves = list(map(functools.partial(operator.truediv, _, 2), [t, *values]))
    total = functools.reduce(lambda a, b: a + b, halves, initial=t)
    return total, halves[1:]


@documented(
    "library/functools: a partial object with a placeholder is copied by pickle",
    lambda: [(x(), 2), (x(), 3), (x(2), -1), (x(2), 0)],
)
def pickled_partials(t, n):
    made = pickle.loads(pickle.dumps(functools.partial(operator.sub, _, n)))
    return made(t), made.args[0] is _, made.args[1]


class Ordered:
    def __init__(self, key):
        self.key = key

    def __lt__(self, other):
        log.append((self.key, other.key))
        return self.key < other.key


@documented(
    "library/heapq: heaps of the largest compare by < alone",
    lambda: [(x(), [3, 1, 2]), (x(), [5]), (x(2), [1, 1, 4, 2]), (x(2), [])],
    **cleared,
)
def compared_heaps(t, values):
    heap = [Ordered(v) for v in values]
    heapq.heapify_max(heap)
    while heap:
        t = t + heapq.heappop_max(heap).key
    return t


@documented(
    "library/heapq: heapreplace_max() and heappushpop_max() keep the smallest n",
    lambda: [(x(), 2), (x(), 3), (x(2), 1), (x(2), 0)],
)
def smallest_kept(t, n):
    heap: list = []
    for v in [5, 3, 8, 1, 9, 2]:
        if len(heap) < n:
            heapq.heappush_max(heap, v)
        elif heap and v < heap[0]:
            heapq.heapreplace_max(heap, v)
    return (
        t * sum(heap),
        sorted(heap),
        attempt(lambda: heapq.heapreplace_max([], 1), lambda: heapq.heappushpop_max([], 1)),
    )


@documented(
    "library/heapq: a beam of tensors ordered by scores",
    lambda: [(x(), 2), (x(), 1), (x(2), 3), (x(2), 4)],
)
def beams(t, width):
    beam: list = []
    for i, v in enumerate(t.unbind()):
        heapq.heappush_max(beam, (-v.item(), i, v * 2))
        if len(beam) > width:
            heapq.heappop_max(beam)
    return [v for _, _, v in sorted(beam, key=lambda entry: entry[1])], len(beam)


@documented(
    "library/functions: map(strict=True) says which iterable was shorter, and what it took is gone",
    lambda: [(x(), 2, 3), (x(), 3, 2), (x(2), 2, 2), (x(2), 0, 1)],
)
def shorter_iterables(t, n, m):
    first, second = iter(range(n)), iter(range(m))
    seen = []
    try:
        for v in map(lambda a, b: t * (a + b), first, second, strict=True):
            seen.append(v)
    except ValueError as error:
        return seen, str(error), list(first), list(second)
    return seen


@documented(
    "library/functions: map(strict=) of generators with effects, and of one iterable",
    lambda: [(x(), True), (x(), False), (x(2), True), (x(2), 0)],
    **cleared,
)
def strictness_by_value(t, strict):
    def items(n):
        for i in range(n):
            log.append((n, i))
            yield t + i

    try:
        made = list(map(operator.add, items(2), items(3), strict=strict))
    except ValueError as error:
        return str(error)
    return made, list(map(torch.neg, [t], strict=True))


class Index:
    def __index__(self):
        return 4


class Float:
    def __float__(self):
        return 2.5


class Trunc:
    def __trunc__(self):
        return 7


@documented(
    "library/functions: from_number of float, complex, Fraction and Decimal",
    lambda: [(x(), 3), (x(), Index()), (x(2), Float()), (x(2), "1"), (x(), fractions.Fraction(1, 2))],
)
def made_from_numbers(t, value):
    makers = (float, complex, fractions.Fraction, decimal.Decimal)
    made = attempt(*[lambda m=m: m.from_number(value) for m in makers])
    number = made[0] if isinstance(made[0], float) else 1.0
    return t * number, made


@documented(
    "library/functions: int() takes __int__ and __index__, not __trunc__; math.trunc() does",
    lambda: [(x(), Index()), (x(), Trunc()), (x(2), Float()), (x(2), 3.9)],
)
def truncated(t, value):
    made = attempt(lambda: int(value), lambda: math.trunc(value), lambda: range(3)[value], lambda: round(value))
    return t + sum(m for m in made if isinstance(m, int)), made


@documented(
    "library/stdtypes: sums and differences of real and complex numbers keep signs of zero",
    lambda: [(x(), 1.0, 2j), (x(), -0.0, complex(0.0, -0.0)), (x(2), 0.0, complex(-0.0, 0.0)), (x(2), math.inf, 1j)],
)
def mixed_complex(t, real, imaginary):
    made = [real + imaginary, real - imaginary, real * imaginary, imaginary / (real or 1.0)]
    return t * abs(made[0]) if math.isfinite(abs(made[0])) else t, [repr(m) for m in made]


@documented(
    "library/fractions: Fraction takes what has as_integer_ratio()",
    lambda: [(x(), 0.75), (x(), 3), (x(2), "3/4"), (x(2), [])],
)
def ratios(t, value):
    class Ratio:
        def as_integer_ratio(self):
            return value.as_integer_ratio()

    made = attempt(lambda: fractions.Fraction(Ratio()), lambda: fractions.Fraction(value, 2))
    return t * float(made[0]) if isinstance(made[0], fractions.Fraction) else t, made


@documented(
    "library/operator: is_none in filters and groupings of optional tensors",
    lambda: [(x(), [0]), (x(), [1, 2]), (x(2), []), (x(2), [0, 1])],
)
def optional_tensors(t, holes):
    items = [None if i in holes else t * i for i in range(3)]
    groups = [(k, len(list(g))) for k, g in itertools.groupby(items, operator.is_none)]
    return sum(filter(operator.is_not_none, items), t), groups


@documented(
    "library/re: \\z matches at the end alone; B matches an empty text",
    lambda: [(x(), "ab\n"), (x(), "ab"), (x(2), ""), (x(2), "b")],
)
def ends_of_text(t, text):
    found = re.search(r"b\z", text)
    return t * (2 if found else 3), bool(re.search(r"b\Z", text)), bool(re.search(r"\B", text))


@documented(
    "library/functions: pow() with a modulus asks the right operand, then fails by name",
    lambda: [(x(), 2, 7), (x(), 3, None), (x(2), 2.5, 3), (x(2), "a", 3)],
)
def reflected_by_index(t, base, modulus):
    class Power:
        def __rpow__(self, other, mod=None):
            return NotImplemented if mod == 3 else (other, mod)

        def __pow__(self, other, mod=None):
            return "left", other, mod

    return t + random.random(), attempt(
        lambda: pow(base, Power(), modulus), lambda: pow(Power(), base, modulus), lambda: pow(5, 3, 4)
    )


@documented(
    "library/functools: a partial object in a class is a method descriptor: the instance comes first",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 0)],
)
def bound_partials(t, n):
    class Model:
        count = functools.partial(lambda *args: len(args), n)
        alone = staticmethod(functools.partial(lambda *args: len(args), n))

    model = Model()
    return t * model.count(1), model.count(), model.alone(1), Model.count()


@documented(
    "library/functions: complex() warns of complex parts given by name, at each call",
    lambda: [(x(), 1), (x(), 1), (x(2), 1), (x(2), 0)],
)
def complex_parts(t, n):
    made = complex(real=1j, imag=n)
    return t * made.imag, complex(n, 2), made
