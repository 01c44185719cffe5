"""New objects: order of constructors, __new__, data classes, tuples with names, enums, copies."""

import copy
import dataclasses
import enum
import typing
from collections import namedtuple
from dataclasses import dataclass, field

import torch

from programs import program

LOG: list = []


def stateful(args=lambda t: (t(),), **options):
    """A program that writes LOG."""
    return program("fx_new_objects", args, setup=LOG.clear, state=lambda: LOG, **options)


# Creation: __new__, __init__, __init_subclass__, __set_name__, __post_init__.


class Logged:
    def __new__(cls, *args, **kwargs):
        LOG.append(("new", cls.__name__))
        return super().__new__(cls)

    def __init__(self, v, *, k=1):
        LOG.append(("init", k))
        self.v = v * k


class LoggedChild(Logged):
    def __init__(self, v):
        LOG.append("child")
        super().__init__(v, k=3)
        self.own = LOG[-1]


@stateful()
def order_of_constructors(x):
    a = LoggedChild(x)
    b = Logged(a.v, k=2)
    Logged(5)
    return a, b.v + 1


class Interned:
    known: dict = {}

    def __new__(cls, key, v):
        if key in cls.known:
            return cls.known[key]
        self = object.__new__(cls)
        cls.known[key] = self
        return self

    def __init__(self, key, v):
        self.key = key
        self.inits = getattr(self, "inits", 0) + 1
        self.v = v


@program("fx_new_objects", setup=Interned.known.clear, state=lambda: Interned.known)
def new_returns_a_known_object(x):
    a, b, c = Interned("a", x), Interned("b", 2), Interned("a", x + 1)
    return a is c, a.inits, b.inits, a.v


class Replaced:
    def __new__(cls, v):
        return [v, cls]

    def __init__(self, v):
        raise AssertionError("never called")


@program("fx_new_objects")
def new_returns_another_type(x):
    made = Replaced(x)
    made.append(3)
    return made[0] + 1, made


class Grows(list):
    def __init__(self, *items):
        super().__init__(items)
        self.total = 0

    def append(self, item):
        self.total += 1
        super().append(item)


class Defaults(dict):
    def __missing__(self, key):
        self[key] = value = len(self)
        return value

    def __setitem__(self, key, value):
        LOG.append(key)
        super().__setitem__(key, value)


@stateful()
def subclasses_of_containers_with_state(x):
    row, table = Grows(1, x), Defaults(a=0)
    row.append(table)
    row += [4]
    index = table["b"], table["c"], table["b"]
    table["x"] = row
    return row, index, x + row.total


@dataclass
class Part:
    size: int
    children: list = field(default_factory=list)
    name: str = field(default="part", compare=False)
    total: int = field(init=False)
    made: typing.ClassVar[int] = 0

    def __post_init__(self):
        self.total = self.size + sum(c.total for c in self.children)
        Part.made += 1


def _reset_part():
    Part.made = 0


@program("fx_new_objects", setup=_reset_part, state=lambda: Part.made)
def data_class_tree(x):
    leaves = [Part(i) for i in range(3)]
    root = Part(10, leaves, name="root")
    leaves.append(Part(1))
    again = dataclasses.replace(root, size=5)
    equal = root == Part(10, leaves, "other"), again == root
    return root, again, equal, x * root.total


@dataclass(frozen=True)
class Fixed:
    a: object
    b: tuple = ()

    def __post_init__(self):
        object.__setattr__(self, "sum", len(self.b))


@dataclass(frozen=True, slots=True)
class FixedSlots:
    a: object
    b: int = 3


@program("fx_new_objects", lambda t: (t(), Fixed(t(), (1, 2)), FixedSlots(1)))
def frozen_data_classes(x, f, s):
    errors = []
    for act in (lambda: setattr(f, "a", x), lambda: delattr(f, "a"), lambda: setattr(s, "b", x)):
        try:
            act()
        except dataclasses.FrozenInstanceError as error:
            errors.append(str(error))
    made = Fixed(f.a + x, (s.b,)), FixedSlots(x)
    return made, errors, made[0].sum, dataclasses.replace(s, b=4)


