"""What the evaluator does besides instructions: signals, threads, recursion, tracing, references."""

import ctypes
import gc
import signal
import sys
import threading
import time
import tracemalloc
from typing import Any

import pytest
from sampling import steady

from frames import programs
from frames.support import native, observe, stepping


def forever(flag):
    n = 0
    while flag:
        n += 1
    return n


def forever_calling(flag):
    while True:
        flag.append(len(flag))
        if len(flag) > 1 << 30:
            break


def forever_for(flag):
    for _ in iter(int, 1):
        pass


class Alarm(Exception):
    pass


@pytest.mark.parametrize("function", [forever, forever_calling, forever_for])
def test_signals_reach_loops(function: Any) -> None:
    def ring(number: int, frame: Any) -> None:
        names.append(frame.f_code.co_name)
        raise Alarm

    names: list[str] = []
    previous = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(Alarm) as caught:
            stepping(function)([1])
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert names == [function.__name__]
    entry = caught.traceback[1]
    first = function.__code__.co_firstlineno
    assert entry.name == function.__name__
    assert entry.lineno >= first


def handles_alarm():
    n = 0
    try:
        while True:
            n += 1
    except Alarm:
        return "handled"


def test_signal_caught_in_the_frame() -> None:
    def ring(number: int, frame: Any) -> None:
        raise Alarm

    previous = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        assert stepping(handles_alarm)() == "handled"
    finally:
        signal.signal(signal.SIGALRM, previous)


def test_other_threads_run() -> None:
    flag = [1]
    thread = threading.Thread(target=lambda: (time.sleep(0.05), flag.clear()))
    thread.start()
    assert stepping(forever)(flag) > 0
    thread.join()


def test_asynchronous_exception() -> None:
    caught: list[str] = []

    def run() -> None:
        try:
            stepping(forever)([1])
        except Alarm:
            caught.append("alarm")

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.05)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(Alarm))
    thread.join(10)
    assert caught == ["alarm"]


def test_threads_share_an_entry() -> None:
    def work(n):
        total = 0
        for i in range(n):
            total += len(str(i))
        return total

    entry = stepping(work)
    results: list[int] = []
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=lambda: results.append(entry(300))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert results == [work(300)] * 8


def depth(function: Any) -> tuple[int, str]:
    """How deep it recurses, and what the RecursionError says."""
    levels = [0]
    try:
        function(function, levels)
    except RecursionError as error:
        return levels[0], str(error)
    return -1, ""


def dive(self, levels):
    levels[0] += 1
    self(self, levels)


def test_recursion_limit() -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(400)
    try:
        assert depth(stepping(dive)) == depth(dive)
        assert depth(stepping(dive, into_callees=True)) == depth(dive)
        assert depth(dive)[0] > 100
    finally:
        sys.setrecursionlimit(limit)


def starts_tracing(events):
    def trace(frame, event, arg):
        events.append((frame.f_code.co_name, event, frame.f_lineno - frame.f_code.co_firstlineno))
        return trace

    sys.settrace(trace)
    sys._getframe().f_trace = trace
    a = 1
    b = [a, len([a])]
    sys.settrace(None)
    return b


def test_tracing_switched_on_inside() -> None:
    plain: list[Any] = []
    seen: list[Any] = []
    before = sys.gettrace()
    try:
        assert starts_tracing(plain) == stepping(starts_tracing)(seen)
    finally:
        sys.settrace(before)
    assert seen == plain
    assert plain


def test_traced_calls_run_plainly() -> None:
    events: list[str] = []
    entry = stepping(programs.for_loop)
    before = sys.gettrace()
    sys.settrace(lambda frame, event, arg: events.append(frame.f_code.co_name))
    try:
        entry()
    finally:
        sys.settrace(before)
    assert "for_loop" in events
    assert native.counters(entry)["plain"] == 1


def test_profiled_calls_run_plainly() -> None:
    entry = stepping(programs.for_loop)
    before = sys.getprofile()
    sys.setprofile(lambda *_: None)
    try:
        entry()
    finally:
        sys.setprofile(before)
    assert native.counters(entry)["plain"] == 1


def test_frame_object_outlives_the_run() -> None:
    def f(x):
        y = [x]
        return sys._getframe()

    frame = stepping(f)(3)
    assert frame.f_locals == {"x": 3, "y": [3]}
    assert frame.f_code is f.__code__
    assert frame.f_lineno == f.__code__.co_firstlineno + 2


def test_finalizer_during_binding_runs_the_same_function() -> None:
    """A collection while arguments are bound may run anything, the function itself included."""
    calls: list[int] = []

    def f(*args, **kwargs):
        calls.append(len(args))
        return args

    class Cycle:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            f(1, 2, 3)

    entry = stepping(f)
    threshold = gc.get_threshold()
    try:
        for n in range(200):
            Cycle()
            gc.set_threshold(1)
            assert entry(n, k=1) == (n,)
            gc.set_threshold(*threshold)
    finally:
        gc.set_threshold(*threshold)
    gc.collect()
    assert calls.count(1) == 200
    assert calls.count(3) == 200


LEAKY = [name for name in programs.PROGRAMS if name not in ("imports", "import_missing_module")]


@pytest.mark.parametrize("options", [{}, {"into_callees": True}, {"visit": lambda *stack: ()}], ids=steady)
def test_no_reference_drift(options: dict[str, Any], soak: bool) -> None:
    """Allocated blocks do not grow over repeated runs; a leak of one object a run would add `rounds` of them."""
    rounds = 10_000 if soak else 150
    entries = [stepping(programs.PROGRAMS[name], **options) for name in LEAKY]

    def run(times: int) -> None:
        for entry in entries:
            for _ in range(times):
                programs.SEEN.clear()
                if entry.__wrapped__ is programs.module_body:
                    names = programs.module_body.__globals__
                    for name in set(names) - {"__builtins__", "log", "__name__"}:
                        del names[name]
                try:
                    entry()
                except Exception:  # noqa: S110
                    pass
        programs.SEEN.clear()
        gc.collect()

    def growth() -> int:
        before = sys.getallocatedblocks()
        run(rounds)
        return sys.getallocatedblocks() - before

    run(3)
    assert any(growth() < rounds // 2 for _ in range(3))  # what others keep after their tests may grow once


def test_operands_are_released_in_order() -> None:
    expected = observe(programs.lifetimes)
    assert observe(stepping(programs.lifetimes)) == expected
    assert not tracemalloc.is_tracing()


@pytest.mark.slow
def test_next_to_dynamo() -> None:
    """PyTorch's Dynamo hooks the evaluator too: each nests in the other, and its hook is there again afterwards."""
    import torch

    def scaled(x):
        return x * 2 + 1

    def outer(x):
        try:
            return compiled(x) + compiled(x)
        finally:
            programs.log("done")

    compiled = torch.compile(scaled, backend="eager")
    entry = stepping(outer, into_callees=True)
    x = torch.arange(3.0)
    for _ in range(3):
        assert torch.equal(entry(x), scaled(x) * 2)
    around = torch.compile(lambda x: entry(x) + scaled(x), backend="eager")
    for _ in range(3):
        assert torch.equal(around(x), scaled(x) * 3)
    assert torch.equal(compiled(x), scaled(x))
