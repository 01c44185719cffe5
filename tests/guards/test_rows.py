"""Walks the tables: each row has a case that is accepted and, changed in place below a bound plan, is not any more; and
some case of the row is told wrong when one of its columns is emptied."""

import abc
import collections
import contextvars
import ctypes
import functools
import sys
import threading
import types
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from guards.support import TestGuards, testing

HERE = (("Local", "x"), ("Item", 0))
NEXT = (("Local", "x"), ("Item", 1))


class Case(NamedTuple):
    """Facts that hold of a list that is made; then the list, or what is in it, is changed."""

    make: Callable[[], list[Any]]
    facts: Callable[[list[Any]], list[Any]]
    change: Callable[[list[Any]], Any]


def verdict(case: Case) -> tuple[bool, bool]:
    """Of three calls with what was made, and of one with what it was changed to."""
    x = case.make()
    plan = TestGuards(["x"], case.facts(x), [])
    before = [plan.check([x]) is not None for _ in range(3)]
    changed = case.change(x)
    try:
        after = plan.check([x]) is not None
    finally:
        if callable(changed):
            changed()
    return all(before), after


def about(kind: str, operand: object = None, path: Any = HERE) -> Callable[[list[Any]], list[Any]]:
    return lambda x: [(path, kind, operand)]


def below(*path: Any, absent: bool = False) -> Callable[[list[Any]], list[Any]]:
    """The source gives the object that it gives now, or none."""

    def facts(x: list[Any]) -> list[Any]:
        full = (*HERE, *path)
        if absent:
            return [(full, "Absent", None)]
        (now,) = TestGuards(["x"], [(full, "Present", None)], [full]).check([x])
        return [(full, "Identity", now)]

    return facts


def reborn(make: Callable[[int], Any]) -> tuple[Callable[[], list[Any]], Callable[[list[Any]], None]]:
    """make(0), and make(1) in its place in memory."""

    def change(x: list[Any]) -> None:
        for _ in range(1000):
            old = id(x[0])
            x[0] = None
            made = make(1)
            same = id(made) == old
            x[0] = made
            if same:
                return
        pytest.skip("no object came to lie where another one did")

    return lambda: [make(0)], change


class Plain:
    k = 1

    def __init__(self) -> None:
        self.a = 1.5


class Other(Plain):
    k = 1


class Slotted:
    __slots__ = ("a",)

    def __init__(self) -> None:
        self.a = [1]


def with_dict() -> Plain:
    made = Plain()
    vars(made)
    return made


def one() -> int:
    return 1


def two() -> int:
    return 2


def function() -> Any:
    def f(y: int = 5, *, z: int = 6) -> int:
        return y + z

    return f


def annotated() -> Any:
    """A function whose annotations were asked for: some versions of CPython make them by Python code."""
    f = function()
    assert f.__annotations__
    return f


def put(i: int, value: object) -> Callable[[list[Any]], None]:
    return lambda x: x.__setitem__(i, value)


def do(name: str, *args: Any) -> Callable[[list[Any]], None]:
    """Calls the method of the first object; its result is no undoing."""

    def change(x: list[Any]) -> None:
        getattr(x[0], name)(*args)

    return change


def assign(name: str, value: object) -> Callable[[list[Any]], None]:
    return lambda x: setattr(x[0], name, value)


def not_raised() -> list[Any]:
    warnings.filterwarnings("ignore", "te.t", lineno=7)
    return [globals()]


def raised_from_now_on(x: list[Any]) -> Callable[[], None]:
    before = warnings.filters[:]
    warnings.filterwarnings("error", "te.t", lineno=7)
    return lambda: (warnings.filters.__setitem__(slice(None), before), warnings._filters_mutated())[0]  # type: ignore[attr-defined]


def register(x: list[Any]) -> None:
    x[0].register(Plain)


def subclassed(x: list[Any]) -> Callable[[], None]:
    made = type("Below", (x[0],), {})
    return lambda: made.mro() and None


def abstract() -> list[Any]:
    return [abc.ABCMeta("Abstract", (), {})]


def plain_ones() -> list[Any]:
    return [Plain(), Plain()]


def become_one(x: list[Any]) -> None:
    x[1] = x[0]


def view(x: list[Any]) -> None:
    x[0].set_(x[1].untyped_storage(), 0, (2, 3), (3, 1))


def tensors() -> list[Any]:
    return [torch.ones(2, 3), torch.ones(2, 3)]


def labelled() -> list[Any]:
    made = tensors()
    vars(made[0])["label"] = 1
    return made


