"""Keeps a thread's skip tensors."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor

from ..checkpoint import is_checkpointing
from ..dependency import fork, join
from ..microbatch import Batch
from ..stream import AbstractStream
from .layout import SkipLayout
from .namespace import Namespace
from .portal import Portal
from .skippable import Key

__all__ = ["SkipTracker", "SkipTrackerThroughPotals", "current_skip_tracker", "use_skip_tracker"]


class SkipTracker:
    """Keeps skip tensors as they are: for a model outside of a pipeline."""

    def __init__(self) -> None:
        self.tensors: dict[Key, Tensor | None] = {}

    def save(self, batch: Batch, ns: Namespace | None, name: str, tensor: Tensor | None) -> None:
        """Keeps a stashed tensor. The micro-batch may be changed in place, to tie the two."""
        self.tensors[ns, name] = tensor

    def load(self, batch: Batch, ns: Namespace | None, name: str) -> Tensor | None:
        """Returns a stashed tensor and forgets it. The micro-batch may be changed in place, to tie the two."""
        return self.tensors.pop((ns, name))

    def copy(
        self, batch: Batch, prev_stream: AbstractStream, next_stream: AbstractStream, ns: Namespace | None, name: str
    ) -> None:
        """Refuses: without a pipeline nothing is copied."""
        raise TypeError("copy is not supported for non-portal skip tensors")


class SkipTrackerThroughPotals(SkipTracker):
    """Hands the skip tensors of one micro-batch from partition to partition through portals.

    Args:
        skip_layout: says which of them change partitions; the others are kept as they are.

    """

    def __init__(self, skip_layout: SkipLayout) -> None:
        super().__init__()
        self.skip_layout = skip_layout
        self.portals: dict[Key, Portal] = {}

    def save(self, batch: Batch, ns: Namespace | None, name: str, tensor: Tensor | None) -> None:
        """Puts a stashed tensor into its portal, and ties that to the micro-batch.

        Raises:
            RuntimeError: under a checkpoint, the tensor may need a gradient and no tensor of the micro-batch can
                carry it back.

        """
        if not self.skip_layout.requires_copy(ns, name):
            super().save(batch, ns, name, tensor)
            return
        place = batch.find_tensor_idx()
        if tensor is not None and is_checkpointing() and _can_have_gradient(tensor) > _can_have_gradient(batch[place]):
            raise RuntimeError(
                f"skip tensor '{name}' may need a gradient, but the stage that stashes it gives whole numbers only: "
                "under a checkpoint nothing carries the gradient back; let it give a floating-point tensor too, or use "
                "checkpoint='never'"
            )
        portal = self.portals.get((ns, name))
        if portal is None:
            portal = self.portals[ns, name] = Portal(tensor, tensor_life=3 if is_checkpointing() else 2)
        else:  # recomputed: the node is wanted, not the tensor
            portal.put_tensor(tensor, tensor_life=1)
        batch[place] = join(batch[place], portal.blue())

    def load(self, batch: Batch, ns: Namespace | None, name: str) -> Tensor | None:
        """Takes a stashed tensor out of its portal, and ties the micro-batch to that."""
        if not self.skip_layout.requires_copy(ns, name):
            return super().load(batch, ns, name)
        place = batch.find_tensor_idx()
        batch[place], phony = fork(batch[place])
        return self.portals[ns, name].orange(phony)

    def copy(
        self, batch: Batch, prev_stream: AbstractStream, next_stream: AbstractStream, ns: Namespace | None, name: str
    ) -> None:
        """Moves a stashed tensor to the device of the next stream, tied to the micro-batch on both sides."""
        assert self.skip_layout.requires_copy(ns, name)
        place = batch.find_tensor_idx()
        batch[place], phony = fork(batch[place])
        phony = self.portals[ns, name].copy(prev_stream, next_stream, phony)
        batch[place] = join(batch[place], phony)


def _can_have_gradient(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


class _OfThread(threading.local):
    tracker: SkipTracker | None = None


_of_thread = _OfThread()


@contextmanager
def use_skip_tracker(skip_tracker: SkipTracker) -> Iterator[None]:
    """Makes a tracker this thread's, and puts the one before back at the end.

    Example:
        >>> tracker = SkipTracker()
        >>> with use_skip_tracker(tracker):
        ...     current_skip_tracker() is tracker
        True

    """
    before = _of_thread.tracker
    _of_thread.tracker = skip_tracker
    try:
        yield
    finally:
        _of_thread.tracker = before


def current_skip_tracker() -> SkipTracker:
    """Returns this thread's tracker, which is made at the first call."""
    if _of_thread.tracker is None:
        _of_thread.tracker = SkipTracker()
    return _of_thread.tracker
