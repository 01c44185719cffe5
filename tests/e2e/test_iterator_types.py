"""What may be asked of iterators that a capture makes: their types, what is left of them, copies, texts of errors."""

import collections
import copy
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from e2e import front

X = torch.ones(2)


class Sized:
    def __getitem__(self, at: int) -> int:
        return [3, 1, 4][at]

    def __len__(self) -> int:
        return 3


class Unsized:
    def __getitem__(self, at: int) -> int:
        return [3, 1, 4][at]


class Longer(tuple[int, ...]):
    def __len__(self) -> int:
        return 9


MAKERS: list[Callable[[], Any]] = [
    lambda: iter(Sized()),  # type: ignore[call-overload]
    lambda: iter(Unsized()),  # type: ignore[call-overload]
    lambda: iter([3, 1, 4]),
    lambda: iter((3, 1, 4)),
    lambda: iter(Longer((3, 1, 4))),
    lambda: iter(range(3)),
    lambda: iter("abc"),
    lambda: iter("\u1234bc"),
    lambda: iter(b"abc"),
    lambda: iter(collections.deque([3, 1, 4])),
    lambda: iter({3}),
    lambda: iter(frozenset([3])),
    lambda: iter({3: 1}),
    lambda: iter({3: 1}.values()),
    lambda: iter({3: 1}.items()),
    lambda: iter(collections.OrderedDict([(3, 1)])),
    lambda: reversed([3, 1, 4]),
    lambda: reversed((3, 1, 4)),
    lambda: reversed(range(3)),
    lambda: reversed("abc"),
    lambda: reversed(collections.deque([3, 1, 4])),
    lambda: reversed({3: 1}),
    lambda: reversed({3: 1}.values()),
    lambda: reversed({3: 1}.items()),
    lambda: reversed(Sized()),  # type: ignore[call-overload]
    lambda: enumerate([3, 1]),
    lambda: zip([3], [1], strict=False),
    lambda: map(abs, [3, 1]),
    lambda: filter(None, [3, 1]),
    lambda: iter(lambda: 3, 4),
    lambda: itertools.chain([3], [1]),
    lambda: itertools.repeat(3, 2),
    lambda: itertools.count(3),
    lambda: itertools.cycle([3]),
    lambda: itertools.islice([3, 1, 4], 2),
    lambda: itertools.starmap(max, [(3, 1)]),
    lambda: itertools.takewhile(bool, [3]),
    lambda: itertools.dropwhile(bool, [3]),
    lambda: itertools.filterfalse(bool, [0]),
    lambda: itertools.accumulate([3, 1]),
    lambda: itertools.zip_longest([3], [1, 4]),
    lambda: itertools.pairwise([3, 1]),
    lambda: itertools.compress([3], [1]),
    lambda: itertools.tee([3])[0],
    lambda: itertools.groupby([3]),
    lambda: next(itertools.groupby([3]))[1],
    lambda: itertools.product([3], [1]),
    lambda: itertools.permutations([3, 1]),
    lambda: itertools.combinations([3, 1], 1),
    lambda: itertools.combinations_with_replacement([3, 1], 1),
]


def told(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except Exception as error:
        return type(error), str(error)


def types(x: torch.Tensor, make: Callable[[], Any]) -> Any:
    it = make()
    lists = {type(iter([])): "a list's"}
    return (
        x + 1,
        [type(it), type(it).__name__, it.__class__, lists.get(type(it)), isinstance(it, type(iter([])))],
        [hasattr(it, "__length_hint__"), hasattr(it, "__setstate__"), isinstance(it, Iterator)],
    )


def texts(x: torch.Tensor, make: Callable[[], Any]) -> Any:
    it = make()
    y = x + 1
    said = [told(ask) for ask in (lambda: it.nothing, lambda: len(it), lambda: it[0], lambda: it + 1, lambda: it())]
    return y, said, told(lambda: [][it]), told(lambda: ~it), told(lambda: it < it)


def left(x: torch.Tensor, make: Callable[[], Any]) -> Any:
    it = make()
    before = told(lambda: it.__length_hint__())
    first = told(lambda: (it.__next__(), it.__iter__() is it)[1])
    return x + 1, before, first, told(lambda: it.__length_hint__())


def copied(x: torch.Tensor, make: Callable[[], Any]) -> Any:
    it = make()
    y = x + 1
    other = told(lambda: copy.copy(it))
    return y, type(other), told(lambda: type(next(other)))


@pytest.mark.slow
@pytest.mark.parametrize("asks", [types, texts, left, copied], ids=lambda asks: asks.__name__)
def test_as_eager(asks: Callable[[torch.Tensor, Callable[[], Any]], Any]) -> None:
    """A function of its own for each maker: what one capture cannot be asked does not hide the next."""
    for make in MAKERS:
        expected = asks(X, make)
        compiled = front.compile(asks, backend="eager")
        for _ in range(2):
            assert str(compiled(X, make)) == str(expected)
        front.reset()


@pytest.mark.skipif(not front.GRAMME, reason="the meter is gramme's")
def test_what_is_left_stays_in_the_graph() -> None:
    import gramme

    def asks(x: torch.Tensor) -> Any:
        sized, items, text = iter(Sized()), iter((3, 1)), iter("abc")  # type: ignore[call-overload]
        next(items)
        return x + sized.__length_hint__() + items.__length_hint__() + text.__length_hint__()

    compiled = gramme.compile(asks, backend="eager", fullgraph=True)
    assert compiled(X).tolist() == asks(X).tolist() == [8, 8]
