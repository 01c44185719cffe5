"""Signals, KeyboardInterrupt and the limit of recursion, in the middle of chains: traceback, variables and effects are
those of some moment of an eager run, and of the very moment where the program chose it."""

import contextlib
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

import gramme
import pytest
import torch
from torch import nn

from e2e import front

pytestmark = pytest.mark.skipif(not front.GRAMME, reason="where gramme's segments end")
X = torch.linspace(-1, 1, 8).reshape(2, 4)
LOG: list[Any] = []
NUMBER = signal.SIGUSR1
OURS = {"observed", "outcome", "at_event"}


def interrupt() -> None:
    """What the test puts here is carried out for real: a break."""
    ACTION[0]()


ACTION: list[Callable[[], Any]] = [time.monotonic]


def leaf(x: torch.Tensor) -> torch.Tensor:
    y = x.sin() + 1
    gramme.disable(interrupt)()
    z = y * x
    LOG.append("leaf")
    return z + y


def middle(x: torch.Tensor) -> torch.Tensor:
    a = x * 2
    b = leaf(a)
    LOG.append("middle")
    return b + a


def nested(x: torch.Tensor) -> torch.Tensor:
    c = x + 1
    d = middle(c) * 2
    e = middle(d)
    return e - c


def handled(x: torch.Tensor) -> torch.Tensor:
    c = x + 1
    try:
        d = middle(c) * 2
    except (TimeoutError, KeyboardInterrupt) as error:
        LOG.append(("handled", places(error.__traceback__)))
        d = c * 3
    finally:
        LOG.append("finally")
    return d + 1


class Noted:
    def __enter__(self) -> None:
        LOG.append("enter")

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        LOG.append(("exit", kind and kind.__name__))


def cleaned_up(x: torch.Tensor) -> torch.Tensor:
    def inner(y: torch.Tensor) -> torch.Tensor:
        try:
            return leaf(y + 1) * 2
        finally:
            LOG.append("inner finally")

    with Noted():
        w = inner(x.exp())
    return w


def generated(x: torch.Tensor) -> torch.Tensor:
    def pieces() -> Iterator[torch.Tensor]:
        for i in range(3):
            y = x + i
            gramme.disable(interrupt)()
            yield y * 2

    total = x
    try:
        for piece in pieces():
            total = total + piece
    except (TimeoutError, KeyboardInterrupt) as error:
        LOG.append(("handled", places(error.__traceback__)))
    return total


def by_key(x: torch.Tensor) -> torch.Tensor:
    def key(n: int) -> float:
        y = x * n
        gramme.disable(interrupt)()
        return float((y + 1).sum())

    return x * sorted([2, 3, 1], key=key)[0]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        gramme.disable(interrupt)()
        return y.relu() + x


MODEL = nn.Sequential(Block(), nn.Sequential(Block(), nn.Tanh()))


def modules(x: torch.Tensor) -> torch.Tensor:
    y = MODEL(x + 1)
    LOG.append("model")
    return y * 2


class Vector:
    def __init__(self, x: torch.Tensor) -> None:
        self.x = x

    def __add__(self, other: Any) -> torch.Tensor:
        y = self.x * other
        gramme.disable(interrupt)()
        return y + 1

    @property
    def tripled(self) -> torch.Tensor:
        y = self.x * 3
        gramme.disable(interrupt)()
        return y + 1

    def __enter__(self) -> torch.Tensor:
        y = self.x * 4
        gramme.disable(interrupt)()
        return y

    def __exit__(self, *_: Any) -> bool:
        gramme.disable(interrupt)()
        LOG.append("left")
        return True


def operators(x: torch.Tensor) -> torch.Tensor:
    vector = Vector(x + 1)
    a = vector + 2
    b = vector.tripled
    with vector as c:
        b = b + c
        LOG.append("body")
    return a + b


PROGRAMS = [nested, handled, cleaned_up, generated, by_key, modules, operators]


def is_programs(frame: types.FrameType) -> bool:
    code = frame.f_code
    return code.co_filename == __file__ and code.co_name not in OURS and not code.co_qualname.startswith("test_")


def places(trace: types.TracebackType | None) -> list[Any]:
    found = []
    while trace:
        frame = trace.tb_frame
        if is_programs(frame):
            found.append((frame.f_code.co_qualname, trace.tb_lineno, sorted(frame.f_locals)))
        trace = trace.tb_next
    return found


