"""Effects over several calls: order, identity, cells and globals, what escapes and what dies."""

import copy
import gc
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import gramme
import pytest
import torch

from e2e.describe import describe
from e2e.front import Compiled


def same_over_calls(make: Callable[[], tuple[Callable[..., Any], Any]], calls: int = 3) -> Compiled:
    """Two equal worlds, one run eagerly and one captured: equal after each call. The world is described whole."""
    (eager, world), (function, captured_world) = make(), make()
    compiled = Compiled(function)
    for i in range(calls):
        expected, result = eager(ones()), compiled(ones())
        left = describe(world=world, result=expected)
        assert describe(world=captured_world, result=result) == left, f"call {i}"
    return compiled


def ones() -> torch.Tensor:
    return torch.ones(3)


class Box:
    def __init__(self, **kw: Any) -> None:
        self.__dict__.update(kw)


# The table.


class Slotted:
    __slots__ = ("x",)


def written_in_all_ways(v: torch.Tensor, box: Any, slotted: Any, row: list[Any], table: Any, cls: Any) -> Any:
    global LAST
    nonlocal_cell[0] = v
    box.x, slotted.x, cls.shared = v, 1, "text"
    row.append(v)
    table["k"] = row
    LAST = box
    torch.set_grad_enabled(False)
    return v + 1


nonlocal_cell: list[Any] = [None]


def test_each_effect_is_printed() -> None:
    class Shared:
        shared = ""

    row: list[Any] = [1]
    try:
        segments = gramme.explain(written_in_all_ways)(ones(), Box(x=0), Slotted(), row, {}, Shared).segments
    finally:
        torch.set_grad_enabled(True)
    lines = [line for segment in segments for line in segment.effects]
    assert "StoreAttr L['box'].x = L['v']" in lines
    assert "StoreSlot L['slotted'].x = 1" in lines
    assert "Content L['row'] = 1 item more" in lines
    assert "Content L['table'] = 1 item more" in lines
    assert any(line.startswith("StoreClassAttr ") and line.endswith(".shared = 'text'") for line in lines)
    assert any(line.startswith("StoreGlobal ") and line.endswith(".LAST = L['box']") for line in lines)


def test_the_difference_of_two_logs_is_in_their_lines() -> None:
    def f(v: torch.Tensor, box: Any, more: bool) -> torch.Tensor:
        box.x = v
        if more:
            box.y = [v]
        return v + 1

    short, long = (gramme.explain(f)(ones(), Box(), more).segments[-1].effects for more in (False, True))
    assert [line for line in long if line not in short] == ["StoreAttr L['box'].y = a new List"]


# Cells and globals.


def test_two_closures_share_a_cell() -> None:
    def make() -> Any:
        count = 0

        def step(v: torch.Tensor) -> torch.Tensor:
            nonlocal count
            count += 1
            return v * count

        def read() -> int:
            return count

        return step, read

    same_over_calls(make, 4)


def test_a_cell_written_by_both_sides() -> None:
    def make() -> Any:
        total: Any = 0

        def add(v: torch.Tensor) -> Any:
            nonlocal total
            total = total + v.sum()
            swap()
            return total

        def swap() -> None:
            nonlocal total
            total = total * 2

        return add, (swap, lambda: total)

    same_over_calls(make)


def test_a_cell_set_from_outside_between_calls() -> None:
    state = 1

    def f(v: torch.Tensor) -> torch.Tensor:
        nonlocal state
        result = v * state
        state = state + 1
        return result

    compiled = Compiled(f)
    for start in (1, 1, 5, -2):
        state = start
        assert torch.equal(compiled(ones()), ones() * start)
        assert state == start + 1


def test_an_unbound_cell_is_bound_and_unbound() -> None:
    def make() -> Any:
        def f(v: torch.Tensor) -> Any:
            nonlocal slot
            try:
                old = slot
                del slot
            except NameError as error:
                old = str(error)
                slot = v + 1
            return old

        slot: Any = None
        del slot
        return f, f.__closure__

    same_over_calls(make, 4)


def test_one_cell_reached_by_several_functions() -> None:
    def make() -> Any:
        log: list[Any] = []
        current = "start"

        def outer(v: torch.Tensor) -> torch.Tensor:
            def inner() -> None:
                nonlocal current
                log.append(current)
                current = "inner"

            nonlocal current
            current = "outer"
            inner()
            log.append(current)
            return v + len(log)

        return outer, (log, lambda: current)

    same_over_calls(make)


COUNTER = 0
LAST: Any = None


