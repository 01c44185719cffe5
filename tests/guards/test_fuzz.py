"""Random mutations against bound plans; the judge is a snapshot of the content the facts are about.

A plan must hold exactly if the snapshot is equal, and then read the objects that are there now. Several plans of older
states are kept beside the newest, so that misses are as frequent as hits. Leaving out any one kind of guard must show.
"""

import collections
import functools
import gc
import random
import types
import weakref
from typing import Any

import pytest
import torch
from torch import nn

from guards.support import Facts, content, evaluate, table_of


class Config:
    NAMES = ("n", "l", "d", "t", "e")

    def __init__(self) -> None:
        self.n = 2
        self.l = [1.5, 2.5, [3], 4]
        self.d = {"a": 1.5, "b": [1], 3: None}
        self.t = {"x", "y"}

    def f(self) -> None: ...


class Config2(Config):
    pass


class Slots:
    NAMES = ("a", "b")
    __slots__ = ("__weakref__", "a", "b")

    def __init__(self) -> None:
        self.a, self.b = 1.5, [1.5]


def closure(value: object) -> Any:
    def f(y: object = 1.5, *, z: object = 2.5) -> object:
        return value

    return f


def other_closure(value: object) -> Any:
    def f(y: object = 1.5, *, z: object = 2.5) -> object:
        return (value,)

    return f


class Block(nn.Module):
    K: object = 1

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(2, 2)
        self.scale = 1.5
        self.config = Config()
        self.slots = Slots()
        self.order = collections.OrderedDict(a=1.5, b=2.5, c=[1])
        self.queue = collections.deque([1.5, [2]])
        self.function = closure(1.5)
        self.partial = functools.partial(self.function, 1.5, [2], key=2.5)
        self.factory = collections.defaultdict(list, a=1.5)
        self.proxy = types.MappingProxyType({"a": self.slots})
        self.method = self.config.f
        self.kind: object = max
        self.weak = weakref.ref(self.slots)
        self.register_buffer("buf", torch.ones(2, 3))
        self._present = object()  # only asked whether it is there

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


class Block2(Block):
    pass


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(3)])
        self.one = [1]
        self.two = [1]
        base = torch.zeros(10)
        self.left, self.right = base[:5], base[5:]
        self.near, self.far, self.away = (torch.zeros(12)[4 * i : 4 * i + 4] for i in range(3))
        self.whole, self.part = torch.zeros(4), torch.zeros(4)
        self.history = [8, 0]
        self.order = with_history(self.history)
        self.first, self.second, self.third = [1], [1], [1]


def with_history(history: list[int]) -> set[int]:
    """A set to which the numbers were added in turn; those below zero were taken out again."""
    made: set[int] = set()
    for number in history:
        made.add(number) if number >= 0 else made.discard(-number)
    return made


BLOCKS = (("Local", "x"), ("Attr", "_modules"), ("Value", "blocks"), ("Attr", "_modules"))
SKIP = ("junk", "counter", "history")


def number(r: random.Random) -> float:
    return float(r.choice(["1.5", "2.5", "0.0", "-0.0"]))  # a new object each time


def leaf(r: random.Random) -> object:
    return r.choice([number(r), 1, True, None, "s", number(r)])


