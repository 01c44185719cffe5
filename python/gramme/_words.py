"""Guards on sizes as the program would write them."""

from __future__ import annotations

import hashlib
import linecache
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

__all__ = ["Symbol", "in_words", "symbols"]

_PATHS: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
    (re.compile(r"L\['([^\W\d]\w*)'\]"), r"\1"),
    (re.compile(r"(?:\.__dict__)?\._(?:modules|parameters|buffers)\['(\w+)'\]"), lambda m: _part(m[1])),
    (re.compile(r"\.__dict__\['([^\W\d]\w*)'\]"), r".\1"),
    (re.compile(r"\.size\(\)\["), ".shape["),
]
_PLACE = re.compile(r" \((.*):(\d+)\)$")


class Symbol(NamedTuple):
    """A size, stride, offset or int that may be another one at the next call.

    Attributes:
        name: as in PyTorch's graphs.
        source: where it comes from, as the program would write it.
        lowest, highest: bounds; None if there is none.

    """

    name: str
    source: str
    lowest: int | None
    highest: int | None

    def __str__(self) -> str:
        low = "" if self.lowest is None else f"{self.lowest} <= "
        high = "" if self.highest is None else f" <= {self.highest}"
        return f"{self.name} = {self.source}" + (f", {low}{self.name}{high}" if low or high else "")


def symbols(rows: Sequence[tuple[str, int | None, int | None]]) -> list[Symbol]:
    """Of (source, lowest, highest), named as a ShapeEnv does by the hashes of their sources."""
    used: set[int] = set()
    found: list[Symbol] = []
    for source, lowest, highest in rows:
        number = int.from_bytes(hashlib.sha256(source.encode()).digest(), "big") % 100
        while number in used:
            number += 1
        used.add(number)
        found.append(Symbol(f"s{number}", in_words(source), lowest, highest))
    return found


def in_words(condition: str) -> str:
    """What a guard says: L['x'].size()[0] <= 4 (model.py:88) is x.shape[0] <= 4: the line, model.py:88."""
    place = _PLACE.search(condition)
    text = condition[: place.start()] if place else condition
    for pattern, words in _PATHS:
        text = pattern.sub(words, text)
    if place is None:
        return text
    code = linecache.getline(place[1], int(place[2])).strip()
    return f"{text}: {code + ', ' if code else ''}{place[1]}:{place[2]}"


def _part(name: str) -> str:
    return f"[{name}]" if name.isdecimal() else f".{name}"
