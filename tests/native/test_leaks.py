"""What the native executor keeps: nothing of a model that is gone, of a recording that was dropped or that failed."""

import gc
import linecache
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import gramme
import pytest
import torch
from sampling import SOAK
from torch import nn

from native.corpus import CORPUS

native: Any = gramme._C.native


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    gramme.reset()
    gc.freeze()
    yield
    gramme.reset()


def objects() -> int:
    gramme.reset()
    linecache.clearcache()  # torch.fx keeps the source of each graph there
    gc.collect()
    return len(gc.get_objects())


@pytest.mark.parametrize("grad", [True, False], ids=["grad", "no_grad"])
@pytest.mark.parametrize("name", ["decoder", "list_of_linears", "recurrent", "convnet"])
def test_parameters_die_with_their_model(name: str, grad: bool) -> None:
    """At once: without the collector, though the compiled function was called and is still cached."""
    model, args = CORPUS[name]()
    compiled = gramme.compile(model, backend="native")
    with torch.set_grad_enabled(grad):
        for _ in range(3):
            compiled(*args)
    watched = [weakref.ref(p) for p in (*model.parameters(), *model.buffers())]
    gc.collect()
    gc.disable()
    try:
        del compiled, model
        assert not any(p() is not None for p in watched)
    finally:
        gc.enable()


def test_arguments_and_results_die_without_the_collector() -> None:
    model, _ = CORPUS["decoder"]()
    compiled = gramme.compile(model, backend="native")
    gc.disable()
    try:
        for _ in range(3):
            x = torch.randn(1, 4, 8)
            result = compiled(x)
            watched = [weakref.ref(x), weakref.ref(result)]
            del x, result
            assert [w() for w in watched] == [None, None]
    finally:
        gc.enable()


@pytest.mark.parametrize("grad", [True, False], ids=["grad", "no_grad"])
@pytest.mark.parametrize("name", ["decoder", "chain", "convnet"])
def test_recordings_leave_no_objects(name: str, grad: bool) -> None:
    def record() -> None:
        gramme.reset()
        function, args = CORPUS[name]()
        with torch.set_grad_enabled(grad):
            gramme.compile(function, backend="native")(*args)

    for _ in range(3):
        record()
    before = objects()
    for _ in range(500 if SOAK else 100 if name == "chain" else 20):
        record()
    assert objects() - before <= 5


def test_recordings_of_one_function_leave_no_references() -> None:
    """Neither to the inputs nor to what the graph holds."""
    weight, x = torch.randn(4, 4), torch.randn(3, 4)

    def f(x: torch.Tensor) -> torch.Tensor:
        return (x @ weight + 2).relu() * torch.tensor(3.0)

    def record() -> None:
        gramme.reset()
        for _ in range(2):
            gramme.compile(f, backend="native")(x)

    def counts() -> list[int]:
        gramme.reset()
        gc.collect()
        return [count for t in (weight, x) for count in (sys.getrefcount(t), t._use_count())]

    record()
    before = counts()
    for _ in range(100):
        record()
    assert counts() == before


@pytest.mark.parametrize("grad", [True, False], ids=["grad", "no_grad"])
def test_calls_leave_no_references(grad: bool) -> None:
    """Shared objects, the module, its parameters and the inputs, over many replays."""
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Dropout(0.5))
    compiled, x = gramme.compile(module, backend="native"), torch.randn(3, 4)
    watched = [None, True, 0, module, torch.Tensor, *module.parameters(), x]

    def many(times: int) -> list[int]:
        with torch.set_grad_enabled(grad):
            for _ in range(times):
                compiled(x)
        gc.collect()
        return [sys.getrefcount(o) for o in watched]

    many(10)
    before = many(10)
    drift = [a - b for a, b in zip(many(1000), before, strict=True)]
    assert all(abs(d) < 100 for d in drift[:3]), drift
    assert not any(drift[3:]), drift


def failing(kind: str) -> Callable[..., Any]:
    def embedded(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        y = x.exp() + 1
        return nn.functional.embedding(i, y)

    def factored(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        y = [x * 2, x * 3]
        return torch.linalg.cholesky(torch.stack(y) - 100)

    return {"embedded": embedded, "factored": factored}[kind]


@pytest.mark.parametrize("kind", ["embedded", "factored"])
@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "unguarded"])
def test_a_recording_that_raises_leaves_nothing(kind: str, guarded: bool) -> None:
    function = failing(kind)
    x, i = torch.eye(3).requires_grad_(), torch.tensor([7])
    graph = torch.fx.symbolic_trace(function)

    def fail() -> None:
        gramme.reset()
        call = gramme.compile(function, backend="native") if guarded else native.from_graph_module(graph)
        with pytest.raises((IndexError, RuntimeError)):
            call(x, i)
        if not guarded:
            assert native.counters(call)["recorded"] == 0

    def counts() -> tuple[int, ...]:
        return (objects(), sys.getrefcount(x), x._use_count(), sys.getrefcount(i), i._use_count())

    for _ in range(5):
        fail()
    before = counts()
    for _ in range(30):
        fail()
    after = counts()
    assert after[0] - before[0] <= 5
    assert after[1:] == before[1:]


def test_a_native_graph_in_a_cycle_is_collected() -> None:
    """A graph module that refers to its own native graph."""

    class Holder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x)

    module = torch.fx.symbolic_trace(Holder())
    call = native.from_graph_module(module)
    call(torch.ones(2, 3))
    module.native = call
    watched = [weakref.ref(module), weakref.ref(module.layer.weight)]
    del module, call
    gc.collect()
    assert [w() for w in watched] == [None, None]
