"""Cuts mini-batches into micro-batches, and puts results together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, overload

import torch
from torch import Tensor

__all__ = ["Batch", "check", "gather", "scatter"]

Tensors = tuple[Tensor, ...]
TensorOrTensors = Tensor | Tensors


class Batch:
    """One micro-batch on its way through the stages: a tensor (atomic) or a tuple.

    Args:
        values: a tensor, or a tuple of tensors and, for :class:`~gramme.torchgpipe.pipe.Pipe`, of other objects.

    Example:
        >>> batch = Batch((torch.zeros(2), torch.ones(2)))
        >>> len(batch), batch.atomic, batch[1]
        (2, False, tensor([1., 1.]))

    """

    def __init__(self, values: Any) -> None:
        self._values: Any = values
        self.atomic = torch.is_tensor(values)

    @property
    def tensor(self) -> Tensor:
        """The tensor; AttributeError if it is a tuple."""
        if not self.atomic:
            raise AttributeError("not atomic batch")
        tensor: Tensor = self._values
        return tensor

    @property
    def tensors(self) -> Tensors:
        """The tuple; AttributeError if it is one tensor."""
        if self.atomic:
            raise AttributeError("batch is atomic")
        tensors: Tensors = self._values
        return tensors

    @property
    def values(self) -> Any:
        """The tensor or the tuple, as it was given."""
        return self._values

    def call(self, function: Callable[[Any], Any]) -> Batch:
        """Calls the function with the tensor or the tuple; its result is a batch."""
        return type(self)(function(self._values))

    def find_tensor_idx(self) -> int:
        """Finds the tensor that carries the micro-batch's lane: the first that can have a gradient, else the first.

        Raises:
            TypeError: there is no tensor.

        """
        if self.atomic:
            return 0
        tensors = [i for i, value in enumerate(self._values) if torch.is_tensor(value)]
        for i in tensors:
            if self._values[i].is_floating_point() or self._values[i].is_complex():
                return i
        if not tensors:
            raise TypeError("No tensor found!")
        return tensors[0]

    def get_device(self) -> torch.device:
        """Returns the device of the first tensor."""
        device: torch.device = self[self.find_tensor_idx()].device
        return device

    def __repr__(self) -> str:
        return f"Batch({self._values!r})"

    def __iter__(self) -> Iterator[Any]:
        return iter((self._values,) if self.atomic else self._values)

    def __len__(self) -> int:
        return 1 if self.atomic else len(self._values)

    def __getitem__(self, index: int) -> Any:
        if not self.atomic:
            return self._values[index]
        if index != 0:
            raise IndexError("atomic batch allows index 0 only")
        return self._values

    @overload
    def __setitem__(self, index: int, value: Any) -> None: ...
    @overload
    def __setitem__(self, index: slice, value: Any) -> None: ...
    def __setitem__(self, index: int | slice, value: Any) -> None:
        if isinstance(index, slice):
            self._set_all(index, value)
        elif not self.atomic:
            at = range(len(self._values))[index]
            self._values = (*self._values[:at], value, *self._values[at + 1 :])
        elif index != 0:
            raise IndexError("atomic batch allows index 0 only")
        else:
            self._values = value

    def _set_all(self, index: slice, values: Any) -> None:
        if index != slice(None):
            raise NotImplementedError("only slice [:] supported")
        if not self.atomic:
            self._values = tuple(values)
            return
        if len(values) != 1:
            raise IndexError("atomic batch cannot be replaced with multiple tensors")
        self._values = values[0]


def check(input: Any) -> None:  # noqa: A002
    """Checks that a module's input or output is a tensor or a tuple of tensors, which may be nested.

    Raises:
        TypeError: it is not.

    Example:
        >>> check((torch.zeros(1), torch.zeros(2)))

    """
    if isinstance(input, tuple):
        for item in input:
            check(item)
    elif not torch.is_tensor(input):
        raise TypeError(f"expected Tensor, but got {type(input)}")


def scatter(input: TensorOrTensors, chunks: int) -> list[Batch]:  # noqa: A002
    """Cuts a mini-batch along its first dimension.

    Args:
        input: a tensor of shape (batch, ...), or a tuple of such.
        chunks: how many micro-batches there shall be; there are fewer if the batch is too short.

    Returns:
        The micro-batches, all but the last of one length.

    Raises:
        RuntimeError: the tensors of a tuple give different numbers of micro-batches.

    Example:
        >>> [len(batch.tensor) for batch in scatter(torch.zeros(5), chunks=2)]
        [3, 2]

    """
    if isinstance(input, Tensor):
        return [Batch(chunk) for chunk in input.chunk(chunks)]
    cut = [tensor.chunk(chunks) for tensor in input]
    if len({len(chunks_of_tensor) for chunks_of_tensor in cut}) > 1:
        raise RuntimeError(f"Found different number of chunks: {[len(part) for part in cut]}")
    return [Batch(tuple(parts)) for parts in zip(*cut, strict=True)]


def gather(outputs: list[Batch]) -> TensorOrTensors:
    """Puts the micro-batches together along their first dimension.

    Returns:
        A tensor of shape (batch, ...), or a tuple of such.

    Example:
        >>> gather([Batch(torch.zeros(3)), Batch(torch.ones(2))])
        tensor([0., 0., 0., 1., 1.])

    """
    if outputs[0].atomic:
        return torch.cat([batch.tensor for batch in outputs])
    return tuple(torch.cat(parts) for parts in zip(*(batch.tensors for batch in outputs), strict=True))
