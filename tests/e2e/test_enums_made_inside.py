"""Enum(), NamedTuple() and their kind called in compiled code: each call makes another class, and what leaves is of
that one."""

import collections
import enum
import typing
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch

library: Any = enum  # so that nobody looks for members of classes made at run time
Enum, IntEnum, StrEnum, Flag, IntFlag = (
    library.Enum,
    library.IntEnum,
    library.StrEnum,
    library.Flag,
    library.IntFlag,
)
namedtuple: Any = collections.namedtuple
typed: Any = typing.NamedTuple
KEPT: list[Any] = []


def colors(*args: Any, **keywords: Any) -> Any:
    return Enum("Color", "RED GREEN BLUE", *args, **keywords)


def told(thing: Any) -> Any:
    """What can be compared of one call and another."""
    cls: Any = type(thing)
    if isinstance(thing, library.EnumType):
        return [thing.__name__, thing.__module__, thing.__qualname__, [repr(m) for m in thing], len(thing)]
    if isinstance(thing, Enum):
        return [repr(thing), cls is type(next(iter(cls))), thing is cls(thing.value)]
    if isinstance(thing, dict):
        return [(told(k), told(v)) for k, v in thing.items()]
    if isinstance(thing, (list, tuple)):
        return [told(item) for item in thing]
    return thing.tolist() if isinstance(thing, torch.Tensor) else thing


def attempt(call: Callable[[], Any]) -> str:
    try:
        return str(call())
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def marked(x: torch.Tensor) -> Any:
    c = colors()
    c.RED.mark = 3
    return x * c.RED.mark, hasattr(c.GREEN, "mark")


def changed_class(x: torch.Tensor) -> Any:
    c = colors()
    before = hasattr(c, "extra")
    c.extra = 5
    return x * c.extra, before, c


def broken(x: torch.Tensor) -> Any:
    c = colors()
    red = c.RED
    y = x * red.value
    torch._dynamo.graph_break()
    return (y + c.GREEN.value).cos(), red is c.RED, red, c


def matched(x: torch.Tensor) -> Any:
    c = colors()
    found = []
    for member in c:
        match member:
            case c.RED:
                found.append("r")
            case c.GREEN | c.BLUE:
                found.append("gb")
    return x + len(found), found


def kept(x: torch.Tensor) -> Any:
    c = colors()
    KEPT.append(c.RED)
    return x + 1, KEPT[-1] is c.RED, [KEPT[-1] is k for k in KEPT[:-1]]


def flags_across_a_break(x: torch.Tensor) -> Any:
    f = Flag("F", "A B C")
    both = f.A | f.B
    torch._dynamo.graph_break()
    return x * both.value, both is (f.B | f.A), len(f._value2member_map_)


def by_name(x: torch.Tensor, name: str = "GREEN") -> Any:
    c = colors()
    return x * c[name].value, c[name]


ALIASED = Enum("ALIASED", {"A": 1, "B": 1, "C": 2})

