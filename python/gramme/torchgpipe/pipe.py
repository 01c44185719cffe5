"""Pipe: the interface of torch.distributed.pipeline.sync."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed import rpc

from .gpipe import Partitioned
from .microbatch import Batch
from .skip.skippable import verify_skippables

__all__ = ["NoChunk", "Pipe", "PipeSequential", "WithDevice"]


class NoChunk:
    """An argument of :class:`Pipe` that each micro-batch gets whole.

    Args:
        inp: a tensor.

    Raises:
        TypeError: it is none.

    Example:
        >>> NoChunk(torch.ones(2)).tensor
        tensor([1., 1.])

    """

    def __init__(self, inp: Tensor) -> None:
        if not torch.is_tensor(inp):
            raise TypeError(f"NoChunk only supported for tensors, found: {inp}")
        self._tensor = inp

    @property
    def tensor(self) -> Tensor:
        """The wrapped tensor."""
        return self._tensor


class PipeSequential(nn.Sequential):
    """An nn.Sequential whose layers take the tuple of the layer before as their arguments.

    Example:
        >>> class Swap(nn.Module):
        ...     def forward(self, a, b):
        ...         return b, a
        >>> PipeSequential(Swap(), Swap())(1, 2)
        (1, 2)

    """

    def forward(self, *inputs: Any) -> Any:
        """Runs the layers one after the other."""
        values: Any = inputs
        for layer in self:
            values = layer(*values) if isinstance(values, tuple) else layer(values)
        return values


class WithDevice(nn.Module):
    """Says on which device a module runs that has no parameters.

    Args:
        module: the module.
        device: where it runs.

    Example:
        >>> WithDevice(nn.ReLU(), torch.device("cpu")).device
        device(type='cpu')

    """

    def __init__(self, module: nn.Module, device: torch.device | str | int) -> None:
        super().__init__()
        self._module = module
        self._device = torch.device(device)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the module."""
        return self._module(*args, **kwargs)

    @property
    def module(self) -> nn.Module:
        """The module."""
        return self._module

    @property
    def device(self) -> torch.device:
        """Its device."""
        return self._device


class _Arguments(Batch):
    """A micro-batch whose values are the arguments of the stages."""

    def call(self, function: Any) -> Batch:
        return type(self)(function(*self))


def _scatter(inputs: tuple[Any, ...], chunks: int) -> list[Batch]:
    """Cuts the tensors along their first dimension; the rest goes to each micro-batch."""
    if not any(torch.is_tensor(value) or isinstance(value, NoChunk) for value in inputs):
        raise TypeError(f"expected at least one tensor, but got {[type(value) for value in inputs]}")
    cut = [value.chunk(chunks) if torch.is_tensor(value) else None for value in inputs]
    numbers = {len(parts) for parts in cut if parts is not None}
    if len(numbers) > 1:
        raise RuntimeError(f"Found different number of chunks produced for inputs: {sorted(numbers)}")
    number = numbers.pop() if numbers else chunks
    batches: list[Batch] = []
    for i in range(number):
        values = tuple(
            parts[i] if parts is not None else value.tensor if isinstance(value, NoChunk) else value
            for value, parts in zip(inputs, cut, strict=True)
        )
        batches.append(_Arguments(values[0] if len(values) == 1 else values))
    return batches


def _gather(outputs: list[Batch]) -> Any:
    """Joins tensors along their first dimension, and other values to lists."""
    if outputs[0].atomic:
        return torch.cat([batch.tensor for batch in outputs])
    results: list[Any] = []
    for values in zip(*outputs, strict=True):
        if len({type(value) if not torch.is_tensor(value) else Tensor for value in values}) != 1:
            raise TypeError(f"Types for microbatch outputs do not match, found: {[type(value) for value in values]}")
        results.append(torch.cat(values) if torch.is_tensor(values[0]) else list(values))
    return tuple(results)


def _device_of(module: nn.Module) -> torch.device | None:
    """The module's device; None if it has no parameters and names none."""
    if isinstance(module, WithDevice):
        return module.device
    devices = {tensor.device for tensor in (*module.parameters(), *module.buffers())}
    if len(devices) > 1:
        raise ValueError(f"nn.Module: {module}, should have all parameters on a single device, please use .to()")
    return devices.pop() if devices else None


