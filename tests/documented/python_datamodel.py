"""From reference/datamodel: special methods, descriptors, class creation."""

from typing import Any

import torch

from documented import Between, documented, x


class Positive:
    """A data descriptor that stores in the instance under another name."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = "_" + name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else getattr(instance, self.name, 1)

    def __set__(self, instance: Any, value: Any) -> None:
        if value <= 0:
            raise ValueError(f"{self.name} must be positive")
        setattr(instance, self.name, value)


class NonData:
    def __get__(self, instance, owner=None):
        return 10


class Layer:
    width = Positive()
    fallback = NonData()


def layers():
    a = Layer()
    return [
        (x(), a, 2),
        (x(), a, 3),
        (x(), a, -1),
        Between(lambda: vars(a).update(width=99, fallback=5)),
        (x(), a, 4),
        (x(), Layer(), 1.5),
    ]


@documented("reference/datamodel: data descriptors come before the instance dict, non-data ones after", layers)
def descriptors(t, layer, value):
    before = layer.width
    try:
        layer.width = value
    except ValueError as error:
        return t * before, str(error)
    return t * layer.width + layer.fallback, before, isinstance(Layer.width, Positive)


class Plugin:
    registry: dict = {}
    scale = 1

    def __init_subclass__(cls, /, tag=None, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.tag = tag or cls.__name__.lower()
        Plugin.registry[cls.tag] = cls

    def apply(self, t):
        return t * self.scale


def register_fast():
    class Fast(Plugin, tag="fast"):
        scale = 4


@documented(
    "reference/datamodel: __init_subclass__ runs whenever a class is subclassed, with the class' keywords",
    lambda: [
        (x(), "slow"),
        Between(register_fast),
        (x(), "fast"),
        (x(), "slow"),
        (x(), "made1"),
        (x(), "made2"),
        (x(), "made1"),
    ],
    state=lambda: sorted(Plugin.registry),
    setup=lambda: Plugin.registry.clear(),
)
def plugins(t, tag):
    cls = Plugin.registry.get(tag)
    if cls is None:

        class Made(Plugin, tag=tag):
            scale = len(Plugin.registry) + 2

        cls = Made
    return cls().apply(t), cls.tag, len(Plugin.registry)


class Vector:
    def __class_getitem__(cls, item):
        return (cls.__name__, item)


class Missing(dict):
    def __missing__(self, key):
        self[key] = value = len(self) * 10
        return value


def missing_dicts():
    d = Missing(a=1)
    return [(x(), d, "a"), (x(), d, "b"), (x(), d, "c"), (x(), d, "b"), (x(), Missing(), "b"), (x(), {"b": 3}, "b")]


@documented(
    "reference/datamodel: __missing__ is called by d[key] of subclasses only, not by get; __class_getitem__",
    missing_dicts,
)
def missing_keys(t, d, key):
    got = d.get(key, "no")
    return t + d[key], got, key in d, len(d), Vector[key], list[int]


class Idx:
    def __init__(self, n):
        self.n = n

    def __index__(self):
        return self.n


def indices():
    i = Idx(1)
    return [
        (x(5), i),
        Between(lambda: setattr(i, "n", 3)),
        (x(5), i),
        (x(5), Idx(0)),
        (x(5), Idx(-1)),
        (x(5), 2),
        (x(5), i),
    ]


@documented("reference/datamodel: __index__ serves indexing, slicing, range, hex, and int()", indices)
def index_objects(t, i):
    items = [10, 20, 30, 40, 50]
    return t[: items[i] // 10], items[i], items[i:], "abcde"[i], hex(i), int(i), list(range(2, 4)[:i])


class Truth:
    def __init__(self, value):
        self.value = value

    def __bool__(self):
        return self.value


class Sized0:
    def __init__(self, value):
        self.value = value

    def __len__(self):
        return self.value


class NeverTrue:
    __bool__ = None


def truths():
    a, b = Truth(True), Sized0(3)

    def change():
        a.value = False
        b.value = 0

    return [
        (x(), a),
        (x(), b),
        Between(change),
        (x(), a),
        (x(), b),
        (x(), Truth(1)),
        (x(), Sized0(-1)),
        (x(), NeverTrue()),
        (x(), object()),
    ]


@documented(
    "reference/datamodel: truth is __bool__, else __len__; wrong results and None raise TypeError or ValueError", truths
)
def truth(t, o):
    try:
        t = t + 1 if o else t - 1
        return t, not o, o and 3, [1 for _ in (0,) if o]
    except (TypeError, ValueError) as error:
        return t, type(error).__name__, str(error)


class Unhashable:
    def __init__(self, n):
        self.n = n

    def __eq__(self, other):
        return isinstance(other, Unhashable) and self.n == other.n


class Hashed(Unhashable):
    def __hash__(self):
        return self.n % 3


@documented(
    "reference/datamodel: __eq__ without __hash__ makes instances unhashable; dict finds keys by hash, then identity or equality",
    lambda: [
        (x(), Hashed(1), Hashed(4)),
        (x(), Hashed(1), Hashed(1)),
        (x(), Unhashable(1), Hashed(1)),
        (x(), Hashed(2), 2),
        (x(), 1, True),
        (x(), 1.0, 1),
    ],
)
def equality_and_hash(t, a, b):
    try:
        d = {a: "a"}
        d[b] = "b"
        return t * len(d), list(d.values()), b in {a}, a != b
    except TypeError as error:
        return t, str(error), a == b, a in [b]


class Base:
    def __init__(self, v):
        self.v = v

    def __add__(self, other):
        return ("Base.add", self.v)

    def __radd__(self, other):
        return ("Base.radd", self.v)

    def __lt__(self, other):
        return "Base.lt"

    def __gt__(self, other):
        return NotImplemented


class Derived(Base):
    def __radd__(self, other):
        return ("Derived.radd", self.v)

    def __gt__(self, other):
        return "Derived.gt"


@documented(
    "reference/datamodel: the reflected method of a right operand of a subclass that overrides it goes first",
    lambda: [
        (x(), Base(1), Derived(2)),
        (x(), Derived(1), Base(2)),
        (x(), Base(1), Base(2)),
        (x(), 3, Derived(2)),
        (x(), Derived(1), Derived(2)),
        (x(), 3, 4),
    ],
)
def reflected(t, a, b):
    t = t * 2
    return t, a + b, a < b, b < a


class Scale:
    """Takes part in arithmetic with tensors from either side."""

    def __init__(self, f):
        self.f = f

    def __mul__(self, other):
        return other * self.f

    def __rmul__(self, other):
        return other * self.f + 1

    def __imul__(self, other):
        return Scale(self.f * other)

    def __iadd__(self, other):
        self.f = self.f + other
        return self

    def __matmul__(self, other):
        return f"{self.f}@{other}"

    def __neg__(self):
        return -self.f


@documented(
    "reference/datamodel: in-place operators may return another object; the name is bound to what they return",
    lambda: [(x(), Scale(2), 3), (x(), Scale(2), 4), (x(), Scale(5), 0), (x(), Scale(1.5), 2), (x(), Scale(1.5), 2.5)],
)
def in_place_operators(t, s, n):
    other = s
    s *= n
    alias = s
    s += 1
    return t * s, s * t, s is other, s is alias, -s, s @ n, other.f


class Ghost:
    def __init__(self):
        self.real = 1
        self.asked = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        self.asked.append(name)
        return len(self.asked)


def ghosts():
    g = Ghost()
    return [(x(), g), (x(), g), Between(lambda: setattr(g, "soft", 50)), (x(), g), (x(), Ghost()), (x(), g)]


@documented("reference/datamodel: __getattr__ is called only where the default lookup fails", ghosts)
def getattr_fallback(t, g):
    return t * g.soft + g.real, g.hard, list(g.asked), hasattr(g, "anything")


class Logged:
    def __init__(self):
        object.__setattr__(self, "log", [])
        self.value = 1

    def __getattribute__(self, name):
        if name != "log":
            object.__getattribute__(self, "log").append("get " + name)
        return object.__getattribute__(self, name)

    def __setattr__(self, name, value):
        self.log.append("set " + name)
        object.__setattr__(self, name, value)

    def __delattr__(self, name):
        self.log.append("del " + name)
        object.__delattr__(self, name)

    def __getitem__(self, i):
        return self.value + i


def logged():
    o = Logged()
    return [(x(), o), (x(), o), Between(lambda: setattr(o, "value", 7)), (x(), o), (x(), Logged())]


@documented(
    "reference/datamodel: __getattribute__, __setattr__, __delattr__ see every explicit access, implicit lookups bypass them",
    logged,
)
def attribute_hooks(t, o):
    o.extra = t
    o.value += 1
    y = o.extra * o[2]
    del o.extra
    return y, len(o.log)


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


class SlottedChild(Slotted):
    __slots__ = ("c",)


@documented(
    "reference/datamodel: __slots__ gives no __dict__; unset slots and other names raise AttributeError",
    lambda: [
        (x(), Slotted(1), "b"),
        (x(), Slotted(2), "d"),
        (x(), SlottedChild(3), "c"),
        (x(), SlottedChild(4), "d"),
        (x(), Slotted(5), "b"),
    ],
)
def slots(t, o, name):
    first = getattr(o, name, "unset")
    try:
        setattr(o, name, t * o.a)
    except AttributeError as error:
        return t, str(error), hasattr(o, "__dict__")
    return getattr(o, name), first, hasattr(o, "b")


class Died:
    log: list = []

    def __init__(self, name):
        self.name = name

    def __del__(self):
        Died.log.append(self.name)


@documented(
    "reference/datamodel: __del__ is called when the last reference goes: del, rebinding, return",
    lambda: [(x(), "a"), (x(), "b"), (x(), "a"), (x(3), "c"), (x(), "d")],
    state=lambda: list(Died.log),
    setup=lambda: Died.log.clear(),
)
def finalizers(t, name):
    one = Died(name + "1")
    two = Died(name + "2")
    t = t + len(Died.log)
    del two
    t = t * 10 + len(Died.log)
    one = Died(name + "3")
    return t, list(Died.log)


class Singleton(type):
    instances: dict = {}

    def __call__(cls, *args):
        if cls not in Singleton.instances:
            Singleton.instances[cls] = super().__call__(*args)
        return Singleton.instances[cls]

    def __len__(cls):
        return 42

    def __contains__(cls, item):
        return item == "in"

    def __getattr__(cls, name):
        return f"class attribute {name}"


class Config(metaclass=Singleton):
    def __init__(self, n):
        self.n = n


@documented(
    "reference/datamodel: a metaclass' __call__ makes instances; its special methods serve the class",
    lambda: [(x(), 1), (x(), 2), Between(Singleton.instances.clear), (x(), 3), (x(), 4)],
    setup=Singleton.instances.clear,
)
def metaclass(t, n):
    c = Config(n)
    return t * c.n, c is Config(n + 1), len(Config), n in Config, "in" in Config, Config.absent


class OldSequence:
    """Iterated and searched by __getitem__ from 0 until IndexError."""

    def __init__(self, n):
        self.n = n

    def __getitem__(self, i):
        if i >= self.n:
            raise IndexError(i)
        return i * i


class OnlyIter(OldSequence):
    def __iter__(self):
        yield from (1, 2, 3)


class NoContains(OnlyIter):
    __contains__ = None


@documented(
    "reference/datamodel: in uses __contains__, else __iter__, else __getitem__; None says there is none",
    lambda: [
        (x(), OldSequence(3), 4),
        (x(), OldSequence(2), 4),
        (x(), OnlyIter(9), 4),
        (x(), OnlyIter(9), 2),
        (x(), NoContains(3), 2),
    ],
)
def membership(t, s, v):
    try:
        found = v in s
    except TypeError as error:
        return t, str(error)
    for item in s:
        t = t + item
    return t, found, list(s), max(s)


class A:
    def __init__(self, **kwargs):
        self.order = getattr(self, "order", []) + ["A"]

    def forward(self, t):
        return t + 1


class B(A):
    def __init__(self, b=2, **kwargs):
        super().__init__(**kwargs)
        self.b = b
        self.order.append("B")

    def forward(self, t):
        return super().forward(t) * self.b


class C(A):
    def __init__(self, c=3, **kwargs):
        super().__init__(**kwargs)
        self.c = c
        self.order.append("C")

    def forward(self, t):
        return super().forward(t) - self.c


class D(B, C):
    def forward(self, t):
        return super(D, self).forward(t), super(B, self).forward(t)


@documented(
    "tutorial/classes: super() follows the MRO of the instance, so that a diamond calls each base once",
    lambda: [(x(), B, {}), (x(), C, {"c": 5}), (x(), D, {"b": 4, "c": 1}), (x(), D, {}), (x(), D, {"b": 0.5})],
)
def cooperative(t, cls, kwargs):
    o = cls(**kwargs)
    return o.forward(t), o.order, [k.__name__ for k in cls.__mro__], vars(o)


class Temperature:
    def __init__(self, celsius):
        self.celsius = celsius

    @property
    def fahrenheit(self):
        return self.celsius * 9 / 5 + 32

    @fahrenheit.setter
    def fahrenheit(self, value):
        self.celsius = (value - 32) * 5 / 9

    @classmethod
    def of(cls, value):
        o = cls(0)
        o.fahrenheit = value
        return o

    @staticmethod
    def kelvin(c):
        return c + 273.15


class Hot(Temperature):
    pass


@documented(
    "library/functions: property with setter, classmethod given the subclass, staticmethod; no deleter raises",
    lambda: [(x(), Temperature, 212), (x(), Hot, 32), (x(), Hot, 50.5), (x(), Temperature, 0), (x(), Temperature, 0)],
)
def properties(t, cls, value):
    o = cls.of(value)
    o.fahrenheit += 9
    try:
        del o.fahrenheit
    except AttributeError as error:
        why = str(error)
    return t * o.celsius, type(o) is cls, cls.kelvin(o.celsius), o.fahrenheit, why


class Adder:
    bias = 1

    def __call__(self, t):
        return t + self.bias


class Host:
    method = Adder()  # not a function: no binding

    def bound(self):
        return self


def hosts():
    h = Host()
    return [
        (x(), h),
        Between(lambda: setattr(h, "bound", lambda: "instance")),
        (x(), h),
        Between(lambda: setattr(Adder, "bias", 5)),
        (x(), h),
        (x(), Host()),
    ]


@documented(
    "reference/datamodel: functions bind when found on the class, not on the instance; callables without __get__ never",
    hosts,
    setup=lambda: setattr(Adder, "bias", 1),
)
def binding(t, h):
    got = h.bound()
    return h.method(t), got is h or got, Host.bound(t) is t


class Formatted:
    def __init__(self, v):
        self.v = v

    def __format__(self, spec):
        return f"F({self.v}, {spec!r})"

    def __str__(self):
        return "S"

    def __repr__(self):
        return "R"


@documented(
    "reference/datamodel: __format__ is given the spec of f-strings and str.format; !r and !s convert first",
    lambda: [
        (x(), Formatted(1), "abc"),
        (x(), Formatted(2), ""),
        (x(), 3, "05d"),
        (x(), 2.5, ".3e"),
        (x(), 3, "05d"),
        (x(), 1234567, ","),
    ],
)
def format_specs(t, v, spec):
    return t + len(spec), f"{v:{spec}}", f"{v!r:>4}", f"{v!s}", f"{v=}", format(v), "{0:{1}}".format(v, spec)


class Immutable:
    def __new__(cls, v):
        if isinstance(v, str):
            return v.upper()  # not an instance: __init__ is not called
        self = super().__new__(cls)
        self.made = [v]
        return self

    def __init__(self, v):
        self.made.append("init")


@documented(
    "reference/datamodel: __init__ runs only when __new__ returned an instance of the class",
    lambda: [(x(), 1), (x(), "text"), (x(), 2), (x(), 2.5), (x(), "t")],
)
def new_and_init(t, v):
    o = Immutable(v)
    return t * (len(o) if isinstance(o, str) else len(o.made)), o


class Compared(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0
        self.scale = 2.0

    def forward(self, t):
        self.calls += 1
        return t * self.scale + self.calls


def modules():
    m = Compared()
    return [
        (x(), m),
        (x(), m),
        Between(lambda: setattr(m, "scale", 3.0)),
        (x(), m),
        (x(), Compared()),
        Between(lambda: m.eval()),
        (x(), m),
    ]


@documented(
    "tutorial/classes: data attributes spring into existence when assigned, and override class attributes of the instance only",
    modules,
)
def instance_data(t, m):
    y = m(t)
    m.last = y.shape[0] + m.calls
    return y, m.last, m.training, "calls" in vars(m)
