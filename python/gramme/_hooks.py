"""Hooks that a graph registers on its tensors before the program's own objects are there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.utils.hooks import RemovableHandle

__all__ = ["fill", "pending"]


def pending(gradient: Any) -> Any:
    """Stands for a hook that is made after the graph; no gradient flows before."""
    raise AssertionError("only the end of a segment puts the program's hook in this place")


def fill(handle: RemovableHandle, hook: Callable[..., Any]) -> None:
    """The hook takes the place that the graph kept for it; nobody has removed it yet."""
    hooks = handle.hooks_dict_ref()
    if hooks is not None:
        hooks[handle.id] = hook
