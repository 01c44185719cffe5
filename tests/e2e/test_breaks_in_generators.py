"""Breaks in bodies of generators and coroutines, whose live frames are captured from where they wait to where they
yield."""

import asyncio
import contextlib
import gc
import inspect
import itertools
import subprocess
import sys
import threading
import traceback
import types
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from typing import Any

import gramme
import pytest
import torch
from torch import nn

from e2e import front
from e2e.front import graph_break
from e2e.logged import Log, Program, X, assert_same, compare, outcome

pytestmark = pytest.mark.skipif(not front.GRAMME, reason="where gramme's segments end")
Tensors = Generator[torch.Tensor, Any, Any]
PROGRAMS: dict[str, Program] = {}
OUTSIDE = {
    # what C itself computes: additions of sum(), numbers out of tensors
    "consumed_by_c": 5,
    "zipped_and_mapped": 2,
    "generator_expressions": 5,
    # of one that dies, not of one that is closed
    "closed": 1,
    # the dict of the frame's variables was made, which later versions make anew each time
    "what_the_attributes_say": 2 if sys.version_info < (3, 13) else 0,
}
"""Operations outside of graphs."""


def program(function: Program) -> Program:
    PROGRAMS[function.__name__] = function
    return function


def powers(x: torch.Tensor, count: int, log: Log) -> Tensors:
    y = x
    for n in range(count):
        y = y.sin() * x + n
        graph_break()
        got = yield y * 2
        log.append((n, got is None))
        if got is not None:
            y = y + got
    return y.cos()


@program
def in_a_loop(x: torch.Tensor, log: Log) -> Any:
    total = x * 0
    for y in powers(x, 3, log):
        total = total + y.exp()
    return total


@program
def consumed_by_c(x: torch.Tensor, log: Log) -> Any:
    first = list(powers(x, 3, log))
    second = sum(powers(x, 2, log), x)
    third = tuple(powers(x, 2, log))
    largest = max(float(y.sum()) for y in powers(x, 3, log))
    return first, second, third, largest


@program
def zipped_and_mapped(x: torch.Tensor, log: Log) -> Any:
    pairs = [a * b for a, b in zip(powers(x, 3, log), powers(x + 1, 2, log), strict=False)]
    numbered = [y + n for n, y in enumerate(powers(x, 2, log))]
    chained = list(itertools.chain(powers(x, 1, log), map(torch.neg, powers(x, 2, log))))
    return pairs, numbered, chained, list(itertools.islice(powers(x, 5, log), 2))


@program
def next_with_a_default(x: torch.Tensor, log: Log) -> Any:
    made = powers(x, 2, log)
    found = [next(made), next(made, None), next(made, None), next(made, None)]
    try:
        next(made)
    except StopIteration as stop:
        found.append(stop.value)
    return found


@program
def sent_into(x: torch.Tensor, log: Log) -> Any:
    made = powers(x, 3, log)
    first = next(made)
    second = made.send(first + 1)
    third = made.send(second.cos())
    try:
        made.send(third)
    except StopIteration as stop:
        return first, second, third, stop.value


def catching(x: torch.Tensor, log: Log) -> Tensors:
    y = x * 3
    for n in range(3):
        try:
            graph_break()
            y = y.sin() + n
            yield y
        except ValueError as error:
            log.append(str(error))
            y = y * 7
            graph_break()
            yield y + 1
        finally:
            graph_break()
            log.append("finally")
            y = y - 1


@program
def thrown_into(x: torch.Tensor, log: Log) -> Any:
    made = catching(x, log)
    found = [next(made), made.throw(ValueError("thrown")), *made]
    other = catching(x, log)
    next(other)
    try:
        other.throw(KeyError("not caught"))
    except KeyError as error:
        log.append([frame.name for frame in traceback.extract_tb(error.__traceback__)][-1])
    return found, list(other)


@program
def closed(x: torch.Tensor, log: Log) -> Any:
    made = catching(x, log)
    y = next(made)
    made.close()
    unused = catching(x, log)
    unused.close()
    del unused
    dropped = catching(x, log)
    z = next(dropped)
    del dropped
    return y + z, list(made)


