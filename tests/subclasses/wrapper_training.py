"""Wrappers as parameters, in modules, and what gradients they get."""

import torch
from torch import nn

from subclasses import program
from subclasses.classes import Two, numbers, two
from subclasses.wrapper_classes import Quiet, Slotted


def doubled(*shape: int) -> nn.Parameter:
    return nn.Parameter(Two(numbers(*shape) / 4, numbers(*shape) / 8))


class Layer(nn.Module):
    def __init__(self, made):
        super().__init__()
        self.weight = made
        self.scale = 2.0

    def forward(self, x):
        return torch.nn.functional.linear(x, self.weight) * self.scale


FROZEN = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)).requires_grad_(False)
with torch.no_grad():
    for layer in (FROZEN[0], FROZEN[2]):
        layer.weight.copy_(numbers(*layer.weight.shape) / 8)
        layer.bias.fill_(0.5)
        layer.weight = nn.Parameter(Quiet.of(layer.weight.detach(), 0.125), requires_grad=False)

LAYER = Layer(doubled(3, 2))
DEEP = nn.Sequential(Layer(doubled(3, 2)), Layer(doubled(2, 3)))
ADAPTED = Layer(nn.Parameter(Quiet.of(numbers(3, 2)), requires_grad=False))
LOW, HIGH = nn.Parameter(numbers(1, 2) / 8), nn.Parameter(numbers(3, 1) / 8)
HELD = Layer(nn.Parameter(Slotted(numbers(3, 2), "m")))


def forget() -> None:
    for module in (LAYER, DEEP, HELD):
        module.zero_grad()
    LOW.grad = HIGH.grad = None


def grads():
    return [p.grad for m in (LAYER, DEEP, HELD) for p in m.parameters()] + [LOW.grad, HIGH.grad]


@program(lambda: [(numbers(2, 4),), (numbers(3, 4),), (numbers(5, 4),)])
def frozen_weights(x):
    return FROZEN(x)


@program(lambda: [(two(2, 2),)] * 2, backward=True, state=grads, setup=forget)
def a_weight_that_learns(x):
    return LAYER(x).a


@program(lambda: [(two(2, 2),)] * 2, backward=True, state=grads, setup=forget)
def two_layers(x):
    return DEEP(x).sin()


@program(lambda: [(numbers(2, 2),)] * 2, backward=True, state=grads, setup=forget)
def adapters_beside_it(x):
    return ADAPTED(x) + torch.nn.functional.linear(torch.nn.functional.linear(x, LOW), HIGH)


@program(lambda: [(numbers(2, 2),)] * 2, backward=True, state=grads, setup=forget)
def a_slotted_weight(x):
    return HELD(x).sum()


@program(lambda: [(numbers(2, 2).requires_grad_(),)] * 2, backward=True)
def through_frozen_ones(x):
    return ADAPTED(x.sin())


@program(lambda: [(two(3, grad=True),)] * 2)
def backward_inside(x):
    y = (x * x).sum()
    y.backward()
    return y.detach()


@program(lambda: [(two(3, grad=True),)] * 2)
def without_gradients(x):
    with torch.no_grad():
        y = x * 2
    return y, y.requires_grad, (x * 2).requires_grad


@program(lambda: [(two(3, grad=True),)] * 2, backward=True)
def a_leaf_and_a_detached_one(x):
    return x * x.detach()


@program(lambda: [(numbers(3),)] * 2)
def a_gradient_that_is_asked_for(x):
    w = nn.Parameter(Two(numbers(3), numbers(3)))
    y = w * 2
    return y.requires_grad, y.is_leaf, w.is_leaf
