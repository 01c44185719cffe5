"""Threads that call one natively compiled model at once, and others that replace its parameters meanwhile."""

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gramme
import pytest
import torch
from sampling import SOAK
from torch import nn

from native.corpus import CORPUS

SECONDS = 30.0 if SOAK else 0.5
THREADS = 8

pytestmark = [pytest.mark.timeout(300), *([pytest.mark.slow] if SOAK else [])]


@pytest.fixture(autouse=True)
def quick_switches() -> Iterator[None]:
    """Threads take turns every 10 microseconds, so that races show; operators run in one thread each."""
    gramme.reset()
    interval, threads = sys.getswitchinterval(), torch.get_num_threads()
    sys.setswitchinterval(1e-5)
    torch.set_num_threads(1)
    yield
    sys.setswitchinterval(interval)
    torch.set_num_threads(threads)
    gramme.reset()


def hammer(work: Callable[[int], Any], meanwhile: Callable[[], Any] | None = None, seconds: float = SECONDS) -> int:
    """Calls work(0), work(1), ... over and over, each in its thread, and `meanwhile` in this one; how many calls."""
    stop, start, done = threading.Event(), threading.Barrier(THREADS + 1), [0] * THREADS

    def run(i: int) -> None:
        torch.set_num_threads(1)
        start.wait(60)
        while not stop.is_set() or done[i] == 0:  # each has a turn, however busy the machine is
            work(i)
            done[i] += 1

    with ThreadPoolExecutor(THREADS) as pool:
        jobs = [pool.submit(run, i) for i in range(THREADS)]
        start.wait(60)
        end = time.monotonic() + seconds
        while time.monotonic() < end and not any(job.done() for job in jobs):
            if meanwhile is None:
                time.sleep(0.01)
            else:
                meanwhile()
        stop.set()
        for job in jobs:
            job.result(60)
    assert min(done) > 0
    return sum(done)


def inputs(i: int) -> torch.Tensor:
    return torch.randn(4, 16, generator=torch.Generator().manual_seed(i))


def model(depth: int = 4) -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), nn.GELU()) for _ in range(depth)]
    return nn.Sequential(*layers)


def test_one_model_without_gradients() -> None:
    eager = model()
    compiled = gramme.compile(eager, backend="native")
    xs = [inputs(i) for i in range(THREADS)]
    with torch.no_grad():
        expected = [eager(x) for x in xs]

    def work(i: int) -> None:
        with torch.no_grad():
            assert torch.equal(compiled(xs[i]), expected[i])

    hammer(work)
    assert gramme.statistics(compiled).captures == 1


def test_one_model_with_gradients() -> None:
    """Half of the threads ask for gradients: one recording for each mode."""
    eager = model()
    compiled = gramme.compile(eager, backend="native")
    xs = [inputs(i).requires_grad_() for i in range(THREADS)]
    expected = [eager(x) for x in xs]
    gradients = [torch.autograd.grad(y.sum(), x)[0] for x, y in zip(xs, expected, strict=True)]

    def work(i: int) -> None:
        with torch.set_grad_enabled(i % 2 == 0):
            y = compiled(xs[i])
        assert torch.equal(y, expected[i])
        if i % 2 == 0:
            assert torch.equal(torch.autograd.grad(y.sum(), xs[i])[0], gradients[i])

    hammer(work)
    assert gramme.statistics(compiled).captures <= 2


@pytest.mark.parametrize("name", ["decoder", "recurrent", "convnet", "chain"])
def test_corpus(name: str) -> None:
    torch.manual_seed(0)
    function, args = CORPUS[name]()
    if isinstance(function, nn.Module):
        function.eval()
    compiled = gramme.compile(function, backend="native")
    with torch.no_grad():
        expected = function(*args)

    def work(i: int) -> None:
        with torch.no_grad():
            found = compiled(*args)
        pairs = zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
        assert all(torch.equal(a, b) for a, b in pairs)

    hammer(work, seconds=SECONDS / 2)
    assert gramme.statistics(compiled).captures == 1


def test_shapes_and_errors_of_all_kinds() -> None:
    """Threads with other shapes record their own; what one raises is no business of the others."""

    def f(x, ids):
        return torch.nn.functional.embedding(ids, x) + x.sum()

    compiled = gramme.compile(f, backend="native")
    xs = [inputs(i)[: 2 + i % 3] for i in range(THREADS)]
    ids = [torch.tensor([0, 1 if i % 4 else 7]) for i in range(THREADS)]

    def work(i: int) -> None:
        if i % 4:
            assert torch.equal(compiled(xs[i], ids[i]), f(xs[i], ids[i]))
        else:
            with pytest.raises(IndexError, match="out of range"):
                compiled(xs[i], ids[i])

    hammer(work)
    assert gramme.statistics(compiled).captures <= 6


