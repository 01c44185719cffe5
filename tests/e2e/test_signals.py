"""A signal that arrives while gramme works: what its handler raises reaches the program, whatever it is and wherever it
comes, and leaves nothing behind. Random moments are tried by `signals.py` in processes of its own."""

import contextlib
import functools
import logging
import operator
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from gramme._logging import LOGGERS
from sampling import SEED
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from e2e import front
from e2e.signals import Late

pytestmark = pytest.mark.skipif(not front.GRAMME, reason="where gramme's own work is interrupted")

NUMBER = signal.SIGUSR1
LOG: list[str] = []


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (NUMBER, signal.SIGALRM)}
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number, handler in before.items():
        signal.signal(number, handler)


def struck(seed: int, count: int, *backends: str) -> None:
    child = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "e2e.signals", str(seed), str(count), *backends],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert child.returncode == 0, child.stdout + child.stderr


def test_signals_at_random_moments() -> None:
    struck(int(SEED), 60, "native", "eager", "aot_eager")


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["native", "eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("part", range(5))
def test_many_signals(backend: str, part: int, soak: bool) -> None:
    """2,000 in a soak."""
    if not soak:
        pytest.skip("in a soak")
    struck(1000 * int(SEED) + part, 20 if backend == "inductor" else 130, backend)


def at_inferences(monkeypatch: pytest.MonkeyPatch, strike: Callable[[], None]) -> list[int]:
    """Calls it in each inference; the list counts them."""
    dispatch, count = FakeTensorMode.dispatch, [0]

    def counted(*args: Any, **kwargs: Any) -> Any:
        count[0] += 1
        strike()
        return dispatch(*args, **kwargs)

    monkeypatch.setattr(FakeTensorMode, "dispatch", counted)
    return count


KINDS = [KeyboardInterrupt, SystemExit, TimeoutError, Late, AssertionError]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_inferred_stays(kind: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    """A capture that each inference interrupts comes to its end: no inference is made twice."""
    width = KINDS.index(kind) + 31

    def handler(number: int, frame: Any) -> None:
        raise kind("late")

    signal.signal(NUMBER, handler)
    at_inferences(monkeypatch, lambda: signal.raise_signal(NUMBER))
    model, x = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width)), torch.randn(width + 9, width)
    compiled, interrupted = front.compile(model, backend="native"), 0
    while interrupted < 40:
        try:
            result = compiled(x)
            break
        except kind as error:
            assert str(error) == "late"  # noqa: PT017
            interrupted += 1
    assert 0 < interrupted < 40
    assert torch.allclose(result, model(x))


HANDLERS: dict[str, tuple[Any, type[BaseException]]] = {
    "partial": (functools.partial(operator.truediv, 1), TypeError),
    "type": (int, TypeError),
    "lambda": (lambda number, frame: [][number], IndexError),
    "default": (signal.default_int_handler, KeyboardInterrupt),
}


@pytest.mark.parametrize("name", HANDLERS)
def test_handlers_in_c(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be no frame of the handler by which to tell its exception."""
    handler, kind = HANDLERS[name]
    signal.signal(NUMBER, handler)
    at_inferences(monkeypatch, lambda: signal.raise_signal(NUMBER))
    x = torch.ones(53 + list(HANDLERS).index(name), 3)
    compiled = front.compile(lambda x: (x.cosh() + 1).logsumexp(0), backend="native")
    with pytest.raises(kind):
        compiled(x)
    signal.signal(NUMBER, signal.SIG_IGN)
    assert torch.equal(compiled(x), (x.cosh() + 1).logsumexp(0))


def long(x: torch.Tensor) -> torch.Tensor:
    y = x
    for _ in range(60):
        y = (y @ x).tanh()
    LOG.append("behind")
    return y


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("kind", [KeyboardInterrupt, TimeoutError])
def test_a_long_run_ends_early(kind: type[BaseException], training: bool) -> None:
    """The tape's later effects do not come about."""
    x = torch.randn(200, 200).mul_(0.01).requires_grad_(training)
    compiled = front.compile(long, backend="native")
    for _ in range(3):
        compiled(x)
    LOG.clear()

    def handler(number: int, frame: Any) -> None:
        raise kind("late")

    signal.signal(signal.SIGALRM, handler)

    def call() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.002)
        compiled(x)

    with pytest.raises(kind, match="late"):
        call()
    assert LOG == []
    assert torch.equal(compiled(x), long(x))


@pytest.mark.usefixtures("one_thread")
def test_a_handler_computes_in_the_programs_modes() -> None:
    """In the middle of a tape, which runs below autograd."""
    x = torch.randn(200, 200).mul_(0.01).requires_grad_()
    compiled = front.compile(long, backend="native")
    for _ in range(3):
        expected = compiled(x)
    found: list[Any] = []

    def handler(number: int, frame: Any) -> None:
        y = (x * 2).sum()
        found.extend([y.requires_grad, torch.is_grad_enabled(), torch.autograd.grad(y, x)[0].mean().item()])

    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.002)
    result = compiled(x)
    while not found:
        pass
    assert found == [True, True, 2.0]
    assert torch.equal(result, expected)


