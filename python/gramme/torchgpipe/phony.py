"""Phonies: empty tensors that only add an edge to the autograd graph."""

import torch
from torch import Tensor

from .. import _C

__all__ = ["get_phony"]


def get_phony(device: torch.device, *, requires_grad: bool) -> Tensor:
    """Returns the phony of a device: an empty tensor that only represents a dependency.

    It is made once for each device and flag, for all threads. An autograd function that returns it must return
    ``phony.detach()``, or the graphs of different calls would be connected.

    Args:
        device: where it lies.
        requires_grad: whether it is a leaf that needs a gradient.

    Returns:
        A tensor of shape (0,).

    Example:
        >>> get_phony(torch.device("cpu"), requires_grad=False)
        tensor([])

    """
    return _C.pipeline.get_phony(device, requires_grad=requires_grad)
