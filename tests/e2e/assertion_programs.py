"""Programs that assert something of tensors' data. Not in a file of tests: pytest rewrites assertions there."""

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

LOG: list[Any] = []
KEPT = torch.zeros(2)


class Refused(Exception):
    pass


def told(x: torch.Tensor) -> Any:
    assert x.sum() > 0, "negative"
    return x * 2


def untold(x: torch.Tensor) -> Any:
    assert x.sum() > 0
    return x * 2


def described(x: torch.Tensor) -> Any:
    total = x.sum()
    assert total > 0, f"negative: {total.item():.1f}"
    return x * 2


def negated(x: torch.Tensor) -> Any:
    if (x < 0).any():
        raise Refused(f"{int((x < 0).sum())} negative in {tuple(x.shape)}")
    return x * 2


def otherwise(x: torch.Tensor) -> Any:
    if x.sum() > 0:
        x = x * 2
    else:
        raise Refused("negative")
    return x


def by_number(x: torch.Tensor) -> Any:
    assert x.sum(), "zero"  # any number but zero is true, NaN too
    return x * 2


def by_torch(x: torch.Tensor) -> Any:
    torch._assert(x.sum() > 0, "negative")
    return x * 2


def check(x: torch.Tensor) -> torch.Tensor:
    if not torch.isfinite(x).all():
        raise ValueError("not finite")
    assert (x >= 0).all(), "negative"
    return x.sqrt()


def in_a_callee(x: torch.Tensor) -> Any:
    return check(check(x) + 1)


def handled(x: torch.Tensor) -> Any:
    try:
        y = check(x)
    except (ValueError, AssertionError) as error:
        return str(error), x - 1
    return "well", y


def before_a_write(x: torch.Tensor) -> Any:
    assert x.sum() > 0, "negative"
    x.mul_(2)
    LOG.append("written")
    return x + 1


def between_lasting_writes(x: torch.Tensor) -> Any:
    LOG.append("begin")
    assert (x < 55).all(), "large"
    KEPT.resize_(len(LOG) + 1).fill_(7)
    if x.sum() < 0:
        raise ValueError(len(LOG))
    KEPT.add_(1)
    return x + KEPT.sum()


def loops_before_it_raises(x: torch.Tensor) -> Any:
    x = x.nan_to_num()
    while x.sum() > 3:
        x = x / 2
        if len(LOG) > 2:
            return x
        LOG.append(len(LOG))
    raise Refused("small")


def suppressed(x: torch.Tensor) -> Any:
    with contextlib.suppress(AssertionError):
        assert x.sum() > 0, "negative"
        return x
    return x - 1


def without_gradients(x: torch.Tensor) -> Any:
    with torch.no_grad():
        y = check(x)
    return y * 2


def cleaned_up(x: torch.Tensor) -> Any:
    try:
        y = check(x)
    finally:
        LOG.append("finally")
    return y


def after_a_write(x: torch.Tensor) -> Any:
    x.add_(1)
    assert x.sum() > 3, "small"
    x.mul_(2)
    assert x.sum() < 100, "large"
    return x + 1


def after_effects(x: torch.Tensor) -> Any:
    LOG.append(len(LOG))
    y = x + torch.rand_like(x)
    assert x.sum() > 0, "negative"
    LOG.append("behind")
    return y * torch.rand(())


def distribution(x: torch.Tensor) -> Any:
    return torch.distributions.Normal(x, x.exp()).log_prob(x + 1), torch.distributions.Poisson(x).mean


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert not torch.isnan(x).any(), "not a number"
        return self.linear(x)


LAYER = Layer()


def of_a_module(x: torch.Tensor) -> Any:
    return LAYER(x).detach()


def sum_of_data(x: torch.Tensor) -> Any:
    total = x.sum().item()
    assert total > 0, f"not positive: {total}"
    return x * 2


def largest_of_data(x: torch.Tensor) -> Any:
    if x.max().item() > 10:
        raise Refused("large")
    return x + 1


def count_of_data(x: torch.Tensor) -> Any:
    found = (x > 0).nonzero()
    assert found.shape[0] > 1, "few"
    return found.sum()


def size_of_data(x: torch.Tensor) -> Any:
    n = x[0].nan_to_num().long().item()
    if n < 1:
        raise ValueError(f"{n} rows")
    return torch.zeros(n) + 1


def handled_number(x: torch.Tensor) -> Any:
    try:
        n = x.long().sum().item()
        assert n > 0, "not positive"
    except AssertionError as error:
        return str(error), x - 1
    return "well", x * 2


def of_each(x: torch.Tensor) -> Any:
    assert x > 0, "which?"
    return x * 2


PROGRAMS: list[Callable[[torch.Tensor], Any]] = [
    told,
    untold,
    described,
    negated,
    otherwise,
    by_number,
    by_torch,
    in_a_callee,
    handled,
    after_a_write,
    before_a_write,
    between_lasting_writes,
    loops_before_it_raises,
    suppressed,
    without_gradients,
    cleaned_up,
    sum_of_data,
    largest_of_data,
    count_of_data,
    size_of_data,
    handled_number,
]
PROGRAMS += [after_effects, distribution, of_a_module]
WITH_BREAKS = [
    loops_before_it_raises,
    handled,
    between_lasting_writes,
    suppressed,
    cleaned_up,
    without_gradients,
    handled_number,
]
WITH_BREAKS += [sum_of_data, largest_of_data, count_of_data, size_of_data]
