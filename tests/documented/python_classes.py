"""From library/dataclasses, enum, typing, abc, copy, weakref, contextvars."""

import abc
import collections.abc
import contextvars
import copy
import dataclasses
import enum
import typing
import weakref

import torch

from documented import Between, documented, x


@dataclasses.dataclass(order=True)
class Item:
    price: float
    tags: list = dataclasses.field(default_factory=list, compare=False)
    total: float = dataclasses.field(init=False, repr=False, default=0.0)
    count: dataclasses.InitVar[int] = 1

    def __post_init__(self, count):
        self.total = self.price * count


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    a: int
    b: torch.Tensor | None = None


@dataclasses.dataclass(kw_only=True)
class Options:
    lr: float = 0.1
    _: dataclasses.KW_ONLY
    steps: int = 3


@documented(
    "library/dataclasses: factories give each instance its own list, InitVar goes to __post_init__, order compares as tuples",
    lambda: [(x(), 2.0, 3), (x(), 1.0, 1), (x(), 1, 0), (x(), 5.5, 2), (x(), 2.0, 3)],
)
def dataclass_fields(t, price, count):
    a, b = Item(price, count=count), Item(2.0)
    a.tags.append(t)
    return t * a.total, a < b, a == b, max(a, b) is a, b.tags, repr(b), [f.name for f in dataclasses.fields(a)], a


@documented(
    "library/dataclasses: replace, asdict (recursive, copying), astuple; FrozenInstanceError",
    lambda: [
        (x(), Frozen(1)),
        (x(), Frozen(2, x())),
        (x(), Frozen(1)),
        (x(), Options()),
        (x(), Options(lr=2, steps=1)),
    ],
)
def dataclass_functions(t, o):
    try:
        o.a = 5
    except dataclasses.FrozenInstanceError as error:
        why = str(error)
    else:
        why = "set"
    name = dataclasses.fields(o)[0].name
    n = dataclasses.replace(o, **{name: 7})
    return t * getattr(n, name), why, n, dataclasses.asdict(n), dataclasses.is_dataclass(Frozen), n == o


class Color(enum.Enum):
    RED = 1
    GREEN = 2
    CRIMSON = 1

    @property
    def weight(self):
        return self.value * 2

    @classmethod
    def _missing_(cls, value):
        return cls.GREEN if value == "g" else None


class Perm(enum.Flag):
    R = enum.auto()
    W = enum.auto()
    X = enum.auto()
    RW = R | W


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 10


class Mode(enum.StrEnum):
    FAST = enum.auto()
    SLOW = "sl"


@documented(
    "library/enum: aliases are the same member and not iterated; lookup by value and name, _missing_, methods",
    lambda: [(x(), 1), (x(), 2), (x(), "g"), (x(), 3), (x(), Color.CRIMSON)],
)
def enums(t, v):
    try:
        c = Color(v)
    except ValueError as error:
        return t, str(error)
    return (
        t * c.weight,
        c is Color.RED,
        [m.name for m in Color],
        list(Color.__members__),
        Color[c.name] is c,
        c in Color,
        repr(c),
        str(c),
        {c: 1}[Color(v)],
    )


@documented(
    "library/enum: Flag members combine by |, &, ~, ^; iteration, containment, truth; IntEnum and StrEnum mix in",
    lambda: [(x(), Perm.R), (x(), Perm.RW), (x(), Perm.X | Perm.W), (x(), Perm(0)), (x(), ~Perm.R)],
)
def flags(t, p):
    n = p ^ Perm.W
    if Perm.W in p:
        t = t + Level.HIGH
    return (
        t * p.value,
        n,
        [m.name for m in p],
        bool(p & Perm.R),
        str(p),
        Level.LOW + 1,
        f"{Level.HIGH}",
        Mode.FAST + "!",
        Level.HIGH > Level.LOW,
        Mode("sl"),
    )


class Reading(typing.NamedTuple):
    sensor: str
    value: float = 1.0

    def scaled(self, t):
        return t * self.value


class Movie(typing.TypedDict, total=False):
    name: str
    year: int


T = typing.TypeVar("T")


