"""Chains of segments in several threads, under signals, at the recursion limit and over many nodes."""

import functools
import gc
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import gramme
import pytest
import torch
from frames.support import native
from torch import nn

from e2e import front
from e2e.test_leaks import resident

pytestmark = pytest.mark.skipif(not front.GRAMME, reason="where gramme's segments end")
THREADS = 8
LOG_METHOD = list.append
Log = list[Any]


def broken(x: torch.Tensor, log: Log) -> torch.Tensor:
    y = x.sin() + 1
    front.graph_break()
    log.append(len(log))
    return y * x


def nested(depth: int) -> Callable[..., Any]:
    function: Callable[..., Any] = broken
    for _ in range(depth):
        function = (lambda inner: lambda x, log: inner(x * 2, log) + 1)(function)
    return function


def pieces(x: torch.Tensor, log: Log) -> Iterator[torch.Tensor]:
    for i in range(3):
        y = x + i
        front.graph_break()
        log.append(i)
        yield y * 2


def in_generator(x: torch.Tensor, log: Log) -> torch.Tensor:
    total = x
    for piece in pieces(x, log):
        total = total + piece
    return total


def delegated(x: torch.Tensor, log: Log) -> Any:
    def outer() -> Iterator[torch.Tensor]:
        yield x
        yield from pieces(x * 3, log)

    return [piece + 1 for piece in outer()]


def sorted_by_key(x: torch.Tensor, log: Log) -> torch.Tensor:
    def key(n: int) -> float:
        y = x * n
        front.graph_break()
        log.append(n)
        return float((y + 1).sum())

    order = sorted([2, 3, 1], key=key)
    return x * order[0]


def handled(x: torch.Tensor, log: Log) -> torch.Tensor:
    def fails(y: torch.Tensor) -> torch.Tensor:
        z = y * 2
        front.graph_break()
        raise ValueError(len(log))

    try:
        return fails(x + 1)
    except ValueError as error:
        log.append(error.args)
        return x - 1
    finally:
        log.append("finally")


def recursive(x: torch.Tensor, log: Log, depth: int = 4) -> torch.Tensor:
    if depth == 0:
        return broken(x, log)
    y = recursive(x + 1, log, depth - 1)
    front.graph_break()
    return y * depth


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        front.graph_break()
        return torch.relu(y) + x


def modules() -> Callable[..., Any]:
    torch.manual_seed(0)
    model = nn.Sequential(Block(), nn.Sequential(Block(), nn.Tanh()), Block())

    def function(x: torch.Tensor, log: Log) -> torch.Tensor:
        log.append("model")
        return model(x)  # type: ignore[no-any-return]

    return function


def written_by_callees(x: torch.Tensor, log: Log) -> Any:
    count = 0

    def add(y: torch.Tensor) -> torch.Tensor:
        nonlocal count
        count += 1
        y = y + count
        front.graph_break()
        count += 10
        return y * count

    log.append(count)
    return functools.reduce(lambda a, b: add(a) + b, [x, x, x]), count


def programs() -> list[Callable[..., Any]]:
    return [
        *(nested(depth) for depth in (0, 1, 4)),
        in_generator,
        delegated,
        sorted_by_key,
        handled,
        recursive,
        modules(),
        written_by_callees,
    ]


def outcome(function: Callable[..., Any], x: torch.Tensor) -> tuple[Any, Log]:
    log: Log = []
    return function(x, log), log


def same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


