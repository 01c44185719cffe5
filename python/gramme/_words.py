"""Guards on sizes as the program would write them."""

from __future__ import annotations

import hashlib
import linecache
import logging
import os
import re
import types
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from ._stack import is_shown

__all__ = [
    "Change",
    "Symbol",
    "called_place",
    "in_words",
    "module_words",
    "nothing_captured",
    "rank_words",
    "recompile_limit",
    "symbols",
]

_LOCAL = re.compile(r"L\['(?:___caller\d+_)?([^\W\d]\w*)'\]")
_STACK = r"(?:L\[')?(?:___caller\d+_)?___stack\d+(?:'\])?"
_PATHS: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
    (re.compile(rf"list\({_STACK}\)\[\d+\] is gone"), "the loop has no next item"),
    (re.compile(rf"list\({_STACK}\)\[\d+\]"), "next_item"),
    (re.compile(rf"Content {_STACK} = {_STACK}"), "the loop's iterator advances"),
    (re.compile(_STACK), "value"),
    (_LOCAL, r"\1"),
    (re.compile(r"G\['__import_(\w+)'\]"), lambda m: m[1].replace("_dot_", ".")),
    (re.compile(r"G\['([^\W\d]\w*)'\]"), r"\1"),
    (re.compile(r"(?:\.__dict__)?\._(?:modules|parameters|buffers)\['(\w+)'\]"), lambda m: _part(m[1])),
    (re.compile(r"\.__dict__\['([^\W\d]\w*)'\]"), r".\1"),
    (re.compile(r"\.size\(\)\["), ".shape["),
]
_PLACE = re.compile(r" \((.*):(\d+)\)$")


class Change(NamedTuple):
    """The change that a failed guard reports.

    Attributes:
        kind: a name that stays when words change: a row of src/base/mismatches.def.
        subject: what changed, as guards name it; empty for what belongs to the process, a mode perhaps.
        text: from what to what, as guards say it; `in_words` and the report's `reworded` make words of it.
        hint: what to do about it; empty if there is nothing to do.

    """

    kind: str
    subject: str
    text: str
    hint: str

    @property
    def is_path(self) -> bool:
        """Whether no value changed: a loop has ended, and the program takes another path."""
        return self.kind == "LoopEnd"


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
    """Symbols from (source, lowest, highest), named as by a ShapeEnv after the hashes of their sources."""
    used: set[int] = set()
    found: list[Symbol] = []
    for source, lowest, highest in rows:
        number = int.from_bytes(hashlib.sha256(source.encode()).digest(), "big") % 100
        while number in used:
            number += 1
        used.add(number)
        found.append(Symbol(f"s{number}", in_words(source), lowest, highest))
    return found


def rank_words() -> str:
    """In a process group of several processes, or in a process that torchrun started: "rank 0 of 2"; else nothing."""
    rank, size = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "1")
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        rank, size = str(torch.distributed.get_rank()), str(torch.distributed.get_world_size())
    return f"rank {rank} of {size}" if rank and size != "1" else ""


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


def module_words(path: str) -> str:
    """L['self'].layers.0.attn is self.layers.0.attn; empty for one that only a loop's iterator has."""
    words = in_words(path)
    return "" if words.startswith(("next_item", "value")) else words


def recompile_limit(limit: int, code: types.CodeType, line: int, first: object, failing: str, hint: str) -> str:
    """The warning at the recompile limit: the place, the change, the remedy. Called from C++."""
    what = in_words(failing)
    place = _called(code, line, first)
    return (
        f"gramme hit the recompile limit ({limit}) in {place}; last failing guard: {what}. {hint} "
        "Or raise the limit: recompile_limit= of compile, torch._dynamo.config.recompile_limit."
    )


def nothing_captured(
    function: types.FunctionType, first: object, reason: str, detail: str, hint: str, file: str, line: int
) -> str | None:
    """The warning if a model's first call put no operation in a graph. Called from C++."""
    if not isinstance(first, torch.nn.Module):
        return None
    place = _called(function.__code__, function.__code__.co_firstlineno, first)
    why = f"{reason}: {detail}" if detail else reason
    advice = f" {hint}" if hint else ""
    return (
        f"gramme captured no operation of {place}: all of it runs in Python. First break: {why}, at "
        f"{file}:{line}.{advice} gramme.explain(it)(*args) lists all breaks."
    )


def called_place(code: types.CodeType, line: int, first: Any) -> tuple[str, str, int]:
    """Name, file and line of a function, or of the module on which torch.nn's functions were called."""
    if is_shown(code.co_filename) or not isinstance(first, torch.nn.Module):
        return code.co_qualname, code.co_filename, line
    forward = getattr(type(first).forward, "__code__", code)
    return type(first).__qualname__, forward.co_filename, forward.co_firstlineno


def _called(code: types.CodeType, line: int, first: Any) -> str:
    return "{} ({}:{})".format(*called_place(code, line, first))


def _part(name: str) -> str:
    return f"[{name}]" if name.isdecimal() else f".{name}"


def tell_of_modes() -> None:
    """Warns once, at the first call of a compiled function that a mode prevents from capturing. Called from C++."""
    logging.getLogger("gramme").warning(
        "a torch dispatch mode is entered around a compiled function: until it is left, compiled functions run "
        "uncompiled (eager), and the mode hears of each operator of theirs"
    )


def tell_of_tracer() -> None:
    """Warns once, at the first call of a compiled function under a trace or profile function. Called from C++."""
    logging.getLogger("gramme").warning(
        "a trace or profile function is set (by a debugger, coverage, cProfile or torch.profiler(with_stack=True)): "
        "until it is removed, compiled functions run uncompiled (eager) and nothing is captured. Functions with "
        "fullgraph=True are captured all the same; the tracer sees none of their lines"
    )
