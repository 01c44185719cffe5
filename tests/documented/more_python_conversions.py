"""From reference/datamodel and library/abc: text of objects, immutable subclasses, abstract classes."""

import abc

import torch

from documented import Between, documented, x

log: list = []
cleared = {"state": lambda: list(log), "setup": log.clear}


class Wordless:
    pass


class Wrong:
    def __str__(self):
        return 5

    def __repr__(self):
        return b"repr"

    def __format__(self, spec):
        return None

    def __bytes__(self):
        return "text"

    def __hash__(self):
        return "hash"

    def __bool__(self):
        return 1

    def __dir__(self):
        return ["b", "a"]


class OnlyRepr:
    def __repr__(self):
        return "<only repr>"

    def __hash__(self):
        return 2**64

    def __bytes__(self):
        return b"own"


@documented(
    "reference/datamodel: str falls back on repr, format with a spec refuses; wrong types from these methods raise and say which",
    lambda: [(x(), Wrong()), (x(), OnlyRepr()), (x(), "s"), (x(), x(1)), (x(), 2.0), (x(), Wrong())],
)
def text_of_objects(t, o):
    out = []
    for ask in (
        lambda: str(o),
        lambda: repr(o),
        lambda: f"{o}",
        lambda: f"{o:>9}",
        lambda: f"{o!r:>9}",
        lambda: bytes(o),
        lambda: hash(o) if not isinstance(o, torch.Tensor | str) else 0,
        lambda: bool(o),
        lambda: dir(o)[:1],
        lambda: "%s %r" % (o, o),
        lambda: print(o),
        lambda: "".join([o]),
    ):
        try:
            out.append(ask())
        except (TypeError, ValueError) as error:
            out.append(str(error))
    return t * 2, out


class Size(int):
    def __new__(cls, v, unit="m"):
        self = super().__new__(cls, v)
        self.unit = unit
        return self

    def __add__(self, other):
        return Size(int(self) + other, self.unit)


class Interval(tuple):
    __slots__ = ()

    def __new__(cls, low, high):
        if low > high:
            raise ValueError("empty")
        return tuple.__new__(cls, (low, high))

    def __getnewargs__(self):
        return tuple(self)

    @property
    def width(self):
        return self[1] - self[0]


class Fraction(float):
    def __mul__(self, other):
        log.append("mul")
        return float(self) * other if not isinstance(other, Fraction) else Fraction(float(self) * float(other))


@documented(
    "reference/datamodel: subclasses of int, float and tuple take arguments in __new__ and keep attributes; operators give what they return",
    lambda: [
        (x(), Size(2, "cm"), 3),
        (x(), Interval(1, 3), 2),
        (x(), Fraction(0.5), 2),
        (x(), Size(4), 0),
        (x(), Fraction(1.5), Fraction(2)),
        (x(), Interval(0, 2), 4),
        (x(), 3, 2),
    ],
    **cleared,
)
def immutable_subclasses(t, v, n):
    try:
        if isinstance(v, Interval):
            made = Interval(v[0] + n, v[1])
            return t[v[0] : v[1]] * made.width, made, v + (1,), v * 2, type(v[:]).__name__
        more = v + n
        return (
            t * v,
            v * t,
            more,
            type(more).__name__,
            getattr(more, "unit", None),
            v * n,
            type(-v).__name__,
            t[: int(v)],
        )
    except ValueError as error:
        return t, str(error)


class Shape(abc.ABC):
    @property
    @abc.abstractmethod
    def area(self): ...

    @classmethod
    @abc.abstractmethod
    def make(cls, n): ...

    @abc.abstractmethod
    def scale(self, t):
        return t * 2


class Half(Shape):
    area = 5

    def scale(self, t):
        return super().scale(t) * self.area


def finish(*names):
    for name in names:
        setattr(Half, name, classmethod(lambda cls, n: n))
    abc.update_abstractmethods(Half)


def unfinish():
    if "make" in vars(Half):
        del Half.make
    abc.update_abstractmethods(Half)


@documented(
    "library/abc: what is abstract is fixed at class creation, and again by update_abstractmethods; the error names the methods",
    lambda: [
        (x(), Shape),
        (x(), Half),
        Between(lambda: setattr(Half, "make", 5)),
        (x(), Half),
        Between(lambda: finish("make")),
        (x(), Half),
        Between(unfinish),
        (x(), Half),
    ],
    setup=unfinish,
)
def abstract_now(t, cls):
    try:
        o = cls()
    except TypeError as error:
        return t, str(error), sorted(cls.__abstractmethods__)
    return o.scale(t), cls.make, isinstance(o, Shape), Shape.scale.__isabstractmethod__
