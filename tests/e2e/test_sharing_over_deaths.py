"""Entries that the collector frees, with what they compiled, and what later entries of equal code take of them."""

import gc
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import gramme
import pytest
import torch
from torch import nn

from e2e.front import GRAMME

pytestmark = pytest.mark.skipif(not GRAMME, reason="gramme's own")

X = torch.linspace(-1, 1, 8).reshape(2, 4)


class Layer(nn.Module):
    """Holds what compiles it, so only the collector frees it."""

    def __init__(self, backend: Any, held: Any = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inner = nn.Linear(4, 4)
        self.holds = [gramme.compile(self, backend=backend), held]

    def forward(self, x: torch.Tensor) -> Any:
        y = self.inner(x).sin()
        return y * 2 if x.sum() > 10 else y

    def run(self, x: torch.Tensor = X) -> torch.Tensor:
        return self.holds[0](x)  # type: ignore[no-any-return]


@pytest.fixture(autouse=True)
def collections_when_asked() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def closing(graph: Any, inputs: Any) -> Any:
    """A backend of the program's, whose result is part of a cycle."""

    def run(*args: Any) -> Any:
        return graph(*args) if run.itself is run else None  # type: ignore[attr-defined]

    run.itself = run  # type: ignore[attr-defined]
    return run


BACKENDS = ["eager", "native", "aot_eager", closing]


def expected() -> torch.Tensor:
    layer = Layer("eager")
    return layer(X)


@pytest.mark.parametrize("backend", BACKENDS)
def test_later_entries_run_what_was_kept(backend: Any) -> None:
    for _ in range(4):
        layer = Layer(backend)
        assert torch.equal(layer.run(), expected())
        assert torch.equal(layer.run(), expected())
        del layer
        gc.collect()


@pytest.mark.parametrize("backend", BACKENDS)
def test_entries_that_live_keep_what_they_took(backend: Any) -> None:
    first = Layer(backend)
    first.run()
    second = Layer(backend)
    second.run()
    del first
    gc.collect()
    assert torch.equal(second.run(), expected())
    assert torch.equal(Layer(backend).run(), expected())


class Finalized:
    def __init__(self, then: Any) -> None:
        self.then = then

    def __del__(self) -> None:
        self.then()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_finalizer_runs_equal_code_while_an_entry_dies(backend: Any) -> None:
    results, born = [], []

    def then() -> None:
        born.append(Layer(backend))
        results.append(born[0].run())

    layer = Layer(backend, Finalized(then))
    layer.run()
    del layer
    gc.collect()
    gc.collect()
    results.append(born[0].run())
    assert len(results) == 2
    assert all(torch.equal(result, expected()) for result in results)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_entry_that_a_finalizer_saves(backend: Any) -> None:
    saved: list[Any] = []

    def make() -> None:
        held: list[Any] = []
        held.append(Layer(backend, Finalized(lambda: saved.extend(held))))
        held[0].run()

    make()
    gc.collect()
    assert torch.equal(saved[0].run(), expected())
    assert torch.equal(Layer(backend).run(), expected())
    saved.clear()
    gc.collect()
    assert torch.equal(Layer(backend).run(), expected())


def test_what_is_kept_holds_no_model() -> None:
    for _ in range(3):
        Layer("native").run()
    gc.collect()
    gc.collect()
    assert not [each for each in gc.get_objects() if type(each) is Layer]


AT_THE_END = """
import gramme, torch
count = [0]
def backend(module, inputs):
    count[0] += 1
    return module.forward
model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
for front in (torch.compile, gramme.compile):
    compiled = front(model, backend=backend)
    for _ in range(3):
        saved = []
        hook = model[1].register_forward_hook(lambda module, inputs, output: saved.append(output))
        compiled(torch.ones(1, 2))
        hook.remove()
"""


def test_a_backend_that_dies_with_the_interpreter() -> None:
    done = subprocess.run([sys.executable, "-c", AT_THE_END], capture_output=True, text=True, timeout=120, check=True)
    assert [line for line in done.stderr.splitlines() if "triton not found" not in line] == []  # torch 2.14 logs it
