"""Copies between streams, and waiting for them, as autograd functions.

>>> import torch
>>> from gramme.torchgpipe.stream import CPUStream
>>> x = torch.ones(2, requires_grad=True)
>>> (y,) = Copy.apply(CPUStream, CPUStream, x)
>>> (y,) = Wait.apply(CPUStream, CPUStream, y)
>>> y.data_ptr() == x.data_ptr()
True
"""

from typing import Any

from .. import _C

__all__ = ["Copy", "Wait"]


class Copy:
    """``Copy.apply(prev_stream, next_stream, *input)``: copies on the device of the next stream.

    Both streams are current while it copies. Gradients are copied back, the last input's first. On one device the
    results share the inputs' memory.
    """

    _backward_cls: Any = _C.pipeline.CopyBackward
    apply = staticmethod(_C.pipeline.copy)


class Wait:
    """``Wait.apply(prev_stream, next_stream, *input)``: the next stream waits for the previous one.

    In backward the previous stream waits for the next one. It is one node for all inputs.
    """

    _backward_cls: Any = _C.pipeline.WaitBackward
    apply = staticmethod(_C.pipeline.wait)