@dataclass
class WithInitVar:
    base: int
    scale: dataclasses.InitVar[int]
    log: list = field(default_factory=list, repr=False)

    def __post_init__(self, scale):
        self.base *= scale
        self.log.append(scale)


@program("fx_new_objects", lambda t: (t(), WithInitVar(2, 3)))
def data_class_with_init_var(x, w):
    made = WithInitVar(base=w.base, scale=2)
    w.log.extend(made.log)
    return x * made.base, made, repr(w)


PairOf = namedtuple("PairOf", "first second", defaults=[None])


class Span(typing.NamedTuple):
    low: object
    high: object = 1

    @property
    def width(self):
        return self.high - self.low


class Wide(PairOf):
    def __new__(cls, first):
        self = super().__new__(cls, first, first)
        self.note = "dict"
        return self


@program("fx_new_objects", lambda t: (t(), PairOf(1, t()), Span(0, 5)))
def tuples_with_names(x, pair, span):
    made = PairOf(x)._replace(second=span)
    low, high = span
    span = span._replace(low=x)
    return made, span.width, pair._asdict(), PairOf._make([1, 2]), Span._fields, (low, high) == (0, 5), pair[1] + 1


@program("fx_new_objects")
def subclass_of_a_named_tuple(x):
    w = Wide(x)
    w.more = w.first + 1
    return w, w.second is x, len(w), w.note


class Mode(enum.Enum):
    FAST = (1, "f")
    SLOW = (2, "s")

    def __init__(self, level, letter):
        self.level, self.letter = level, letter

    def run(self, x):
        return x * self.level


@program("fx_new_objects", lambda t: (t(), Mode.SLOW))
def enum_members_with_state(x, mode):
    y = mode.run(x) + Mode.FAST.run(x)
    table = {Mode.FAST: y, mode: 2}
    return y, table[Mode((2, "s"))], mode.letter, Mode["FAST"] is Mode.FAST, list(Mode)[1] is mode


# Copies.


class Tree:
    def __init__(self, value, *children):
        self.value, self.children = value, list(children)


class OwnCopy:
    def __init__(self, v):
        self.v = v

    def __copy__(self):
        LOG.append("copy")
        return OwnCopy(self.v)

    def __deepcopy__(self, memo):
        LOG.append("deepcopy")
        return OwnCopy(copy.deepcopy(self.v, memo))


@program("fx_new_objects", lambda t: (t(), Tree(1, Tree(2), Tree(3))))
def deep_copy_of_a_tree(x, tree):
    twin = copy.deepcopy(tree)
    twin.children[0].value = x
    shallow = copy.copy(tree)
    shallow.children.append(4)
    shallow.value = 9
    return twin, tree.value, len(tree.children), shallow


@stateful(lambda t: (t(), OwnCopy([1, 2])))
def copies_by_hooks(x, own):
    a, b = copy.copy(own), copy.deepcopy(own)
    a.v.append(x)
    b.v.append(3)
    return a.v is own.v, b.v, x + len(own.v)


def _shared_tree(t):
    shared = [1]
    tree = Tree(shared, shared)
    tree.loop = tree
    return t(), tree


@program("fx_new_objects", _shared_tree)
def deep_copy_keeps_sharing_and_cycles(x, tree):
    twin = copy.deepcopy(tree)
    twin.value.append(x)
    return twin, twin.loop is twin, twin.value is twin.children[0], tree.value


# An exception while a class or an object is being made.


class Fragile:
    made: list = []

    def __init__(self, v, fail):
        self.v = v
        Fragile.made.append(self)
        if fail:
            raise ValueError("half made")
        self.done = True


@program("fx_new_objects", setup=Fragile.made.clear, state=lambda: Fragile.made)
def object_half_made(x):
    kept = []
    for fail in (False, True):
        try:
            kept.append(Fragile(x, fail))
        except ValueError as error:
            kept.append(str(error))
    return kept, torch.stack([f.v for f in Fragile.made])