def test_globals_over_calls() -> None:
    def f(v: torch.Tensor) -> torch.Tensor:
        global COUNTER, LAST
        COUNTER += 1
        LAST = v * COUNTER
        return LAST + 1

    global COUNTER
    COUNTER = 0
    compiled = Compiled(f)
    for i in range(1, 5):
        assert torch.equal(compiled(ones()), ones() * i + 1)
        assert i == COUNTER
        assert torch.equal(LAST, ones() * i)


def test_global_of_another_module() -> None:
    module = types.ModuleType("other")
    exec("value = 1\ndef f(v):\n    global value\n    value = value + 1\n    return v * value\n", module.__dict__)
    compiled = Compiled(module.f)
    for i in range(2, 5):
        assert torch.equal(compiled(ones()), ones() * i)
        assert module.value == i


def test_module_attribute_set() -> None:
    module = types.ModuleType("settings")
    module.level = 0  # type: ignore[attr-defined]

    def f(v: torch.Tensor) -> torch.Tensor:
        module.level += 1
        module.last = v  # type: ignore[attr-defined]
        return v + module.level

    compiled, v = Compiled(f), ones()
    assert [compiled(v)[0].item() for _ in range(3)] == [2, 3, 4]
    assert module.last is v  # type: ignore[attr-defined]


def test_class_attribute_set() -> None:
    def make() -> Any:
        class Config:
            calls = 0

        def f(v: torch.Tensor) -> torch.Tensor:
            Config.calls += 1
            Config.last = v  # type: ignore[attr-defined]
            return v * Config.calls

        return f, Config

    same_over_calls(make)


def test_mutable_default_over_calls() -> None:
    def make() -> Any:
        def f(v: torch.Tensor, seen: list[Any] = []) -> Any:  # noqa: B006
            seen.append(v * len(seen))
            return seen

        return f, f.__defaults__

    same_over_calls(make)


# Containers and objects.


def test_containers_changed_while_aliased() -> None:
    def make() -> Any:
        inner = [1]
        world = {"one": inner, "two": Box(again=inner), "three": (inner,)}

        def f(v: torch.Tensor) -> Any:
            world["one"].append(v)
            world["two"].again.insert(0, len(inner))
            del world["three"][0][-2]
            world["one"] = [inner]
            world["two"].again = world["one"][0]
            world["one"] = inner
            return inner[0], world["three"][0] is inner

        return f, world

    same_over_calls(make)


def test_swap_of_attributes() -> None:
    def make() -> Any:
        s = Box(a=ones(), b=[2])

        def f(v: torch.Tensor) -> Any:
            s.a, s.b = s.b, s.a
            return v

        return f, s

    same_over_calls(make, 4)


def test_rotation_through_all_kinds_of_places() -> None:
    def make() -> Any:
        cell: Any = "cell"
        s, row, table = Box(a="attribute"), ["item"], {"k": "key"}

        def f(v: torch.Tensor) -> Any:
            nonlocal cell
            cell, s.a, row[0], table["k"] = table["k"], cell, s.a, row[0]
            return v

        return f, (s, row, table, lambda: cell)

    same_over_calls(make, 5)


class Logging:
    """Tells each access to a list that others share."""

    def __init__(self, name: str, log: list[str]) -> None:
        object.__setattr__(self, "_name", name)
        object.__setattr__(self, "_log", log)

    def __setattr__(self, key: str, value: Any) -> None:
        self._log.append(f"{self._name}.{key}=")
        object.__setattr__(self, key, value)

    def __delattr__(self, key: str) -> None:
        self._log.append(f"del {self._name}.{key}")
        object.__delattr__(self, key)

    def __getattr__(self, key: str) -> Any:
        self._log.append(f"{self._name}.{key}?")
        return 0


def test_order_of_accesses_is_logged_by_the_objects() -> None:
    def make() -> Any:
        log: list[str] = []
        a, b = Logging("a", log), Logging("b", log)

        def f(v: torch.Tensor) -> Any:
            a.x = b.missing + 1
            b.x = a.x
            for name in ("p", "q"):
                setattr(a, name, v)
                setattr(b, name, getattr(a, name))
            del a.p
            b.y = a.p
            return v + a.x

        return f, (log, a, b)

    same_over_calls(make)


def test_objects_that_contain_themselves() -> None:
    def make() -> Any:
        world: dict[str, Any] = {"row": []}

        def f(v: torch.Tensor) -> Any:
            node = Box(value=v)
            node.me = node
            node.ring = [node, world]
            world["row"].append(node)
            world["world"] = world
            return node

        return f, world

    same_over_calls(make, 2)


