"""Finalizers that run in the middle of a call of a compiled function and come back to it: every call gets its own
results. The collector runs at each allocation: wherever a check, a binding, a replay or a graph allocates."""

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from e2e import front

ROUNDS = 12


class Holder:
    """What the functions below read and write."""

    def __init__(self, k: float) -> None:
        self.k = k
        self.log: list[Any] = [k]
        self.names = {"a": k}
        self.members = {Member("a"), Member("b")}
        self.grown: Any = None


class Member:
    def __init__(self, name: str) -> None:
        self.name = name


class Trash:
    """A cycle: the collector finds it at the next allocation."""

    def __init__(self, action: Callable[[], object]) -> None:
        self.me, self.action = self, action

    def __del__(self) -> None:
        self.action()


class Dropped:
    """Its finalizer runs as soon as nobody refers to it."""

    def __init__(self, action: Callable[[], object]) -> None:
        self.action = action

    def __del__(self) -> None:
        self.action()


def with_grad(value: float) -> torch.Tensor:
    p = torch.ones(2, requires_grad=True)
    (p * value).sum().backward()
    return p


def reads_grad(p: torch.Tensor, x: torch.Tensor, h: Holder) -> torch.Tensor:
    return x * 2 + p.grad * h.k


def takes_rest(p: torch.Tensor, x: torch.Tensor, h: Holder, *rest: Any, **named: Any) -> torch.Tensor:
    return x * h.k + sum(rest) + sum(named.values()) + len(rest)


def replays(p: torch.Tensor, x: torch.Tensor, h: Holder) -> Any:
    made = [x + 1, {"y": x * h.k}]
    h.log = [*h.log[-3:], made]
    h.names = {"a": h.k, "made": made}
    h.grown = (h.k, [made])
    return made, x * 3


def looks_around(p: torch.Tensor, x: torch.Tensor, h: Holder) -> torch.Tensor:
    names = sorted(member.name for member in h.members)
    return x * h.k + len(names) + h.names["a"]


def breaks(p: torch.Tensor, x: torch.Tensor, h: Holder) -> torch.Tensor:
    y = x * h.k
    front.graph_break()
    y = y + p.grad
    front.graph_break()
    return y * 2


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = {
    "check": (reads_grad, (), {}),
    "binding": (takes_rest, (1, 2.0, 3), {"a": 4, "b": 5}),
    "long binding": (takes_rest, tuple(range(12)), {}),
    "replay": (replays, (), {}),
    "rebinding": (looks_around, (), {}),
    "chain": (breaks, (), {}),
}
ACTIONS = ["call", "other shape", "other function", "reset", "delete"]


@pytest.fixture(autouse=True)
def eager_collector() -> Iterator[None]:
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()
    gc.enable()


def action_of(name: str, compiled: dict[str, Any], inner: Callable[[], Any]) -> Callable[[], None]:
    def capture_anew() -> None:
        front.compile(lambda x: x + 1, backend="eager")(torch.ones(2))

    def delete() -> None:
        compiled.clear()

    return {
        "call": inner,
        "other shape": inner,
        "other function": capture_anew,
        "reset": front.reset,
        "delete": delete,
    }[name]


def finalizer(
    function: Callable[..., Any], name: str, args: tuple[Any, ...], named: dict[str, Any], backend: str
) -> Any:
    """The calls' results with finalizers that do `name`; eager's if the backend is none."""
    compiled: dict[str, Any] = {}

    def fresh() -> None:
        compiled["f"] = front.compile(function, backend=backend) if backend else function

    fresh()
    size = 5 if name == "other shape" else 2
    other, inner_holder, inner_x = with_grad(1000.0), Holder(7.0), torch.full((size,), 100.0)
    if size == 5:
        other = torch.ones(5, requires_grad=True)
        other.sum().backward()
    busy = []
    ran = [0]

    def inner() -> None:
        if busy or "f" not in compiled:
            return
        busy.append(None)
        ran[0] += 1
        compiled["f"](other, inner_x, inner_holder, *args, **named)
        busy.pop()

    act = action_of(name, compiled, inner)
    results: list[str] = []
    holder = Holder(2.0)
    ps = [with_grad(float(i)) for i in range(ROUNDS)]
    for i, p in enumerate(ps):
        x = torch.full((2,), float(i))
        holder.names["a"] = i % 3
        holder.members = {Member("a"), Member("bc"[i % 2])}
        if "f" not in compiled:
            fresh()
        gc.disable()
        if i > 1:
            Trash(act)
            holder.grown = Dropped(act)
        gc.set_threshold(1, 1, 1)
        gc.enable()
        results.append(repr(compiled.get("f", function)(p, x, holder, *args, **named)))
        gc.disable()
        results.append(repr((holder.log, holder.names, holder.grown if i > ROUNDS else None)))
        gc.set_threshold(700, 10, 10)
        gc.enable()
    return results


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("place", FUNCTIONS)
def test_finalizers_come_back(place: str, action: str, backend: str) -> None:
    function, args, named = FUNCTIONS[place]
    assert finalizer(function, action, args, named, backend) == finalizer(function, action, args, named, "")


