"""Backwards in halves: gradients that other stages wait for first, those of weights later."""

import gc
import weakref

import pytest
import torch
from gramme import _C
from gramme.pipeline import Runtime, Schedule, split
from torch import nn

from pipeline import zoo
from pipeline.cases import MODELS, UNet
from pipeline.models import gradients, same
from pipeline.runs import compare, loss_of
from pipeline.test_schedule import texts, torchs_interleaved_zero_bubble, torchs_zbv
from pipeline.transformer_models import bert, distilbert, gpt2, llama, mixtral, t5, token_loss, tokens, uncut


def of_torch(order):
    return Schedule.from_csv("\n".join(",".join(texts(row)) for row in order.values()))


SCHEDULES = {
    "zero-bubble": Schedule.zero_bubble(4, 3),
    "interleaved": of_torch(torchs_interleaved_zero_bubble(2, 4, 4)),
    "zbv": of_torch(torchs_zbv(2, 3)),
    "mixed": Schedule.from_csv(
        "0F0,0F1,0I0,0W0,0B1\n1F0,1F1,1I0,1I1,1W0,1W1\n2F0,2F1,2B0,2I1,2W1\n3F0,3I0,3F1,3W0,3B1"
    ),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", MODELS)
def test_equals_the_uncut_model(name, schedule, one_thread):
    make, arguments = MODELS[name]
    torch.manual_seed(0)
    model = make()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    cut = split(model, arguments(7, 5), stages=4)
    parts = SCHEDULES[schedule].micro_batches
    for settings in ({}, {"backend": "native"}) if schedule == "zbv" else ({"checkpoint": schedule == "zero-bubble"},):
        run = Runtime(cut, schedule=SCHEDULES[schedule], loss=loss_of, **settings)
        for length in (5, 4):
            compare(model, run, arguments(2 * parts + 1, length), parts, before=before)
        assert sorted(str(span.action) for span in run.spans if span.action.kind != "F") == sorted(
            str(action)
            for rank in range(len(run.schedule.rows))
            for action in run.schedule.computations(rank)
            if action.kind != "F"
        )


@pytest.mark.parametrize("name", ["unet", "densenet", "named"])
def test_convolutions(name, one_thread):
    make, arguments = zoo.SMALL[name]
    torch.manual_seed(0)
    model = make()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    run = Runtime(split(model, arguments(2)[0], stages=4), micro_batches=4, schedule="zero-bubble", loss=loss_of)
    compare(model, run, arguments(8)[0], 4, before=before)


@pytest.mark.sampled(4)
@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"checkpoint": True}, {"backend": "native"}], ids=["kept", "again", "native"])
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("make", [llama, bert, distilbert, gpt2, t5, mixtral])
def test_transformers(make, schedule, settings, one_thread):
    torch.manual_seed(0)
    model = make(pytest.importorskip("transformers")).train()
    parts = SCHEDULES[schedule].micro_batches
    run = Runtime(split(model, tokens(make, 3, 7), stages=4), schedule=SCHEDULES[schedule], loss=token_loss, **settings)
    for n, length in ((3 * parts, 7), (3 * parts - 1, 5)):
        args, target = tokens(make, n, length), torch.randint(0, 50, (n, length))
        compare(model, run, args, parts, token_loss, target=target, uncut=uncut(make, model))
    planned = [action for rank in range(len(run.schedule.rows)) for action in run.schedule.computations(rank)]
    for kind in "BIW":
        assert sum(span.action.kind == kind for span in run.spans) == sum(action.kind == kind for action in planned)


def parts():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.LayerNorm(4), nn.Linear(4, 4))
    leaf = torch.randn(3, 4, requires_grad=True)
    return model, leaf, leaf * 1.0


def test_inputs_first_weights_later(one_thread):
    model, leaf, x = parts()
    model(x).pow(2).sum().backward()
    expected, of_leaf = gradients(model), leaf.grad
    model, leaf, x = parts()
    loss = model(x).pow(2).sum()
    halves = _C.Halves([loss], [x])
    assert not halves.refusal
    halves.run_inputs([loss], [torch.ones(())])
    assert same(leaf.grad, of_leaf)
    assert gradients(model) == [None] * len(expected)
    halves.run_weights([], [])
    assert all(map(same, gradients(model), expected))
    halves.run_weights([], [])  # nothing is left
    assert all(map(same, gradients(model), expected))


class Packed:
    def __init__(self, tensor):
        self.tensor = tensor