def delegating(x: torch.Tensor, log: Log) -> Tensors:
    first = yield from powers(x, 2, log)
    graph_break()
    second = yield from powers(first * 2, 1, log)
    yield from [first, second]
    return first + second


def delegating_twice(x: torch.Tensor, log: Log) -> Tensors:
    result = yield from delegating(x.cos(), log)
    yield result.tanh()
    return result


@program
def delegation(x: torch.Tensor, log: Log) -> Any:
    made = delegating_twice(x, log)
    found = [next(made), made.send(x)]
    while True:
        try:
            found.append(next(made))
        except StopIteration as stop:
            return found, stop.value


@program
def generator_expressions(x: torch.Tensor, log: Log) -> Any:
    def item(n: int) -> torch.Tensor:
        graph_break()
        log.append(n)
        return x * n

    lazily = (item(n).sin() for n in range(3))
    nested = (a + b for a in (item(n) for n in range(2)) for b in lazily)
    return list(nested), sum(item(n).exp() for n in range(3)), any(bool(item(n).sum() > 9) for n in range(2))


@contextlib.contextmanager
def scope(x: torch.Tensor, log: Log) -> Iterator[torch.Tensor]:
    y = x.sin()
    graph_break()
    log.append("enter")
    try:
        yield y + 1
    except ValueError as error:
        log.append(str(error))
        y = y.cos()
    finally:
        graph_break()
        log.append((y * 2).sum())


@program
def context_manager(x: torch.Tensor, log: Log) -> Any:
    with scope(x, log) as y:
        graph_break()
        z = y * 3
        with scope(z, log) as w:
            z = z + w
    return z - 1


@program
def context_manager_that_swallows(x: torch.Tensor, log: Log) -> Any:
    with scope(x, log) as y:
        graph_break()
        x = y * 3
        raise ValueError("in the body")
    return x - 1


@program
def advanced_later(x: torch.Tensor, log: Log) -> Any:
    made = [powers(x + n, 2, log) for n in range(3)]
    graph_break()
    found = [next(each) for each in made]
    graph_break()
    for each in reversed(made):
        found += each
    return found


@program
def break_at_depth_two(x: torch.Tensor, log: Log) -> Any:
    def inner(y: torch.Tensor) -> torch.Tensor:
        y = y.sin() + 1
        graph_break()
        log.append("inner")
        return y.cos()

    def between(y: torch.Tensor) -> torch.Tensor:
        return inner(y * 2) - 1

    def items() -> Tensors:
        for n in range(3):
            yield between(x + n) * 2

    return list(items()), [y + 1 for y in items()]


@program
def raised_inside(x: torch.Tensor, log: Log) -> Any:
    def items() -> Tensors:
        yield x.sin()
        graph_break()
        y = x.cos()
        if y.dim():
            raise ValueError("inside")
        yield y

    found = []
    try:
        for y in items():
            found.append(y * 2)
    except ValueError as error:
        log.append([(frame.name, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)])
        found.append(x + 1)
    made = items()
    next(made)
    with contextlib.suppress(ValueError):
        next(made)
    return found, list(made)


@program
def leaves_by_an_exception(x: torch.Tensor, log: Log) -> Any:
    def items() -> Tensors:
        try:
            yield x.sin()
            graph_break()
            yield x[5]
        finally:
            log.append((x * 2).sum())

    return [y + 1 for y in items()]


@program
def stop_iteration_inside(x: torch.Tensor, log: Log) -> Any:
    def items() -> Tensors:
        yield x.sin()
        graph_break()
        raise StopIteration(3)

    try:
        return list(items())
    except RuntimeError as error:
        return str(error), type(error.__cause__), x + 1


@program
def state_on_both_sides(x: torch.Tensor, log: Log) -> Any:
    items, count = [x], 0

    def made() -> Tensors:
        nonlocal count
        while count < 3:
            count += 1
            items.append(items[-1] * count)
            graph_break()
            yield items[-1] + len(items)

    for y in made():
        items.append(y)
        count += len(items) > 5
    return items, count


