"""Costs of effects: growth of capture with their number, and replay compared with CPython's run of the same stores.

    effects.py [--rounds 5] [--names lists,globals]

Each program makes n stores and one addition of tensors. A row:
    microseconds of capture a store, for each n, and the ratio of the largest n's to the smallest's (linear: about 1)
    milliseconds with the largest n, each run in a world of new objects, least of all rounds:
        guards   finding that the segment fits: all the objects are new ones, so none of what was known of them holds
        replay   the stores, and dropping the references that they needed
        plain    the function as CPython runs it: the loop, the stores, the addition
        ratio    replay to plain
        whole    guards and replay to plain
An error where a capture is not linear or replay costs more than twice the plain call.
"""

import argparse
import gc
import os
import platform
import sys
import time
from collections.abc import Callable
from typing import Any

import gramme
import torch
from gramme import _C

phases = _C.testing.testing_capture.phases  # type: ignore[attr-defined]
SIZES = (1_000, 2_000, 5_000, 10_000)
LINEAR, DEAREST = 2.0, 2.0
counter: Any = 0


class Box:
    pass


class Slots:
    __slots__ = ("a", "b")


def lists(x: torch.Tensor, n: int, world: Any) -> torch.Tensor:
    row = world["row"]
    for i in range(n):
        row.append(i)
    return x + 1


def list_items(x: torch.Tensor, n: int, world: Any) -> torch.Tensor:
    full = world["full"]
    for i in range(n):
        full[i] = i
    return x + 1


def dicts(x: torch.Tensor, n: int, world: Any) -> torch.Tensor:
    table = world["table"]
    for i in range(n):
        table[i] = i
    return x + 1


def sets(x: torch.Tensor, n: int, world: Any) -> torch.Tensor:
    group = world["group"]
    for i in range(n):
        group.add(i)
    return x + 1


