"""Callbacks of weak references run where the object dies, however often the capture looked at it."""

import weakref
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch


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
