"""Varying sizes and ints of a captured graph's inputs, as symbols of a ShapeEnv for PyTorch's compilers.

Each symbol of the capture is one of the ShapeEnv, made for the same place; sizes, strides and offsets of tensors are
computed of them as the capture computed its own. What compilers assume of them becomes guards of the capture.

Only imported when sizes vary: sympy takes most of a second to import.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import sympy  # type: ignore[import-untyped, unused-ignore]
import torch

from ._environment import bound
from ._torch.names import (
    AttrSource,
    DimDynamic,
    ShapeEnv,
    Source,
    StatefulSymbolicContext,
    SubclassSymbolicContext,
    TensorProperty,
    TensorPropertySource,
)
from ._wrappers import inner_tensors, is_traceable

if TYPE_CHECKING:
    from . import _C

__all__ = ["Symbols", "all_static"]

_Sizes = tuple[list[Any], list[Any], Any, list[Any]]  # the last: of the tensors inside, or None


class Symbols:
    """The symbols of one captured graph.

    Attributes:
        values: by symbol, its torch.SymInt, or None if it is no input.
        inputs: the torch.SymInts by the indices of inputs.

    """

    def __init__(self, env: ShapeEnv, captured: _C.Captured, sources: Sequence[Source | None]) -> None:
        self._env, self._captured = env, captured
        self._numbers: dict[str, int] = {}
        self.values: list[torch.SymInt | None] = []
        self.inputs: dict[int, torch.SymInt] = {}
        for number, row in enumerate(captured.symbols()):
            made = None if row is None else self._make(number, sources[row[0]], *row[1:])
            self.values.append(made)
            if row is not None and made is not None:
                self.inputs[row[0]] = made
        self._sizes: list[_Sizes | None] = captured.sizes(self.values)

    def _make(
        self, number: int, source: Source | None, now: int, lowest: int | None, highest: int | None, unbacked: bool
    ) -> torch.SymInt | None:
        """A symbol within the bounds; None if a ShapeEnv takes it for a constant."""
        made: Any
        if unbacked:
            expression = self._env.create_symbol(now, source, dynamic_dim=DimDynamic.UNBACKED)  # type: ignore[arg-type]
            made = self._env.create_symintnode(expression, hint=None, source=source)
            self._env.pending_fresh_unbacked_symbols.clear()
        elif isinstance(source, TensorPropertySource):
            # Only sizes are specialised on 0 and 1: an offset of 1 is like any other.
            offset = source.prop is TensorProperty.STORAGE_OFFSET
            expression = self._env.create_symbol(
                now, source, dynamic_dim=DimDynamic.DYNAMIC, do_not_specialize_zero_one=offset
            )
            made = self._env.create_symintnode(expression, hint=now, source=source)
        else:
            assert source is not None
            made = self._env.create_unspecified_symint_and_symbol(now, source, DimDynamic.DYNAMIC)
        if not isinstance(made, torch.SymInt):
            self._captured.specialize(number)
            return None
        symbol = made.node.expr
        self._numbers[symbol.name] = number
        if lowest is not None and lowest == highest:
            self._env.evaluate_expr(sympy.Eq(symbol, lowest))
            return made
        known = self._env.var_to_range[symbol]
        at_least = known.lower if lowest is None else max(known.lower, sympy.Integer(lowest))
        at_most = known.upper if highest is None else min(known.upper, sympy.Integer(highest))
        bound(self._env, symbol, at_least, at_most)
        return made

    def vary(self, index: int) -> bool:
        """Whether the sizes of the input vary."""
        return self._sizes[index] is not None

    def context(self, index: int, tensor: torch.Tensor, source: Source) -> StatefulSymbolicContext:
        """Describes how the sizes of an input or its gradient vary.

        A symbol that cannot be made to vary becomes a constant of the next capture.
        """
        sizes = self._sizes[index]
        assert sizes is not None
        return self._described(sizes, tensor, source)

    def _described(self, sizes: _Sizes, tensor: torch.Tensor, source: Source) -> StatefulSymbolicContext:
        if tensor.layout == torch.jagged:
            return self._of_jagged(sizes, tensor, source)
        known = _known(tensor, source, sizes)
        gradient = tensor.grad if tensor.is_leaf else None
        if gradient is not None:
            known |= _known(gradient, AttrSource(source, "grad"), sizes)
        make: Any = StatefulSymbolicContext
        if sizes[3]:
            make = partial(SubclassSymbolicContext, inner_contexts=self._of_parts(sizes, tensor, source))
        context = _context(tensor, source, [_kind(size) for size in sizes[0]], DimDynamic.DYNAMIC, make)
        context.shape_env_to_source_to_symbol_cache[id(self._env)] = known
        made = self._env.create_symbolic_sizes_strides_storage_offset(tensor, source, symbolic_context=context)
        if len(known) >= len(_flat(sizes)) and [*map(_expression, _flat(sizes))] != [*map(_expression, _flat(made))]:
            self._specialize(sizes)
        self._override_hints(tensor, sizes)
        return context

    def _of_parts(self, sizes: _Sizes, tensor: torch.Tensor, source: Source) -> dict[str, Any]:
        inner = zip(inner_tensors(tensor).items(), sizes[3], strict=True)
        return {name: self._of_part(row, part, AttrSource(source, name)) for (name, part), row in inner}

    def _of_jagged(self, sizes: _Sizes, tensor: torch.Tensor, source: Source) -> StatefulSymbolicContext:
        """A jagged tensor has its sizes from its parts, and its memory from their values, which it may view."""
        parts = self._of_parts(sizes, tensor, source)
        base = _base_of(tensor)
        of_base = None
        if base is not None:
            values = list(inner_tensors(tensor)).index("_values")
            of_base = self._of_base(base, sizes[3][values], AttrSource(source, "_base"))
        make = partial(SubclassSymbolicContext, inner_contexts=parts)
        return _made(make, source, _kinds_of(tensor), DimDynamic.INFER_STRIDE, of_base)

    def _of_base(self, base: torch.Tensor, sizes: _Sizes | None, source: Source) -> StatefulSymbolicContext:
        """The context of the tensor that a jagged one views, which has the sizes of its values."""
        if sizes is None or base.layout == torch.jagged or len(sizes[0]) != base.dim():
            return all_static(base, source)
        return self._described(sizes, base, source)

    def _of_part(self, sizes: _Sizes | None, tensor: torch.Tensor, source: Source) -> StatefulSymbolicContext:
        return all_static(tensor, source) if sizes is None else self._described(sizes, tensor, source)

    def _override_hints(self, tensor: torch.Tensor, sizes: _Sizes) -> None:
        """Sets the usual sizes given by torch._dynamo.mark_dynamic, for which compilers tune kernels."""
        hints: dict[int, int] = getattr(tensor, "_dynamo_hint_overrides", {})
        for dim, hint in hints.items():
            if 0 <= dim < len(sizes[0]) and isinstance(sizes[0][dim], torch.SymInt):
                self._env.var_to_hint_override[sizes[0][dim].node.expr] = hint

    def _specialize(self, sizes: _Sizes) -> None:
        for symbol in set[Any]().union(*(_expression(number).free_symbols for number in _flat(sizes))):
            self._captured.specialize(self._numbers[symbol.name])

    def specialize(self) -> None:
        """Makes all symbols constants of the next capture."""
        for number in self._numbers.values():
            self._captured.specialize(number)

    def specialize_input(self, index: int) -> None:
        """Makes the input a constant of the next capture if it is a symbol."""
        if index in self.inputs:
            self._captured.specialize(self._numbers[self.inputs[index].node.expr.name])

    def read_back(self) -> None:
        """Turns assumptions about the symbols into conditions of the segment; later assumptions are not allowed."""
        env = self._env
        conditions = [guard.expr for guard in env.guards]
        for name, number in self._numbers.items():
            symbol = next(s for s in env.var_to_range if s.name == name)
            bounds = env.var_to_range[symbol]
            self._captured.require_range(number, _bound(bounds.lower), _bound(bounds.upper))
            if symbol in env.replacements:
                conditions.append(sympy.Eq(symbol, env.replacements[symbol]))
        self._captured.require(conditions, self._numbers)
        env.freeze()


def all_static(tensor: torch.Tensor, source: Source) -> StatefulSymbolicContext:
    """The context in which nothing varies: neither the tensor, nor the base it views, nor tensors that it wraps."""
    base = _base_of(tensor)
    wraps = is_traceable(type(tensor))
    inner = inner_tensors(tensor) if wraps else {}
    made = partial(
        SubclassSymbolicContext,
        inner_contexts={name: all_static(part, AttrSource(source, name)) for name, part in inner.items()},
    )
    of_base = None if base is None else all_static(base, AttrSource(source, "_base"))
    make: Any = made if wraps else StatefulSymbolicContext
    return _made(make, source, _kinds_of(tensor), DimDynamic.INFER_STRIDE, of_base)


def _kinds_of(tensor: torch.Tensor) -> list[DimDynamic]:
    """Static sizes, but for the ragged one of a jagged tensor, which has no number."""
    sizes: Any = tensor.shape
    return [DimDynamic.DYNAMIC if isinstance(size, torch.SymInt) else DimDynamic.STATIC for size in sizes]


def _context(
    tensor: torch.Tensor,
    source: Source,
    sizes: list[DimDynamic],
    strides: DimDynamic,
    make: Callable[..., StatefulSymbolicContext] = StatefulSymbolicContext,
) -> StatefulSymbolicContext:
    base = _base_of(tensor)
    of_base = None
    if base is not None:
        varies = [DimDynamic.DYNAMIC] * base.dim()
        of_base = _context(base, AttrSource(source, "_base"), varies, DimDynamic.INFER_STRIDE)
    return _made(make, source, sizes, strides, of_base)


def _made(
    make: Callable[..., StatefulSymbolicContext],
    source: Source,
    sizes: list[DimDynamic],
    strides: DimDynamic,
    base: StatefulSymbolicContext | None,
) -> StatefulSymbolicContext:
    return make(
        dynamic_sizes=sizes,
        dynamic_strides=[strides] * len(sizes),
        constraint_sizes=[None] * len(sizes),
        constraint_strides=[None] * len(sizes),
        view_base_context=base,
        tensor_source=source,
        shape_env_to_source_to_symbol_cache={},
    )


def _base_of(tensor: torch.Tensor) -> torch.Tensor | None:
    return tensor._base if tensor._is_view() else None


def _kind(number: Any) -> DimDynamic:
    if not isinstance(number, torch.SymInt):
        return DimDynamic.STATIC
    return DimDynamic.DYNAMIC if number.node.has_hint() else DimDynamic.UNBACKED


def _expression(number: Any) -> Any:
    return number.node.expr if isinstance(number, torch.SymInt) else sympy.Integer(number)


def _flat(sizes: Any) -> list[Any]:
    return [*sizes[0], *sizes[1], sizes[2]]


def _known(tensor: torch.Tensor, source: Source, sizes: _Sizes) -> dict[str, Any]:
    """The symbol of each size, stride and offset by its source's name; a gradient's where they agree."""
    parts = [(TensorProperty.SIZE, d) for d in range(tensor.dim())]
    parts += [(TensorProperty.STRIDE, d) for d in range(tensor.dim())]
    places = [TensorPropertySource(source, *part) for part in parts]
    places.append(TensorPropertySource(source, TensorProperty.STORAGE_OFFSET))
    now = [*tensor.shape, *tensor.stride(), tensor.storage_offset()]
    known = zip(places, _flat(sizes), now, strict=True)
    return {place.name: _expression(number) for place, number, value in known if _hint(number) in (value, None)}


def _hint(number: Any) -> Any:
    """The hint; None if it is unknown."""
    if not isinstance(number, torch.SymInt):
        return number
    return number.node.hint if number.node.has_hint() else None


def _bound(number: Any) -> int | None:
    """The bound; None if there is none within 64 bits."""
    return int(number) if number.is_Integer and abs(int(number)) < 2**62 else None
