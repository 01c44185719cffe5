"""Syntax that PyTorch's front end refuses: `except*` and `async with`. Here what stands around it is captured."""

import asyncio
import traceback
from collections.abc import AsyncIterator, Callable
from typing import Any

import gramme
import pytest
import torch

from e2e.front import GRAMME

pytestmark = pytest.mark.skipif(not GRAMME, reason="counts graphs of gramme")

X = torch.arange(3.0)
BACKENDS = ["eager", "native", "aot_eager"]


def group(*errors: Exception) -> ExceptionGroup[Exception]:
    return ExceptionGroup("several", list(errors))


def by_kind(x: torch.Tensor, error: Exception | None, log: list[Any]) -> torch.Tensor:
    y = x.sin()
    try:
        if error is not None:
            raise error
        log.append("nothing raised")
    except* ValueError as found:
        y = y + x.cos()
        log.append(repr(found))
    except* (TypeError, KeyError) as found:
        y = y * 2
        log.append(repr(found))
    else:
        y = y.exp()
    finally:
        y = y + 1
    return y


def raises_in_a_handler(x: torch.Tensor, error: Exception | None, log: list[Any]) -> torch.Tensor:
    y = x.sin()
    try:
        if error is not None:
            raise error
    except* ValueError:
        log.append(y.sum())
        raise
    except* TypeError as found:
        raise LookupError("of a handler") from found
    return y * 2


def around_a_group(x: torch.Tensor, error: Exception | None, log: list[Any]) -> torch.Tensor:
    try:
        return by_kind(x, error, log)
    except ExceptionGroup as rest:
        log.append([type(one) for one in rest.exceptions])
        return x.tan()


ERRORS: list[Callable[[], Exception | None]] = [
    lambda: None,
    lambda: ValueError("bare"),
    lambda: OSError("nobody's"),
    lambda: group(ValueError(1)),
    lambda: group(ValueError(1), TypeError(2)),
    lambda: group(ValueError(1), group(KeyError("z"), ValueError(3)), OSError(4)),
]


def described(error: BaseException) -> Any:
    """With its groups, its cause, and the program's own lines."""
    lines = [
        (entry.name, entry.line) for entry in traceback.extract_tb(error.__traceback__) if entry.filename == __file__
    ]
    inner = [described(one) for one in error.exceptions] if isinstance(error, BaseExceptionGroup) else []
    return type(error), str(error), lines[1:], inner, error.__cause__ and described(error.__cause__)


def outcome(call: Callable[..., Any], *args: Any) -> Any:
    log: list[Any] = []
    try:
        result = call(*args, log).tolist()
    except Exception as error:
        result = described(error)
    return result, [entry.tolist() if isinstance(entry, torch.Tensor) else entry for entry in log]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [by_kind, raises_in_a_handler, around_a_group])
def test_groups_of_exceptions(program: Callable[..., Any], backend: str) -> None:
    compiled = gramme.compile(program, backend=backend)
    for _ in range(2):
        for error in ERRORS:
            assert outcome(compiled, X, error()) == outcome(program, X, error())
    assert gramme.statistics(compiled).captures > 0


def test_where_nothing_is_raised_there_is_one_graph() -> None:
    for front in (torch.compile, gramme.compile):
        compiled = front(by_kind, backend="eager", fullgraph=True)
        assert outcome(compiled, X, None) == outcome(by_kind, X, None)
        with pytest.raises((gramme.errors.CaptureError, torch._dynamo.exc.Unsupported)):
            compiled(X, group(ValueError(1)), [])


# ---- asynchronous context managers


class Manager:
    def __init__(self, log: list[Any], swallows: bool) -> None:
        self.log, self.swallows = log, swallows

    async def __aenter__(self) -> float:
        self.log.append("entered")
        await asyncio.sleep(0)
        return 3.0

    async def __aexit__(self, kind: Any, error: Any, where: Any) -> bool:
        self.log.append(kind)
        await asyncio.sleep(0)
        return self.swallows


async def numbers(count: int) -> AsyncIterator[int]:
    for number in range(count):
        await asyncio.sleep(0)
        yield number


async def within(x: torch.Tensor, raises: bool, swallows: bool, log: list[Any]) -> torch.Tensor:
    y = x.sin()
    async with Manager(log, swallows) as k:
        y = y * k
        if raises:
            raise ValueError("inside")
        y = y.exp()
    async for number in numbers(2):
        y = y + number
    return y * 2


async def returns_from_it(x: torch.Tensor, raises: bool, swallows: bool, log: list[Any]) -> torch.Tensor:
    async with Manager(log, swallows) as k, Manager(log, swallows):
        if not raises:
            return x.sin() * k
        await asyncio.wait_for(asyncio.Event().wait(), 0.001)
    return x.cos()


def run(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: asyncio.run(function(*args))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [within, returns_from_it])
def test_asynchronous_context_managers(program: Callable[..., Any], backend: str) -> None:
    compiled = gramme.compile(program, backend=backend)
    for _ in range(2):
        for raises, swallows in ((False, False), (True, True), (True, False)):
            assert outcome(run(compiled), X, raises, swallows) == outcome(run(program), X, raises, swallows)
    assert gramme.statistics(compiled).captures > 0


def test_two_at_once() -> None:
    """Their steps alternate."""

    async def both(call: Callable[..., Any], log: list[Any]) -> Any:
        return await asyncio.gather(call(X, False, False, log), call(X + 1, True, True, log))

    logs: list[list[Any]] = [[], []]
    results = [asyncio.run(both(f, log)) for f, log in zip((within, gramme.compile(within, backend="eager")), logs)]
    torch.testing.assert_close(*results, rtol=0, atol=0)
    assert logs[0] == logs[1]
