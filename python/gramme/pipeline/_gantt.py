"""Draws a schedule as a Gantt chart in SVG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from ._svg import size_of, text, time_of

if TYPE_CHECKING:
    from ._schedule import Schedule
    from ._simulate import Simulation, Span

_LABEL, _FACTS, _ROW, _GAP, _LETTERS, _CELL, _WIDEST = 90, 190, 30, 8, 8.0, 16, 2400
_COLORS = {"F": "#7aa5d2", "B": "#e0935f", "I": "#e0935f", "W": "#93bf85"}
_WORDS = {"F": "forward", "B": "backward", "I": "backward for inputs", "W": "backward for weights"}


def width_of(schedule: Schedule) -> float:
    """The width of a chart in which most cells have room for their number."""
    cells = max(len(list(schedule.computations(rank))) for rank in range(len(schedule.rows)))
    return _LABEL + min(_WIDEST, cells * 1.6 * _CELL) + _FACTS


def height_of(schedule: Schedule) -> float:
    """The height with title, axis and legend."""
    return 34 + len(schedule.rows) * (_ROW + _GAP) + 52


def _cell(span: Span, left: float, top: float, width: float) -> list[str]:
    number = str(span.action.micro_batch)
    told = f"{span.action}: {_WORDS[span.action.kind]}, {time_of(span.start)} to {time_of(span.end)}"
    color = _COLORS[span.action.kind]
    box = f'<rect x="{left:.2f}" y="{top:g}" width="{width:.2f}" height="{_ROW}" fill="{color}" stroke="white"/>'
    label = [text(left + width / 2, top + _ROW / 2 + 4, number)] if width >= _LETTERS * len(number) else []
    return [f'<g class="cell"><title>{escape(told)}</title>{box}', *label, "</g>"]


def _ticks(time: float, left: float, width: float, y: float) -> list[str]:
    """A few round times."""
    step = 10.0 ** len(str(int(time / 4))) / 10 if time >= 4 else 1.0
    step = next(step * factor for factor in (1, 2, 5, 10) if time / (step * factor) <= 8)
    parts = []
    for i in range(int(time / step) + 1):
        x = left + width * i * step / time
        parts.append(f'<line x1="{x:.2f}" y1="{y:g}" x2="{x:.2f}" y2="{y + 5:g}" stroke="#5b6770"/>')
        parts.append(text(x, y + 18, time_of(i * step)))
    return parts


def _legend(kinds: Sequence[str], left: float, y: float) -> list[str]:
    parts = []
    for kind in kinds:
        parts.append(f'<rect x="{left:g}" y="{y - 10:g}" width="12" height="12" fill="{_COLORS[kind]}"/>')
        parts.append(text(left + 18, y, _WORDS[kind], anchor="start"))
        left += 40 + 7 * len(_WORDS[kind])
    return parts


def chart(schedule: Schedule, found: Simulation, left: float, top: float, width: float) -> list[str]:
    """Rows of cells by rank, with the part of the time in which a rank waits, and what its stages hold at most.

    Args:
        schedule: who does what.
        found: when; times are nanoseconds.
        left: where it begins.
        top: the same.
        width: of all of it.

    """
    begin, room = left + _LABEL, width - _LABEL - _FACTS
    title = (
        f"{schedule.micro_batches} micro-batches: a step takes {time_of(found.time)} by estimate, "
        f"{found.bubble:.0%} of it waiting (bubble)"
    )
    parts = [text(left, top + 16, title, bold=True, anchor="start")]
    y = top + 34
    for rank in range(len(schedule.rows)):
        spans = [span for span in found.spans if span.rank == rank]
        stages = sorted({span.action.stage for span in spans})
        busy = sum(span.end - span.start for span in spans)
        name = f"stage {stages[0]}" if len(stages) == 1 else f"stages {', '.join(map(str, stages))}"
        held = size_of(sum(found.peak_bytes[stage] for stage in stages))
        parts.append(text(begin - 8, y + _ROW / 2 + 4, name, anchor="end"))
        parts.append(f'<rect x="{begin:g}" y="{y:g}" width="{room:g}" height="{_ROW}" fill="#eef1f4"/>')
        for span in spans:
            scale = room / found.time
            parts += _cell(span, begin + span.start * scale, y, (span.end - span.start) * scale)
        facts = f"bubble {1 - busy / found.time:.0%}, peak {held}"
        parts.append(text(begin + room + 10, y + _ROW / 2 + 4, facts, anchor="start"))
        y += _ROW + _GAP
    parts += _ticks(found.time, begin, room, y)
    kinds = [kind for kind in _WORDS if any(span.action.kind == kind for span in found.spans)]
    return [*parts, *_legend(kinds, begin, y + 42)]
