"""GPipe: a sequential model cut into partitions, each on its device."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn, Self, cast

import torch
from torch import nn

from . import microbatch
from .batchnorm import DeferredBatchNorm
from .microbatch import Batch, TensorOrTensors
from .pipeline import Pipeline
from .skip.layout import inspect_skip_layout
from .skip.skippable import verify_skippables
from .stream import AbstractStream, new_stream

__all__ = ["GPipe", "Partitioned", "verify_module"]

Device = torch.device | int | str
_AUTOMATIC = """

If your model is still under development, the balance can be found for you:

    from gramme.torchgpipe import GPipe
    from gramme.torchgpipe.balance import balance_by_time

    partitions = torch.cuda.device_count()
    sample = torch.empty(...)
    balance = balance_by_time(partitions, model, sample)
    model = GPipe(model, balance, ...)
"""


def verify_module(module: nn.Module) -> None:
    """Checks that a model can be cut.

    Raises:
        TypeError: it is no nn.Sequential.
        ValueError: two of its layers are one object, or share a parameter.

    Example:
        >>> verify_module(nn.Sequential(nn.Linear(1, 1), nn.ReLU()))

    """
    if not isinstance(module, nn.Sequential):
        raise TypeError("module must be nn.Sequential to be partitioned")
    layers = list(module._modules.values())
    if len({id(layer) for layer in layers}) != len(layers):
        raise ValueError("module with duplicate children is not supported")
    owners: dict[int, nn.Module] = {}
    for layer in module.children():
        for parameter in layer.parameters():
            if owners.setdefault(id(parameter), layer) is not layer:
                raise ValueError("module with duplicate parameters in distinct children is not supported")


def _verify_balance(layers: int, balance: list[int]) -> None:
    if layers != sum(balance):
        raise ValueError(
            f"module and sum of balance have different length (module: {layers}, sum of balance: {sum(balance)})"
            + _AUTOMATIC
        )
    if any(length <= 0 for length in balance):
        raise ValueError(f"all balance numbers must be positive integer (balance: {balance})" + _AUTOMATIC)


def _cut(module: nn.Sequential, balance: list[int], devices: list[torch.device]) -> list[nn.Module]:
    """The partitions, each on its device; their layers keep their names."""
    layers = iter(module.named_children())
    partitions: list[nn.Module] = []
    for length, device in zip(balance, devices, strict=True):
        partition = nn.Sequential(OrderedDict(next(layers) for _ in range(length)))
        partitions.append(partition.to(device))
    return partitions


_MOVED = "denied to move parameters and buffers, because GPipe should manage device placement"


class Partitioned(nn.Module):
    """The common base of :class:`GPipe` and :class:`~gramme.torchgpipe.pipe.Pipe`."""

    devices: list[torch.device]
    chunks: int
    checkpoint: str
    partitions: nn.ModuleList

    def __init__(self, chunks: int, checkpoint: str) -> None:
        super().__init__()
        self.chunks, self.checkpoint = int(chunks), str(checkpoint)
        if self.chunks <= 0:
            raise ValueError("number of chunks must be positive integer")
        if self.checkpoint not in ("always", "except_last", "never"):
            raise ValueError("checkpoint is not one of 'always', 'except_last', or 'never'")
        self._copy_streams: list[list[AbstractStream]] = []

    def _set(self, partitions: list[nn.Module], devices: list[torch.device]) -> None:
        self.partitions, self.devices = nn.ModuleList(partitions), devices
        self._skip_layout = inspect_skip_layout(partitions)

    def _deferred(self, module: nn.Sequential) -> nn.Sequential:
        return cast(nn.Sequential, DeferredBatchNorm.convert_deferred_batch_norm(module, self.chunks))

    def __len__(self) -> int:
        return sum(len(cast(nn.Sequential, partition)) for partition in self.partitions)

    def __getitem__(self, index: int) -> nn.Module:
        return list(self)[index]

    def __iter__(self) -> Iterator[nn.Module]:
        for partition in self.partitions:
            yield from partition.children()

    def cuda(self, device: Any = None) -> NoReturn:
        """Raises TypeError: each partition is on its device."""
        raise TypeError(_MOVED)

    def cpu(self) -> NoReturn:
        """Raises TypeError: each partition is on its device."""
        raise TypeError(_MOVED)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Casts parameters and buffers.

        Raises:
            TypeError: a device is given, or a tensor, which has one.

        """
        if "device" in kwargs or "tensor" in kwargs or (args and isinstance(args[0], Device | torch.Tensor)):
            raise TypeError(_MOVED)
        return super().to(*args, **kwargs)

    def _run(self, batches: list[Batch]) -> None:
        """Runs the micro-batches, which may be fewer than `chunks`."""
        number = len(batches)
        for module in self.modules() if self.training else ():
            if isinstance(module, DeferredBatchNorm):
                module.expect(number)
        if not self._copy_streams:
            self._copy_streams = [[new_stream(device) for _ in range(self.chunks)] for device in self.devices]
        stop = {"always": number, "except_last": number - 1, "never": 0}[self.checkpoint] if self.training else 0
        partitions = list(self.partitions)
        Pipeline(batches, partitions, self.devices, self._copy_streams, self._skip_layout, stop).run()


