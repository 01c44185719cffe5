"""Flattens and unflattens tensors that wrap others, as PyTorch's front end does, with one context for equal ones.

A class is traceable if it has `__tensor_flatten__` and `__tensor_unflatten__`. Called from C++.
"""

from __future__ import annotations

import dataclasses
import enum
import struct
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import torch

from ._torch.names import DTENSOR_SPEC, NestedTensor, loaded

__all__ = [
    "canonical",
    "compared",
    "fields",
    "flatten",
    "inner_tensors",
    "is_immutable",
    "is_traceable",
    "sizeless",
    "unflatten",
    "with_others",
]

_known: dict[Hashable, tuple[tuple[str, ...], Any]] = {}


@dataclasses.dataclass(frozen=True, eq=False)
class _Held:
    """An object that is compared by identity."""

    object: Any


class _Context(NamedTuple):
    context: Any
    others: tuple[tuple[str, _Held], ...]


class _ChangedError(Exception):
    """The class does not describe its instances' parts."""


def _key(value: Any) -> Hashable:
    """A key that is equal for equal values of the same types, by their classes' comparisons."""
    kind = type(value)
    if kind is float:
        return kind, struct.pack("d", value)
    if kind is complex:
        return kind, struct.pack("dd", value.real, value.imag)
    if isinstance(value, list | tuple):
        return kind, tuple(map(_key, value))
    if kind is dict:
        return kind, tuple((_key(key), _key(item)) for key, item in value.items())
    if isinstance(value, torch.Tensor):
        raise _ChangedError("a tensor in the context")
    if isinstance(value, _Held):
        return _Held, id(value.object)
    names = fields(value)
    if names is not None:
        return kind, tuple(_key(getattr(value, name)) for name in names)
    return kind, value


def is_traceable(cls: type) -> bool:
    """True if instances can be flattened and operators are dispatched to the class."""
    wraps = cls.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__  # type: ignore[attr-defined]
    return wraps and hasattr(cls, "__tensor_flatten__") and hasattr(cls, "__tensor_unflatten__")


def sizeless(dtype: torch.dtype) -> Any:
    """The part of a DTensor's context that tells its sizes, without them."""
    return loaded(DTENSOR_SPEC).TensorMeta(torch.Size(()), (), dtype)  # type: ignore[union-attr]


def _without_sizes(context: Any) -> Any:
    """A DTensor's context without its sizes, since __tensor_unflatten__ takes those that it is given."""
    module = loaded(DTENSOR_SPEC)
    if module is None or type(context) is not tuple:
        return context
    return tuple(sizeless(item.dtype) if type(item) is module.TensorMeta else item for item in context)


def canonical(names: Sequence[str], context: Any) -> tuple[tuple[str, ...], Any]:
    """One object for equal names of inner tensors and equal contexts, for the life of the process."""
    if isinstance(context, _Context):
        context = context._replace(context=_without_sizes(context.context))
    else:
        context = _without_sizes(context)
    key = tuple(names), _key(context)
    return _known.setdefault(key, (tuple(names), context))


def _parts(wrapper: torch.Tensor) -> tuple[dict[str, torch.Tensor], list[tuple[str, Any]], Any]:
    """What a wrapper tells: its inner tensors, other objects that it holds, and the context."""
    names, context = wrapper.__tensor_flatten__()  # type: ignore[attr-defined]
    parts = [(name, getattr(wrapper, name)) for name in names]
    tensors = {name: part for name, part in parts if isinstance(part, torch.Tensor)}
    return tensors, [(name, part) for name, part in parts if name not in tensors], context


def inner_tensors(wrapper: torch.Tensor) -> dict[str, torch.Tensor]:
    """The inner tensors that a wrapper tells, by their names."""
    return _parts(wrapper)[0]


def flatten(wrapper: torch.Tensor) -> tuple[tuple[tuple[str, ...], Any], list[torch.Tensor]]:
    """The canonical names and context, and the inner tensors."""
    tensors, others, context = _parts(wrapper)
    return canonical(list(tensors), with_others(context, others)), list(tensors.values())


def with_others(context: Any, others: Sequence[tuple[str, Any]]) -> Any:
    """The context of a wrapper that holds other objects beside tensors: each is the same object in equal contexts."""
    return _Context(context, tuple((name, _Held(part)) for name, part in others)) if others else context


def unflatten(
    cls: Any, described: tuple[tuple[str, ...], Any], inner: list[torch.Tensor], size: Any, stride: tuple[Any, ...]
) -> torch.Tensor:
    """An instance of the class around the inner tensors."""
    names, context = described
    parts = dict(zip(names, inner, strict=True))
    if isinstance(context, _Context):
        parts |= {name: held.object for name, held in context.others}
        context = context.context
    if cls is NestedTensor:
        size = _sizes_of_jagged(parts, context)
    elif not any(isinstance(number, torch.SymInt) for number in size):
        size = torch.Size(size)
    made = cls.__tensor_unflatten__(parts, context, size, stride)
    if type(made) is not cls:
        raise _ChangedError(f"{cls.__name__}.__tensor_unflatten__ makes a {type(made).__name__}")
    return made  # type: ignore[no-any-return]


def _sizes_of_jagged(parts: dict[str, torch.Tensor], context: dict[str, Any]) -> list[Any]:
    """What the class reads of a jagged fake's sizes: the ragged one, which goes with the offsets or the lengths."""
    ragged = context["ragged_idx"]
    return [*[None] * ragged, parts.get("_lengths", parts["_offsets"]).get_nested_int()]  # type: ignore[attr-defined]


def compared(kind: type) -> tuple[str, ...] | None:
    """The names of the fields of a data class whose instances compare by them alone; None for other classes."""
    parameters = kind.__dict__.get("__dataclass_params__")
    if parameters is None or not parameters.eq or kind.__eq__ is not kind.__dict__.get("__eq__"):
        return None
    return tuple(field.name for field in dataclasses.fields(kind) if field.compare)


def fields(value: Any) -> tuple[str, ...] | None:
    """The same for an object, if it has no other attributes."""
    names = compared(type(value))
    return names if names is not None and set(getattr(value, "__dict__", names)) <= set(names) else None


def is_immutable(value: Any) -> bool:
    """True for immutable objects: the same object is always equal to itself."""
    return isinstance(value, enum.Enum | type | torch.dtype | torch.device | torch.layout | torch.memory_format)
