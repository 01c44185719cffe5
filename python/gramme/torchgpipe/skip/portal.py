"""Passes tensors past intermediate stages, hidden from autograd.

A stash ends in a blue node, a pop begins with an orange one, and a copy node stands between where the tensor changes
devices. In backward the gradient goes in at orange and comes out at blue; the order is that of their phonies.

The number of times that the tensor may be used is its life:

======================  ===================  ================
event                   without checkpoint   with checkpoint
======================  ===================  ================
stashed                 2                    3
blue                    1                    2
orange                  0, dropped           1
orange, recomputed                           0, dropped
stashed, recomputed                          1
blue, recomputed                             0, dropped
======================  ===================  ================
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ... import _C
from ..stream import AbstractStream

__all__ = ["Portal", "PortalBlue", "PortalCopy", "PortalOrange"]


class Portal(_C.Portal):
    """One micro-batch's skip tensor on its way.

    Its tensor that needs a gradient may not be written until it was popped, nor after until it was recomputed: that
    raises RuntimeError at the pop.

    Args:
        tensor: what is stashed, or None.
        tensor_life: how often it is given out before it is dropped.

    Example:
        >>> import torch
        >>> from gramme.torchgpipe.dependency import fork, join
        >>> x = torch.ones(2, requires_grad=True)
        >>> portal = Portal(x * 3, tensor_life=2)
        >>> main, phony = fork(join(x * 1, portal.blue()))
        >>> skip = portal.orange(phony)
        >>> portal.tensor_life, portal.tensor
        (0, None)
        >>> (main + skip).sum().backward()
        >>> x.grad
        tensor([4., 4.])

    """

    def __init__(self, tensor: Tensor | None, tensor_life: int) -> None:
        super().__init__(tensor, tensor_life)


class PortalBlue:
    """``PortalBlue.apply(portal, tensor)``: a phony that depends on the tensor; its gradient is the portal's."""

    _backward_cls: Any = _C.pipeline.PortalBlueBackward
    apply = staticmethod(_C.pipeline.blue)


class PortalOrange:
    """``PortalOrange.apply(portal, phony)``: the portal's tensor; its gradient goes into the portal."""

    _backward_cls: Any = _C.pipeline.PortalOrangeBackward

    @staticmethod
    def apply(portal: Portal, phony: Tensor) -> Tensor | None:
        """Gives the tensor, as :meth:`Portal.orange` does."""
        return portal.orange(phony)


class PortalCopy:
    """``PortalCopy.apply(portal, prev_stream, next_stream, phony)``: moves the portal's tensor to another device."""

    _backward_cls: Any = _C.pipeline.PortalCopyBackward

    @staticmethod
    def apply(portal: Portal, prev_stream: AbstractStream, next_stream: AbstractStream, phony: Tensor) -> Tensor:
        """Gives a phony on the next device, as :meth:`Portal.copy` does."""
        return portal.copy(prev_stream, next_stream, phony)
