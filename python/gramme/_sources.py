"""The sources of a graph's inputs as objects of torch._dynamo, which AOTAutograd reports, logs and keys caches by.

Only imported when a backend of PyTorch compiles a graph: torch._dynamo takes most of a second to import.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ._torch.names import Source
from ._torch.names import dynamo_source as dynamo

__all__ = ["Row", "dynamo_sources"]

# (kind of source/sources.def, row of the base or -1, key, index, type of the object)
Row = tuple[str, int, Any, int, type | None]

# Kinds that read a field of their base by an attribute's name.
_FIELDS = {
    "Globals": "__globals__",
    "Builtins": "__builtins__",
    "Defaults": "__defaults__",
    "KwDefaults": "__kwdefaults__",
    "MethodSelf": "__self__",
    "MethodFunc": "__func__",
    "PartialFunc": "func",
    "PartialArgs": "args",
    "PartialKw": "keywords",
    "InstanceDict": "__dict__",
    "DefaultFactory": "default_factory",
    "Grad": "grad",
}


def _import_name(module: str) -> str:
    return "__import_" + module.replace(".", "_dot_")


def _root(kind: str, key: Any, index: int) -> Source:
    if kind == "Local":
        return dynamo.LocalSource(key if key is not None else str(index), is_input=True)
    if kind == "Stack":
        return dynamo.LocalSource(f"___stack{index}", is_input=True)
    if kind == "Module":
        return dynamo.GlobalSource(_import_name(key))
    if kind == "Pinned":
        is_module = isinstance(key, type(torch))
        return dynamo.GlobalSource(_import_name(key.__name__) if is_module else getattr(key, "__name__", repr(key)))
    return dynamo.GlobalSource("___" + kind.lower())


def _attribute(base: Source, name: str) -> Source:
    if "." in name:
        return dynamo.DictGetItemSource(dynamo.AttrSource(base, "__dict__"), name)
    parts_of_module = base.guard_source.is_unspecialized_nn_module() and name in ("_parameters", "_buffers")
    return (dynamo.UnspecializedParamBufferSource if parts_of_module else dynamo.AttrSource)(base, name)


def _as_module(source: Source, type_: type | None) -> Source:
    """Marks a module's own source, as torch._dynamo does for one whose calls are inlined."""
    if type_ is None or not issubclass(type_, torch.nn.Module):
        return source
    place = type_.__module__
    builtin = place.startswith(("torch.nn.modules", "torch.ao.")) and not place.startswith("torch.nn.modules.container")
    return (dynamo.UnspecializedBuiltinNNModuleSource if builtin else dynamo.UnspecializedNNModuleSource)(source)


class _Builder:
    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = rows
        self.made: list[Source] = []

    def run(self) -> list[Source]:
        for row in self.rows:
            self.made.append(_as_module(self.source(row), row[4]))
        return self.made

    def source(self, row: Row) -> Source:
        kind, base_row, key, index, _ = row
        if base_row < 0:
            return _root(kind, key, index)
        base = self.made[base_row]
        special: Callable[[Row, Source], Source] | None = getattr(self, "_" + kind.lower(), None)
        if special is not None:
            return special(row, base)
        if kind in _FIELDS:
            return dynamo.AttrSource(base, _FIELDS[kind])
        if kind in ("Attr", "Slot", "TypeAttr"):
            return _attribute(base, key)
        if kind == "KeyAt":
            return dynamo.ConstDictKeySource(base, index)
        if kind == "ValueAt":
            return dynamo.DictGetItemSource(base, dynamo.ConstDictKeySource(base, index))
        if kind == "WeakTarget":
            return dynamo.WeakRefCallSource(base)
        if kind == "ProxyMapping":
            return base
        return dynamo.GetItemSource(base, index)  # DequeItem

    def _item(self, row: Row, base: Source) -> Source:
        kind, function, *_ = self.rows[row[1]]
        if kind == "Defaults":
            return dynamo.DefaultsSource(self.made[function], row[3])
        return dynamo.GetItemSource(base, row[3])

    def _value(self, row: Row, base: Source) -> Source:
        kind, function, *_ = self.rows[row[1]]
        key = row[2]
        if kind == "KwDefaults":
            return dynamo.DefaultsSource(self.made[function], key, is_kw=True)
        if kind == "Globals":
            return self._global(self.rows[function], key)
        if isinstance(key, (str, int, float, bool, bytes, type(None), torch.dtype, torch.device)):
            return dynamo.DictGetItemSource(base, key)
        return dynamo.GetItemSource(base, repr(key))

    def _global(self, function: Row, name: Any) -> Source:
        kind, _, key, _, _ = function
        module = getattr(key, "__module__", None) if kind == "Pinned" else None
        if module is None:
            return dynamo.GlobalSource(name)
        return dynamo.AttrSource(dynamo.GlobalSource(_import_name(module)), name)

    def _closure(self, row: Row, base: Source) -> Source:
        return dynamo.GetItemSource(dynamo.ClosureSource(base), row[3])

    def _sizeof(self, row: Row, base: Source) -> Source:
        return dynamo.TensorPropertySource(base, dynamo.TensorProperty.SIZE, row[3])

    def _strideof(self, row: Row, base: Source) -> Source:
        return dynamo.TensorPropertySource(base, dynamo.TensorProperty.STRIDE, row[3])

    def _offsetof(self, _: Row, base: Source) -> Source:
        return dynamo.TensorPropertySource(base, dynamo.TensorProperty.STORAGE_OFFSET)

    def _contents(self, row: Row, base: Source) -> Source:
        kind, function, name, _, _ = self.rows[row[1]]
        if kind == "Local":
            return dynamo.LocalSource(name, is_input=True)
        if kind == "Closure" and self.rows[function][0] == "Function":
            return dynamo.LocalSource(name, is_derefed_cell_contents=True)
        return dynamo.AttrSource(base, "cell_contents")


def dynamo_sources(rows: Sequence[Row], of_inputs: Sequence[int], *, repeat: bool = False) -> list[Source | None]:
    """The source of each input; None if its text stands for another input already and must be unique."""
    made = _Builder(rows).run()
    if repeat:
        return [made[row] for row in of_inputs]
    seen: set[Source] = set()
    result: list[Source | None] = []
    for row in of_inputs:
        source = made[row]
        result.append(None if source in seen else source)
        seen.add(source)
    return result
