"""Pieces of SVG, and numbers as people write them."""

from __future__ import annotations

from html import escape


def _scaled(value: float, *units: str) -> str:
    """In the first unit in which it is less than 1000, or in the last; each is 1000 of the one before."""
    for unit in units[:-1]:
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} {units[-1]}"


def size_of(count: int) -> str:
    """Bytes as people write them."""
    return _scaled(float(count), "B", "kB", "MB", "GB")


def time_of(nanoseconds: float) -> str:
    """A time as people write it."""
    return _scaled(float(nanoseconds), "ns", "us", "ms", "s")


def text(x: float, y: float, words: str, *, bold: bool = False, anchor: str = "middle") -> str:
    """Words at a place."""
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{weight}>{escape(words)}</text>'
