"""Objects of the user's classes: attributes, descriptors, operators, data classes, enums, classes made inside."""

import abc
import dataclasses
import enum
import functools
import typing
from dataclasses import dataclass, field

import torch

from programs import program


class Account:
    rate = 2.0

    def __init__(self, balance):
        self._balance = balance
        self.log = []

    @property
    def balance(self):
        self.log.append("get")
        return self._balance

    @balance.setter
    def balance(self, value):
        self.log.append("set")
        self._balance = value

    @balance.deleter
    def balance(self):
        self.log.append("delete")
        self._balance = None


@program("objects", lambda t: (t(), Account(t())))
def properties(x, account):
    account.balance = account.balance + x
    account.balance += 1
    kept = account.balance * account.rate
    del account.balance
    return kept, account.balance


class Clamped:
    """Data descriptor keeping its value on the instance."""

    def __set_name__(self, owner, name):
        self.slot = "_" + name

    def __get__(self, instance, owner):
        return self if instance is None else getattr(instance, self.slot, 0)

    def __set__(self, instance, value):
        setattr(instance, self.slot, value.clamp(-1, 1))

    def __delete__(self, instance):
        delattr(instance, self.slot)


class Computed:
    """Non-data descriptor: the instance's own attribute wins."""

    def __init__(self, function):
        self.function = function

    def __get__(self, instance, owner):
        return self.function(owner if instance is None else instance)


class Signal:
    level = Clamped()
    doubled = Computed(lambda self: self.level * 2 if isinstance(self, Signal) else "class")


@program("objects", lambda t: (t(), Signal()))
def descriptors(x, signal):
    signal.level = x * 3
    a = signal.level + signal.doubled
    signal.doubled = x
    b = signal.doubled
    del signal.level
    return a, b is x, signal.level, Signal.doubled, isinstance(Signal.level, Clamped)


class Fallback:
    def __init__(self, **known):
        self.known = known
        self.asked = []

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        self.asked.append(name)
        return self.known[name] if name in self.known else name


@program("objects", lambda t: (t(), Fallback(weight=t())))
def getattr_fallback(x, f):
    y = x * f.weight
    return y, f.bias, hasattr(f, "_private"), getattr(f, "_none", 3), f.asked[:1]


class Watched:
    def __init__(self):
        object.__setattr__(self, "log", [])

    def __getattribute__(self, name):
        if name.startswith("virtual_"):
            return len(name)
        return super().__getattribute__(name)

    def __setattr__(self, name, value):
        self.log.append(("set", name))
        super().__setattr__(name, value)

    def __delattr__(self, name):
        self.log.append(("delete", name))
        super().__delattr__(name)


@program("objects", lambda t: (t(), Watched()))
def attribute_hooks(x, w):
    w.a = x + 1
    w.b = w.a * w.virtual_size
    del w.a
    made = Watched()
    made.c = 1
    setattr(w, "d", made)
    return w.b, hasattr(w, "a"), made.log


class Vec:
    def __init__(self, v):
        self.v = v

    def __add__(self, other):
        return Vec(self.v + other.v) if isinstance(other, Vec) else NotImplemented

    def __radd__(self, other):
        return Vec(other + self.v)

    def __mul__(self, k):
        return Vec(self.v * k)

    __rmul__ = __mul__

    def __iadd__(self, other):
        self.v = self.v + other
        return self

    def __neg__(self):
        return Vec(-self.v)

    def __matmul__(self, other):
        return (self.v * other.v).sum()

    def __getitem__(self, i):
        return self.v[i]

    def __pow__(self, k, mod=None):
        return Vec(self.v**k)

    def __rsub__(self, other):
        return "rsub"

    def __divmod__(self, k):
        return "div", k

    def __invert__(self):
        return Vec(1 / self.v)


@program("objects", lambda t: (t(), Vec(t())))
def operators(x, v):
    w = v
    w += 1
    total = sum([v, Vec(x)], 0)
    out = [(v + w).v, (2 * v).v, (v * 3).v, (-v).v, v @ w, v[0], (v**2).v, 5 - v, divmod(v, 2), total.v, (~v).v]
    try:
        v + "text"
    except TypeError as error:
        out.append(str(error))
    return out, w is v


@functools.total_ordering
class Version:
    def __init__(self, *parts):
        self.parts = parts

    def __eq__(self, other):
        return isinstance(other, Version) and self.parts == other.parts

    def __lt__(self, other):
        return self.parts < other.parts

    def __hash__(self):
        return hash(self.parts)

    def __bool__(self):
        return any(self.parts)

    def __len__(self):
        return len(self.parts)

    def __contains__(self, part):
        return part in self.parts

    def __iter__(self):
        return iter(self.parts)


