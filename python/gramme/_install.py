"""gramme.install and uninstall: put gramme behind torch.compile, and PyTorch's front end back."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple

import torch

from ._compile import compile, reset
from ._dynamo_names import DynamoNames
from ._torch import names

__all__ = ["Installation", "install", "uninstall"]


class Installation:
    """gramme in torch.compile's place until `undo()` or the end of a `with` block."""

    def __init__(self) -> None:
        self.active = True
        self._compile = torch.compile
        self._reset = torch.compiler.reset
        self._places: list[_Place] = []
        own = _behind(self._compile) or self._compile
        self._ours = _torch_compile(own, self)
        if own is not self._compile:  # torch.compile was wrapped: the wrapper stays, and calls gramme
            self._places = _places_of(self._compile, own)
        for place in self._places:
            place.put(self._ours)
        if not self._places:
            torch.compile = self._ours
        # torch.jit.script skips a function there, but takes other callables for data.
        if "_compiled_call_impl" not in names.ignored_attributes:
            names.ignored_attributes.append("_compiled_call_impl")
        self._our_reset = torch.compiler.reset = _torch_reset(self._reset)
        self._names = DynamoNames()
        self._export: DynamoNames | None = None

    def add_export(self) -> None:
        """Puts gramme behind torch.export.export(strict=True) and torch._dynamo.export too."""
        if self._export is None:
            from ._export._dynamo import dynamo_export
            from ._export._front import stand_everywhere

            stand_everywhere(True)
            self._export = DynamoNames({"export": dynamo_export})

    def callers(self, frame: types.FrameType | None) -> list[str]:
        """The modules of torch.compile's callers, beyond wrappers that stayed."""
        found: list[str] = []
        for _ in range(4 if self._places else 1):
            if frame is not None:
                found.append(frame.f_globals.get("__name__", ""))
                frame = frame.f_back
        return found

    def undo(self) -> None:
        """Put torch's own front end back; what was compiled so far stays as it is, and so do others' wrappers."""
        global _current
        if _current is not self:
            return
        self.active = False
        for place in self._places:
            place.put(place.before)
        if torch.compile is self._ours:
            torch.compile = self._compile
        if torch.compiler.reset is self._our_reset:
            torch.compiler.reset = self._reset
        self._names.undo()
        if self._export is not None:
            from ._export._front import stand_everywhere

            stand_everywhere(False)
            self._export.undo()
        _current = None

    def __enter__(self) -> Installation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo()


_current: Installation | None = None


# Functions that PyTorch compiles to run an operator eagerly, in Python that only its own front end understands.
_OPERATORS = (names.HIGHER_ORDER, "torch.nn.attention")


def _runs_operator(caller: str) -> bool:
    """Whether this module calls torch.compile only to run an operator eagerly."""
    return any(caller == name or caller.startswith(name + ".") for name in _OPERATORS)


class _Place(NamedTuple):
    """The place in which a wrapper of torch.compile holds the wrapped function."""

    put: Callable[[Any], None]
    before: Any


def _places_of(wrapper: Any, own: Callable[..., Any]) -> list[_Place]:
    """The cells and globals of a wrapper, and of those that it wraps, that hold PyTorch's own torch.compile."""
    found: list[_Place] = []
    for function in _chain(wrapper):
        found += [_Place(functools.partial(setattr, cell, "cell_contents"), own) for cell in _cells(function, own)]
        scope = function.__globals__
        if scope.get("__name__") != "torch":
            names = [name for name in function.__code__.co_names if scope.get(name) is own]
            found += [_Place(functools.partial(scope.__setitem__, name), own) for name in names]
    return found


def _behind(function: Any) -> Callable[..., Any] | None:
    """PyTorch's own torch.compile inside wrappers of others; None if it is not found."""
    for known in _chain(function):
        if known.__code__.co_filename == torch.__file__ and known.__code__.co_name == "compile":
            return known
    return None


def _chain(function: Any, depth: int = 8) -> list[types.FunctionType]:
    """A wrapper, the functions it wraps and calls, and so on, as far as they are Python functions."""
    found: list[types.FunctionType] = []
    todo = [function]
    while todo and len(found) < depth:
        known = todo.pop(0)
        if not isinstance(known, types.FunctionType) or known in found:
            continue
        found.append(known)
        if known.__code__.co_filename == torch.__file__:
            continue
        held = [cell.cell_contents for cell in known.__closure__ or () if _is_filled(cell)]
        named = [known.__globals__.get(name) for name in known.__code__.co_names]
        todo += [*held, *(value for value in named if getattr(value, "__name__", "") == "compile")]
    return found


def _cells(function: types.FunctionType, content: object) -> list[types.CellType]:
    return [cell for cell in function.__closure__ or () if _is_filled(cell) and cell.cell_contents is content]


def _is_filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _torch_compile(original: Callable[..., Any], installation: Installation) -> Callable[..., Any]:
    """torch.compile by gramme; with shapes_spec or dynamic_shapes, not taken by gramme, it is PyTorch's.

    So it is for operators that PyTorch compiles to run them (torch.cond, flex_attention).
    """

    @functools.wraps(original)
    def torch_compile(model: Any = None, **given: Any) -> Any:
        if not installation.active or any(map(_runs_operator, installation.callers(sys._getframe(1)))):
            return original(model, **given)
        if model is None:
            return lambda function: torch_compile(function, **given)
        asked = {name: value for name, value in given.items() if name not in names.SHAPES_OF_COMPILE}
        if any(given[name] is not None for name in given.keys() - asked.keys()):
            return original(model, **given)
        return compile(model, **asked)

    return torch_compile


def _torch_reset(original: Callable[[], None]) -> Callable[[], None]:
    @functools.wraps(original)
    def torch_reset() -> None:
        reset()
        if names.loaded(names.DYNAMO):
            original()

    return torch_reset


def install(*, export: bool = False) -> Installation:
    """Put gramme behind torch.compile, torch.nn.Module.compile and torch.compiler.reset.

    And behind optimize, optimize_assert, explain and run of torch._dynamo, where the program calls them.
    Code that calls torch.compile needs no change. With shapes_spec (from torch 2.14 on dynamic_shapes) it stays
    PyTorch's front end, and so do torch.cond, map, scan, while_loop and flex_attention where they run eagerly: PyTorch
    compiles them then.

    Args:
        export: behind torch.export.export(strict=True) and torch._dynamo.export, too; imports torch._dynamo.

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
    if export:
        _current.add_export()
    return _current


def uninstall() -> None:
    """Put PyTorch's own front end back behind torch.compile; without an installation nothing happens."""
    if _current is not None:
        _current.undo()