class Mutator:
    """One random write to a block or to what hangs off it."""

    def __init__(self, r: random.Random) -> None:
        self.r = r
        self.hooks: list[Any] = []
        self.operations = [getattr(self, n) for n in dir(self) if n.startswith("do_")]

    def mutate(self, m: Net) -> None:
        block = self.r.choice(list(m.blocks)) if len(m.blocks) else Block()
        try:
            self.r.choice(self.operations)(m, block, block.config)
        except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError):
            pass  # it did not fit the state that earlier ones left

    # fmt: off
    def do_parameter(self, m, b, c): b.lin.weight = nn.Parameter(torch.ones(self.r.choice([2, 2, 3]), 2))
    def do_no_parameter(self, m, b, c): b.lin.bias = None if self.r.random() < 0.3 else nn.Parameter(torch.ones(2))
    def do_requires_grad(self, m, b, c): b.lin.weight.requires_grad_(self.r.random() < 0.7)
    def do_data(self, m, b, c): b.buf.data = torch.ones(2, 3, dtype=self.r.choice([torch.float32, torch.float64]))
    def do_resize(self, m, b, c): b.buf.resize_(2, self.r.choice([3, 2]))
    def do_swap(self, m, b, c): torch.utils.swap_tensors(b.buf, torch.ones(2, self.r.choice([3, 2])))
    def do_buffer(self, m, b, c): b.buf = torch.ones(2, 3)
    def do_scale(self, m, b, c): b.scale = leaf(self.r)
    def do_scale_again(self, m, b, c): v = b.scale; del b.scale; b.scale = v
    def do_n(self, m, b, c): c.n = leaf(self.r)
    def do_list_item(self, m, b, c): c.l[self.r.randrange(2)] = leaf(self.r)
    def do_inner_list(self, m, b, c): c.l[2].append(1) if self.r.random() < 0.5 else c.l[2].clear()
    def do_list_length(self, m, b, c): c.l.append(leaf(self.r)) if self.r.random() < 0.5 else c.l.pop()
    def do_list_copy(self, m, b, c): c.l = list(c.l)
    def do_list_freed(self, m, b, c): v = list(c.l); c.l = None; c.l = [*v]
    def do_list_tuple(self, m, b, c): c.l = (tuple if self.r.random() < 0.5 else list)(c.l)
    def do_dict_value(self, m, b, c): c.d["a"] = leaf(self.r)
    def do_dict_list(self, m, b, c): c.d["b"] = [1] if self.r.random() < 0.5 else [2]
    def do_dict_order(self, m, b, c): c.d["a"] = c.d.pop("a")
    def do_dict_key(self, m, b, c): c.d["new"] = 1
    def do_dict_unkey(self, m, b, c): c.d.pop("new")
    def do_dict_copy(self, m, b, c): c.d = dict(c.d)
    def do_set_add(self, m, b, c): c.t.add(self.r.choice("xyzw"))
    def do_set_discard(self, m, b, c): c.t.discard(self.r.choice("yzw"))
    def do_set_frozen(self, m, b, c): c.t = (frozenset if self.r.random() < 0.5 else set)(c.t)
    def do_slot(self, m, b, c): b.slots.a = leaf(self.r)
    def do_slot_list(self, m, b, c): b.slots.b = [leaf(self.r)]
    def do_slot_gone(self, m, b, c): del b.slots.a
    def do_slots(self, m, b, c): b.slots = Slots()
    def do_config(self, m, b, c): b.config = None; gc.collect(0); b.config = Config(); b.config.n = self.r.randint(1, 3)
    def do_config_class(self, m, b, c): c.__class__ = self.r.choice([Config, Config2])
    def do_config_vars(self, m, b, c): vars(c)
    def do_config_extra(self, m, b, c): c.e = self.r.randint(0, 1)
    def do_config_no_extra(self, m, b, c): del c.e
    def do_config_unread(self, m, b, c): setattr(c, self.r.choice("uvw"), 1)
    def do_config_hides(self, m, b, c): c.f = max
    def do_config_shows(self, m, b, c): del c.f
    def do_order_end(self, m, b, c): b.order.move_to_end(self.r.choice("abc"), self.r.random() < 0.5)
    def do_order_value(self, m, b, c): b.order["a"] = leaf(self.r)
    def do_queue(self, m, b, c): b.queue.rotate() if self.r.random() < 0.5 else b.queue.append(leaf(self.r))
    def do_queue_item(self, m, b, c): b.queue[0] = leaf(self.r)
    def do_queue_pop(self, m, b, c): b.queue.pop()
    def do_cell(self, m, b, c): b.function.__closure__[0].cell_contents = leaf(self.r)
    def do_cell_empty(self, m, b, c): del b.function.__closure__[0].cell_contents
    def do_defaults(self, m, b, c): b.function.__defaults__ = self.r.choice([None, (leaf(self.r),), (1.5,)])
    def do_kwdefaults(self, m, b, c): b.function.__kwdefaults__["z"] = leaf(self.r)
    def do_kwdefaults_new(self, m, b, c): b.function.__kwdefaults__ = self.r.choice([None, {"z": 2.5}])
    def do_code(self, m, b, c): b.function.__code__ = self.r.choice([closure, other_closure])(1).__code__
    def do_function(self, m, b, c): b.function = self.r.choice([closure, other_closure])(1.5)
    def do_partial(self, m, b, c): b.partial = functools.partial(b.function, 1.5, [2], key=leaf(self.r))
    def do_partial_list(self, m, b, c): v = b.partial.args[1]; v.pop() if self.r.random() < 0.5 else v.append(1)
    def do_present(self, m, b, c): b._present = object()
    def do_not_present(self, m, b, c): del b._present
    def do_factory(self, m, b, c): b.factory.default_factory = self.r.choice([list, dict, None])
    def do_factory_key(self, m, b, c): b.factory["a"] = leaf(self.r)
    def do_proxy(self, m, b, c): b.proxy = types.MappingProxyType({"a": self.r.choice([b.slots, Slots()])})
    def do_method(self, m, b, c): b.method = c.f
    def do_kind(self, m, b, c): b.kind = self.r.choice([max, min, list])
    def do_weak(self, m, b, c): b.weak = weakref.ref(b.slots)
    def do_block_class(self, m, b, c): b.__class__ = self.r.choice([Block, Block2])
    def do_class_attribute(self, m, b, c): Block.K = self.r.choice([1, 1, True])
    def do_class_shadow(self, m, b, c): Block2.K = self.r.choice([1, 2])
    def do_class_unshadow(self, m, b, c): del Block2.K
    def do_block(self, m, b, c): m.blocks[self.r.randrange(len(m.blocks))] = Block()
    def do_block_freed(self, m, b, c):
        at = self.r.randrange(len(m.blocks)); b = c = None; m.blocks[at] = nn.ReLU(); m.blocks[at] = Block()
        m.blocks[at].scale = number(self.r)
    def do_hook(self, m, b, c):
        hook = b.register_forward_hook(max)
        hook.remove() if self.r.random() < 0.7 else self.hooks.append(hook)
    def do_unhook(self, m, b, c): [h.remove() for h in self.hooks]; self.hooks.clear()
    def do_junk(self, m, b, c): b.junk = object()
    def do_counter(self, m, b, c): b.counter = getattr(b, "counter", 0) + 1
    def do_dict_of_block(self, m, b, c): b.__dict__ = dict(b.__dict__)
    def do_module_order(self, m, b, c): v = b._modules.pop("lin"); b._modules["lin"] = v
    def do_forward(self, m, b, c): b.forward = self.r.choice([max, min])
    def do_no_forward(self, m, b, c): del b.forward
    def do_alias(self, m, b, c): m.two = m.one
    def do_no_alias(self, m, b, c): m.two = [1]
    def do_overlap(self, m, b, c): m.right = m.left.detach() if self.r.random() < 0.5 else torch.zeros(5)
    def do_near(self, m, b, c): m.near = (m.far if self.r.random() < 0.3 else torch.zeros(4)).detach()
    def do_away(self, m, b, c): m.away = (m.near if self.r.random() < 0.3 else torch.zeros(12))[:4]
    def do_part(self, m, b, c): m.part = (m.whole if self.r.random() < 0.3 else torch.zeros(4)).detach()
    def do_order(self, m, b, c):
        m.history = self.r.choice([[8, 0], [0, 8], [0, 8, 16, -16], [8, 16, 0, -16], [8, 0], [0, 8, 1, -1]])
        m.order = with_history(m.history)
    def do_first(self, m, b, c): m.first = self.r.choice([[1], [1], m.second, m.third])
    def do_second(self, m, b, c): m.second = self.r.choice([[1], [1], m.first])
    def do_third(self, m, b, c): m.third = self.r.choice([[1], [1], m.first])
    def do_clear_type_cache(self, m, b, c): __import__("sys")._clear_type_cache()
    # fmt: on


