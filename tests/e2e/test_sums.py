"""sum() has CPython's bits: from 3.12 on it compensates as long as there are only numbers."""

import random
from typing import Any

import gramme
import pytest
import torch

KINDS = {
    "floats": (0.1, 1e16, -1e16, 1.5, -0.0, 3.0),
    "floats and ints": (0.1, 3, True, 1e100, -1e100, 2**52),
    "beyond a word": (2**63, 0.1, 1, -(2**64), 0.3),
    "complex": (1j, 0.1, 2, 1e16 + 1e16j, -1e16, 0.3 - 0.1j),
    "not finite": (float("inf"), 0.1, 1e308, float("nan"), -1e308),
}
STARTS = (0, 0.1, True, 2**63, 1j, 10, -0.0)


def bits(value: Any) -> str:
    return f"{type(value).__name__} {value!r}"


@pytest.mark.parametrize("kind", KINDS)
def test_of_constants(kind: str) -> None:
    draw = random.Random(kind)
    compiled = gramme.compile(lambda t, items, start: (t + 1, sum(items, start)), backend="eager")
    for _ in range(40):
        items, start = draw.choices(KINDS[kind], k=draw.randrange(12)), draw.choice(STARTS)
        assert bits(compiled(torch.ones(2), items, start)[1]) == bits(sum(items, start))


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_of_floats_that_vary(count: int) -> None:
    compiled = gramme.compile(lambda t, *items: (t * 2, sum(items), sum(items, 0.25)), backend="eager")
    for call in range(6):
        items = [0.1 * (call + 1), *[0.1] * (count - 1)]
        found = compiled(torch.ones(2), *items)
        assert (bits(found[1]), bits(found[2])) == (bits(sum(items)), bits(sum(items, 0.25)))


@pytest.mark.parametrize("place", range(6))
def test_a_tensor_among_them(place: int) -> None:
    """What comes behind it is added to it, one by one."""
    numbers: list[Any] = [0.1] * 5
    numbers.insert(place, torch.zeros(1, dtype=torch.float64))
    compiled = gramme.compile(lambda items: sum(items), backend="eager", fullgraph=True)
    assert torch.equal(compiled(numbers), sum(numbers))


def test_an_int_of_its_own_class_among_floats() -> None:
    class Own(int):
        def __radd__(self, other: Any) -> str:
            return "asked"

        def __add__(self, other: Any) -> str:
            return "asked first"

    items = [0.5, Own(3)]
    compiled = gramme.compile(lambda t: (t + 1, sum(items), sum(items, 0.5)), backend="eager")
    assert compiled(torch.ones(2))[1:] == (sum(items), sum(items, 0.5))
