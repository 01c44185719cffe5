"""Forwards that cannot be exported as the tests ask for it, and behind them those that the messages lead to."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch


@dataclass
class Registered:
    """An argument of a class that torch.export was told of."""

    scale: Any
    times: int


torch.export.register_dataclass(Registered, serialized_type_name="gramme.tests.Registered")


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


def printed_data(self: Any, x: Any) -> Any:
    return x * float(f"{x.sum().item():.1f}")


def listed_data(self: Any, x: Any) -> Any:
    return sum(row.item() for row in x.nonzero()[:, 0])


def pointed(self: Any, x: Any) -> Any:
    return x + x.data_ptr()


def backward(self: Any, x: Any) -> Any:
    x.sum().backward()
    return x


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


# ---- what the messages lead to


def data_chosen(self: Any, x: Any) -> Any:
    return torch.where(x.sum() > 0, x, -x)


def data_cond(self: Any, x: Any) -> Any:
    return torch.cond(x.sum() > 0, lambda v: v.clone(), lambda v: -v, (x,))


def data_loop_captured(self: Any, x: Any) -> Any:
    return torch._higher_order_ops.while_loop(lambda v: v.sum() < 0, lambda v: (v + 1,), (x,))[0]


def item_stated(self: Any, x: Any) -> Any:
    k = x.item()
    torch._check(k > 2)
    if k > 2:
        return x + 1
    return x


def item_cond(self: Any, x: Any) -> Any:
    return torch.cond(x.item() > 2, lambda v: v + 1, lambda v: v.clone(), (x,))


def read_before(self: Any, x: Any, length: int) -> Any:
    return x * length


def captured(x: Any) -> Any:
    return x + 1


def unmarked(self: Any, x: Any) -> Any:
    return captured(x)


def right_key(self: Any, x: Any) -> Any:
    return {"a": x}["a"] + 1


def bound(self: Any, x: Any) -> Any:
    y = x + 1
    return y


def right_call(self: Any, x: Any) -> Any:
    return lines_of(x) + 1


def cond_of_one_shape(self: Any, x: Any) -> Any:
    return torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v.sum().expand(4, 3) * 1, (x,))


def effect_after_cond(self: Any, x: Any) -> Any:
    y, one = torch.cond(x.sum() > 0, lambda v: (v + 1, torch.ones(())), lambda v: (v - 1, torch.zeros(())), (x,))
    self.log.append(one)
    return y


def given_attribute(self: Any, x: Any) -> Any:
    return self.known(x)


def whole_numbers(self: Any, x: Any) -> Any:
    return x * x.sum()


def of_tensor(self: Any, x: Any) -> Any:
    return x.nonzero()[:, 0].sum()


def added_to_itself(self: Any, x: Any) -> Any:
    return x + x