def test_equal_objects_stay_two_and_one_stays_one() -> None:
    def f(v: torch.Tensor, a: list[Any], b: list[Any]) -> Any:
        a.append(0)
        return a is b, len(b), [a, b], v + 1

    compiled = Compiled(f)
    one: list[Any] = []
    for _ in range(2):
        assert compiled(ones(), [], [])[:2] == (False, 0)
        one.clear()
        assert compiled(ones(), one, one)[:2] == (True, 1)


class Counted:
    made: list[str] = []

    def __new__(cls, name: str) -> "Counted":
        cls.made.append("new " + name)
        return super().__new__(cls)

    def __init__(self, name: str) -> None:
        self.made.append("init " + name)
        self.name = name


def test_each_object_is_made_once_per_call() -> None:
    def f(v: torch.Tensor, out: list[Any]) -> torch.Tensor:
        Counted("lost")
        kept = Counted("kept")
        out.append(kept)
        out.append(kept)
        return v + len(kept.name)

    compiled = Compiled(f)
    previous: Any = None
    for _ in range(3):
        Counted.made.clear()
        out: list[Any] = []
        compiled(ones(), out)
        assert Counted.made == ["new lost", "init lost", "new kept", "init kept"]
        assert out[0] is out[1]
        assert out[0] is not previous
        previous = out[0]


class Mortal:
    log: list[str] = []

    def __init__(self, name: str) -> None:
        self.name = name

    def __del__(self) -> None:
        self.log.append(self.name)


def test_objects_with_finalizers_die_as_eagerly() -> None:
    def f(v: torch.Tensor, holder: Any) -> torch.Tensor:
        Mortal("dropped")
        holder.kept = Mortal("kept")
        local = Mortal("local")
        return v + len(local.name)

    def run(call: Callable[..., Any]) -> list[list[str]]:
        logs = []
        for _ in range(3):
            Mortal.log.clear()
            holder = Box()
            call(ones(), holder)
            after = sorted(Mortal.log)
            del holder
            logs.append([*after, "|", *Mortal.log])
        return logs

    assert run(Compiled(f)) == run(f)


def test_results_are_new_each_time() -> None:
    def f(v: torch.Tensor) -> Any:
        row = [v + 1]
        return row, {"row": row}, torch.zeros(2), lambda: row

    compiled = Compiled(f)
    first, second = compiled(ones()), compiled(ones())
    assert first[0] is not second[0]
    assert first[2] is not second[2]
    first[0].append("changed")
    first[2].add_(1)
    third = compiled(ones())
    assert describe(r=third) == describe(r=second) == describe(r=f(ones()))


def test_literals_of_the_code_are_not_shared() -> None:
    def f(v: torch.Tensor) -> Any:
        table = {"a": [1, 2, 3], "b": {"c"}}
        table["a"].append(len(table["a"]))  # type: ignore[attr-defined]
        return table, v + 1

    compiled = Compiled(f)
    compiled(ones())[0]["a"].append("mine")
    compiled(ones())[0]["b"].add("mine")
    assert describe(r=compiled(ones())) == describe(r=f(ones()))


# Iterators and generators as arguments and results.


def advance(v: torch.Tensor, it: Iterator[Any]) -> Any:
    first = next(it)
    return v + first, next(it, None)


ITERATORS: dict[str, Callable[[], Iterator[Any]]] = {
    "list": lambda: iter([1, 2, 3, 4]),
    "range": lambda: iter(range(1, 9)),
    "dict": lambda: iter({1: "a", 2: "b", 3: "c"}),
    "enumerate": lambda: (i for i, _ in enumerate("abcd")),
    "map": lambda: map(abs, [-1, -2, -3]),
    "zip": lambda: (a for a, _ in zip([1, 2, 3], "abc")),
    "reversed": lambda: reversed([1, 2, 3]),
    "generator": lambda: (k * k for k in range(1, 5)),
}


@pytest.mark.parametrize("kind", ITERATORS)
def test_iterators_given_are_advanced(kind: str) -> None:
    compiled = Compiled(advance)
    for _ in range(2):
        eager_it, it = ITERATORS[kind](), ITERATORS[kind]()
        for _ in range(1):
            assert describe(r=compiled(ones(), it)) == describe(r=advance(ones(), eager_it))
        assert list(it) == list(eager_it)


def test_generators_escape_unstarted_and_started() -> None:
    def make() -> Any:
        log: list[Any] = []

        def f(v: torch.Tensor) -> Any:
            def produce(k: int) -> Iterator[Any]:
                log.append(("start", k))
                for i in range(k):
                    yield v * i
                log.append(("end", k))

            fresh, begun = produce(2), produce(3)
            next(begun)
            return fresh, begun

        return f, log

    same_over_calls(make)