BOUND: list[int] = []
APPENDS, EXTENDS = reborn(lambda i: BOUND.extend if i else BOUND.append)
BOUND_ANEW = Case(APPENDS, about("MethodDef", list.append), EXTENDS)

GUARDS: dict[str, list[Case]] = {
    "Type": [Case(lambda: [Plain()], about("Type", Plain), assign("__class__", Other))],
    "Narrow": [Case(lambda: [7], about("Narrow", int), put(0, 2**40))],
    "Constant": [Case(lambda: [7], about("Constant", 7), put(0, 8))],
    "Identity": [Case(lambda: [one], about("Identity", one), put(0, two))],
    "SameAs": [Case(lambda: [one, one], about("SameAs", NEXT), put(1, two))],
    "NotSameAs": [Case(lambda: [one, two], about("NotSameAs", NEXT), put(1, one))],
    "Length": [
        Case(lambda: [[1]], about("Length", 1), do("append", 1)),
        Case(lambda: [{1: 2}], about("Length", 1), do("update", {3: 4})),
        Case(lambda: [{1}], about("Length", 1), do("add", 2)),
        Case(lambda: [collections.deque([1])], about("Length", 1), do("append", 1)),
    ],
    "Absent": [Case(lambda: [Plain()], below(("Attr", "new"), absent=True), assign("new", 1))],
    "Present": [Case(lambda: [1], about("Present"), lambda x: x.clear())],
    "Keys": [
        Case(lambda: [{"a": 1}], about("Keys", ("a",)), do("update", {"b": 1})),
        Case(lambda: [{"a": 1, "b": 2}], about("Keys", ("a", "b")), lambda x: x[0].update(a=x[0].pop("a"))),
        Case(
            lambda: [collections.OrderedDict(a=1, b=2)], about("Keys", ("a", "b")), do("move_to_end", "a")
        ),
    ],
    "SetIs": [Case(lambda: [{1}], about("SetIs", frozenset({1})), do("add", 2))],
    "Places": [Case(lambda: [{1}], about("Places", {1}), do("add", 2))],
    "Hashes": [Case(lambda: [{1: 0}], about("Hashes", (1,)), do("update", {2: 0}))],
    "Position": [Case(lambda: [iter([1, 2])], about("Position", 0), lambda x: next(x[0]) and None)],
    "MaxLength": [Case(lambda: [collections.deque([1], 2)], about("MaxLength", 2), do("__init__", [1], 3))],
    "Tensor": [Case(tensors, about("Tensor", torch.ones(2, 3)), do("t_"))],
    "Marks": [Case(tensors, about("Marks"), assign("_dynamo_dynamic_indices", {0}))],
    "HidesNothing": [
        Case(tensors, about("HidesNothing"), assign("sin", one)),
        Case(labelled, about("HidesNothing"), lambda x: vars(x[0]).update(sin=one)),
    ],
    "Code": [Case(lambda: [function()], about("Code", function().__code__), assign("__code__", one.__code__))],
    "MethodDef": [BOUND_ANEW],
    "Warning": [Case(not_raised, about("Warning", ("text", UserWarning, 7)), raised_from_now_on)],
    "Subclasses": [Case(lambda: [type("Base", (), {})], about("Subclasses", ()), subclassed)],
    "Subclass": [Case(abstract, about("Subclass", (Plain, 0)), register)],
    "Content": [Case(lambda: [0.5], about("Content", ((0.0, 1.0), 0)), put(0, 2.0))],
    "NoOverlap": [Case(tensors, about("NoOverlap", NEXT), view)],
    "OtherStorage": [Case(tensors, about("OtherStorage", NEXT), view)],
    "Apart": [Case(tensors, about("Apart", NEXT), view)],
    "Distinct": [Case(plain_ones, lambda x: [(p, "Distinct", None) for p in (HERE, NEXT)], become_one)],
    "Other": [Case(plain_ones, lambda x: [(HERE, "Distinct", None), (NEXT, "Other", None)], become_one)],
    "Unguarded": [Case(lambda: [1], about("Unguarded"), lambda x: x.clear())],
}  # fmt: skip


def reborn_below(make: Callable[[int], Any], *path: Any) -> Case:
    made, change = reborn(make)
    return Case(made, below(*path), change)


VARIABLE: contextvars.ContextVar[object] = contextvars.ContextVar("variable")
VALUES = [[i] for i in range(10)]
VALUE_OBJECTS = [Plain() for _ in range(10)]
CELLS = [types.CellType(i) for i in range(10)]


