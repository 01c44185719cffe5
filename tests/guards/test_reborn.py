"""What lies at an address may be another object: freed memory is given out again, often at once."""

import collections
import functools
import gc
import types
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

from guards.support import Facts, TestGuards, plan_for


class Inline:
    NAMES = ("v",)
    v: object


class Slotted:
    NAMES = ("v",)
    __slots__ = ("v",)


class Target:
    NAMES = ("n",)

    def __init__(self, n: object) -> None:
        self.n = n

    def f(self) -> None: ...


Pair = collections.namedtuple("Pair", "a b")


def closure(value: object) -> Any:
    def f() -> object:
        return value

    return f


def cell(value: object) -> Any:
    def f() -> object:
        return value

    def put(new: object) -> None:
        nonlocal value
        value = new

    f.put = put  # type: ignore[attr-defined]
    return f


# a place for one object: what holds it, and how to put another there
PLACES: dict[str, Callable[[object], tuple[object, Callable[[object], object]]]] = {
    "list": lambda v: (x := [v], functools.partial(x.__setitem__, 0)),
    "dict": lambda v: (x := {"v": v}, functools.partial(x.__setitem__, "v")),
    "inline": lambda v: (x := made(Inline, v), lambda new: setattr(x, "v", new)),
    "instance dict": lambda v: (x := made(Inline, v), (vars(x), lambda new: setattr(x, "v", new))[1]),
    "slot": lambda v: (x := made(Slotted, v), lambda new: setattr(x, "v", new)),
    "deque": lambda v: (x := collections.deque([v]), functools.partial(x.__setitem__, 0)),
    "cell": lambda v: (x := cell(v), x.put),
    "kwdefault": lambda v: (x := with_default(v), functools.partial(x.__kwdefaults__.__setitem__, "k")),
    "ordered dict": lambda v: (x := collections.OrderedDict(v=v), functools.partial(x.__setitem__, "v")),
}


def made(cls: Any, value: object) -> Any:
    x = cls()
    x.v = value
    return x


def with_default(value: object) -> Any:
    def f(*, k: object = value) -> None: ...

    return f


def number(text: str) -> object:
    return float(text)


# (an object, one of other content that may come to lie at its address)
IMPOSTORS: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
    "float": (lambda: float("1.5"), lambda: float("7.5")),
    "int": (lambda: int("1000"), lambda: int("2000")),
    "int or float": (lambda: int("1000"), lambda: float("7.5")),
    "tuple": (lambda: (1, [2]), lambda: (1, [3])),
    "constant tuple": (lambda: (1, float("2")), lambda: (1, float("3"))),
    "list": (lambda: [1, 2], lambda: [1, 3]),
    "list or dict": (lambda: [[]], lambda: {0: []}),
    "dict": (lambda: {"a": [1]}, lambda: {"a": [2]}),
    "set": (lambda: {1000}, lambda: {1008}),
    "named tuple": (lambda: Pair(1, [2]), lambda: Pair(1, [3])),
    "closure": (lambda: closure([1]), lambda: closure([2])),
    "method": (lambda: Target(1).f, lambda: Target(2).f),
    "instance": (lambda: Target(1), lambda: Target(2)),
    "partial": (lambda: functools.partial(max, [1]), lambda: functools.partial(max, [2])),
    "proxy": (lambda: types.MappingProxyType({"a": [1]}), lambda: types.MappingProxyType({"a": [2]})),
    "deque": (lambda: collections.deque([1]), lambda: collections.deque([2])),
}


@pytest.mark.parametrize("impostor", IMPOSTORS)
@pytest.mark.parametrize("place", PLACES)
def test_impostor(place: str, impostor: str) -> None:
    good, bad = IMPOSTORS[impostor]
    holder, put = PLACES[place](good())
    plan = plan_for(holder)
    for round_ in range(40):
        assert plan.check([holder]) is not None, plan.explain([holder])
        put(None)
        if round_ % 4 == 1:
            assert plan.check([holder]) is None  # a miss in between leaves the bound form as it was
        put(bad())
        assert plan.check([holder]) is None
        put(None)
        put(good())  # an equal object, at whatever address


