"""Reference counts where an instruction is carried out for real are eager's: since 3.14 items on the stack that come
out of variables have no reference of their own.
"""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import gramme
import pytest
import torch

X = torch.arange(3.0)


def of_a_list(x: torch.Tensor) -> Any:
    made = [x + 1]
    return sys.getrefcount(made), made[0] * 2


def below_others(x: torch.Tensor) -> Any:
    first, second = [x + 1], [x + 2]
    return max(sys.getrefcount(first), 0, sys.getrefcount(second), sys.getrefcount(second)), first[0] * second[0]


def under_way(x: torch.Tensor) -> Any:
    made = [x + 1]

    def counted(other: int) -> Any:
        own = [made[0] * other]
        return own[0], sys.getrefcount(own), sys.getrefcount(made)

    return counted(2), counted(sys.getrefcount(made))


def of_a_choice(x: torch.Tensor) -> Any:
    first, second = [x + 1], [x + 2]
    counts = [sys.getrefcount(first if n else second) for n in range(2)]
    return counts, first[0] + second[0]


def written_meanwhile(x: torch.Tensor) -> Any:
    made = [x + 1]
    counts = sys.getrefcount(made), sys.getrefcount(made := [x * 2]), sys.getrefcount(made)
    return counts, made[0]


def caught(x: torch.Tensor) -> Any:
    made = [x + 1]
    try:
        made[sys.getrefcount(made) + 7]
    except IndexError as error:
        return str(error), sys.getrefcount(made), made[0] + 1


def across_yields(x: torch.Tensor) -> Any:
    def counts(given: Any) -> Iterator[Any]:
        y = given[0] + 1
        yield sys.getrefcount(given), y
        given = (given, sys.getrefcount(given), (yield y), sys.getrefcount(given))[0]
        yield sys.getrefcount(given), given[0] * 2

    return list(counts([x]))


class Counting:
    def __init__(self, x: torch.Tensor, log: list[int]) -> None:
        self.y = x + 1
        log.append(sys.getrefcount(self))


def in_a_constructor(x: torch.Tensor) -> Any:
    log: list[int] = []
    return Counting(x * 2, log).y, log


PROGRAMS = [of_a_list, below_others, under_way, of_a_choice, written_meanwhile, caught, across_yields, in_a_constructor]


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_counts_are_eagers(program: Callable[..., Any], backend: str) -> None:
    expected = str(program(X))
    compiled = gramme.compile(program, backend=backend)
    for _ in range(4):
        assert str(compiled(X)) == expected


@pytest.mark.filterwarnings("ignore:gramme hit the recompile limit")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_counts_with_forced_breaks(program: Callable[..., Any]) -> None:
    """A segment ends at every instruction: what is on the stack is written back each time."""
    expected = str(program(X))
    entry = gramme._C.make_entry(
        program,
        backend=lambda graph, inputs: graph.forward,
        fullgraph=False,
        recompile_limit=1000,
        keep_graphs=False,
    )
    gramme._C.testing.testing_capture.limit(entry, stop_at=1, everywhere=True)  # type: ignore[attr-defined]
    for _ in range(3):
        assert str(entry(X)) == expected