def test_what_only_inputs_need_is_let_go(one_thread):
    """Of the graph the second half keeps what nodes with weights saved."""
    kept = []

    def pack(tensor):
        packed = Packed(tensor)
        kept[-1].append(weakref.ref(packed))
        return packed

    linear = nn.Linear(4, 4)
    x = start = torch.randn(3, 4, requires_grad=True) * 1.0
    for layer in (torch.sin, linear, torch.cos):
        kept.append([])
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda packed: packed.tensor):
            x = layer(x)

    def alive():
        gc.collect()
        return [any(reference() is not None for reference in references) for references in kept]

    loss = x.sum()
    halves = _C.Halves([loss], [start])
    assert alive() == [True, True, True]
    halves.run_inputs([loss], [torch.ones(())])
    assert alive() == [False, True, False]
    halves.run_weights([], [])
    assert alive() == [False, False, False]


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x * weight

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad * weight, (grad * x).sum(0)


def test_what_may_not_run_twice_is_named():
    weight = torch.randn(4, requires_grad=True)
    x = torch.randn(3, 4, requires_grad=True) * 1.0
    assert _C.Halves([Scaled.apply(x, weight).sum()], [x]).refusal == "ScaledBackward"
    assert not _C.Halves([Scaled.apply(x, torch.ones(4)).sum()], [x]).refusal
    product = x * weight
    assert not _C.Halves([product.sum()], [x]).refusal
    product.register_hook(lambda gradient: gradient * 2)
    assert _C.Halves([product.sum()], [x]).refusal == "MulBackward0"


def hooked(calls, when=lambda: True):
    def loss(result):
        (first, *_) = result if isinstance(result, tuple) else (result,)
        if when():
            first.register_hook(calls.append)
        return loss_of(result)

    return loss


@pytest.mark.parametrize("every", [1, 2])
def test_a_hook_runs_once(every, one_thread):
    """That stage's backward is whole where its first half stands, behind the second halves before it."""
    torch.manual_seed(0)
    model, calls, steps = UNet(), [], iter(range(100))
    run = Runtime(
        split(model, (torch.randn(2, 6),), stages=4),
        micro_batches=4,
        schedule="zero-bubble",
        loss=hooked(calls, lambda: next(steps) % every == every - 1),
    )
    compare(model, run, (torch.randn(9, 6),), 4)
    assert len(calls) == 4 / every


def test_a_hook_where_weights_are_shared_is_refused(one_thread):
    """Stage 0 would do its whole backward before stage 1 has its part of the shared weight."""

    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x):
            for _ in range(4):
                x = torch.tanh(Scaled.apply(self.linear(x), self.linear.bias))
            return x

    cut = split(Shared(), (torch.randn(2, 4, requires_grad=True),), stages=2)
    run = Runtime(cut, micro_batches=2, schedule="zero-bubble", loss=torch.sum)
    with pytest.raises(RuntimeError, match=r"0I0: the backward cannot be split, since \w+Backward would run twice"):
        run.step(torch.randn(4, 4, requires_grad=True))


def test_what_a_stage_has_of_weights_alone(one_thread):
    """A value of weights alone that a later stage takes: its gradient waits for the second half."""
    torch.manual_seed(0)
    weight = nn.Parameter(torch.randn(4))

    class Late(nn.Module):
        def __init__(self):
            super().__init__()
            self.linears, self.weight = nn.ModuleList(nn.Linear(4, 4) for _ in range(4)), weight

        def forward(self, x):
            table = (self.weight * 2).exp()
            for linear in self.linears:
                x = torch.tanh(linear(x) * table + self.weight)
            return x

    model = Late()
    run = Runtime(split(model, (torch.randn(2, 4),), stages=4), micro_batches=3, schedule="zero-bubble", loss=loss_of)
    compare(model, run, (torch.randn(7, 4),), 3)
    assert any(value.is_weight for value in run.values)


def test_a_failure_in_the_second_half_is_named(one_thread):
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(4)))
    run = Runtime(split(model, (torch.randn(2, 4),), stages=2), micro_batches=2, schedule="zero-bubble", loss=torch.sum)

    def fail(gradient):
        raise ValueError("no")

    model[0].weight.register_hook(fail)
    with pytest.raises(ValueError, match="no") as found:
        run.step(torch.randn(4, 4))
    assert any("in stage 0, backward for weights of micro-batch 0" in note for note in found.value.__notes__)