# an object made around an inner one
AROUND: dict[str, Callable[[Any], object]] = {
    "tuple": lambda v: (1, v),
    "named tuple": lambda v: Pair(1, v),
    "list": lambda v: [1, v],
    "dict": lambda v: {1: v},
    "closure": closure,
    "method": lambda v: v.f,
    "instance": lambda v: Target(v),
    "partial": lambda v: functools.partial(max, v),
    "proxy": lambda v: types.MappingProxyType({1: v}),
    "deque": lambda v: collections.deque([v]),
    "weak reference": weakref.ref,
}


@pytest.mark.parametrize("kind", AROUND)
@pytest.mark.parametrize("place", PLACES)
def test_impostor_while_what_was_inside_lives_on(place: str, kind: str) -> None:
    """Words about the old inner object alone would go on holding."""
    good, bad = Target([1]), Target([2])
    holder, put = PLACES[place](AROUND[kind](good))
    plan = plan_for(holder)
    for _ in range(20):
        assert plan.check([holder]) is not None, plan.explain([holder])
        put(None)
        put(AROUND[kind](bad))
        assert plan.check([holder]) is None
        put(None)
        put(AROUND[kind](good))


@pytest.mark.parametrize("place", PLACES)
def test_closure_whose_cell_lives_on(place: str) -> None:
    kept = []
    function = closure(1.5)
    holder, put = PLACES[place](function)
    plan = plan_for(holder)
    for _ in range(20):
        assert plan.check([holder]) is not None, plan.explain([holder])
        kept.append(function.__closure__[0])
        del function
        put(None)
        put(closure(2.5))
        assert plan.check([holder]) is None
        put(None)
        function = closure(1.5)
        put(function)


@pytest.mark.parametrize("place", PLACES)
def test_impostor_of_another_type(place: str) -> None:
    """Only the type is a fact: a dynamic int."""
    holder, put = PLACES[place](int("1000"))
    facts = Facts("x")
    facts.walk(holder, (("Local", "x"),))
    typed = [(p, "Type", int) if k == "Constant" and v == 1000 else (p, k, v) for p, k, v in facts.facts]
    plan = TestGuards(["x"], typed)
    for i in range(40):
        assert plan.check([holder]) is not None, plan.explain([holder])
        put(None)
        put(complex("7j"))  # as large as the int, and without a free list of its own
        assert plan.check([holder]) is None
        put(None)
        put(int("1000") + i)


@pytest.mark.parametrize("place", PLACES)
def test_impostor_beyond_the_bound(place: str) -> None:
    """Only the type and the magnitude are facts: a number that varies."""
    holder, put = PLACES[place](1000.5)
    facts = Facts("x")
    facts.walk(holder, (("Local", "x"),))
    narrow = [(p, "Narrow", float) if k == "Constant" and v == 1000.5 else (p, k, v) for p, k, v in facts.facts]
    plan = TestGuards(["x"], narrow)
    for i in range(40):
        assert plan.check([holder]) is not None, plan.explain([holder])
        put(None)
        put(float("1e300"))
        assert plan.check([holder]) is None
        put(None)
        put(float("1000.5") + i)


def test_set_elements_are_held() -> None:
    s = {int("1000")}
    plan = TestGuards(["x"], [((("Local", "x"),), "SetIs", frozenset({int("1000")}))])
    holder = TestGuards(["x"], [((("Local", "x"), ("Attr", "s")), "SetIs", frozenset({int("1000")}))])
    x = types.SimpleNamespace(s=s)
    for _ in range(20):
        assert holder.check([x]) is not None
        assert plan.check([s]) is not None
        s.clear()
        s.add(int("1008"))  # the same slot
        assert holder.check([x]) is None
        assert plan.check([s]) is None
        s.clear()
        s.add(int("1000"))


def test_list_whose_items_moved() -> None:
    x = [float("1.5"), [float("2.5")]]
    holder = [x]
    plan = plan_for(holder)
    for _ in range(20):
        assert plan.check([holder]) is not None
        first, second = x
        x.clear()
        usurper = [first, second]  # takes over the memory of the items, and has the old ones
        x.extend([9.5, second])
        assert plan.check([holder]) is None
        x[0] = first
        del usurper


def test_values_that_moved_into_a_dict() -> None:
    x = Target(float("1.5"))
    plan = plan_for([x], "x")
    holder = [x]
    for i in range(20):
        assert plan.check([holder]) is not None
        vars(x).update({f"a{k}": k for k in range(i * 10)})
        assert plan.check([holder]) is not None
        x.n = 9.5
        assert plan.check([holder]) is None
        holder[0] = x = Target(float("1.5"))


