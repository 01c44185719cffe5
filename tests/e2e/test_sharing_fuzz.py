"""Random walks over the instances of one class: changed, hooked, retyped, deleted and made anew between calls.

Each compiled instance has an uncompiled twin that goes through the same; results, gradients and state are compared.
"""

import random
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from sampling import SEED, SOAK, some
from torch import nn

from e2e.front import GRAMME

pytestmark = pytest.mark.skipif(not GRAMME, reason="gramme's own")

STEPS = 1000 if SOAK else 150
SEEDS = range(40)
INSTANCES = 20


class Cell(nn.Module):
    total: torch.Tensor

    def __init__(self, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.weight = nn.Parameter(torch.rand(3, 3, generator=generator))
        self.inner = nn.Linear(3, 3)
        with torch.no_grad():
            for parameter in self.inner.parameters():
                parameter.copy_(torch.rand(parameter.shape, generator=generator))
        self.norm = nn.BatchNorm1d(3)
        self.register_buffer("total", torch.zeros(3))
        self.factor: Any = 2
        self.rows: list[Any] = [1.0]
        self.table: dict[str, Any] = {"a": 1}
        self.log: list[int] = []

    def forward(self, x: torch.Tensor) -> Any:
        y = self.inner(x @ self.weight) * self.factor
        if self.table.get("norm"):
            y = self.norm(y)
        for row in self.rows:
            y = y + row
        if self.training:
            with torch.no_grad():
                self.total += y.sum(0)
            self.log.append(len(x))
        return y.relu() if "relu" in self.table else y


def _first(cell: Cell) -> Any:
    return next(cell.inner.parameters())


def plus_one(module: Any, args: Any, result: Any) -> Any:
    return result + 1


def twice(module: Any, args: Any) -> Any:
    return (args[0] * 2,)


def replaced(cell: Cell, draw: int) -> None:
    """Another module inside, with equal numbers in both twins."""
    inner = [nn.Linear(3, 3), nn.Linear(3, 3, bias=False), nn.Sequential(nn.Linear(3, 3), nn.Tanh())][draw % 3]
    generator = torch.Generator().manual_seed(draw)
    with torch.no_grad():
        for parameter in inner.parameters():
            parameter.copy_(torch.rand(parameter.shape, generator=generator))
    cell.inner = inner  # type: ignore[assignment]


def longer(cell: Cell, draw: int) -> None:
    if isinstance(cell.rows, tuple) or len(cell.rows) >= 4:
        cell.rows = []
    else:
        cell.rows.append([1, 0.5, torch.ones(3)][draw % 3])


def unhooked(cell: Cell, draw: int) -> None:
    cell.inner._forward_hooks.clear()
    cell._forward_pre_hooks.clear()


CHANGES: list[Callable[[Cell, int], Any]] = [
    lambda cell, draw: cell.train(draw % 2 == 0),
    lambda cell, draw: cell.norm.train(draw % 2 == 0),
    lambda cell, draw: cell.requires_grad_(draw % 2 == 0),
    lambda cell, draw: _first(cell).requires_grad_(draw % 2 == 0),
    lambda cell, draw: setattr(cell, "factor", [2, 2.0, True, torch.tensor(2.0), 3][draw % 5]),
    longer,
    lambda cell, draw: cell.table.update({["norm", "relu", "b"][draw % 3]: draw % 2}),
    lambda cell, draw: cell.table.pop(["norm", "relu", "b"][draw % 3], None),
    lambda cell, draw: cell.inner.register_forward_hook(plus_one),
    lambda cell, draw: cell.register_forward_pre_hook(twice),
    unhooked,
    replaced,
    lambda cell, draw: setattr(cell, "weight", nn.Parameter(cell.weight.detach().t().clone())),
    lambda cell, draw: setattr(cell, "weight", nn.Parameter(cell.weight.detach().t())),
    lambda cell, draw: setattr(_first(cell), "data", cell.weight.detach().clone()),
    lambda cell, draw: setattr(cell, "total", torch.zeros(3)),
    lambda cell, draw: setattr(cell, "rows", tuple(cell.rows) if draw % 2 else list(cell.rows)),
    lambda cell, draw: cell.zero_grad(),
    lambda cell, draw: (cell.double if draw % 4 == 0 else cell.float)(),
]


class Walk:
    def __init__(self, seed: int, backend: str) -> None:
        self.draw = random.Random(seed)
        self.backend = backend
        self.pairs: list[tuple[Any, Cell, Cell]] = []
        self.made = 0

    def make(self) -> tuple[Any, Cell, Cell]:
        self.made += 1
        first = self.made % 5  # equal numbers, too, so that only guards tell instances apart
        cell, twin = Cell(first), Cell(first)
        return gramme.compile(cell, backend=self.backend, recompile_limit=4), cell, twin

    def call(self, entry: Any, cell: Cell, twin: Cell) -> None:
        x = torch.rand(self.draw.choice([2, 2, 2, 3]), 3, dtype=twin.weight.dtype)
        with torch.set_grad_enabled(self.draw.random() < 0.8):
            got, expected = outcome(entry, x), outcome(twin, x)
        assert type(got) is type(expected)
        if isinstance(got, Exception):
            return
        assert torch.allclose(got, expected, equal_nan=True), (got, expected)
        assert got.requires_grad == expected.requires_grad
        if got.requires_grad and self.draw.random() < 0.5:
            got.sum().backward()
            expected.sum().backward()

    def compare(self) -> None:
        for _, cell, twin in self.pairs:
            assert cell.log == twin.log
            for (name, mine), (_, theirs) in zip(cell.state_dict().items(), twin.state_dict().items(), strict=True):
                assert torch.allclose(mine, theirs, equal_nan=True), name
            for mine, theirs in zip(cell.parameters(), twin.parameters(), strict=True):
                if mine.grad is None or theirs.grad is None:
                    assert mine.grad is theirs.grad
                else:
                    assert torch.allclose(mine.grad, theirs.grad, equal_nan=True)

    def step(self) -> None:
        roll, draw = self.draw.random(), self.draw.randrange(60)
        if len(self.pairs) < INSTANCES:
            self.pairs.append(self.make())
            return
        if roll < 0.03:
            self.pairs[self.draw.randrange(INSTANCES)] = self.make()  # the one that was there dies
            return
        entry, cell, twin = self.draw.choice(self.pairs)
        if roll < 0.35:
            change = self.draw.choice(CHANGES)
            change(cell, draw)
            change(twin, draw)
        elif roll < 0.36:
            gramme.reset()
        else:
            self.call(entry, cell, twin)


def outcome(function: Callable[..., Any], x: torch.Tensor) -> Any:
    try:
        return function(x)
    except (RuntimeError, TypeError, ValueError) as error:
        return error


@pytest.mark.parametrize("seed", some(SEEDS, 2, "shared walks"))
@pytest.mark.parametrize("backend", ["native", "eager", "aot_eager"])
@pytest.mark.filterwarnings("ignore")
def test_instances_stay_what_they_are(backend: str, seed: int) -> None:
    torch.manual_seed(seed)
    walk = Walk(seed, backend)
    shared = 0  # at any time: a reset, or new instances, near the end leave none
    for step in range(STEPS // 5 if backend == "aot_eager" else STEPS):
        walk.step()
        if step % 50 == 49:
            walk.compare()
            shared += sum(gramme.statistics(entry).shared for entry, _, _ in walk.pairs)
    walk.compare()
    if walk.backend == "native":
        assert shared > 0, SEED