@program
def what_the_attributes_say(x: torch.Tensor, log: Log) -> Any:
    def asks() -> Tensors:
        y = x.sin()
        log.append((made.gi_running, made.gi_frame is sys._getframe(), made.gi_frame.f_lineno))
        yield y
        y = y * 2
        log.append((made.gi_running, inspect.getgeneratorstate(made)))
        yield y

    def outer() -> Tensors:
        yield from powers(x, 2, log)

    def state() -> None:
        frame = made.gi_frame
        log.append((made.gi_running, inspect.getgeneratorstate(made), frame and frame.f_lineno, made.gi_yieldfrom))
        log.append(sorted(inspect.getgeneratorlocals(made)))

    made: Any = asks()
    state()
    first = next(made)
    state()
    rest = list(made)
    state()
    delegates = outer()
    y = next(delegates)
    log.append(delegates.gi_yieldfrom.gi_code.co_name)
    return type(made), first, rest, y


@program
def resumed_by_a_callee(x: torch.Tensor, log: Log) -> Any:
    def advance(made: Tensors) -> torch.Tensor:
        graph_break()
        return next(made) + 1

    def deeper(made: Tensors) -> torch.Tensor:
        return advance(made) * 2

    made = powers(x, 4, log)
    return [deeper(made), advance(made), next(made), deeper(made)]


@program
def recursive(x: torch.Tensor, log: Log) -> Any:
    def walk(tree: Any) -> Tensors:
        if isinstance(tree, tuple):
            for child in tree:
                yield from walk(child)
        else:
            graph_break()
            log.append(tree)
            yield x * tree

    return list(walk(((1, 2), (3, (4, 5)))))


@program
def without_gradients(x: torch.Tensor, log: Log) -> Any:
    def items() -> Tensors:
        with torch.no_grad():
            yield leaf * 2
            graph_break()
            yield leaf * 3
        yield leaf * 4

    leaf = x.clone().requires_grad_()
    found = []
    for y in items():
        found.append((y, y.requires_grad, torch.is_grad_enabled()))
        torch.set_grad_enabled(True)
    return found


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        with torch.no_grad():
            self.linear.weight.copy_(torch.arange(16.0).reshape(4, 4) / 16)
            self.linear.bias.fill_(0.5)

    def parts(self, x: torch.Tensor) -> Tensors:
        for _ in range(2):
            x = self.linear(x).relu()
            graph_break()
            yield x

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = x
        for part in self.parts(x):
            total = total + part
        return total.sum(0)


LAYER = Layer()


@program
def module_with_a_generator(x: torch.Tensor, log: Log) -> Any:
    with torch.no_grad():
        return LAYER(x) + LAYER(x * 2)