def test_a_backend_may_set_handlers() -> None:
    """It is the program's code: on the main thread, and handlers run in it."""
    told: list[int] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        signal.signal(NUMBER, lambda number, frame: told.append(number))
        signal.raise_signal(NUMBER)
        assert told == [NUMBER]
        return graph.forward

    x = torch.ones(3)
    assert torch.equal(front.compile(lambda x: x.sin() + 1, backend=backend)(x), x.sin() + 1)
    signal.raise_signal(NUMBER)
    assert told == [NUMBER, NUMBER]


# ---- compilers of PyTorch catch exceptions


class Raising:
    def __init__(self, kind: type[BaseException]) -> None:
        self.kind = kind

    def method(self, number: int, frame: Any) -> None:
        raise self.kind("late")

    def __call__(self, number: int, frame: Any) -> None:
        raise self.kind("late")


class Made:
    def __init__(self, number: int, frame: Any) -> None:
        raise Late("late")


class MadeByNew:
    def __new__(cls, number: int, frame: Any) -> "MadeByNew":
        raise Late("late")


class Meta(type):
    def __call__(cls, number: int, frame: Any) -> None:
        raise Late("late")


class OfMeta(metaclass=Meta):
    pass


class Static:
    @staticmethod
    def __call__(number: int, frame: Any) -> None:
        raise Late("late")


class OfClass:
    @classmethod
    def __call__(cls, number: int, frame: Any) -> None:
        raise Late("late")


class Through:
    __call__ = Raising(Late)


KEPT: dict[str, tuple[Any, type[BaseException]]] = {
    **HANDLERS,
    "class": (Made, Late),
    "class by __new__": (MadeByNew, Late),
    "class of a metaclass": (OfMeta, Late),
    "static method": (Static(), Late),
    "class method": (OfClass(), Late),
    "another object": (Through(), Late),
    "cached": (functools.lru_cache(Raising(Late).method), Late),
    "method": (Raising(TimeoutError).method, TimeoutError),
    "object": (Raising(Late), Late),
    "partial of Python's": (functools.partial(Raising(Late).method), Late),
    "KeyboardInterrupt": (Raising(KeyboardInterrupt), KeyboardInterrupt),
    "SystemExit": (Raising(SystemExit).method, SystemExit),
    "StopIteration": (Raising(StopIteration), StopIteration),
}


def swallowing() -> None:
    with contextlib.suppress(BaseException):
        signal.raise_signal(NUMBER)


def narrow() -> None:
    with contextlib.suppress(Exception):
        signal.raise_signal(NUMBER)


def wrapping() -> None:
    try:
        signal.raise_signal(NUMBER)
    except BaseException as error:  # noqa: BLE001  as compilers do
        raise RuntimeError("it does not compile") from error


COMPILERS = {
    "swallowing": swallowing,
    "narrow": narrow,
    "wrapping": wrapping,
    "bare": lambda: signal.raise_signal(NUMBER),
}