def _cut(module: nn.Sequential) -> tuple[list[nn.Module], list[torch.device]]:
    """Cuts the layers: neighbours on one CUDA device become one partition; on the CPU each layer is one."""
    groups: list[list[nn.Module]] = []
    devices: list[torch.device] = []
    for layer in module:
        device = _device_of(layer) or torch.device("cpu")
        inner = layer.module if isinstance(layer, WithDevice) else layer
        if groups and device == devices[-1] and device.type != "cpu":
            groups[-1].append(inner)
            continue
        groups.append([inner])
        devices.append(device)
    return [PipeSequential(*group) for group in groups], devices


def _verify(module: Any) -> None:
    if not isinstance(module, nn.Sequential):
        raise TypeError("module must be nn.Sequential to be partitioned")
    layers = list(module._modules.values())
    if len({id(layer) for layer in layers}) != len(layers):
        raise ValueError("module with duplicate children is not supported")
    owners: dict[int, torch.device | None] = {}
    for layer in module:
        for parameter in layer.parameters():
            if owners.setdefault(id(parameter), _device_of(layer)) != _device_of(layer):
                raise ValueError("module with duplicate parameters on distinct devices is not supported")


class Pipe(Partitioned):
    """Runs a sequential model as a pipeline, with the interface of torch.distributed.pipeline.sync.Pipe.

    Args:
        module: the model, its layers already on their devices. Neighbours on one CUDA device are one partition; on the
            CPU each layer is. A layer gets what the one before gives: the values of a tuple as arguments.
        chunks: how many micro-batches a mini-batch is cut into.
        checkpoint: "always", "except_last" or "never"; see :class:`~gramme.torchgpipe.GPipe`.
        deferred_batch_norm: see there.

    Raises:
        RuntimeError: torch.distributed.rpc is not initialised.
        TypeError: the module is no nn.Sequential, or its skip tensors do not match.
        ValueError: chunks or checkpoint are none; one layer, or one parameter, is on several devices.

    Example:
        >>> import os, tempfile
        >>> file = tempfile.NamedTemporaryFile()
        >>> options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{file.name}")
        >>> rpc.init_rpc("worker", rank=0, world_size=1, rpc_backend_options=options)
        >>> model = Pipe(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), chunks=2)
        >>> model(torch.ones(8, 4)).local_value().shape
        torch.Size([8, 4])
        >>> rpc.shutdown()

    """

    def __init__(
        self,
        module: nn.Sequential,
        chunks: int = 1,
        checkpoint: str = "except_last",
        deferred_batch_norm: bool = False,
    ) -> None:
        if not rpc.api._is_current_rpc_agent_set():  # type: ignore[attr-defined]
            raise RuntimeError("Please initialize RPC framework for Pipe using torch.distributed.rpc.init_rpc")
        super().__init__(chunks, checkpoint)
        _verify(module)
        verify_skippables(module)
        self._set(*_cut(self._deferred(module) if deferred_batch_norm else module))

    def forward(self, *inputs: Any) -> Any:
        """Runs a mini-batch.

        Args:
            inputs: the first layer's arguments. Tensors have the shape (batch, ...) and are cut, those in a
                :class:`NoChunk` and what is no tensor goes to each micro-batch.

        Returns:
            An RRef of what the model gives: tensors put together, lists of what is no tensor.

        Raises:
            TypeError: there is no tensor, or the outputs of micro-batches have different types.
            ValueError: a tensor is not on the first partition's device.
            RuntimeError: the tensors are cut into different numbers of micro-batches.

        """
        first = self.devices[0] if self.devices else None
        for value in inputs:
            tensor = value.tensor if isinstance(value, NoChunk) else value
            if first is not None and torch.is_tensor(tensor) and tensor.device != first:
                raise ValueError(f"All inputs should be on the same device as the first partition: {first}")
        batches = _scatter(inputs, self.chunks)
        if not self.devices:
            return rpc.RRef(inputs[0] if len(inputs) == 1 else inputs)
        self._run(batches)
        return rpc.RRef(_gather(batches))
