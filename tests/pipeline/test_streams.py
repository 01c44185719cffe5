"""Streams, Copy and Wait, as far as a CPU shows them."""

import pytest
import torch
from gramme.torchgpipe.copy import Copy, Wait
from gramme.torchgpipe.stream import (
    CPUStream,
    as_cuda,
    current_stream,
    default_stream,
    get_device,
    is_cuda,
    new_stream,
    record_stream,
    use_device,
    use_stream,
    wait_stream,
)

from pipeline.models import CPU


def test_the_cpus_stream_is_one():
    assert new_stream(CPU) is CPUStream
    assert current_stream(CPU) is CPUStream
    assert default_stream(CPU) is CPUStream
    assert get_device(CPUStream) == CPU
    assert not is_cuda(CPUStream)
    assert not is_cuda(None)
    with pytest.raises(TypeError):
        as_cuda(CPUStream)


def test_using_it_changes_nothing():
    with use_device(CPU), use_stream(CPUStream):
        wait_stream(CPUStream, CPUStream)
        record_stream(torch.ones(3)[1:], CPUStream)


def test_copy_and_wait():
    x = torch.ones(4, requires_grad=True)
    (y,) = Copy.apply(CPUStream, CPUStream, x)
    assert type(y.grad_fn) is Copy._backward_cls
    (y,) = Wait.apply(CPUStream, CPUStream, y)
    assert y.data_ptr() == x.data_ptr()
    assert y is not x
    (y * torch.arange(4.0)).sum().backward()
    assert x.grad.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("node", [Copy, Wait])
def test_one_node_for_the_whole_tuple(node):
    a, b, ids, plain = (
        torch.ones(1, requires_grad=True),
        torch.ones(1, requires_grad=True),
        torch.ones(1).long(),
        torch.ones(1),
    )
    x, y, z, w = node.apply(CPUStream, CPUStream, a, b, ids, plain)
    assert x.grad_fn is y.grad_fn
    assert type(x.grad_fn) is node._backward_cls
    assert not z.requires_grad
    assert not w.requires_grad
    assert z.dtype == torch.long
    (x * 2 + y * 3 * z).sum().backward()
    assert a.grad.item() == 2
    assert b.grad.item() == 3


def test_gradients_that_are_missing():
    a, b = torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)
    x, _ = Wait.apply(CPUStream, CPUStream, *Copy.apply(CPUStream, CPUStream, a, b))
    x.backward()
    assert a.grad.item() == 1
    assert b.grad is None


@pytest.mark.parametrize("node", [Copy, Wait])
def test_without_gradients(node):
    with torch.no_grad():
        (y,) = node.apply(CPUStream, CPUStream, torch.ones(1, requires_grad=True))
    assert y.grad_fn is None
    with pytest.raises(TypeError, match="expected a tensor"):
        node.apply(CPUStream, CPUStream, 1)