def stack(frame: types.FrameType | None) -> list[Any]:
    found = []
    while frame:
        if is_programs(frame):
            found.append((frame.f_code.co_qualname, frame.f_lineno, sorted(frame.f_locals)))
        frame = frame.f_back
    return found


def outcome(function: Callable[..., Any]) -> str:
    """All that is seen of one call, as text."""
    LOG.clear()
    tracing, profiling = sys.gettrace(), sys.getprofile()
    try:
        result: Any = function(X).tolist()
    except BaseException as error:
        result = type(error).__name__, str(error), places(error.__traceback__)
    finally:
        sys.settrace(tracing)
        sys.setprofile(profiling)
    return "\n".join(map(repr, [result, *LOG]))


def quiet(number: int, frame: Any) -> None:
    LOG.append(stack(frame))


def raising(number: int, frame: Any) -> None:
    LOG.append(stack(frame))
    raise TimeoutError("late")


def keyboard(number: int, frame: Any) -> None:
    raise KeyboardInterrupt


def note_event(frame: Any, event: str, argument: Any) -> Any:
    if is_programs(frame):
        LOG.append((event, frame.f_code.co_qualname, frame.f_lineno))
    return note_event


def tracing(number: int, frame: Any) -> None:
    LOG.append(stack(frame))
    while frame:
        if is_programs(frame):
            frame.f_trace = note_event
        frame = frame.f_back
    sys.settrace(note_event)


def profiling(number: int, frame: Any) -> None:
    sys.setprofile(note_event)


@pytest.fixture
def handler(request: pytest.FixtureRequest) -> Iterator[None]:
    before = signal.signal(NUMBER, request.param)
    yield
    signal.signal(NUMBER, before)
    ACTION[0] = time.monotonic


def by_timer() -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    time.sleep(0.005)


@pytest.mark.parametrize("handler", [quiet, raising, keyboard, tracing, profiling], indirect=True)
@pytest.mark.parametrize("program", PROGRAMS)
def test_signals_during_the_instruction(program: Callable[..., Any], handler: None) -> None:
    ACTION[0] = lambda: signal.raise_signal(NUMBER)
    expected = outcome(program)
    compiled = front.compile(program, backend="eager")
    for _ in range(3):
        assert outcome(compiled) == expected


def test_a_timer_during_the_instruction() -> None:
    ACTION[0] = by_timer
    before = signal.signal(signal.SIGALRM, raising)
    try:
        for program in PROGRAMS:
            expected = outcome(program)
            compiled = front.compile(program, backend="eager")
            assert [outcome(compiled) for _ in range(2)] == [expected] * 2
    finally:
        signal.signal(signal.SIGALRM, before)
        ACTION[0] = time.monotonic


@pytest.mark.parametrize("program", PROGRAMS)
def test_nothing_is_left_of_a_profile_function(program: Callable[..., Any]) -> None:
    """One that was set in the middle of a call: the next calls run in the same segments as those before."""
    compiled = front.compile(program, backend="eager")
    expected = outcome(program)
    for _ in range(2):
        assert outcome(compiled) == expected
    ACTION[0] = lambda: sys.setprofile(note_event)
    try:
        outcome(compiled)
    finally:
        sys.setprofile(None)
        ACTION[0] = time.monotonic
    with gramme.meter() as meter:
        assert outcome(compiled) == expected
    assert (meter.captures, meter.handovers, meter.plain) == (0, 0, 0), str(meter)


def raised_at(number: int, program: Callable[..., Any], kind: type[BaseException]) -> tuple[str, int]:
    """What comes of an eager run into which the exception comes at that instruction, and how many began before."""
    before, begun = sys.gettrace(), 0

    def at_event(frame: Any, event: str, argument: Any) -> Any:
        nonlocal begun
        if not is_programs(frame):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event in ("opcode", "call"):
            if begun == number:
                sys.settrace(before)
                raise kind("late")
            begun += 1
        return at_event

    sys.settrace(at_event)
    try:
        return outcome(program), begun
    finally:
        sys.settrace(before)


def moments(program: Callable[..., Any], kind: type[BaseException]) -> set[str]:
    """What comes of eager runs into which the exception comes at each instruction.

    Of the first run nothing is asked: from 3.12 on code is only prepared there to tell of all its instructions.
    """
    raised_at(-1, program, kind)
    outcome_of_all, count = raised_at(-1, program, kind)
    return {outcome_of_all, *(raised_at(number, program, kind)[0] for number in range(count))}