class Captured:
    """A plan with the snapshot of what it was made for."""

    def __init__(self, m: Net, drop: str) -> None:
        facts = Facts("x", skip=SKIP)
        root = (("Local", "x"),)
        facts.walk(m, root)
        aliased = m.one is m.two
        facts.add((*root, ("Attr", "one")), "SameAs" if aliased else "NotSameAs", (*root, ("Attr", "two")))
        self.apart = not overlaps(m)
        if self.apart:
            facts.add((*root, ("Attr", "left")), "NoOverlap", (*root, ("Attr", "right")))
        self.other_storage = not one_storage(m)
        if self.other_storage:
            facts.add((*root, ("Attr", "whole")), "OtherStorage", (*root, ("Attr", "part")))
        for name, block in m.blocks.named_children():
            there = "_present" in vars(block)
            facts.add((*BLOCKS, ("Value", name), ("Attr", "_present")), "Present" if there else "Absent")
        self.all_apart = not tensors_overlap(m)
        if self.all_apart:
            facts.add((*root, ("Attr", "near")), "Apart", (*root, ("Attr", "far")))
            facts.add((*root, ("Attr", "far")), "Apart", (*root, ("Attr", "away")))
        facts.add((*root, ("Attr", "order")), "Places", with_history(m.history))
        self.told_apart = not lists_are_one(m)
        if self.told_apart:
            facts.add((*root, ("Attr", "first")), "Distinct")
            facts.add((*root, ("Attr", "second")), "Distinct")
            facts.add((*root, ("Attr", "third")), "Other")
        self.reads = facts.reads
        self.plan = facts.plan(drop)
        self.snapshot = snapshot(m)

    def matches(self, m: Net) -> bool:
        wrong = (self.apart and overlaps(m)) or (self.all_apart and tensors_overlap(m))
        wrong |= self.other_storage and one_storage(m)
        return snapshot(m) == self.snapshot and not wrong and not (self.told_apart and lists_are_one(m))


