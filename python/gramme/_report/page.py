"""Renders the page: fills the template with views of a recording."""

from __future__ import annotations

import base64
import datetime
import pathlib
import re
import sys
import zlib
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

import jinja2
import torch

from .._explain import Segment
from .advice import advise
from .graphs import Graph, backward_of
from .places import reworded, short, words_of_place
from .recorder import BINS, Capture, Recorded
from .source import Function, Graphs, functions_of

__all__ = ["count_text", "parts_of", "render", "time_text", "totals_of", "write"]

_FOLDER = pathlib.Path(__file__).parent
_MOST_BACKWARDS = 40
_MOST_EVENTS = 300
_SOURCE = re.compile(r"[A-Za-z_]\w*(?:\.\w+|\[[^\]]*\])*")


@dataclass
class Part:
    """A part of the time."""

    name: str
    words: str
    seconds: float
    share: float


@dataclass
class Panel:
    """The panel that a click on a segment shows."""

    capture: Capture
    segment: Segment | None
    title: str
    place: str
    ends: str
    backward: Graph | str
    guards: list[tuple[str, list[str], float]]
    costs: list[tuple[str, float]]
    effects: list[str]


def write(recorded: Recorded, path: str | pathlib.Path) -> None:
    """Writes the page; the folder has to be there."""
    pathlib.Path(path).write_text(render(recorded), encoding="utf-8")


def render(recorded: Recorded) -> str:
    """The page as text."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "pack": packed,
        "hue": hue,
        "time": time_text,
        "short": short,
        "words": reworded,
        "count": count_text,
    }
    style, script, layout, terms = (
        (_FOLDER / name).read_text("utf-8") for name in ("page.css", "page.js", "dagre.js", "dagre.LICENSE")
    )
    labels = {capture.number: str(i) for i, capture in enumerate(recorded.captures, 1)}
    return environment.get_template("page.html").render(
        title=", ".join(filter(None, (pathlib.Path(sys.argv[0]).name or "interactive", recorded.rank))),
        when=datetime.datetime.now().strftime("%Y-%m-%d %H:%M"),
        versions=f"torch {torch.__version__}, Python {sys.version.split()[0]}",
        recorded=recorded,
        totals=totals_of(recorded),
        advice=advise(recorded),
        parts=parts_of(recorded),
        timeline=_timeline(recorded),
        events=_events(recorded)[:_MOST_EVENTS],
        events_left_out=max(len(recorded.captures) - _MOST_EVENTS, 0),
        functions=_functions(recorded),
        panels=_panels(recorded),
        labels=labels,
        style=style,
        script=script,
        layout=f"/*\n{terms}*/\n{layout}",
    )


def time_text(seconds: float) -> str:
    """1.23 s, 4.56 ms, 7.89 us."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            value = seconds / scale
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def packed(text: str) -> str:
    """A part of the page, deflated, in base64: page.js puts it back when it is opened."""
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def hue(label: str) -> int:
    """The hue of a segment in degrees: neighbours differ, and none is the red of breaks."""
    return 75 + int(label) * 67 % 210


def count_text(number: int, what: str) -> str:
    """1 graph, 12 graphs."""
    plural = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{number:,} {what if number == 1 else plural}"


def totals_of(recorded: Recorded) -> list[tuple[str, int, str]]:
    """(words, number, kind) for each count at the top."""
    captures = recorded.captures
    segments = [c.segment for c in captures if c.segment is not None]
    runs = sum(c.runs.count for c in captures)
    first = sum(1 for c in captures if c.runs.count and c.start >= 0 and not c.shared)
    calls = list(recorded.tree.root.walk())
    breaks = sum(totals.count for call in calls for totals in call.real.values())
    rows = [
        ("graph", "", sum(1 for s in segments if s.operations), "captured"),
        ("operation", " in them", sum(s.operations for s in segments), "captured"),
        ("run", " from the cache", max(runs - first, 0), "captured"),
        ("capture", "", sum(1 for c in captures if c.start >= 0 and not c.shared), "time"),
        ("recompile", "", sum(1 for c in captures if c.is_recompile), "time"),
        ("break", " in all runs", breaks, "real"),
        ("run", " uncompiled", sum(call.plain.count for call in calls), "uncompiled"),
    ]
    if shared := sum(1 for c in captures if c.shared):
        rows.insert(4, ("segment", " taken from equal code", shared, "time"))
    return [(f"{what}{'s' * (number != 1)}{more}", number, kind) for what, more, number, kind in rows]


