"""Random mutations of a small heap with aliases: lists, dicts, objects, slots, classes, cells, globals and tensors.

A program is a list of steps; a step is a template and the numbers that fill its holes, so that hypothesis can make it
smaller. `world` says what each place of the heap holds at the start.
"""

import copy
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st
from programs import Program, Tensors

from e2e.random_programs import compiled_source


class Node:
    shared: list[Any] = []
    level = 0

    def __init__(self, p: Any = None) -> None:
        self.p = p

    @property
    def watched(self) -> Any:
        return self.p

    @watched.setter
    def watched(self, value: Any) -> None:
        Node.shared.append("set")
        self.p = value

    def take(self, other: Any) -> Any:
        self.p, other.p = other.p, self.p
        return self

    def made(self, value: Any) -> "Node":
        self.q = type(self)(value)
        self.q.back = self
        return self.q


class Leaf(Node):
    level = 1

    def __setattr__(self, name: str, value: Any) -> None:
        Node.shared.append(name)
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        if name == "r":
            return Node.level
        raise AttributeError(name)


class Slots:
    __slots__ = ("p", "q")

    def __init__(self, p: Any = None) -> None:
        self.p = p


TEMPLATES = (
    # objects
    "{o}.{n} = {v}",
    "{o}.{n} = {v}",
    "del {o}.{n}",
    "{w} = {o}.{n}",
    "{o}.{n}, {o}.{n} = {o}.{n}, {v}",
    "{o}.watched = {v}",
    "setattr({o}, '{n}', {v})",
    "{w} = getattr({o}, '{n}', {v})",
    "{o}.__dict__['{n}'] = {v}",
    "{w} = vars({o}).pop('{n}', {v})",
    "{w} = list(vars({o}))",
    "vars({o}).update({n}={v})",
    "{o}.take({o})",
    "{w} = {o}.made({v})",
    "{w} = {o}.take",
    "{o}.__class__ = {k}",
    "{w} = copy.copy({o})",
    "{w} = Node({v})",
    "{w} = Leaf({v})",
    "{w} = Slots({v})",
    # classes
    "Node.level = {v}",
    "Leaf.level = {v}",
    "del {k}.level",
    "{w} = {o}.level",
    "Node.shared.append({v})",
    "Leaf.late = {v}",
    "{w} = {o}.late",
    # lists
    "{l}.append({v})",
    "{l}.insert({i}, {v})",
    "{w} = {l}.pop({i})",
    "{l}[{i}] = {v}",
    "{w} = {l}[{i}]",
    "del {l}[{i}]",
    "{l}[{i}:] = [{v}, {v}]",
    "{l} += [{v}]",
    "{l}.reverse()",
    "{l}.extend({l}[:3])",
    "{w} = {l}[{i}:]",
    "{w} = [{v}, {v}]",
    "{w} = ({v}, {l})",
    "{w} = any(m is {v} for m in {l})",
    # dicts
    "{d}['{n}'] = {v}",
    "{w} = {d}['{n}']",
    "del {d}['{n}']",
    "{w} = {d}.pop('{n}', {v})",
    "{w} = {d}.setdefault('{n}', {v})",
    "{d}.update({n}={v})",
    "{w} = {d}.popitem()",
    "{d} |= {'{n}': {v}}",
    "{w} = list({d})",
    "{w} = {'{n}': {v}}",
    "{d}[{o}] = {v}",
    "{w} = {d}.get({o})",
    # cells and globals
    "put({v})",
    "{w} = get()",
    "drop()",
    "own({v})",
    "{w} = cell",
    "cell = {v}",
    "{w} = lambda: (cell, {o})",
    "{w} = {w}()",
    "{o}.{n} = own",
    "G = {v}",
    "{w} = G",
    "del G",
    # tensors
    "x = x + 1",
    "y = {t} * {t}",
    "{t}.add_({t})",
    "{t}.mul_(2)",
    "{w} = {t}.view(-1)",
    "{t}.note = {v}",
    "{w} = {t}.note",
    # identity and control
    "log.append({v} is {v})",
    "log.append(type({v}).__name__)",
    "if {v} is {v}:",
    "if {l}:",
    "for {w} in {l}[:3]:",
    "for {w} in list({d})[:2]:",
    "graph_break()",
)
HOLES = {
    "o": ("a", "b", "s", "v0", "a.p", "get()"),
    "k": ("Node", "Leaf"),
    "n": ("p", "q", "r"),
    "l": ("row", "other", "v1", "a.p"),
    "d": ("table", "v2", "b.p"),
    "t": ("x", "y"),
    "i": ("0", "1", "-1", "2"),
    "w": ("v0", "v1", "v2"),
    "v": ("x", "a", "row", "y", "one", "v0", "b", "table", "v1", "s", "other", "v2", "None", "a.p", "get()", "G"),
}
NUMBERS = 5
PLACES = 12
HEAD = """def f(a, b, s, row, other, table, x, y, get, put, drop, log):
    global G
    v0, v1, v2, one = a, row, table, 1
    cell = v0
    def own(v):
        nonlocal cell
        cell, v = v, cell
        return v
"""