def overlaps(m: Net) -> bool:
    return m.left.untyped_storage().data_ptr() == m.right.untyped_storage().data_ptr() and (
        m.left.storage_offset() == m.right.storage_offset()
    )


def one_storage(m: Net) -> bool:
    return m.whole.untyped_storage().data_ptr() == m.part.untyped_storage().data_ptr()


def tensors_overlap(m: Net) -> bool:
    where = {(t.untyped_storage().data_ptr(), t.storage_offset()) for t in (m.near, m.far, m.away)}
    return len(where) < 3


def lists_are_one(m: Net) -> bool:
    return m.first is m.second or m.third is m.first or m.third is m.second


def snapshot(m: Net) -> object:
    return (content(m, SKIP), table_of(m.order), m.one is m.two, ["_present" in vars(b) for b in m.blocks])


def run(seed: int, steps: int, drop: str = "") -> collections.Counter[str]:
    """Raises AssertionError at the first step where a plan and its snapshot disagree."""
    r = random.Random(seed)
    mutator = Mutator(r)
    counts: collections.Counter[str] = collections.Counter()
    m = Net()
    plans = [Captured(m, drop)]
    for step in range(steps):
        for _ in range(r.choice([0, 1, 1, 1, 2, 3])):
            mutator.mutate(m)
        captured = False
        for one in plans:
            if r.random() < 0.05:
                one.plan.unbind()
            read = one.plan.check([m])
            expected = one.matches(m)
            assert (read is not None) == expected, (seed, step, one.plan.explain([m]) or "unsound")
            if read is not None:
                captured = True
                assert all(a is b for a, b in zip(read, (evaluate(p, {"x": m}) for p in one.reads), strict=True))
            counts["hit" if expected else "miss"] += 1
            if r.random() < 0.1:
                assert (one.plan.explain([m]) == "") == expected
        if not captured:
            if len(m.blocks) == 0 or r.random() < 0.1:
                m, plans = Net(), []
                mutator.hooks.clear()
                Block.K = 1
            plans = [*plans[-2:], Captured(m, drop)]
    return counts


@pytest.fixture(autouse=True)
def restored_classes() -> Any:
    yield
    Block.K = 1
    if "K" in vars(Block2):
        del Block2.K


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_plan_and_snapshot_agree(soak: bool) -> None:
    counts = run(seed=1, steps=50_000 if soak else 1_500)
    assert counts["hit"] > counts["miss"] / 10
    assert counts["miss"] > counts["hit"] / 10


