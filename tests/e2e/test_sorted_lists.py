"""list.sort() while keys and comparisons change the list: Python sees by its memory that something was in it."""

import random
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch

Touch = Callable[[list[Any]], object]


def emptied(items: list[Any]) -> None:
    items.insert(0, 1)
    del items[:]


def assigned(items: list[Any]) -> None:
    items[:] = [1, 2]
    items[:] = []


def repeated(items: list[Any]) -> None:
    items += [1]
    items *= 0


def sorted_inside(items: list[Any]) -> None:
    items.append(1)
    items.pop()
    items.sort()


def removed(items: list[Any]) -> None:
    items.extend((1, 2))
    items.remove(1)
    items.remove(2)


TOUCHES: dict[str, Touch] = {
    "append and pop": lambda items: (items.append(5), items.pop()),
    "append": lambda items: items.append(5),
    "append and clear": lambda items: (items.append(5), items.clear()),
    "clear": lambda items: items.clear(),
    "reverse": lambda items: items.reverse(),
    "read": lambda items: (len(items), items.copy(), list(items), 3 in items),
    "no items": lambda items: items.extend([]),
    "empty slice": lambda items: items.__setitem__(slice(None), []),
    "sort": lambda items: items.sort(),
    "emptied": emptied,
    "assigned": assigned,
    "repeated": repeated,
    "sorted inside": sorted_inside,
    "removed": removed,
}


class Compared:
    def __init__(self, value: int, items: list[Any], touch: Touch) -> None:
        self.value, self.items, self.touch = value, items, touch

    def __lt__(self, other: "Compared") -> bool:
        self.touch(self.items)
        return self.value < other.value


def by_key(x: torch.Tensor, items: list[Any], touch: Touch) -> Any:
    def key(item: int) -> int:
        touch(items)
        return item

    items.sort(key=key)
    return x + items[0]


def reversed_by_key(x: torch.Tensor, items: list[Any], touch: Touch) -> Any:
    def key(item: int) -> torch.Tensor:
        touch(items)
        return (x * item).sum()

    items.sort(key=key, reverse=True)
    return x + items[0]


def compared(x: torch.Tensor, items: list[Any], touch: Touch) -> Any:
    items[:] = [Compared(item, items, touch) for item in items]
    items.sort()
    return x + items[0].value


def handled(x: torch.Tensor, items: list[Any], touch: Touch) -> Any:
    own = list(items)

    def key(item: int) -> int:
        touch(own)
        return -item

    try:
        own.sort(key=key)
    except ValueError as error:
        return x + len(own), str(error), own
    return x, own


def outcome(function: Callable[..., Any], touch: Touch) -> Any:
    items: list[Any] = [3, 1, 2]
    try:
        result = repr(function(torch.ones(2), items, touch))
    except ValueError as error:
        result = f"ValueError: {error}"
    return result, [item.value if isinstance(item, Compared) else item for item in items]


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("program", [by_key, reversed_by_key, compared, handled])
@pytest.mark.parametrize("name", TOUCHES)
def test_a_list_that_is_touched(name: str, program: Callable[..., Any], backend: str) -> None:
    expected = outcome(program, TOUCHES[name])
    compiled = gramme.compile(program, backend=backend)
    assert [outcome(compiled, TOUCHES[name]) for _ in range(3)] == [expected] * 3


def test_a_function_that_was_captured_before_the_sort() -> None:
    """Its segment serves a list that is being sorted, too."""

    def key(x: torch.Tensor, items: list[int]) -> torch.Tensor:
        items.append(5)
        items.pop()
        return x.sum() * 2

    def by(x: torch.Tensor, items: list[int]) -> list[int]:
        items.sort(key=lambda item: float(compiled(x * item, items)))
        return items

    compiled, x = gramme.compile(key, backend="eager"), torch.ones(2)
    for _ in range(2):
        assert compiled(x, []).item() == 4
    with pytest.raises(ValueError, match="list modified during sort"):
        by(x, [3, 1, 2])


class Logged:
    """Notes who is compared with whom."""

    log: list[tuple[int, int]] = []

    def __init__(self, value: int, name: int) -> None:
        self.value, self.name = value, name

    def __lt__(self, other: "Logged") -> bool:
        self.log.append((self.name, other.name))
        return self.value < other.value


@pytest.mark.parametrize("seed", range(12))
def test_comparisons_are_those_of_list_sort(seed: int) -> None:
    """Runs that rise, fall and stay, in which equal items lie together or apart."""
    draw = random.Random(seed)
    values = [draw.randrange(draw.choice((1, 2, 3, 9))) for _ in range(draw.randrange(2, 24))]
    if seed % 3:
        values.sort(reverse=seed % 3 == 1)
        values += [draw.randrange(3) for _ in range(draw.randrange(3))]
    items = [Logged(value, name) for name, value in enumerate(values)]

    def ordered(t: torch.Tensor, items: list[Logged], reverse: bool) -> tuple[torch.Tensor, list[int]]:
        return t + 1, [item.name for item in sorted(items, reverse=reverse)]

    compiled = gramme.compile(ordered, backend="eager")
    for reverse in (False, True):
        Logged.log.clear()
        expected = ordered(torch.ones(1), items, reverse)[1], list(Logged.log)
        Logged.log.clear()
        assert (compiled(torch.ones(1), items, reverse)[1], Logged.log) == expected
