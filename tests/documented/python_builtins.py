"""From library/functions: what the built-in functions promise, and of whom they ask it."""

import collections
from collections.abc import Callable, Iterable, Mapping, Sized
from typing import Any

import torch

from documented import Between, documented, x


class Countdown:
    """Length and items by methods that see the object's state."""

    def __init__(self, start: int) -> None:
        self.start = start

    def __len__(self) -> int:
        return self.start

    def __iter__(self) -> Any:
        return iter(range(self.start, 0, -1))

    def __reversed__(self) -> Any:
        return iter(range(1, self.start + 1))


def changing_countdowns():
    c = Countdown(3)
    return [
        (x(), c),
        Between(lambda: setattr(c, "start", 5)),
        (x(), c),
        (x(), Countdown(0)),
        (x(), Countdown(2)),
        (x(), c),
    ]


@documented("library/functions: len, list, reversed and bool ask the object's own methods", changing_countdowns)
def asks_the_object(t, c):
    total = t * len(c)
    for i, value in enumerate(c, start=len(c)):
        total = total + i * value
    return total, list(reversed(c)), bool(c), tuple(c)


@documented(
    "library/functions: sum adds from start, of any type with +, and refuses strings",
    lambda: [
        (x(), [1, 2], 0),
        (x(), [1.5, True], 10),
        (x(), [[1], [2]], []),
        (x(), ["a"], ""),
        (x(), [], x(2)),
        (x(), [x(), x()], 1),
    ],
)
def sums(t, values, start):
    try:
        s = sum(values, start)
    except TypeError as error:
        s = str(error)
    if isinstance(s, (int, float, torch.Tensor)) and not isinstance(s, bool):
        return t.sum() * s
    return t, s


@documented(
    "library/functions: min and max with key give the first of equals; default only for the empty",
    lambda: [
        (x(), ["bb", "a", "cc", "d"]),
        (x(), ["d", "a"]),
        (x(), []),
        (x(), ["longest", "longish", "short", "s", "t"]),
        (x(), ("é", "e")),
    ],
)
def extremes(t, words):
    shortest = min(words, key=len, default=None)
    longest = max(words, key=len, default="none")
    try:
        last = max(words)
    except ValueError as error:
        last = str(error)
    return t * len(longest), shortest, longest, last


@documented(
    "library/functions: sorted is stable, also with reverse; uses only <",
    lambda: [
        (x(3), [(2, "a"), (1, "b"), (2, "c")]),
        (x(3), [(1, "b"), (1, "a"), (0, "z"), (1, "c")]),
        (x(3), []),
        (x(3), [(1.0, "x"), (True, "y"), (1, "z")]),
        (x(3), [(3, "x"), ("q", "y")]),
    ],
)
def sorting(t, pairs):
    up = sorted(pairs, key=lambda p: p[0])
    down = sorted(pairs, key=lambda p: p[0], reverse=True)
    pairs.sort(key=lambda p: p[1])
    return t + len(up), up, down


@documented(
    "library/functions: zip(strict=True) raises which argument is shorter or longer, after the equal part was used",
    lambda: [
        (x(), [1, 2], [3, 4]),
        (x(), [1, 2, 3], [3, 4]),
        (x(), [1], [3, 4]),
        (x(), [], []),
        (x(), (5, 6, 7), [3, 4, 5]),
    ],
)
def zips(t, a, b):
    seen = []
    try:
        for p, q in zip(a, b, strict=True):
            seen.append(p * q)
            t = t + p
    except ValueError as error:
        return t, seen, str(error)
    return t, seen


@documented(
    "library/functions: divmod, pow with a modulus (also inverse), round half to even, floor division of negatives",
    lambda: [(x(), 7, 2), (x(), -7, 2), (x(), 7, -3), (x(), 5, 0), (x(), 38, 97), (x(), 2**70, 1000)],
)
def arithmetic(t, a, b):
    try:
        q, r = divmod(a, b)
        p = pow(a, 3, b)
    except ZeroDivisionError as error:
        return t, str(error), type(error).__name__
    try:
        inverse = pow(a, -1, b)
    except ValueError as error:
        inverse = str(error)
    return t * r, q, p, inverse, a // b == q, round(a / 2), round(a * 5, -1), round(-a / 8, 2)


@documented(
    "library/functions: round(x) is an int, round(x, n) of x's type, half to even as far as binary allows",
    lambda: [
        (x(), 0.5, 0),
        (x(), 1.5, None),
        (x(), 2.675, 2),
        (x(), 25, -1),
        (x(), -2.5, None),
        (x(), float("nan"), None),
        (x(), True, None),
    ],
)
def rounding(t, value, digits):
    try:
        r = round(value, digits)
    except (ValueError, OverflowError) as error:
        return t, str(error)
    return t + r, r, type(r).__name__