def run(coroutine: Any) -> Any:
    """asyncio.run prints what it runs where it sets its handler of signals."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(coroutine)
    finally:
        loop.close()


async def waiting(x: torch.Tensor, log: Log) -> torch.Tensor:
    y = x.sin()
    await asyncio.sleep(0)
    log.append("waited")
    return y.cos() + 1


async def waiting_twice(x: torch.Tensor, log: Log) -> torch.Tensor:
    y = await waiting(x * 2, log)
    graph_break()
    return y + await waiting(y, log)


@program
def coroutines(x: torch.Tensor, log: Log) -> Any:
    return run(waiting_twice(x, log))


@program
def tasks(x: torch.Tensor, log: Log) -> Any:
    async def main() -> Any:
        first = asyncio.create_task(waiting(x, log))
        second, third = await asyncio.gather(waiting(x + 1, log), waiting_twice(x, log))
        return await first, second * third

    return run(main())


class Scope:
    def __init__(self, x: torch.Tensor, log: Log) -> None:
        self.x, self.log = x, log

    async def __aenter__(self) -> torch.Tensor:
        return await waiting(self.x, self.log)

    async def __aexit__(self, *details: Any) -> None:
        self.log.append((await waiting(self.x + 2, self.log)).sum())


class Numbers:
    def __init__(self, x: torch.Tensor, log: Log) -> None:
        self.x, self.log, self.left = x, log, 2

    def __aiter__(self) -> "Numbers":
        return self

    async def __anext__(self) -> torch.Tensor:
        if self.left == 0:
            raise StopAsyncIteration
        self.left -= 1
        return await waiting(self.x * self.left, self.log)


@program
def asynchronous_blocks_and_loops(x: torch.Tensor, log: Log) -> Any:
    async def main() -> Any:
        total = x
        async with Scope(x, log) as y:
            graph_break()
            total = total + y
            async for z in Numbers(x, log):
                total = total * z
        return total

    return run(main())


@program
def cancelled(x: torch.Tensor, log: Log) -> Any:
    async def forever() -> None:
        y = x
        try:
            while True:
                y = y.sin() + 1
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            log.append("cancelled")
            raise

    async def main() -> Any:
        task = asyncio.create_task(forever())
        y = await waiting(x, log)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return y, task.cancelled()

    return run(main())


def in_a_delegate(x: torch.Tensor, log: Log) -> Tensors:
    try:
        graph_break()
        found = yield from catching(x * 2, log)
        log.append(found)
    except KeyError as error:
        log.append([frame.name for frame in traceback.extract_tb(error.__traceback__)])
        graph_break()
        yield x.exp() * 3
    finally:
        y = x.cos() + 1
        graph_break()
        log.append((y * 2).shape)
    yield x.tan() + 1


def in_two_delegates(x: torch.Tensor, log: Log) -> Tensors:
    y = x + 1
    graph_break()
    try:
        yield from in_a_delegate(y, log)
    finally:
        log.append("outermost")
    yield y.sin() * 2


@program
def thrown_through_delegates(x: torch.Tensor, log: Log) -> Any:
    made = in_two_delegates(x, log)
    found = [next(made), made.throw(ValueError("caught at once")), *made]
    other = in_two_delegates(x, log)
    found += [next(other), other.throw(KeyError("caught further out")), *other]
    third = in_two_delegates(x, log)
    found.append(next(third))
    try:
        third.throw(IndexError("not caught"))
    except IndexError as error:
        log.append([(frame.name, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)][1:])
    fourth = in_two_delegates(x, log)
    found.append(next(fourth))
    fourth.close()
    return found, list(third), list(fourth)


@program
def awaited_and_cancelled(x: torch.Tensor, log: Log) -> Any:
    async def innermost() -> torch.Tensor:
        y = x
        try:
            while True:
                y = y.sin() + 1
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            graph_break()
            log.append((y * 0).shape)
            return x.exp() + 1

    async def between() -> torch.Tensor:
        z = await innermost()
        graph_break()
        return z.cos() * 2

    async def main() -> Any:
        task = asyncio.create_task(between())
        await asyncio.sleep(0)
        task.cancel()
        return await task, task.cancelled()

    return run(main())


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_eager_and_in_graphs(name: str) -> None:
    compiled = compare(PROGRAMS[name])
    with gramme.meter() as meter:
        outcome(compiled)
    assert meter.inside > 0
    assert (meter.outside, meter.captures) == (OUTSIDE.get(name, 0), 0), str(meter)


@pytest.mark.filterwarnings("ignore:gramme hit the recompile limit")
@pytest.mark.parametrize("name", PROGRAMS)
def test_with_forced_breaks(name: str, soak: bool) -> None:
    """Segments end after so many instructions, wherever that is: at every one, or at one alone."""
    expected = outcome(PROGRAMS[name])
    for at, everywhere in itertools.product(range(1, 60) if soak else (1, 5, 14), (True, False)):
        front.reset()
        entry = gramme._C.make_entry(
            PROGRAMS[name],
            backend=lambda graph, inputs: graph.forward,
            fullgraph=False,
            recompile_limit=1000,
            keep_graphs=False,
        )
        gramme._C.testing.testing_capture.limit(entry, stop_at=at, everywhere=everywhere)  # type: ignore[attr-defined]
        for _ in range(2):
            assert_same(outcome(entry), expected)


def drained(made: Any, log: Log) -> Any:
    found = []
    while True:
        try:
            found.append(next(made))
        except StopIteration as stop:
            return found, stop.value
        except ValueError as error:
            return found, [(frame.name, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)][1:]


def raising(x: torch.Tensor, log: Log) -> Tensors:
    yield x.sin()
    graph_break()
    y = x.cos()
    if y.dim():
        raise ValueError
    yield y


ROOTS: list[Callable[..., Any]] = [powers, catching, delegating_twice, raising]


@pytest.mark.parametrize("function", ROOTS)
def test_generator_functions(function: Callable[..., Any]) -> None:
    """What is compiled is the generator's function; who resumes it is not."""
    expected = drained(function(*arguments(function)), [])
    compiled = front.compile(function, backend="eager")
    for _ in range(3):
        assert_same(drained(compiled(*arguments(function)), []), expected)
    with gramme.meter() as meter:
        drained(compiled(*arguments(function)), [])
    assert (meter.outside, meter.captures) == (0, 0), str(meter)
    assert meter.inside > 0


