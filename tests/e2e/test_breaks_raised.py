"""Exceptions that leave the frame in which a segment starts: only the instruction that raises is carried out for real,
what was computed before it and what the handler does is in graphs. Under compilers the frame runs plainly."""

import contextlib
import traceback
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch

from e2e import front
from e2e.against_eager import BACKENDS, assert_same

pytestmark = pytest.mark.skipif(not front.GRAMME, reason="the meter is gramme's")
X = torch.linspace(-1, 1, 4)
Program = Callable[[torch.Tensor, list[Any]], Any]


class Refused(Exception):
    def __init__(self, given: torch.Tensor) -> None:
        super().__init__("refused")
        self.given = given


def computed(x: torch.Tensor) -> torch.Tensor:
    return (x * 1.5).sin() + 2


def refuses(x: torch.Tensor, log: list[Any]) -> torch.Tensor:
    front.graph_break()
    y = computed(x)
    log.append("refusing")
    if y.dim() == 1:
        raise Refused(y)
    return y


def one_up(x: torch.Tensor, log: list[Any]) -> Any:
    try:
        return refuses(computed(x), log)
    except Refused as refused:
        return computed(refused.given)


def three_up(x: torch.Tensor, log: list[Any]) -> Any:
    def middle(x: torch.Tensor) -> torch.Tensor:
        return refuses(x, log) + 1

    def outer(x: torch.Tensor) -> torch.Tensor:
        return middle(computed(x)) + 2

    try:
        return outer(x)
    except Refused as refused:
        log.append([frame.name for frame in traceback.extract_tb(refused.__traceback__)][-3:])
        return computed(refused.given)


def through_finally(x: torch.Tensor, log: list[Any]) -> Any:
    def middle(x: torch.Tensor) -> torch.Tensor:
        try:
            return refuses(x, log)
        finally:
            log.append(computed(x))

    try:
        return middle(x)
    except Refused as refused:
        return computed(refused.given)


def through_with(x: torch.Tensor, log: list[Any]) -> Any:
    class Watching:
        def __enter__(self) -> None:
            log.append("in")

        def __exit__(self, kind: Any, error: Any, where: Any) -> bool:
            log.append((kind.__name__, computed(error.given)))
            return kind is Refused

    with Watching():
        refuses(x, log)
    return computed(x)


def by_an_operator(x: torch.Tensor, log: list[Any]) -> Any:
    def multiplies(y: torch.Tensor) -> torch.Tensor:
        front.graph_break()
        y = computed(y)
        log.append("multiplying")
        return y @ torch.ones(len(y) + 1)

    try:
        return multiplies(x)
    except RuntimeError as error:
        log.append(str(error))
        return computed(x)


def by_a_missing_key(x: torch.Tensor, log: list[Any]) -> Any:
    known = {"a": x}

    def looks_up(name: str) -> torch.Tensor:
        front.graph_break()
        known["b"] = computed(x)
        return computed(known[name])

    with contextlib.suppress(KeyError):
        looks_up("c")
    return computed(known["b"])


def another_while_handling(x: torch.Tensor, log: list[Any]) -> Any:
    def replaces(x: torch.Tensor) -> torch.Tensor:
        try:
            return refuses(x, log)
        except Refused as refused:
            raise ValueError("replaced") from refused

    try:
        return replaces(x)
    except ValueError as error:
        log.append((type(error.__cause__), str(error)))
        return computed(x)


def in_a_loop(x: torch.Tensor, log: list[Any]) -> Any:
    for turn in range(4):
        try:
            x = refuses(x.reshape(1, -1) if turn % 2 else x.reshape(-1), log)
        except Refused as refused:
            x = computed(refused.given)
    return x


PROGRAMS: list[Program] = [
    one_up,
    three_up,
    through_finally,
    through_with,
    by_an_operator,
    by_a_missing_key,
    another_while_handling,
    in_a_loop,
]


