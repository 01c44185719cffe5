"""Pieces of SVG, and numbers as people write them."""

from __future__ import annotations

from html import escape


def size_of(count: int) -> str:
    """Bytes as people write them."""
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"


def time_of(nanoseconds: float) -> str:
    """A time as people write it."""
    time = float(nanoseconds)
    for unit in ("ns", "us", "ms"):
        if time < 1000:
            return f"{time:.3g} {unit}"
        time /= 1000
    return f"{time:.3g} s"


def text(x: float, y: float, words: str, *, bold: bool = False, anchor: str = "middle") -> str:
    """Words at a place."""
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{weight}>{escape(words)}</text>'
