"""`__torch_function__` classes as classes: made, mixed, with attributes, properties and state of their own."""

import copy
import pickle

import torch

from subclasses import program
from subclasses.classes import LOG, Child, Inheriting, Modest, Off, Tagged, carrying, numbers, tagged


class Affine(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(numbers(2, 2).as_subclass(Inheriting))
        self.bias = torch.nn.Parameter(numbers(2))

    def forward(self, x):
        return x @ self.weight + self.bias


AFFINE = Affine()


def reset():
    LOG.clear()
    Tagged.asked = 0


@program(lambda: [(tagged(tag="a"), Child(numbers(), "b"))] * 2, state=lambda: list(LOG), setup=reset)
def a_class_and_its_base(x, y):
    z = x + y
    return z, z.tag, z.kind, torch.add(y, x)


@program(
    lambda: [(numbers().as_subclass(Modest), tagged(tag="t")), (numbers().as_subclass(Modest), numbers())],
    state=lambda: list(LOG),
    setup=reset,
)
def left_to_the_other(x, y):
    return x + y, y + x


@program(lambda: [(numbers(),), (numbers(2),)])
def made_inside(x):
    y = Tagged(x * 2, "inside")
    return y.relu(), y.tag, y.loud


@program(lambda: [(numbers(),), (numbers(2),)])
def turned_into(x):
    y = x.sin().as_subclass(Tagged)
    y.tag = "turned"
    z = y.as_subclass(torch.Tensor)
    return y, z + 1, y.cos()


@program(lambda: [(tagged(tag="a"),), (tagged(tag="b"),)])
def methods_and_properties(x):
    y = x.scaled(2.0)
    return y, y.loud, x.loud, y.kind


@program(lambda: [(tagged(tag="a"),), (tagged(tag="b"),)], state=lambda: Tagged.asked, setup=reset)
def state_of_the_class(x):
    y = x + 1
    return y * Tagged.asked


@program(lambda: [(tagged(tag="a"),), (tagged(tag="b"),)])
def attributes_written(x):
    x.tag = x.tag + "!"
    y = x + 1
    y.extra = [y.tag, x.shape]
    x.note = y
    return y.extra


@program(lambda: [(carrying(k=1),), (carrying(k=2),)])
def copies(x):
    y = x.clone()
    z = copy.copy(x)
    return y, z, copy.deepcopy(y), pickle.loads(pickle.dumps(x)).meta


@program(lambda: [(numbers(3, 2).requires_grad_(),)] * 2, backward=True)
def as_a_parameter(x):
    return AFFINE(x)


@program(lambda: [(tagged(tag="a"), 1), (tagged(tag="b"), 2), (numbers(), 3), (carrying(k=1), 4)])
def another_class_each_call(x, n):
    y = x * n
    return y, type(y).__name__, getattr(y, "tag", "none")


@program(lambda: [(numbers(2, 3).as_subclass(Inheriting), numbers(3).as_subclass(Off))] * 2)
def rows_and_lengths(x, y):
    first, second = x
    total = sum(row for row in x)
    return len(x), len(y), first, second + 1, total, [e + 1 for e in y], type(first).__name__


def sharing():
    x = numbers(4)
    return x, x.as_subclass(Inheriting), x[1:].as_subclass(Off)


def apart():
    return numbers(4), numbers(4).as_subclass(Inheriting), numbers(3).as_subclass(Off)


@program(lambda: [sharing(), apart(), sharing()])
def memory_shared_with_classes(x, c, part):
    x.add_(1)
    y = c * 2
    part.mul_(3)
    return y, x + 1, c + 1, type(y).__name__


class Labelled(torch.Tensor):
    """Made by _make_subclass: shares memory with its data, and is no view of it."""

    label: str

    def __new__(cls, data, label):
        made = torch.Tensor._make_subclass(cls, data)
        made.label = label
        return made


@program(lambda: [(numbers(), "a"), (numbers().requires_grad_(), "b")])
def made_detached(x, label):
    y = Labelled(x * 2, label)
    return y, y.label, y.requires_grad, y.is_leaf, y + x


@program(lambda: [(numbers(),)] * 2, state=lambda: list(LOG), setup=reset)
def memory_of_a_detached_one(x):
    y = torch.Tensor._make_subclass(Inheriting, x, False)
    y.mul_(3)
    x.add_(1)
    return y, x * 2, y + 1


@program(lambda: [(numbers(2).requires_grad_(),)] * 2, backward=True)
def no_gradient_passes(x):
    y = x * 2
    return y * torch.Tensor._make_subclass(torch.Tensor, y)


@program(lambda: [(numbers(),)] * 2)
def a_leaf_of_a_class(x):
    y = torch.Tensor._make_subclass(Labelled, x * 2, True)
    return y.requires_grad, y
