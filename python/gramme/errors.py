"""Exceptions gramme raises itself."""

from __future__ import annotations

import functools
import linecache
import traceback
from typing import Any

from ._stack import last_frame
from ._torch import names
from ._words import module_words

__all__ = ["BackendError", "CaptureError"]


class BackendError(RuntimeError):
    """A graph that a backend compiled raised what the program does not raise, or gave another number of outputs.

    What the backend's code raised is its ``__cause__``. A note says whether the call's effects took place.

    Attributes:
        backend: name of the backend.

    """

    def __init__(self, backend: str, message: str) -> None:
        self.backend = backend
        super().__init__(f"backend {backend!r}: {message}")


class CaptureError(RuntimeError):
    """A line of the program cannot be captured, and ``fullgraph=True`` asked for a whole graph.

    Attributes:
        file: path of the source file.
        line: line number, from 1.
        source_line: the text of that line, stripped; empty if the file cannot be read.
        reason: why, in one sentence.
        hint: what to do about it; may be empty.
        stack: the calls that led there as a traceback shows them, without those inside torch.nn; may be empty.
        module: path of the module that is called there, as ``self.layers.0``; empty outside any.

    Example:
        >>> import torch, gramme
        >>> try:
        ...     gramme.compile(lambda x: print(x), backend="eager", fullgraph=True)(torch.ones(2))
        ... except gramme.CaptureError as error:
        ...     assert "runs in Python" in error.reason

    """

    def __init__(
        self, file: str, function: str, line: int, reason: str, hint: str, stack: str = "", module: str = ""
    ) -> None:
        self.file = file
        self.function = function
        self.line = line
        self.source_line = linecache.getline(file, line).strip()
        self.reason = reason
        self.hint = hint
        self.stack = stack
        self.module = module_words(module)
        shown = f"\n    {self.source_line}" if self.source_line else ""
        advice = f"\n  hint: {hint}" if hint else ""
        more = stack.count("  File ") > 1 or (stack and f'File "{file}"' not in stack)  # the line is in a library
        calls = f"\n  calls, the innermost last:\n{stack}".rstrip() if more else ""
        within = f", in module {self.module}" if module else ""
        place = f'File "{file}", line {line}{within}{shown}'
        RuntimeError.__init__(self, f"cannot capture {function}: {reason}\n  {place}{advice}{calls}")


def capture_error(
    file: str,
    function: str,
    line: int,
    reason: str,
    detail: str,
    hint: str,
    operation: str,
    module: str,
    stack: str,
    unbacked: bool,
) -> CaptureError:
    """Makes a CaptureError; called from C++.

    Where a number that comes out of data had to be known, it is a torch._dynamo.exc.UserError too; PyTorch's front end
    has an exception of its own for control flow.
    """
    if not hint and reason == "raises":
        hint = "It raises in eager mode, too: correct it, or call with arguments for which it does not."
    made = _user_error() if unbacked else _of_control_flow() if operation else _unsupported()
    text = f"{reason}: {detail}" if detail else reason
    error = made(file, function, line, f"in {operation}: {text}" if operation else text, hint, stack, module)
    if unbacked:
        import sympy  # type: ignore[import-untyped, unused-ignore]

        from ._torch.names import GuardOnDataDependentSymNode

        error.__cause__ = GuardOnDataDependentSymNode(sympy.Symbol(detail), text)
    return error


def refused_graph(reason: str, graph_module: Any) -> CaptureError:
    """The error under fullgraph=True if the backend declines the graph; torch.compile's callers can catch it."""
    stacks = [node.meta.get("stack_trace") for node in graph_module.graph.nodes if node.op == "call_function"]
    frame = last_frame(next(filter(None, reversed(stacks)), None))
    file, line, function = frame[:3] if frame else ("", 0, "the function")
    return _capture_error_of_torch()(file, function, line, reason, "")


def _unsupported() -> type[CaptureError]:
    """The class that torch.compile's callers catch, once the module that defines it is imported."""
    return _capture_error_of_torch() if names.loaded(names.DYNAMO_EXC) else CaptureError


@functools.cache
def _capture_error_of_torch() -> type[CaptureError]:
    from ._torch.names import Unsupported

    class TorchCaptureError(CaptureError, Unsupported):
        """A CaptureError that code written for torch.compile knows."""

        def __init__(self, *args: Any) -> None:
            CaptureError.__init__(self, *args)
            self.gb_type = self.reason
            self.msg = str(self)
            self.real_stack = traceback.StackSummary()
            self.skip_frame = self.logged = False

    TorchCaptureError.__name__ = TorchCaptureError.__qualname__ = "CaptureError"
    return TorchCaptureError


def recompile_limit_error(message: str) -> RuntimeError:
    """The error at the recompile limit that torch.compile's callers can catch. Called from C++."""
    return _recompile_limit_error()(message)


@functools.cache
def _recompile_limit_error() -> type[RuntimeError]:
    from ._torch.names import FailOnRecompileLimitHit

    class RecompileLimitError(RuntimeError, FailOnRecompileLimitHit):
        """More captures were needed for one place than the recompile limit allows."""

    return RecompileLimitError


@functools.cache
def _user_error() -> type[CaptureError]:
    from ._torch.names import UserError, UserErrorType

    class DataDependentError(CaptureError, UserError):
        """A number from data had to be known; torch.compile's callers can catch it."""

        def __init__(self, *args: Any) -> None:
            CaptureError.__init__(self, *args)
            self.error_type = UserErrorType.ANTI_PATTERN
            self.msg = self.message = str(self)
            self.real_stack = traceback.StackSummary()
            self.skip_frame = self.logged = False

    return DataDependentError


@functools.cache
def _of_control_flow() -> type[CaptureError]:
    from ._torch.names import UncapturedHigherOrderOpError

    class UncapturedControlFlowError(CaptureError, UncapturedHigherOrderOpError):
        """A function that torch.cond, while_loop, map or scan runs cannot be captured."""

    return UncapturedControlFlowError