# One graph each.
WHOLE: dict[str, Callable[[torch.Tensor], Any]] = {
    "values": lambda x: x * colors().RED.value + colors().BLUE.value,
    "ints": lambda x: x * IntEnum("I", {"A": 2, "B": 3}).A,
    "pairs": lambda x: x * Enum("P", [("A", 2), ("B", 3.5)]).B.value,
    "names in a list": lambda x: x * Enum("P", ["A", "B"]).B.value,
    "names in a tuple, by a later start": lambda x: x * Enum("P", ("A", "B"), start=5).B.value,
    "commas": lambda x: x * IntEnum("P", "A, B,C").C,
    "texts": lambda x: (x + 1, f"{StrEnum('S', 'A B').B}", StrEnum("S", ["Ab"])("ab").value),
    "a module and a name of its own": lambda x: (x + 1, colors(module="m", qualname="q.r").__qualname__),
    "by number": lambda x: x * colors()(2).value,
    "by name": lambda x: x * colors()["BLUE"].value,
    "identity": lambda x: (x + 1, (lambda c: (c.RED is c(1), c.RED is c["RED"], c.RED == c.GREEN))(colors())),
    "two of one name": lambda x: (x + 1, colors().RED == colors().RED, colors() is colors()),
    "in": lambda x: (x + 1, (lambda c: c.RED in c)(colors())),
    "of a class": lambda x: (x + 1, (lambda c: isinstance(c.RED, c))(colors()), isinstance(ALIASED.A, colors())),
    "length": lambda x: x * len(colors()),
    "turns": lambda x: [x * c.value for c in colors()],
    "keys": lambda x: (lambda c: {c.RED: x + 1, c.GREEN: x + 2}[c.GREEN])(colors()),
    "order": lambda x: (x + 1, sorted(IntEnum("I", {"A": 3, "B": 1}))[0] == 1),
    "text": lambda x: (x + 1, str(colors().RED), f"{colors().RED}", repr(colors().RED), colors().RED.name),
    "no such number": lambda x: (x + 1, attempt(lambda: colors()(9))),
    "no such name": lambda x: (x + 1, attempt(lambda: colors()["NO"])),
    "no such attribute": lambda x: (x + 1, attempt(lambda: colors().NO)),
    "names": lambda x: (x + 1, tuple(colors()._member_names_)),
    "fields": lambda x: (x + 1, namedtuple("P", "a b")._fields),
    "matched": matched,
    "flags combined": lambda x: (lambda f: (x * (f.A | f.B).value, f.A in (f.A | f.C)))(Flag("F", "A B C")),
    "flags that are one": lambda x: (x + 1, (lambda f: (f.A | f.B) is (f.B | f.A))(Flag("F", "A B"))),
    "flags by number": lambda x: (x + 1, (lambda f: (f(3).name, f(3) is f(3), len(f)))(Flag("F", "A B"))),
    "flags turned": lambda x: (x + 1, (lambda f: (~f.A).value)(Flag("F", "A B C"))),
    "no such flag": lambda x: (x + 1, attempt(lambda: Flag("F", "A B")(8))),
    "a member marked": lambda x: (lambda c: (setattr(c.RED, "mark", 3), x * c.RED.mark))(colors()),
    "typed fields": lambda x: (lambda p: p(x, 2).a * p(x, 3).b)(typed("P", [("a", torch.Tensor), ("b", int)])),
    "what it stands for": lambda x: (
        x + 1,
        (lambda p: (p.__name__, p.__module__, p.__qualname__))(typed("P", [("a", int)])),
    ),
    "no field": lambda x: (x + 1, len(typed("P", [])())),
}
# Others.
OUT: dict[str, Callable[[torch.Tensor], Any]] = {
    "the class": lambda x: (x + 1, colors()),
    "a member": lambda x: (x + 1, colors().RED),
    "a member by name": by_name,
    "members": lambda x: (x + 1, list(colors())),
    "the class and a member": lambda x: (lambda c: (x + 1, c, c.RED, c.RED is c(1)))(colors()),
    "members as keys": lambda x: (lambda c: {c.RED: x + 1, c.GREEN: x + 2})(colors()),
    "its members": lambda x: (x + 1, dict(colors().__members__)),
    "its map": lambda x: (x + 1, colors()._member_map_),
    "its names": lambda x: (x + 1, colors()._member_names_),
    "marked": marked,
    "changed": changed_class,
    "broken": broken,
    "kept": kept,
    "flags and their class": lambda x: (lambda f: (x + (f.A | f.B).value, f, f(3)))(Flag("F", "A B")),
    "a class of which flags were combined": lambda x: (lambda f: ((f.A | f.B).value * x, f))(Flag("F", "A B")),
    "its map of flags": lambda x: (lambda f: ((f.A | f.B).value * x, len(f._value2member_map_), f._value2member_map_))(
        Flag("F", "A B")
    ),
    "a marked member": lambda x: (lambda c: (x + 1, setattr(c.RED, "mark", 3), c.RED.mark, c))(colors()),
    "flags combined across a break": flags_across_a_break,
    "flags": lambda x: (lambda f: (x + 1, (f.A | f.B).value, f(3)))(Flag("F", "A B")),
    "flags of ints": lambda x: (lambda f: (x + (f.A | f.B), f.A | f.B))(IntFlag("F", "A B")),
    "of a type": lambda x: (x + 1, Enum("T", "A B", type=int).A + 1),
    "set again": lambda x: (x + 1, attempt(lambda: setattr(colors(), "RED", 1))),
    "a wrong name": lambda x: (x + 1, attempt(lambda: Enum("T", 5))),
    "a name twice": lambda x: (x + 1, attempt(lambda: Enum("T", "A A"))),
    "automatic": lambda x: (x + 1, Enum("T", {"A": enum.auto(), "B": enum.auto()}).B.value),
    "typed": lambda x: (lambda p: (x + 1, p(1, 2), p._fields, str(p.__new__.__annotations__)))(
        typed("P", [("a", int), ("b", list[int])])
    ),
    "types": lambda x: (x + 1, typed("P", (("a", int), ("b", "int"))).__annotations__["b"]),
    "a typed tuple": lambda x: typed("P", [("a", torch.Tensor), ("b", int)])(x + 1, 2),
    "typed by keywords": lambda x: (x + 1, attempt(lambda: typed("P", a=int)(3))),
    "typed wrongly": lambda x: (x + 1, attempt(lambda: typed("P", [("a", 3)]))),
    "a field twice": lambda x: (x + 1, attempt(lambda: typed("P", [("a", int), ("a", int)]))),
    "fields that are no pairs": lambda x: (x + 1, attempt(lambda: typed("P", ["ab"]))),
    "one with members": lambda x: (x + 1, attempt(lambda: ALIASED("T", "A"))),
}


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("name", [*WHOLE, *OUT])
def test_as_eagerly(name: str, backend: str) -> None:
    program = {**WHOLE, **OUT}[name]
    found = []
    for call in (program, gramme.compile(program, backend=backend)):
        KEPT.clear()
        results = [call(torch.arange(3.0)) for _ in range(4)]
        found.append([told(result) for result in results])
        classes = [r[1] for r in results if isinstance(r, tuple) and isinstance(r[1], (enum.EnumType, Enum))]
        found[-1].append(len({id(c) for c in classes}))
    assert found[1] == found[0]


