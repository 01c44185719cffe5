"""The types that the capture and the tables of NumPy's calls exchange."""

from collections.abc import Callable, Hashable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch

MOST_ELEMENTS = 1 << 24
"""Of one array that NumPy is asked about."""

MOST_COMPARED = 4096
"""Elements of a result that is compared with NumPy's."""

TORCH_DTYPES: dict[Any, torch.dtype] = {
    np.dtype(name): getattr(torch, name if name != "bool" else "bool")
    for name in (
        *("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"),
        *("complex64", "complex128"),
    )
}
NUMPY_DTYPES = {of_torch: of_numpy for of_numpy, of_torch in TORCH_DTYPES.items()}


class Stand:
    """Stands for an array of the program or a NumPy scalar: everything known of it except data.

    memory: the index of the first array of the call that lies in the same memory. apart: the array is a view with
    negative strides, and its tensor a copy, which is only read. fresh: the graph made its memory.
    seen: the program has a tensor in it, too, whose version a write by NumPy leaves as it is.
    """

    __slots__ = ("apart", "dtype", "fresh", "index", "key", "memory", "seen", "sizes", "strides", "type", "writeable")

    def __init__(
        self,
        index: int,
        memory: int,
        dtype: torch.dtype,
        sizes: tuple[int, ...],
        strides: tuple[int, ...],
        type_: type,
        writeable: bool,
        apart: bool = False,
        fresh: bool = False,
        seen: bool = False,
    ) -> None:
        self.index, self.memory, self.dtype, self.sizes, self.strides = index, memory, dtype, sizes, strides
        self.type, self.writeable = type_, bool(writeable) and not apart
        self.apart, self.fresh, self.seen = bool(apart), bool(fresh), bool(seen)
        flags = (self.writeable, self.apart, self.fresh, self.seen)
        self.key = (index, memory, dtype, sizes, strides, type_, flags)


class VaryingInt(int):
    """The present value of an int that may vary between calls; it equals only itself."""

    index: int


class VaryingFloat(float):
    """The same for a float."""

    index: int


class Call(NamedTuple):
    """A call in the graph: of a function, or of the method with this name."""

    target: Callable[..., Any] | str
    args: tuple[Any, ...]
    keywords: Mapping[str, Any] = MappingProxyType({})


class Expected(NamedTuple):
    """An array or NumPy scalar that a call returns."""

    dtype: torch.dtype
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    memory: int
    type: type
    writeable: bool
    view_of: int = -1
    """The index of the array of which NumPy has a view that no tensor can be."""

    def agrees(self, dtype: torch.dtype, sizes: tuple[int, ...], strides: tuple[int, ...], memory: int) -> bool:
        """True for a tensor like NumPy's result."""
        if self.view_of >= 0:
            return (dtype, sizes, memory) == (self.dtype, self.sizes, -1)
        if (dtype, sizes, memory) != (self.dtype, self.sizes, self.memory):
            return False
        return 0 in sizes or all(a == b for size, a, b in zip(sizes, strides, self.strides, strict=True) if size > 1)


class Answer(NamedTuple):
    """`value`: constants, Stands and Calls. `expected`: of the same form; None of what is no array, ... for None."""

    value: Any
    expected: Any
    exact: bool = False
    """NumPy itself computes, and gives arrays of these sizes."""


def key_of(tree: Any) -> Any:
    """A key that equal trees of Stands and constants share; None of what has none."""
    kind = type(tree)
    if kind is Stand:
        return tree.key
    if kind in _PLAIN:
        return (kind, tree)
    if isinstance(tree, list | tuple):
        parts: list[Any] = [kind]
        for item in tree:
            part = key_of(item)
            if part is None:
                return None
            parts.append(part)
        return tuple(parts)
    if isinstance(tree, dict):
        return key_of([*tree, *tree.values()])
    if isinstance(tree, slice):
        return key_of((slice, tree.start, tree.stop, tree.step))
    if isinstance(tree, VaryingInt | VaryingFloat):
        return (kind, repr(tree), tree.index)
    if isinstance(tree, float | complex | np.generic):
        return (kind, repr(tree))  # -0.0 is another number
    return (kind, tree) if isinstance(tree, Hashable) else None


_PLAIN = {int, bool, str, type(None), type, np.ufunc, type(len), type(str.join), type(int.__add__)}
"""Types of what is equal to itself alone, or to what does the same."""


class UnknownCallError(Exception):
    """The call cannot be translated and runs uncaptured."""


def stands_in(tree: Any) -> Iterator[Stand]:
    if isinstance(tree, Stand):
        yield tree
    elif isinstance(tree, list | tuple):
        for item in tree:
            yield from stands_in(item)
    elif isinstance(tree, Mapping):
        yield from stands_in(list(tree.values()))


def mapped(tree: Any, leaf: Callable[[Any], Any]) -> Any:
    if isinstance(tree, list | tuple):
        return type(tree)(mapped(item, leaf) for item in tree)
    if isinstance(tree, Mapping):
        return {key: mapped(value, leaf) for key, value in tree.items()}
    return leaf(tree)
