"""Runs one step of a pipeline, a thread for each row of its schedule."""

from __future__ import annotations

import contextlib
import contextvars
from _thread import start_new_thread
from collections.abc import Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any

import torch
from torch import Tensor

from .. import _C
from ._random import Numbers, Watched
from ._routes import Routes
from ._schedule import Schedule
from ._simulate import Span
from ._split import Bound
from ._worker import Cancelled, Worker

#: The main thread wakes up so often to see to interrupts, in seconds.
_SLICE = 0.1


@dataclass
class Losses:
    """How the loss of a micro-batch is computed.

    Attributes:
        function: called with the result, and the target if there is one.
        targets: by micro-batch; empty if there are none.
        weights: by micro-batch, of its loss in the batch's.

    """

    function: Watched
    targets: Sequence[Any]
    weights: Sequence[float]

    def compute(self, numbers: Numbers, micro_batch: int, result: Any) -> Tensor:
        """The loss of a micro-batch."""
        targets = self.targets[micro_batch : micro_batch + 1]
        loss = self.function(numbers, result, *targets)
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            raise TypeError(f"the loss must be a tensor of one element, not {_described(loss)}")
        return loss


def _described(value: Any) -> str:
    return f"one of shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__


class Step:
    """The state that the threads of a step share.

    Attributes:
        results: by micro-batch, the values in the model's result.
        losses: by micro-batch.
        bytes: of each value of the greatest micro-batch.
        spans: when which thread did what.

    """

    def __init__(
        self,
        routes: Routes,
        schedule: Schedule,
        bound: Sequence[Bound],
        base: int,
        *,
        loss: Losses | None,
        checkpoint: bool,
    ) -> None:
        self.routes, self.bound, self.base, self.loss, self.checkpoint = routes, bound, base, loss, checkpoint
        self.results: list[dict[str, Any]] = [{} for _ in bound]
        self.losses: list[Tensor | None] = [None] * len(bound)
        self.bytes: dict[str, int] = {}
        self.spans: list[Span] = []
        self.cancelled = False
        self.phony = torch.empty(0, requires_grad=True)
        self._error: BaseException | None = None
        self._lock = Lock()
        self._is_over = False
        self._over: SimpleQueue[None] = SimpleQueue()
        self._modes = _C.ThreadState()
        self.workers = [Worker(self, rank, list(schedule.computations(rank))) for rank in range(len(schedule.rows))]
        self.worker_of = {action.stage: worker for worker in self.workers for action in worker.actions}
        self._threads = [
            Thread(
                target=self._work, args=(worker, contextvars.copy_context()), name=f"gramme-rank-{rank}", daemon=True
            )
            for rank, worker in enumerate(self.workers)
        ]

    def run(self) -> None:
        """Runs all threads to their end.

        Raises:
            BaseException: what one of them raised first, or what interrupted this thread.

        """
        supervisor: list[int] = []
        try:
            # One call into C: an interrupt comes either before the thread is started or after it is known to run.
            supervisor.extend(map(start_new_thread, [self._supervise], [()]))
            self._wait()
        finally:
            if supervisor:
                self._cancel()
                self._wait()
            for held in (self._threads, self.workers, self.worker_of):  # each worker holds the step
                held.clear()
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error

    def _wait(self) -> None:
        while not self._is_over:
            with contextlib.suppress(Empty):
                self._over.get(timeout=_SLICE)

    def _supervise(self) -> None:
        """Starts all threads and waits for their end: `start()` bears no interrupt, which only the main thread gets."""
        started = []
        try:
            for thread in self._threads:
                thread.start()
                started.append(thread)
        except BaseException as error:  # there can be no more threads
            self._error = error
            self._cancel()
        for thread in started:
            thread.join()
        self._is_over = True
        self._over.put(None)

    def _work(self, worker: Worker, context: contextvars.Context) -> None:
        try:
            torch.get_num_threads()  # before a library asks OpenMP, which does not know of torch.set_num_threads() here
            self._modes.call(lambda: context.run(worker.run))
        except Cancelled:
            pass
        except BaseException as error:  # the caller waits for an answer
            self._fail(error, worker)

    def _fail(self, error: BaseException, worker: Worker) -> None:
        with self._lock:
            if self._error is None:
                self._error = error
                error.add_note(worker.describe(error))
        self._cancel()

    def _cancel(self) -> None:
        self.cancelled = True
        for worker in self.workers:
            worker.inbox.put(None)
