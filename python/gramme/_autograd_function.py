"""Calls of `torch.autograd.Function.apply` in graphs that run as they are.

The operations of `forward` precede the call in the graph. The call is PyTorch's own `apply` of a class whose `forward`
returns the computed tensors and whose node is that of the user's class. So edges, views, saved tensors with their
checks and hooks are eager's, and `backward` is the user's function, called when gradients are computed.
"""

from __future__ import annotations

import functools
import threading
import weakref
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.function import Function, FunctionMeta

from ._torch.names import DisableTorchFunctionSubclass, FunctionBase

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["make_apply", "make_link"]

# Fields of contexts that hold tensors. PyTorch checks which of those are results.
_RESULTS_IN = ("to_save", "saved_for_forward", "non_differentiable")
# What PyTorch asks of the class that `apply` is called on.
_ASKED = ("_backward_cls", "boxed_grads_call", "clear_saved_tensors_on_access")
_apply = FunctionBase.__dict__["apply"]


class _Pending(threading.local):
    """The results for `apply`, kept from its call to that of `forward`."""

    outputs: tuple[Any, ...] = ()
    describe: Callable[[Any], None] | None = None


_pending = _Pending()


def _describe(ctx: Any) -> None:
    describe, _pending.describe = _pending.describe, None
    if describe is None:
        raise AssertionError("only a graph of gramme calls this function")
    describe(ctx)


def _outputs() -> tuple[Any, ...]:
    outputs, _pending.outputs = _pending.outputs, ()
    return outputs


class _LinkMeta(FunctionMeta):
    """The metaclass of classes that use another class's node."""

    def __init__(self, name: str, bases: tuple[type, ...], attrs: dict[str, Any]) -> None:
        type.__init__(self, name, bases, attrs)


class _Link(Function, metaclass=_LinkMeta):
    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        _describe(ctx)
        return _outputs()


class _LinkWithSetup(Function, metaclass=_LinkMeta):
    """A link with `setup_context`: PyTorch then treats saved outputs that are inputs differently."""

    @staticmethod
    def forward(*args: Any) -> Any:
        return _outputs()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _describe(ctx)


class _Contexts(threading.local):
    """The context of the last call, for what replay sets in it."""

    last: weakref.ref[Any] | None = None


@functools.lru_cache(256)  # captures memoize a call by its function
def make_apply(function: type[Function]) -> Callable[..., Any]:
    """`function.apply` as a function: under transforms of torch.func it applies the function's rules."""

    def apply(*args: Any) -> Any:
        return function.apply(*args)  # type: ignore[no-untyped-call]

    apply.__name__ = apply.__qualname__ = function.__name__
    return apply


def _classed(outputs: tuple[Any, ...], classes: tuple[type | None, ...]) -> tuple[Any, ...]:
    with torch.no_grad():  # as in forward
        return tuple(
            output if cls is None else output.as_subclass(cls) for output, cls in zip(outputs, classes, strict=True)
        )


def _plain(results: tuple[Any, ...], classes: tuple[type | None, ...]) -> tuple[Any, ...]:
    """Those of a class, as operations of the graph take them."""
    with DisableTorchFunctionSubclass():
        return tuple(
            result.as_subclass(torch.Tensor) for result, cls in zip(results, classes, strict=True) if cls is not None
        )


def make_link(
    function: type[Function],
    has_setup: bool,
    names: tuple[str, ...],
    sizes: tuple[str, ...],
    classes: tuple[type | None, ...],
) -> tuple[Callable[..., tuple[Any, ...]], Callable[[str, Any], None]]:
    """The node of one call of `function.apply`, and what sets attributes of its context afterwards.

    The node takes the arguments (None for what is no tensor), what `forward` returned (likewise), and the values of
    the context's attributes called `names`, those in `sizes` being torch.Sizes; it gives what `apply` gives. What
    `forward` returned gets the class that `classes` says, before the node is made, and comes without it behind the
    others.
    """
    base = _LinkWithSetup if has_setup else _Link
    own = {name: getattr(function, name) for name in _ASKED}
    link = _LinkMeta(function.__name__, (base,), own)
    apply = _apply.__get__(None, link)
    contexts = _Contexts()
    has_classes = any(cls is not None for cls in classes)

    def call(args: tuple[Any, ...], outputs: tuple[Any, ...], values: tuple[Any, ...]) -> tuple[Any, ...]:
        results = {}
        if has_classes:
            plain, outputs = outputs, _classed(outputs, classes)
            results = {id(before): after for before, after in zip(plain, outputs, strict=True)}

        def describe(ctx: Any) -> None:
            for name, value in zip(names, values, strict=True):
                if results and name in _RESULTS_IN:
                    value = tuple(results.get(id(item), item) for item in value)
                setattr(ctx, name, torch.Size(value) if name in sizes else value)
            contexts.last = weakref.ref(ctx)

        _pending.outputs, _pending.describe = outputs, describe
        result: tuple[Any, ...] = apply(*args)
        return result + _plain(result, classes) if has_classes else result

    def set_late(name: str, value: Any) -> None:
        ctx = contexts.last() if contexts.last is not None else None
        if ctx is not None:
            setattr(ctx, name, value)

    call.__name__ = call.__qualname__ = function.__name__
    return call, set_late
