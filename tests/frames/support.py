"""Runs a program and describes all that can be seen of it."""

import contextlib
import io
import re
import sys
import traceback
import types
from collections.abc import Callable
from typing import Any

import gramme._C as _C

from frames import programs

native: Any = getattr(_C, "testing_runtime", None) or _C.testing.testing_runtime

ADDRESS = re.compile(r"0x[0-9a-f]+")


def positions(trace: types.TracebackType | None) -> list[tuple[Any, ...]]:
    """Name, line and columns of each frame of the programs in a traceback."""
    found = []
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename.startswith(programs.FILES):
            where = list(code.co_positions())[trace.tb_lasti // 2]
            found.append((code.co_qualname, trace.tb_lineno, where))
        trace = trace.tb_next
    return found


def describe(error: BaseException | None, depth: int = 0) -> Any:
    if error is None or depth > 4:
        return error and "..."
    return (
        type(error).__name__,
        ADDRESS.sub("0x", str(error)),
        getattr(error, "name", None),
        positions(error.__traceback__),
        error.__suppress_context__,
        describe(error.__cause__, depth + 1),
        describe(error.__context__, depth + 1),
    )


def observe(function: Callable[[], Any]) -> dict[str, Any]:
    """One run as plain data."""
    programs.SEEN.clear()
    programs.COUNTER = 0
    if "module_body" in getattr(function, "__name__", ""):
        for name in set(programs.module_body.__globals__) - {"__builtins__", "log", "__name__"}:
            del programs.module_body.__globals__[name]
    printed = io.StringIO()
    result, error = None, None
    with contextlib.redirect_stdout(printed):
        try:
            result = function()
        except BaseException as raised:
            error = raised
    seen = {
        "result": ADDRESS.sub("0x", repr(result)),
        "error": describe(error),
        "seen": [ADDRESS.sub("0x", str(item)) for item in programs.SEEN],
        "printed": printed.getvalue(),
        "handled": sys.exc_info(),
        "warnings": None,
    }
    if error is not None:
        traceback.clear_frames(error.__traceback__)
    return seen


def stepping(function: Callable[..., Any], **options: Any) -> Any:
    assert isinstance(function, types.FunctionType)
    _C.reset()  # functions below C that gave no graph in an earlier run are asked about again
    return native.stepping_entry(function, **options)
