"""Objects that must stay apart, also by their attribute dicts: random exchanges against bound plans.

A check compares only what no word stands for. So the objects here have their dicts in every way: looked into and not,
still inline, made, shared with another object, the value of an attribute.
"""

import collections
import random
from typing import Any

import pytest

from guards.support import Facts, TestGuards


class Plain:
    NAMES = ("n",)

    def __init__(self, n: int = 1) -> None:
        self.n = n


class Other(Plain):
    pass


class Bare:
    __slots__ = ("n",)


class Holder:
    """`read` and `also` are looked into; of the others only the type is known."""

    def __init__(self) -> None:
        self.read, self.also = Plain(), Plain()
        self.typed, self.last = Plain(), Plain()
        self.bare: Any = Bare()
        self.order: Any = collections.OrderedDict(a=1)
        self.names: Any = {"n": 1}
        self.items = [Plain(), Plain()]


NAMED = ("read", "also", "typed", "last", "bare", "order", "names")


class World:
    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.x = Holder()
        self.alone: Any = Plain()  # another argument, whose content nobody asks for
        self.made: dict[int, Any] = {}  # objects whose attribute dicts exist

    def objects(self) -> list[Any]:
        return [*(getattr(self.x, n) for n in NAMED), *self.x.items, self.alone]

    def owner(self) -> Any:
        return self.r.choice([o for o in self.objects() if isinstance(o, Plain)])

    def dict_of(self, o: Any) -> Any:
        self.made[id(o)] = o
        return o.__dict__

    def put(self, o: Any) -> None:
        """In place of one that is there."""
        match self.r.randrange(4):
            case 0:
                self.alone = o
            case 1:
                self.x.items[self.r.randrange(2)] = o
            case _:
                setattr(self.x, self.r.choice(["read", "also", "typed", "last"]), o)

    def mutate(self) -> None:
        a, b = self.owner(), self.owner()
        match self.r.randrange(13):
            case 0:
                self.put(a)
            case 1 | 2:
                self.put(Plain())
            case 3:
                a.__dict__ = self.dict_of(b)
                self.made[id(a)] = a
            case 4 | 5:
                a.__dict__ = {"n": 1}
                self.made[id(a)] = a
            case 6:
                self.dict_of(a)
            case 7:
                self.x.names = self.dict_of(a)
            case 8:
                self.x.names = {"n": 1}
            case 9:
                a.__class__ = self.r.choice([Plain, Plain, Other])
            case 10:
                self.x.order.extra = 1
            case 11:
                self.x.order = collections.OrderedDict(a=1)
            case 12:
                self.x.bare = Bare()

    def parts(self, o: Any) -> list[int]:
        has_dict = id(o) in self.made or (type(o) is collections.OrderedDict and "extra" in o.__dict__)
        return [id(o), *([id(o.__dict__)] if has_dict else [])]

    def are_apart(self, told: tuple[int, ...]) -> bool:
        """No part of one that is told apart is a part of any other."""
        parts = [self.parts(o) for o in self.objects()]
        seen = [p for i in told for p in parts[i]]
        return len(set(seen)) == len(seen) and not any(
            p in seen for i, all_of in enumerate(parts) if i not in told for p in all_of
        )

    def types(self) -> list[type]:
        return [type(o) for o in self.objects()]


def plan_of(world: World, told: tuple[int, ...]) -> Any:
    facts = Facts("x", "alone")
    at = (("Local", "x"),)
    facts.add(at, "Type", Holder)
    facts.add((*at, ("Attr", "items")), "Type", list)
    facts.add((*at, ("Attr", "items")), "Length", 2)
    paths: list[Any] = [(*at, ("Attr", name)) for name in NAMED]
    paths += [*((*at, ("Attr", "items"), ("Item", i)) for i in range(2)), (("Local", "alone"),)]
    for i, (path, value) in enumerate(zip(paths, world.objects(), strict=True)):
        name = path[-1][-1]
        if name in ("read", "also"):
            facts.walk(value, path)
        else:
            facts.add(path, "Type", type(value))
        if name in ("order", "names"):
            facts.add(path, "Length", 1)
        facts.add(path, "Distinct" if i in told else "Other")
    return TestGuards(facts.locals, facts.facts, [])


def run(seed: int, steps: int) -> tuple[int, int]:
    world = World(seed)
    told = tuple(world.r.sample(range(10), world.r.randrange(1, 4)))
    plan, types = plan_of(world, told), world.types()
    hits = misses = 0
    for step in range(steps):
        for _ in range(world.r.choice([0, 0, 1, 1, 2])):
            world.mutate()
        if world.r.random() < 0.02:
            plan.unbind()
        expected = world.are_apart(told) and world.types() == types and len(world.x.names) == 1
        expected &= world.x.read.n == 1 and world.x.also.n == 1
        found = plan.check([world.x, world.alone]) is not None
        assert found == expected, (seed, step, told, plan.explain([world.x, world.alone]) or "unsound")
        hits, misses = hits + found, misses + (not found)
        if not found and world.r.random() < 0.4:
            world.x, world.alone = Holder(), Plain()
            world.made.clear()
    return hits, misses


@pytest.mark.parametrize("seed", range(8))
def test_random_exchanges(seed: int) -> None:
    hits = misses = 0
    for one in range(30):
        more, others = run(seed * 1000 + one, 60)
        hits, misses = hits + more, misses + others
    assert hits > 300
    assert misses > 150


@pytest.mark.slow
def test_many_random_exchanges(soak: bool) -> None:
    for seed in range(4_000 if soak else 400):
        run(10_000 + seed, 80)