class Meters(float):
    def __round__(self, n=None):
        return Meters(int(self * 2) / 2)

    def __hash__(self):
        return 7

    def __abs__(self):
        return "abs"

    def __divmod__(self, other):
        return (type(other).__name__, self)


@documented(
    "library/functions: round, abs, divmod, hash call the subclass' own methods",
    lambda: [(x(), Meters(1.3)), (x(), 1.3), (x(), Meters(2.9)), (x(), Meters(-1.0)), (x(), -7)],
)
def subclass_numbers(t, m):
    return t * m, round(m), abs(m), divmod(m, 2), hash(m) == 7


@documented(
    "library/functions: int(text, base) with prefixes, underscores, whitespace; ValueError names the text",
    lambda: [
        (x(), "0x10", 16),
        (x(), "0b101", 0),
        (x(), " 1_000 ", 10),
        (x(), "z", 36),
        (x(), "9", 8),
        (x(), "010", 0),
    ],
)
def integers_from_text(t, text, base):
    try:
        n = int(text, base)
    except ValueError as error:
        return t, str(error)
    return t + n, n, hex(n), oct(n), bin(n), format(n, "#06x")


class Moving:
    log: list = []

    def __init__(self, low, high):
        self.low, self.high = low, high

    def __call__(self):
        self.low += 1
        return self.low


def movers():
    m = Moving(0, 3)
    return [(x(), m, 3), (x(), m, 5), (x(), m, 9), (x(), Moving(5, 0), 6), (x(), m, 12)]


@documented("library/functions: iter(callable, sentinel) calls until the sentinel comes, which is not given", movers)
def sentinel(t, source, stop):
    out = []
    for v in iter(source, stop):
        out.append(v)
        t = t + v
    return t, out


class Lazy:
    def __init__(self, ready):
        self.ready = ready

    @property
    def weight(self):
        if not self.ready:
            raise AttributeError("not ready")
        return 2.0

    @property
    def broken(self):
        raise KeyError("broken")


def lazies():
    a = Lazy(False)
    return [
        (x(), a),
        Between(lambda: setattr(a, "ready", True)),
        (x(), a),
        (x(), Lazy(False)),
        Between(lambda: setattr(a, "ready", 0)),
        (x(), a),
        (x(), object()),
    ]


@documented(
    "library/functions: hasattr and getattr's default catch AttributeError only, from properties as well", lazies
)
def attributes_that_may_fail(t, o):
    w = getattr(o, "weight", 0.5)
    has = hasattr(o, "weight")
    try:
        b = hasattr(o, "broken")
    except KeyError as error:
        b = str(error)
    return t * w, has, b


class Sizey:
    def __init__(self, n):
        self.n = n


def give_length():
    Sizey.__len__ = lambda self: self.n


def take_length():
    if "__len__" in vars(Sizey):
        del Sizey.__len__


@documented(
    "library/collections.abc: isinstance with Sized, Iterable, Callable, Mapping looks for methods of the class as it is now",
    lambda: [
        (x(), Sizey(2)),
        Between(give_length),
        (x(), Sizey(2)),
        (x(), {}),
        (x(), print),
        Between(take_length),
        (x(), Sizey(3)),
        (x(), x()),
    ],
    setup=take_length,
)
def one_trick_ponies(t, o):
    facts = [isinstance(o, kind) for kind in (Sized, Iterable, Callable, Mapping)]
    if isinstance(o, Sized) and not isinstance(o, torch.Tensor):
        t = t + len(o) + 100
    return t, facts


@documented(
    "library/functions: isinstance takes a class, a union, or nested tuples of them",
    lambda: [(x(), 1), (x(), 1.5), (x(), "s"), (x(), None), (x(), True), (x(), [1])],
)
def isinstance_of_unions(t, v):
    number = isinstance(v, int | float)
    maybe = isinstance(v, (str, (list, type(None))))
    sub = issubclass(type(v), int | list)
    if number:
        t = t * v
    return t, number, maybe, sub


@documented(
    "library/functions: type() with three arguments makes a new class each time",
    lambda: [(x(), "A", 1), (x(), "B", 2), (x(), "A", 3), (x(), "A", 3), (x(), "A B", 4.5)],
)
def classes_by_type(t, name, value):
    made = type(name, (Sizey,), {"value": value, "scaled": lambda self, u: u * self.value})
    o = made(value)
    return o.scaled(t), made.__name__, made.__mro__[1].__name__, vars(o), sorted(k for k in vars(made) if "_" not in k)