def set_variable(x: list[Any]) -> Callable[[], None]:
    token = x[0].set(two)
    return lambda: x[0].reset(token)


def in_context() -> list[Any]:
    VARIABLE.set(one)
    return [VARIABLE]


def used(x: list[Any]) -> None:
    VARIABLE.reset(x[0])


def with_cell(i: int) -> Any:
    return types.FunctionType((lambda: CELLS).__code__.replace(co_freevars=("c",)), GLOBALS[0], "f", None, (CELLS[i],))


GLOBALS: list[dict[str, Any]] = [{"__builtins__": {"n": i}} for i in range(10)]
PROXIED = [{"a": i} for i in range(10)]
CACHED = (("CacheTable", 0), ("Value", 1))


def cached(i: int) -> Any:
    made = functools.lru_cache(maxsize=4)(lambda n: [n])
    made(1)
    return made


def again(x: list[Any]) -> None:
    """Another result in the same entry, as if a new entry lay where the old one did."""
    entry, old = TestGuards(["x"], [], [(*HERE, *CACHED), (*HERE, *CACHED, ("CacheResult",))]).check([x])
    words = range(id(entry), id(entry) + entry.__sizeof__(), ctypes.sizeof(ctypes.c_void_p))
    (word,) = (at for at in words if ctypes.c_void_p.from_address(at).value == id(old))
    new = [0]
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(new))  # the entry's reference: ctypes stores none
    ctypes.c_void_p.from_address(word).value = id(new)
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(old))


def with_grad(x: list[Any]) -> None:
    x[0].grad = torch.zeros(2, 3)


def graded() -> list[Any]:
    made = torch.ones(2, 3, requires_grad=True)
    made.grad = torch.ones(2, 3)
    return [made]


def of_another_thread() -> list[Any]:
    made: list[Any] = []
    thread = threading.Thread(target=lambda: made.append(threading.local()))
    thread.start()
    thread.join()
    return made


def noted(reference: object) -> None:
    """A weak reference with a callback is one of its own."""


