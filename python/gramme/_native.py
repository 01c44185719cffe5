"""backend="native": the captured graph runs from C++, without a compiler and without Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from . import _C
from ._settings import records_backward

__all__ = ["Native", "gramme_native", "native"]


class Native:
    """The backend "native" of gramme.compile.

    The C++ side knows it by its option and takes the captured graph itself; called with a graph module it does the same
    for that.

    Attributes:
        caching_allocator: keep the memory of small tensors on the CPU for the next ones: at most 64 MiB a process,
            384 MiB if it is True, nothing if it is False.
        recorded_backward: replay the backward pass, too, where that is known to be safe. Gradients have eager's bits;
            the graph of autograd has one node where eager's has one for each operator. If it is not said, True where
            all inputs are on the CPU, unless GRAMME_RECORDED_BACKWARD=0.
        exact_numpy: NumPy's calls that compute are NumPy's own in the graph, too, with its bits.
        is_asked_for_backward: `recorded_backward` was given.

    """

    __name__ = "native"
    contract = "native"

    def __init__(
        self,
        caching_allocator: bool | None = None,
        recorded_backward: bool | None = None,
        exact_numpy: bool = False,
    ) -> None:
        given = {"exact_numpy": exact_numpy}
        if caching_allocator is not None:
            given["caching_allocator"] = caching_allocator
        if recorded_backward is not None:
            given["recorded_backward"] = recorded_backward
        for name, value in given.items():
            if not isinstance(value, bool):
                raise TypeError(f"options: {name}: expected a bool, got {type(value).__name__}")
        self.caching_allocator = caching_allocator
        self.exact_numpy = exact_numpy
        self._recorded_backward = recorded_backward

    @property
    def is_asked_for_backward(self) -> bool:
        return self._recorded_backward is not None

    @property
    def recorded_backward(self) -> bool:
        return records_backward() if self._recorded_backward is None else self._recorded_backward

    def __call__(self, graph_module: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        return _C.native.from_graph_module(graph_module, caching_allocator=self.caching_allocator)


native = Native()


def gramme_native(graph_module: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """A backend for torch.compile: the graph module's calls recorded at the first run and replayed from C++.

    Inputs of other shapes, types or modes of the thread than the recorded ones get a recording of their own, up to
    eight; the rest runs as the graph module does. A graph module that takes sizes as whole numbers, as one of
    torch.compile with dynamic=True does, is recorded for all shapes at once. Results and gradients have eager's
    bits; derivatives of second and higher order through linear layers may differ in the last ones.

    Args:
        graph_module: a graph of functions, methods and attributes, as a torch.compile front end hands it over.
        example_inputs: not looked at.

    Example:
        >>> import torch
        >>> from gramme import gramme_native
        >>> f = torch.compile(lambda x: x.sin() + 1, backend=gramme_native)
        >>> bool((f(torch.zeros(2)) == 1).all())
        True

    """
    return _C.native.from_graph_module(graph_module)