def attributes(x: torch.Tensor, n: int, world: Any) -> torch.Tensor:
    for box in world["boxes"][: n // 4]:
        box.a, box.b, box.c, box.d = 1, 2, 3, 4
    return x + 1


def attributes_of_one(x: torch.Tensor, n: int, world: Any) -> torch.Tensor:
    box = world["boxes"][0]
    for i in range(n):
        setattr(box, f"a{i}", i)
    return x + 1


def one_attribute(x: torch.Tensor, n: int, world: Any) -> torch.Tensor:
    box = world["boxes"][0]
    for i in range(n):
        box.a = i
    return x + 1


def deleted_and_stored(x: torch.Tensor, n: int, world: Any) -> torch.Tensor:
    for box in world["boxes"][: n // 2]:
        del box.z
        box.z = 1
    return x + 1


def slots(x: torch.Tensor, n: int, world: Any) -> torch.Tensor:
    for slot in world["slots"][: n // 2]:
        slot.a, slot.b = 1, 2
    return x + 1


def new_objects(x: torch.Tensor, n: int, world: Any) -> torch.Tensor:
    made = world["row"]
    for i in range(n // 3):
        box = Box()
        box.a, box.b = i, made
        made.append(box)
    return x + 1


def new_lists(x: torch.Tensor, n: int, world: Any) -> torch.Tensor:
    made = world["row"]
    for i in range(n // 2):
        inner = [i]
        inner.append(i)
        made.append(inner)
    return x + 1


def many_lists(x: torch.Tensor, n: int, world: Any) -> torch.Tensor:
    for row in world["rows"][:n]:
        row.append(1)
    return x + 1


def cells(x: torch.Tensor, n: int, world: Any) -> torch.Tensor:
    for put in world["puts"][:n]:
        put(1)
    return x + 1


def global_variable(x: torch.Tensor, n: int, world: Any) -> torch.Tensor:
    global counter
    for i in range(n):
        counter = i
    return x + 1


def globals_by_name(x: torch.Tensor, n: int, world: Any) -> torch.Tensor:
    names = globals()
    for i in range(n):
        names[f"g{i}"] = i
    return x + 1


def mixed(x: torch.Tensor, n: int, world: Any) -> torch.Tensor:
    global counter
    row, table, boxes, puts = world["row"], world["table"], world["boxes"], world["puts"]
    for i in range(n // 6):
        row.append(i)
        table[i] = i
        boxes[i].a = i
        puts[i](i)
        counter = i
        made = Box()
        made.a = i
        row.append(made)
    return x + 1


PROGRAMS = {
    f.__name__: f
    for f in (
        lists, list_items, dicts, sets, attributes, attributes_of_one, one_attribute, deleted_and_stored, slots,
        new_objects, new_lists, many_lists, cells, global_variable, globals_by_name, mixed,
    )
}  # fmt: skip


def cell_writer() -> Callable[[Any], None]:
    content = None

    def put(value: Any) -> None:
        nonlocal content
        content = value

    return put


def box() -> Box:
    made = Box()
    made.z = 0  # type: ignore[attr-defined]
    return made


def world(name: str, n: int) -> dict[str, Any]:
    """The objects that the program of this name writes."""
    source = PROGRAMS[name].__code__.co_consts
    makers: dict[str, Callable[[], Any]] = {
        "row": list,
        "full": lambda: [None] * n,
        "table": dict,
        "group": set,
        "boxes": lambda: [box() for _ in range(n // 2)],
        "slots": lambda: [Slots() for _ in range(n // 2)],
        "rows": lambda: [[] for _ in range(n)],
        "puts": lambda: [cell_writer() for _ in range(n)],
    }
    return {part: make() for part, make in makers.items() if part in source}


def backend(graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
    return graph.forward


def seconds(call: Callable[[], object]) -> float:
    gc.collect()
    gc.disable()
    try:
        start = time.perf_counter()
        call()
        return time.perf_counter() - start
    finally:
        gc.enable()


def capture(name: str, n: int, rounds: int) -> float:
    """Seconds of the first call."""

    def once() -> float:
        gramme.reset()
        compiled, x, heap = (
            gramme.compile(PROGRAMS[name], backend=backend, fullgraph=True),
            torch.ones(4),
            world(name, n),
        )
        return seconds(lambda: compiled(x, n, heap))

    return min(once() for _ in range(rounds))


def hit(name: str, n: int, rounds: int) -> tuple[float, float, float]:
    """Seconds of guards, of replay, and of the plain call; each run in a new world, in turn."""
    gramme.reset()
    program = PROGRAMS[name]
    compiled, x = gramme.compile(program, backend=backend, fullgraph=True), torch.ones(4)
    for _ in range(3):
        compiled(x, n, world(name, n))
    best = [float("inf")] * 3
    for _ in range(rounds * 4):
        heap = world(name, n)
        gc.collect()
        gc.disable()
        times = phases(compiled, (x, n, heap))
        gc.enable()
        if times is None:
            raise SystemExit(f"{name}: no segment fits a new world")
        guards, _, replay, dropped = times
        heap = world(name, n)
        plain = seconds(lambda heap=heap: program(x, n, heap))  # type: ignore[misc]
        best = [min(pair) for pair in zip(best, (guards / 1e9, (replay + dropped) / 1e9, plain), strict=True)]
    return best[0], best[1], best[2]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--names", type=lambda s: s.split(","), default=list(PROGRAMS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{os.cpu_count()} cores, 1 thread, torch {torch.__version__}, Python {platform.python_version()}")
    capture("lists", SIZES[0], 1)  # the set-up of a process's first capture
    titles = ("guards", "replay", "plain", "ratio", "whole")
    print(f"{'':20}" + "".join(f"{n:>8,}" for n in SIZES) + "   last/first" + "".join(f"{t:>8}" for t in titles))
    missed = []
    for name in options.names:
        each = [capture(name, n, options.rounds) / n * 1e6 for n in SIZES]
        growth = each[-1] / each[0]
        guards, replay, plain = hit(name, SIZES[-1], options.rounds)
        print(
            f"{name:20}"
            + "".join(f"{us:8.2f}" for us in each)
            + f"{growth:13.2f}"
            + "".join(f"{took * 1e3:8.2f}" for took in (guards, replay, plain))
            + f"{replay / plain:8.2f}{(guards + replay) / plain:8.2f}",
            flush=True,
        )
        if growth > LINEAR or replay > DEAREST * plain:
            missed.append(name)
    print("missed: " + (", ".join(missed) or "none"))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
