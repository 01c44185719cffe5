"""From "What's New In Python 3.12": numbers, randomness, statistics, typing and small libraries between operations."""

import calendar
import fractions
import itertools
import math
import random
import statistics
import types
import typing
import uuid
from typing import Annotated, TypedDict

import torch

from documented import documented, x
from documented.attempts import attempt


@documented(
    "library/itertools: batched() of a tensor's items makes minibatches",
    lambda: [(x(6), 2), (x(5), 2), (x(4), 4), (x(3), 5)],
)
def minibatches(t, size):
    sums = [torch.stack(batch).sum() for batch in itertools.batched(t.unbind(), size)]
    return torch.stack(sums), len(sums)


@documented(
    "library/itertools: batched() takes its items only when it is asked, from an endless iterator too",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 4)],
)
def endless_batches(t, size):
    source = itertools.count(1)
    batches = itertools.batched(source, size)
    t = t * sum(next(batches))
    taken = next(source)
    return t + sum(next(batches)), taken, next(source)


@documented(
    "library/itertools: a generator's exception ends batched(), whose open batch is lost",
    lambda: [(x(), 3), (x(), 0), (x(2), 1), (x(2), 4)],
)
def interrupted_batches(t, n):
    def items():
        yield from range(n)
        raise LookupError(n)

    seen = []
    try:
        for batch in itertools.batched(items(), 2):
            t = t + sum(batch)
            seen.append(batch)
    except LookupError as error:
        return t, seen, error.args
    return t


@documented(
    "library/math: sumprod() of integers is exact, of floats compensated, of mixed ones the same as the sum",
    lambda: [(x(), [1, 2], [3, 4]), (x(), [1e16, 1.0], [1.0, 1.0]), (x(2), [0.1] * 10, [10] * 10), (x(2), [], [])],
)
def sums_of_products(t, p, q):
    value = math.sumprod(p, q)
    return t * value, value, math.sumprod(iter(p), tuple(q))


@documented(
    "library/math: nextafter() goes several steps",
    lambda: [(x(), 1.0, 1), (x(), 1.0, 4), (x(2), 0.0, 0), (x(2), -1.0, 1000)],
)
def several_steps(t, start, steps):
    up, down = math.nextafter(start, math.inf, steps=steps), math.nextafter(start, -math.inf, steps=steps)
    return t * (up - down), up.hex(), down.hex(), attempt(lambda: math.nextafter(1.0, 2.0, steps=-1))


@documented(
    "library/random: binomialvariate() draws from the one stream of random numbers",
    lambda: [(x(), 10, 0.5), (x(), 0, 0.5), (x(2), 100, 0.9), (x(2), -1, 0.5)],
)
def binomial(t, n, p):
    try:
        drawn = [random.binomialvariate(n, p) for _ in range(3)]
    except ValueError as error:
        return t, str(error)
    return t * sum(drawn), drawn, random.random()


@documented(
    "library/random: expovariate() has a default; tensors drawn beside it keep their own stream",
    lambda: [(x(), 1), (x(), 2), (x(2), 0), (x(2), 3)],
)
def two_streams(t, n):
    drawn = []
    for _ in range(n):
        drawn.append(random.expovariate())
        t = t + torch.rand(1)
    return t, drawn, random.sample(range(10), k=n)


@documented(
    "library/statistics: correlation(method='ranked') of a tensor's list",
    lambda: [(x(), [1, 2, 3, 4]), (x(), [4, 3, 2, 1]), (x(2), [1, 5]), (x(2), [1, 1])],
)
def ranked(t, other):
    try:
        return t * 2, statistics.correlation(t.tolist(), other, method="ranked")
    except statistics.StatisticsError as error:
        return t, str(error)


@documented(
    "library/fractions: fractions are formatted as floats are",
    lambda: [(x(), 1, 3), (x(), 22, 7), (x(2), -1, 8), (x(2), 10**9, 1)],
)
def formatted_fractions(t, p, q):
    value = fractions.Fraction(p, q)
    return t * float(value), f"{value:.3f} {value:>12.2e} {value:+,.1f} {value:%}", value.is_integer()


