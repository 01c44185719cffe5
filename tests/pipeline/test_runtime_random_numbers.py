"""Random numbers of stages in threads: those of the seed, whatever thread is first."""

import random
import time

import pytest
import torch
from gramme.pipeline import Runtime, split
from gramme.pipeline._random import seed_of
from gramme.pipeline._worker import Worker
from torch import nn
from torch.nn import functional

from pipeline.cases import Noisy
from pipeline.models import gradients, same
from pipeline.runs import pieces


def run_stages(cut, base, x, parts, loss):
    """The stages one after the other in one graph, each with its random numbers."""
    losses = []
    for i, part in enumerate(x.split(pieces(len(x), parts))):
        values = {cut.stages[0].takes[0]: part}
        for number, stage in enumerate(cut.stages):
            torch.manual_seed(seed_of(base, number, i))
            values.update(zip(stage.gives, stage(*(values[name] for name in stage.takes))))
        torch.manual_seed(seed_of(base, len(cut.stages), i))
        found = loss(values[cut.result_names[0]]) * (len(part) / len(x))
        found.backward()
        losses.append(found.detach())
    return torch.stack(losses).sum()


def noisy_loss(result):
    return functional.dropout(result, 0.2).sum()


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_random_numbers_are_those_of_the_seed(backend, one_thread):
    """Over 50 seeds and whatever thread comes first, with and without checkpointing."""
    torch.manual_seed(0)
    model, x = Noisy(), torch.randn(7, 6)
    cut = split(model, (x[:2],), stages=4)
    runs = [
        Runtime(cut, micro_batches=3, loss=noisy_loss, backend=backend, **settings)
        for settings in ({}, {"schedule": "gpipe", "checkpoint": True}, {"schedule": "sequential"})
    ]
    seen = set()
    for seed in range(50):
        found = []
        torch.manual_seed(seed)
        base = int(torch.empty((), dtype=torch.int64).random_())
        after = torch.get_rng_state()
        model.zero_grad()
        found.append((run_stages(cut, base, x, 3, noisy_loss), gradients(model)))
        for run in runs:
            torch.manual_seed(seed)
            model.zero_grad()
            found.append((run.step(x)[0], gradients(model)))
            assert torch.equal(torch.get_rng_state(), after)
        for total, grads in found[1:]:
            assert same(total, found[0][0])
            assert all(map(same, grads, found[0][1]))
        seen.add(float(found[0][0]))
    assert len(seen) == 50


def test_numbers_do_not_depend_on_which_thread_is_first(monkeypatch, one_thread):
    torch.manual_seed(0)
    model, x, numbers = Noisy(), torch.randn(6, 6), random.Random(0)
    cut = split(model, (x[:2],), stages=4)
    run = Runtime(cut, micro_batches=3, loss=noisy_loss)
    receive = Worker._receive

    def late(self, key):
        time.sleep(numbers.random() * 0.005)
        return receive(self, key)

    monkeypatch.setattr(Worker, "_receive", late)
    found = []
    for _ in range(5):
        torch.manual_seed(1)
        model.zero_grad()
        found.append((run.step(x)[0], gradients(model)))
    for total, grads in found[1:]:
        assert same(total, found[0][0])
        assert all(map(same, grads, found[0][1]))


def test_what_drew_nothing_at_first_is_watched_again(one_thread):
    """A loss that begins to draw later."""
    draws = False
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6)), torch.randn(6, 6)
    run = Runtime(
        split(model, (x[:2],), stages=2),
        micro_batches=3,
        loss=lambda result: functional.dropout(result, 0.5, training=draws).sum(),
    )
    run.step(x)
    draws = True
    run.step(x)
    found = []
    for _ in range(2):
        torch.manual_seed(1)
        found.append(run.step(x)[0])
    assert same(*found)
