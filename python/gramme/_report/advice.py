"""What to do about a run, first things first."""

from __future__ import annotations

import linecache
from collections import defaultdict
from dataclasses import dataclass

from .._words import advice_on
from .places import Place, reworded
from .recorder import Capture, Recorded
from .tree import Totals

__all__ = ["Advice", "advise"]

_NOTABLE = 0.2  # of the time: what takes less is no matter
_PER_BREAK = 2e-6  # seconds: what a break costs beside its instruction


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
    """The dearest first."""
    found = [*_breaks(recorded), *_recompiles(recorded), *_limits(recorded), *_compiling(recorded)]
    return sorted(found, key=lambda advice: -advice.seconds)


def _breaks(recorded: Recorded) -> list[Advice]:
    """One for each line and reason."""
    costs: dict[tuple[str, int], Totals] = defaultdict(Totals)
    for call in recorded.tree.root.walk():
        for line, totals in call.real.items():
            if call.code is not None:
                costs[call.code.co_filename, line].add(totals.count, totals.seconds)
    groups: dict[tuple[str, int, str], list[Capture]] = defaultdict(list)
    for capture in recorded.captures:
        segment = capture.segment
        if segment is not None and segment.exit in ("concrete", "handover") and segment.frames:
            frame = segment.frames[0]
            groups[frame.filename, frame.lineno or 0, segment.reason].append(capture)
    found = []
    for (file, line, reason), captures in groups.items():
        hint = next((c.segment.hint for c in captures if c.segment is not None), "")
        cost = costs.get((file, line)) or Totals(len(captures))
        what = f"breaks the graph {_times(max(cost.count, 1))}: {reason}"
        seconds = cost.seconds + cost.count * _PER_BREAK
        found.append(Advice("break", file, line, what, hint, seconds, [c.number for c in captures]))
    return found


def _recompiles(recorded: Recorded) -> list[Advice]:
    """One for each place that was captured again and each thing to do about what changed."""
    groups: dict[tuple[Place | None, str], list[Capture]] = defaultdict(list)
    for capture in recorded.captures:
        if capture.is_recompile:
            groups[capture.begins, advice_on(capture.changes[0])].append(capture)
    found = []
    for (place, hint), captures in groups.items():
        changes = list(dict.fromkeys(capture.changes[0] for capture in captures))
        seconds = sum(capture.seconds + capture.backend_seconds for capture in captures)
        file, line = (place[0].co_filename, place[1]) if place else ("", 0)
        more = f" (and {_number(len(changes) - 3, 'other change')})" if len(changes) > 3 else ""
        what = f"is captured again {_times(len(captures))}: {'; '.join(changes[:3])}{more}"
        found.append(Advice("recompile", file, line, what, hint, seconds, [capture.number for capture in captures]))
    return found


def _limits(recorded: Recorded) -> list[Advice]:
    found = []
    for refusal in recorded.refusals:
        call = recorded.tree.at(refusal.path)
        code, line = refusal.path[-1] if refusal.path else (None, 0)
        what = f"reached the recompile limit of {refusal.limit}: other calls run uncompiled. {reworded(refusal.reason)}"
        hint = advice_on(reworded(refusal.reason)) + " Or raise the limit: recompile_limit= of gramme.compile."
        file = code.co_filename if code else ""
        found.append(Advice("limit", file, line, what, hint, call.plain.seconds, []))
    return found


def _compiling(recorded: Recorded) -> list[Advice]:
    """A backend that takes much of the time."""
    backend = sum(capture.backend_seconds for capture in recorded.captures)
    if backend < _NOTABLE * recorded.seconds:
        return []
    slow = sorted(recorded.captures, key=lambda capture: -capture.backend_seconds)[:3]
    graphs = sum(1 for capture in recorded.captures if capture.graph is not None)
    share = backend / recorded.seconds
    what = f"The backend compiles {_number(graphs, 'graph')} for {backend:.2f} s, {share:.0%} of the time."
    hint = 'A process that calls more often earns it back. backend="native" compiles in milliseconds.'
    return [Advice("compile", "", 0, what, hint, backend, [capture.number for capture in slow])]


def _times(count: int) -> str:
    return "once" if count == 1 else "twice" if count == 2 else f"{count:,} times"


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"