def arguments(function: Callable[..., Any]) -> tuple[Any, ...]:
    return (X, 3, []) if function is powers else (X, [])


def test_a_compiled_generator_is_what_a_plain_one_is() -> None:
    compiled = front.compile(powers, backend="eager")
    made, plain = compiled(X, 3, []), powers(X, 3, [])
    assert type(made) is types.GeneratorType
    assert inspect.isgenerator(made)
    assert inspect.isgeneratorfunction(compiled)
    assert (made.__name__, made.__qualname__, made.gi_code) == (plain.__name__, plain.__qualname__, plain.gi_code)
    for consume in (next, lambda each: each.send(X), lambda each: each.__next__(), list):
        given, wanted = consume(made), consume(plain)  # type: ignore[operator]
        assert_same(given, wanted)
        assert inspect.getgeneratorstate(made) == inspect.getgeneratorstate(plain)
        assert inspect.getgeneratorlocals(made).keys() == inspect.getgeneratorlocals(plain).keys()
        assert (made.gi_frame and made.gi_frame.f_lineno) == (plain.gi_frame and plain.gi_frame.f_lineno)
    with pytest.raises(StopIteration):
        next(made)
    for each in (compiled(X, 3, []), powers(X, 3, [])):
        with pytest.raises(TypeError, match="can't send non-None value to a just-started generator"):
            each.send(X)
    assert weakref.getweakrefcount(made) == 0


def test_ways_to_resume_a_compiled_generator() -> None:
    def outer(made: Any) -> Tensors:
        return (yield from made)

    compiled = front.compile(powers, backend="eager")
    list(compiled(X, 3, []))
    ways: list[Callable[[Any], Any]] = [
        list,
        lambda made: [y for y in made],  # noqa: C416
        lambda made: [made.send(None), made.__next__(), next(made)],
        lambda made: list(outer(made)),
        lambda made: list(itertools.chain(made)),
        lambda made: list(zip(made, strict=True)),
    ]
    for way in ways:
        expected = way(powers(X, 3, []))
        with gramme.meter() as meter:
            found = way(compiled(X, 3, []))
        assert_same(found, expected)
        assert meter.outside == 0, str(meter)


