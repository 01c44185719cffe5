"""Programs with NumPy's arrays do under gramme what they do eagerly, in as many graphs as they say."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import gramme
import numpy as np
import pytest
import torch
from gramme import _numpy

from arrays import Program, programs
from arrays.outcomes import Counting, difference, observe


@pytest.fixture(autouse=True)
def strict(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(_numpy, "_strict", True)
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.mark.parametrize("program", programs(), ids=lambda p: p.name)
def test_does_what_it_does_eagerly_in_so_many_graphs(program: Program) -> None:
    backend = Counting()
    seen = observe(gramme.compile(program.function, backend=backend), program)
    assert difference(observe(program.function, program), seen) == ""
    if program.graphs:
        assert backend.graphs == program.graphs, program.why


@pytest.mark.parametrize("backend", ["native", "aot_eager"])
@pytest.mark.parametrize("program", programs(), ids=lambda p: p.name)
def test_does_what_it_does_eagerly_under(program: Program, backend: str) -> None:
    compiled = gramme.compile(program.function, backend=backend)
    assert difference(observe(program.function, program), observe(compiled, program)) == ""


@pytest.mark.parametrize("program", [p for p in programs() if p.graphs == 1], ids=lambda p: p.name)
def test_sizes_vary(program: Program) -> None:
    compiled = gramme.compile(program.function, backend="eager", dynamic=True)
    assert difference(observe(program.function, program), observe(compiled, program)) == ""


def test_one_capture_serves_all_sizes() -> None:
    backend = Counting()

    def f(a: Any, scale: float) -> Any:
        return (a - a.mean(axis=0)) * scale, a.shape, np_zeros(a.shape[0])

    compiled = gramme.compile(f, backend=backend)
    for rows in (3, 4, 5, 6, 7):
        a = make(rows)
        got, expected = compiled(a, rows / 2), f(a, rows / 2)
        assert np.allclose(got[0], expected[0])
        assert got[1:2] == expected[1:2]
        assert got[2].shape == (rows,)
    assert backend.graphs == 2


def make(rows: int) -> Any:
    return np.random.default_rng(rows).standard_normal((rows, 2))


def np_zeros(n: int) -> Any:
    return np.zeros(n)


def test_another_type_or_flag_is_another_capture() -> None:
    backend = Counting()
    compiled: Callable[..., Any] = gramme.compile(lambda a: np.square(a), backend=backend, dynamic=False)
    a = np.ones((2, 3))
    frozen = a.copy()
    frozen.flags.writeable = False
    for x in (a, a.astype("f4"), a.T, frozen, np.ones((2, 4)), a, a.T, frozen):
        assert compiled(x).dtype == x.dtype
        assert compiled(x).strides == np.square(x).strides
    assert backend.graphs == 5


def test_trace_numpy_is_honoured() -> None:
    backend = Counting()
    with torch._dynamo.config.patch(trace_numpy=False):
        assert gramme.compile(lambda a: np.square(a), backend=backend)(np.ones(2)).tolist() == [1, 1]
    assert backend.graphs == 0


def test_values_raise_where_numpy_is_told_so() -> None:
    def divided(a: Any) -> Any:
        return 1 / a

    backend = Counting()
    compiled = gramme.compile(divided, backend=backend)
    a = np.array([0.0, 1.0])
    with np.errstate(divide="ignore"):
        assert compiled(a)[0] == np.inf
    for _ in range(2):
        with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
            compiled(a)
    with np.errstate(all="ignore"):
        assert compiled(a)[0] == np.inf
    assert backend.graphs


def test_programs_without_arrays_import_no_table_of_numpy() -> None:
    code = "import gramme, torch, sys; gramme.compile(lambda x: x + 1, backend='eager')(torch.ones(2)); "
    code += "assert 'gramme._numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