@pytest.mark.parametrize("action", ACTIONS)
def test_in_the_middle_of_a_graph(action: str) -> None:
    """The backend's function collects while it runs."""
    compiled: dict[str, Any] = {}

    def backend(gm: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            gc.collect(0)
            return gm(*args)

        return run

    compiled["f"] = front.compile(reads_grad, backend=backend)
    busy: list[None] = []

    def inner() -> None:
        if not busy and "f" in compiled:
            busy.append(None)
            compiled["f"](with_grad(1000.0), torch.full((2,), 100.0), Holder(7.0))
            busy.pop()

    act = action_of(action, compiled, inner)
    for i in range(8):
        if "f" not in compiled:
            compiled["f"] = front.compile(reads_grad, backend=backend)
        gc.disable()
        Trash(act)
        gc.enable()
        p, x, h = with_grad(1.0), torch.full((2,), float(i)), Holder(2.0)
        assert torch.equal(compiled.get("f", reads_grad)(p, x, h), reads_grad(p, x, h))


def test_grad_of_each_call_is_its_own() -> None:
    """Reading p.grad makes a Python object for it, so the collector may run between two looks at the registers."""
    compiled = front.compile(lambda p, x: x * 2 + p.grad, backend="eager")
    q, a, b = with_grad(1000.0), torch.full((2,), 1.0), torch.full((2,), 100.0)
    ps = [with_grad(1.0) for _ in range(60)]
    compiled(with_grad(1.0), a)
    gc.set_threshold(1, 1, 1)
    results = set()
    for p in ps:
        Trash(lambda: compiled(q, b))
        results.add(tuple(compiled(p, a).tolist()))
    assert results == {(3.0, 3.0)}


def test_a_finalizer_under_a_capture_computes_for_real() -> None:
    """While metadata is inferred, and while the native executor records, the collector does not run: what finalizers
    compute would be computed on fakes, or recorded."""
    made: list[torch.Tensor] = []

    def note() -> None:
        made.append(torch.ones(2) + 1)

    for backend in ("eager", "native"):
        compiled = front.compile(lambda x: (x.sin() + 1).reshape(1, -1).softmax(1), backend=backend)
        gc.set_threshold(1, 1, 1)
        for i in range(20):
            Trash(note)
            x = torch.full((2 + i // 5,), float(i))
            assert torch.equal(compiled(x), (x.sin() + 1).reshape(1, -1).softmax(1))
        gc.set_threshold(700, 10, 10)
    assert made
    assert all(type(tensor) is torch.Tensor and tensor.tolist() == [2.0, 2.0] for tensor in made)


def test_what_a_guard_held_dies_after_the_check() -> None:
    """A guard on a set holds the members that it saw; the last reference to one may be the guard's."""
    compiled: dict[str, Any] = {"f": front.compile(looks_around, backend="eager")}
    holder, p, x = Holder(2.0), with_grad(1.0), torch.ones(2)

    class Last(Member):
        def __del__(self) -> None:
            front.reset()
            compiled["f"](p, torch.zeros(2), Holder(3.0))

    for i in range(10):
        holder.members = {Last("a"), Member(str(i))}
        assert torch.equal(compiled["f"](p, x, holder), looks_around(p, x, holder))
