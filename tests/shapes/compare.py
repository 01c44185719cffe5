"""Walks two runs' objects side by side and names the first difference."""

import math
import types
from collections.abc import Iterator
from typing import Any

import torch

LEAVES = (type(None), bool, int, str, bytes, range, torch.dtype, torch.device, torch.memory_format)


class _Storage:
    """Stands for a storage: one for all tensors that share it."""


class Comparison:
    """Objects of an eager run and of a compiled one: types, values, identities, shared storage.

    With a tolerance values may differ by it, and inductor's strides of empty tensors are its own; without, bits are
    compared.
    """

    def __init__(self, tolerance: float = 0.0) -> None:
        self.tolerance = tolerance
        self.there: dict[int, Any] = {}
        self.back: dict[int, Any] = {}
        self.walked: set[int] = set()
        self.storages: dict[int, tuple[_Storage, Any]] = {}

    def difference(self, want: Any, have: Any, path: str = "result") -> str | None:
        """Where and how they differ first; None if they do not."""
        if type(want) is not type(have):
            return f"{path}: {type(want).__name__} {want!r} | {type(have).__name__} {have!r}"
        if isinstance(want, LEAVES):
            return None if want == have else f"{path}: {want!r} | {have!r}"
        if isinstance(want, float):
            return None if self._near(want, have) else f"{path}: {want!r} | {have!r}"
        if isinstance(want, types.FunctionType) and want.__closure__ is None:
            return None if want.__code__ is have.__code__ else f"{path}: other functions"
        mutable = not isinstance(want, (tuple, frozenset))
        if mutable and not self._paired(want, have):
            return f"{path}: is an object met before in one of the runs only"
        if mutable and id(want) in self.walked:
            return None
        self.walked.add(id(want))
        if isinstance(want, torch.Tensor):
            return self._tensors(want, have, path)
        return self._parts(want, have, path)

    def _near(self, want: float, have: float) -> bool:
        if math.isnan(want) or math.isnan(have):
            return math.isnan(want) and math.isnan(have)
        return want.hex() == have.hex() or abs(want - have) < self.tolerance * (1 + abs(want))

    def _paired(self, want: Any, have: Any) -> bool:
        return self.there.setdefault(id(want), have) is have and self.back.setdefault(id(have), want) is want

    def _parts(self, want: Any, have: Any, path: str) -> str | None:
        left, right = list(_parts(want)), list(_parts(have))
        if [name for name, _ in left] != [name for name, _ in right]:
            return f"{path}: {[name for name, _ in left]} | {[name for name, _ in right]}"
        for (name, one), (_, other) in zip(left, right, strict=True):
            found = self.difference(one, other, f"{path}{name}")
            if found is not None:
                return found
        return None

    def _tensors(self, want: torch.Tensor, have: torch.Tensor, path: str) -> str | None:
        strides = bool(want.numel()) or not self.tolerance
        facts, found = _facts(want, strides), _facts(have, strides)
        if facts != found:
            return f"{path}: {facts} | {found}"
        one, other = want.detach(), have.detach()
        if one.numel() and not self._paired(self._storage(one), self._storage(other)):
            return f"{path}: shares memory with another tensor in one of the runs only"
        if not self._equal(one, other):
            return f"{path}: {facts} {one.flatten()[:12].tolist()} | {other.flatten()[:12].tolist()}"
        if want.is_leaf:
            return self.difference(want.grad, have.grad, f"{path}.grad")
        return None

    def _storage(self, tensor: torch.Tensor) -> _Storage:
        storage = tensor.untyped_storage()
        return self.storages.setdefault(storage._cdata, (_Storage(), storage))[0]

    def _equal(self, want: torch.Tensor, have: torch.Tensor) -> bool:
        if not self.tolerance:
            same = torch.equal(want, have) and torch.equal(want.signbit(), have.signbit())
            return same or bool(
                ((want == have) & (want.signbit() == have.signbit()) | want.isnan() & have.isnan()).all()
            )
        return torch.allclose(want.double(), have.double(), self.tolerance, self.tolerance, equal_nan=True)


def _facts(t: torch.Tensor, strides: bool) -> str:
    placed = f"strides {t.stride()} offset {t.storage_offset()}" if strides else ""
    return (
        f"{type(t).__name__} {t.dtype} {list(t.shape)} {placed} "
        f"{'needs gradients' if t.requires_grad else ''} {'leaf' if t.is_leaf else ''}"
    )


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for i, (key, part) in enumerate(value.items()):
            yield (f"[{key!r}]", part) if isinstance(key, LEAVES) else (f" key {i}", (key, part))
    elif isinstance(value, list | tuple):
        yield from ((f"[{i}]", part) for i, part in enumerate(value))
    elif isinstance(value, set | frozenset):
        yield " members", sorted(value, key=repr)
    elif isinstance(value, types.FunctionType):
        yield from ((f" cell {i}", cell.cell_contents) for i, cell in enumerate(value.__closure__ or ()))
    for base in type(value).__mro__:
        for slot in base.__dict__.get("__slots__", ()):
            if hasattr(value, slot):
                yield f".{slot}", getattr(value, slot)
    for name, part in getattr(value, "__dict__", {}).items():
        yield f".{name}", part
