"""gramme_native behind PyTorch's own front end: by function, by name, with fixed and with symbolic shapes."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import gramme
import pytest
import torch
from torch import nn

from native.corpus import CORPUS
from native.same import difference, outcome

native: Any = gramme._C.native


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    torch._dynamo.reset()


class Kept:
    """gramme_native, with the graphs that it was given and what it made of them."""

    def __init__(self) -> None:
        self.modules: list[torch.fx.GraphModule] = []
        self.graphs: list[Any] = []

    def __call__(self, module: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        self.modules.append(module)
        self.graphs.append(gramme.gramme_native(module, inputs))
        return self.graphs[-1]

    def count(self, what: str) -> list[int]:
        return [native.counters(graph)[what] for graph in self.graphs]


@pytest.mark.slow
@pytest.mark.parametrize("train", [False, True], ids=["no_grad", "training"])
@pytest.mark.parametrize("name", ["one_addition", "list_of_linears", "decoder", "convnet", "hundred_arguments"])
def test_corpus(name: str, train: bool) -> None:
    torch.manual_seed(0)
    function, args = CORPUS[name]()
    module = function if isinstance(function, nn.Module) else nn.Module()
    module.train(train)
    state = {key: value.clone() for key, value in module.state_dict().items()}
    backend = Kept()
    compiled = torch.compile(function, backend=backend)
    leaves = [*module.parameters(), *args]
    for seed in range(3):
        found = []
        for call in (function, compiled):
            module.load_state_dict(state)
            with torch.set_grad_enabled(train):
                found.append(outcome(call, args, seed, leaves))
        assert difference(*found) is None, f"call {seed}: {difference(*found)}"
    assert backend.count("recorded") == [1]
    assert backend.count("python") == [0]
    assert backend.count("stepwise") == [0]


def f(x: torch.Tensor) -> torch.Tensor:
    return (x.reshape(-1, 2) @ torch.ones(2, 2)).sum(0) * x.shape[0] + x.view(x.shape[0] * 4).mean()


def shapes(*sizes: int) -> list[torch.Tensor]:
    return [torch.arange(size * 4.0).reshape(size, 4) for size in sizes]


def test_two_shapes_are_two_recordings() -> None:
    """One graph each, since nothing is dynamic."""
    backend = Kept()
    compiled = torch.compile(f, backend=backend, dynamic=False)
    for x in shapes(3, 5, 3, 5):
        assert torch.equal(compiled(x), f(x))
    assert backend.count("recorded") == [1, 1]
    assert backend.count("calls") == [2, 2]


@pytest.mark.parametrize("how", ["dynamic", "marked"])
def test_symbolic_shapes(how: str) -> None:
    """One graph for all: sizes arrive as ints, and every size is right, those too that no recording is left for."""
    backend = Kept()
    compiled = torch.compile(f, backend=backend, dynamic=True if how == "dynamic" else None)
    for x in shapes(3, 5, 7, 3, *range(8, 20), 5):
        if how == "marked":
            torch._dynamo.mark_dynamic(x, 0)
        assert torch.equal(compiled(x), f(x))
    assert len(backend.graphs) == 1
    placeholders = [node for node in backend.modules[0].graph.nodes if node.op == "placeholder"]
    assert any(isinstance(node.meta["example_value"], torch.SymInt) for node in placeholders)


def test_shapes_become_symbolic() -> None:
    """As by default: the second shape makes them so."""
    backend = Kept()
    compiled = torch.compile(f, backend=backend)
    for x in shapes(3, 5, 7, 9, 3):
        assert torch.equal(compiled(x), f(x))
    assert len(backend.graphs) == 2


def test_ints_and_floats_of_the_program() -> None:
    """Numbers that change become symbolic inputs, which do not lie in any recording."""

    def g(x: torch.Tensor, n: int, scale: float) -> torch.Tensor:
        return x[:n] * scale + n

    compiled = torch.compile(g, backend=gramme.gramme_native)
    x = torch.arange(20.0)
    for n, scale in ((3, 0.5), (4, 0.25), (9, 2.0), (4, 3.5), (9, 0.125)):
        assert torch.equal(compiled(x, n, scale), g(x, n, scale))


def test_parameters_written_between_calls() -> None:
    module = nn.Linear(4, 4)
    x = torch.ones(2, 4)
    compiled = torch.compile(module, backend=gramme.gramme_native)
    for scale in (1.0, 2.0, 3.0):
        with torch.no_grad():
            module.weight.mul_(scale)
        assert torch.equal(compiled(x), module(x))


def test_breaks_of_the_front_end() -> None:
    def g(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        torch._dynamo.graph_break()
        return y.sin() + x

    backend = Kept()
    compiled = torch.compile(g, backend=backend)
    for x in shapes(3, 3):
        assert torch.equal(compiled(x), g(x))
    assert backend.count("recorded") == [1, 1]


BY_NAME = """
import torch, torch._dynamo, sys
assert "gramme" not in sys.modules
assert "gramme_native" in torch._dynamo.list_backends()
f = torch.compile(lambda x: x.sin() + 1, backend="gramme_native")
x = torch.ones(3)
assert torch.equal(f(x), x.sin() + 1)
assert torch.equal(f(x + 1), (x + 1).sin() + 1)
assert "gramme" in sys.modules
"""


@pytest.mark.slow
def test_by_name_without_importing_gramme() -> None:
    run = subprocess.run([sys.executable, "-c", BY_NAME], capture_output=True, text=True, check=False, cwd="/")
    assert run.returncode == 0, run.stderr


def test_numbers_that_outgrow_64_bits() -> None:
    function = torch.compile(lambda x, v: (x * v, v + 1), backend="gramme_native")
    for v in (1, 2, 3, 2**62, 2**63 - 1, 2**63, 4):
        product, number = function(torch.ones(1), v)
        assert number == v + 1
        assert torch.equal(product, torch.ones(1) * v)
