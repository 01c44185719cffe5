"""From reference/compound_stmts (match) and library/functions: what patterns ask of their subject."""

import collections
import collections.abc
import enum
from array import array
from dataclasses import dataclass

import torch

from documented import Between, documented, x

asked: list = []
cleared = {"state": lambda: list(asked), "setup": asked.clear}


class Pair:
    __match_args__ = ("first", "second")

    def __init__(self, first, second):
        self.first, self.second = first, second


class Lazy:
    """Its attributes come from __getattr__, which writes down what it is asked."""

    __match_args__ = ("first", "second")

    def __getattr__(self, name):
        asked.append(name)
        if name == "second":
            raise AttributeError(name)
        return 4


def reset_pair():
    Pair.__match_args__ = ("first", "second")
    asked.clear()


@documented(
    "reference/compound_stmts: positional class patterns go by the class' __match_args__ as it is now; too many raise TypeError",
    lambda: [
        (x(), Pair(1, 2)),
        (x(), Pair(3, 2)),
        Between(lambda: setattr(Pair, "__match_args__", ("second", "first"))),
        (x(), Pair(1, 2)),
        (x(), Pair(2, 1)),
        Between(lambda: setattr(Pair, "__match_args__", ("first",))),
        (x(), Pair(1, 2)),
        Between(lambda: setattr(Pair, "__match_args__", ["first", "second"])),
        (x(), Pair(1, 2)),
    ],
    setup=reset_pair,
)
def match_args_now(t, p):
    try:
        match p:
            case Pair(1, n):
                return t * n, "one"
            case Pair(m, n):
                return t + m, n
    except TypeError as error:
        return t, str(error)


@documented(
    "reference/compound_stmts: an attribute that is absent makes the class pattern fail, others are asked in order",
    lambda: [(x(), Lazy()), (x(), Pair(4, 5)), (x(), Pair(6, 5)), (x(), Lazy()), (x(), Pair(6, 7)), (x(), None)],
    **cleared,
)
def absent_attributes(t, o):
    match o:
        case Lazy(1, second) | Pair(4, second):
            return t * second
        case Lazy(4, second):
            return t - second
        case Lazy(first=n) | Pair(second=5, first=n):
            return t + n, "first"
        case Pair(second=n, first=6):
            return t + n, "second"
    return t


class Asked(dict):
    def get(self, key, default=None):
        asked.append(("get", key))
        return super().get(key, default)

    def __getitem__(self, key):
        asked.append(("item", key))
        return super().__getitem__(key)

    def __missing__(self, key):
        asked.append(("missing", key))
        return 7


class Keys(enum.Enum):
    SIZE = "size"


@documented(
    "reference/compound_stmts: mapping patterns use get, so that no default is made; **rest is a new dict; keys may be attributes",
    lambda: [
        (x(), collections.defaultdict(list, {"n": 2})),
        (x(), Asked(n=3, m=4)),
        (x(), {Keys.SIZE: 3, "n": "text"}),
        (x(), collections.OrderedDict(n=1, k=None)),
        (x(), collections.Counter("aab")),
        (x(), collections.ChainMap({"m": 3}, {"n": 8})),
        (x(), [("n", 2)]),
        (x(), {}),
    ],
    **cleared,
)
def mapping_patterns(t, d):
    match d:
        case {"absent": _}:
            return "absent"
        case {"n": int(n), **rest}:
            rest["new"] = n
            return t * n, rest, type(rest).__name__, len(d)
        case {Keys.SIZE: n}:
            return t[:n], len(d)
        case {"a": n}:
            return t + n
        case {}:
            return t, "any mapping"
    return t, type(d).__name__


class Window(collections.abc.Sequence):
    def __init__(self, *items):
        self.items = items

    def __len__(self):
        asked.append("len")
        return len(self.items)

    def __getitem__(self, i):
        asked.append(i)
        return self.items[i]


@documented(
    "reference/compound_stmts: str, bytes and bytearray are no sequences; others are asked their length and the items that are needed",
    lambda: [
        (x(), Window(1, 2, 3, 4)),
        (x(), Window(1)),
        (x(), "ab"),
        (x(), bytearray(b"ab")),
        (x(), collections.deque([1, 5])),
        (x(), range(3)),
        (x(), array("i", [9, 9])),
        (x(), x(2)),
        (x(), torch.Size([2, 3])),
        (x(), {1, 2}),
        (x(), Window()),
        (x(), memoryview(b"xyz")),
    ],
    **cleared,
)
def sequence_patterns(t, s):
    match s:
        case [first, _, *_, last]:
            return t * last, first
        case [a, b]:
            return t + a + b
        case []:
            return t, "empty"
        case (only,):
            return t - only
        case torch.Tensor():
            return t * s.sum()
    return t, type(s).__name__