def test_root_at_the_old_address() -> None:
    plan = plan_for([1.5, [2]])
    for _ in range(50):
        x: Any = [1.5, [2]]
        assert plan.check([x]) is not None
        del x
        x = [1.5, [3]]
        assert plan.check([x]) is None
        del x


def test_dead_weak_reference() -> None:
    target = Target(1)
    ref = weakref.ref(target)
    plan = plan_for([ref])
    assert plan.check([[ref]]) is not None
    del target
    gc.collect()
    assert plan.check([[ref]]) is None


def test_nothing_is_kept_alive() -> None:
    class Tracked(Target):
        pass

    x = [Tracked([1]), {"a": Tracked((1, [2]))}, (Tracked(1),), [closure(Tracked(3))]]
    seen = [weakref.ref(x[0]), weakref.ref(x[1]["a"]), weakref.ref(x[2][0])]  # type: ignore[index]
    plan = plan_for(x)
    for _ in range(3):
        assert plan.check([x]) is not None
    del x
    gc.collect()
    assert [r() for r in seen] == [None] * 3
    assert plan.check([[1]]) is None


def holders(count: int) -> list[list[Any]]:
    return [[Target([1.5, {"a": (i % 1, "s")}]), torch.ones(3)] for i in range(count)]


def test_objects_that_come_back_are_not_walked_again() -> None:
    roots = holders(40)
    plan = plan_for(roots[0])
    for _ in range(3):
        assert all(plan.check([root]) is not None for root in roots)
    before = plan.statistics()
    for _ in range(5):
        for root in roots:
            read = plan.check([root])
            assert read is not None
            assert read[0] is root[1]
    after = plan.statistics()
    assert after["walks"] == before["walks"]
    assert after["rebinds"] == before["rebinds"] == 41  # the classes once


def test_a_change_in_one_of_many_is_noticed() -> None:
    roots = holders(12)
    plan = plan_for(roots[0])
    for _ in range(3):
        assert all(plan.check([root]) is not None for root in roots)
    changes: list[tuple[Callable[[list[Any]], None], Callable[[list[Any]], None]]] = [
        (lambda x: setattr(x[0], "n", None), lambda x: setattr(x[0], "n", [1.5, {"a": (0, "s")}])),
        (lambda x: x[0].n.append(1), lambda x: x[0].n.pop()),
        (lambda x: x[0].n[1].update(a=(0, "t")), lambda x: x[0].n[1].update(a=(0, "s"))),
        (lambda x: x.__setitem__(1, torch.ones(4)), lambda x: x.__setitem__(1, torch.ones(3))),
        (lambda x: x[1].resize_(4), lambda x: x[1].resize_(3)),
    ]
    for at in (0, 5, 11):
        for change, back in changes:
            change(roots[at])
            assert [plan.check([root]) is None for root in roots] == [i == at for i in range(12)]
            back(roots[at])
            assert all(plan.check([root]) is not None for root in roots)


def test_more_objects_than_are_bound() -> None:
    roots = holders(300)
    plan = plan_for(roots[0])
    for turn in range(6):
        roots[turn][0].n[0] = 2.5
        held = [plan.check([root]) is not None for root in roots]
        assert held == [i > turn for i in range(300)]


def test_roots_die_and_others_take_their_place() -> None:
    plan = plan_for(holders(1)[0])
    for turn in range(300):
        roots = holders(3)
        if turn % 3 == 2:
            roots[1][0].n[1] = {"a": (1, "s")}
        held = [plan.check([root]) is not None for root in roots]
        assert held == [True, turn % 3 != 2, True]
        del roots


def test_counter_on_every_call_and_fresh_containers() -> None:
    """A root that is another object at every call is walked; a dict written at every call costs no new words."""
    x = Target(1.5)
    plan = plan_for([x])
    rebinds = 0
    for i in range(500):
        assert plan.check([[x]]) is not None
        if i == 100:
            rebinds = plan.statistics()["rebinds"]
    assert plan.statistics()["rebinds"] - rebinds < 60
    holder = [x]
    for i in range(500):
        vars(x)["counter"] = i
        assert plan.check([holder]) is not None
    before = plan.statistics()
    for i in range(100):
        x.counter = i  # type: ignore[attr-defined]
        assert plan.check([holder]) is not None
    assert plan.statistics()["words"] == before["words"]
