"""gramme.explain: what a capture of a function gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from . import _C
from ._compile import compiled_form, entry_of
from ._native import native
from ._options import Options

__all__ = ["Explanation", "Segment", "explain"]


@dataclass
class Segment:
    """One segment of a captured function.

    Attributes:
        function: qualified name of the function it belongs to.
        line: line at which it ends; 0 for a return.
        operations: number of operations in its graph.
        graph: its graph, or None if it has no operations.
        native: what the native executor made of it, or None.
        guards: conditions for its reuse, as text.
        effects: what it changes besides returning, as text, in order.
        exit: "return", "concrete" (one instruction is run for real) or "handover".
        reason, hint: why it ended, and what to do about it.

    """

    function: str
    line: int
    operations: int
    graph: torch.fx.GraphModule | None
    native: Any
    guards: list[str]
    effects: list[str]
    exit: str
    reason: str
    hint: str

    @property
    def tape(self) -> str:
        """The native executor's instructions for the graph, one a line; empty if it did not run."""
        return _C.native.tape(self.native) if self.native is not None else ""


@dataclass
class Explanation:
    """The segments of one call; prints as a summary."""

    segments: list[Segment] = field(default_factory=list)

    @property
    def graph_count(self) -> int:
        return sum(segment.graph is not None for segment in self.segments)

    @property
    def op_count(self) -> int:
        return sum(segment.operations for segment in self.segments)

    @property
    def break_reasons(self) -> list[str]:
        return [f"line {segment.line}: {segment.reason}" for segment in self.segments if segment.exit == "concrete"]

    @property
    def graph_break_count(self) -> int:
        return len(self.break_reasons)

    def __str__(self) -> str:
        head = (
            f"{len(self.segments)} segments, {self.graph_count} graphs, {self.op_count} operations, "
            f"{self.graph_break_count} breaks"
        )
        rows = [
            f"  {segment.function}: {segment.operations} operations, {len(segment.guards)} guards, {segment.exit}"
            + (f" at line {segment.line}: {segment.reason}" if segment.reason else "")
            for segment in self.segments
        ]
        return "\n".join([head, *rows])


def explain(function: Callable[..., Any]) -> Callable[..., Explanation]:
    """Captures one call of a function and tells its segments, graphs, guards and reasons for breaks.

    Example:
        >>> import torch, gramme
        >>> found = gramme.explain(lambda x: x.sin() + 1)(torch.ones(2))
        >>> found.op_count
        2
        >>> print(found.segments[0].tape)
        inputs %0 to %0, 1 constants, 2 temporaries
        %2 = aten::sin(%0)
        %3 = aten::add.Tensor(%2, %1, 1); frees %2
        return %3
        <BLANKLINE>

    """
    if not callable(function):
        raise TypeError(f"function: expected a callable, got {type(function).__name__}")

    def call(*args: Any, **kwargs: Any) -> Explanation:
        compiled = compiled_form(function, Options(native, False, 64, keep_graphs=True))
        compiled(*args, **kwargs)
        return Explanation([Segment(**row) for row in _C.segments(entry_of(compiled))])

    return call
