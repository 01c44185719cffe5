"""Modules converted inside a compiled function, and keys of caches by pickle.dumps(): captured, and eager's results."""

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import gramme
import pytest
import torch
from torch import nn

from e2e.front import GRAMME

pytestmark = pytest.mark.skipif(not GRAMME, reason="gramme's own")
X = torch.linspace(-1, 1, 6).view(2, 3)
BACKENDS = ["eager", "native", "aot_eager"]


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inner = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
        self.register_buffer("scale", torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.to(device=x.device)
        return self.inner(x) * self.scale  # type: ignore[no-any-return, operator]


@pytest.fixture
def _settings() -> Iterator[None]:
    settings = torch.__future__
    before = settings.get_swap_module_params_on_conversion(), settings.get_overwrite_module_params_on_conversion()
    yield
    settings.set_swap_module_params_on_conversion(before[0])
    settings.set_overwrite_module_params_on_conversion(before[1])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_conversion_that_changes_nothing(backend: str) -> None:
    model, twin = Model(), Model()
    compiled = gramme.compile(model, backend=backend)
    before = [(name, value, value.data_ptr(), value._version) for name, value in model.named_parameters()]
    for _ in range(3):
        compiled(X).sum().backward()
        twin(X).sum().backward()
    for (name, value, address, version), (_, other) in zip(before, twin.named_parameters(), strict=True):
        assert dict(model.named_parameters())[name] is value
        assert (value.data_ptr(), value._version) == (address, version)
        assert torch.equal(value.grad, other.grad)
    assert gramme.captured(compiled).graph_break_count == 0


@pytest.mark.usefixtures("_settings")
@torch.no_grad()  # parameters that a graph holds cannot be swapped
@pytest.mark.parametrize("setting", ["swap", "overwrite"])
def test_settings_of_conversions_are_heeded(setting: str) -> None:
    model = Model()
    compiled = gramme.compile(model, backend="eager")
    compiled(X)
    before = list(model.parameters())
    set_it = getattr(torch.__future__, f"set_{setting}_module_params_on_conversion")
    for on in (True, False, True):
        set_it(on)
        twin = Model()
        expected = twin(X)
        was = list(twin.parameters())
        twin(X)
        kept = [a is b for a, b in zip(twin.parameters(), was, strict=True)]
        was = list(model.parameters())
        assert compiled(X).shape == expected.shape
        assert [a is b for a, b in zip(model.parameters(), was, strict=True)] == kept
    assert len(before) == len(list(model.parameters()))


def test_a_conversion_that_changes_types() -> None:
    model, twin = Model(), Model()

    def program(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        model.double()
        return model.inner(x.double())  # type: ignore[operator, no-any-return]

    compiled = gramme.compile(program, backend="eager")
    for _ in range(3):
        assert torch.equal(compiled(model, X), program(twin, X))
    assert all(p.dtype is torch.float64 for p in model.parameters())


class Cached:
    """As linear_operator caches results: by name, positional arguments and pickled keyword arguments."""

    def __init__(self) -> None:
        self.cache: dict[Any, Any] = {}
        self.computed = 0

    def result(self, x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        key = args, pickle.dumps(kwargs)
        if key not in self.cache:
            self.computed += 1
            self.cache[key] = x * (2 if kwargs.get("upper") else 3)
        return self.cache[key]  # type: ignore[no-any-return]


def cached(of: Cached, x: torch.Tensor) -> torch.Tensor:
    first = of.result(x, upper=True, power=2)
    return first + of.result(x, upper=True, power=2) + of.result(x) + of.result(x, 1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_keys_by_pickle(backend: str) -> None:
    compiled = gramme.compile(cached, backend=backend)
    for _ in range(3):
        mine, theirs = Cached(), Cached()
        for _ in range(2):
            assert torch.equal(compiled(mine, X), cached(theirs, X))
        assert (list(mine.cache), mine.computed) == (list(theirs.cache), theirs.computed)
    assert gramme.explain(cached)(Cached(), X).graph_break_count == 0


@pytest.mark.parametrize(
    "make",
    [
        dict,
        lambda: {"a": None, "b": True, "c": -5, "d": 2.5, "e": 1 << 70},
        lambda: {"a": "text", "b": "text"},
        lambda: {"a": (1, 2)},
        lambda: {1: 2},
        lambda: [1, "a"],
        lambda: {"a": torch.float32},
        lambda: {"a": int},
        lambda: "text",
        lambda: {"a": {}},
    ],
)
def test_pickles_are_those_of_eager(make: Callable[[], Any]) -> None:
    given = make()

    def program(x: torch.Tensor) -> Any:
        return pickle.dumps(given), pickle.dumps(make()), x + 1

    compiled = gramme.compile(program, backend="eager")
    for _ in range(3):
        assert compiled(X)[:2] == program(X)[:2]


def test_a_pickle_that_changes() -> None:
    given: dict[str, Any] = {"a": 1}

    def program(x: torch.Tensor) -> Any:
        return pickle.dumps(given), x + 1

    compiled = gramme.compile(program, backend="eager")
    for value in (1, 2, True, 2.0, None, "b", 2):
        given["a"] = value
        assert compiled(X)[0] == program(X)[0]
    given["b"] = 1
    assert compiled(X)[0] == program(X)[0]
