"""From reference/datamodel: super, special methods looked up on the type, numeric and container emulation."""

import math

import torch

from documented import Between, documented, x

log: list = []
cleared = {"state": lambda: list(log), "setup": log.clear}


class Root:
    tag = "root"

    def __init__(self, n=1):
        self.n = n

    def run(self, t):
        return t * self.n

    @classmethod
    def name(cls):
        return [cls.__name__, "Root"]

    def __setattr__(self, name, value):
        log.append(name)
        super().__setattr__(name, value)


class Left(Root):
    def run(self, t):
        return [super().run(t) for _ in range(1)] if self.n < 0 else super().run(t) + 1

    @classmethod
    def name(cls):
        return [*super().name(), "Left"]

    def bound(self):
        return super()


class Right(Root):
    tag = "right"

    def run(self, t):
        inner = super
        return inner(Right, self).run(t) * 10

    @classmethod
    def name(cls):
        return [*super(Right, cls).name(), "Right"]


class Both(Left, Right):
    pass


@documented(
    "library/functions: super() goes by the type of the first argument, __class__ being the cell of the class; not inside a comprehension",
    lambda: [(x(), Left(2)), (x(), Both(3)), (x(), Right(4)), (x(), Left(-1)), (x(), Both(2.5)), (x(), Root())],
    **cleared,
)
def super_finds(t, o):
    try:
        got = o.run(t)
    except (TypeError, RuntimeError) as error:
        got = str(error)
    o.extra = 1
    proxy = o.bound() if isinstance(o, Left) else None
    return got, type(o).name(), proxy and (proxy.tag, proxy.run(t), proxy.__thisclass__, proxy.__self__ is o)


class Called:
    def __init__(self):
        self.__call__ = lambda t: t * 100
        self.__len__ = lambda: 100
        self.__bool__ = lambda: False
        self.__iter__ = lambda: iter([100])

    def __call__(self, t):
        return t * 2

    def __len__(self):
        return 2


def reset_called():
    Called.__call__ = lambda self, t: t * 2  # type: ignore[assignment]
    Called.__len__ = lambda self: 2
    vars(Called)
    for name in ("__bool__", "__iter__"):
        if name in vars(Called):
            delattr(Called, name)


@documented(
    "reference/datamodel: special methods are looked up on the type, as it is when they are used",
    lambda: [
        (x(), Called()),
        Between(lambda: setattr(Called, "__call__", lambda self, t: t - 5)),
        (x(), Called()),
        Between(lambda: setattr(Called, "__len__", lambda self: 0)),
        (x(), Called()),
        Between(lambda: setattr(Called, "__bool__", lambda self: True)),
        (x(), Called()),
        Between(lambda: setattr(Called, "__iter__", lambda self: iter([7]))),
        (x(), Called()),
        Between(lambda: delattr(Called, "__len__")),
        (x(), Called()),
    ],
    setup=reset_called,
)
def looked_up_on_types(t, o):
    t = o(t) if o else t
    try:
        return t, len(o), list(o)
    except TypeError as error:
        return t, str(error), callable(o)


class Number:
    def __init__(self, v):
        self.v = v

    def __float__(self):
        return self.v

    def __index__(self):
        return self.v

    def __round__(self, n=None):
        return ("round", n)

    def __trunc__(self):
        return 11

    def __ceil__(self):
        return "ceil"

    def __abs__(self):
        return Number(-self.v)

    def __invert__(self):
        return "invert"

    def __pos__(self):
        return self

    def __divmod__(self, other):
        return "divmod", other

    def __rdivmod__(self, other):
        return "rdivmod", other

    def __pow__(self, other, modulus=None):
        return "pow", other, modulus

    def __rpow__(self, other):
        return "rpow", other


@documented(
    "reference/datamodel: float, int, round, math.ceil, divmod and pow ask the object; wrong types from __float__ and __index__ raise",
    lambda: [(x(), Number(2)), (x(), Number(2.5)), (x(), Number("text")), (x(), Number(True)), (x(), Number(None))],
)
def numeric_methods(t, n):
    out = [round(n), round(n, 2), math.ceil(n), ~n, +n is n, divmod(n, 3), divmod(3, n), n**2, 2**n, pow(n, 2, 5)]
    for ask in (
        lambda: float(n),
        lambda: int(n),
        lambda: complex(n),
        lambda: math.floor(n),
        lambda: math.trunc(n),
        lambda: math.sqrt(n),
        lambda: [1, 2, 3, 4][n],
        lambda: "ab" * n,
        lambda: hex(n),
        lambda: pow(2, n, 5),
        lambda: t[:n],
        lambda: torch.zeros(n),
    ):
        try:
            out.append(ask())
        except (TypeError, ValueError) as error:
            out.append(f"{type(error).__name__} {error}".split("\n")[0])
    return t + len(out), out


class Length:
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __length_hint__(self):
        log.append("hint")
        return 1

    def __getitem__(self, i):
        log.append(i)
        if i >= 3:
            raise IndexError
        return i * 2


class Reversible(Length):
    def __reversed__(self):
        return "reversed"

    def __contains__(self, v):
        return "truthy" if v == 2 else []


@documented(
    "reference/datamodel: __len__ must be an int from 0 to sys.maxsize; reversed and in fall back on the sequence protocol",
    lambda: [
        (x(), Length(3)),
        (x(), Reversible(2)),
        (x(), Length(-1)),
        (x(), Length(1.5)),
        (x(), Length(2**70)),
        (x(), Reversible(True)),
        (x(), Length(1)),
        (x(), Length(None)),
    ],
    **cleared,
)
def container_methods(t, o):
    out = []
    for ask in (
        lambda: len(o),
        lambda: bool(o),
        lambda: reversed(o),
        lambda: list(reversed(o)),
        lambda: 2 in o,
        lambda: [*o],
    ):
        try:
            v = ask()
            out.append(v if not hasattr(v, "__next__") else type(v).__name__)
        except (TypeError, ValueError, OverflowError) as error:
            out.append(str(error))
    return t * len(out), out