def test_code_that_ran_often_resumes_a_compiled_generator() -> None:
    """CPython specialises the loop and the await for plain ones; another is alive meanwhile, and one has ended."""

    def looped(made: Any) -> Any:
        found = []
        for y in made:
            found.append(y)  # noqa: PERF402
        return found

    def delegated(made: Any) -> Tensors:
        return (yield from made)

    async def awaited(made: Any) -> Any:
        return await made

    compiled, waits = front.compile(powers, backend="eager"), front.compile(waiting, backend="eager")
    list(compiled(X, 3, []))
    run(waits(X, []))
    for _ in range(100):
        looped(powers(X, 2, []))
        looped(delegated(powers(X, 2, [])))
        run(awaited(waiting(X, [])))
    ended, alive = compiled(X, 3, []), compiled(X, 3, [])
    expected = looped(powers(X, 3, [])), looped(delegated(powers(X, 3, []))), run(awaited(waiting(X, [])))
    with gramme.meter() as meter:
        found = looped(ended), looped(delegated(compiled(X, 3, []))), run(awaited(waits(X, [])))
    assert_same(found, expected)
    assert (meter.outside, meter.captures) == (0, 0), str(meter)
    assert inspect.getgeneratorstate(ended) == inspect.GEN_CLOSED
    del alive  # it never began
    assert_same(looped(powers(X, 3, [])), expected[0])


@pytest.mark.skipif(sys.version_info < (3, 12), reason="no hook stays in while a generator waits")
def test_deep_recursion_while_a_compiled_generator_waits(no_hook: None) -> None:
    def deep(left: int) -> int:
        return 1 + deep(left - 1) if left else 0

    made = front.compile(powers, backend="eager")(X, 3, [])
    first, limit = next(made), sys.getrecursionlimit()
    sys.setrecursionlimit(30_000)
    try:
        assert deep(25_000) == 25_000
    finally:
        sys.setrecursionlimit(limit)
    assert_same([first, *made], list(powers(X, 3, [])))


def test_compiled_coroutine_functions() -> None:
    async def gathered(function: Callable[..., Awaitable[Any]]) -> Any:
        task = asyncio.create_task(function(X + 1, []))  # type: ignore[arg-type]
        return await function(X, []), await asyncio.gather(function(X, []), function(X * 2, [])), await task

    for function in (waiting, waiting_twice):
        compiled = front.compile(function, backend="eager")
        assert inspect.iscoroutinefunction(compiled)
        expected = run(gathered(function))
        for _ in range(2):
            assert_same(run(gathered(compiled)), expected)
        with gramme.meter() as meter:
            run(gathered(compiled))
        assert (meter.outside, meter.captures) == (2, 0), str(meter)  # what `gathered` computes itself
        made = compiled(X, [])
        assert type(made) is types.CoroutineType
        made.close()
        assert_same(asyncio.run(front.compile(function, backend="eager")(X, [])), run(function(X, [])))


def test_awaited_again_and_never() -> None:
    compiled = front.compile(waiting, backend="eager")

    async def twice(made: Any) -> None:
        await made
        with pytest.raises(RuntimeError, match="cannot reuse already awaited coroutine"):
            await made

    run(twice(compiled(X, [])))
    with pytest.warns(RuntimeWarning, match="was never awaited"):
        compiled(X, [])


def test_asynchronous_generators_run_plainly() -> None:
    async def numbers(x: torch.Tensor) -> AsyncIterator[torch.Tensor]:
        for n in range(3):
            await asyncio.sleep(0)
            yield x * n

    async def collect(made: AsyncIterator[torch.Tensor]) -> Any:
        return [y async for y in made]

    compiled = front.compile(numbers, backend="eager")
    assert_same(run(collect(compiled(X))), run(collect(numbers(X))))
    assert type(compiled(X)) is types.AsyncGeneratorType