class Stack(typing.Generic[T]):
    def __init__(self):
        self.items: list[T] = []

    def push(self, item: T) -> "Stack[T]":
        self.items.append(item)
        return self


@documented(
    "library/typing: NamedTuple with methods and defaults, TypedDict is a dict, Generic subscripted is callable, cast returns its argument",
    lambda: [(x(), "a", 2.0), (x(), "b", 3), (x(), "a", None), (x(), "c", 0.5), (x(), "a", 2.0)],
)
def typing_classes(t, sensor, value):
    r = Reading(sensor, value) if value is not None else Reading(sensor)
    m = Movie(name=sensor, year=2)
    s = Stack[int]().push(m["year"]).push(typing.cast("str", 5))
    return r.scaled(t), r, type(m) is dict, s.items, typing.get_type_hints(Reading)["value"], r == (sensor, value)


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self):
        return 1

    @property
    @abc.abstractmethod
    def name(self): ...


class Square(Shape):
    name = "square"

    def __init__(self, side=2):
        self.side = side

    def area(self):
        return super().area() * self.side**2


class Half(Shape):
    def area(self):
        return 0


@documented(
    "library/abc: classes with abstract methods left cannot be instantiated; the error names them; super() reaches the abstract one",
    lambda: [(x(), Square), (x(), Half), (x(), Shape), (x(), Square), (x(), Half)],
)
def abstract(t, cls):
    try:
        s = cls()
    except TypeError as error:
        return t, str(error)
    return t * s.area(), s.name, isinstance(s, Shape), sorted(Shape.__abstractmethods__)


def make_quacker():
    class Quack(abc.ABC): ...

    class Quiet: ...

    class Duck(collections.abc.Sized):
        def __len__(self):
            return 2

    q = Quiet()
    return [
        (x(), q, Quack),
        (x(), 3, Quack),
        Between(lambda: Quack.register(Quiet)),
        (x(), q, Quack),
        Between(lambda: Quack.register(int)),
        (x(), 3, Quack),
        (x(), Duck(), Quack),
    ]


@documented("library/abc: register makes a class a virtual subclass from then on", make_quacker)
def virtual_subclasses(t, o, kind):
    if isinstance(o, kind):
        return t * 2, issubclass(type(o), kind)
    return t + 1, issubclass(type(o), kind)


class Hooked(abc.ABC):
    wanted = "spin"

    @classmethod
    def __subclasshook__(cls, other):
        if cls is Hooked:
            return any(cls.wanted in vars(b) for b in other.__mro__)
        return NotImplemented


class Spinner:
    def spin(self):
        return 3


@documented(
    "library/abc: __subclasshook__ decides isinstance",
    lambda: [(x(), Spinner()), (x(), 1), (x(), Spinner()), (x(), Square()), (x(), "s")],
)
def subclass_hooks(t, o):
    return t * o.spin() if isinstance(o, Hooked) else t, isinstance(o, Hooked)


class Node:
    def __init__(self, value):
        self.value, self.next, self.copies = value, None, 0

    def __deepcopy__(self, memo):
        n = Node(copy.deepcopy(self.value, memo))
        memo[id(self)] = n
        n.next = copy.deepcopy(self.next, memo)
        n.copies = self.copies + 1
        return n


def nodes():
    a, b = Node(x()), Node([1])
    a.next, b.next = b, a
    return [(x(), a), (x(), a), (x(), Node({"k": [1]})), Between(lambda: b.value.append(5)), (x(), a)]


@documented(
    "library/copy: deepcopy keeps shared and circular structure by its memo and asks __deepcopy__; copy is shallow",
    nodes,
)
def copies(t, node):
    deep, shallow = copy.deepcopy(node), copy.copy(node)
    shared = [t, t, node.value]
    again = copy.deepcopy(shared)
    circle = deep.next.next is deep if deep.next else None
    return (
        t + deep.copies,
        circle,
        shallow.value is node.value,
        deep.value is node.value,
        again[0] is again[1],
        copy.copy(shared)[0] is t,
        deep,
    )


