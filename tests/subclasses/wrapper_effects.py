"""Writes to wrappers and what they wrap, beside tensors that share memory with them, and what dies or stays."""

from subclasses import program
from subclasses.classes import Two, numbers, two
from subclasses.wrapper_classes import Counting, Quiet, Slotted

KEPT: list[object] = []


def sharing():
    a = numbers(3)
    return Two(a, a * 2), a


def sharing_in_part():
    a = numbers(4)
    return Two(a[:3], a[1:]), a


def with_itself():
    x = two(3)
    return x, x


def of_one_tensor():
    a, b = numbers(3), numbers(3)
    return Two(a, b), Two(a, b + 1)


@program(lambda: [sharing(), sharing(), (two(3), numbers(3))])
def written_outside(x, a):
    a.add_(1)
    return x * 2


@program(lambda: [sharing(), sharing(), (two(3), numbers(3))])
def written_through_it(x, a):
    x.add_(1)
    return a * 2


@program(lambda: [sharing_in_part(), sharing_in_part()])
def written_in_part(x, a):
    a[1] = 7
    return x + a[:3]


@program(lambda: [with_itself(), (two(3), two(3)), with_itself()])
def the_same_twice(x, y):
    x.mul_(2)
    return y + 1


@program(lambda: [of_one_tensor(), (two(3), two(3)), of_one_tensor()])
def two_of_one_tensor(x, y):
    x.mul_(2)
    return y + 1


@program(lambda: [(two(4),)] * 2)
def made_then_written(x):
    y = x * 2
    v = y[1:]
    v.add_(1)
    return y, v


@program(lambda: [(Slotted(numbers(3), "m"),)] * 2)
def a_slotted_one_written(x):
    x.mul_(2)
    x.add_(x)
    return x + 1


@program(lambda: [(two(3, 2),)] * 2)
def zeroed_by_a_row(x):
    x[0].zero_()
    x[1:] = 3
    return x.sum()


@program(lambda: [(numbers(3),)] * 2)
def a_plain_one_from_it(a):
    y = a * 2
    x = Two(y, y + 1)
    y.add_(1)
    return x * 2, y


@program(lambda: [(Quiet.of(numbers(3)), numbers(3))] * 2)
def into_a_plain_one(w, x):
    x.copy_(w)
    x.add_(w)
    return x * 2


@program(lambda: [(two(3), numbers(3))] * 2, state=lambda: list(KEPT), setup=KEPT.clear)
def kept(x, y):
    KEPT.append(x * 2)
    KEPT.append(y)
    return x


@program(lambda: [(two(3),)] * 2)
def the_very_same(x):
    y = x
    return y is x, x.a is x.a, x.contiguous() is x, x.view(3) is x


@program(lambda: [(Counting(numbers(3), numbers(3)), True), (Counting(numbers(3), numbers(3)), False)])
def out_of_a_branch(x, on):
    y = x + 1
    if on:
        y = y.sin()
    return y, type(y).__name__


@program(lambda: [(two(3),)] * 2)
def breaks_between(x):
    y = x * 2
    print("between")
    return y + 1


@program(lambda: [(two(3),), (two(3),)])
def an_exception_after(x):
    y = x * 2
    if y.shape[0] == 3:
        raise ValueError("of three")
    return y


@program(lambda: [(two(3), two(4))] * 2)
def sizes_that_do_not_fit(x, y):
    try:
        return x + y
    except RuntimeError:
        return "no"
