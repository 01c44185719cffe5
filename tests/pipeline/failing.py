"""A model that fails where it is told to."""

import torch
from torch import nn


class Oops(Exception):
    pass


class Failing:
    """The place that raises: kind, layer, and the micro-batch whose number its rows hold."""

    when = None


@torch.library.custom_op("gramme_pipeline_test::fail", mutates_args=())
def fail(x: torch.Tensor, stage: int, number: torch.Tensor) -> torch.Tensor:
    _raise("F", stage, number)
    return x.clone()


@fail.register_fake
def _(x, stage, number):
    return torch.empty_like(x)


def _raise(kind, stage, number):
    place = kind, stage, int(number.flatten()[0])
    if Failing.when == place:
        raise Oops(" ".join(map(str, place)))


def _setup(ctx, inputs, output):
    ctx.stage = inputs[1]
    ctx.save_for_backward(inputs[2])


def _backward(ctx, grad):
    _raise("B", ctx.stage, *ctx.saved_tensors)
    return grad, None, None


fail.register_autograd(_backward, setup_context=_setup)


class MayFail(nn.Module):
    def __init__(self, stages=3):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(stages))

    def forward(self, x, number):
        for i, layer in enumerate(self.layers):
            x = torch.ops.gramme_pipeline_test.fail(torch.tanh(layer(x)), i, number)
        return x


def stage_of(cut, i):
    """The stage that has the i-th call that may fail."""
    for number, stage in enumerate(cut.stages):
        for node in stage.graph.nodes:
            if "fail" in str(node.target) and node.args[1] == i:
                return number
    raise AssertionError
