"""Random programs and transformers in threads, equal to the bit to the uncut model."""

import contextlib
import random

import pytest
import torch
from gramme.pipeline import Runtime, split
from torch import nn

from pipeline.runs import SETTINGS, compare, loss_of
from pipeline.transformer_models import bert, distilbert, gpt2, llama, mixtral, t5, token_loss, tokens, uncut

WIDTH = 4

STEPS = {
    "layer": lambda model, a, b, c: torch.tanh(model.layers[0](a) + model.layers[1](b)) * c,
    "product": lambda model, a, b, c: a * b + c,
    "same object": lambda model, a, b, c: a.contiguous(),
    "parameter twice": lambda model, a, b, c: a * model.scale + (b * model.scale).sin(),
    "quotient": lambda model, a, b, c: (a + b) / (1 + b * b),
    "strided": lambda model, a, b, c: torch.cat([a, b], 1)[:, ::2].tanh(),
    "view": lambda model, a, b, c: a.t().t() * model.table,
    "no gradient": lambda model, a, b, c: a.detach() * b,
    "where": lambda model, a, b, c: torch.where(a > b, a, c) * 0.5,
    "size": lambda model, a, b, c: (a - b.mean(0)).clamp(-2, 2) + c * a.shape[0] * 0.1,
    "statistics": lambda model, a, b, c: model.norm(a),
    "in place": lambda model, a, b, c: a.clone().mul_(0.7).add_(b * 0.1),
}


class Random(nn.Module):
    """Each step takes three of the values before it, near ones more often."""

    def __init__(self, seed):
        super().__init__()
        numbers = random.Random(seed)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))
        self.scale, self.norm = nn.Parameter(torch.randn(WIDTH)), nn.BatchNorm1d(WIDTH)
        self.register_buffer("table", torch.randn(WIDTH))
        self.steps, size = [], 2
        for _ in range(numbers.randrange(10, 30)):
            nearest = max(0, size - 5) if numbers.random() < 0.7 else 0
            taken = tuple(numbers.randrange(nearest, size) for _ in range(3))
            self.steps.append((taken, numbers.choice(list(STEPS))))
            size += 1
        self.returned = [size - 1, numbers.randrange(size), numbers.randrange(size)]

    def forward(self, x, y):
        values = [x, y]
        for taken, name in self.steps:
            values.append(STEPS[name](self, *(values[i] for i in taken)))
        return [values[i] for i in self.returned], (values[-1] * self.scale).sum(1)


def most_stages(model, args, stages):
    """As many as there are places to cut: statistics that are used everywhere leave none."""
    for number in range(stages, 1, -1):
        with contextlib.suppress(ValueError):
            return split(model, args, stages=number)
    return split(model, args, stages=1)


@pytest.mark.parametrize("seed", range(8))
def test_random_programs(seed, soak, one_thread):
    for one in range(seed, 400 if soak else 16, 8):
        torch.manual_seed(one)
        numbers, model = random.Random(one), Random(one)
        before = {key: value.clone() for key, value in model.state_dict().items()}
        cut = most_stages(model, (torch.randn(3, WIDTH), torch.randn(3, WIDTH)), numbers.choice([2, 3, 4, 6]))
        for settings in (SETTINGS[0], SETTINGS[2]):
            parts = numbers.choice([1, 2, 3, 5])
            run = Runtime(cut, micro_batches=parts, loss=loss_of, **settings)
            n = numbers.randrange(2 * parts, 4 * parts)
            compare(model, run, (torch.randn(n, WIDTH), torch.randn(n, WIDTH)), parts, before=before)


@pytest.mark.sampled(6)
@pytest.mark.slow
@pytest.mark.parametrize("stages", [2, 4, 8])
@pytest.mark.parametrize("make", [llama, bert, distilbert, gpt2, t5, mixtral])
def test_transformers(make, stages, one_thread):
    torch.manual_seed(0)
    model = make(pytest.importorskip("transformers")).train()
    cut = split(model, tokens(make, 3, 7), stages=stages)
    for settings in SETTINGS[:3]:
        run = Runtime(cut, micro_batches=3, loss=token_loss, **settings)
        for n, length in ((9, 7), (8, 5)):
            args, target = tokens(make, n, length), torch.randint(0, 50, (n, length))
            compare(model, run, args, 3, token_loss, target=target, uncut=uncut(make, model))


def masked(make, n):
    ids = torch.randint(0, 50, (n, 7))
    return tokens(make, n, 7) if make is t5 else (ids, torch.ones_like(ids))


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("make", [llama, bert, distilbert, t5])
def test_micro_batches_of_one_row(make, rows, one_thread):
    """With attention masks nothing in these models is decided by the number of rows."""
    torch.manual_seed(0)
    model = make(pytest.importorskip("transformers")).train()
    run = Runtime(split(model, masked(make, rows), stages=2), micro_batches=3, loss=token_loss)
    for n in (5, 3, 6):
        compare(model, run, masked(make, n), 3, token_loss, target=torch.randint(0, 50, (n, 7)))