@pytest.mark.parametrize("name", WHOLE)
def test_one_graph(name: str) -> None:
    count = 0

    def counted(module: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        nonlocal count
        count += 1
        return module.forward

    compiled = gramme.compile(WHOLE[name], backend=counted)
    for _ in range(4):
        compiled(torch.arange(3.0))
    assert count == 1
    assert gramme.statistics(compiled).captures == 1


def test_names_that_vary() -> None:
    def program(x: torch.Tensor, names: list[str], start: int) -> Any:
        made = IntEnum("I", names, start=start)
        return x * made.B, list(made.__members__)

    compiled = gramme.compile(program, backend="eager")
    for names, start in ((["A", "B"], 1), (["A", "B"], 4), (["B", "A"], 4), (["A", "B", "C"], 7), (["A", "B"], 9)):
        got, want = (f(torch.ones(2), names, start) for f in (compiled, program))
        assert str(got) == str(want)


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_typed_tuples_leave(backend: str) -> None:
    def program(x: torch.Tensor, of: type) -> Any:
        made = typed("P", [("a", torch.Tensor), ("b", of)])
        return made(x + 1, 2), made

    compiled, classes = gramme.compile(program, backend=backend), []
    for of in (int, int, float):
        for call in (compiled, program):
            result, made = call(torch.ones(2), of)
            assert type(result) is made
            assert made.__annotations__ == {"a": torch.Tensor, "b": of}
            assert made.__module__ == __name__
            assert str(result) == f"P(a={torch.ones(2) + 1}, b=2)"
            classes.append(made)
    assert len(set(classes)) == len(classes)