@program("objects", lambda t: (t(), Version(1, 2), Version(1, 10)))
def comparisons_and_hashes(x, a, b):
    same_hash = hash(a) == hash(Version(1, 2))
    checks = [a < b, a >= b, a == Version(1, 2), a != b, same_hash, bool(Version(0)), len(a), 10 in b]
    return x + (1 if a < b else 2), checks, sorted([b, a])[0] is a, [*b], max(a, b) is b, a in [b, Version(1, 2)]


@program("objects", lambda t: (t(), Version(1, 2), Version(1, 10)), one_graph=False)
def keys_with_their_own_equality(x, a, b):
    table = {a: "a", b: "b"}
    return x + 1, table[Version(1, 10)], Version(1, 2) in {a}, table.get(Version(3))


class Matrix:
    def __init__(self):
        self.cells = {}

    def __setitem__(self, key, value):
        self.cells[str(key)] = value

    def __getitem__(self, key):
        return self.cells.get(str(key), 0)

    def __delitem__(self, key):
        del self.cells[str(key)]


@program("objects", lambda t: (t(), Matrix()))
def item_protocol(x, m):
    m[0, 1] = x
    m[0, 1] += 2
    m["s":3] = 5
    m[1:] = m["s":3] + 1
    del m["s":3], m[0, 1]
    m[...] = x * 2
    return m[...], m[9], m[1:]


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


class SlottedChild(Slotted):
    __slots__ = ("c", "__dict__")


@program("objects", lambda t: (t(), Slotted(t()), SlottedChild(t())))
def slots(x, s, child):
    s.b = s.a + x
    s.a = 1
    child.c, child.free = x, "free"
    messages = []
    for f in (lambda: s.missing, lambda: setattr(s, "z", 1), lambda: child.b):
        try:
            f()
        except AttributeError as error:
            messages.append(type(error).__name__)
    made = Slotted(x * 2)
    made.b = made.a + 1
    del s.a
    return s.b, made, hasattr(s, "a"), messages, vars(child)


@dataclass
class Layer:
    weight: torch.Tensor
    name: str = "layer"
    tags: list = field(default_factory=list)
    size: int = field(init=False, default=0)

    def __post_init__(self):
        self.size = self.weight.dim()

    def scaled(self, k):
        return dataclasses.replace(self, weight=self.weight * k, tags=[*self.tags, k])


@dataclass(frozen=True, order=True)
class Setting:
    depth: int
    label: str = ""
    kind: typing.ClassVar[str] = "setting"


@dataclass(slots=True, kw_only=True)
class Compact:
    a: object
    b: int = 2


@program("objects", lambda t: (t(), Layer(t(), tags=["in"]), Setting(2, "s")))
def data_classes(x, layer, setting):
    layer.weight = layer.weight + x
    layer.tags.append(setting.label)
    big = layer.scaled(setting.depth).scaled(3)
    made = Layer(x)
    compact = Compact(a=x)
    names = [f.name for f in dataclasses.fields(layer)]
    try:
        setting.depth = 3
    except dataclasses.FrozenInstanceError as error:
        names.append(str(error))
    checks = [setting == Setting(2, "s"), setting < Setting(3), hash(setting) == hash(Setting(2, "s")), repr(setting)]
    return big, made, compact, names, checks, dataclasses.is_dataclass(made), dataclasses.asdict(setting)


class Color(enum.Enum):
    RED = "r"
    GREEN = "g"
    ALIAS = "r"

    @property
    def upper(self):
        return self.value.upper()

    @classmethod
    def default(cls):
        return cls.GREEN


class Level(enum.IntEnum):
    LOW = enum.auto()
    HIGH = enum.auto()


class Access(enum.Flag):
    READ = 1
    WRITE = 2


@program("objects", lambda t: (t(), Color.RED, Level.HIGH))
def enums(x, color, level):
    facts = [
        color is Color.ALIAS,
        Color("g"),
        Color["GREEN"].name,
        color.upper,
        Color.default(),
        [c.name for c in Color],
        level > Level.LOW,
        level + 1,
        Level(1),
        color in (Color.RED,),
        {Color.RED: 1}[color],
        isinstance(level, int),
        len(Color),
    ]
    if color == Color.RED:
        x = x * level
    return x, facts


@program("objects")
def flags(x):
    both = Access.READ | Access.WRITE
    return x + both.value, Access.READ in both, both & Access.WRITE, bool(both & ~both)


