"""Wrappers with `__torch_dispatch__`: as arguments, parameters, intermediates and results."""

import torch

from subclasses import program
from subclasses.classes import Scaled, Two, numbers, two

LINEAR = torch.nn.Linear(4, 3).requires_grad_(False)
LINEAR.weight.copy_(numbers(3, 4))
LINEAR.bias.copy_(numbers(3))
LINEAR.weight = torch.nn.Parameter(Scaled.of(numbers(3, 4)), requires_grad=False)

BOTH = torch.nn.Linear(2, 2)
with torch.no_grad():
    BOTH.weight.copy_(numbers(2, 2))
    BOTH.bias.zero_()
BOTH.weight = torch.nn.Parameter(Two(numbers(2, 2), numbers(2, 2) * 3))


@program(lambda: [(two(3),), (two(3),), (two(5),)])
def pointwise(x):
    return (x.sin() + 1) * 2


@program(lambda: [(two(2, 2), two(2, 2))] * 2)
def two_of_them(x, y):
    return x @ y + x, x.sum()


@program(lambda: [(two(3), numbers(3))] * 2)
def beside_plain_ones(x, y):
    return x * y, y + 1


@program(lambda: [(two(2, 3),), (two(2, 3),)])
def asked_for_metadata(x):
    return x.shape, x.dtype, x.requires_grad, x.ndim, x.stride(), x * x.shape[0]


@program(lambda: [(two(3),), (two(3),)])
def inner_tensors(x):
    return x.a + 1, x.b * 2, x.a is x.b


@program(lambda: [(numbers(3), numbers(3) * 2)] * 2)
def made_inside(a, b):
    x = Two(a.sin(), b.cos())
    return x * 2


@program(lambda: [(numbers(3), numbers(3) * 2)] * 2)
def made_and_taken_apart(a, b):
    x = Two(a, b) + 1
    return x.a * x.b


@program(lambda: [(two(3, grad=True),)] * 2, backward=True)
def gradients(x):
    return (x.sin() * 2).sum()


@program(lambda: [(two(3, grad=True), numbers(3).requires_grad_())] * 2, backward=True)
def gradients_of_both(x, w):
    return (x * w).exp()


@program(lambda: [(two(3, grad=True),)] * 2)
def detached(x):
    y = x.detach()
    return y, y * 2, y.requires_grad


@program(lambda: [(numbers(2, 4),), (numbers(5, 4),)])
def quantized_weight(x):
    return LINEAR(x).relu()


@program(lambda: [(numbers(2, 4), Scaled.of(numbers(4, 3), "n"))] * 2)
def quantized_argument(x, w):
    return x @ w, w.note, w.scale * 2


@program(lambda: [(numbers(2, 4),)] * 2)
def quantized_inside(x):
    w = Scaled.of(x)
    return w.floats() - x, w.t().floats()


@program(lambda: [(numbers(3, 2).requires_grad_(),)] * 2, backward=True)
def both_as_a_parameter(x):
    return BOTH(x).a


@program(lambda: [(numbers(2, 2).to_sparse(),)] * 2)
def beside_other_layouts(x):
    return x.to_dense() + 1


@program(lambda: [(Two(two(2), two(2)),)] * 2)
def nested_twice(x):
    return x.sin() * 2
