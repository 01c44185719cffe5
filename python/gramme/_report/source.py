"""The source of each function of the tree, with the state of its lines."""

from __future__ import annotations

import linecache
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from .places import short
from .tree import Call, Totals

__all__ = ["Function", "Graphs", "Line", "functions_of"]

_WHOLE = 40  # functions up to this many lines are shown whole
_AROUND = 2  # context lines around relevant ones, in longer functions
_OPEN_DEPTH = 4


@dataclass
class Line:
    """A line of source; of a gap, how many are left out.

    Attributes:
        kind: "captured", "real", "uncompiled" or "" (not reached).
        begins: it is the first of its band.
        segments: what stands for it.
        operations: of graphs, from this line or below it.
        seconds: of a band's first line: what all runs of its segments' graphs took.
        cost: what carrying it out for real took.
        calls: the functions that it calls.

    """

    number: int
    text: str
    kind: str = ""
    begins: bool = False
    segments: list[int] = field(default_factory=list)
    operations: int = 0
    seconds: float = 0.0
    cost: Totals | None = None
    calls: list[Function] = field(default_factory=list)
    gap: int = 0


@dataclass
class Function:
    """A function as called from one line; `is_packed`: what it shows may wait until somebody opens it."""

    name: str
    place: str
    lines: list[Line]
    is_open: bool
    uncompiled: Totals | None
    is_packed: bool

    @property
    def summary(self) -> str:
        """The function's state, in a few words."""
        segments = {number for line in self.lines for number in line.segments}
        parts = [f"{len(segments)} segment{'s' * (len(segments) != 1)}"] if segments else []
        real = sum(1 for line in self.lines if line.kind == "real")
        if real:
            parts.append(f"{real} break{'s' * (real != 1)}")
        if self.uncompiled is not None:
            parts.append("run uncompiled")
        return ", ".join(parts)


@dataclass
class Graphs:
    """Facts about graphs: operations by file and line, seconds by segment number."""

    operations: Mapping[tuple[str, int], int]
    seconds: Mapping[int, float]


def functions_of(root: Call, graphs: Graphs) -> list[Function]:
    """The outermost functions of the tree."""
    return [_function(call, graphs, 0, True) for call in root.calls.values()]


def _function(call: Call, graphs: Graphs, depth: int, shown: bool) -> Function:
    code = call.code
    assert code is not None
    is_open = shown and (depth < _OPEN_DEPTH or call.is_troubled)
    called: dict[int, list[Call]] = {}
    for (_, line), each in call.calls.items():
        called.setdefault(line, []).append(each)
    lines = [
        _line(call, code, number, graphs) if number else Line(0, "", gap=gap)
        for number, gap in _shown(code, {*call.captured, *call.real, *called, *filter(None, [call.uncompiled])})
    ]
    for made in lines:
        made.calls = [_function(each, graphs, depth + 1, is_open) for each in called.get(made.number, ())]
    _mark_bands(lines, graphs)
    name = "module" if code.co_name == "<module>" else code.co_qualname
    place = f"{short(code.co_filename)}:{code.co_firstlineno}"
    return Function(name, place, lines, is_open, call.plain if call.uncompiled else None, shown and not is_open)


def _line(call: Call, code: types.CodeType, number: int, graphs: Graphs) -> Line:
    text = linecache.getline(code.co_filename, number).rstrip("\n")
    real, segments = call.real.get(number), sorted(call.captured.get(number, ()))
    after = bool(call.uncompiled) and number >= call.uncompiled and number in {at for _, _, at in code.co_lines()}
    kind = "real" if real else "captured" if segments else "uncompiled" if after else ""
    inside = graphs.operations.get((code.co_filename, number), 0) if segments else 0
    return Line(number, text, kind, segments=segments, operations=inside, cost=real)


def _mark_bands(lines: list[Line], graphs: Graphs) -> None:
    before: tuple[str, list[int]] = ("", [])
    for line in lines:
        band = (line.kind, line.segments)
        line.begins = bool(line.kind) and band != before
        if line.begins:
            line.seconds = sum(graphs.seconds.get(number, 0.0) for number in line.segments)
        before = band


def _shown(code: types.CodeType, marked: set[int]) -> Iterator[tuple[int, int]]:
    """Numbers of lines; (0, count) where some are left out."""
    known = {line for _, _, line in code.co_lines() if line}
    first, last = code.co_firstlineno, max(known | marked, default=code.co_firstlineno)
    if code.co_name == "<module>":
        known = set()
    whole = last - first < _WHOLE and bool(known)
    near = {at + i for at in marked for i in range(-_AROUND, _AROUND + 1)} | {first}
    kept = sorted(number for number in range(max(first, 1), last + 1) if whole or number in near)
    before = first - 1
    for number in kept:
        if number > before + 1:
            yield 0, number - before - 1
        yield number, 0
        before = number
    if last > before:
        yield 0, last - before
