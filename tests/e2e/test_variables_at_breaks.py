"""What a segment that begins in the middle of a function assumes of the variables there: which are unbound, and that
those which it stores over, or drops, run nothing when they die."""

from collections.abc import Callable, Iterator
from typing import Any

import gramme
import pytest
import torch

from e2e import front

pytestmark = pytest.mark.skipif(not front.GRAMME, reason="where gramme's segments end")

X = torch.linspace(-1, 1, 4)
LOG: list[Any] = []


class Dies:
    def __init__(self, name: Any) -> None:
        self.name = name

    def __del__(self) -> None:
        LOG.append(f"{self.name} died")


class Holds:
    def __init__(self, held: Any) -> None:
        self.held = held


def closing(name: Any) -> Iterator[int]:
    try:
        yield 1
    finally:
        LOG.append(f"{name} closed")


def begun(name: Any) -> Iterator[int]:
    made = closing(name)
    next(made)
    return made


def quiet() -> Iterator[int]:
    yield 1
    LOG.append("never")


def begun_quiet() -> Iterator[int]:
    made = quiet()
    next(made)
    return made


# ---- unbound


def bound_in_the_first_turn(x: torch.Tensor, make: Any) -> Any:
    for _ in range(4):
        front.graph_break()
        try:
            y = before + x  # type: ignore[has-type]  # noqa: F821
        except UnboundLocalError as error:
            LOG.append(str(error))
            y = x * 2
        before = y + 1
    return before


def deleted_in_turns(x: torch.Tensor, make: Any) -> Any:
    value, found = x, []
    for i in range(4):
        front.graph_break()
        try:
            found.append(value + i)
            del value
        except NameError:
            found.append(x - i)
            value = x * 3
    return found


def deleted_twice(x: torch.Tensor, make: Any) -> Any:
    for i in range(4):
        front.graph_break()
        try:
            del value  # type: ignore[has-type]  # noqa: F821
            LOG.append("deleted")
        except UnboundLocalError:
            LOG.append("nothing there")
        value = x + i  # noqa: F841
        x = x * 2
    return x


