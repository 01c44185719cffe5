"""Wrappers in functions that operators take: checkpoints, conditions, backward of an `autograd.Function`."""

from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from subclasses import program
from subclasses.classes import Two, numbers, two
from subclasses.wrapper_functions import FROZEN, Linear, Product, Table, trained

WEIGHT = two(3, grad=True)
PLAIN = two(3)


def weights() -> Any:
    return WEIGHT.grad


def forget() -> None:
    WEIGHT.grad = None


def again(function: Any, *arguments: Any) -> Any:
    return checkpoint(function, *arguments, use_reentrant=False)


@program(lambda: [(trained(3),)] * 2, backward=True, state=weights, setup=forget)
def a_checkpoint_that_reads_one(x):
    return again(lambda y: (y * WEIGHT).sin(), x)


@program(lambda: [(two(3, grad=True), trained(3))] * 2, backward=True)
def a_checkpoint_of_one(x, y):
    return again(lambda a, b: (a * b).sin() * a, x, y)


@program(lambda: [(trained(3),)] * 2, backward=True)
def one_made_in_a_checkpoint(x):
    return again(lambda y: Two(y.sin(), y.cos()) * 2, x)


@program(lambda: [(trained(3),)] * 2, backward=True, state=weights, setup=forget)
def first_seen_in_a_checkpoint(x):
    y = again(lambda z: z * WEIGHT, x)
    return y + WEIGHT.a.detach() + (WEIGHT * 2).detach()


@program(lambda: [(trained(3),)] * 2, backward=True, state=weights, setup=forget)
def first_seen_before_a_checkpoint(x):
    y = x * WEIGHT
    return again(lambda z: z * WEIGHT + PLAIN, y)


@program(lambda: [(trained(3),)] * 2, backward=True)
def inner_tensors_in_and_after(x):
    y = again(lambda z: z * PLAIN.a + PLAIN.b, x)
    return y * PLAIN.b


@program(lambda: [(trained(3),)] * 2, backward=True)
def inner_tensors_of_a_result(x):
    y = PLAIN * 2
    z = again(lambda a: a * y.a, x)
    return z + y.a + y.b


@program(lambda: [(trained(3),)] * 2, backward=True, state=weights, setup=forget)
def a_checkpoint_in_one(x):
    return again(lambda y: again(lambda z: z * WEIGHT, y.sin()) * WEIGHT, x)


@program(lambda: [(trained(2, 3),)] * 2, backward=True)
def a_function_in_a_checkpoint(x):
    return again(lambda y: Linear.apply(y.sin(), FROZEN), x)


@program(lambda: [(trained(3),)] * 2, backward=True, state=weights, setup=forget)
def both_gradients_in_a_checkpoint(x):
    return again(lambda y: Product.apply(y, WEIGHT), x)


@program(lambda: [(two(3, grad=True),)] * 2, backward=True)
def two_results_of_a_checkpoint(x):
    y, z = again(lambda a: (a * 2, a.sin()), x)
    return y * z


@program(lambda: [(two(3),), (two(3),)])
def a_write_in_a_checkpoint(x):
    return again(lambda a: a.mul_(2) + 1, x)


@program(lambda: [(numbers(3),), (-numbers(3),)])
def a_condition_that_reads_one(x):
    return torch.cond(x.sum() > 0, lambda a: a * PLAIN.a, lambda a: a + PLAIN.b, (x,))


@program(lambda: [(trained(2, 3), Table.of(3, 3, kind="a")), (trained(2, 3), Table.of(3, 3, kind="b"))], backward=True)
def metadata_in_a_checkpoint(x, weight):
    return again(lambda y: Linear.apply(y, weight) * (2 if weight.kind == "a" else 3), x)


@program(lambda: [(trained(3), two(3)), (trained(3), two(3)), (trained(4), two(4))], backward=True)
def other_sizes(x, y):
    return again(lambda a: a * y + y.a, x)


@program(lambda: [(trained(3),)] * 2, backward=True)
def a_break_after_a_checkpoint(x):
    y = again(lambda a: a * PLAIN, x)
    print("between")
    return y * PLAIN