class Shape(abc.ABC):
    registry: typing.ClassVar[list] = []

    def __init_subclass__(cls, sides=0, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.sides = sides

    @abc.abstractmethod
    def area(self): ...

    def describe(self):
        return f"{type(self).__name__}/{self.sides}"


class Square(Shape, sides=4):
    def __init__(self, edge):
        self.edge = edge

    def area(self):
        return self.edge * self.edge


@program("objects", lambda t: (t(), Square(t())))
def abstract_classes(x, square):
    checks = isinstance(square, Shape), issubclass(Square, Shape), issubclass(int, (str, object))
    try:
        Shape()
    except TypeError:
        checks += ("abstract",)
    return square.area() + Square(x).area(), square.describe(), checks


class Tracked:
    made = 0

    def __new__(cls, *args):
        self = super().__new__(cls)
        cls.made += 1
        self.order = cls.made
        return self

    def __init__(self, value=None):
        self.value = value


def _none_tracked():
    Tracked.made = 0


@program("objects", setup=_none_tracked, state=lambda: Tracked.made)
def new_and_class_counters(x):
    a, b = Tracked(x), Tracked()
    b.value = a
    Tracked(5)
    return b, a.order, b.order, b.value.value + 1


@program("objects")
def class_made_inside(x):
    class Local:
        scale = 3

        def __init__(self, v):
            self.v = v

        def run(self):
            return self.v * self.scale + x

    class Child(Local):
        scale = 4

        def run(self):
            return super().run() - 1

    Local.scale += 1
    return Local(x).run(), Child(x).run(), Child.__mro__[1] is Local, Local.__name__


@program("objects")
def class_that_escapes(x):
    class Box:
        kind = "box"

        def __init__(self, item):
            self.item = item

        def get(self):
            return self.item

    box = Box(x + 1)
    return box, Box, box.get()


@program("objects")
def type_called_with_three(x):
    made = type("Made", (), {"k": 2, "go": lambda self, y: y * self.k})
    return made().go(x), made.__name__


class Plain:
    kind = "class"

    def __init__(self, **kw):
        self.__dict__.update(kw)


@program("objects", lambda t: (t(), Plain(a=1, b=t())))
def reflection(x, o):
    setattr(o, "c", x + getattr(o, "a"))
    names = sorted(vars(o)), hasattr(o, "zz"), getattr(o, "zz", "none")
    delattr(o, "a")
    o.kind = "own"
    del o.kind
    o.__dict__["via_dict"] = x * 2
    total = sum(v for v in vars(o).values())
    return total, names, o.kind, list(o.__dict__), o.__class__ is Plain, type(o).__name__, callable(o), o.via_dict


@program("objects", lambda t: (Plain(a=t(), b=t()),))
def swapped_attributes(s):
    s.a, s.b = s.b, s.a
    return s.a - s.b


@program("objects", lambda t: (t(), Plain(items=[])), hits=False)  # ids differ between calls
def objects_with_identity(x, o):
    first, second = Plain(v=x), Plain(v=x)
    o.items += [first, second, first]
    first.other, second.other = second, first
    o.me = o
    ids = {id(o): "o", id(first): "first"}
    return o.items[0] is o.items[2], first is second, first == second, ids[id(first)], x + 1


@program("objects", lambda t: (t(), Plain(count=0, best=None)))
def attributes_as_accumulators(x, o):
    for k in range(4):
        o.count += 1
        o.best = x if o.best is None else torch.maximum(o.best, x * k)
    o.history = [o.count]
    o.history.append(o.best)
    return o.best + o.count


class Meta(type):
    def __call__(cls, *args):
        made = super().__call__(*args)
        made.stamped = cls.__name__
        return made

    @property
    def title(cls):
        return cls.__name__.lower()


class WithMeta(metaclass=Meta):
    def __init__(self, v):
        self.v = v

    def __class_getitem__(cls, item):
        return f"{cls.__name__}[{item}]"


@program("objects")
def metaclasses(x):
    w = WithMeta(x + 1)
    return w.v, w.stamped, WithMeta.title, WithMeta[3], type(WithMeta).__name__


class Index:
    def __index__(self):
        return 2

    def __int__(self):
        return 7

    def __float__(self):
        return 1.5

    def __abs__(self):
        return "abs"

    def __round__(self, n=None):
        return ("round", n)

    def __str__(self):
        return "index"


@program("objects", lambda t: (t(), Index()))
def conversions(x, i):
    return x + int(i), [5, 6, 7][i], float(i), abs(i), round(i, 1), str(i), hex(i), range(9)[i]


class Typed(typing.NamedTuple):
    x: torch.Tensor
    k: int = 2

    def run(self):
        return self.x * self.k


@program("objects", lambda t: (Typed(t()), t()))
def typed_named_tuple(pair, y):
    return pair.run() + Typed(y, 3).run(), pair._replace(k=5), pair == pair


@program("objects", lambda t: (t(), Plain(k=3)))
def methods_patched_on_the_instance(x, o):
    def run(y):
        return y * o.k

    o.run = run
    o.k = 4
    y = o.run(x)
    del o.run
    return y, hasattr(o, "run")
