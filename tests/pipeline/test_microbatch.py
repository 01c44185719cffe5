"""Batches, check, scatter and gather."""

import pytest
import torch
from gramme.torchgpipe.microbatch import Batch, check, gather, scatter

a, b = torch.zeros(2), torch.ones(3)


def test_atomic():
    batch = Batch(a)
    assert batch.atomic
    assert batch.tensor is a
    assert list(batch) == [a]
    assert len(batch) == 1
    assert batch[0] is a
    with pytest.raises(AttributeError):
        _ = batch.tensors
    with pytest.raises(IndexError):
        batch[1]
    with pytest.raises(IndexError):
        batch[1] = a


def test_tuple():
    batch = Batch((a, b))
    assert not batch.atomic
    assert batch.tensors == (a, b)
    assert len(batch) == 2
    assert batch[1] is b
    assert batch[-1] is b
    with pytest.raises(AttributeError):
        _ = batch.tensor


def test_assignment():
    batch = Batch(a)
    batch[0] = b
    assert batch.tensor is b
    batch[:] = [a]
    assert batch.tensor is a
    with pytest.raises(IndexError):
        batch[:] = (a, b)
    with pytest.raises(NotImplementedError):
        batch[0:1] = [a]
    pair = Batch((a, b))
    pair[1] = a
    pair[-2] = b
    assert pair.tensors[0] is b
    assert pair.tensors[1] is a
    pair[:] = (a, b, a)
    assert len(pair) == 3
    with pytest.raises(NotImplementedError):
        pair[1:] = (a,)
    with pytest.raises(IndexError):
        pair[3] = a


def test_call_wraps_again():
    assert Batch(a).call(lambda x: (x, x)).tensors == (a, a)
    assert Batch((a, b)).call(lambda pair: pair[1]).tensor is b


def test_helpers_of_sync():
    ids = torch.tensor([1])
    assert Batch(a).find_tensor_idx() == 0
    assert Batch((None, ids, a)).find_tensor_idx() == 2
    assert Batch((None, ids)).find_tensor_idx() == 1
    assert Batch((1, a)).get_device() == torch.device("cpu")
    assert Batch((1, a)).values[1] is a
    with pytest.raises(TypeError, match="No tensor found"):
        Batch((1,)).find_tensor_idx()


def test_check():
    check(a)
    check((a, b))
    check((a, (b, (a,))))
    for wrong in (1, [a], (a, 1), (a, [b]), None):
        with pytest.raises(TypeError, match="expected Tensor"):
            check(wrong)


@pytest.mark.parametrize(
    ("length", "chunks", "sizes"), [(4, 2, [2, 2]), (5, 2, [3, 2]), (2, 4, [1, 1]), (5, 4, [2, 2, 1])]
)
def test_scatter(length, chunks, sizes):
    batches = scatter(torch.arange(length), chunks)
    assert [len(batch.tensor) for batch in batches] == sizes
    assert torch.equal(gather(batches), torch.arange(length))


def test_scatter_and_gather_tuples():
    x, y = torch.zeros(4, 1), torch.ones(4, 3)
    batches = scatter((x, y), 2)
    assert [tuple(map(len, batch)) for batch in batches] == [(2, 2), (2, 2)]
    back = gather(batches)
    assert isinstance(back, tuple)
    assert torch.equal(back[0], x)
    assert torch.equal(back[1], y)


def test_tensors_that_do_not_match_are_refused():
    with pytest.raises(RuntimeError, match="Found different number of chunks"):
        scatter((torch.zeros(4), torch.zeros(2)), 4)
