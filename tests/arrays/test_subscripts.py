"""Tensors looked up by NumPy's arrays: by what lies in their memory, or by a copy of other ints."""

from collections.abc import Callable
from typing import Any

import gramme
import numpy as np
import pytest
import torch
from e2e.against_eager import outcome

KEYS: dict[str, Callable[[], Any]] = {
    "int64": lambda: np.array([2, 0, -1]),
    "int32": lambda: np.array([2, 0], dtype=np.int32),
    "int16": lambda: np.array([1, 1, 1], dtype=np.int16),
    "int8": lambda: np.array([1, 2], dtype=np.int8),
    "uint8": lambda: np.array([1, 0, 1, 0], dtype=np.uint8),
    "bool": lambda: np.array([True, False, True, False]),
    "float": lambda: np.array([1.0, 2.0]),
    "complex": lambda: np.array([1j]),
    "empty": lambda: np.array([], dtype=np.int64),
    "0-dim": lambda: np.array(2),
    "2-dim": lambda: np.array([[0, 1], [3, 2]]),
    "reversed": lambda: np.arange(4)[::-1],
    "strided": lambda: np.arange(8)[::4],
    "read-only": lambda: np.broadcast_to(np.array([1]), (3,)),
    "beyond": lambda: np.array([7]),
    "pair": lambda: (np.array([0, 2]), np.array([1, 1])),
    "pair of two shapes": lambda: (np.array([[0], [2]]), np.array([1, 2])),
    "pair that does not fit": lambda: (np.array([0, 2]), np.array([1, 2, 3])),
    "with a slice": lambda: (slice(1, None), np.array([2, 0])),
    "with an int": lambda: (1, np.array([2, 0])),
    "with None": lambda: (None, np.array([2, 0]), ...),
    "with a tensor": lambda: (np.array([2, 0]), torch.tensor([1, 2])),
    "in a list": lambda: [np.array([0, 1]), np.array([1, 2])],
    "objects": lambda: np.array([1, "a"], dtype=object),
    "subclass": lambda: np.array([1, 2]).view(np.matrix),
    "number": lambda: np.int64(2),
    "twice": lambda: (lambda a: (a, a))(np.array([3, 1])),
}
ONE_GRAPH = (
    "int64",
    "int32",
    "int16",
    "empty",
    "2-dim",
    "pair",
    "pair of two shapes",
    "with a slice",
    "with an int",
    "twice",
)


def read(x: torch.Tensor, key: Any) -> Any:
    y = x * 2
    return y[key] + 1


def written(x: torch.Tensor, key: Any) -> Any:
    y = x * 2
    y[key] = 7
    y[key] += 1
    return y * 2


def stored(x: torch.Tensor, key: Any) -> Any:
    y = x * 2
    y[key] = y[key] * y.sum()
    return y


@pytest.mark.sampled(40)
@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
@pytest.mark.parametrize("program", [read, written, stored])
@pytest.mark.parametrize("key", KEYS)
def test_as_eagerly(key: str, program: Callable[..., Any], backend: str) -> None:
    compiled = gramme.compile(program, backend=backend)
    for shape in ((4, 4), (4, 4), (4, 5), (5, 5)):
        x = torch.arange(float(shape[0] * shape[1])).reshape(shape)
        assert outcome(lambda: compiled(x, KEYS[key]())) == outcome(lambda: program(x, KEYS[key]()))  # noqa: B023


@pytest.mark.parametrize("program", [read, written, stored])
@pytest.mark.parametrize("key", ONE_GRAPH)
def test_one_graph(key: str, program: Callable[..., Any]) -> None:
    x = torch.randn(4, 4)
    compiled = gramme.compile(program, backend="eager", fullgraph=True)
    assert torch.equal(compiled(x, KEYS[key]()), program(x, KEYS[key]()))


@pytest.mark.parametrize("dtype", [np.int64, np.int32])
@pytest.mark.parametrize("backend", ["eager", "native"])
def test_an_array_that_changes(backend: str, dtype: Any) -> None:
    """It is read at each call; the backward looks up by what the array has then."""

    def run(function: Callable[..., Any]) -> list[Any]:
        key, found = np.array([0, 1], dtype=dtype), []
        for i in range(4):
            x = torch.arange(4.0).requires_grad_()
            y = function(x, key)
            key[0] = i % 4
            y.sum().backward()
            assert x.grad is not None
            found += [y.tolist(), x.grad.tolist(), key.tolist()]
        return found

    def program(x: torch.Tensor, key: Any) -> Any:
        return (x * x)[key] * 2

    assert run(gramme.compile(program, backend=backend)) == run(program)


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_an_array_written_in_the_program(backend: str) -> None:
    def program(x: torch.Tensor, key: Any) -> Any:
        first = x[key]
        key[0] = 2
        second = x[key]
        key += 1
        return first, second, x[key % 3]

    found = []
    for function in (program, gramme.compile(program, backend=backend)):
        key = np.array([0, 1])
        found.append([outcome(lambda: function(torch.arange(4.0), key)) for _ in range(3)] + [key.tolist()])  # noqa: B023
    assert found[0] == found[1]


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_an_array_written_before_the_backward(backend: str) -> None:
    def program(x: torch.Tensor, key: Any) -> Any:
        y = (x * x)[key] * 2
        key[0] = 2
        return y

    found = []
    for function in (program, gramme.compile(program, backend=backend)):
        for _ in range(3):
            key, x = np.array([0, 1]), torch.arange(1.0, 5.0).requires_grad_()
            y = function(x, key)
            y.sum().backward()
            assert x.grad is not None
            found.append((y.tolist(), x.grad.tolist(), key.tolist()))
    assert found[:3] == found[3:]


class Triangular(torch.nn.Module):
    """As libraries of flows fill matrices."""

    def __init__(self) -> None:
        super().__init__()
        self.indices = np.tril_indices(3, k=-1)
        self.diagonal = np.diag_indices(3)
        self.entries = torch.nn.Parameter(torch.randn(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        lower = self.entries.new_zeros(3, 3)
        lower[self.indices[0], self.indices[1]] = self.entries
        lower[self.diagonal] = 1.0
        return x @ lower


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_a_matrix_filled_by_indices_of_a_module(backend: str) -> None:
    torch.manual_seed(0)
    model = Triangular()
    compiled = gramme.compile(model, backend=backend, fullgraph=True)
    for rows in (2, 2, 5):
        x, found = torch.randn(rows, 3), []
        for call in (model, compiled):
            model.zero_grad()
            y = call(x)
            y.sum().backward()
            assert model.entries.grad is not None
            found.append((y.tolist(), model.entries.grad.tolist()))
        assert found[0] == found[1]
    model.indices = (np.array([0, 1, 2]), np.array([1, 2, 0]))
    assert torch.equal(compiled(x), model(x))
