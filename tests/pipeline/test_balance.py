"""Balances: the best blocks, and what layers cost."""

import itertools
import random
import time

import pytest
import torch
from gramme.torchgpipe import GPipe
from gramme.torchgpipe.balance import balance_by_size, balance_by_time, blockpartition
from gramme.torchgpipe.balance.profile import layerwise_sandbox
from torch import nn

from pipeline.models import CPU, Call, cpus, unet


@pytest.mark.parametrize(
    ("sequence", "partitions", "blocks"),
    [
        ([1, 2, 3, 4, 5, 6], 2, [[1, 2, 3, 4], [5, 6]]),
        ([0, 0], 2, [[0], [0]]),
        ([1, 1, 1, 9], 2, [[1, 1, 1], [9]]),
        ([5], 1, [[5]]),
        ([1, 2, 3], 3, [[1], [2], [3]]),
        ([9, 1, 1, 1, 1], 3, [[9], [1, 1], [1, 1]]),
    ],
)
def test_blocks(sequence, partitions, blocks):
    assert blockpartition.solve(sequence, partitions) == blocks


@pytest.mark.parametrize(
    ("sequence", "partitions", "text"),
    [([42], 0, "positive integer"), ([42], -1, "positive"), ([], 1, "shorter"), ([42], 2, "shorter")],
)
def test_blocks_that_cannot_be(sequence, partitions, text):
    with pytest.raises(ValueError, match=text):
        blockpartition.solve(sequence, partitions)


def test_blocks_are_the_best():
    numbers = random.Random(0)
    for _ in range(200):
        n = numbers.randint(1, 8)
        sequence = [numbers.choice([0, 1, 2, 3, 9, 40]) for _ in range(n)]
        partitions = numbers.randint(1, n)
        blocks = blockpartition.solve(sequence, partitions)
        assert sum(blocks, []) == sequence
        assert len(blocks) == partitions
        assert all(blocks)
        ways = itertools.combinations(range(1, n), partitions - 1)
        best = min(max(sum(sequence[a:b]) for a, b in itertools.pairwise((0, *way, n))) for way in ways)
        assert max(map(sum, blocks)) == best


class Slow(nn.Module):
    """Takes so many milliseconds by the clock that the test gives."""

    now = 0.0

    def __init__(self, milliseconds):
        super().__init__()
        self.seconds = milliseconds / 1000

    def forward(self, x):
        Slow.now += self.seconds
        return x


def test_by_time(monkeypatch):
    monkeypatch.setattr(time, "perf_counter", lambda: Slow.now)
    model = nn.Sequential(*[Slow(i) for i in [1, 2, 3, 4, 5, 6]])
    assert balance_by_time(2, model, torch.rand(1), timeout=0, device=CPU) == [4, 2]


def test_by_size():
    widths = [1, 2, 3, 4, 5, 6]
    model = nn.Sequential(
        *[Call(lambda x, w=w: x.expand(len(x), 1).repeat(1, 10 * w).exp().sum(1, keepdim=True)) for w in widths]
    )
    assert balance_by_size(2, model, torch.rand(4, 1, requires_grad=True)) == [4, 2]


def test_by_size_of_parameters():
    model = nn.Sequential(
        *[nn.Linear(1, 100) if i else nn.Linear(1, 1) for i in (0, 0)], nn.Linear(1, 500), nn.Linear(500, 1)
    )
    assert balance_by_size(2, model, torch.rand(1, 1), param_scale=100) == [3, 1]


@pytest.mark.parametrize(
    "balance", [lambda m, x: balance_by_time(2, m, x, timeout=0), lambda m, x: balance_by_size(2, m, x)]
)
def test_the_model_is_not_touched(balance):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Linear(2, 2)).eval()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    x = torch.rand(4, 2, requires_grad=True)
    balance(model, x)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert not any(layer.training for layer in model.modules())
    assert x.grad is None
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("balance", [balance_by_time, balance_by_size])
def test_gradients_from_before_are_refused(balance):
    model = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1))
    model(torch.rand(1, 1)).sum().backward()
    with pytest.raises(ValueError, match="already has gradient"):
        balance(2, model, torch.rand(1, 1))


def test_skips_can_be_measured():
    model = unet(2)
    x = torch.rand(4, 6)
    for balance in (balance_by_time(3, model, x, timeout=0.01), balance_by_size(3, model, x)):
        assert sum(balance) == 6
        assert len(balance) == 3
        assert GPipe(model, balance, devices=cpus(3))(x).shape == (4, 3)


def test_tuples_and_whole_numbers_can_be_measured():
    model = nn.Sequential(nn.Embedding(4, 2), Call(lambda x: (x, x.long())), Call(lambda pair: pair[0]))
    ids = torch.tensor([1, 2])
    assert sum(balance_by_time(2, model, ids, timeout=0)) == 3
    assert sum(balance_by_size(2, model, ids)) == 3


def test_sandbox():
    model = nn.Sequential(nn.Linear(1, 1), nn.Dropout()).eval()
    copies = list(layerwise_sandbox(model, CPU))
    assert [type(layer) for layer in copies] == [nn.Linear, nn.Dropout]
    assert all(layer.training for layer in copies)
    assert copies[0] is not model[0]
    assert copies[0].weight is not model[0].weight
    assert not model.training
