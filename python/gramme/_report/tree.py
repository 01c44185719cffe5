"""The tree of calls of a run, with the state of each line."""

from __future__ import annotations

import types
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from .._stack import is_programs
from .places import Place, first_line

__all__ = ["Call", "Totals", "Tree"]


@dataclass
class Totals:
    """How often and for how many seconds something ran, without recorded parts inside it."""

    count: int = 0
    seconds: float = 0.0
    longest: float = 0.0
    operations: int = 0

    def add(self, count: int, seconds: float, longest: float = 0.0, operations: int = 0) -> None:
        self.count += count
        self.seconds += seconds
        self.longest = max(self.longest, longest)
        self.operations += operations


@dataclass
class Call:
    """A function, as called from one line of another: calls in a loop are one.

    Attributes:
        line: of the caller; 0 for the outermost.
        captured: the segments that stand for a line.
        real: lines whose instructions were carried out for real.
        uncompiled: the first line from which CPython ran the function to its end; 0 if it never did.
        plain: what that took.

    """

    code: types.CodeType | None
    line: int = 0
    parent: Call | None = None
    calls: dict[Place, Call] = field(default_factory=dict)
    captured: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    real: dict[int, Totals] = field(default_factory=lambda: defaultdict(Totals))
    uncompiled: int = 0
    plain: Totals = field(default_factory=Totals)

    def call(self, line: int, code: types.CodeType) -> Call:
        found = self.calls.get((code, line))
        if found is None:
            found = self.calls[code, line] = Call(code, line, self)
        return found

    def walk(self) -> Iterator[Call]:
        yield self
        for each in self.calls.values():
            yield from each.walk()

    @property
    def is_troubled(self) -> bool:
        """Something in it, or below it, was not captured."""
        return any(call.real or call.uncompiled for call in self.walk())


class Tree:
    """All calls. Those of torch's functions are left out: what they call belongs to the line that called them."""

    def __init__(self) -> None:
        self.root = Call(None)

    def at(self, path: Sequence[Place]) -> Call:
        """The call that a stack of the program's frames leads to, the outermost first."""
        call, line = self.root, 0
        for code, here in path:
            call, line = call.call(line, code), here
        return call

    def capture(self, path: Sequence[Place], lines: Sequence[tuple[types.CodeType, int, int]], segment: int) -> None:
        """Notes the lines that a segment stands for: (function, line, depth of inlined calls) in their order."""
        begins_in: types.CodeType | None = next((code for code, _, _ in lines), None)
        hidden = begins_in if begins_in is not None and not is_programs(begins_in.co_filename) else None
        stack = [_Open(self.at(path), path[-1][1] if path else 0, hidden)]
        for code, line, depth in lines:
            del stack[max(depth, 1) :]
            top = stack[-1]
            if len(stack) == depth and top.code is not code:
                stack.pop()
                stack.append(stack[-1].entered(code) if stack else _returned_into(top, code))
            elif len(stack) < depth:
                stack.append(top.entered(code))
            stack[-1].reach(line, segment)

    def carried_out(self, path: Sequence[Place], totals: Totals) -> None:
        """Notes an instruction that ran in Python at the end of the path."""
        self.at(path).real[path[-1][1]].add(totals.count, totals.seconds, totals.longest, totals.operations)

    def ran_uncompiled(self, path: Sequence[Place], totals: Totals) -> None:
        """Notes that CPython ran the function from the end of the path to its end."""
        call = self.at(path)
        call.uncompiled = min(filter(None, (call.uncompiled, path[-1][1])))
        call.plain.add(totals.count, totals.seconds, totals.longest, totals.operations)


class _Open:
    """A running frame: its call, or that of the program's function that called it."""

    def __init__(self, call: Call, line: int, code: types.CodeType | None = None) -> None:
        self.call, self.line, self.code = call, line, code or call.code
        self.is_shown = code is None

    def entered(self, code: types.CodeType) -> _Open:
        if not is_programs(code.co_filename):
            return _Open(self.call, self.line, code)
        return _Open(self.call.call(self.line, code), code.co_firstlineno)

    def reach(self, line: int, segment: int) -> None:
        if self.is_shown and self.call.code is not None:
            self.line = first_line(self.call.code, line)
            self.call.captured[self.line].add(segment)


def _returned_into(top: _Open, code: types.CodeType) -> _Open:
    """The segment goes on in a frame that waited for the one it began in."""
    call: Call | None = top.call
    while call is not None and call.code is not code:
        call = call.parent
    if call is None:
        return _Open(top.call, top.line, code)
    return _Open(call, call.code.co_firstlineno if call.code else 0)