@pytest.mark.parametrize("kind", [KeyboardInterrupt, TimeoutError])
@pytest.mark.parametrize("program", PROGRAMS)
def test_interrupted_captures_and_graphs(program: Callable[..., Any], kind: type[BaseException]) -> None:
    """The backend, and then each graph, is interrupted: the program gets the exception where it stands."""
    if program is generated and sys.version_info >= (3, 12):
        pytest.skip("a trace function is not told of a generator's instructions before the first yield")
    possible = moments(program, kind)

    def interrupted(number: int, frame: Any) -> None:
        raise kind("late")

    interrupted.__code__ = interrupted.__code__.replace(co_filename="a handler")
    before = signal.signal(NUMBER, interrupted)
    countdown = 0

    def count() -> None:
        nonlocal countdown
        countdown -= 1
        if countdown == 0:
            signal.raise_signal(NUMBER)

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        count()

        def run(*args: Any) -> Any:
            count()
            return graph.forward(*args)

        return run

    try:
        compiled = front.compile(program, backend=backend)
        for countdown in range(1, 30):
            assert outcome(compiled) in possible
            if countdown > 0:
                break
            front.reset()
        else:
            pytest.fail("there are more graphs than that")
        for countdown in range(1, 10):
            assert outcome(compiled) in possible
    finally:
        signal.signal(NUMBER, before)
    countdown = 0
    assert outcome(compiled) == outcome(program)


class Handler:
    def method(self, number: int, frame: Any) -> None:
        raise TimeoutError("late")

    def __call__(self, *args: Any) -> None:
        raise TimeoutError("late")


@pytest.mark.parametrize("handler", [Handler().method, Handler(), lambda *_: Handler().method(*_)], indirect=True)
def test_forms_of_handlers(handler: None) -> None:
    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            signal.raise_signal(NUMBER)
            return graph.forward(*args)

        return run

    for _ in range(2):
        with pytest.raises(TimeoutError):
            front.compile(lambda x: x.sin() + 1, backend=backend)(X)