def test_a_generator_kept_by_the_caller_goes_on() -> None:
    def f(v: torch.Tensor, holder: Any) -> Any:
        if not hasattr(holder, "steps"):
            holder.steps = (v * i for i in range(10))
        return next(holder.steps)

    compiled, holder, eager = Compiled(f), Box(), Box()
    for _ in range(4):
        assert torch.equal(compiled(ones(), holder), f(ones(), eager))


# Lifetimes.


def test_weakref_made_inside() -> None:
    class Thing:
        pass

    def f(v: torch.Tensor, out: list[Any]) -> torch.Tensor:
        thing = Thing()
        out.append(weakref.ref(thing))
        out.append(thing)
        return v + 1

    compiled = Compiled(f)
    for _ in range(2):
        out: list[Any] = []
        compiled(ones(), out)
        assert out[0]() is out[1]
        del out[1]
        assert out[0]() is None


def test_tensors_stored_in_effects_die_with_their_holder() -> None:
    def f(v: torch.Tensor, holder: Any) -> torch.Tensor:
        holder.cache = v * 2
        return holder.cache + 1

    compiled = Compiled(f)
    for _ in range(3):
        holder = Box()
        compiled(ones(), holder)
        watcher = weakref.ref(holder.cache)
        del holder
        assert watcher() is None


def test_nothing_of_a_closure_outlives_it() -> None:
    def make(big: torch.Tensor) -> Callable[..., Any]:
        def f(v: torch.Tensor) -> torch.Tensor:
            return v + big

        return f

    big = ones()
    compiled = Compiled(make(big))
    compiled(ones())
    watcher = weakref.ref(big)
    del compiled, big
    gc.collect()
    assert watcher() is None


# Tensors.


def test_inplace_writes_reach_every_alias() -> None:
    def make() -> Any:
        base = torch.zeros(4)
        world = {"base": base, "view": base[1:], "detached": base.detach(), "box": Box(t=base)}

        def f(v: torch.Tensor) -> Any:
            world["view"][0] += v[0]
            world["box"].t.mul_(2)
            world["base"].add_(1)
            return world["detached"].sum(), world["view"] * 1

        return f, world

    same_over_calls(make)


def test_gradients_accumulate_over_calls() -> None:
    def make() -> Any:
        weight = torch.ones(3, requires_grad=True)

        def f(v: torch.Tensor) -> Any:
            return ((v * weight) ** 2).sum()

        def step(v: torch.Tensor) -> Any:
            loss = inner(v)
            loss.backward()
            return loss.detach()

        inner: Any = f
        step.use = lambda call: nonlocal_set(call)  # type: ignore[attr-defined]

        def nonlocal_set(call: Any) -> None:
            nonlocal inner
            inner = call

        return step, weight

    (eager, world), (step, captured_world) = make(), make()
    compiled = Compiled(step.__closure__[0].cell_contents)
    step.use(compiled)
    for _ in range(3):
        assert torch.equal(eager(ones()), step(ones()))
        assert describe(w=world) == describe(w=captured_world)


def test_attributes_of_tensors_stay_on_the_tensor() -> None:
    def f(v: torch.Tensor, log: list[Any]) -> Any:
        v.step = getattr(v, "step", 0) + 1  # type: ignore[attr-defined]
        w = v + 1
        w.origin = v  # type: ignore[attr-defined]
        log.append(w)
        return w

    compiled, v, eager_v = Compiled(f), ones(), ones()
    log: list[Any] = []
    eager_log: list[Any] = []
    for _ in range(3):
        compiled(v, log)
        f(eager_v, eager_log)
    assert describe(v=v, log=log) == describe(v=eager_v, log=eager_log)


def test_grad_mode_set_for_good() -> None:
    def f(v: torch.Tensor, on: bool) -> bool:
        torch.set_grad_enabled(on)
        return (v * 2).requires_grad

    compiled, v = Compiled(f), torch.ones(2, requires_grad=True)
    try:
        for on in (False, True, True, False):
            assert compiled(v, on) == on
            assert torch.is_grad_enabled() == on
    finally:
        torch.set_grad_enabled(True)


def test_deep_copies_of_arguments_are_equal_worlds() -> None:
    """The same program on a deep copy of its world: the copy is not linked with the original."""

    def f(v: torch.Tensor, world: Any) -> torch.Tensor:
        world["rows"][0].append(v)
        world["alias"].append(len(world["rows"][0]))
        return v + len(world["alias"])

    row: list[Any] = []
    world = {"rows": [row], "alias": row}
    copied = copy.deepcopy(world)
    compiled = Compiled(f)
    compiled(ones(), world)
    assert copied == {"rows": [[]], "alias": []}
    f(ones(), copied)
    assert describe(w=world) == describe(w=copied)
