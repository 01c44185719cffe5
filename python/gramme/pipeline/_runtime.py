"""Stages in threads of one process."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ._batch import Scattered, gather, scatter
from ._random import Watched
from ._routes import Programs, Routes
from ._schedule import Schedule, ScheduleError
from ._simulate import GIVES, Simulation, Span, Value, simulate
from ._split import Bound, Split
from ._step import Losses, Step

_SCHEDULES = {
    "gpipe": Schedule.gpipe,
    "1f1b": Schedule.one_f_one_b,
    "sequential": Schedule.sequential,
    "zero-bubble": Schedule.zero_bubble,
}


class Runtime:
    """Runs a split model's stages in threads, micro-batch by micro-batch.

    There is a thread for each row of the schedule, as long as a step takes. A stage's backward is a call of the
    autograd engine in that thread, on a graph cut at the stage's inputs; values and gradients go from thread to thread
    by queues. Loss and gradients have the bits of the uncut model run micro-batch by micro-batch: gradients of a value
    that several stages take, parameters too, go from the last of them to the one before, which adds its own.

    Random numbers are drawn from one generator a stage and micro-batch, seeded by one number that a step draws from the
    default generator: for a seed they are the same whatever thread comes first, with and without checkpointing.

    Attributes:
        schedule: who does what, a :class:`Schedule`.
        values: what stages hand to stages, a :class:`Value` each, with bytes of the last step's greatest micro-batch.
        spans: when each thread did what in the last step, in seconds.

    Args:
        split: what :func:`split` made.
        micro_batches: how many a batch is cut into; may be left out where a :class:`Schedule` says it.
        schedule: `"1f1b"`, `"gpipe"`, `"zero-bubble"`, `"sequential"` (one thread) or a :class:`Schedule` of forwards
            and backwards, whole or in halves.
        loss: called with the model's result for a micro-batch, and the micro-batch of `target` if there is one, by the
            thread of the last stage. What needs a gradient must come to it in the result.
        reduction: `"mean"`: the loss of the batch is the mean over rows, `"sum"`: the sum over micro-batches.
        checkpoint: keep of a forward only what the stage took, and run it again before its backward. A backward that
            follows its forward at once does not need that.
        backend: `"eager"`, or `"native"`: operators of a stage are called without Python's lock, where
            :meth:`in_python` names no reason why not.

    Raises:
        ScheduleError: the schedule cannot be carried out for these stages.
        ValueError: an argument is none of those named.

    Example:
        >>> from gramme.pipeline import split
        >>> model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
        >>> stages = split(model, (torch.ones(2, 4),), stages=2)
        >>> run = Runtime(stages, micro_batches=4, loss=nn.functional.mse_loss)
        >>> loss, output = run.step(torch.ones(8, 4), target=torch.zeros(8, 2))
        >>> loss.shape, output.shape, model[0].weight.grad.shape
        (torch.Size([]), torch.Size([8, 2]), torch.Size([4, 4]))
        >>> run(torch.ones(8, 4)).shape
        torch.Size([8, 2])

    """

    def __init__(
        self,
        split: Split,
        *,
        micro_batches: int | None = None,
        schedule: str | Schedule = "1f1b",
        loss: Callable[..., Tensor] | None = None,
        reduction: str = "mean",
        checkpoint: bool = False,
        backend: str = "eager",
    ) -> None:
        _one_of("reduction", reduction, ("mean", "sum"))
        _one_of("backend", backend, ("eager", "native"))
        stages = len(split.stages)
        self._split, self._reduction, self._checkpoint = split, reduction, checkpoint
        self._loss = Watched(loss) if loss is not None else None
        self.schedule = _schedule(schedule, stages, micro_batches)
        self._micro_batches = self.schedule.micro_batches
        self._programs = Programs(split, backend)
        self._returned: frozenset[str] = frozenset()
        self._training = self._programs.routes(with_loss=True)
        self._bytes: dict[str, int] = {}
        self.spans: tuple[Span, ...] = ()
        self.simulate()

    @property
    def values(self) -> tuple[Value, ...]:
        return self._training.values(self._bytes)

    def simulate(self, **costs: Any) -> Simulation:
        """What the schedule comes to with these values; see :func:`simulate`.

        Args:
            costs: `forward`, `backward` and `saved`.

        Raises:
            ScheduleError: it cannot be carried out.

        """
        return simulate(self.schedule, values=self.values, **costs)

    def in_python(self) -> list[list[str]]:
        """By stage, what of it is called from Python, and why; such a stage holds Python's lock for so long."""
        return [program.in_python() for program in self._training.programs]

    def step(self, *args: Any, target: Any = None, **kwargs: Any) -> tuple[Tensor, Any]:
        """Forward and backward of a batch. Gradients are accumulated in `.grad`, as by `loss.backward()`.

        Args:
            args: the model's, cut along dimension 0 into micro-batches, which differ by a row at most. What is in a
                `NoChunk`, has no dimension or is no tensor is for all of them.
            target: for the loss, cut in the same way; a tree of tensors.
            kwargs: the model's.

        Returns:
            The loss of the batch and the model's result, both without a graph.

        Raises:
            ValueError: there is no loss, or the batch cannot be cut: fewer rows than micro-batches, tensors of
                different numbers of rows.
            Exception: what a stage or the loss raised first, with a note that names stage, micro-batch and line. Some
                gradients may be there already then.

        """
        if self._loss is None:
            raise ValueError("a step needs a loss: Runtime(..., loss=function)")
        if not self._split.grad_mode:
            raise ValueError("a step needs gradients, and the model was split without")
        batch = scatter((args, kwargs, target), self._micro_batches)
        rows = [number / sum(batch.rows) if self._reduction == "mean" else 1.0 for number in batch.rows]
        targets = [] if target is None else [part for _, _, part in batch.parts]
        step, outputs = self._run(self.schedule, batch, Losses(self._loss, targets, rows))
        batch.backward()
        losses = [loss * weight for loss, weight in zip(step.losses, rows, strict=True) if loss is not None]
        return torch.stack(losses).sum(), outputs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Forward alone, without gradients.

        Args:
            args: the model's, as for :meth:`step`.
            kwargs: the same.

        Returns:
            The model's result.

        """
        batch = scatter((args, kwargs, None), self._micro_batches)
        return self._run(self.schedule.forward_only(), batch, None)[1]

    def _routes(self, bound: Sequence[Bound]) -> Routes:
        """Those of a step with a loss."""
        _check_leaves(bound)
        returned = frozenset().union(*(one.returned for one in bound))
        if returned != self._returned:
            self._returned, self._training = returned, self._programs.routes(with_loss=True, returned=returned)
        return self._training

    def _run(self, schedule: Schedule, batch: Scattered, loss: Losses | None) -> tuple[Step, Any]:
        bound = [self._split.bind(*args, **kwargs) for args, kwargs, _ in batch.parts]
        routes = self._routes(bound) if loss is not None else self._programs.routes(with_loss=False)
        base = int(torch.empty((), dtype=torch.int64).random_())
        outside = torch.get_rng_state()
        step = Step(routes, schedule, bound, base, loss=loss, checkpoint=self._checkpoint)
        began = time.perf_counter()
        step.run()
        if not torch.equal(outside, torch.get_rng_state()):  # an operator drew that did not when it was watched
            for program in routes.programs:
                program.watch_again()
            if self._loss is not None:
                self._loss.watch_again()
        self.spans = tuple(replace(span, start=span.start - began, end=span.end - began) for span in step.spans)
        self._bytes = step.bytes
        results = [one.result({**one.values, **given}) for one, given in zip(bound, step.results, strict=True)]
        return step, gather(results)


def _check_leaves(bound: Sequence[Bound]) -> None:
    """What comes from outside has no graph, which each micro-batch would go through; what is returned has one owner."""
    for one in bound:
        for name, value in one.values.items():
            if not isinstance(value, Tensor) or not value.requires_grad:
                continue
            if not value.is_leaf:
                raise ValueError(f"{name}, which the model takes from outside, is computed of what requires a gradient")
            if name in one.returned and isinstance(value, nn.Parameter):
                raise ValueError(f"the model returns a parameter, {name}: its gradient would come from two threads")


def _one_of(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, not {value!r}")


def _schedule(schedule: str | Schedule, stages: int, micro_batches: int | None) -> Schedule:
    """The schedule for so many stages, in an order in which sums are those of a loop over micro-batches."""
    if isinstance(schedule, str):
        _one_of("schedule", schedule, list(_SCHEDULES))
        if micro_batches is None:
            raise ValueError("how many micro-batches?")
        return _SCHEDULES[schedule](stages, micro_batches)
    if schedule.stages != stages or micro_batches not in (None, schedule.micro_batches):
        raise ScheduleError(
            f"the schedule is for {schedule.stages} stages and {schedule.micro_batches} micro-batches, not for "
            f"{stages} and {micro_batches}"
        )
    last: dict[tuple[int, str], int] = {}
    for rank in range(len(schedule.rows)):
        for action in schedule.computations(rank):
            i = action.micro_batch or 0
            for half in GIVES[action.kind]:
                if last.get((action.stage, half), -1) > i:
                    raise ScheduleError(
                        f"{action} is behind a later micro-batch: gradients would be summed in another order"
                    )
                last[action.stage, half] = i
    return schedule
