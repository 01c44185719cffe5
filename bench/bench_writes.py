"""Programs that write inputs in place: counts segments, and inputs that a call copies in case the graph raises.

bench/bench_writes.py [case ...]: an error if a program takes more than the table says.
"""

import os
import platform
import sys
from collections.abc import Callable
from typing import Any

import gramme
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

Call = tuple[Any, Callable[[], Any]]  # what is compiled, and a call of it


def batch_norm() -> Call:
    """A training step through batch norm, with a loss whose targets may be out of range."""
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4))

    def step(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(model(x), target)

    compiled = gramme.compile(step, backend="eager")
    x, target = torch.randn(5, 8), torch.tensor([0, 1, 2, 3, 0])
    return compiled, lambda: compiled(x, target)


def batch_norm_alone() -> Call:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
    compiled, x = gramme.compile(model, backend="eager"), torch.randn(2, 3, 8, 8)
    return compiled, lambda: compiled(x)


def adamw(foreach: bool) -> Call:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizer = torch.optim.AdamW(model.parameters(), foreach=foreach)
    x = torch.randn(5, 8)
    step = gramme.compile(optimizer.step, backend="eager")

    def call() -> None:
        optimizer.zero_grad()
        model(x).sum().backward()
        step()

    return step, call


def cache(index: Callable[[int], Any]) -> Call:
    """One row of keys and of values into a cache of a fixed size, and attention over it."""
    keys, values = torch.zeros(16, 8), torch.zeros(16, 8)

    def attend(query: torch.Tensor, at: Any) -> torch.Tensor:
        keys[at] = query
        values[at] = query * 2
        return torch.softmax(keys @ query, 0) @ values

    compiled, query = gramme.compile(attend, backend="eager"), torch.randn(8)
    return compiled, lambda: compiled(query, index(3))


def cache_index_copy() -> Call:
    keys, at = torch.zeros(2, 16, 8), torch.tensor([3])

    def attend(query: torch.Tensor) -> torch.Tensor:
        keys.index_copy_(1, at, query)
        return (keys @ query.mT).softmax(-1)

    compiled, query = gramme.compile(attend, backend="eager"), torch.randn(2, 1, 8)
    return compiled, lambda: compiled(query)


def moving_average() -> Call:
    model, average = nn.Linear(8, 8), nn.Linear(8, 8)

    @torch.no_grad()
    def update() -> None:
        for kept, new in zip(average.parameters(), model.parameters(), strict=True):
            kept.mul_(0.99).add_(new, alpha=0.01)

    compiled = gramme.compile(update, backend="eager")
    return compiled, compiled


CASES: dict[str, tuple[Callable[[], Call], int, int]] = {  # program, segments, copied inputs at most
    "batch norm": (batch_norm_alone, 1, 0),
    "batch norm and a loss": (batch_norm, 1, 3),
    "AdamW": (lambda: adamw(False), 5, 2),
    "AdamW, foreach": (lambda: adamw(True), 5, 2),
    "KV cache, row by an int": (lambda: cache(lambda at: at), 1, 0),
    "KV cache, row by a tensor": (lambda: cache(lambda at: torch.tensor([at])), 1, 2),
    "KV cache, index_copy_": (cache_index_copy, 1, 0),
    "moving average": (moving_average, 1, 0),
}


def measure(make: Callable[[], Call]) -> tuple[int, int]:
    """Segments in the cache, and copies that a hit makes beside the graph's own (there are none in these)."""
    torch.manual_seed(0)
    gramme.reset()
    compiled, call = make()
    for _ in range(4):
        call()
    captures = gramme.statistics(compiled).captures
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        call()
    found = gramme.statistics(compiled)
    assert found.captures == captures, "the profiled call is no hit"
    return found.segments, sum(event.name == "aten::clone" for event in seen.events())


def main(wanted: list[str]) -> int:
    print(f"{os.cpu_count()} cores, torch {torch.__version__}, Python {platform.python_version()}")
    failed = False
    for name, (make, segments, copies) in CASES.items():
        if wanted and not any(word in name for word in wanted):
            continue
        found = measure(make)
        over = found[0] > segments or found[1] > copies
        failed |= over
        print(f"{name:28} {found[0]:3} segments {found[1]:3} copies{'   more than the table says' * over}")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
