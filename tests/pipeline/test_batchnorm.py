"""Deferred batch normalisation."""

import pytest
import torch
from gramme.torchgpipe import GPipe
from gramme.torchgpipe.batchnorm import DeferredBatchNorm
from torch import nn
from torch.nn import functional

from pipeline.models import cpus

convert = DeferredBatchNorm.convert_deferred_batch_norm


def statistics(x, momentum=0.1, mean=0.0, var=1.0):
    """Running statistics after one mini-batch of shape (N, C)."""
    return (
        (1 - momentum) * mean + momentum * x.mean(0),
        (1 - momentum) * var + momentum * x.var(0, unbiased=False),
    )


def test_what_is_converted():
    kept = nn.BatchNorm1d(2, track_running_stats=False)
    model = nn.Sequential(
        nn.Linear(2, 2), nn.BatchNorm1d(2, eps=0.5, momentum=0.3), nn.Sequential(nn.BatchNorm2d(3)), kept
    )
    weight = model[1].weight
    converted = convert(model, chunks=4)
    assert converted is model
    assert isinstance(model[1], DeferredBatchNorm)
    assert isinstance(model[2][0], DeferredBatchNorm)
    assert model[3] is kept
    assert model[1].weight is weight
    assert (model[1].eps, model[1].momentum, model[1].chunks, model[1].num_features) == (0.5, 0.3, 4, 2)
    assert isinstance(convert(nn.BatchNorm1d(2), 2), DeferredBatchNorm)


def test_converted_twice():
    deferred = convert(nn.BatchNorm1d(2), 2)
    assert convert(deferred, 2) is deferred
    other = convert(deferred, 3)
    assert other is not deferred
    assert other.chunks == 3
    assert other.weight is deferred.weight


def test_a_module_under_two_names_stays_one():
    shared = nn.BatchNorm1d(2)
    model = convert(nn.Sequential(shared, nn.ReLU(), shared), 2)
    assert isinstance(model[0], DeferredBatchNorm)
    assert model[0] is model[2]


def test_same_names_in_the_state():
    plain = nn.BatchNorm1d(2)
    assert list(convert(nn.BatchNorm1d(2), 2).state_dict()) == list(plain.state_dict())


@pytest.mark.parametrize("shape", [(6, 2), (6, 2, 3), (6, 2, 3, 3), (6, 2, 1, 2, 3)])
def test_statistics_are_those_of_the_mini_batch(shape):
    torch.manual_seed(0)
    x = torch.randn(shape) * 3 + 1
    deferred = convert(nn.BatchNorm1d(2), 3)
    outputs = [deferred(chunk) for chunk in x.chunk(3)]
    mean, var = statistics(x.transpose(0, 1).flatten(1).t())
    assert torch.allclose(deferred.running_mean, mean)
    assert torch.allclose(deferred.running_var, var)
    assert deferred.num_batches_tracked == 1
    for output, chunk in zip(outputs, x.chunk(3), strict=True):  # each is normalised by itself
        assert torch.equal(output, functional.batch_norm(chunk, None, None, deferred.weight, deferred.bias, True))


def test_nothing_changes_before_the_last_micro_batch():
    deferred = convert(nn.BatchNorm1d(1), 3)
    for _ in range(2):
        deferred(torch.ones(2, 1))
        assert deferred.running_mean.item() == 0
        assert deferred.num_batches_tracked == 0
    deferred(torch.ones(2, 1))
    assert deferred.running_mean.item() == pytest.approx(0.1)


def test_cumulative_mean():
    deferred = convert(nn.BatchNorm1d(1, momentum=None), 1)
    for value in (1.0, 2.0, 6.0):
        deferred(torch.full((2, 1), value))
    assert deferred.running_mean.item() == pytest.approx(3.0)


def test_evaluation_uses_the_running_statistics():
    deferred = convert(nn.BatchNorm1d(1), 1)
    deferred(torch.tensor([[1.0], [3.0]]))
    mean, var = deferred.running_mean.clone(), deferred.running_var.clone()
    deferred.eval()
    x = torch.randn(4, 1)
    assert torch.equal(deferred(x), functional.batch_norm(x, mean, var, deferred.weight, deferred.bias, False))
    assert torch.equal(deferred.running_mean, mean)


def test_inputs_without_channels_are_refused():
    with pytest.raises(ValueError, match="at least 2D"):
        convert(nn.BatchNorm1d(1), 1)(torch.ones(3))


@pytest.mark.parametrize("checkpoint", ["always", "except_last", "never"])
def test_in_a_pipeline(checkpoint):
    torch.manual_seed(0)
    x = torch.randn(8, 2) + 5
    bn = nn.BatchNorm1d(2)
    model = GPipe(
        nn.Sequential(bn, nn.Linear(2, 2)),
        [1, 1],
        devices=cpus(2),
        chunks=4,
        checkpoint=checkpoint,
        deferred_batch_norm=True,
    )
    model(x).sum().backward()
    mean, var = statistics(x)
    assert torch.allclose(model[0].running_mean, mean)
    assert torch.allclose(model[0].running_var, var)
    assert model[0].num_batches_tracked == 1  # recomputing does not count
    assert bn.weight.grad is not None


@pytest.mark.parametrize("length", [1, 2, 3, 5])
def test_short_batches_do_not_spill(length):
    """Fewer micro-batches than chunks are a mini-batch all the same."""
    torch.manual_seed(0)
    model = GPipe(nn.Sequential(nn.BatchNorm2d(2)), [1], devices=cpus(1), chunks=4, deferred_batch_norm=True)
    mean, var = torch.zeros(2), torch.ones(2)
    for step in range(3):
        x = torch.randn(length, 2, 3, 3)
        model(x).sum().backward()
        mean, var = statistics(x.transpose(0, 1).flatten(1).t(), 0.1, mean, var)
        assert model[0].num_batches_tracked == step + 1
        assert torch.allclose(model[0].running_mean, mean, atol=1e-6)
        assert torch.allclose(model[0].running_var, var, atol=1e-5)


def test_a_mini_batch_that_failed_is_forgotten():
    class Sometimes(nn.Module):
        calls = 0

        def forward(self, x):
            self.calls += 1
            if self.calls == 2:
                raise ZeroDivisionError
            return x

    model = GPipe(
        nn.Sequential(nn.BatchNorm1d(1), Sometimes()), [1, 1], devices=cpus(2), chunks=4, deferred_batch_norm=True
    )
    with pytest.raises(ZeroDivisionError):
        model(torch.tensor([[0.0], [4.0]] * 4))
    x = torch.arange(8.0).unsqueeze(1)
    model(x)
    assert torch.allclose(model[0].running_mean, statistics(x)[0])
    assert model[0].num_batches_tracked == 1


def test_without_it_batch_norm_is_as_it_was():
    model = GPipe(nn.Sequential(nn.BatchNorm1d(1)), [1], devices=cpus(1), chunks=2)
    assert type(model[0]) is nn.BatchNorm1d
