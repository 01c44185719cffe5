"""Threads that run the stages."""

from __future__ import annotations

import contextvars
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Thread
from types import TracebackType
from typing import Any

import torch

from .. import _C
from .microbatch import Batch
from .stream import AbstractStream, use_device, use_stream

__all__ = ["Task", "spawn_workers"]

ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]
#: None ends the worker.
InQueue = SimpleQueue["Task | None"]
#: (True, (task, its result)) or (False, the exception).
OutQueue = SimpleQueue[tuple[bool, Any]]


class Task:
    """One stage's work on one micro-batch.

    Args:
        stream: the stream it is computed on.
        compute: gives the result; called by a worker, under the modes of the thread that made the task.
        finalize: called with the result by the thread that made the task; None does nothing.

    """

    def __init__(
        self, stream: AbstractStream, *, compute: Callable[[], Batch], finalize: Callable[[Batch], None] | None
    ) -> None:
        self.stream = stream
        self._compute = compute
        self._finalize = finalize
        self._modes = _C.ThreadState()  # grad mode, autocast, hooks of saved tensors, ...
        self._context = contextvars.copy_context()

    def compute(self) -> Batch:
        """Runs the stage."""
        return self._modes.call(lambda: self._context.run(self._run))  # type: ignore[no-any-return]

    def _run(self) -> Batch:
        with use_stream(self.stream):
            return self._compute()

    def finalize(self, batch: Batch) -> None:
        """Does the rest on the thread that drives the pipeline."""
        if self._finalize is None:
            return
        with use_stream(self.stream):
            self._finalize(batch)


def _work(in_queue: InQueue, out_queue: OutQueue, device: torch.device) -> None:
    """Runs tasks until there is none. Exceptions of every kind are handed over: the other end waits for an answer."""
    torch.get_num_threads()  # before a library asks OpenMP, which ignores torch.set_num_threads() in this thread
    with use_device(device):
        while (task := in_queue.get()) is not None:
            try:
                answer: tuple[bool, Any] = (True, (task, task.compute()))
            except BaseException:
                answer = (False, sys.exc_info())
            out_queue.put(answer)
            del task, answer


def _normal(device: torch.device) -> torch.device:
    """The same for all names of a device."""
    if str(device) == "cuda":
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu") if device.type == "cpu" else device


@contextmanager
def spawn_workers(devices: Sequence[torch.device]) -> Iterator[tuple[list[InQueue], list[OutQueue]]]:
    """Starts a worker thread for each device, and joins them at the end, whatever happens.

    Args:
        devices: one for each partition. Partitions of one device share a worker, and so do all on the CPU: random
            numbers of a device are drawn in one order.

    Returns:
        For each partition, the queue of its worker's tasks, and that of the worker's answers.

    Example:
        >>> from gramme.torchgpipe.stream import CPUStream
        >>> with spawn_workers([torch.device("cpu")]) as (in_queues, out_queues):
        ...     in_queues[0].put(Task(CPUStream, compute=lambda: Batch(torch.ones(1)), finalize=None))
        ...     ok, (task, batch) = out_queues[0].get()
        >>> batch
        Batch(tensor([1.]))

    """
    queues: dict[torch.device, tuple[InQueue, OutQueue]] = {}
    threads: list[Thread] = []
    try:
        for device in map(_normal, devices):
            if device in queues:
                continue
            queues[device] = (SimpleQueue(), SimpleQueue())
            thread = Thread(target=_work, args=(*queues[device], device), name=f"gramme-stage-{device}", daemon=True)
            thread.start()
            threads.append(thread)
        yield [queues[_normal(device)][0] for device in devices], [queues[_normal(device)][1] for device in devices]
    finally:
        for in_queue, _ in queues.values():
            in_queue.put(None)
        for thread in threads:
            thread.join()
