"""Ints that meet sizes, over forty calls: means over growing parts, masks of the longest, a log that grows."""

import warnings
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch

from shapes.compare import Comparison
from shapes.open_captures import hold

CALLS = 40
LIMIT = 3
X = torch.arange(64.0)
DATA = torch.arange(82.0).reshape(41, 2)
Call = Callable[[int], tuple[Any, ...]]


def size_made(n):
    return torch.zeros(n).shape[0]


def mean_of_a_part(n):
    part = X[:n]
    return part.sum() / part.numel()


def short_or_long(n):
    return "long" if X[n:].size(0) > 40 else "short"


def shape_made(n):
    return torch.ones(n, 2).reshape(-1).shape


class Cache(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("k", torch.zeros(CALLS, 2))
        self.pos = 0

    def forward(self, x):
        self.k[self.pos] = x
        self.pos += 1
        k = self.k[: self.pos]
        return k.sum(0) / k.size(0)


def part_of_data(data, i, size=3):
    batch = data[i * size : (i + 1) * size]
    return batch.sum(0) / max(len(batch), 1), len(batch)


def mask_of_the_longest(lengths):
    mask = torch.arange(lengths.max().item())[None] < lengths[:, None]
    return mask.shape[1], mask.float().mean() * mask.numel()


def floats_up_to(x):
    return torch.arange(0.0, x.max().item()).shape[0]


def step_with_a_log(x, log):
    for i in range(3):
        x = torch.sin(x) + i
    log.append(x.mean())
    return x


def counter() -> Callable[[torch.Tensor], torch.Tensor]:
    k = 0

    def call(x):
        nonlocal k
        k += 1
        return x + k

    return call


def one_log() -> Call:
    log: list[torch.Tensor] = []
    return lambda i: (torch.ones(4), log)


# What makes the callable, and what makes its arguments for the calls.
PROGRAMS: dict[str, tuple[Callable[[], Any], Callable[[], Call]]] = {
    "size_made": (lambda: size_made, lambda: lambda i: (i * 7 % 41,)),
    "mean_of_a_part": (lambda: mean_of_a_part, lambda: lambda i: (1 + i * 7 % 41,)),
    "short_or_long": (lambda: short_or_long, lambda: lambda i: (i * 7 % 41,)),
    "shape_made": (lambda: shape_made, lambda: lambda i: (i * 7 % 41,)),
    "cache": (Cache, lambda: lambda i: (torch.full((2,), float(i)),)),
    "part_of_data": (lambda: part_of_data, lambda: lambda i: (DATA, i % 15)),
    "mask_of_the_longest": (lambda: mask_of_the_longest, lambda: lambda i: (torch.tensor([1 + i * 7 % 11, 4]),)),
    "floats_up_to": (lambda: floats_up_to, lambda: lambda i: (torch.tensor([2.0 + i * 7 % 11]),)),
    "step_with_a_log": (lambda: step_with_a_log, one_log),
    "counter": (counter, lambda: lambda i: (torch.ones(1),)),
}


@pytest.mark.parametrize("backend", ["eager", "native", pytest.param("aot_eager", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_forty_calls(name: str, backend: str) -> None:
    gramme.reset()
    make, arguments = PROGRAMS[name]
    function, original, for_eager, for_compiled = make(), make(), arguments(), arguments()
    compiled = gramme.compile(original, backend=backend, recompile_limit=10 * CALLS)
    for i in range(CALLS):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            given, other = for_eager(i), for_compiled(i)
            expected, found = function(*given), compiled(*other)
        differs = Comparison().difference([expected, given], [found, other])
        assert differs is None, f"call {i}: {differs}"
    statistics = gramme.statistics(compiled)
    assert statistics.plain_runs == 0
    if backend == "eager":
        hold(f"review.{name}", statistics.captures, LIMIT)