class Pickled:
    def __init__(self):
        self.a, self.cache = [1], {"big": 1}

    def __getstate__(self):
        return {"a": self.a}

    def __setstate__(self, state):
        self.__dict__.update(state, cache={})

    def __copy__(self):
        p = Pickled.__new__(Pickled)
        p.a = "copied"
        return p


def pickled():
    p = Pickled()
    return [
        (x(), p),
        Between(lambda: p.a.append(2)),
        (x(), p),
        (x(), Pickled()),
        Between(lambda: p.cache.update(z=3)),
        (x(), p),
    ]


@documented("library/copy: copy asks __copy__, deepcopy goes by __reduce_ex__, __getstate__ and __setstate__", pickled)
def copy_protocol(t, p):
    d = copy.deepcopy(p)
    p.cache["seen"] = True
    return t * len(d.a), d.cache, d.a is p.a, copy.copy(p).a, d


class Owner:
    def __init__(self, v):
        self.v = v


dead: list = []


@documented(
    "library/weakref: a dead reference gives None, callbacks run when the object goes; WeakValueDictionary drops entries",
    lambda: [(x(), 1), (x(), 2), (x(), 1), (x(3), 5)],
    state=lambda: list(dead),
    setup=dead.clear,
)
def weak_references(t, v):
    o = Owner(v)
    r = weakref.ref(o, lambda _: dead.append(v))
    table = weakref.WeakValueDictionary(k=o)
    t = t * r().v + len(table)
    del o
    return t + len(table), r() is None, len(dead)


finalized: list = []


@documented(
    "library/weakref: finalize is called once, when the object goes or by hand; alive says which",
    lambda: [(x(), True), (x(), False), (x(), True), (x(3), False)],
    state=lambda: list(finalized),
    setup=finalized.clear,
)
def weak_finalizers(t, by_hand):
    o = Owner(t)
    f = weakref.finalize(o, finalized.append, by_hand)
    before = f.alive
    if by_hand:
        f()
    t = o.v * 2
    del o
    return t, before, f.alive, len(finalized)


depth: contextvars.ContextVar[int] = contextvars.ContextVar("depth", default=1)


@documented(
    "library/contextvars: get gives the value of the context, set a token, reset puts the old one back; run uses a copy",
    lambda: [(x(), 2), Between(lambda: depth.set(5)), (x(), 3), (x(), 4), Between(lambda: depth.set(1)), (x(), 2)],
    state=lambda: depth.get(),
    setup=lambda: depth.set(1),
)
def context_variables(t, n):
    before = depth.get()
    token = depth.set(before + n)
    y = t * depth.get()
    inside = contextvars.copy_context().run(lambda: (depth.set(100), depth.get())[1])
    depth.reset(token)
    return y, before, depth.get(), inside, token.var.name


class Celsius(float):
    def __new__(cls, v):
        return super().__new__(cls, v)

    def __add__(self, other):
        return Celsius(float(self) + other)

    def __repr__(self):
        return f"{float(self)}C"


class Ints(int):
    def __add__(self, other):
        return Ints(int(self) + other + 100)

    __radd__ = __add__


@documented(
    "library/stdtypes: subclasses of float and int keep their own operators; built-in operators give the base type",
    lambda: [(x(), Celsius(1.5)), (x(), Ints(2)), (x(), 2), (x(), Ints(3)), (x(), True)],
)
def numeric_subclasses(t, v):
    return t * v, v + 1, v * 2, type(v + 1).__name__, type(v * 2).__name__, repr(v), sum([v, v]), 1 + v, v == 2


class Money:
    """A class with a global registry of its live objects."""

    live: typing.ClassVar[weakref.WeakSet] = weakref.WeakSet()

    def __init__(self, n):
        self.n = n
        Money.live.add(self)


@documented(
    "library/weakref: WeakSet holds what lives elsewhere",
    lambda: [(x(), 1, []), (x(), 2, [Money(5)]), (x(), 3, []), (x(), 1, [Money(1), Money(2)])],
    setup=lambda: Money.live.clear(),
)
def weak_sets(t, n, kept):
    kept.append(Money(n))
    Money(99)
    return t * len(Money.live), sorted(m.n for m in Money.live)