@pytest.mark.slow
def test_threads_in_chains(soak: bool) -> None:
    """Each thread calls what all of them share, and what it compiles itself; one drops everything now and then."""
    functions = programs()
    inputs = [torch.full((3 + i % 2, 4), 0.25 * i) for i in range(6)]
    expected = [[outcome(function, x) for x in inputs] for function in functions]
    shared = [front.compile(function, backend="eager") for function in functions]
    wrong: list[Any] = []
    calls = [0] * THREADS
    deadline = time.monotonic() + (30 if soak else 2)

    def work(thread: int) -> None:
        choose = random.Random(thread)
        own = [front.compile(function, backend="native") for function in functions]
        while time.monotonic() < deadline and not wrong:
            program, which = choose.randrange(len(functions)), choose.randrange(len(inputs))
            function = (own if choose.random() < 0.3 else shared)[program]
            result = outcome(function, inputs[which])
            if not same(result, expected[program][which]):
                wrong.append((program, which, result, expected[program][which]))
            calls[thread] += 1
            if thread == 0 and choose.random() < 0.003:
                front.reset()
            if thread == 1 and choose.random() < 0.01:
                gc.collect()

    def run(thread: int) -> None:
        try:
            work(thread)
        except BaseException as error:
            wrong.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=run, args=(i,)) for i in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
    finally:
        sys.setswitchinterval(before)
    assert not wrong, wrong[0]
    assert not any(thread.is_alive() for thread in threads)
    assert min(calls) > 3


def nodes_of_a_tree(depth: int) -> dict[str, Any]:
    """A tree with three children a node, 3^depth leaves."""
    children = [nodes_of_a_tree(depth - 1) for _ in range(3)] if depth else []
    return {"value": torch.full((2,), float(depth)), "children": children}


def count_nodes(node: dict[str, Any]) -> int:
    return 1 + sum(map(count_nodes, node["children"]))


def total(node: dict[str, Any]) -> torch.Tensor:
    value = node["value"] * 2
    front.graph_break()
    for child in node["children"]:
        value = value + total(child)
        front.graph_break()
    return value


def test_tables_are_bounded(soak: bool) -> None:
    """Resume points are places of code, however many nodes a recursion visits and wherever it was called from."""
    trees = [nodes_of_a_tree(depth) for depth in ((1, 2, 3, 8) if soak else (1, 2, 3, 5))]
    compiled = front.compile(total, backend="eager")
    points: list[int] = []
    for tree in trees * 2:
        assert torch.equal(compiled(tree), total(tree))
        points.append(native.resume_points(compiled))
    assert points[-1] <= len(total.__code__.co_code) // 2
    assert points[-1] == points[len(trees) - 1], points
    before = gramme.statistics(compiled).segments
    assert before <= 8 * points[-1]
    compiled(trees[-1])
    assert gramme.statistics(compiled).segments == before


def memory_grown_by(call: Callable[[], Any], times: int) -> tuple[int, int]:
    """Objects and bytes more after so many calls."""
    for _ in range(3):
        call()
    gc.collect()
    objects, size = len(gc.get_objects()), resident()
    for _ in range(times):
        call()
    gc.collect()
    return len(gc.get_objects()) - objects, resident() - size


def test_calls_of_a_recursion_leave_nothing(soak: bool) -> None:
    tree = nodes_of_a_tree(7 if soak else 4)
    compiled = front.compile(total, backend="eager")
    objects, size = memory_grown_by(lambda: compiled(tree), 5)
    assert abs(objects) <= 5
    assert size < 8 << 20


@pytest.mark.parametrize("program", programs(), ids=lambda f: getattr(f, "__name__", "?"))
def test_references_do_not_drift(program: Callable[..., Any], soak: bool) -> None:
    compiled = front.compile(program, backend="eager")
    x = torch.ones(3, 4)
    for _ in range(5):
        outcome(compiled, x)
    shared = [x, program, program.__code__, broken, broken.__code__, torch.Tensor, LOG_METHOD, None, True, 0, 1, 2, ()]
    while gc.collect():  # what other tests left may need several passes
        pass
    before, objects = [sys.getrefcount(o) for o in shared], len(gc.get_objects())
    for _ in range(10_000 if soak else 300):
        outcome(compiled, x)
    gc.collect()
    after = [sys.getrefcount(o) for o in shared]
    drift = [a - b for a, b in zip(after, before, strict=True)]
    assert all(abs(d) < 50 for d in drift), str(drift)
    assert drift[:6] == [0] * 6
    assert abs(len(gc.get_objects()) - objects) <= 5
