"""Recordings: events of captures from C++ while one runs, and the counts at its end."""

from __future__ import annotations

import types
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from .. import _C
from .._explain import Segment
from .._stack import FramePlace, callers_of, is_programs, shown_place
from .._words import Change, rank_words
from .graphs import Graph, graph_of
from .places import Place, first_line, reworded
from .tree import Totals, Tree

if TYPE_CHECKING:
    import pathlib

    from .._events import Id, Missed, Told

__all__ = ["BINS", "Capture", "Recorded", "Recorder", "Refusal"]

BINS = 400  # equal parts of the time for counting runs


@dataclass
class Capture:
    """One capture, and the runs of its segment.

    Attributes:
        number: of the segment, among all of the process; -1 if the frame runs uncompiled.
        segment: what it came to; None likewise, and for one that was captured before the recording began and is gone.
        path: the program's frames that were running, the outermost first.
        begins: the first line of the program that the segment stands for; None if it stands for none.
        start: seconds since the recording began; negative if it was captured before.
        shared: it was no capture: another compiled function of equal code had the segment, or its graph, which the
            backend then compiled.
        seconds: what gramme took for it; backend_seconds: what the backend took, within.
        reasons: the guards that failed of the segments that were there, the last used first.
        graph: its graph, or None if it has no operations.
        runs: of its graph, but for the calls before the recording began.
        bins: (part of the time, runs, seconds) for each of BINS parts in which it ran.

    """

    number: int
    segment: Segment | None
    path: list[Place]
    begins: Place | None = None
    start: float = -1.0
    seconds: float = 0.0
    backend_seconds: float = 0.0
    reasons: list[Change] = field(default_factory=list)
    graph: Graph | None = None
    runs: Totals = field(default_factory=Totals)
    bins: list[tuple[int, int, float]] = field(default_factory=list)
    tape: str = ""
    shared: bool = False

    def operations(self) -> Counter[tuple[str, int]]:
        """How many of the graph's calls come from a line of the program, or from below it."""
        found: Counter[tuple[str, int]] = Counter()
        for stack in self.graph.stacks if self.graph is not None else ():
            lines = {(frame.file, frame.line) for frame in stack}
            found.update(lines | _callers_of(stack[0], self.path) if stack else lines)
        return found

    @property
    def caller(self) -> Place | None:
        """The program's line that called the function in which the segment begins."""
        outside = self.path[:-1] if self.path and self.begins and self.path[-1][0] is self.begins[0] else self.path
        return outside[-1] if outside else None

    @property
    def changes(self) -> list[Change]:
        """The changes that caused recompiles, without duplicates, with a text in words."""
        told = (why._replace(text=reworded(why.text)) for why in self.reasons if not why.is_path)
        return list(dict.fromkeys(told))

    @property
    def is_recompile(self) -> bool:
        return bool(self.changes)


@dataclass
class Refusal:
    """A place that reached the recompile limit: calls that no segment serves run uncompiled there."""

    path: list[Place]
    limit: int
    reason: Change


@dataclass
class Recorded:
    """A run: its captures, in their order, its tree of calls, and how long it took in seconds."""

    seconds: float
    captures: list[Capture]
    refusals: list[Refusal]
    tree: Tree
    runs_kept: int
    rank: str = ""
    """In a process group of several processes: "rank 0 of 2"."""

    def begins(self, number: int) -> Place | None:
        """The first line of the program that a segment stands for, if it was captured in the recording."""
        return next((capture.begins for capture in self.captures if capture.number == number), None)

    def save(self, path: str | pathlib.Path) -> None:
        """Writes the report, one page of HTML that needs nothing else."""
        from .page import write

        write(self, path)