@documented(
    "library/functions: vars(o) is o.__dict__ itself; setattr, delattr and dir follow",
    lambda: [(x(), Sizey(1), "a"), (x(), Sizey(2), "n"), (x(), Sizey(3), "b"), (x(), Sizey(4), "n")],
)
def namespaces(t, o, name):
    vars(o)["extra"] = t + 1
    setattr(o, name, len(vars(o)))
    if hasattr(o, "n"):
        del o.n
    return o.extra * 2, list(vars(o)), [n for n in dir(o) if not n.startswith("_")]


@documented(
    "library/functions: all and any stop at the first that decides; map and filter are lazy",
    lambda: [(x(), [1, 0, 2]), (x(), []), (x(), [3, 4]), (x(), [0, 0]), (x(), [0.0, "a"])],
)
def short_circuits(t, values):
    calls = []

    def test(v):
        calls.append(v)
        return v

    lazy = map(test, values)
    before = len(calls)
    everything = all(map(test, values))
    something = any(filter(test, values))
    return t + len(calls), before, everything, something, calls, next(lazy, "empty")


@documented(
    "library/functions: slice.indices, range with negative steps, membership and equality as sequences",
    lambda: [
        (x(9), 1, 8, 3),
        (x(9), None, -2, 2),
        (x(9), 8, None, -1),
        (x(9), -3, 100, 1),
        (x(9), 5, 2, 1),
        (x(9), 0, 9, 4),
    ],
)
def slices(t, a, b, step):
    s = slice(a, b, step)
    indices = s.indices(9)
    r = range(*indices)
    picked = t[list(r)] if len(r) else t[:0]
    listed = t.tolist()[s]
    return picked, listed, len(r), 4 in r, r == range(*indices), r[-1] if r else None, picked.shape[0] * 2


class Loud(str):
    def __str__(self):
        return super().__str__().upper()

    def __format__(self, spec):
        return f"<{spec}>"

    def __eq__(self, other):
        return True

    def __hash__(self):
        return hash("x")


@documented(
    "library/functions: str, repr, format and print ask a str subclass its own",
    lambda: [(x(), Loud("a"), 3), (x(), "a", 4), (x(), Loud("b"), 4), (x(), Loud("b"), 2)],
)
def text_subclasses(t, s, n):
    print(s, n, sep="|", end="!\n")
    return t * n, str(s), repr(s), f"{s:>{n}}", "%s" % s, s == "other", {"x": 1}.get(s), s + "z"


class Registry(dict):
    def __getitem__(self, key):
        return super().__getitem__(key) * 2

    def __contains__(self, key):
        return key != "hidden"

    def get(self, key, default=None):
        return "mine"


@documented(
    "library/functions: a dict subclass' own __getitem__, __contains__ and get are asked by syntax, but not by dict()",
    lambda: [
        (x(), Registry(a=1, hidden=2)),
        (x(), {"a": 1, "hidden": 2}),
        (x(), Registry(a=5)),
        (x(), Registry(a=5, hidden=7)),
    ],
)
def dict_subclass(t, d):
    return t * d["a"], "hidden" in d, d.get("a"), dict(d), {**d}, "zzz" in d, len(d), [*d.values()]


class Steps(list):
    def __iter__(self):
        return iter([10, 20])

    def __len__(self):
        return 1


@documented(
    "library/functions: list subclass with own __iter__ and __len__: for, tuple, sum, star and unpacking use __iter__",
    lambda: [(x(), Steps([1, 2, 3])), (x(), [1, 2, 3]), (x(), Steps([])), (x(), Steps([5]))],
)
def list_subclass(t, steps):
    for s in steps:
        t = t + s
    try:
        first, *rest = steps
    except ValueError as error:
        first, rest = str(error), None
    return (
        t,
        len(steps),
        sum(steps),
        tuple(steps),
        [*steps],
        first,
        rest,
        bool(steps),
        sorted(steps, reverse=True),
        max(steps, default=0),
    )


Pair = collections.namedtuple("Pair", "left right", defaults=[7])


@documented(
    "library/collections: namedtuple fields, _replace, _asdict, defaults; equal to a tuple",
    lambda: [(x(), Pair(1)), (x(), Pair(1, 2)), (x(), Pair(x(), 3)), (x(), Pair(right=4, left=2)), (x(), (1, 2))],
)
def named_tuples(t, p):
    if not isinstance(p, Pair):
        p = Pair._make(p)
    left, right = p
    q = p._replace(right=right + 1)
    return t * left + q.right, q, p._asdict(), Pair._fields, Pair._field_defaults, p[1:]
