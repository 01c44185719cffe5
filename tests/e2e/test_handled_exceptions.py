"""What is being handled, in frames of generators too: sys.exc_info(), contexts of exceptions, what is left behind."""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import gramme
import pytest
import torch

from e2e.front import GRAMME

pytestmark = pytest.mark.skipif(not GRAMME, reason="a break loses PyTorch's front end the frame")

BACKENDS = ["eager", "native"]
Log = list[Any]
Program = Callable[[torch.Tensor, Log], Any]
PROGRAMS: dict[str, Program] = {}


def program(function: Program) -> Program:
    PROGRAMS[function.__name__] = function
    return function


def unknown() -> None:
    """Ends the segment."""
    print(end="")


def handled() -> Any:
    return sys.exc_info()[0]


def chain(error: BaseException | None) -> list[str]:
    names = []
    while error is not None and len(names) < 9:
        names.append(f"{type(error).__name__}({error})")
        error = error.__context__
    return names


def turns(x: torch.Tensor, log: Log) -> Iterator[torch.Tensor]:
    """Handles an exception of its own around each value."""
    while True:
        log.append(handled())
        try:
            raise ValueError("of the generator")
        except ValueError as error:
            unknown()
            log.append(chain(error))
            x = x + 1
            yield x
            log.append(handled())
        unknown()
        log.append(handled())


@program
def resumed_while_handling(x: torch.Tensor, log: Log) -> Any:
    made = turns(x, log)
    y = next(made)
    try:
        raise KeyError("of the consumer")
    except KeyError:
        y = y + next(made)
        log.append(handled())
        unknown()
        y = y + next(made)
    log.append(handled())
    return y + next(made)


@program
def resumed_outside_again(x: torch.Tensor, log: Log) -> Any:
    made = turns(x, log)
    for i in range(5):
        try:
            if i % 2:
                raise KeyError(i)
            x = x + next(made)
        except KeyError:
            x = x * next(made)
            unknown()
    return x


def helper(x: torch.Tensor, log: Log) -> torch.Tensor:
    try:
        raise TypeError("inner")
    except TypeError as error:
        unknown()
        y = x * 2
        log.append(chain(error))
    log.append(handled())
    return y + 1


def calling(x: torch.Tensor, log: Log) -> Iterator[torch.Tensor]:
    while True:
        y = helper(x, log)
        log.append(handled())
        unknown()
        yield y


@program
def functions_of_a_generator(x: torch.Tensor, log: Log) -> Any:
    made = calling(x, log)
    y = next(made)
    try:
        raise KeyError("outer")
    except KeyError:
        y = y + next(made)
    return y + next(made)


@program
def raised_again_by_a_generator(x: torch.Tensor, log: Log) -> Any:
    def again() -> Iterator[torch.Tensor]:
        yield x + 1
        unknown()
        raise  # noqa: PLE0704 what the consumer handles

    made = again()
    y = next(made)
    try:
        raise KeyError("handled outside")
    except KeyError:
        try:
            next(made)
        except KeyError as error:
            log.append(chain(error))
    return y * 2


def patient(x: torch.Tensor, log: Log) -> Iterator[torch.Tensor]:
    y = x
    while True:
        try:
            y = y + 1
            yield y
        except ValueError as error:
            unknown()
            log.append((handled(), chain(error)))
            y = y * 3
        finally:
            log.append("finally")
            y = y - 1
            unknown()


@program
def thrown_while_handling(x: torch.Tensor, log: Log) -> Any:
    made = patient(x, log)
    y = next(made)
    try:
        raise KeyError("outer")
    except KeyError:
        y = y + made.throw(ValueError("thrown"))
    y = y + made.throw(ValueError("thrown again"))
    made.close()
    try:
        made.throw(ValueError("too late"))
    except ValueError as error:
        log.append(chain(error))
    return y


@program
def thrown_into_a_handler(x: torch.Tensor, log: Log) -> Any:
    def handling() -> Iterator[torch.Tensor]:
        try:
            raise KeyError("handled where it waits")
        except KeyError:
            try:
                yield x + 1
            except ValueError as error:
                unknown()
                log.append((handled(), chain(error)))
                yield x + 2
        yield x + 3

    made = handling()
    y = next(made)
    y = y + made.throw(ValueError("thrown"))
    return y + next(made)


@program
def not_caught(x: torch.Tensor, log: Log) -> Any:
    made = patient(x, log)
    y = next(made)
    unknown()
    try:
        made.throw(IndexError("passes"))
    except IndexError as error:
        log.append((chain(error), [frame.tb_frame.f_code.co_name for frame in tracebacks(error)]))
    return y, list(made)


def tracebacks(error: BaseException) -> list[Any]:
    found, at = [], error.__traceback__
    while at:
        found.append(at)
        at = at.tb_next
    return found


def outcome(function: Any) -> str:
    log: Log = []
    x = torch.arange(3.0)
    result = function(x, log)
    return repr((result, log, sys.exc_info()))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_eager(name: str, backend: str) -> None:
    compiled = gramme.compile(PROGRAMS[name], backend=backend)
    expected = outcome(PROGRAMS[name])
    assert [outcome(compiled) for _ in range(3)] == [expected] * 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_compiled_function_in_a_plain_generator(backend: str) -> None:
    """Nothing of what the consumer handles stays with the generator."""
    compiled = gramme.compile(helper, backend=backend)

    def found(function: Any) -> list[Any]:
        log: Log = []

        def plain() -> Iterator[Any]:
            while True:
                function(torch.ones(2), log)
                yield handled()

        made = plain()
        log.append(next(made))
        try:
            raise KeyError("outer")
        except KeyError:
            log.append(next(made))
        log.append(next(made))
        return log

    assert [found(compiled) for _ in range(3)] == [found(helper)] * 3


@pytest.mark.parametrize("name", ["thrown_while_handling", "thrown_into_a_handler", "resumed_while_handling"])
def test_operations_are_in_graphs(name: str) -> None:
    compiled, x = gramme.compile(PROGRAMS[name], backend="eager"), torch.arange(3.0)
    for _ in range(4):
        compiled(x, [])
    with gramme.meter() as meter:
        compiled(x, [])
    assert (meter.outside, meter.captures) == (0, 0), str(meter)
