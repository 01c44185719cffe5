"""Where a model does not know an answer wholly, the segment ends, and CPython answers to the program's own handlers."""

import collections
import enum
import functools
import typing
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from sampling import steady

from e2e.against_eager import assert_same
from e2e.front import GRAMME

pytestmark = pytest.mark.skipif(not GRAMME, reason="PyTorch's front end has models of its own")


def attempts(*actions: Callable[[], Any]) -> list[Any]:
    found: list[Any] = []
    for action in actions:
        try:
            found.append(action())
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}")
    return found


def check(function: Callable[..., Any], *others: Any) -> None:
    calls = [lambda other=other: (torch.ones(2), other) for other in others or (None,)]
    assert_same(function, *calls, backends=("eager", "native"))


# ---- isinstance() and issubclass()

NO_CLASSES = (
    *(list[int], typing.List[int], int | list[int], typing.Optional[list[int]], typing.Literal[1]),  # noqa: UP006, UP007, UP045
    *("s", None, 5, (int, "s"), (int, list[int]), [int], typing.TypeVar("T")),
)
ALIASES = (typing.List, typing.Tuple, typing.Callable, typing.Sequence, typing.Optional[int], int | str)  # noqa: UP006, UP007, UP035, UP045


@pytest.mark.parametrize("classinfo", [*NO_CLASSES, *ALIASES], ids=str)
def test_checks_of_instances(classinfo: Any) -> None:
    def asked(x: torch.Tensor, item: Any) -> Any:
        y = x + 1
        return y, attempts(lambda: isinstance(item, classinfo), lambda: issubclass(type(item), classinfo))

    check(asked, 5, [], (1,), len)


def test_checks_of_no_class() -> None:
    def asked(x: torch.Tensor, item: Any) -> Any:
        y = x + 1
        return y, attempts(lambda: issubclass(item, int), lambda: issubclass(item, ()), lambda: issubclass(item, "s"))

    check(asked, 5, list[int], int, [])


# ---- writes that an object refuses


class Slotted:
    __slots__ = ("n",)
    fixed = 1

    @functools.cached_property
    def cached(self) -> int:
        return 1


class NoDict(Slotted):
    __slots__ = ()
    __dict__ = None  # type: ignore[assignment]


class Named(typing.NamedTuple):
    a: int


def test_cached_without_dict() -> None:
    def read(x: torch.Tensor, item: Any) -> Any:
        y = x + 1
        return y, attempts(lambda: item.cached, lambda: setattr(item, "cached", 5), lambda: delattr(item, "cached"))

    check(read, Slotted(), NoDict())


@pytest.mark.parametrize(
    ("holder", "name"),
    [
        *((Slotted(), "fixed"), (Slotted(), "other"), (Named(1), "a"), (range(3), "start"), (slice(1), "stop")),
        *((1, "real"), (1j, "real"), (collections.deque(), "maxlen"), (functools.partial, "zz"), (int, "zz")),
        *((collections.OrderedDict, "zz"), (functools.partial(len), "func"), (KeyError(), "__suppress_context__")),
    ],
    ids=steady,
)
def test_refused_writes(holder: Any, name: str) -> None:
    def written(x: torch.Tensor, item: Any) -> Any:
        y = x + 1
        return y, attempts(lambda: setattr(item, name, 5), lambda: delattr(item, name))

    check(written, holder)


def test_fields_of_exceptions() -> None:
    def written(x: torch.Tensor, item: Any) -> Any:
        y, e = x + 1, KeyError()
        return y, attempts(
            *(lambda n=n: setattr(e, n, 5) for n in ("__cause__", "__context__", "__suppress_context__"))
        )

    check(written)


# ---- what an iterator's end brings


class Ends:
    def __init__(self, items: int = 0) -> None:
        self.items = items

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        if not self.items:
            raise StopIteration("value")
        self.items -= 1
        return self.items

    def send(self, value: Any) -> Any:
        raise StopIteration(("sent", value))


def returns() -> Iterator[int]:
    yield 1
    return "returned"  # type: ignore[return-value]


def raises_stop(item: Any) -> Any:
    raise StopIteration(item)


@pytest.mark.parametrize(
    "make",
    [
        *(Ends, lambda: Ends(2), returns, lambda: [1, 2], lambda: zip(Ends(1)), lambda: enumerate(returns())),
        *(lambda: map(raises_stop, [7]), lambda: map(len, returns()), lambda: iter(Ends().__next__, 5)),
    ],
)
def test_value_of_the_end(make: Callable[[], Any]) -> None:
    def delegating() -> Iterator[Any]:
        result = yield from make()
        yield ("result", result)

    def delegated(x: torch.Tensor, item: Any) -> Any:
        return x + 1, attempts(lambda: list(delegating()))

    def stepped(x: torch.Tensor, item: Any) -> Any:
        iterator, y = iter(make()), x + 1
        for _ in range(4):
            try:
                next(iterator)
            except StopIteration as stop:
                return y, stop.value
            except TypeError as error:
                return y, str(error)
        return y

    check(delegated)
    check(stepped)


def test_value_of_the_end_by_send() -> None:
    def delegating() -> Iterator[Any]:
        result = yield from Ends(3)
        yield ("result", result)

    def sent(x: torch.Tensor, item: Any) -> Any:
        generator = delegating()
        return x + 1, next(generator), generator.send(5), list(generator)  # type: ignore[attr-defined]

    check(sent)


# ---- the keywords of a partial


def add(x: torch.Tensor, c: int = 1) -> torch.Tensor:
    return x + c


def test_keywords_changed() -> None:
    def changed(x: torch.Tensor, item: Any) -> Any:
        made = functools.partial(add, c=1)
        made.keywords["c"] = 100
        again = functools.partial(made)
        again.keywords.update(c=7)
        return made(x), again(x), made.keywords, made.keywords is made.keywords, again.keywords is made.keywords

    def taken_away(x: torch.Tensor, item: Any) -> Any:
        made = functools.partial(add, c=3)
        del made.keywords["c"]
        return made(x), made.keywords

    check(changed)
    check(taken_away)


def test_keywords_of_a_partial_from_before() -> None:
    def changed(x: torch.Tensor, item: Any) -> Any:
        first = item(x)
        keywords = item.keywords
        keywords["c"] += 1
        return first, item(x), keywords, functools.partial(item)(x), keywords is item.keywords

    assert_same(changed, lambda: (torch.ones(2), functools.partial(add, c=5)), backends=("eager", "native"))


# ---- texts that name classes


class Word(enum.StrEnum):
    A = "a"


class Level(enum.IntEnum):
    A = 1


class Text(str):
    pass


@pytest.mark.parametrize(
    ("left", "right"),
    [(Word.A, Level.A), (Text("s"), Level.A), (Word.A, 1), ("s", Level.A), (Level.A, "s"), (Level.A, [])],
    ids=str,
)
def test_operands_named(left: Any, right: Any) -> None:
    def operated(x: torch.Tensor, item: Any) -> Any:
        y = x + 1
        return y, attempts(
            *(lambda: left < right, lambda: left + right, lambda: left - right, lambda: right % left),
            *(lambda: left**right, lambda: left << right, lambda: -left, lambda: left in right),
            *(lambda: left[right], lambda: "-".join([left, right]), lambda: "-".join([left, left])),
        )

    check(operated)


def test_star_of_no_iterable() -> None:
    def spread(x: torch.Tensor, item: Any) -> Any:
        y = x + 1
        return y, attempts(lambda: [1, *item], lambda: print(*item, 1), lambda: (*item, 2))

    check(spread, None, 5, add, object(), [1, 2])
