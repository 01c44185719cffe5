"""Captures one call of a module as a whole, without running it."""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from .. import _C
from .._torch.names import pytree

__all__ = ["Call", "Change", "Place", "capture", "varying_dimensions"]


class Change(NamedTuple):
    """An effect of the call on an existing object, or a call with effects that it would have made.

    Attributes:
        kind: a row of src/plan/replay.def.
        target: the object; None for calls.
        key: an attribute's name, a key, or what is called.
        values: nodes of the graph stand for what it computes.

    """

    kind: str
    target: Any
    key: Any
    values: list[Any]
    number: int


class Place(NamedTuple):
    """A leaf of the arguments, or a number of a tensor there.

    Attributes:
        leaf: its index.
        what: "" for the leaf itself, else "size", "stride" or "offset".
        dim: the dimension of a size or stride.

    """

    leaf: int
    what: str = ""
    dim: int = 0

    def of(self, leaves: Sequence[Any]) -> Any:
        """The value in that place."""
        leaf = leaves[self.leaf]
        if self.what == "size":
            return leaf.shape[self.dim]
        if self.what == "stride":
            return leaf.stride()[self.dim]
        return leaf.storage_offset() if self.what else leaf


class Condition(NamedTuple):
    """A condition that the capture branched on: a bool, or a SymBool of the fakes' environment; None if unknown."""

    holds: Any
    line: str
    words: str


@dataclass
class Call:
    """A captured call.

    Attributes:
        graph_module: the graph; None before there is one.
        inputs: by placeholder: the place of the arguments that it stands for, or the object itself.
        names: of such objects by id: as the program came to them.
        result: what the call returns: nodes of the graph stand for what it computes.
        changes: what it would have changed.
        conditions: what must hold for the call to go this way.
        looked_at: leaves that the program looked at.
        varying: places of symbols.
        fakes: what each node gives, without data: asked when it is needed.

    """

    graph_module: Any = None
    inputs: list[Any] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    result: Any = None
    changes: list[Change] = field(default_factory=list)
    conditions: list[Condition] = field(default_factory=list)
    looked_at: set[int] = field(default_factory=set)
    varying: set[Place] = field(default_factory=set)
    fakes: Callable[[Any], list[Any]] = lambda mode: []


_NUMBERS = {"SizeOf": "size", "StrideOf": "stride", "OffsetOf": "offset"}


class _Keep:
    """The backend of a capture that is not run: it keeps the graph, whose nodes stand for their values."""

    __name__ = "export"
    contract = "export"
    hands_over = True

    def __init__(self, fakes: Sequence[Any]) -> None:
        self.call = Call()
        self._fakes = fakes

    def __call__(self, graph_module: Any, inputs: list[Any], captured: _C.Captured) -> Callable[..., Any]:
        call = self.call
        call.graph_module = graph_module
        rows, of_input = captured.sources()
        places = [_place(rows, row) for row in of_input]
        call.inputs = [value if place is None else place for place, value in zip(places, inputs, strict=True)]
        call.names = {id(value): _name(rows, row) for row, value in zip(of_input, inputs, strict=True)}
        rows, of_symbol = captured.symbol_sources()
        places = [None if row is None else _place(rows, row) for row in of_symbol]
        call.varying = {place for place in places if place is not None}
        values = [None if place is None else place.of(self._fakes) for place in places]
        call.conditions = [Condition(*row) for row in captured.conditions(values)]
        rows, guarded = captured.guarded_sources()
        call.looked_at = {place.leaf for row in guarded if (place := _place(rows, row)) is not None}
        examples = captured.examples()
        call.fakes = lambda mode: examples.fakes(mode, values)
        outputs = list(graph_module.graph.output_node().args[0])
        return lambda *_: outputs


def _place(rows: list[Any], row: int) -> Place | None:
    """The place that a row of sources describes; None if it is not among the arguments."""
    kind, base, _, index, _ = rows[row]
    if kind in _NUMBERS:
        leaf = _place(rows, base)
        return None if leaf is None or leaf.what else Place(leaf.leaf, _NUMBERS[kind], index)
    is_leaf = kind == "Item" and rows[base][0] == "Local" and rows[base][2] == "leaves"
    return Place(index) if is_leaf else None


_TABLES = {"_modules", "_parameters", "_buffers"}


def _name(rows: list[Any], row: int) -> str:
    """The name of a tensor of the module, or of a global one; "" for others."""
    parts: list[str] = []
    kind, base, name, index, _ = rows[row]
    while kind in ("Value", "Attr", "Item"):
        part = str(index) if kind == "Item" and name is None else name
        if not isinstance(part, str):
            return ""
        if part not in _TABLES:
            parts.insert(0, part)
        kind, base, name, index, _ = rows[base]
    return ".".join(parts) if kind == "Globals" or (kind == "Local" and name == "self") else ""


def _varies(fakes: Sequence[Any]) -> list[tuple[re.Pattern[str], int | None]]:
    """Lets the sizes and ints that are symbols of the fakes vary in the capture."""
    found: list[tuple[re.Pattern[str], int | None]] = []
    for i, fake in enumerate(fakes):
        pattern = re.compile(rf"L\['leaves'\]\[{i}\]\Z")
        if isinstance(fake, torch.SymInt):
            found.append((pattern, None))
        if isinstance(fake, torch.Tensor):
            found += [(pattern, d) for d in varying_dimensions(fake)]
    return found


def varying_dimensions(fake: torch.Tensor) -> list[int]:
    """The dimensions whose size is a symbol."""
    sizes: tuple[Any, ...] = tuple(fake.shape)
    return [d for d, size in enumerate(sizes) if isinstance(size, torch.SymInt)]


def capture(module: Callable[..., Any], leaves: Sequence[Any], spec: Any, fakes: Sequence[Any]) -> Call:
    """Captures module(*args, **kwargs), whose arguments have these leaves; sizes vary that are symbols of the fakes.

    Raises:
        CaptureError: the call is not one graph.

    """

    def call(self: Any, leaves: tuple[Any, ...]) -> Any:
        args, kwargs = pytree.tree_unflatten(leaves, spec)
        return self(*args, **kwargs)

    keep = _Keep(fakes)
    assert isinstance(call, types.FunctionType)
    result, changes = _C.capture_whole(call, module, tuple(leaves), backend=keep, varies=_varies(fakes))
    keep.call.result = result
    keep.call.changes = [Change(*change) for change in changes]
    return keep.call
