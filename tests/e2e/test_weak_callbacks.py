"""Callbacks of weak references run where the object dies, however often the capture looked at it."""

import weakref
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from torch import nn


class Owner:
    def __init__(self, value: float) -> None:
        self.value = value


dead: list[float] = []


def read_through_the_reference(x: torch.Tensor) -> Any:
    owner = Owner(2.0)
    reference = weakref.ref(owner, lambda _: dead.append(1.0))
    table = weakref.WeakValueDictionary(k=owner)
    x = x * reference().value + len(table)  # type: ignore[union-attr]
    del owner
    return x + len(table), reference() is None, len(dead)


def read_twice(x: torch.Tensor) -> Any:
    owner = Owner(2.0)
    reference = weakref.ref(owner, lambda _: dead.append(owner_value))
    owner_value = reference().value + reference().value  # type: ignore[union-attr]
    x = x + owner_value
    owner = None  # type: ignore[assignment]
    return x * len(dead)


def in_a_list(x: torch.Tensor) -> Any:
    owners = [Owner(1.0), Owner(2.0)]
    references = [weakref.ref(owner, lambda _: dead.append(1.0)) for owner in owners]
    x = x + references[0]().value + owners[1].value  # type: ignore[union-attr]
    del owners
    return x * len(dead), [reference() is None for reference in references]


def held_elsewhere(x: torch.Tensor) -> Any:
    owner = Owner(2.0)
    kept = [owner]
    reference = weakref.ref(owner, lambda _: dead.append(1.0))
    x = x * reference().value  # type: ignore[union-attr]
    del owner
    return x + len(dead) + kept[0].value


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("program", [read_through_the_reference, read_twice, in_a_list, held_elsewhere])
def test_runs_where_the_object_dies(program: Callable[..., Any], backend: str) -> None:
    dead.clear()
    want = program(torch.ones(2))
    compiled = gramme.compile(program, backend=backend)
    for _ in range(3):
        dead.clear()
        got = compiled(torch.ones(2))
        assert str(got) == str(want)


class Broken(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        gramme.graph_break()
        return y * 2


@pytest.mark.parametrize("own", [False, True])
def test_tables_of_pytorchs_front_end_hold_modules(own: bool) -> None:
    """Once used, it has a weak reference with a callback to each module. Only the program's own end a segment early."""
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    module = Broken()
    assert any(reference.__callback__ for reference in weakref.getweakrefs(module))
    kept = weakref.ref(module, lambda reference: None) if own else None

    def program(x: torch.Tensor) -> torch.Tensor:
        return module(x * 2) + 1

    compiled = gramme.compile(program, backend="eager")
    x = torch.ones(3)
    for _ in range(3):
        assert torch.equal(compiled(x), program(x))
    segments = gramme.statistics(compiled).segments
    assert segments > 2 if own else segments == 2
    assert kept is None or kept() is module
