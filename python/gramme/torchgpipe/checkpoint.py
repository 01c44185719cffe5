"""Checkpoints that recompute before the gradients arrive that need it.

A stage runs without a graph. In backward it runs again as soon as the next stage is done, while that stage's gradients
are still being transferred.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from .. import _C
from .dependency import fork, join
from .microbatch import Batch, TensorOrTensors

__all__ = [
    "Checkpointing",
    "checkpoint",
    "enable_checkpointing",
    "enable_recomputing",
    "is_checkpointing",
    "is_recomputing",
]


def is_checkpointing() -> bool:
    """Tells whether this is the first run of a checkpoint, which records no graph.

    Example:
        >>> is_checkpointing()
        False

    """
    return _C.pipeline.is_checkpointing()


def is_recomputing() -> bool:
    """Tells whether this is the second run of a checkpoint, in backward.

    A module that must do something once a micro-batch, such as counting, can check this.

    Example:
        >>> is_recomputing()
        False

    """
    return _C.pipeline.is_recomputing()


@contextmanager
def enable_checkpointing() -> Iterator[None]:
    """Makes :func:`is_checkpointing` true in this thread."""
    yield from _flags(True, False)


@contextmanager
def enable_recomputing() -> Iterator[None]:
    """Makes :func:`is_recomputing` true in this thread."""
    yield from _flags(False, True)


def _flags(checkpointing: bool, recomputing: bool) -> Iterator[None]:
    was_checkpointing, was_recomputing = is_checkpointing(), is_recomputing()
    before = _C.pipeline.set_runs(checkpointing or was_checkpointing, recomputing or was_recomputing)
    try:
        yield
    finally:
        _C.pipeline.set_runs(*before)


def checkpoint(function: Callable[..., Any], input: TensorOrTensors) -> Any:  # noqa: A002
    """Runs a function with a checkpoint.

    Args:
        function: takes what `input` is and gives a tensor or a tuple of tensors.
        input: a tensor or a tuple of tensors.

    Returns:
        What the function gives. Its floating-point tensors need a gradient.

    Raises:
        RuntimeError: in backward, if the function changed its input in place, under ``torch.autograd.grad``, and for
            second derivatives.

    Example:
        >>> x = torch.ones(2, requires_grad=True)
        >>> checkpoint(torch.exp, x).sum().backward()
        >>> x.grad
        tensor([2.7183, 2.7183])

    """
    batch = Batch(input)
    checkpointing = Checkpointing(function, batch)
    batch = checkpointing.checkpoint()
    checkpointing.recompute(batch)
    return batch.values


class Checkpointing:
    """The two halves of a checkpoint.

    Args:
        function: what is run.
        batch: its input.

    """

    def __init__(self, function: Callable[..., Any], batch: Batch) -> None:
        self.function = function
        self.batch = batch
        self._checkpoint: _C.Checkpoint | None = None

    def checkpoint(self) -> Batch:
        """Runs the function without a graph.

        Returns:
            Its result. Floating-point tensors need a gradient.

        """
        run = _TensorsOnly(self.function, self.batch)
        self._checkpoint, outputs = _C.pipeline.checkpoint(run, run.inputs(self.batch))
        output = run.output
        run.output = None  # the graph must not hold the result
        assert output is not None
        return run.replace(output, outputs)

    def recompute(self, batch: Batch) -> None:
        """Ties the second run to the result, in place: it comes before what :meth:`checkpoint` has to do in backward.

        Args:
            batch: the result of :meth:`checkpoint`.

        """
        if self._checkpoint is None:
            return
        for i, value in enumerate(batch):
            if torch.is_tensor(value) and value.requires_grad:
                batch[i], phony = fork(value)
                batch[i] = join(batch[i], _C.pipeline.recompute(self._checkpoint, phony))
                return


class _TensorsOnly:
    """A function of a batch as a function of its tensors, for the nodes."""

    def __init__(self, function: Callable[..., Any], batch: Batch) -> None:
        self.function = function
        self.kind = type(batch)
        self.others = None if batch.atomic else tuple(None if torch.is_tensor(value) else value for value in batch)
        self.places = [i for i, value in enumerate(batch) if torch.is_tensor(value)]
        self.output: Batch | None = None

    def inputs(self, batch: Batch) -> tuple[Tensor, ...]:
        return tuple(batch[i] for i in self.places)

    def __call__(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        output = self._batch(tensors).call(self.function)
        if is_checkpointing():
            self.output = output
        return tuple(value for value in output if torch.is_tensor(value))

    def _batch(self, tensors: tuple[Tensor, ...]) -> Batch:
        if self.others is None:
            return self.kind(tensors[0])
        values = list(self.others)
        for place, tensor in zip(self.places, tensors, strict=True):
            values[place] = tensor
        return self.kind(tuple(values))

    @staticmethod
    def replace(batch: Batch, tensors: tuple[Tensor, ...]) -> Batch:
        rest = iter(tensors)
        for i, value in enumerate(batch):
            if torch.is_tensor(value):
                batch[i] = next(rest)
        return batch
