"""Wrappers written in place, viewed, and changed from within."""

import torch

from subclasses import program
from subclasses.classes import Scaled, Two, numbers, two


@program(lambda: [(two(3),)] * 2)
def added_in_place(x):
    x.add_(1)
    return x * 2


@program(lambda: [(two(2, 3),)] * 2)
def written_through_a_view(x):
    v = x[0]
    v.mul_(2)
    return x + 0, v


@program(lambda: [(two(2, 3),)] * 2)
def a_view_returned(x):
    return x.view(-1), x.t()


@program(lambda: [(two(3),)] * 2)
def inner_written(x):
    x.a.add_(1)
    return x * 2


@program(lambda: [(two(3),)] * 2)
def outer_then_inner(x):
    x.mul_(3)
    return x.a + 1


@program(lambda: [(two(3),)] * 2)
def written_through_detach(x):
    x.detach().mul_(2)
    return x + 1


@program(lambda: [(numbers(3), numbers(3))] * 2)
def inner_of_arguments(a, b):
    x = Two(a, b)
    x.add_(1)
    return a * 2, x


@program(lambda: [(two(3), two(3))] * 2)
def copied(x, y):
    x.copy_(y * 2)
    return x


@program(lambda: [(Scaled.of(numbers(2, 2)), 2.0), (Scaled.of(numbers(2, 2)), 3.0)])
def attribute_replaced(x, n):
    x.scale = x.scale * n
    x.note = f"by {n}"
    return x.floats() + 1


@program(lambda: [(two(3),), (numbers(3),), (two(3),)])
def sometimes_plain(x):
    with torch.no_grad():
        x = x + 1
    return x, isinstance(x, Two)
