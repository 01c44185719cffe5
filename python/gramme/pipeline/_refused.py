"""Why a model that ran was not captured."""

from __future__ import annotations

import inspect
import types
from typing import Any

from torch import nn

from .. import _C
from .._compile import entry_of
from .._torch import names
from ..errors import CaptureError


def not_captured(model: nn.Module, compiled: Any) -> CaptureError:
    """The error for a model whose call has given no graph and raised nothing."""
    forward = inspect.unwrap(model.forward)
    code = getattr(forward, "__code__", None)
    file, name, line = (code.co_filename, code.co_qualname, code.co_firstlineno) if code else ("", repr(forward), 0)
    reason, hint = _why(forward, compiled)
    return CaptureError(file, name, line, reason, hint)


def _why(forward: Any, compiled: Any) -> tuple[str, str]:
    """Reason and hint."""
    if names.get_current_dispatch_mode_stack() or names.len_torch_function_stack():
        return "a mode of PyTorch is active, which sees each operation", "Split the model outside of it."
    if inspect.isgeneratorfunction(forward):
        return "it is a generator", "Give what its caller makes of it."
    if not isinstance(forward, types.FunctionType | types.MethodType):
        return "it is no Python function", ""
    if not _has_entry(compiled) or not _C.segments(entry_of(compiled)):
        return (
            "capture is switched off, or the call could not be caught",
            "See torch.compiler.set_stance, TORCHDYNAMO_DISABLE.",
        )
    return "it computes nothing with tensors", ""


def _has_entry(compiled: Any) -> bool:
    try:
        entry_of(compiled)
    except TypeError:
        return False
    return True