class Recorder:
    """Listens from `start` to `stop`. There is one at a time in a process."""

    under_way: Recorder | None = None

    def __init__(self, base: types.CodeType | None = None) -> None:
        """`base`: the function that records; frames outside it are not shown."""
        self._base = base
        self._captures: dict[int, Capture] = {}
        self._refusals: list[Refusal] = []
        self._met: dict[tuple[types.CodeType, int, bool], list[Place]] = {}
        self._lines: list[tuple[list[Place], Any, int]] = []
        self._reasons: list[Change] = []
        self._graph: Graph | None = None
        self._unnumbered = 0

    def start(self) -> None:
        """Raises ValueError if a recording is under way already."""
        _C.start_recording(self)
        Recorder.under_way = self

    def stop(self) -> Recorded:
        """What was recorded."""
        Recorder.under_way = None
        said = _C.stop_recording(BINS)
        alive = dict(said["alive"])
        for number, row in said["runs"].items():
            self._count(number, row, alive.get(number))
        for number, capture in self._captures.items():
            if number not in alive or capture.segment is None:
                continue
            capture.segment.check_seconds = alive[number]["check_seconds"]
            capture.segment.check_costs = alive[number]["check_costs"]
            if alive[number]["native"] is not None:
                capture.tape = _C.native.tape(alive[number]["native"])
        tree = self._tree(said["places"])
        return Recorded(said["seconds"], self._in_order(), self._refusals, tree, said["runs_kept"], rank_words())

    def _count(self, number: int, row: dict[str, Any], alive: dict[str, Any] | None) -> None:
        """Adds the runs of a segment, which may have been captured before the recording began."""
        if number not in self._captures:
            segment = Segment.from_row(alive) if alive else None
            self._captures[number] = Capture(number, segment, [])
        capture = self._captures[number]
        capture.runs.add(row["count"], row["seconds"], row["longest"])
        capture.bins = row["bins"]

    def _in_order(self) -> list[Capture]:
        return sorted(self._captures.values(), key=lambda capture: (capture.start, capture.number))

    def _tree(self, places: list[dict[str, Any]]) -> Tree:
        tree = Tree()
        for path, lines, number in self._lines:
            tree.capture(path, lines, number)
        for row in places:
            totals = Totals(row["count"], row["seconds"], row["longest"], row["operations"])
            if met := self._met.get((row["code"], row["line"], row["plain"])):
                (tree.ran_uncompiled if row["plain"] else tree.carried_out)(met, totals)
        return tree

    # Called by C++ (_events.py); `met` is for recordings only.

    def recompiling(self, *, reasons: list[Missed], **_: Any) -> None:
        self._reasons = [Change(*why) for _, why in reasons]

    def graph(self, *, module: torch.fx.GraphModule, captured: _C.Captured, **_: Any) -> None:
        self._graph = graph_of(module, captured)

    def failed(self, **_: Any) -> None:
        self._reasons, self._graph = [], None

    def captured(
        self,
        *,
        code: types.CodeType,
        line: int,
        number: int,
        row: dict[str, Any] | None,
        lines: list[tuple[types.CodeType, int, int]],
        start: float,
        seconds: float,
        backend_seconds: float,
        taken: Id | None,
        **_: Any,
    ) -> None:
        path = self._path(code, line)
        if number < 0:
            self._unnumbered -= 1
            number = self._unnumbered
        reasons, self._reasons = self._reasons, []
        graph, self._graph = self._graph, None
        segment = Segment.from_row({**row, "graph": None, "native": None}) if row else None
        backend = max(backend_seconds, 0.0)
        begins = next(((at, first_line(at, reached)) for at, reached, _ in lines if is_programs(at.co_filename)), None)
        capture = Capture(number, segment, path, begins, start, max(seconds - backend, 0.0), backend, reasons)
        capture.shared = taken is not None
        capture.graph = graph if segment is not None and segment.operations else None
        self._captures[number] = capture
        self._lines.append((path, lines, number))

    def shared(
        self,
        *,
        code: types.CodeType,
        line: int,
        number: int,
        row: dict[str, Any],
        start: float,
        first: object = None,
        **_: Any,
    ) -> None:
        segment = Segment.from_row({**row, "graph": None, "native": None})
        place = shown_place(code, line, first)
        begins = place if is_programs(place[0].co_filename) else None
        self._captures[number] = Capture(number, segment, self._path(code, line), begins, start, shared=True)

    def limit(self, *, code: types.CodeType, line: int, limit: int, reason: Told, **_: Any) -> None:
        self._refusals.append(Refusal(self._path(code, line), limit, Change(*reason)))

    def met(self, code: types.CodeType, line: int, plain: bool) -> None:
        """An instruction is about to run in Python, or a frame uncompiled, for the first time at this place."""
        self._met[code, line, plain] = self._path(code, line)

    def _path(self, code: types.CodeType, line: int) -> list[Place]:
        """The program's frames from the recording one to the code's, which is at the line."""
        own = [(code, line)] if is_programs(code.co_filename) else []
        return [*callers_of(code, self._base)[::-1], *own]


def _callers_of(frame: FramePlace, path: list[Place]) -> set[tuple[str, int]]:
    """The lines that led to a frame of the path: a segment may begin and continue deep in calls."""
    known = [(code.co_filename, code.co_name) for code, _ in path]
    at = next((i for i in reversed(range(len(known))) if known[i] == (frame.file, frame.function)), len(known))
    return {(code.co_filename, line) for code, line in path[:at]}
