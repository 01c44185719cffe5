"""What special methods answer, and what CPython makes of answers of other types."""

import operator
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from e2e.against_eager import assert_same

BACKENDS = ("eager",)


class WholeNumber(int):
    pass


class Fraction(float):
    pass


class Text(str):
    pass


class Number:
    """Answers what it was given to each question for a number."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def __float__(self) -> Any:
        return self.answer

    __int__ = __index__ = __hash__ = __len__ = __bool__ = __complex__ = __float__


class Indexed:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def __index__(self) -> Any:
        return self.answer


class Shown:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def __str__(self) -> Any:
        return self.answer

    __repr__ = __str__

    def __format__(self, spec: str) -> Any:
        return self.answer


def check(ask: Callable[[Any], Any], *objects: Any) -> None:
    def program(t: torch.Tensor, subject: Any) -> Any:
        t = t + 1
        try:
            answer = ask(subject)
        except (TypeError, ValueError, OverflowError, IndexError) as error:
            return t, f"{type(error).__name__}: {error}"
        return t * 2, type(answer).__name__, answer

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        for subject in objects:
            assert_same(program, lambda: (torch.ones(2), subject), backends=BACKENDS)  # noqa: B023


ANSWERS = (2, -1, 2.5, "s", True, None, 2**64, WholeNumber(2), Fraction(2), Indexed(2))
NUMBERS: dict[str, Callable[[Any], Any]] = {
    "float": lambda o: float(o),
    "int": lambda o: int(o),
    "index": lambda o: operator.index(o),
    "hash": lambda o: hash(o),
    "key": lambda o: ({o: 1}[o], o in {o}),
    "bin": lambda o: bin(o),
    "item": lambda o: [1, 2, 3][o],
    "slice": lambda o: [1, 2, 3][:o],
    "repeat": lambda o: [1] * o if o.answer != 2**64 else None,
}
SIZES: dict[str, Callable[[Any], Any]] = {
    "len": lambda o: len(o),
    "bool": lambda o: bool(o),
    "not": lambda o: not o,
}
TEXTS: dict[str, Callable[[Any], Any]] = {
    "str": lambda o: str(o),
    "repr": lambda o: repr(o),
    "format": lambda o: f"{o:>3}",
    "percent": lambda o: "%s" % o,  # noqa: UP031
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers(name: str) -> None:
    check(NUMBERS[name], *map(Number, ANSWERS))


@pytest.mark.parametrize("name", ["float", "int", "index", "item"])
def test_numbers_by_index(name: str) -> None:
    check(NUMBERS[name], *map(Indexed, ANSWERS))


@pytest.mark.parametrize("name", SIZES)
def test_sizes(name: str) -> None:
    check(SIZES[name], *map(Number, ANSWERS))


@pytest.mark.parametrize("name", TEXTS)
def test_texts(name: str) -> None:
    check(TEXTS[name], *map(Shown, ("text", Text("text"), 3, None)))


# ---- how long an iterable says it is


class Iterable:
    def __init__(self) -> None:
        self.log: list[str] = []

    def __iter__(self) -> Iterator[int]:
        self.log.append("iter")
        return iter([1, 2])


class LengthRefused(Iterable):
    def __len__(self) -> int:
        self.log.append("len")
        raise TypeError("no length")

    def __length_hint__(self) -> Any:
        self.log.append("hint")
        return 1


class LengthOfOtherType(LengthRefused):
    def __len__(self) -> Any:
        self.log.append("len")
        return 1.5


class HintOfOtherType(Iterable):
    def __length_hint__(self) -> Any:
        return "s"


class HintNegative(Iterable):
    def __length_hint__(self) -> Any:
        return -1


class HintRefused(Iterable):
    def __length_hint__(self) -> Any:
        self.log.append("hint")
        raise TypeError("no hint")


@pytest.mark.parametrize("kind", [LengthRefused, LengthOfOtherType, HintOfOtherType, HintNegative, HintRefused])
@pytest.mark.parametrize(
    "take",
    [
        lambda o: list(o),
        lambda o: [*o],
        lambda o: tuple(o),
        lambda o: [].extend(o),
        lambda o: operator.iadd([0], o),
        lambda o: sorted(o),
        lambda o: (lambda *a: a)(*o),
        lambda o: operator.length_hint(o),
    ],
)
def test_length_hints(kind: Callable[[], Any], take: Callable[[Any], Any]) -> None:
    def program(t: torch.Tensor) -> Any:
        subject = kind()
        t = t + 1
        try:
            return t, take(subject), subject.log
        except (TypeError, ValueError) as error:
            return t, str(error), subject.log

    assert_same(program, lambda: (torch.ones(2),), backends=BACKENDS)


# ---- divmod


class Divided:
    def __divmod__(self, other: Any) -> Any:
        return NotImplemented

    def __rdivmod__(self, other: Any) -> Any:
        return NotImplemented


class Refined(Divided):
    def __rdivmod__(self, other: Any) -> Any:
        return "asked first"


@pytest.mark.parametrize(
    ("left", "right"),
    [(Divided(), Divided()), (Divided(), 3), (Divided(), 1.5), (3, Divided()), (Divided(), Refined())],
)
def test_divmod_that_nobody_implements(left: Any, right: Any) -> None:
    check(lambda o: divmod(left, right), None)


# ---- what except wants


@pytest.mark.parametrize(
    "caught", [(ValueError, (KeyError,)), (KeyError, 3), (KeyError, int), 3, (ValueError, KeyError), ()]
)
def test_each_item_after_except_is_an_exception(caught: Any) -> None:
    def program(t: torch.Tensor) -> Any:
        t = t + 1
        try:
            try:
                raise KeyError("e")
            except caught:
                return t * 2, "caught"
        except (TypeError, KeyError) as error:
            return t, type(error).__name__, str(error)

    assert_same(program, lambda: (torch.ones(2),), backends=BACKENDS)


@pytest.mark.parametrize("bases", [(), (object,)])
def test_slots_of_a_class_made_inside_try(bases: tuple[type, ...]) -> None:
    def program(t: torch.Tensor) -> Any:
        try:
            made = type("M", bases, {"__slots__": ("q",)})
        except TypeError as error:
            return t, str(error)
        return t + 1, made.__slots__  # type: ignore[attr-defined]

    assert_same(program, lambda: (torch.ones(2),), backends=BACKENDS)


# ---- what raise wants

LOG: list[str] = []


class NoException:
    def __init__(self) -> None:
        LOG.append("made")


def raise_class(t: torch.Tensor) -> Any:
    raise NoException  # type: ignore[misc]


def raise_from_number(t: torch.Tensor) -> Any:
    raise ValueError(3) from 3  # type: ignore[misc]


def raise_from_class(t: torch.Tensor) -> Any:
    raise ValueError(3) from NoException  # type: ignore[misc]


@pytest.mark.parametrize("statement", [raise_class, raise_from_number, raise_from_class])
def test_raise_wants_exceptions(statement: Callable[[torch.Tensor], Any]) -> None:
    def program(t: torch.Tensor) -> Any:
        LOG.clear()
        t = t + 1
        try:
            statement(t)
        except (TypeError, ValueError) as error:
            return t, type(error).__name__, str(error), list(LOG)

    assert_same(program, lambda: (torch.ones(2),), backends=BACKENDS)