def parts_of(recorded: Recorded) -> list[Part]:
    captures = recorded.captures
    calls = list(recorded.tree.root.walk())
    seconds = {
        ("captured", "graphs, running"): sum(c.runs.seconds for c in captures),
        ("capture", "capturing: gramme reads the program"): sum(c.seconds for c in captures),
        ("backend", "compiling: the backend"): sum(c.backend_seconds for c in captures),
        ("real", "breaks: instructions run in Python"): sum(
            totals.seconds for call in calls for totals in call.real.values()
        ),
        ("uncompiled", "functions run uncompiled"): sum(call.plain.seconds for call in calls),
    }
    known = sum(seconds.values())
    whole = max(recorded.seconds, known, 1e-9)
    seconds["rest", "the rest: the program around, backward passes, guards"] = whole - known
    return [Part(name, words, value, value / whole) for (name, words), value in seconds.items()]


def _timeline(recorded: Recorded) -> dict[str, Any]:
    """Boxes and bars in thousandths of the time."""
    whole = max(recorded.seconds, 1e-9)
    hits: Counter[int] = Counter()
    for capture in recorded.captures:
        for part, count, _ in capture.bins:
            hits[part] += count
    most = max(hits.values(), default=1)
    bars = [
        (part * 1000 / BINS, 1000 / BINS, 4 + 36 * (count / most) ** 0.5, count) for part, count in sorted(hits.items())
    ]
    boxes = [
        (c, c.start / whole * 1000, max((c.seconds + c.backend_seconds) / whole * 1000, 1.5))
        for c in recorded.captures
        if c.start >= 0 and (c.backend_seconds or not c.shared)
    ]
    ticks = [(i * 250, time_text(whole * i / 4) if i else "0") for i in range(5)]
    return {"bars": bars, "boxes": boxes, "ticks": ticks}


def _events(recorded: Recorded) -> list[tuple[Capture, str, str, str]]:
    """(capture, kind, where, the line that called)."""
    rows = []
    for capture in recorded.captures:
        if capture.start < 0:
            continue
        kind = "shared" if capture.shared else "recompile" if capture.is_recompile else "capture"
        caller = words_of_place(capture.caller) if capture.caller else ""
        rows.append((capture, kind, words_of_place(capture.begins) if capture.begins else _title(capture), caller))
    return rows


def _functions(recorded: Recorded) -> list[Function]:
    operations: Counter[tuple[str, int]] = Counter()
    for capture in recorded.captures:
        operations.update(capture.operations())
    seconds = {capture.number: capture.runs.seconds for capture in recorded.captures}
    return functions_of(recorded.tree.root, Graphs(operations, seconds))


def _title(capture: Capture) -> str:
    """The function of the program in which it begins."""
    if capture.begins is not None:
        return capture.begins[0].co_qualname
    return capture.segment.function if capture.segment is not None else "a function"


def _panels(recorded: Recorded) -> list[Panel]:
    panels = []
    backwards = 0
    for capture in recorded.captures:
        segment = capture.segment
        backward: Graph | str = ""
        if capture.graph is not None and capture.graph.grads is not None:
            backwards += 1
            backward = backward_of(capture.graph) if backwards <= _MOST_BACKWARDS else "Left out: there are many."
        place = f"{short(capture.begins[0].co_filename)}:{capture.begins[1]}" if capture.begins else ""
        guards, costs = _by_source(segment) if segment else ([], [])
        effects = [*map(reworded, segment.effects)] if segment else []
        panels.append(Panel(capture, segment, _title(capture), place, _end(segment), backward, guards, costs, effects))
    return panels


def _end(segment: Segment | None) -> str:
    """The end of a segment, in words."""
    if segment is None:
        return "The function cannot be captured: it runs uncompiled."
    at = f" at {short(segment.frames[0].filename)}:{segment.frames[0].lineno}" if segment.frames else ""
    ways = {
        "return": "It ends where the function returns.",
        "yield": "It ends where the generator yields.",
        "concrete": f"It ends{at}: {segment.reason}.",
        "handover": f"From here the function runs uncompiled{at}: {segment.reason}.",
    }
    return ways[segment.exit]


def _by_source(segment: Segment) -> tuple[list[tuple[str, list[str], float]], list[tuple[str, float]]]:
    """Guards grouped by variable or module, with their costs, and other costs of the check."""
    groups: dict[str, list[str]] = defaultdict(list)
    for guard in segment.guards:
        text = reworded(guard)
        groups[_root(text.partition("(")[2] if text.startswith(("type(", "len(", "id(")) else text)].append(text)
    costs: dict[str, float] = defaultdict(float)
    for what, seconds in segment.check_costs:
        words = reworded(what)
        root = words if " " in words else _root(words)
        costs[root if root in groups else words] += seconds
    rows = [(root, texts, costs.pop(root, 0)) for root, texts in groups.items()]
    return sorted(rows, key=lambda row: (-row[2], -len(row[1]))), sorted(costs.items(), key=lambda row: -row[1])


def _root(text: str) -> str:
    found = _SOURCE.search(text)
    return re.split(r"[.\[]", found[0], maxsplit=1)[0] if found else "the process"
