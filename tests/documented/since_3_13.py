"""From "What's New In Python 3.13": locals(), frames, defaults of type parameters, library."""

import copy
import dataclasses
import itertools
import math
import re
import sys
import typing
import warnings
from collections import namedtuple

from documented import documented, x


@documented(
    "PEP 667: locals() of a function is another dict at each call; writing into it changes no variable",
    lambda: [(x(), 2), (x(), 3), (x(2), 2), (x(2), 0)],
)
def snapshots_of_locals(t, n):
    first = locals()
    n = n + 1
    second = locals()
    second["n"] = 100
    return t * n, first["n"], second["n"], first is second, "first" in first, "first" in second


@documented(
    "PEP 667: frame.f_locals writes through to the variables of the frame",
    lambda: [(x(), 2), (x(), 3), (x(2), 2), (x(2), 0)],
)
def written_through(t, n):
    frame = sys._getframe()
    frame.f_locals["n"] = n * 10
    t = t * n
    frame.f_locals["added"] = 5
    return t, n, frame.f_locals["n"], "added" in frame.f_locals, sorted(frame.f_locals)


def write_above(name, value):
    sys._getframe(1).f_locals[name] = value


@documented(
    "PEP 667: a callee writes variables and cells of its caller by f_locals",
    lambda: [(x(), 1), (x(), 2), (x(2), 1), (x(2), 5)],
)
def written_by_a_callee(t, n):
    factor, cell = 1, n

    def read():
        return cell

    write_above("factor", n + 1)
    write_above("cell", n * 2)
    return t * factor, read(), cell


@documented(
    "PEP 667: exec() and eval() without namespaces work on a snapshot of the locals",
    lambda: [(x(), 1), (x(), 2), (x(2), 1), (x(2), 7)],
)
def executed(t, n):
    exec("n = 50")
    scope = {"t": t}
    exec("m = t * k", globals=scope, locals={"k": n, "t": t} if n == 2 else scope | {"k": n})
    return t * n, eval("n + 1"), sorted(k for k in scope if not k.startswith("__"))


class Box[T = int, *Ts = *tuple[int, str]]:
    def __init__(self, value: T) -> None:
        self.value = value


@documented(
    "PEP 696: type parameters have defaults, made late",
    lambda: [(x(), 1), (x(), 2), (x(2), 1), (x(2), 0)],
)
def defaults_of_parameters(t, n):
    box, (first, rest) = Box(t), Box.__type_params__
    return box.value * n, first.__default__, first.has_default(), rest.__default__ is typing.NoDefault


@dataclasses.dataclass
class Config:
    width: int
    depth: int = 2


Point = namedtuple("Point", "a b")


class Versioned:
    def __init__(self, n: int) -> None:
        self.n = n

    def __replace__(self, **changes: int) -> "Versioned":
        return Versioned(changes.get("n", self.n) + 100)


@documented(
    "library/copy: replace() makes a changed copy, of what has __replace__",
    lambda: [
        (x(), Config(1), {"width": 3}),
        (x(), Point(1, 2), {"b": 5}),
        (x(2), Versioned(1), {"n": 7}),
        (x(2), [1], {}),
    ],
)
def replaced(t, value, changes):
    try:
        return t + 1, copy.replace(value, **changes), value
    except TypeError as error:
        return t, str(error)


@warnings.deprecated("use another")
def old(t):
    return t * 3


@documented(
    "PEP 702: a function marked by warnings.deprecated warns when it is called",
    lambda: [(x(), 1), (x(), 2), (x(2), 0), (x(2), 1)],
)
def deprecated_calls(t, n):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(n):
            t = old(t)
    return t, [(w.category.__name__, str(w.message)) for w in caught], old.__deprecated__


class Described:
    """Has a docstring
        whose indentation
    is taken away.
    """

    def __init__(self, n):
        self.n, self.m = n, 1

    @property
    def twice(self):
        return self.n * 2


@documented(
    "reference/datamodel: classes know their first line and the attributes that methods store by self",
    lambda: [(x(), 1), (x(), 2), (x(2), 1), (x(2), 3)],
)
def known_of_classes(t, n):
    made = Described(n)
    return t * made.twice, sorted(Described.__static_attributes__), Described.__firstlineno__ > 1, Described.__doc__


@documented(
    "library/functions: a property knows its name",
    lambda: [(x(), 1), (x(), 2), (x(2), 1), (x(2), 0)],
)
def names_of_properties(t, n):
    return t + n, Described.twice.__name__, Described.twice.fget.__name__


@documented(
    "library/itertools: batched(strict=True) raises for a short last batch",
    lambda: [(x(), 2), (x(5), 2), (x(6), 3), (x(2), 4)],
)
def strict_batches(t, n):
    seen = []
    try:
        for part in itertools.batched(t.unbind(), n, strict=True):
            seen.append(sum(part))
    except ValueError as error:
        seen.append(str(error))
    return seen


@documented(
    "library/math: fma rounds once",
    lambda: [(x(), 0.1, 10.0), (x(), 2.0, 3.0), (x(2), 1e308, 10.0), (x(2), 0.0, math.inf)],
)
def fused(t, a, b):
    try:
        return t * 2, math.fma(a, b, -1.0)
    except (ValueError, OverflowError) as error:
        return t, type(error).__name__, str(error)


@documented(
    "library/stdtypes: str.replace takes count by its name",
    lambda: [(x(), "a-b-c", 1), (x(), "a-b-c", 2), (x(2), "", 1), (x(2), "a-b-c", -1)],
)
def counted_replacements(t, text, n):
    done = text.replace("-", "+", count=n)
    return t * len(done), done


@documented(
    "library/re: the error of a pattern is PatternError, and re.error still",
    lambda: [(x(), "(a)"), (x(), "(a"), (x(2), "["), (x(2), "a*")],
)
def errors_of_patterns(t, pattern):
    try:
        found = re.compile(pattern).match("aa")
        return t + 1, found.group()
    except re.PatternError as error:
        return t, isinstance(error, re.error), error.msg, error.pos


def global_in_else(t, n):
    global shared
    try:
        t = t + n
        if n > 2:
            raise ValueError
    except ValueError:
        shared = "raised"
    else:
        shared = "fine"
    return t, shared


documented(
    "reference/simple_stmts: a global written in the branches of a try statement",
    lambda: [(x(), 1), (x(), 3), (x(2), 1), (x(2), 4)],
    state=lambda: globals().get("shared"),
    setup=lambda: globals().pop("shared", None),
)(global_in_else)