SOURCES: dict[str, list[Case]] = {
    "Attr": [
        Case(lambda: [Plain()], below(("Attr", "a")), assign("a", 2.5)),
        Case(lambda: [Plain()], below(("Attr", "other"), absent=True), assign("other", 2.5)),
        Case(lambda: [with_dict()], below(("Attr", "a")), assign("a", 2.5)),
        Case(lambda: [with_dict()], below(("Attr", "other"), absent=True), assign("other", 2.5)),
        Case(lambda: [type("C", (), {"k": one})], below(("Attr", "k")), assign("k", two)),
        Case(lambda: [type("C", (), {"k": one})], below(("Attr", "j"), absent=True), assign("j", two)),
        Case(lambda: [function()], below(("Attr", "j"), absent=True), assign("j", two)),
    ],
    "Slot": [Case(lambda: [Slotted()], below(("Slot", "a")), assign("a", [2]))],
    "TypeAttr": [Case(lambda: [type("C", (Plain,), {})], below(("TypeAttr", "k")), assign("k", 2))],
    "Mro": [Case(lambda: [type("C", (Plain,), {})], below(("Mro",)), assign("__bases__", (Other,)))],
    "Item": [
        Case(lambda: [[one]], below(("Item", 0)), lambda x: x[0].__setitem__(0, two)),
        Case(lambda: [[one]], below(("Item", 1), absent=True), do("append", two)),
        Case(lambda: [[one] * 8], below(("Item", 7)), do("clear")),
    ],
    "DequeItem": [Case(lambda: [collections.deque([one])], below(("DequeItem", 0)), do("__setitem__", 0, two))],
    "Value": [
        Case(lambda: [{"a": one}], below(("Value", "a")), do("__setitem__", "a", two)),
        Case(lambda: [{"a": one}], below(("Value", "b"), absent=True), do("__setitem__", "b", two)),
        Case(lambda: [{1: one, "a": two}], below(("Value", 1)), do("__setitem__", 1, two)),
        Case(lambda: [collections.OrderedDict(a=one)], below(("Value", "a")), do("__setitem__", "a", two)),
    ],
    "MemberAt": [Case(lambda: [{one}], below(("MemberAt", 0)), lambda x: (x[0].clear(), x[0].add(two))[0])],
    "KeyAt": [Case(lambda: [{"a": 1, "b": 2}], below(("KeyAt", 0)), do("pop", "a"))],
    "ValueAt": [
        Case(lambda: [{"a": one, "b": two}], below(("ValueAt", 0)), do("__setitem__", "a", two)),
        Case(lambda: [{"a": one, "b": two}], below(("ValueAt", 0)), do("pop", "a")),
        Case(
            lambda: [collections.OrderedDict(a=one, b=two)],
            below(("ValueAt", 0)),
            lambda x: x[0].move_to_end("a"),
        ),
    ],
    "Closure": [reborn_below(with_cell, ("Closure", 0))],
    "Contents": [Case(lambda: [types.CellType(one)], below(("Contents",)), assign("cell_contents", two))],
    "Globals": [reborn_below(lambda i: types.FunctionType(one.__code__, GLOBALS[i]), ("Globals",))],
    "Builtins": [reborn_below(lambda i: types.FunctionType(one.__code__, GLOBALS[i]), ("Builtins",))],
    "Defaults": [Case(lambda: [function()], below(("Defaults",)), assign("__defaults__", (6,)))],
    "KwDefaults": [Case(lambda: [function()], below(("KwDefaults",)), assign("__kwdefaults__", {"z": 7}))],
    "Annotations": [Case(lambda: [annotated()], below(("Annotations",)), assign("__annotations__", {}))],
    "MethodSelf": [reborn_below(lambda i: types.MethodType(one, VALUES[i]), ("MethodSelf",))],
    "MethodFunc": [reborn_below(lambda i: types.MethodType((one, two)[i], VALUES), ("MethodFunc",))],
    "PartialFunc": [
        Case(lambda: [functools.partial(one)], below(("PartialFunc",)), do("__setstate__", (two, (), {}, {})))
    ],
    "PartialArgs": [
        Case(lambda: [functools.partial(one, 1)], below(("PartialArgs",)), do("__setstate__", (one, (2,), {}, {})))
    ],
    "PartialKw": [
        Case(lambda: [functools.partial(one, a=1)], below(("PartialKw",)), do("__setstate__", (one, (), {"a": 2}, {})))
    ],
    "InstanceDict": [
        Case(lambda: [with_dict()], below(("InstanceDict",)), assign("__dict__", {})),
        Case(lambda: [Plain()], below(("InstanceDict",)), assign("__dict__", {})),
        Case(
            lambda: [Plain()],
            lambda x: [((*HERE, ("Attr", "a")), "Constant", 1.5), ((*HERE, ("InstanceDict",)), "Present", None)],
            assign("__dict__", {"a": 2.5}),
        ),
    ],
    "Grad": [Case(graded, below(("Grad",)), with_grad)],
    "DefaultFactory": [
        Case(lambda: [collections.defaultdict(int)], below(("DefaultFactory",)), assign("default_factory", list))
    ],
    "ProxyMapping": [reborn_below(lambda i: types.MappingProxyType(PROXIED[i]), ("ProxyMapping",))],
    "ContextValue": [Case(in_context, below(("ContextValue", 0)), set_variable)],
    "TokenPart": [Case(lambda: [VARIABLE.set(one)], below(("TokenPart", 2)), used)],
    "IteratorOf": [Case(lambda: [iter([1])], below(("IteratorOf",)), lambda x: collections.deque(x[0]).clear())],
    "Name": [Case(lambda: [function()], below(("Name", 1)), assign("__qualname__", "other"))],
    "ThreadDict": [Case(of_another_thread, below(("ThreadDict",), absent=True), assign("a", 1))],
    "WeakTarget": [reborn_below(lambda i: weakref.ref(VALUE_OBJECTS[i], noted), ("WeakTarget",))],
    "CacheTable": [reborn_below(cached, ("CacheTable", 0))],
    "CacheResult": [Case(lambda: [cached(0)], below(*CACHED, ("CacheResult",)), again)],
    "ArrayTensor": [  # another tensor each time
        Case(
            lambda: [np.ones(3)],
            lambda x: [((*HERE, ("ArrayTensor", 1)), "Present", None)],
            lambda x: x[0].setflags(write=False),
        )
    ],
}


@pytest.fixture(params=["tags", "watched", "slots"])
def evidence(request: pytest.FixtureRequest) -> Iterator[str]:
    before = testing.evidence()
    if not testing.use_evidence(request.param):
        assert request.param == ("tags" if sys.version_info >= (3, 13) else "watched")
        pytest.skip("no such evidence for dicts on this version")
    yield request.param
    testing.use_evidence(before)
    testing.restore_columns()


def cases(table: str) -> list[tuple[str, Case]]:
    return [(name, case) for name, some in {"guards": GUARDS, "sources": SOURCES}[table].items() for case in some]