def run_in_turn(seed: int, steps: int, count: int) -> tuple[int, int]:
    """One plan that is asked about several objects in turn, as a segment that serves the layers of a model: bound to
    each, it must notice what changes in any, and find those as they were that come back. Gives hits and walks."""
    r = random.Random(seed)
    mutator = Mutator(r)
    nets = [Net() for _ in range(count)]
    one = Captured(nets[0], "")
    hits = 0
    for step in range(steps):
        if r.random() < 0.3:
            mutator.mutate(r.choice(nets))
        for m in nets:
            read = one.plan.check([m])
            expected = one.matches(m)
            assert (read is not None) == expected, (seed, step, one.plan.explain([m]) or "unsound")
            if read is None:
                continue
            hits += 1
            assert all(a is b for a, b in zip(read, (evaluate(p, {"x": m}) for p in one.reads), strict=True))
        missing = [i for i, m in enumerate(nets) if not one.matches(m)]
        if len(missing) > count // 2 or (missing and r.random() < 0.1):
            Block.K = 1
            if "K" in vars(Block2):
                del Block2.K
            for i in missing:
                nets[i] = Net()  # perhaps where the old one lay
    return hits, one.plan.statistics()["walks"]


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_one_plan_serves_several_objects(soak: bool) -> None:
    for seed in range(40 if soak else 4):
        hits, walks = run_in_turn(seed, 1_000 if soak else 120, count=5)
        assert hits > 100
        assert walks < hits


def renew(m: Net, r: random.Random) -> None:
    """Puts equal new objects in place of old ones, or has old ones stored in another way."""
    block = r.choice(list(m.blocks))
    match r.randrange(12):
        case 0:
            m.blocks[r.randrange(3)] = Block()
        case 1:
            block.config = Config()
        case 2:
            vars(block.config)
        case 3:
            block.config.l, block.config.d = [*block.config.l], dict(block.config.d)
        case 4:
            block.scale = float("1.5")
        case 5:
            block.order = collections.OrderedDict(block.order)
        case 6:
            block.queue.rotate()
            block.queue.rotate(-1)
        case 7:
            block.function = closure(float("1.5"))
        case 8:
            block.slots.a, block.slots.b = float("1.5"), [float("1.5")]
        case 9:
            block.config.l.extend(range(100))
            del block.config.l[4:]
        case 10:
            block.config.t.clear()
            block.config.t.update("xy")
        case 11:
            block.counter = r.random()


def run_long(seed: int, steps: int) -> None:
    """One plan for all of it: its words are taken anew piece by piece. After each miss the old content comes back."""
    r = random.Random(seed)
    m = Net()
    one = Captured(m, "")
    for step in range(steps):
        for _ in range(r.randrange(6)):
            renew(m, r)
        read = one.plan.check([m])
        assert read is not None, (seed, step, one.plan.explain([m]))
        assert all(a is b for a, b in zip(read, (evaluate(p, {"x": m}) for p in one.reads), strict=True))
        Mutator(r).mutate(m)
        assert (one.plan.check([m]) is not None) == one.matches(m), (seed, step, "mutated")
        if not one.matches(m):
            Block.K = 1
            if "K" in vars(Block2):
                del Block2.K
            m.blocks = nn.ModuleList([Block() for _ in range(3)])
            fresh = Net()
            for name in (
                *("two", "left", "right", "near", "far", "away", "whole", "part"),
                *("history", "order", "first", "second", "third"),
            ):
                setattr(m, name, getattr(fresh, name))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_one_plan_outlives_its_objects(soak: bool) -> None:
    for seed in range(25 if soak else 3):
        run_long(seed, 1_000 if soak else 200)


KINDS = (
    "Type Constant Identity SameAs NotSameAs Length Absent Present Keys SetIs Places Tensor Code NoOverlap "
    "OtherStorage Apart Distinct Other"
).split()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_guard_is_needed(kind: str) -> None:
    def hunt() -> None:
        for seed in range(20):
            run(seed, 400, drop=kind)

    with pytest.raises(AssertionError, match="unsound"):
        hunt()
