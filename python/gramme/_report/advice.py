"""Advice on a run, the most important first."""

from __future__ import annotations

import linecache
import re
from collections import defaultdict
from dataclasses import dataclass
from traceback import FrameSummary

from .._stack import is_programs
from .places import Place, first_line, reworded
from .recorder import Capture, Recorded
from .tree import Totals

__all__ = ["Advice", "advise"]

_NOTABLE = 0.2  # fraction of the time: less is ignored
_LEAST = 0.01  # seconds: less is ignored in short recordings too
_PER_BREAK = 2e-6  # seconds: cost of a break beside its instruction
_BEHIND = "It begins behind a break: remove the break first, and this may go with it."
_SHAPES = re.compile(r": shape changed from \[([\d, ]*)\] to \[([\d, ]*)\]$")


@dataclass
class Advice:
    """One thing to do.

    Attributes:
        kind: "break", "recompile", "limit" or "compile".
        file, line: of the program; "" and 0 if it is about the whole run.
        what: what happens there and how often.
        hint: what to do; may be empty.
        seconds: what it cost, or an estimate.
        captures: the numbers of the segments that it is about.

    """

    kind: str
    file: str
    line: int
    what: str
    hint: str
    seconds: float
    captures: list[int]

    @property
    def code(self) -> str:
        return linecache.getline(self.file, self.line).strip() if self.file else ""


def advise(recorded: Recorded) -> list[Advice]:
    """Sorts advice by cost; what may only follow from a break comes after the breaks of its file."""
    breaks = _breaks(recorded)
    recompiles = _recompiles(recorded, {(each.file, each.line) for each in breaks})
    least: dict[str, float] = {}
    for each in breaks:
        least[each.file] = min(each.seconds, least.get(each.file, each.seconds))
    ranked = [(each.seconds, each) for each in (*breaks, *_limits(recorded), *_compiling(recorded))]
    for each, follows in recompiles:
        rank = min(each.seconds, least.get(each.file, each.seconds)) if follows else each.seconds
        ranked.append((rank, each))
    return [each for _, each in sorted(ranked, key=lambda row: -row[0])]  # stable: breaks first


def _breaks(recorded: Recorded) -> list[Advice]:
    """Advice on breaks, one for each line of the program."""
    costs: dict[tuple[str, int], Totals] = defaultdict(Totals)
    for call in recorded.tree.root.walk():
        for line, totals in call.real.items():
            if call.code is not None:
                costs[call.code.co_filename, line].add(totals.count, totals.seconds)
    groups: dict[tuple[str, int], list[Capture]] = defaultdict(list)
    for capture in recorded.captures:
        segment = capture.segment
        if segment is not None and segment.exit in ("concrete", "handover") and segment.frames:
            groups[_place_of(segment.frames, capture.path)].append(capture)
    found = []
    for (file, line), captures in groups.items():
        segments = [capture.segment for capture in captures if capture.segment is not None]
        segments.sort(key=lambda segment: segment.frames[0].filename != file)  # breaks of the line itself first
        cost = costs.get((file, line)) or Totals(len(captures))
        what = f"breaks the graph {_times(max(cost.count, 1))}: {_some([segment.reason for segment in segments], 2)}"
        hint = next((segment.hint for segment in segments if segment.hint), "")
        seconds = cost.seconds + cost.count * _PER_BREAK
        found.append(Advice("break", file, line, what, hint, seconds, [c.number for c in captures]))
    return found


def _place_of(frames: list[FrameSummary], path: list[Place]) -> tuple[str, int]:
    """The program's line with the break, or with the call of the library that has it."""
    for frame in frames:
        if is_programs(frame.filename):
            return frame.filename, frame.lineno or 0
    if path:
        return path[-1][0].co_filename, path[-1][1]
    return frames[0].filename, frames[0].lineno or 0


def _recompiles(recorded: Recorded, broken: set[tuple[str, int]]) -> list[tuple[Advice, bool]]:
    """Advice for each place captured again and each remedy, and whether the place is after a break."""
    groups: dict[tuple[Place | None, str, bool], list[Capture]] = defaultdict(list)
    for capture in recorded.captures:
        if capture.is_recompile and not _is_of_0_or_1(capture.changes[0].text):
            place = capture.begins or capture.caller
            breaks_there = place is not None and (place[0].co_filename, place[1]) in broken
            follows = breaks_there or (capture.begins is not None and not _is_at_start(capture.begins))
            groups[place, _BEHIND if follows else capture.changes[0].hint, follows].append(capture)
    found = []
    for (place, hint, follows), captures in groups.items():
        seconds = sum(capture.seconds + capture.backend_seconds for capture in captures)
        file, line = (place[0].co_filename, place[1]) if place else ("", 0)
        what = f"is captured again {_times(len(captures))}: {_some([c.changes[0].text for c in captures], 3)}"
        numbers = [capture.number for capture in captures]
        found.append((Advice("recompile", file, line, what, hint, seconds, numbers), follows))
    return found


def _is_at_start(place: Place) -> bool:
    """Whether a segment at this place begins with the function rather than after a break."""
    code, line = place
    return line == first_line(code, code.co_firstlineno)


def _is_of_0_or_1(change: str) -> bool:
    """Whether only sizes to or from 0 or 1 changed, which are always captured separately."""
    found = _SHAPES.search(change)
    if found is None:
        return False
    before, after = ([*filter(None, text.split(", "))] for text in found.groups())
    if len(before) != len(after):
        return False
    return all({"0", "1"} & {old, new} for old, new in zip(before, after, strict=True) if old != new)


def _limits(recorded: Recorded) -> list[Advice]:
    found = []
    for refusal in recorded.refusals:
        call = recorded.tree.at(refusal.path)
        code, line = refusal.path[-1] if refusal.path else (None, 0)
        why = reworded(refusal.reason.text)
        what = f"reached the recompile limit of {refusal.limit}: other calls run uncompiled. {why}"
        hint = refusal.reason.hint + " Or raise the limit: recompile_limit= of gramme.compile."
        file = code.co_filename if code else ""
        found.append(Advice("limit", file, line, what, hint, call.plain.seconds, []))
    return found


def _compiling(recorded: Recorded) -> list[Advice]:
    """Advice if a backend takes much of the time."""
    backend = sum(capture.backend_seconds for capture in recorded.captures)
    if backend < max(_LEAST, _NOTABLE * recorded.seconds):
        return []
    slow = sorted(recorded.captures, key=lambda capture: -capture.backend_seconds)[:3]
    graphs = sum(1 for capture in recorded.captures if capture.graph is not None)
    share = backend / recorded.seconds
    what = f"The backend compiles {_number(graphs, 'graph')} for {backend:.2f} s, {share:.0%} of the time."
    hint = 'A process that calls more often earns it back. backend="native" compiles in milliseconds.'
    return [Advice("compile", "", 0, what, hint, backend, [capture.number for capture in slow])]


def _times(count: int) -> str:
    return "once" if count == 1 else "twice" if count == 2 else f"{count:,} times"


def _some(texts: list[str], most: int) -> str:
    """The first of several texts without duplicates, and the number of the others."""
    different = list(dict.fromkeys(texts))
    more = f" (and {_number(len(different) - most, 'other')})" if len(different) > most else ""
    return "; ".join(different[:most]) + more


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"
