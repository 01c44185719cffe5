"""Forwards that cannot be exported as the tests ask for it."""

from __future__ import annotations

import time
from typing import Any

import torch


def branch(self: Any, x: Any) -> Any:
    return x + 1 if x.shape[0] > 3 else x - 1


def branch_below(self: Any, x: Any) -> Any:
    return x + 1 if x.shape[0] < 8 else x - 1


def even(self: Any, x: Any) -> Any:
    return x.view(x.shape[0] // 2, 6)


def unrolled(self: Any, x: Any) -> Any:
    for i in range(x.shape[0]):
        x = x + i
    return x


def compared(self: Any, x: Any) -> Any:
    return x + 1 if x.shape[0] == 4 else x


def indexed(self: Any, x: Any) -> Any:
    return [x + 1, x + 2, x + 3, x + 4, x + 5][x.shape[0]]


def as_key(self: Any, x: Any) -> Any:
    return x * {4: 2.0, 5: 3.0}[x.shape[0]]


def view(self: Any, x: Any) -> Any:
    return x.view(2, 6)


def added(self: Any, x: Any, y: Any) -> Any:
    return x + y


def multiplied(self: Any, x: Any, y: Any) -> Any:
    return x @ y


def shifted(self: Any, x: Any, y: Any) -> Any:
    return x + y[1:]


def linear(self: Any, x: Any) -> Any:
    return torch.nn.functional.linear(x, torch.ones(2, 3))


def stacked(self: Any, x: Any, y: Any) -> Any:
    return torch.stack([x, y])


def doubled(self: Any, x: Any) -> Any:
    return x * 2


def counted(self: Any, x: Any, k: int) -> Any:
    for _ in range(k):
        x = x + 1
    return x


def nested(self: Any, xs: Any) -> Any:
    return xs[0] + xs[1]


def object_out(self: Any, x: Any) -> Any:
    return x, object()


def doubled_first(self: Any, x: Any, other: Any) -> Any:
    return x * 2


def data(self: Any, x: Any) -> Any:
    if x.sum() > 0:
        return x
    return -x


def data_loop(self: Any, x: Any) -> Any:
    while x.sum() < 0:
        x = x + 1
    return x


def item_branch(self: Any, x: Any) -> Any:
    k = x.item()
    if k > 2:
        return x + 1
    return x


def graph_break(self: Any, x: Any) -> Any:
    torch._dynamo.graph_break()
    return x


def opened(self: Any, x: Any) -> Any:
    with open(__file__) as file:
        return x * len(file.read())


def raises(self: Any, x: Any) -> Any:
    if x.shape[0] != 3:
        raise ValueError("not 3")
    return x


def asserts(self: Any, x: Any) -> Any:
    assert x.shape[0] == 3, "three rows"
    return x


def mismatch(self: Any, x: Any) -> Any:
    return x @ x


def cond_of_two_shapes(self: Any, x: Any) -> Any:
    return torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v.sum(), (x,))


def cond_with_effect(self: Any, x: Any) -> Any:
    def then(v: Any) -> Any:
        self.log.append(1)
        return v + 1

    return torch.cond(x.sum() > 0, then, lambda v: v - 1, (x,))


def missing_attribute(self: Any, x: Any) -> Any:
    return self.nothing(x)


def slept(self: Any, x: Any) -> Any:
    time.sleep(0)
    return x


@torch._dynamo.disable
def kept_plain(x: Any) -> Any:
    return x + 1


def disabled(self: Any, x: Any) -> Any:
    return kept_plain(x)


def another_error(self: Any, x: Any) -> Any:
    return {"a": x}["b"]


def divided(self: Any, x: Any) -> Any:
    return x / (1 // (x.dim() - 2))


def unbound(self: Any, x: Any) -> Any:
    return y  # noqa: F821


def lines_of(x: Any) -> Any:
    return x


def wrong_call(self: Any, x: Any) -> Any:
    return lines_of(x, 2)
