"""gramme.meter: measures how much of a program runs in graphs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import _C

__all__ = ["Measurement", "Meter", "as_graph", "meter"]


@dataclass(frozen=True)
class Measurement:
    """What one thread did while a meter was open, of all compiled functions together.

    An operation is an operator of PyTorch's dispatcher that Python code asks for; what operators call in their turn is
    not counted. Captures, compilers and operations on fake tensors count nowhere.

    Attributes:
        inside: operations that graphs stood for: as many as eager execution dispatches in their place.
        outside: operations dispatched elsewhere, but in backward passes.
        backward: operations dispatched by autograd's backward passes, of graphs or not.
        graphs: graphs run to their end.
        captures: captures made.
        steps: instructions run in Python between segments.
        handovers: frames that CPython ran to their end from somewhere in their middle.
        plain: calls of compiled functions that ran uncompiled from the start.
        graph_errors: graphs that raised.

    """

    inside: int
    outside: int
    backward: int
    graphs: int
    captures: int
    steps: int
    handovers: int
    plain: int
    graph_errors: int

    @property
    def share(self) -> float:
        """Of the operations inside and outside of graphs, the part inside; 1 if there were none."""
        total = self.inside + self.outside
        return self.inside / total if total else 1.0

    def __str__(self) -> str:
        return (
            f"{self.inside} operations in {self.graphs} graphs, {self.outside} outside ({self.share:.1%} inside), "
            f"{self.backward} in backward passes; {self.captures} captures, {self.steps} steps, "
            f"{self.handovers} hand-overs, {self.plain} plain calls, {self.graph_errors} graph errors"
        )


class Meter:
    """A `with` block whose operations are counted; its attributes are those of its Measurement so far."""

    inside: int
    outside: int
    backward: int
    graphs: int
    captures: int
    steps: int
    handovers: int
    plain: int
    graph_errors: int
    share: float

    def __init__(self) -> None:
        self._meter = _C.Meter()

    def read(self) -> Measurement:
        """What was counted so far; of all of the block once it is left."""
        return Measurement(**self._meter.read())

    def __enter__(self) -> Meter:
        self._meter.open()
        return self

    def __exit__(self, *_: object) -> None:
        self._meter.close()

    def __getattr__(self, name: str) -> Any:
        if name not in Meter.__annotations__:
            raise AttributeError(f"'Meter' object has no attribute '{name}'")
        return getattr(self.read(), name)

    def __str__(self) -> str:
        return str(self.read())


def meter() -> Meter:
    """Count what the thread does in a `with` block: operations inside and outside of graphs, captures, steps and more.

    What is captured does not depend on it. Programs of several threads open one in each.

    Example:
        >>> import torch, gramme
        >>> f, x = gramme.compile(lambda x: (x + 1) * 2, backend="eager"), torch.ones(2)
        >>> with gramme.meter() as m:
        ...     y = f(x).sin()
        >>> m.inside, m.outside, m.captures
        (2, 1, 1)

    """
    return Meter()


def as_graph(backend: Callable[..., Callable[..., Any]]) -> Callable[..., Callable[..., Any]]:
    """A backend for another front end, torch.compile's own, whose graphs a meter counts as graphs.

    Operations inside are counted as they are dispatched: a backend that runs the graph as it is shows the program's.

    Example:
        >>> import torch
        >>> from gramme._meter import as_graph
        >>> f = torch.compile(lambda x: x + 1, backend=as_graph(lambda graph, inputs: graph.forward))

    """

    @functools.wraps(backend)
    def compile_metered(graph: Any, inputs: Any, **options: Any) -> Callable[..., Any]:
        compiled = backend(graph, inputs, **options)
        return lambda *args: _C.run_as_graph(compiled, args)

    return compile_metered
