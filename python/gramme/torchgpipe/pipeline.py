"""The schedule of micro-batches over partitions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .checkpoint import Checkpointing
from .copy import Copy, Wait
from .dependency import fork, join
from .microbatch import Batch
from .skip.layout import SkipLayout, inspect_skip_layout
from .skip.tracker import SkipTrackerThroughPotals, use_skip_tracker
from .stream import AbstractStream, current_stream, use_device
from .worker import ExcInfo, InQueue, OutQueue, Task, spawn_workers

__all__ = ["Pipeline", "clock_cycles"]


def clock_cycles(m: int, n: int) -> Iterable[list[tuple[int, int]]]:
    """Yields for each clock cycle which micro-batch is in which partition.

    Args:
        m: how many micro-batches there are.
        n: how many partitions there are.

    Returns:
        m + n - 1 lists of (micro-batch, partition), by partition.

    Example:
        >>> list(clock_cycles(2, 2))
        [[(0, 0)], [(1, 0), (0, 1)], [(1, 1)]]

    """
    for clock in range(m + n - 1):
        yield [(clock - j, j) for j in range(max(clock - m + 1, 0), min(clock + 1, n))]


def _depend(fork_from: Batch, join_to: Batch) -> None:
    """Makes backward reach `fork_from` after all of `join_to`."""
    i, j = fork_from.find_tensor_idx(), join_to.find_tensor_idx()
    fork_from[i], phony = fork(fork_from[i])
    join_to[j] = join(join_to[j], phony)


def _through(node: Any, batch: Batch, prev_stream: AbstractStream, next_stream: AbstractStream) -> None:
    """Passes the batch's tensors through one node."""
    places = [i for i, value in enumerate(batch) if torch.is_tensor(value)]
    moved: tuple[Tensor, ...] = node.apply(prev_stream, next_stream, *(batch[i] for i in places))
    for i, tensor in zip(places, moved, strict=True):
        batch[i] = tensor


class Pipeline:
    """Runs micro-batches through the partitions.

    Args:
        batches: the micro-batches, replaced by their results.
        partitions: the stages, each on its device.
        devices: of the partitions; the CPU by default.
        copy_streams: by partition and micro-batch; the current streams by default.
        skip_layout: which skip tensors go where; found in the partitions by default.
        checkpoint_stop: the micro-batches before that one are checkpointed.

    """

    def __init__(
        self,
        batches: list[Batch],
        partitions: Sequence[nn.Module],
        devices: Sequence[torch.device] | None = None,
        copy_streams: Sequence[Sequence[AbstractStream]] | None = None,
        skip_layout: SkipLayout | None = None,
        checkpoint_stop: int = 0,
    ) -> None:
        self.batches = batches
        self.partitions = partitions
        self.devices = devices if devices is not None else [torch.device("cpu")] * len(partitions)
        self.copy_streams = copy_streams or [[current_stream(device)] * len(batches) for device in self.devices]
        self.skip_layout = skip_layout or inspect_skip_layout(partitions)
        self.checkpoint_stop = checkpoint_stop

    def run(self) -> None:
        """Runs all micro-batches through all partitions.

        Raises:
            BaseException: the first that a partition raises, in the order of the partitions, with its traceback. What
                the clock under way has begun is finished before.

        """
        trackers = [SkipTrackerThroughPotals(self.skip_layout) for _ in self.batches]
        with spawn_workers(self.devices) as (in_queues, out_queues):
            for schedule in clock_cycles(len(self.batches), len(self.partitions)):
                self.fence(schedule, trackers)
                self.compute(schedule, trackers, in_queues, out_queues)

    def fence(self, schedule: list[tuple[int, int]], skip_trackers: list[SkipTrackerThroughPotals]) -> None:
        """Moves the micro-batches to the devices of their next partitions, and orders their backward."""
        for i, j in schedule:
            if i != 0:
                _depend(self.batches[i - 1], self.batches[i])
            next_stream = self.copy_streams[j][i]
            for prev_j, namespace, name in self.skip_layout.copy_policy(j):
                skip_trackers[i].copy(self.batches[i], self.copy_streams[prev_j][i], next_stream, namespace, name)
            if j != 0:
                _through(Copy, self.batches[i], self.copy_streams[j - 1][i], next_stream)

    def compute(
        self,
        schedule: list[tuple[int, int]],
        skip_trackers: list[SkipTrackerThroughPotals],
        in_queues: list[InQueue],
        out_queues: list[OutQueue],
    ) -> None:
        """Runs the partitions of one clock."""
        streams = [current_stream(device) for device in self.devices]
        for i, j in schedule:
            _through(Wait, self.batches[i], self.copy_streams[j][i], streams[j])
            in_queues[j].put(self._task(i, j, streams[j], skip_trackers[i]))
        error: ExcInfo | None = None
        for i, j in schedule:
            ok, answer = out_queues[j].get()
            if not ok:
                error = error or answer
                continue
            if error:
                continue
            task, batch = answer
            if j != len(self.partitions) - 1:
                _through(Wait, batch, streams[j], self.copy_streams[j][i])
            with use_device(self.devices[j]):
                task.finalize(batch)
            self.batches[i] = batch
        if error:
            try:
                raise error[1].with_traceback(error[2])
            finally:
                del error

    def _task(self, i: int, j: int, stream: AbstractStream, tracker: SkipTrackerThroughPotals) -> Task:
        batch, partition = self.batches[i], self.partitions[j]

        # Recomputed on a thread of the engine's, so the tracker is not taken from the thread.
        def run(*values: Any) -> Any:
            with use_skip_tracker(tracker), torch.profiler.record_function(f"chunk{i}-part{j}"):
                return partition(*values)

        if i < self.checkpoint_stop:
            checkpointing = Checkpointing(run, batch)
            return Task(stream, compute=checkpointing.checkpoint, finalize=checkpointing.recompute)
        return Task(stream, compute=lambda: batch.call(run), finalize=None)
