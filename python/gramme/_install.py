"""gramme.install: gramme behind torch.compile, and back."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any

import torch

from ._compile import compile, reset

__all__ = ["Installation", "install", "uninstall"]


class Installation:
    """gramme in torch.compile's place until `undo()` or the end of a `with` block."""

    def __init__(self) -> None:
        self._compile = torch.compile
        self._reset = torch.compiler.reset
        torch.compile = _torch_compile(self._compile)
        # torch.jit.script passes a function there by, and takes other callables for data.
        if "_compiled_call_impl" not in torch.jit._recursive.ignored_attributes:
            torch.jit._recursive.ignored_attributes.append("_compiled_call_impl")
        torch.compiler.reset = _torch_reset(self._reset)

    def undo(self) -> None:
        """Put torch's own front end back; what was compiled so far stays as it is."""
        global _current
        if _current is self:
            torch.compile = self._compile
            torch.compiler.reset = self._reset
            _current = None

    def __enter__(self) -> Installation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo()


_current: Installation | None = None


# What PyTorch compiles to run an operator of its own for real, by Python that only its own front end takes apart.
_OPERATORS = ("torch._higher_order_ops", "torch.nn.attention")


def _runs_operator(caller: str) -> bool:
    """Whether this module's call of torch.compile is the way in which an operator runs eagerly."""
    return any(caller == name or caller.startswith(name + ".") for name in _OPERATORS)


def _torch_compile(original: Callable[..., Any]) -> Callable[..., Any]:
    """torch.compile by gramme; what gramme has no support for yet goes to PyTorch's front end.

    So do operators that PyTorch compiles to run them (torch.cond, flex_attention).
    """

    @functools.wraps(original)
    def torch_compile(model: Any = None, **given: Any) -> Any:
        if _runs_operator(sys._getframe(1).f_globals.get("__name__", "")):
            return original(model, **given)
        if model is None:
            return lambda function: torch_compile(function, **given)
        asked = dict(given)
        if asked.pop("shapes_spec", None) is not None:
            return original(model, **given)
        try:
            return compile(model, **asked)
        except NotImplementedError:
            return original(model, **given)

    return torch_compile


def _torch_reset(original: Callable[[], None]) -> Callable[[], None]:
    @functools.wraps(original)
    def torch_reset() -> None:
        reset()
        if "torch._dynamo" in sys.modules:
            original()

    return torch_reset


def install() -> Installation:
    """Put gramme behind torch.compile, torch.nn.Module.compile and torch.compiler.reset.

    Code that calls torch.compile needs no change. Options that gramme does not support yet go to PyTorch's front end,
    and so do torch.cond, map, scan, while_loop and flex_attention where they run eagerly: PyTorch compiles them then.

    Returns:
        An Installation; its `undo()`, `gramme.uninstall()` or the end of a `with` block puts PyTorch's back.
        Installing twice gives the same one.

    Example:
        >>> import torch, gramme
        >>> with gramme.install():
        ...     f = torch.compile(lambda x: x + 1, backend="eager")
        >>> gramme.statistics(f).captures
        0

    """
    global _current
    if _current is None:
        _current = Installation()
    return _current


def uninstall() -> None:
    """Put PyTorch's own front end back behind torch.compile; without an installation nothing happens."""
    if _current is not None:
        _current.undo()