def identity(rows: list[tuple[str, Case]]) -> list[str]:
    return [f"{name}-{i}" for i, (name, _) in enumerate(rows)]


def test_each_row_has_cases() -> None:
    assert list(GUARDS) == [row[0] for row in testing.table("guards")]
    in_bound_forms = [name for name, place, *_ in testing.table("sources") if place == "Child"]
    assert list(SOURCES) == in_bound_forms


@pytest.mark.parametrize(("name", "case"), cases("guards"), ids=identity(cases("guards")))
def test_guard(name: str, case: Case, evidence: str) -> None:
    assert verdict(case) == (True, False)


@pytest.mark.parametrize(("name", "case"), cases("sources"), ids=identity(cases("sources")))
def test_source(name: str, case: Case, evidence: str) -> None:
    assert verdict(case) == (True, False)


def told_wrong(table: str, row: str, column: str) -> bool:
    assert testing.empty_column(table, row, column)
    try:
        some = {"guards": GUARDS, "sources": SOURCES}[table][row]
        return any(verdict(case) != (True, False) for case in some)
    finally:
        testing.restore_columns()


# An object that is read is there, whatever is said of it.
GUARD_COLUMNS = [(name, "role") for name, _, role, _ in testing.table("guards") if role != "Read"]
GUARD_COLUMNS += [(name, "needs") for name, _, _, needs in testing.table("guards") if needs != "kNone"]


@pytest.mark.parametrize(("name", "column"), GUARD_COLUMNS, ids=["-".join(row) for row in GUARD_COLUMNS])
def test_emptied_column_of_a_guard(name: str, column: str, evidence: str) -> None:
    assert told_wrong("guards", name, column)


SOURCE_COLUMNS = [(row[0], "evidence") for row in testing.table("sources") if row[1] == "Child" and row[3] != "Stamp"]
SOURCE_COLUMNS += [(row[0], "needs") for row in testing.table("sources") if row[2] != "kNone"]


@pytest.mark.parametrize(("name", "column"), SOURCE_COLUMNS, ids=["-".join(row) for row in SOURCE_COLUMNS])
def test_emptied_column_of_a_source(name: str, column: str, evidence: str) -> None:
    by_the_base = ("Value", "ValueAt", "KeyAt")
    if (name, column) == ("InstanceDict", "needs"):
        pytest.skip("only spares reading a second time where attributes moved to")
    if column == "evidence" and (name == "KeyAt" or (evidence != "slots" and name in by_the_base)):
        pytest.skip("the evidence of the base stands for it")
    assert told_wrong("sources", name, column)


def test_an_unknown_column_is_refused() -> None:
    for row in (
        ("guards", "Type", "text"),
        ("guards", "Typ", "role"),
        ("sources", "Item", "role"),
        ("replay", "MakeList", "takes"),
    ):
        assert not testing.empty_column(*row)


REGISTERS = {"kA": 0, "kB": 1, "kC": 2}


@pytest.mark.parametrize("row", testing.table("replay"), ids=lambda row: row[0])
def test_an_operation_without_an_operand_is_refused(row: tuple[str, str, str, str]) -> None:
    name, gives, takes, _ = row
    needed = takes.split(" | ")
    dst = 9 if gives == "Made" else -1
    registers = [1 if register in needed else -1 for register in REGISTERS]
    given = object() if "kObject" in needed or "kAOrObject" in needed else None
    operands = [2, 3]
    assert testing.missing_in_replay(name, dst, registers, given, operands) is None
    assert testing.missing_in_replay(name, -1 if dst == 9 else 9, registers, given, operands)
    for register, place in REGISTERS.items():
        if register in needed:
            without = [-1 if i == place else r for i, r in enumerate(registers)]
            assert testing.missing_in_replay(name, dst, without, given, operands) == f"operand {'abc'[place]}"
    if given:
        assert testing.missing_in_replay(name, dst, registers, None, operands) == "its object"
    if "kPairs" in needed:
        assert testing.missing_in_replay(name, dst, registers, given, [2]) == "an operand of a pair"
    assert bool(testing.missing_in_replay(name, dst, registers, given, [2, -1])) == ("kHoles" not in needed)


def test_a_module_is_read_at_each_call() -> None:
    plan = TestGuards([], [((("Module", "guards_rows_example"),), "Present", None)], [])
    assert plan.check([]) is None
    sys.modules["guards_rows_example"] = types.ModuleType("guards_rows_example")
    try:
        assert plan.check([]) is not None
    finally:
        del sys.modules["guards_rows_example"]
    assert plan.check([]) is None