@dataclass(frozen=True)
class Step:
    template: str
    numbers: tuple[int, ...]
    guarded: bool
    """In a `try` of its own, so that what follows runs whatever happens."""

    def lines(self) -> Iterator[str]:
        numbers = iter(self.numbers * 3)
        text = re.sub(r"\{([a-z])\}", lambda hole: HOLES[hole[1]][next(numbers) % len(HOLES[hole[1]])], self.template)
        if not self.guarded or text.endswith(":"):
            yield text
            return
        yield "try:"
        yield "    " + text
        yield "except Exception as error:"
        yield "    log.append(type(error).__name__)"


def source(steps: Sequence[Step]) -> str:
    lines, indent = [], "    "
    for step in steps:
        own = list(step.lines())
        lines += [indent + line for line in own]
        indent = "        " if own[-1].endswith(":") and len(own) == 1 and len(indent) == 4 else "    "
        if own[-1].endswith(":") and indent == "    ":
            lines.append(" " * 8 + "    pass")
    if indent != "    ":
        lines.append(indent + "pass")
    return HEAD + "\n".join([*lines, "    return v0, v1, cell, x + 1"]) + "\n"


class World:
    """The heap at the start: each number says what one place holds."""

    def __init__(self, places: Sequence[int], scope: dict[str, Any]) -> None:
        self.places, self.scope = places, scope

    def setup(self) -> None:
        Node.shared.clear()
        Node.level, Leaf.level = 0, 1
        if "late" in vars(Leaf):
            del Leaf.late  # type: ignore[attr-defined]

    def state(self) -> object:
        levels = vars(Node).get("level"), vars(Leaf).get("level"), vars(Leaf).get("late")
        return Node.shared, levels, self.scope.get("G")

    def make(self, t: Tensors) -> tuple[Any, ...]:
        a, b, s, x, y = Node(), Leaf(), Slots(), t(), t()
        row: list[Any] = []
        other: list[Any] = []
        table: dict[Any, Any] = {}
        pool = (x, a, row, 1, table, s, b, other, y, None)
        held = [pool[n % len(pool)] for n in self.places]
        a.p, a.q, b.p, s.p = held[:4]
        row += held[4:6]
        other += held[6:7]
        table.update(p=held[7], q=held[8])
        content = held[9]
        self.scope["G"] = held[10]
        Node.shared.append(held[11])

        def get() -> Any:
            return content

        def put(v: Any) -> None:
            nonlocal content
            content = v

        def drop() -> None:
            nonlocal content
            del content

        return a, b, s, row, other, table, x, y, get, put, drop, []


def program(text: str, places: Sequence[int]) -> Program:
    made = compiled_source(text, "random_heap")
    scope = made.function.__globals__
    scope.update(copy=copy, Node=Node, Leaf=Leaf, Slots=Slots)
    world = World(places, scope)
    return replace(made, make_args=world.make, setup=world.setup, state=world.state)


numbers = st.tuples(*[st.integers(0, 15)] * NUMBERS)
steps = st.lists(
    st.builds(Step, st.sampled_from(TEMPLATES), numbers, st.sampled_from([True, True, True, False])),
    min_size=1,
    max_size=16,
)
places = st.lists(st.integers(0, 9), min_size=PLACES, max_size=PLACES)
