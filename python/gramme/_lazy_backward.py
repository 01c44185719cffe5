"""Watches AOTAutograd's lazy compilation of a backward, which runs a PyTorch compiler inside the program."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from . import _C
from ._context import Context
from ._torch import names

__all__ = ["watch"]


def watch() -> None:
    """Keeps exceptions of signal handlers from being lost while the backward of a graph of gramme is compiled."""
    compiler = getattr(names.loaded(names.AOT_RUNTIME), "_AutogradBackwardCompiler", None)
    if compiler is not None and not hasattr(compiler.get_or_compile, "_of_gramme"):
        compiler.get_or_compile = _watched(compiler.get_or_compile)


def _watched(plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def get_or_compile(self: Any, *args: Any, **names: Any) -> Any:
        if self.compiled_bw is None and isinstance(getattr(self.lazy_backward_info, "saved_context", None), Context):
            return _C.keeping_handlers(plain, self, *args, **names)
        return plain(self, *args, **names)

    get_or_compile._of_gramme = True  # type: ignore[attr-defined]
    return get_or_compile