def test_a_graph_that_a_front_end_handed_over() -> None:
    """No guards stand before the tapes: they are found by the inputs, and recorded by several threads at once."""
    graph = torch.fx.symbolic_trace(model())
    call = gramme.gramme_native(graph, [])
    xs = [inputs(i)[: 1 + i % 4] for i in range(THREADS)]
    with torch.no_grad():
        expected = [graph(x) for x in xs]

    def work(i: int) -> None:
        with torch.set_grad_enabled(i % 2 == 0):
            (y,) = pytree_of(call(xs[i]))
        assert torch.equal(y, expected[i])

    hammer(work)
    assert gramme._C.native.counters(call)["recorded"] <= 8


def pytree_of(value: Any) -> list[Any]:
    return torch.utils._pytree.tree_leaves(value)


# ---- parameters replaced meanwhile: each result is that of one of the two


class Replaced:
    """A model of one weight that changes between two, and what it may give."""

    def __init__(self) -> None:
        self.module = nn.Linear(16, 16, bias=False)
        self.weights = [torch.randn(16, 16) for _ in range(2)]
        self.x = inputs(0)
        with torch.no_grad():
            self.module.weight.copy_(self.weights[0])
            self.allowed = [torch.tanh(nn.functional.linear(self.x, w) * 2) for w in self.weights]
        self.turn, self.replaced = 0, 0

        def f(x):
            return torch.tanh(self.module(x) * 2)

        self.compiled = gramme.compile(f, backend="native")

    def work(self, i: int) -> None:
        with torch.set_grad_enabled(i % 2 == 0):
            y = self.compiled(self.x)
        assert any(torch.equal(y, allowed) for allowed in self.allowed)

    def next(self) -> torch.Tensor:
        self.turn = 1 - self.turn
        self.replaced += 1
        return self.weights[self.turn]

    def check(self, replace: Callable[[], Any], captures: int) -> None:
        hammer(self.work, replace)
        assert self.replaced > 10
        assert gramme.statistics(self.compiled).captures <= captures
        self.work(0)


def test_data_replaced() -> None:
    case = Replaced()

    def replace() -> None:
        case.module.weight.data = case.next()

    case.check(replace, captures=2)


def test_data_of_its_own_replaced() -> None:
    """The memory that a run reads is given back by the thread that replaces it."""
    case = Replaced()

    def replace() -> None:
        case.module.weight = nn.Parameter(case.next().clone())

    case.check(replace, captures=16)


def test_parameters_set() -> None:
    case = Replaced()
    parameters = [nn.Parameter(w) for w in case.weights]

    def replace() -> None:
        case.next()
        case.module.weight = parameters[case.turn]

    case.check(replace, captures=16)


def test_tensors_swapped() -> None:
    """PyTorch refuses to swap a tensor that is in use; what it does not refuse does no harm."""
    case = Replaced()
    other = nn.Parameter(case.weights[1].clone())

    def replace() -> None:
        with contextlib.suppress(RuntimeError):
            torch.utils.swap_tensors(case.module.weight, other)
        time.sleep(1e-4)

    hammer(case.work, replace)
    assert gramme.statistics(case.compiled).captures <= 16
    case.work(0)


WAITS_WITH_A_LOCK = """
import sys, threading, time
import gramme, torch

sys.setswitchinterval(1e-5)
weight = torch.nn.Parameter(torch.randn(4, 4))
x = torch.randn(2, 4)
compiled = gramme.compile(lambda x: torch.nn.functional.linear(x, weight), backend="native")
compiled(x)
end = time.monotonic() + 2

def call():
    while time.monotonic() < end:
        compiled(x)

threads = [threading.Thread(target=call) for _ in range(3)]
for thread in threads:
    thread.start()
while time.monotonic() < end:
    accumulator = weight.view_as(weight).grad_fn.next_functions[0][0]
    weight.view_as(weight)
for thread in threads:
    thread.join()
print("ended")
"""


def test_autograd_waits_for_the_gil_with_a_lock_held() -> None:
    """Where the gradient accumulator is a Python object, autograd asks for the GIL while it has the tensor locked."""
    run = subprocess.run(
        [sys.executable, "-c", WAITS_WITH_A_LOCK], capture_output=True, text=True, timeout=120, check=True
    )
    assert run.stdout == "ended\n"
