"""Orders the backward of lanes that do not depend on each other."""

from typing import Any

from torch import Tensor

from .. import _C

__all__ = ["Fork", "Join", "fork", "join"]


class Fork:
    """The node of :func:`fork`."""

    _backward_cls: Any = _C.pipeline.ForkBackward
    apply = staticmethod(_C.pipeline.fork)


class Join:
    """The node of :func:`join`."""

    _backward_cls: Any = _C.pipeline.JoinBackward
    apply = staticmethod(_C.pipeline.join)


def fork(input: Tensor) -> tuple[Tensor, Tensor]:  # noqa: A002
    """Derives a phony from a lane.

    Args:
        input: the lane, a tensor of any shape.

    Returns:
        The lane to go on with, which shares its memory, and a phony that depends on it. If the lane needs no gradient
        or grad mode is off: the lane itself, and a phony that needs none.

    Example:
        >>> import torch
        >>> x, phony = fork(torch.ones(2, requires_grad=True))
        >>> phony.requires_grad
        True

    """
    return _C.pipeline.fork(input)


def join(input: Tensor, phony: Tensor) -> Tensor:  # noqa: A002
    """Makes a lane depend on a phony: backward reaches the phony's origin after the lane's later operations.

    Args:
        input: the lane, a tensor of any shape.
        phony: what :func:`fork` or a portal gave.

    Returns:
        The lane to go on with. It shares its memory and needs a gradient if the phony does. The lane itself if
        neither needs one, grad mode is off, or the lane cannot have one (it holds whole numbers).

    Example:
        >>> import torch
        >>> x, phony = fork(torch.ones(2, requires_grad=True))
        >>> join(torch.zeros(3), phony).requires_grad
        True

    """
    return _C.pipeline.join(input, phony)
