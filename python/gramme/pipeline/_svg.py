"""Pieces of SVG, and numbers with units."""

from __future__ import annotations

from html import escape


def _scaled(value: float, *units: str) -> str:
    """The number in the first unit in which it is below 1000, or in the last; each unit is 1000 of the one before."""
    for unit in units[:-1]:
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} {units[-1]}"


def size_of(count: int) -> str:
    """Bytes with a unit."""
    return _scaled(float(count), "B", "kB", "MB", "GB")


def time_of(nanoseconds: float) -> str:
    """A time with a unit."""
    return _scaled(float(nanoseconds), "ns", "us", "ms", "s")


def text(x: float, y: float, words: str, *, bold: bool = False, anchor: str = "middle") -> str:
    """Text at a position."""
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{weight}>{escape(words)}</text>'
