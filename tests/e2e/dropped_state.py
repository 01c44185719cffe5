"""Captures and runs programs, drops all that the process keeps, and does both again; run by test_process_state.py.

Prints one JSON object a round: the results, what the structs held before and after the drop, gramme's objects, blocks.
"""

import collections
import gc
import json
import sys
from collections.abc import Iterator
from typing import Any

import gramme
import torch
from gramme import _C
from torch import nn

ROUNDS = 4


def countdown(x: torch.Tensor, n: int) -> Iterator[torch.Tensor]:
    while n:
        yield x * n
        n -= 1


def generated(x: torch.Tensor, n: int) -> torch.Tensor:
    total = x
    for part in countdown(x, n):
        total = total + part
        gramme.graph_break()
    return total


def mapped(x: torch.Tensor, n: int) -> torch.Tensor:
    return torch.vmap(torch.sin)(x) * n + torch.tensor(n)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 2)
        self.calls = 0

    def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
        self.calls += n
        if (hidden := torch.relu(self.first(x))).sum() > 1:
            hidden = nn.functional.dropout(hidden, 0.0)
        return self.second(hidden).sum() * n


def results() -> list[float]:
    torch.manual_seed(0)
    model, found = Model(), []
    for backend in ("native", "eager"):
        for function in (generated, mapped, model):
            call = gramme.compile(function, backend=backend)
            for n in (1, 2, 3, 4, 2):
                outcome = call(torch.ones(n + 1, 4, requires_grad=True), n).sum()
                outcome.backward()
                found.append(outcome.item())
    found.append(float(model.calls))
    return found


def sizes() -> dict[str, int]:
    return {file: size for file, size in _C.testing.memory.state_sizes() if size}


def objects() -> dict[str, int]:
    types = (type(each) for each in gc.get_objects())
    return collections.Counter(f"{each.__module__}.{each.__name__}" for each in types if each.__module__ == "gramme._C")


def one_round() -> dict[str, Any]:
    told: dict[str, Any] = {"results": results()}
    gramme.reset()
    gc.collect()
    told["before"] = sizes()
    _C.testing.memory.drop_state()
    gc.collect()
    told["after"], told["objects"] = sizes(), objects()
    return told


def main() -> None:
    for _ in range(ROUNDS):
        told = json.dumps(one_round())
        gc.collect()
        print(told, sys.getallocatedblocks(), sep="\t")


if __name__ == "__main__":
    main()
