"""The option exact_numpy: results have NumPy's own bits, since the graph holds NumPy's calls."""

from collections.abc import Iterator
from typing import Any

import gramme
import numpy as np
import pytest
import torch
from gramme import _C, _numpy

from arrays import Program, floats, programs
from arrays.outcomes import observe
from arrays.test_random import program as random_program


@pytest.fixture(autouse=True)
def strict(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(_numpy, "_strict", True)
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def targets_of(function: Any, *calls: tuple[Any, ...]) -> list[list[str]]:
    """By graph, the names of what the nodes call; the calls give what they give eagerly."""
    graphs = []

    def backend(graph_module: torch.fx.GraphModule, _: list[Any]) -> Any:
        nodes = [node for node in graph_module.graph.nodes if node.op == "call_function"]
        graphs.append([getattr(node.target, "__name__", str(node.target)) for node in nodes])
        return graph_module.forward

    how = {"backend": backend, "fullgraph": False, "recompile_limit": None, "keep_graphs": False}
    compiled = _C.make_entry(function, contract="eager", exact_numpy=True, **how)
    for args in calls:
        np.testing.assert_array_equal(compiled(*args), function(*args), strict=True)
    return graphs


def compare(program: Program, compiled: Any) -> None:
    for expected, seen in zip(observe(program.function, program), observe(compiled, program), strict=True):
        assert seen.shown == expected.shown
        assert seen.shared() == expected.shared()
        for a, b in zip(expected.arrays, seen.arrays, strict=True):
            np.testing.assert_array_equal(b, a, strict=True)


@pytest.mark.sampled(80)
@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("program", programs(), ids=lambda p: p.name)
def test_bits_are_those_of_numpy(program: Program, backend: str) -> None:
    compare(program, gramme.compile(program.function, backend=backend, options={"exact_numpy": True}))


@pytest.mark.sampled(40)
@pytest.mark.parametrize("seed", range(400))
def test_writes_are_seen(seed: int) -> None:
    drawn = random_program(seed)
    try:
        observe(drawn.function, drawn, 1)
    except (ValueError, RuntimeError):  # a read-only array is written, or a tensor whose elements share memory
        return
    compare(drawn, gramme.compile(drawn.function, backend="eager", options={"exact_numpy": True}))


def test_nodes_are_numpys_calls() -> None:
    def f(a: Any, x: float) -> Any:
        b = np.sin(a) * x
        b += a.mean(axis=0)
        return b[1:].T

    graphs = targets_of(f, *((floats(n, 3, 4), n + 0.5) for n in range(4)))
    exact = [target for target in graphs[0] if target.startswith("exact_")]
    assert exact == ["exact_sin", "exact___mul__", "exact_mean", "exact___iadd__"]
    assert len(graphs) == 2  # the number varies


def test_another_size_is_another_graph() -> None:
    graphs = targets_of(lambda a: np.exp(a) + 1, *((floats(n, n),) for n in (2, 3, 4, 3, 2)))
    assert all(names == ["exact_exp", "exact___add__"] for names in graphs)


def test_numbers_are_of_numpys_types() -> None:
    def f(a: Any) -> Any:
        m = a.sum()
        return m, m / 3, np.float32(m), np.sqrt(m * m)

    a = floats(0, 5, dtype=np.float32)
    found = gramme.compile(f, backend="native", options={"exact_numpy": True})(a)
    assert [(type(x), x) for x in found] == [(type(x), x) for x in f(a)]


def test_errors_are_numpys() -> None:
    compiled = gramme.compile(lambda a, i: a[i] * 2, backend="eager", options={"exact_numpy": True})
    a = floats(0, 4)
    assert compiled(a, np.array([0, 1])).tolist() == (a[:2] * 2).tolist()
    with pytest.raises(IndexError):
        compiled(a, np.array([0, 9]))


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_the_option_is_a_bool(backend: str) -> None:
    with pytest.raises(TypeError, match="options: exact_numpy: expected a bool, got int"):
        gramme.compile(lambda a: a, backend=backend, options={"exact_numpy": 1})