def test_interrupted_inference(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a handler raises while metadata is inferred is no failure of the operator."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    def interrupted(number: int, frame: Any) -> None:
        raise TimeoutError("late")

    before = signal.signal(NUMBER, interrupted)
    dispatch = FakeTensorMode.dispatch
    countdown = 0

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal countdown
        countdown -= 1
        if countdown == 0:
            signal.raise_signal(NUMBER)
        return dispatch(*args, **kwargs)

    monkeypatch.setattr(FakeTensorMode, "dispatch", counted)
    try:
        for width in range(3, 6):
            x = torch.ones(width, 13)
            compiled = front.compile(lambda x: (x.cosh() + 1).logsumexp(0), backend="eager")
            countdown = width - 2
            with pytest.raises(TimeoutError):
                compiled(x)
            assert countdown == 0
            assert torch.equal(compiled(x), (x.cosh() + 1).logsumexp(0))
    finally:
        signal.signal(NUMBER, before)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # in a callback that C calls
@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_interrupts_at_any_moment(program: Callable[..., Any], backend: str, soak: bool) -> None:
    """Another thread sends them; a call that is captured meanwhile may be interrupted, too."""
    if not soak:
        pytest.skip("the moments are not the test's to choose: in a soak")

    def interrupted(number: int, frame: Any) -> None:
        raise KeyboardInterrupt("late")

    interrupted.__code__ = interrupted.__code__.replace(co_filename="a handler")
    possible = moments(program, KeyboardInterrupt)
    main = threading.main_thread().ident
    assert main is not None
    before, interval = signal.signal(NUMBER, interrupted), sys.getswitchinterval()
    sys.setswitchinterval(1e-5)

    def strike(after: float, started: list[bool]) -> None:
        while not started:  # an interrupted Thread.start() leaves its lock behind
            pass
        end = time.perf_counter() + after
        while time.perf_counter() < end:
            pass
        signal.pthread_kill(main, NUMBER)

    seen = set()
    try:
        for i in range(600):
            compiled = front.compile(program, backend=backend)
            if i % 3:
                outcome(compiled)
            start = time.perf_counter()
            outcome(compiled)
            took = time.perf_counter() - start
            if i % 3 == 0:
                front.reset()
            try:
                thread = threading.Thread(target=strike, args=(took * (i % 20) / 16, started := []))
                thread.start()
                started.append(True)
                seen.add(result := outcome(compiled))
                if "'late', [])" not in result:  # it came in between
                    assert result in possible
                thread.join()
            except KeyboardInterrupt:  # it came before or after the call
                thread.join()
    finally:
        sys.setswitchinterval(interval)
        signal.signal(NUMBER, before)
    assert seen


# ---- the limit of recursion


def down(x: torch.Tensor, n: int) -> torch.Tensor:
    LOG.append(("down", n))
    if n == 0:
        front.graph_break()
        return x + 1
    y = down(x * 2, n - 1)
    LOG.append(("up", n))
    return y + n


def breaking_at_each(x: torch.Tensor, n: int) -> torch.Tensor:
    LOG.append(n)
    y = x * 2
    front.graph_break()
    return breaking_at_each(y, n - 1) + 1 if n else y


def handling(x: torch.Tensor, n: int) -> torch.Tensor:
    if n == 0:
        front.graph_break()
        return x
    try:
        y = handling(x + 1, n - 1)
    except RecursionError:
        LOG.append(("caught", n))
        return x * n
    return y * 2


def delegating(x: torch.Tensor, n: int) -> torch.Tensor:
    def pieces(k: int) -> Iterator[torch.Tensor]:
        yield x * k
        if k:
            front.graph_break()
            yield from pieces(k - 1)

    total = x
    for piece in pieces(n):
        LOG.append("piece")
        total = total + piece
    return total


def sorting(x: torch.Tensor, n: int) -> torch.Tensor:
    if n == 0:
        front.graph_break()
        return x

    def key(k: float) -> float:
        LOG.append(n)
        return float(sorting(x * k, n - 1).sum())

    return x * sorted([1.0], key=key)[0]


class Nested(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.child = Nested(n - 1) if n else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        LOG.append("forward")
        if self.child is None:
            front.graph_break()
            return x * 2
        return self.child(x + 1) * 2  # type: ignore[no-any-return]


NESTED = Nested(8)


def through_modules(x: torch.Tensor, n: int) -> torch.Tensor:
    return NESTED(x)  # type: ignore[no-any-return]


def without_a_break(x: torch.Tensor, n: int) -> torch.Tensor:
    return without_a_break(x + 1, n - 1) * 2 if n else x


RECURSIONS = [down, breaking_at_each, handling, delegating, sorting, through_modules, without_a_break]


def levels() -> int:
    """Of recursion, as CPython counts them: the lowest limit that may be set."""
    before = sys.getrecursionlimit()
    for limit in range(1, before):
        with contextlib.suppress(RecursionError):
            sys.setrecursionlimit(limit)
            sys.setrecursionlimit(before)
            return limit
    raise AssertionError("there is no limit")


def with_limit(function: Callable[..., Any], limit: int) -> str:
    LOG.clear()
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(limit)
    try:
        result: Any = function(X, 8).tolist()
    except RecursionError as error:
        result = str(error)
    finally:
        sys.setrecursionlimit(before)
    return "\n".join(map(repr, [result, *LOG]))


@pytest.mark.parametrize("program", RECURSIONS)
def test_recursion_ends_at_eagers_level(program: Callable[..., Any]) -> None:
    """At each limit the same calls come to pass, before and after there is something captured."""
    limits = range(levels() + 1, levels() + 50)
    for _ in range(50):  # until CPython has specialised the code
        program(X, 8)
    expected = []
    for limit in limits:
        expected.append(with_limit(program, limit))  # noqa: PERF401  a comprehension would be one level more
    assert len(set(expected)) > 1
    new = front.compile(program, backend="eager")
    for limit, text in zip(limits, expected, strict=True):
        assert with_limit(new, limit) == text, limit
    known = front.compile(program, backend="eager")
    for _ in range(3):
        known(X, 8)
    for limit, text in zip(limits, expected, strict=True):
        assert with_limit(known, limit) == text, limit
    with gramme.meter() as meter:
        known(X, 8)
    assert meter.graphs > 0


def test_nothing_is_captured_close_to_the_limit() -> None:
    """A capture takes levels that the program does not."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1

    compiled = front.compile(function, backend="eager")
    before = sys.getrecursionlimit()
    for more in (30, 60, 120, 240):
        sys.setrecursionlimit(levels() + more)
        try:
            assert torch.equal(compiled(X), function(X))
        finally:
            sys.setrecursionlimit(before)
        assert gramme.statistics(compiled).segments == 0
    compiled(X)
    assert gramme.statistics(compiled).segments == 1
