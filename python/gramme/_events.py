"""The interface of listeners of captures: recordings and the structured log. C++ calls them (src/api/listeners.h).

Each method gets its arguments by keyword and ignores those that it has no use for. Frames that are running are gramme's
own up to the one that is captured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import types

    import torch

    from . import _C

__all__ = ["BreakRow", "Id", "Listener", "Missed", "Told"]

Id = tuple[int, int]  # of a capture: torch._guards.CompileId's frame_id and frame_compile_id; (-1, 0) if it has none
Told = tuple[str, str, str, str]  # what _words.Change.told takes
Missed = tuple[Id, Told]  # a segment that could not be used, and why

BreakRow = tuple["types.CodeType", str, int, str, str, str]  # what _logging.break_text takes


class Listener(Protocol):
    """A listener of captures.

    `compile_id` is what logs, compilers and profilers call the capture, `first` the frame's first variable: the object
    that a method was called on, as a rule.
    """

    def recompiling(self, *, code: types.CodeType, line: int, compile_id: Id, reasons: list[Missed], **_: Any) -> None:
        """A capture follows though there are segments; `reasons`: the failed guard of each, the last used first."""

    def graph(
        self, *, module: torch.fx.GraphModule, captured: _C.Captured, code: types.CodeType, line: int, **_: Any
    ) -> None:
        """The graph of the running capture, which its backend is about to get."""

    def captured(
        self,
        *,
        code: types.CodeType,
        line: int,
        compile_id: Id,
        breaks: BreakRow | None,
        row: dict[str, Any] | None,
        elapsed: float,
        backend_seconds: float,
        taken: Id | None,
        **recorded: Any,
    ) -> None:
        """A capture has ended, or another capture's graph was handed over to the backend instead.

        Args:
            code, line: where it began.
            breaks: where the program cannot be captured, if it ends there: up to that it was made a second time.
            row: its segment, as Segment.from_row takes it; None if the frame runs uncompiled.
            elapsed: seconds that it took, with those of the backend; `backend_seconds` is negative if none was asked.
            taken: the capture for another backend whose graph this is; None if the program was captured.
            recorded: what only recordings are told: number, lines, start, seconds.

        """

    def shared(self, *, code: types.CodeType, line: int, compile_id: Id, row: dict[str, Any], **recorded: Any) -> None:
        """A segment of another entry of equal code is used instead of a capture.

        Args:
            code, line: where it begins.
            compile_id: of the capture that made it.
            row: the segment as this entry has it, as Segment.from_row takes it.
            recorded: what only recordings are told: number, start.

        """

    def failed(
        self, *, code: types.CodeType, line: int, compile_id: Id, elapsed: float, error: BaseException, **_: Any
    ) -> None:
        """A capture raises, or its backend did."""

    def limit(self, *, code: types.CodeType, line: int, compile_id: Id, limit: int, reason: Told, **_: Any) -> None:
        """A resume point has reached the recompile limit; `reason`: the failed guard of the segment used last."""
