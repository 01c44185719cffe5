"""Stack traces of the program in the form of PyTorch's front end."""

from __future__ import annotations

import os
import re
import sys
import traceback
import types
from typing import NamedTuple

import torch

from ._torch import names

__all__ = [
    "FramePlace",
    "callers_of",
    "frame_text",
    "frames_of",
    "is_programs",
    "is_shown",
    "last_frame",
    "shown_place",
]

_TORCH = os.path.dirname(torch.__file__) + os.sep
_GRAMME = os.path.dirname(__file__) + os.sep
_STANDARD = os.path.dirname(os.__file__) + os.sep
_LIBRARIES = tuple(_STANDARD + folder for folder in ("site-packages/", "dist-packages/"))
_MODULES = re.compile(r".*torch/nn/modules.*")
_HIDDEN_FOLDERS = tuple(_TORCH + folder for folder in ("_dynamo/polyfills/", "_higher_order_ops/"))
_HIDDEN_FILES = {"<string>"} | {
    _TORCH + file
    for file in (
        "__init__.py",
        "_compile.py",
        "_dynamo/eval_frame.py",
        "_dynamo/external_utils.py",
        "_inductor/sizevars.py",
        "_library/custom_ops.py",
        "_library/fake_impl.py",
        "_logging/_internal.py",
        "_logging/structured.py",
        "_subclasses/fake_tensor.py",
        "_subclasses/meta_utils.py",
        "export/_trace.py",
        "fx/_symbolic_trace.py",
        "fx/experimental/recording.py",
        "fx/experimental/sym_node.py",
        "fx/experimental/symbolic_shapes.py",
        "fx/interpreter.py",
    )
}


def is_shown(file: str) -> bool:
    """Whether the file's frames are shown as the program's: not torch.nn's, nor those that only run a trace."""
    if file in _HIDDEN_FILES or file.startswith(_HIDDEN_FOLDERS) or file.startswith(_GRAMME):
        return False
    return _MODULES.match(file) is None


def is_programs(file: str) -> bool:
    """Whether the file is the program's own or a library's: not torch's, nor of the standard library."""
    standard = file.startswith(_STANDARD) and not file.startswith(_LIBRARIES)
    return is_shown(file) and not standard and not file.startswith((_TORCH, "<frozen "))


def shown_place(code: types.CodeType, line: int, first: object) -> tuple[types.CodeType, int]:
    """Where a segment begins: in the program's own forward, if torch.nn's functions around it are captured."""
    if is_shown(code.co_filename) or not isinstance(first, torch.nn.Module):
        return code, line or code.co_firstlineno
    forward: types.CodeType = getattr(type(first).forward, "__code__", code)
    return forward, forward.co_firstlineno


def frame_text(code: types.CodeType, line: int, column: int, end_line: int, end_column: int) -> str:
    """One frame as the traceback module writes it, or "" if it is not shown. Columns in bytes; -1: unknown."""
    if not is_shown(code.co_filename):
        return ""
    known = column >= 0 and end_column >= 0
    frame = traceback.FrameSummary(
        code.co_filename,
        line,
        code.co_name,
        lookup_line=False,
        end_lineno=end_line if known and names.FRAMES_END else None,
        colno=column if known else None,
        end_colno=end_column if known else None,
    )
    return "".join(traceback.StackSummary.from_list([frame]).format())


class FramePlace(NamedTuple):
    """A frame of a stack trace; `source` are its lines as they are shown."""

    file: str
    line: int
    function: str
    source: str


_FRAME = re.compile(r'  File "(.*)", line (\d+), in (.*)\n((?:    .*\n?)*)')


def callers_of(code: types.CodeType, base: types.CodeType | None = None) -> list[tuple[types.CodeType, int]]:
    """The program's frames around the one that runs the code, the innermost first, each with its line.

    `base`: the function of the last one that counts.
    """
    frames = [(frame.f_code, line) for frame, line in traceback.walk_stack(sys._getframe(1))]
    codes = [each for each, _ in frames]
    outside = frames[codes.index(code) + 1 :] if code in codes else frames
    last = next((i for i, (each, _) in enumerate(outside) if each is base), len(outside))
    return [(each, line) for each, line in outside[: last + 1] if is_programs(each.co_filename)]


def frames_of(stack: str | None) -> list[FramePlace]:
    """The program's frames in a stack trace that `frame_text` made, the outermost first."""
    frames = [FramePlace(file, int(line), *rest) for file, line, *rest in _FRAME.findall(stack or "")]
    return [frame for frame in frames if is_programs(frame.file)]


def last_frame(stack: str | None) -> FramePlace | None:
    """The innermost frame of a stack trace that `frame_text` made; None if it has none."""
    frames = _FRAME.findall(stack or "")
    if not frames:
        return None
    file, line, function, source = frames[-1]
    return FramePlace(file, int(line), function, source)