class GPipe(Partitioned):
    """Runs a sequential model as a pipeline: its partitions work at the same time, on different micro-batches.

    Args:
        module: the model. Its layers take and give a tensor or a tuple of tensors, whose first dimension is the batch.
        balance: how many layers each partition has.
        devices: one for each partition; those too many are dropped. All CUDA devices by default.
        chunks: how many micro-batches a mini-batch is cut into; a short one into fewer.
        checkpoint: which micro-batches are run again in backward instead of keeping their graph: "always" all,
            "except_last" all but the last, "never" none. None in evaluation.
        deferred_batch_norm: batch normalisations update their running statistics by the whole mini-batch.

    Attributes:
        balance: list of int.
        devices: list of torch.device.
        chunks: int.
        checkpoint: str.
        partitions: the nn.ModuleList of partitions; parameters are named ``partitions.J.NAME``.

    Raises:
        TypeError: the module is no nn.Sequential, or its skip tensors do not match.
        ValueError: there is no balance, or it does not fit; chunks or checkpoint are none; layers share parameters.
        IndexError: there are fewer devices than partitions.

    Example:
        >>> model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
        >>> model = GPipe(model, balance=[1, 2], devices=["cpu", "cpu"], chunks=4)
        >>> model(torch.ones(8, 4)).shape
        torch.Size([8, 2])

    """

    balance: list[int]

    def __init__(
        self,
        module: nn.Sequential,
        balance: Iterable[int] | None = None,
        *,
        devices: Iterable[Device] | None = None,
        chunks: int = 1,
        checkpoint: str = "except_last",
        deferred_batch_norm: bool = False,
    ) -> None:
        if balance is None:
            raise ValueError("balance is required" + _AUTOMATIC)
        super().__init__(chunks, checkpoint)
        verify_module(module)
        verify_skippables(module)
        self.balance = list(balance)
        _verify_balance(len(module), self.balance)
        places = [torch.device(device) for device in (range(torch.cuda.device_count()) if devices is None else devices)]
        if len(places) < len(self.balance):
            raise IndexError(
                f"too few devices to hold given partitions (devices: {len(places)}, partitions: {len(self.balance)})"
            )
        places = places[: len(self.balance)]
        if deferred_batch_norm:
            module = self._deferred(module)
        self._set(_cut(module, self.balance, places), places)

    def forward(self, input: TensorOrTensors) -> TensorOrTensors:  # noqa: A002
        """Runs a mini-batch.

        Args:
            input: a tensor of shape (batch, ...), or a tuple of such, on the first partition's device.

        Returns:
            What the model gives, on the last partition's device.

        Raises:
            TypeError: input or output is no tensor or tuple of tensors.
            BaseException: the first that a partition raises, with its traceback.

        """
        microbatch.check(input)
        if not self.devices:
            return input
        batches = microbatch.scatter(input, chunks=self.chunks)
        self._run(batches)
        for batch in batches:
            microbatch.check(batch.values)
        return microbatch.gather(batches)
