"""Lookups by layout: equal to Python's own, and no Python code runs."""

import random
import types
from collections import OrderedDict, deque
from typing import Any

import pytest

from frames.support import native

ABSENT, FOUND, NEEDS_PYTHON = range(3)
with_versions = pytest.mark.skipif(not hasattr(native, "dict_version"), reason="dicts have no sound version tags")


class Loud:
    """A key whose comparison is user code."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __hash__(self) -> int:
        return hash(self.value)

    def __eq__(self, other: object) -> bool:
        raise AssertionError("user code ran")


class Attributes:
    pass


class Slots:
    __slots__ = ("a", "b")


class SlotsAndDict(Slots):
    pass


INERT_KEYS: list[Any] = ["a", "b", "", 0, 1, True, 1.0, 2.5, -1, None, ..., b"a", (1, "a"), (), (2.5, (None,)), 1j, int]
INERT_KEYS += [len, test := object(), frozenset([1, "a"]), "é", 10**30, -2]


@pytest.mark.parametrize("seed", range(20))
def test_dict_lookup(seed: int) -> None:
    rng = random.Random(seed)
    data: dict[Any, Any] = {}
    for step in range(300):
        key = rng.choice(INERT_KEYS if seed % 2 else ["a", "b", "", "é", "long name", "x1", "x2", "x3"])
        if rng.random() < 0.3:
            data.pop(key, None)
        else:
            data[key] = step
        probe = rng.choice(INERT_KEYS)
        assert native.lookup(data, probe) == ((FOUND, data[probe]) if probe in data else (ABSENT, None))
        index = rng.randrange(12)
        assert native.dict_entry(data, index) == (list(data.items())[index] if index < len(data) else None)


def test_large_tables() -> None:
    data: dict[Any, Any] = {f"k{i}": i for i in range(70_000)}
    assert native.lookup(data, "k" + "69999") == (FOUND, 69_999)
    assert native.lookup(data, "missing") == (ABSENT, None)
    data[3] = "general now"
    assert native.lookup(data, "k" + "300") == (FOUND, 300)
    assert native.lookup(data, 3) == (FOUND, "general now")


def test_no_user_code_runs() -> None:
    loud = Loud(5)
    data = {loud: 1, "a": 2}
    assert native.lookup(data, 5) == (NEEDS_PYTHON, None)
    assert native.lookup(data, 6) == (ABSENT, None)
    assert native.lookup(data, "a") == (FOUND, 2)
    assert not native.inert_key(loud)
    assert not native.inert_key((1, loud))
    assert not native.inert_key(frozenset([loud]))
    assert all(native.inert_key(key) for key in INERT_KEYS)
    assert native.inert_key(Attributes())
    assert native.inert_key(types)


def test_instance_attributes() -> None:
    first = Attributes()
    assert native.lookup(first, "a", attribute=True) == (ABSENT, None)
    for i, name in enumerate("abcdef"):
        setattr(first, name, i)
    second = Attributes()
    second.d = 1  # type: ignore[attr-defined]
    for instance, expected in ((first, dict(zip("abcdef", range(6)))), (second, {"d": 1})):
        for name in "abcdefg":
            wanted = (FOUND, expected[name]) if name in expected else (ABSENT, None)
            assert native.lookup(instance, name, attribute=True) == wanted
    del first.c  # type: ignore[attr-defined]
    assert native.lookup(first, "c", attribute=True) == (ABSENT, None)
    vars(first)  # moves them into a dict
    assert native.lookup(first, "a", attribute=True) == (FOUND, 0)
    for holder in (SlotsAndDict(), test_instance_attributes, types.ModuleType("m"), type("Int", (int,), {})(3)):
        holder.mark = 7
        assert native.lookup(holder, "mark", attribute=True) == (FOUND, 7)
        assert native.lookup(holder, "other", attribute=True) == (ABSENT, None)
    assert native.lookup(Slots(), "a", attribute=True) == (ABSENT, None)


def test_slots() -> None:
    slots = SlotsAndDict()
    assert native.slot(slots, Slots.a) is None
    slots.a = [1]
    assert native.slot(slots, Slots.__dict__["a"]) is slots.a
    assert native.slot(3, Slots.__dict__["a"]) is NotImplemented
    assert native.slot(slots, Attributes.__dict__["__dict__"]) is NotImplemented


def test_ordered_dict_and_deque() -> None:
    ordered = OrderedDict((name, i) for i, name in enumerate("abc"))
    state = native.order_state(ordered)
    ordered.move_to_end("a")
    assert native.order_state(ordered) != state
    assert [native.ordered_key(ordered, i) for i in range(4)] == ["b", "c", "a", None]
    queue: deque[int] = deque(maxlen=200)
    for i in range(500):
        queue.append(i) if i % 3 else queue.appendleft(i)
        if i % 7 == 0:
            queue.rotate(5)
        assert [native.deque_item(queue, k) for k in range(len(queue))] == list(queue)
    assert native.deque_item(queue, 200) is None


@with_versions
def test_versions_of_dicts() -> None:
    data, ordered = {"a": 1}, OrderedDict(a=1, b=2)
    version, of_ordered = native.dict_version(data), native.dict_version(ordered)
    assert native.lookup(data, "a") == (FOUND, 1)
    assert native.dict_version(data) == version
    ordered.move_to_end("a")
    assert native.dict_version(ordered) == of_ordered
    data["a"] = 2
    assert native.dict_version(data) != version


def test_tags_of_types() -> None:
    tag = native.type_tag(Attributes)
    assert tag
    assert native.type_tag(Attributes) == tag
    Attributes.extra = 1  # type: ignore[attr-defined]
    assert native.type_tag(Attributes) not in (0, tag)
    del Attributes.extra  # type: ignore[attr-defined]