class Parts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> Tensors:
        for n in range(3):
            x = self.linear(x).relu()
            graph_break()
            yield x + n


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_module_whose_forward_is_a_generator(asynchronous: bool) -> None:
    class Waiting(Parts):
        async def forward(self, x: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
            x = self.linear(x)
            await asyncio.sleep(0)
            return x.relu()

    module = (Waiting if asynchronous else Parts)()
    compiled = front.compile(module, backend="eager")

    def consume(made: Any) -> Any:
        return run(made) if asynchronous else list(made)

    with torch.no_grad():
        expected = consume(module(X))
        for _ in range(2):
            made = compiled(X)
            assert type(made) is (types.CoroutineType if asynchronous else types.GeneratorType)
            assert_same(consume(made), expected)
        with gramme.meter() as meter:
            consume(compiled(X))
    assert meter.outside == 0, str(meter)


def test_tracebacks_through_a_compiled_generator() -> None:
    def places(function: Callable[..., Any]) -> list[Any]:
        with pytest.raises(ValueError, match="^$") as raised:
            list(function(X, []))
        frames = traceback.extract_tb(raised.value.__traceback__)
        return [(frame.name, frame.lineno) for frame in frames if frame.filename == __file__][1:]

    compiled = front.compile(raising, backend="eager")
    assert [places(compiled) for _ in range(3)] == [places(raising)] * 3


def test_tracing_switched_on_between_two_values() -> None:
    def trace(frame: Any, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename == __file__:
            events.append((frame.f_code.co_name, event, frame.f_lineno))
        return trace

    def events_of(made: Any) -> Log:
        events.clear()
        found = [next(made)]
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            found.append(next(made))
        finally:
            sys.settrace(before)
        found.append(next(made))
        return [*found, list(events)]

    events: Log = []
    compiled = front.compile(powers, backend="eager")
    expected = events_of(powers(X, 3, []))
    for _ in range(3):
        assert_same(events_of(compiled(X, 3, [])), expected)


def test_resumed_while_an_exception_is_handled() -> None:
    """The generator sees it, until it handles one itself."""

    def seen(x: torch.Tensor) -> Tensors:
        log.append(repr(sys.exc_info()[1]))
        yield x.sin()
        try:
            raise KeyError("own")
        except KeyError:
            graph_break()
            log.append(repr(sys.exc_info()[1]))
            yield x.cos()
            log.append(repr(sys.exc_info()[1]))
        log.append(repr(sys.exc_info()[1]))
        yield x + 1

    def consume(made: Any) -> Log:
        log.clear()
        found = [next(made)]
        try:
            raise ValueError("outside")
        except ValueError:
            found.append(next(made))
        found.append(repr(sys.exc_info()[1]))
        try:
            raise ValueError("again")
        except ValueError:
            found.append(next(made))
        return [*found, list(log)]

    log: Log = []
    compiled = front.compile(seen, backend="eager")
    expected = consume(seen(X))
    for _ in range(3):
        assert_same(consume(compiled(X)), expected)


def test_a_generator_that_dies_is_not_captured() -> None:
    def cleaned(x: torch.Tensor, log: Log) -> Tensors:
        try:
            yield x * 2
        finally:
            log.append((x * 3).sin())

    log: Log = []
    compiled = front.compile(cleaned, backend="eager")
    for _ in range(3):
        made = compiled(X, log)
        next(made)
        before = gramme.statistics(compiled).captures
        del made
        assert gramme.statistics(compiled).captures == before
    assert_same(log, [(X * 3).sin()] * 3)


def test_the_graph_raises_in_a_generator() -> None:
    def items(x: torch.Tensor, n: torch.Tensor) -> Tensors:
        yield x + 1
        try:
            yield x[:, n] + 1
        except IndexError:
            yield x + 2

    compiled = front.compile(items, backend="eager")
    for n in (0, 1, 9, 1):
        index = torch.tensor([n])
        assert_same(list(compiled(X, index)), list(items(X, index)))


def test_other_threads_resume_it() -> None:
    compiled = front.compile(powers, backend="eager")
    expected = list(powers(X, 4, []))

    def collect(made: Any) -> None:
        found.append(next(made))

    for _ in range(3):
        found: Log = []
        made = compiled(X, 4, [])
        for _ in range(4):
            thread = threading.Thread(target=collect, args=[made])
            thread.start()
            thread.join()
        assert_same(found, expected)


def test_deep_delegation() -> None:
    def nested(x: torch.Tensor, depth: int) -> Tensors:
        if depth:
            yield from nested(x + 1, depth - 1)
        else:
            graph_break()
            yield x

    compiled = front.compile(nested, backend="eager")
    for depth in (5, 50, 200):
        assert_same(list(compiled(X, depth)), list(nested(X, depth)))
    with pytest.raises(RecursionError):
        list(compiled(X, 100_000))


@pytest.mark.parametrize("disable", [gramme.disable, torch.compiler.disable])
def test_generators_of_disabled_functions_run_plainly(disable: Callable[[Any], Any]) -> None:
    @disable  # type: ignore[untyped-decorator]
    def items(x: torch.Tensor) -> Tensors:
        for n in range(3):
            yield x + n

    @disable  # type: ignore[untyped-decorator]
    async def item(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    def function(x: torch.Tensor, log: Log) -> Any:
        async def main() -> torch.Tensor:
            return await item(x)

        made = items(x)
        return list(items(x)), [next(made), *made], run(main())

    compiled = compare(function)
    with gramme.meter() as meter:
        outcome(compiled)
    assert (meter.inside, meter.outside) == (0, 7), str(meter)


def test_genexprs_without_operations_are_silent(recwarn: pytest.WarningsRecorder) -> None:
    def function(x: torch.Tensor, log: Log) -> Any:
        graph_break()
        return x * sum(1 for item in mixed if type(item) is int and repr(item))

    mixed = [kind() for kind in (int, str, float, list, dict, set, bytes, complex, bool, tuple)] * 3
    compare(function)
    assert not recwarn.list


@pytest.mark.parametrize("name", ["in_a_loop", "sent_into", "thrown_into", "delegation", "advanced_later", "tasks"])
def test_nothing_is_kept(name: str) -> None:
    compiled = compare(PROGRAMS[name])
    tensor = torch.ones(2, 4)
    references, weak = sys.getrefcount(tensor), weakref.ref(tensor)
    for _ in range(5):
        outcome(compiled, tensor)
    gc.collect()
    assert sys.getrefcount(tensor) == references
    del tensor
    assert weak() is None


def test_nothing_of_a_compiled_generator_is_kept() -> None:
    class Big:
        pass

    compiled = front.compile(powers, backend="eager")
    list(compiled(X, 2, []))
    tensor, big = torch.ones(2, 4), Big()
    weak, references = weakref.ref(big), sys.getrefcount(tensor)
    for _ in range(5):
        made = compiled(tensor, 3, [big])
        next(made)
        list(compiled(tensor, 3, [big]))
    del made, big
    gc.collect()
    assert weak() is None
    assert sys.getrefcount(tensor) == references
    entry = weakref.ref(compiled)
    left = compiled(tensor, 3, [])
    del compiled
    with gramme.meter() as meter:
        assert len(list(left)) == 3
    assert meter.outside == 0
    del left
    assert entry() is None


def test_cycles_through_a_compiled_generator_are_collected() -> None:
    class Holder(nn.Module):
        made: Any

        def parts(self, x: torch.Tensor) -> Tensors:
            try:
                yield x + len(items)
                yield self.scaled(x)
            finally:
                log.append("closed")

        def scaled(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    def make() -> Any:
        holder = Holder()
        items.append(holder)
        holder.compiled = front.compile(holder.parts, backend="eager")
        list(holder.compiled(X))
        holder.made = holder.compiled(X)
        next(holder.made)
        items.clear()
        return weakref.ref(holder)

    items: Log = []
    log: Log = []
    gone = make()
    gc.collect()
    assert gone() is None
    assert log == ["closed"] * 2


def test_generators_left_at_the_end_of_the_process() -> None:
    code = """
import torch, gramme

def items(x, name):
    try:
        yield x + 1
        yield x + 2
    finally:
        print(name)

class Cycle: ...

items = gramme.compile(items, backend="eager") if {compiled} else items
list(items(torch.ones(2), "first"))
left = items(torch.ones(2), "global")
cycle = Cycle()
cycle.itself, cycle.items = cycle, items(torch.ones(2), "cycle")
next(left), next(cycle.items)
"""
    printed = [
        subprocess.run(
            [sys.executable, "-c", code.format(compiled=compiled)], capture_output=True, text=True, check=True
        ).stdout
        for compiled in (True, False)
    ]
    assert printed[0] == printed[1]
