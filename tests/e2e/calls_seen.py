"""The calls of PyTorch that a program makes, and those that the graphs captured from it make.

A torch function mode sees each: a method, an operator or a subscript of a tensor as the method of torch.Tensor, with
its arguments. Tensors among them are told by their metadata.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from gramme import _backends
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils._pytree import tree_map

Seen = tuple[str, str]  # the function, and its arguments


def spelt(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        with torch._C.DisableTorchFunction():
            layout = tuple(value.stride()) if value.layout == torch.strided and not value.is_nested else None
            sizes = None if value.is_nested else tuple(value.shape)
            return f"{type(value).__name__}<{value.dtype} {sizes} {layout} {value.requires_grad}>"
    if isinstance(value, torch.Size):
        return tuple(value)
    if isinstance(value, float) and value != value:
        return "nan"
    return value


def name_of(function: Any) -> str:
    return resolve_name(function) or getattr(function, "__qualname__", None) or repr(function)


class Watch(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Seen] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        told = tree_map(spelt, (tuple(args), kwargs))
        self.seen.append((name_of(func), repr(told)))
        return func(*args, **kwargs)


@contextlib.contextmanager
def watched_graphs() -> Iterator[list[Seen]]:
    """What the graphs call that run in the block under gramme's backend `eager`."""
    seen: list[Seen] = []

    class Function:
        """A bound method, as far as anybody asks."""

        def __init__(self, forward: Any) -> None:
            self.__self__, self.forward = forward.__self__, forward

        def __call__(self, *args: Any) -> Any:
            with (watch := Watch()):
                result = self.forward(*args)
            seen.extend(watch.seen)
            return result

    plain = _backends.Eager.__call__
    _backends.Eager.__call__ = lambda *args: Function(plain(*args))  # type: ignore[method-assign]
    try:
        yield seen
    finally:
        _backends.Eager.__call__ = plain  # type: ignore[method-assign]


def calls_of(function: Callable[[], Any]) -> tuple[list[Seen], Any]:
    with (watch := Watch()):
        result = function()
    return watch.seen, result


def not_the_programs(graphs: list[Seen], program: list[Seen]) -> Iterator[tuple[Seen, list[Seen]]]:
    """Calls of the graphs that the program did not make at their place, with what it made there instead."""
    at = 0
    for call in graphs:
        try:
            at = program.index(call, at) + 1
        except ValueError:
            yield call, program[at : at + 4]