@pytest.fixture
def registered() -> Iterator[Callable[[Callable[[], Any]], str]]:
    """Makes a backend of PyTorch's registry that does something while it compiles."""
    from torch._dynamo.backends import registry

    def register(body: Callable[[], Any]) -> str:
        def struck(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
            LOG.append("compiles")
            body()
            LOG.append("compiled")
            return graph.forward

        registry.register_backend(struck, name="struck")
        return "struck"

    yield register
    registry._BACKENDS.pop("struck", None)
    registry._COMPILER_FNS.pop("struck", None)


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("name", KEPT)
def test_what_compilers_catch(name: str, compiler: str, registered: Callable[..., str]) -> None:
    """The program gets it, whatever the compiler makes of it, and an Exception costs no compile."""
    handler, kind = KEPT[name]
    signal.signal(NUMBER, handler)
    LOG.clear()
    compiled, x = front.compile(lambda x: x.sin() + 1, backend=registered(COMPILERS[compiler])), torch.ones(3)
    with pytest.raises(kind) as raised:
        compiled(x)
    assert type(raised.value) is kind
    assert signal.getsignal(NUMBER) is handler
    with pytest.raises(kind):
        handler(2, None)
    signal.signal(NUMBER, signal.SIG_IGN)
    assert torch.equal(compiled(x), x.sin() + 1)
    whole = issubclass(kind, Exception) or compiler in ("swallowing", "finalizer")
    assert LOG == ["compiles", "compiled"] if whole else ["compiles", "compiles", "compiled"]


@pytest.mark.parametrize("handler", [Made, OfMeta, Static(), Raising(Late), functools.lru_cache(Raising(Late).method)])
def test_other_calls_of_a_handler(handler: Callable[..., Any], registered: Callable[..., str]) -> None:
    """What a compiler calls by itself raises where it is called, also of classes that it makes of a handler's."""
    signal.signal(NUMBER, handler)

    def body() -> None:
        with pytest.raises(Late):
            handler("a", "b")
        if isinstance(handler, type):
            later.append(type(handler)("Later", (handler,), {}))
        elif isinstance(handler, Static):
            later.append(type("Later", (Static,), {})())
        for each in later:
            with pytest.raises(Late):
                each("a", "b")

    later: list[Callable[..., Any]] = []
    compiled, x = front.compile(lambda x: x.sin() + 1, backend=registered(body)), torch.ones(3)
    assert torch.equal(compiled(x), x.sin() + 1)
    for each in (handler, *later):
        with pytest.raises(Late):
            each(2, None)


def test_one_handler_after_another(registered: Callable[..., str]) -> None:
    """The last one's exception is raised, with the earlier ones as its context; the last one was set by the first."""
    found: list[str] = []

    def first(number: int, frame: Any) -> None:
        found.append("first")
        signal.signal(NUMBER, second)
        raise Late("first")

    def second(number: int, frame: Any) -> None:
        found.append("second")
        raise TimeoutError("second")

    def twice() -> None:
        narrow()
        narrow()

    signal.signal(NUMBER, first)
    compiled = front.compile(lambda x: x.sin() + 1, backend=registered(twice))
    with pytest.raises(TimeoutError, match="second") as raised:
        compiled(torch.ones(3))
    assert isinstance(raised.value.__context__, Late)
    assert found == ["first", "second"]
    with pytest.raises(TimeoutError):  # out of a compile it is called as ever
        signal.raise_signal(NUMBER)


def test_the_handler_stands_where_it_strikes(registered: Callable[..., str]) -> None:
    """It sees the frame, what it raises has its own traceback, and one that raises nothing changes nothing."""
    seen: list[str] = []

    def handler(number: int, frame: Any) -> None:
        seen.append(frame.f_code.co_name)
        if len(seen) == 2:
            raise Late("late")

    def twice() -> None:
        signal.raise_signal(NUMBER)
        signal.raise_signal(NUMBER)

    signal.signal(NUMBER, handler)
    compiled = front.compile(lambda x: x.sin() + 1, backend=registered(twice))
    with pytest.raises(Late) as raised:
        compiled(torch.ones(3))
    assert seen == ["twice", "twice"]
    assert [entry.name for entry in raised.traceback][-1] == "handler"
    assert torch.equal(compiled(torch.ones(3)), torch.ones(3).sin() + 1)


def test_the_program_handles_it_where_it_stands(registered: Callable[..., str]) -> None:
    def f(x: torch.Tensor) -> Any:
        try:
            front.graph_break()
            return x.sin() + 1
        except Late:
            return "caught"

    signal.signal(NUMBER, Raising(Late).method)
    compiled = front.compile(f, backend=registered(narrow))
    assert compiled(torch.ones(3)) == "caught"
    assert torch.equal(compiled(torch.ones(3)), f(torch.ones(3)))


def test_a_process_that_a_compiler_forks(registered: Callable[..., str]) -> None:
    """There it is raised where it strikes."""
    codes: list[int] = []

    def forking() -> None:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                signal.raise_signal(NUMBER)
            except Late:
                code = 0
            finally:
                os._exit(code)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    signal.signal(NUMBER, Raising(Late).method)
    compiled, x = front.compile(lambda x: x.sin() + 1, backend=registered(forking)), torch.ones(3)
    assert torch.equal(compiled(x), x.sin() + 1)
    assert codes == [0]


def test_a_backward_that_is_compiled_late() -> None:
    """It is compiled in the program's backward(), and compiled once."""
    from torch._dynamo.callback import CallbackArgs, CallbackTrigger, callback_handler

    came: list[str] = []

    def strike(args: CallbackArgs) -> None:
        if args.callback_trigger is CallbackTrigger.LAZY_BACKWARD:
            narrow()
            came.append("compiled")

    signal.signal(NUMBER, Raising(Late).method)
    compiled, x = front.compile(lambda x: (x * 2).tanh().sum(), backend="aot_eager"), torch.ones(3, requires_grad=True)
    callback_handler.register_start_callback(strike)
    try:
        y = compiled(x)
        with pytest.raises(Late):
            y.backward()
    finally:
        callback_handler.remove_start_callback(strike)
    assert came == ["compiled"]
    assert x.grad is None
    compiled(x).backward()
    assert x.grad is not None
    z = torch.ones(3, requires_grad=True)
    (z * 2).tanh().sum().backward()
    assert torch.equal(x.grad, z.grad)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, TimeoutError])
def test_a_report_is_interrupted(kind: type[BaseException]) -> None:
    """What is written to a logger is no place where an interrupt is dropped."""

    def handler(number: int, frame: Any) -> None:
        raise kind("late")

    class Interrupting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            signal.raise_signal(NUMBER)

    signal.signal(NUMBER, handler)
    listener = Interrupting()
    LOGGERS["guards"].addHandler(listener)
    torch._logging.set_logs(guards=True)  # type: ignore[attr-defined]
    try:
        compiled = front.compile(lambda x: x.sin() + 1, backend="native")
        with pytest.raises(kind, match="late"):
            compiled(torch.ones(3))
        assert torch.equal(compiled(torch.ones(3)), torch.ones(3).sin() + 1)
    finally:
        torch._logging.set_logs()  # type: ignore[attr-defined]
        LOGGERS["guards"].removeHandler(listener)
