"""match statements."""

import enum
from dataclasses import dataclass

from programs import program


@program("patterns", lambda t: (t(), [0, 1, "go", None, True, 2.5, 99]))
def literals(x, values):
    out = []
    for v in values:
        match v:
            case 0 | 1:
                out.append("bit")
            case "go":
                x = x + 1
            case None:
                out.append("none")
            case True:
                out.append("true")
            case float() as f:
                x = x * f
            case _:
                out.append(v)
    return x, out


@program("patterns", lambda t: (t(), [[], [1], [1, 2], [1, 2, 3, 4], (5, [6, 7]), "ab"]))
def sequences(x, values):
    out = []
    for v in values:
        match v:
            case []:
                out.append("empty")
            case [a]:
                out.append(a)
            case [a, b] if a < 5:
                out.append((a, b))
            case [a, [b, c]]:
                x = x * a + b * c
            case [a, *rest]:
                out.append(rest)
            case str(s):
                out.append(s)
    return x, out


@program("patterns", lambda t: (t(), [{"op": "add", "k": 2}, {"op": "mul", "k": 3, "more": 4}, {}, {"op": "neg"}]))
def mappings(x, commands):
    left = []
    for command in commands:
        match command:
            case {"op": "add", "k": k}:
                x = x + k
            case {"op": "mul", "k": k, **rest}:
                x = x * k
                left.append(rest)
            case {"op": ("neg" | "minus") as op}:
                x = -x
                left.append(op)
            case {}:
                left.append("any")
    return x, left


class Kind(enum.Enum):
    PLUS = 1
    TIMES = 2


@dataclass
class Leaf:
    value: float


@dataclass
class Node:
    kind: Kind
    left: object
    right: object


class Pair:
    __match_args__ = ("first", "second")

    def __init__(self, first, second):
        self.first, self.second = first, second


def _evaluate(x, tree):
    match tree:
        case Leaf(value=v):
            return x * v
        case Node(Kind.PLUS, left, right):
            return _evaluate(x, left) + _evaluate(x, right)
        case Node(kind=Kind.TIMES, left=left, right=right):
            return _evaluate(x, left) * _evaluate(x, right)
        case Pair(Leaf(), second=(Leaf(a), [b])):
            return x - a - b
    raise TypeError(tree)


@program(
    "patterns",
    lambda t: (
        t(),
        Node(Kind.PLUS, Leaf(2.0), Node(Kind.TIMES, Leaf(3.0), Pair(Leaf(0.0), (Leaf(1.0), [5.0])))),
    ),
)
def class_patterns(x, tree):
    return _evaluate(x, tree)


@program("patterns", lambda t: (t(), t(), 3))
def tensors_in_subjects(x, y, k):
    match (x, y, k):
        case (a, b, 3) if a.shape == b.shape:
            out = a + b
        case (a, _, _):
            out = a
    match {"t": out, "n": k}:
        case {"t": tensor, "n": int(n)} if n > 2:
            return tensor * n
    return None
