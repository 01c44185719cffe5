"""Finds balances by measuring layers.

>>> import torch
>>> from torch import nn
>>> from gramme.torchgpipe.balance import balance_by_size
>>> model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8))
>>> balance_by_size(2, model, torch.ones(4, 8))
[2, 2]
"""

from __future__ import annotations

import torch
from torch import nn

from ..microbatch import TensorOrTensors
from . import blockpartition
from .profile import profile_sizes, profile_times

__all__ = ["balance_by_size", "balance_by_time"]


def balance_cost(cost: list[int], partitions: int) -> list[int]:
    """Returns the lengths of the blocks of the best partition of `cost`."""
    return [len(block) for block in blockpartition.solve(cost, partitions)]


def balance_by_time(
    partitions: int,
    module: nn.Sequential,
    sample: TensorOrTensors,
    *,
    timeout: float = 1.0,
    device: torch.device | str | int | None = None,
) -> list[int]:
    """Balances by how long forward and backward of each layer take.

    Args:
        partitions: how many there shall be.
        module: the model; it is not changed, its layers are copied to the device one by one.
        sample: a micro-batch as the first layer takes it: a tensor of shape (batch, ...) or a tuple of such.
        timeout: seconds to measure for.
        device: where; CUDA if there is one, else the CPU.

    Returns:
        How many layers each partition has.

    Raises:
        ValueError: a parameter has a gradient already, or there are fewer layers than partitions.

    Example:
        >>> balance_by_time(1, nn.Sequential(nn.ReLU(), nn.ReLU()), torch.ones(1), timeout=0.01)
        [2]

    """
    times = profile_times(module, sample, timeout, _device(device))
    return balance_cost(times, partitions)


def balance_by_size(
    partitions: int,
    module: nn.Sequential,
    input: TensorOrTensors,  # noqa: A002
    *,
    chunks: int = 1,
    param_scale: float = 2.0,
    device: torch.device | str | int | None = None,
) -> list[int]:
    """Balances by the bytes that each layer keeps for backward, and those of its parameters.

    Args:
        partitions: how many there shall be.
        module: the model; it is not changed, its layers are copied to the device one by one.
        input: a mini-batch as the first layer takes it: a tensor of shape (batch, ...) or a tuple of such.
        chunks: how many micro-batches it will be cut into.
        param_scale: bytes for each byte of a parameter: 2 for SGD (it and its gradient), 3 with momentum, 4 for Adam.
        device: where; CUDA if there is one, else the CPU.

    Returns:
        How many layers each partition has.

    Raises:
        ValueError: a parameter has a gradient already, or there are fewer layers than partitions.

    Example:
        >>> balance_by_size(2, nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1)), torch.ones(1, 1))
        [1, 1]

    """
    sizes = profile_sizes(module, input, chunks, param_scale, _device(device))
    return balance_cost(sizes, partitions)


def _device(device: torch.device | str | int | None) -> torch.device:
    return torch.device(device if device is not None else "cuda" if torch.cuda.is_available() else "cpu")