def inner(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    front.graph_break()
    return y + 1


def unbound_in_the_caller(x: torch.Tensor, make: Any) -> Any:
    for _ in range(3):
        y = inner(x)
        try:
            y = y + before  # type: ignore[has-type]  # noqa: F821
        except UnboundLocalError:
            LOG.append("unbound")
        before = y * 2
    return before


def bound_by_what_breaks(x: torch.Tensor, make: Any) -> Any:
    for i in range(4):
        if make(i) is not None:
            value = make(i)
        front.graph_break()
        try:
            x = x + len(value)
        except NameError:
            x = x * 2
        except TypeError:
            x = x - 1
    return x


def loaded_and_dropped(x: torch.Tensor, make: Any) -> Any:
    found = []
    for i in range(4):
        if i % 2:
            value = x + i
        front.graph_break()
        try:
            value  # noqa: B018
            [value, x]  # noqa: B018
        except UnboundLocalError as error:
            found.append(x - 1)
            LOG.append(str(error))
        else:
            found.append(x * 2)
            del value
    return found


def loaded_into_a_closure(x: torch.Tensor, make: Any) -> Any:
    found = []
    for i in range(4):
        if i % 2:
            value = x + i
        y = inner(x)
        try:
            other = lambda kept=value: kept  # noqa: E731, B023
            found.append(y * 2)
            del value, other
        except NameError:
            found.append(y - 1)
    return found


def returned_unread(x: torch.Tensor, make: Any) -> Any:
    found = []
    for i in range(4):
        if i % 2 == 0:
            value = x * i
        front.graph_break()
        try:
            first, second = value, x
            found += [first, second]
            del value
        except NameError as error:
            found.append(x + len(str(error)))
    return found


class WithMethod:
    def m(self, x: torch.Tensor, by: float) -> torch.Tensor:
        return x * by


class WithAttribute:
    def __getattr__(self, name: str) -> Any:
        front.graph_break()
        return lambda x, by: x - by


def method_or_attribute(x: torch.Tensor, make: Any) -> Any:
    for each in (WithAttribute(), WithMethod(), WithAttribute(), WithMethod()):
        x = each.m(x, front.graph_break() or 2.0)  # type: ignore[func-returns-value]
    return x


# ---- stored over and dropped


def stored_over(x: torch.Tensor, make: Any) -> Any:
    for i in range(4):
        y = x + i
        held = None
        LOG.append("stored")
        x = y * 2
        front.graph_break()
        held = make(i)  # noqa: F841
    return x


def deleted(x: torch.Tensor, make: Any) -> Any:
    held = None
    for i in range(4):
        y = x + i
        del held
        LOG.append("deleted")
        x = y * 2
        front.graph_break()
        held = make(i)
    return x


def result_dropped(x: torch.Tensor, make: Any) -> Any:
    for i in range(4):
        make(i)
        LOG.append("called")
        x = x * 2
        front.graph_break()
    return x


def bound_anew_by_the_loop(x: torch.Tensor, make: Any) -> Any:
    for each in map(make, range(4)):
        front.graph_break()
        x = x + 1
        LOG.append(each is None)
    return x


def of_a_callee(x: torch.Tensor, make: Any) -> Any:
    def callee(y: torch.Tensor, i: int) -> torch.Tensor:
        held = make(i)
        front.graph_break()
        return y + (held is None)

    for i in range(4):
        x = callee(x, i)
        LOG.append("returned")
        x = x * 2
    return x


def two_of_them(x: torch.Tensor, make: Any) -> Any:
    a = b = None
    for i in range(4):
        x = x + i
        b = None
        LOG.append("between")
        a = None
        LOG.append("behind")
        front.graph_break()
        a, b = make(i), make(i + 10)  # noqa: F841
    return x


def told_to_the_number(x: torch.Tensor, make: Any) -> Any:
    held = None
    for i in range(4):
        held = None
        x = x * 2 + len(LOG)
        front.graph_break()
        held = make(i)  # noqa: F841
    return x


MAKES: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda i: None,
    "object": Dies,
    "in a list": lambda i: [Dies(i)],
    "in an attribute": lambda i: Holds(Holds(Dies(i))),
    "in a closure": lambda i: (lambda held: lambda: held)(Dies(i)),
    "generator": begun,
    "in a zip": lambda i: zip([1, 2], begun(i), strict=False),
    "quiet generator": lambda i: begun_quiet(),
    "in turns": lambda i: Dies(i) if i % 2 else None,
    "text": lambda i: "text" if i % 2 else None,
}
PROGRAMS = [
    *(bound_in_the_first_turn, deleted_in_turns, deleted_twice, unbound_in_the_caller, bound_by_what_breaks),
    *(loaded_and_dropped, loaded_into_a_closure, returned_unread, method_or_attribute),
    *(stored_over, deleted, result_dropped, bound_anew_by_the_loop, of_a_callee, two_of_them, told_to_the_number),
]


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each.__name__)
def test_equals_eager(program: Callable[..., Any], backend: str) -> None:
    compiled = gramme.compile(program, backend=backend, recompile_limit=64)

    def outcome(call: Callable[..., Any], make: Any) -> Any:
        LOG.clear()
        result = call(X, make)
        return [each.tolist() for each in (result if isinstance(result, list) else [result])], LOG[:]

    for _ in range(2):
        for name, make in MAKES.items():
            assert outcome(compiled, make) == outcome(program, make), name


@pytest.mark.parametrize("name", ["nothing", "quiet generator", "text"])
def test_what_dies_quietly_is_captured_once(name: str) -> None:
    compiled = front.compile(stored_over, backend="eager")
    for _ in range(2):
        compiled(X, MAKES[name])
    captures = gramme.statistics(compiled).captures
    for _ in range(5):
        compiled(X, MAKES[name])
    assert gramme.statistics(compiled).captures == captures <= 6


def test_the_report_says_that_it_was_unbound() -> None:
    compiled = front.compile(bound_in_the_first_turn, backend="eager")
    LOG.clear()
    compiled(X, None)
    rows = gramme._C.segments(gramme._compile.entry_of(compiled))
    assert [guard for row in rows for guard in row["guards"] if "before" in guard and "does not exist" in guard]