@documented(
    "reference/compound_stmts: None, True and False are compared by identity, numbers and strings by ==",
    lambda: [
        (x(), True),
        (x(), 1),
        (x(), 1.0),
        (x(), 1 + 0j),
        (x(), 0),
        (x(), -0.0),
        (x(), False),
        (x(), None),
        (x(), float("nan")),
        (x(), "one"),
        (x(), b"one"),
        (x(), -3 + 2j),
    ],
)
def literal_patterns(t, v):
    match v:
        case True:
            return t, "True"
        case 1:
            return t * v, "1"
        case None:
            return t, "None"
        case 0:
            return (t, "False") if v is False else (t, "0", str(v))
        case "one":
            return t, "text"
        case -3 + 2j:
            return t, "complex"
        case float():
            return t * v, v == v
    return t, type(v).__name__


def note(v):
    asked.append(v)
    return v


@documented(
    "reference/compound_stmts: names bound by a pattern that matched stay when its guard fails; guards run in order, one at most succeeds",
    lambda: [(x(), [1, 2]), (x(), [2, 1]), (x(), [3, 3]), (x(), 5), (x(), [0]), (x(), [1, 2, 3])],
    **cleared,
)
def guards(t, v):
    a = b = "unbound"
    match note(v):
        case [a, b] if note(a) > note(b):
            t = t * a
        case [c] | [_, _, c] if (seen := note(c)) and seen > 2:
            t = t - seen
        case [a, b] | [a, b, _] if note(b == "unbound"):
            t = t + 1
        case other:
            return t, a, b, other
    return t, a, b


class Count(int):
    pass


@documented(
    "reference/compound_stmts: built-in classes take one positional pattern for the whole subject, bool being an int",
    lambda: [
        (x(), True),
        (x(), 4),
        (x(), Count(5)),
        (x(), 2.5),
        (x(), "abc"),
        (x(), (1, 2)),
        (x(), [3]),
        (x(), {4: 5}),
        (x(), frozenset({6})),
        (x(), b"q"),
        (x(), x(2, 3)),
        (x(), x(3)),
        (x(), torch.nn.Parameter(x(1))),
    ],
)
def builtin_class_patterns(t, v):
    match v:
        case bool(b):
            return t, b
        case Count(n):
            return t * n, "count", type(n).__name__
        case int(n) | float(n):
            return t * n
        case str(s) | bytes(s):
            return t * len(s), s
        case tuple((first, _)) | list([first]):
            return t + first
        case dict({4: n}):
            return t - n
        case set(s) | frozenset(s):
            return t - len(s), s
        case torch.nn.Parameter(requires_grad=True) as p:
            return t * p
        case torch.Tensor(ndim=2, shape=(rows, 3)) as m:
            return m * rows
        case torch.Tensor(shape=[n], dtype=torch.float32):
            return t * n


@dataclass
class Leaf:
    value: object


@dataclass
class Node:
    op: str
    args: list
    scale: float = 1.0


class Special(Node):
    pass


def evaluate(tree):
    match tree:
        case Special(op, args):
            return -evaluate(Node(op, args))
        case Leaf(torch.Tensor() as t):
            return t
        case Leaf(int() | float() as n):
            return torch.full((4,), float(n))
        case Node("add", [], s) | Node("mul", [], s):
            return torch.zeros(4) + s
        case Node("add", [one, *rest], s):
            return evaluate(one) * s + evaluate(Node("add", rest, s))
        case Node(op="mul", args=[one, two], scale=s) if s:
            return evaluate(one) * evaluate(two) * s
        case Node(op=op):
            raise ValueError(f"no {op!r} of {len(tree.args)}")
        case unknown:
            raise TypeError(f"{unknown!r}")


@documented(
    "reference/compound_stmts: nested patterns on dataclasses: __match_args__ are the fields in order, subclasses match their base",
    lambda: [
        (x(), Node("add", [Leaf(1)])),
        (x(), Node("mul", [Leaf(2), Node("add", [Leaf(3)], 2.0)])),
        (x(), Special("add", [Leaf(5), Leaf(6)])),
        (x(), Node("mul", [Leaf(2), Leaf(2)], 0.0)),
        (x(), Node("neg", [])),
        (x(), Leaf("text")),
        (x(), Node("add", [])),
    ],
)
def syntax_trees(t, tree):
    try:
        return t * evaluate(tree) + evaluate(Leaf(t))
    except (TypeError, ValueError) as error:
        return t, type(error).__name__, str(error)
