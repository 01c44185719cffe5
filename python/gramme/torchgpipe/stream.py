"""Streams of CUDA, and a stand-in for devices without streams."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from .. import _C

__all__ = [
    "AbstractStream",
    "CPUStream",
    "CPUStreamType",
    "as_cuda",
    "current_stream",
    "default_stream",
    "get_device",
    "is_cuda",
    "new_stream",
    "record_stream",
    "use_device",
    "use_stream",
    "wait_stream",
]


class CPUStreamType:
    """The type of :data:`CPUStream`."""

    def __repr__(self) -> str:
        return "CPUStream"


#: Stands for a stream where there is none: work is done once the call returns.
CPUStream = CPUStreamType()

AbstractStream = torch.cuda.Stream | CPUStreamType


def new_stream(device: torch.device) -> AbstractStream:
    """Makes a stream of the device; :data:`CPUStream` for all but CUDA's."""
    if device.type != "cuda":
        return CPUStream
    stream: torch.cuda.Stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    return stream


def current_stream(device: torch.device) -> AbstractStream:
    """Gives the stream that calls on the device use now; :data:`CPUStream` for all but CUDA's."""
    return torch.cuda.current_stream(device) if device.type == "cuda" else CPUStream


def default_stream(device: torch.device) -> AbstractStream:
    """Gives the device's default stream; :data:`CPUStream` for all but CUDA's."""
    return torch.cuda.default_stream(device) if device.type == "cuda" else CPUStream


@contextmanager
def use_device(device: torch.device) -> Iterator[None]:
    """Makes a CUDA device the current one; does nothing for others."""
    if device.type != "cuda":
        yield
        return
    with torch.cuda.device(device):
        yield


@contextmanager
def use_stream(stream: AbstractStream) -> Iterator[None]:
    """Makes a CUDA stream the current one; does nothing for :data:`CPUStream`."""
    if isinstance(stream, CPUStreamType):
        yield
        return
    with torch.cuda.stream(stream):
        yield


def get_device(stream: AbstractStream) -> torch.device:
    """Gives the device of the stream."""
    return torch.device("cpu") if isinstance(stream, CPUStreamType) else stream.device


def wait_stream(source: AbstractStream, target: AbstractStream) -> None:
    """Lets `source` wait for all that `target` was asked so far.

    Between two CUDA streams it is the device that waits; the CPU waits itself. Nothing waits for the CPU.
    """
    _C.pipeline.wait_stream(source, target)


def record_stream(tensor: Tensor, stream: AbstractStream) -> None:
    """Keeps the tensor's memory, all of its storage, until the stream has done what it was asked so far."""
    _C.pipeline.record_stream(tensor, stream)


def is_cuda(stream: AbstractStream | None) -> bool:
    """Tells whether it is a stream of CUDA's."""
    return stream is not None and not isinstance(stream, CPUStreamType)


def as_cuda(stream: AbstractStream) -> torch.cuda.Stream:
    """Gives the stream as CUDA's.

    Raises:
        TypeError: it is the CPU's.

    """
    if isinstance(stream, CPUStreamType):
        raise TypeError("the CPU has no CUDA stream")
    return stream
