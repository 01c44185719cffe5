"""Draws a plan as SVG."""

from __future__ import annotations

from collections import defaultdict
from html import escape
from typing import TYPE_CHECKING

from ._gantt import chart, height_of, width_of
from ._svg import size_of, text, time_of

if TYPE_CHECKING:
    from ._plan import Plan, Portal
    from ._schedule import Schedule

_WIDTH, _GAP, _HEIGHT, _MARGIN, _ARC = 150, 70, 130, 20, 26


def _middle(stage: int) -> float:
    return _MARGIN + stage * (_WIDTH + _GAP) + _WIDTH / 2


def _column(plan: Plan, stage: int, top: float) -> list[str]:
    row, left = plan.stages[stage], _middle(stage) - _WIDTH / 2
    share = row.cost / max(1, *(each.cost for each in plan.stages))
    repeated = f" ({row.repeated} anew)" if row.repeated else ""
    lines = (
        f"{row.operations} operations{repeated}",
        f"forward {time_of(row.cost)}",
        f"parameters {size_of(row.parameters)}",
        f"results {size_of(row.results)}",
    )
    return [
        f'<rect x="{left:g}" y="{top:g}" width="{_WIDTH}" height="{_HEIGHT}" rx="4" fill="#f4f6f8" stroke="#5b6770"/>',
        f'<rect x="{left:g}" y="{top + _HEIGHT - 8:g}" width="{_WIDTH * share:.1f}" height="8" fill="#7aa5d2"/>',
        text(_middle(stage), top + 22, f"stage {stage}", bold=True),
        *(text(_middle(stage), top + 44 + 19 * i, line) for i, line in enumerate(lines)),
    ]


def _lane(plan: Plan, stage: int, top: float) -> list[str]:
    """The arrow to the next stage."""
    y, left = top + _HEIGHT / 2, _middle(stage) + _WIDTH / 2
    return [
        f'<line x1="{left:g}" y1="{y:g}" x2="{left + _GAP - 6:g}" y2="{y:g}" stroke="#5b6770" marker-end="url(#end)"/>',
        text(left + _GAP / 2, y - 7, size_of(plan.stages[stage].bytes_next)),
    ]


def _arc(portals: list[Portal], source: int, target: int, level: int, top: float, shift: float) -> list[str]:
    begin, end = _middle(source) + shift, _middle(target) - shift
    y, height = top - 4, top - _ARC * (level + 0.6)
    size = size_of(sum(portal.bytes for portal in portals))
    words = portals[0].name if len(portals) == 1 else f"{len(portals)} values"
    told = "\n".join(f"{portal.name}: {size_of(portal.bytes)} {portal.line}" for portal in portals)
    bend = min(24.0, top - height)
    path = f"M {begin:g} {y:g} C {begin:g} {height:g}, {begin + bend:g} {height:g}, {begin + bend:g} {height:g}"
    path += f" L {end - bend:g} {height:g} C {end:g} {height:g}, {end:g} {y:g}, {end:g} {y:g}"
    return [
        f'<g><title>{escape(told)}</title><path d="{path}" fill="none" stroke="#c0562f" marker-end="url(#far)"/>',
        f"{text((begin + end) / 2, height - 4, f'{words}, {size}')}</g>",
    ]


def drawing(plan: Plan, schedule: Schedule) -> str:
    """The plan as SVG: columns and arcs, below them the schedule."""
    routes: dict[tuple[int, int], list[Portal]] = defaultdict(list)
    for portal in plan.portals:
        for target in portal.targets:
            if target > portal.source + 1:
                routes[portal.source, target].append(portal)
    order = sorted(routes, key=lambda route: (route[1] - route[0], route))
    top = _MARGIN + _ARC * (len(order) + 1)
    parts = []
    for stage in range(len(plan.stages)):
        parts += _column(plan, stage, top)
        if stage + 1 < len(plan.stages):
            parts += _lane(plan, stage, top)
    for level, (source, target) in enumerate(order):
        shift = _WIDTH / 2 - 12 - (level % 8) * 8
        parts += _arc(routes[source, target], source, target, level + 1, top, shift)
    inner = max(len(plan.stages) * (_WIDTH + _GAP) - _GAP, width_of(schedule))
    below = top + _HEIGHT + 2 * _MARGIN
    parts += chart(schedule, plan.simulate(schedule), _MARGIN, below, inner)
    width, height = inner + 2 * _MARGIN, below + height_of(schedule) + _MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}"'
        ' font-family="sans-serif" font-size="12" fill="#20262b">'
    )
    tips = [
        f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M 0 0 L 8 4 L 0 8 z" fill="{color}"/></marker>'
        for name, color in (("end", "#5b6770"), ("far", "#c0562f"))
    ]
    paper = f'<rect width="{width:g}" height="{height:g}" fill="white"/>'
    return "\n".join((head, "<defs>", *tips, "</defs>", paper, *parts, "</svg>\n"))
