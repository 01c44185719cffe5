"""Dicts that CPython watches for the plan: no word of theirs is compared until it tells of a change."""

import collections
import gc
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from gramme._C import testing
from torch import nn

from guards.support import Facts

pytestmark = pytest.mark.skipif(sys.version_info < (3, 13), reason="dicts have sound versions")


@pytest.fixture(autouse=True)
def watched() -> Iterator[None]:
    before = testing.evidence()
    assert testing.use_evidence("watched")
    gc.collect()
    yield
    testing.use_evidence(before)


class Inline:
    NAMES = ("a", "b")

    def __init__(self) -> None:
        self.a, self.b = 1.5, [2]


class Other(Inline):
    pass


class Plan:
    """What a capture that read all of the value would hold."""

    def __init__(self, value: object) -> None:
        facts = Facts("value")
        facts.walk(value, (("Local", "value"),))
        self.guards, self.value = facts.plan(), value

    def holds(self) -> bool:
        return self.guards.check([self.value]) is not None

    def words(self) -> int:
        return self.guards.statistics()["words"]


def bound(value: object) -> Plan:
    plan = Plan(value)
    for _ in range(4):
        assert plan.holds()
    return plan


def with_dict() -> Inline:
    value = Inline()
    vars(value)
    return value


# What CPython does not tell of, each beside the value that it is done to.
SILENT: dict[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {
    "another_dict": (with_dict, lambda x: setattr(x, "__dict__", {"a": 2.5, "b": [2]})),
    "a_copy_that_is_written": (with_dict, lambda x: (setattr(x, "__dict__", dict(vars(x))), setattr(x, "a", 2.5))),
    "another_class": (with_dict, lambda x: setattr(x, "__class__", Other)),
    "move_to_end": (lambda: collections.OrderedDict(a=1, b=2), lambda x: x.move_to_end("a")),
    "an_attribute_without_a_dict": (Inline, lambda x: setattr(x, "a", 2.5)),
    "an_absent_attribute_without_a_dict": (Inline, lambda x: delattr(x, "b")),
    "default_factory": (lambda: collections.defaultdict(list, a=1), lambda x: setattr(x, "default_factory", int)),
    "a_list_in_the_dict": (lambda: {"a": [1]}, lambda x: x["a"].append(2)),
}


@pytest.mark.parametrize("name", SILENT)
def test_what_nobody_is_told_of(name: str) -> None:
    make, change = SILENT[name]
    plan = bound(make())
    change(plan.value)
    assert not plan.holds()


def fill(function: Callable[[], object]) -> None:
    """Often enough that CPython specialises it."""
    for _ in range(300):
        function()


def store(x: Any, value: float) -> None:
    x.a = value


TOLD: dict[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {
    "stored": (lambda: {"a": 1, "b": 2}, lambda x: x.__setitem__("a", 3)),
    "added": (lambda: {"a": 1}, lambda x: x.__setitem__("c", 3)),
    "deleted": (lambda: {"a": 1, "b": 2}, lambda x: x.pop("a")),
    "popitem": (lambda: {"a": 1, "b": 2}, lambda x: x.popitem()),
    "setdefault": (lambda: {"a": 1}, lambda x: x.setdefault("b", 1)),
    "update": (lambda: {"a": 1}, lambda x: x.update(a=2)),
    "filled": (dict, lambda x: x.update({"a": 1})),
    "cleared": (lambda: {"a": 1}, lambda x: x.clear()),
    "in_another_order": (lambda: {"a": 1, "b": 2}, lambda x: x.__setitem__("a", x.pop("a"))),
    "a_default": (lambda: collections.defaultdict(list, a=1), lambda x: x["b"]),
    "an_attribute": (with_dict, lambda x: setattr(x, "a", 2.5)),
    "an_attribute_by_specialised_code": (
        with_dict,
        lambda x: (fill(lambda: store(Inline(), 1.0)), fill(lambda: store(with_dict(), 1.0)), store(x, 2.5)),
    ),
    "a_module_s": (lambda: nn.Linear(2, 2), lambda x: x.eval()),
    "a_submodule_s": (lambda: nn.Sequential(nn.Linear(2, 2)), lambda x: setattr(x[0], "training", False)),
}


@pytest.mark.parametrize("name", TOLD)
def test_what_is_told(name: str) -> None:
    make, change = TOLD[name]
    plan = bound(make())
    change(plan.value)
    assert not plan.holds()
    assert not plan.holds()  # told of once


def test_what_does_not_matter_is_read_again_once() -> None:
    value = with_dict()
    plan = bound(value)
    value.unrelated = 1
    before = plan.guards.statistics()
    assert all(plan.holds() for _ in range(3))
    assert plan.guards.statistics() == before


def test_no_word_stands_for_a_watched_dict() -> None:
    model = nn.Sequential(*(nn.Linear(2, 2) for _ in range(20)))
    watched = bound(model).words()
    assert testing.use_evidence("slots")
    slots = bound(model).words()
    assert watched * 4 < slots, (watched, slots)


def test_a_dict_that_changes_before_each_call_gets_words() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale, self.counter = 1.5, 0

    value = Counting()
    facts = Facts("value", skip=("counter",))
    facts.walk(value, (("Local", "value"),))
    guards = facts.plan()
    for _ in range(4):
        assert guards.check([value]) is not None
    few = guards.statistics()["words"]
    for i in range(30):
        value.counter = i + 1000
        assert guards.check([value]) is not None
    assert guards.statistics()["words"] > few
    value.scale = 2.5
    assert guards.check([value]) is None


def test_watching_ends_with_the_plan_and_with_the_dict() -> None:
    before = testing.watched_dicts()
    value = {"a": {"b": {}}}
    plans = [bound(value), bound(value)]
    assert testing.watched_dicts() == before + 3
    plans.pop()
    assert testing.watched_dicts() == before + 3
    value["a"] = {"b": {}}  # two dicts are gone
    gc.collect()
    assert testing.watched_dicts() == before + 1
    assert plans[0].holds()
    assert testing.watched_dicts() == before + 3
    plans[0].guards.unbind()
    assert testing.watched_dicts() == before
    plans.clear()


def test_another_dict_at_its_address() -> None:
    """The address of what was freed is given out again: nobody is told of changes of the new one."""
    outer: dict[str, dict[str, float]] = {"a": {"x": 1.5}}
    plan = bound(outer)
    address = id(outer["a"])
    for _ in range(100):
        del outer["a"]
        outer["a"] = {"x": 1.5}
        if id(outer["a"]) == address:
            break
    assert plan.holds()
    outer["a"]["x"] = 2.5
    assert not plan.holds()
    outer["a"]["x"] = 1.5
    assert plan.holds()


EXHAUSTED = """
import ctypes, torch
callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(lambda *_: 0)
taken = 0
try:
    while ctypes.pythonapi.PyDict_AddWatcher(callback) >= 0:
        taken += 1
except RuntimeError:
    pass
import gramme
from gramme._C import testing
model = torch.nn.Linear(2, 2).eval()
compiled = gramme.compile(model, backend="eager")
x = torch.ones(1, 2)
for _ in range(3):
    assert torch.equal(compiled(x), model(x))
model.bias = None
assert torch.equal(compiled(x), model(x))
print(taken > 0, testing.evidence(), testing.watched_dicts())
"""


def test_without_a_watcher_left_dicts_have_words() -> None:
    done = subprocess.run([sys.executable, "-c", EXHAUSTED], capture_output=True, text=True, check=True)
    assert done.stdout == "True slots 0\n"
