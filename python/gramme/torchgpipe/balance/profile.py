"""Measures the cost of each layer of a model."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from ..microbatch import Batch, TensorOrTensors
from ..skip.namespace import Namespace
from ..skip.tracker import SkipTracker, use_skip_tracker

__all__ = ["layerwise_sandbox", "profile_sizes", "profile_times"]


def layerwise_sandbox(module: nn.Sequential, device: torch.device) -> Iterator[nn.Module]:
    """Yields a copy of each layer, on the device and in training mode; the model is not changed.

    Example:
        >>> [layer.training for layer in layerwise_sandbox(nn.Sequential(nn.ReLU()).eval(), torch.device("cpu"))]
        [True]

    """
    for layer in module:
        sandboxed = copy.deepcopy(layer)
        yield sandboxed.to(device).train()


def detach(batch: Batch) -> None:
    """Makes the tensors of a batch leaves, in place."""
    for i, tensor in enumerate(batch):
        batch[i] = _leaf(tensor)


def _leaf(tensor: Tensor) -> Tensor:
    return tensor.detach().requires_grad_(tensor.requires_grad)


class _Leaves(SkipTracker):
    """A tracker that returns skip tensors as leaves, since each layer is measured by itself."""

    def load(self, batch: Batch, ns: Namespace | None, name: str) -> Tensor | None:
        tensor = super().load(batch, ns, name)
        return None if tensor is None else _leaf(tensor)


def _require_fresh(module: nn.Module) -> None:
    if any(parameter.grad is not None for parameter in module.parameters()):
        raise ValueError("some parameter already has gradient")


def _sample(sample: TensorOrTensors, device: torch.device) -> Batch:
    batch = Batch(sample)
    for i, tensor in enumerate(batch):
        batch[i] = tensor.detach().to(device).requires_grad_(tensor.requires_grad)
    return batch


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _backward(batch: Batch) -> None:
    """Runs backward with the outputs as their own gradients."""
    outputs = [tensor for tensor in batch if tensor.requires_grad]
    if outputs:
        torch.autograd.backward(outputs, outputs)


def profile_times(module: nn.Sequential, sample: TensorOrTensors, timeout: float, device: torch.device) -> list[int]:
    """Measures forward and backward of each layer.

    Returns:
        Microseconds by layer, over as many runs of the model as began within the timeout.

    """
    _require_fresh(module)
    layers = list(layerwise_sandbox(module, device))
    sample_batch = _sample(sample, device)
    times = [0.0] * len(layers)
    began = time.perf_counter()
    while True:
        batch = Batch(sample_batch.values)
        with use_skip_tracker(_Leaves()):
            for i, layer in enumerate(layers):
                detach(batch)
                _synchronize(device)
                tick = time.perf_counter()
                batch = batch.call(layer)
                _backward(batch)
                _synchronize(device)
                times[i] += time.perf_counter() - tick
        if time.perf_counter() - began >= timeout:
            return [int(seconds * 1e6) for seconds in times]


def _latent_bytes(layer: nn.Module, batch: Batch) -> tuple[Batch, int]:
    """Runs a layer. Returns its output and the bytes kept for backward, including the output's."""
    own = {tensor.untyped_storage().data_ptr() for tensor in (*layer.parameters(), *layer.buffers())}
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        if tensor.layout == torch.strided:
            storage = tensor.untyped_storage()
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    given = {tensor.untyped_storage().data_ptr() for tensor in batch}
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = batch.call(layer)
    for tensor in output:
        keep(tensor)
    return output, sum(size for place, size in kept.items() if place not in own | given)


def profile_sizes(
    module: nn.Sequential, sample: TensorOrTensors, chunks: int, param_scale: float, device: torch.device
) -> list[int]:
    """Counts what each layer keeps of the first micro-batch.

    Returns:
        Bytes by layer, of a micro-batch and of the parameters.

    """
    _require_fresh(module)
    whole = _sample(sample, device)
    size = whole[0].size(0)
    batch = Batch(whole.values)
    for i, tensor in enumerate(batch):
        batch[i] = tensor.chunk(chunks)[0].detach().requires_grad_(tensor.requires_grad)
    micro_batches = size / batch[0].size(0)
    sizes: list[int] = []
    with use_skip_tracker(_Leaves()):
        for layer in layerwise_sandbox(module, device):
            detach(batch)
            batch, latent = _latent_bytes(layer, batch)
            parameters = sum(p.numel() * p.element_size() for p in layer.parameters())
            sizes.append(int(latent * micro_batches / chunks + parameters * param_scale))
    return sizes
