"""What gramme tells its users: where a program broke, that nothing is captured, why the recompile limit was met."""

import re
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import gramme
import pytest
import torch
from torch import nn

X = torch.ones(2, 3)
LOCK = threading.Lock()


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.project(x)
        if y.sum() > 100:
            y = y + 1
        return y


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attn = Attention()

    def forward(self, x: torch.Tensor) -> Any:
        return self.attn(x) + x


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def hooked() -> nn.Module:
    def hook(module: nn.Module, args: Any, result: torch.Tensor) -> torch.Tensor:
        with LOCK:
            return result * 2

    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    model[0].register_forward_hook(hook)
    return model


class Activation(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * int(x.sum())


def in_library() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 3), nn.Sequential(Activation()))


@pytest.mark.parametrize(
    ("make", "module", "line"),
    [
        (Model, "self.layers.0.attn", "if y.sum() > 100:"),
        (hooked, "self.0", "with LOCK:"),
        (in_library, "self.1.0", "return x * int(x.sum())"),
    ],
)
def test_breaks_name_the_line_and_the_module(make: Callable[[], nn.Module], module: str, line: str) -> None:
    found = gramme.explain(make())(X).break_reasons[0]
    assert found.module == module
    assert found.frames[0].line == line
    assert not any("torch/nn/modules" in frame.filename for frame in found.frames)
    if make is in_library:
        return  # where one graph is asked for, the number is a part of it
    with pytest.raises(gramme.CaptureError) as error:
        gramme.compile(make(), backend="eager", fullgraph=True)(X)
    assert (error.value.module, error.value.source_line) == (module, line)
    assert f"in module {module}" in str(error.value)
    assert "torch/nn/modules" not in str(error.value)


def test_hints_fit() -> None:
    def locks(x: torch.Tensor) -> torch.Tensor:
        with LOCK:
            return x + 1

    def reads(x: torch.Tensor) -> Any:
        return x.numpy().tolist()

    def trains(x: torch.Tensor) -> None:
        (x * 2).sum().backward()  # type: ignore[no-untyped-call]

    def hint(function: Any, x: torch.Tensor) -> str:
        return gramme.explain(function)(x).break_reasons[0].hint

    assert "lock" in hint(locks, X)
    assert "NumPy" in hint(reads, X)
    assert "Gradients" in hint(trains, X.clone().requires_grad_())


@contextmanager
def told() -> Iterator[list[str]]:
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield texts
    texts += [str(w.message) for w in caught if "gramme" in str(w.message)]


class Sparse(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return x.to_sparse().coalesce().indices().tolist()


def test_a_model_without_a_graph_is_told_of_once() -> None:
    compiled = gramme.compile(Sparse(), backend="eager")
    with told() as texts:
        for _ in range(3):
            compiled(X)
    (text,) = texts
    assert f"captured no operation of Sparse ({__file__}:" in text
    assert "module.py" not in text
    assert "First break: " in text
    assert "gramme.explain" in text


def test_a_function_without_a_graph_is_not_told_of() -> None:
    with told() as texts:
        gramme.compile(lambda x: x.to_sparse().coalesce().indices().tolist(), backend="eager")(X)
    assert not texts


def test_what_has_graphs_or_no_operations_is_not_told_of() -> None:
    def prints(x: torch.Tensor) -> int:
        with LOCK:
            return 3

    def captures(x: torch.Tensor) -> Any:
        with LOCK:
            return x + 1

    with told() as texts:
        for program in (prints, captures):
            for _ in range(2):
                gramme.compile(program, backend="eager")(X)
    assert not texts


def reached(function: Callable[..., Any], calls: list[tuple[Any, ...]], **options: Any) -> str:
    compiled = gramme.compile(function, backend="eager", recompile_limit=2, **options)
    with told() as texts:
        for args in calls:
            compiled(*args)
    (text,) = texts
    return text


def test_the_recompile_limit_says_what_changed_and_what_to_do() -> None:
    def named(x: torch.Tensor, name: str) -> Any:
        return x * len(name)

    text = reached(named, [(X, "a" * i) for i in range(4)])
    assert f"recompile limit (2) in {named.__qualname__} ({__file__}:" in text
    assert "name changed from 'a' to 'aa'" in text
    assert "L[" not in text
    assert "recompile_limit=" in text

    def sized(x: torch.Tensor) -> Any:
        return x * 2

    text = reached(sized, [(torch.ones(i + 2),) for i in range(4)], dynamic=False)
    assert "x: shape changed" in text
    assert "dynamic=True" in text

    def typed(x: torch.Tensor) -> Any:
        return x * 2

    text = reached(typed, [(X.to(d),) for d in (torch.float32, torch.float64, torch.int32, torch.int64)])
    assert "x: dtype changed" in text
    assert "for each kind of argument" in text


def test_the_recompile_limit_of_a_module_names_its_class() -> None:
    class Scaled(nn.Module):
        def forward(self, x: torch.Tensor, name: str) -> Any:
            return x * len(name)

    text = reached(Scaled(), [(X, "a" * i) for i in range(4)])
    assert re.search(r"in \S*Scaled \(", text)
    assert "torch/nn" not in text