@documented(
    "library/calendar: months and days are enumerations of integers",
    lambda: [(x(), 1), (x(), 2), (x(2), 12), (x(2), 13)],
)
def months(t, n):
    try:
        month = calendar.Month(n)
    except ValueError as error:
        return t, str(error)
    return t * month, month.name, calendar.Day.SUNDAY + 0, month == n


@documented(
    "library/uuid: names give the same identifiers each time",
    lambda: [(x(), "a"), (x(), "b"), (x(2), ""), (x(2), "a")],
)
def identifiers(t, name):
    made = uuid.uuid5(uuid.NAMESPACE_DNS, name)
    return t * (made.int % 7), str(made), made.version


class Options(TypedDict, total=False):
    scale: typing.Required[float]
    shift: float


def applied(t: torch.Tensor, **options: typing.Unpack[Options]) -> torch.Tensor:
    return t * options["scale"] + options.get("shift", 0)


@documented(
    "PEP 692: keywords of a TypedDict are checked by nobody while the program runs",
    lambda: [
        (x(), {"scale": 2.0}),
        (x(), {"scale": 1, "shift": 3}),
        (x(2), {"shift": 1}),
        (x(2), {"scale": 2, "odd": 1}),
    ],
)
def unpacked_options(t, options):
    try:
        return applied(t, **options), sorted(Options.__required_keys__)
    except KeyError as error:
        return t, str(error)


class Base:
    def work(self, t):
        return t + 1

    @property
    def scale(self):
        return 2


class Derived(Base):
    @typing.override
    def work(self, t):
        return super().work(t) * self.scale

    @property
    @typing.override
    def scale(self):
        return 3


@documented(
    "PEP 698: @override under @property and over a method that calls super()",
    lambda: [(x(), Base()), (x(), Derived()), (x(2), Derived()), (x(2), Base())],
)
def overriding(t, model):
    return model.work(t), model.scale, getattr(type(model).work, "__override__", None)


@documented(
    "library/types: get_original_bases() of classes made inside, generic ones and TypedDicts",
    lambda: [(x(), int), (x(), str), (x(2), float), (x(2), int)],
)
def bases_as_written(t, kind):
    class Items(list[kind]):
        def total(self):
            return sum(self, 0) if kind is not str else len(self)

    class More(Items): ...

    items = More([kind(1), kind(2)])
    return t * items.total(), str(types.get_original_bases(Items)), types.get_original_bases(More) == (Items,)


@documented(
    "library/typing: runtime protocols with data members ask isinstance() only",
    lambda: [(x(), 1), (x(), x(2)), (x(2), "s"), (x(2), None)],
)
def data_protocols(t, value):
    shaped = isinstance(value, Shaped)
    try:
        return t * shaped, issubclass(type(value), Shaped)
    except TypeError as error:
        return t + shaped, str(error)


@typing.runtime_checkable
class Shaped(typing.Protocol):
    shape: torch.Size


@documented(
    "library/typing: Annotated's metadata is read to scale tensors",
    lambda: [(x(), 2), (x(), 3), (x(2), "s"), (x(2), None)],
)
def metadata(t, note):
    def inner(v: Annotated[torch.Tensor, note], k: Annotated[int, "k", note] = 1) -> None:
        return v

    hints = typing.get_type_hints(inner, include_extras=True)
    notes = [m for hint in hints.values() for m in getattr(hint, "__metadata__", ())]
    return inner(t) * sum(n for n in notes if isinstance(n, int)), notes


@documented(
    "library/stdtypes: sum() of mixed integers, floats, complex numbers and tensors",
    lambda: [(x(), [1, 0.1, 0.2]), (x(), [1e100, 1.0, -1e100]), (x(2), [1j, 0.1]), (x(2), [True, 2])],
)
def mixed_sums(t, values):
    return sum(values), sum([t, *values]), sum(values, start=0.5)


@documented(
    "library/math: what is asked in a loop with sumprod(), dist() and hypot() scales a tensor",
    lambda: [(x(), (3, 4)), (x(), (1,)), (x(2), ()), (x(2), (0.5, 0.5, 0.5))],
)
def norms(t, v):
    for f in (math.hypot(*v), math.sumprod(v, v), math.dist(v, [0] * len(v))):
        t = t * f if f else t
    return t