def outcome(function: Callable[..., Any]) -> list[Any]:
    log: list[Any] = []
    log.append(function(X, log))
    return log


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_eager_and_in_graphs(program: Program, backend: str) -> None:
    expected = outcome(program)
    compiled = gramme.compile(program, backend=backend)
    for _ in range(3):
        assert str(outcome(compiled)) == str(expected)
    with gramme.meter() as meter:
        outcome(compiled)
    if backend == "aot_eager":
        assert (meter.captures, meter.handovers > 0) == (0, True), str(meter)
        return
    outside = 1 if program is by_an_operator else 0  # the one that raises
    handovers = 1 if program is another_while_handling else 0  # the handler raises before it computes
    assert (meter.inside > 0, meter.outside, meter.captures) == (True, outside, 0), str(meter)
    assert (meter.handovers, meter.plain) == (handovers, 0), str(meter)


def test_what_leaves_the_program() -> None:
    """The traceback is CPython's, with the frames that the segments left and those they made."""

    def middle(x: torch.Tensor, log: list[Any]) -> torch.Tensor:
        return refuses(computed(x), log) + 1

    def described(function: Callable[..., Any]) -> list[Any]:
        with pytest.raises(Refused) as raised:
            function(X, [])
        places = [(place.name, place.line) for place in traceback.extract_tb(raised.value.__traceback__)]
        return [places[-2:], raised.value.given.tolist(), raised.value.args]

    compiled = gramme.compile(middle, backend="eager")
    for _ in range(3):
        assert described(compiled) == described(middle)
    with gramme.meter() as meter, contextlib.suppress(Refused):
        compiled(X, [])
    assert (meter.outside, meter.captures) == (0, 0), str(meter)


def test_what_a_compiler_takes_and_eager_refuses() -> None:
    """An int is written into bools: AOTAutograd's program does, eager's raises, and no later exception comes first."""

    def refused(flags: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        flags.mul_(1)
        return x @ x.reshape(1, -1)

    def refused_by_kernel(flags: torch.Tensor, x: torch.Tensor) -> Any:
        y = x + 1
        z = torch.lerp(flags.long(), flags.long(), 0.5)
        return y, z @ x

    for function in (refused, refused_by_kernel):
        assert_same(function, lambda: (torch.tensor([True, False]), torch.ones(2, 2)))
        assert_same(function, lambda: (torch.tensor([True, False]), torch.ones(3)))


def test_nothing_is_kept_for_nothing() -> None:
    """A function that raises before it computes runs plainly: there is nothing to put in a graph."""

    def checked(x: torch.Tensor, size: int) -> torch.Tensor:
        if x.shape[0] != size:
            raise ValueError("another size")
        return x + 1

    compiled = gramme.compile(checked, backend="eager")
    for _ in range(3):
        with pytest.raises(ValueError, match="another size"):
            compiled(X, 3)
    assert compiled(torch.ones(3), 3).tolist() == [2, 2, 2]
    with gramme.meter() as meter, contextlib.suppress(ValueError):
        compiled(X, 3)
    assert (meter.plain, meter.steps, meter.captures) == (1, 0, 0), str(meter)


def test_they_are_told_but_are_no_breaks() -> None:
    """explain() says where; what asks for no breaks gets the program's exception."""

    def raises(x: torch.Tensor) -> torch.Tensor:
        y = computed(x)
        raise Refused(y)

    def catches(x: torch.Tensor) -> torch.Tensor:
        front.graph_break()
        return one_up(x, [])

    refused = gramme.compile(raises, backend="eager")
    with torch._dynamo.error_on_graph_break(True), pytest.raises(Refused):
        refused(X)
    told = [each for each in gramme.explain(catches)(X).break_reasons if each.reason.startswith("raises")]
    assert [(each.frames[0].name, each.frames[0].line) for each in told] == [("refuses", "raise Refused(y)")]
