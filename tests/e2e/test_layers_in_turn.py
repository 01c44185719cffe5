"""Layers with a break in each: one segment serves them all, bound to each, and notices what changes in any of them."""

import copy
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from gramme import _C
from gramme._explain import entry_of
from torch import nn

COUNT = 6


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(4), nn.Linear(4, 4)
        self.scale, self.log = 0.5, []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(self.norm(x)).relu()
        print("layer", end=" ")
        self.log.append(self.scale)
        return x + y * self.scale


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(COUNT))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x.sum()


def add_hook(layer: Any) -> None:
    layer.linear.register_forward_hook(lambda module, args, output: output + 1)


def replace_weight(layer: Any) -> None:
    layer.linear.weight = nn.Parameter(torch.eye(4))


def other_module(layer: Any) -> None:
    layer.norm = nn.Identity()


def other_forward(layer: Any) -> None:
    layer.linear.forward = lambda x: x * 2


def other_class(layer: Any) -> None:
    class Doubled(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * 2

    layer.linear.__class__ = Doubled


def scale(layer: Any) -> None:
    layer.scale = -1.0


def shorter_eps(layer: Any) -> None:
    layer.norm.eps = 0.5


def written_in_place(layer: Any) -> None:
    with torch.no_grad():
        layer.linear.weight.mul_(3)


def no_bias(layer: Any) -> None:
    layer.linear.bias = None


def log_replaced(layer: Any) -> None:
    layer.log = [None]


CHANGES: list[Callable[[Any], None]] = [
    *(add_hook, replace_weight, other_module, other_forward, other_class),
    *(scale, shorter_eps, written_in_place, no_bias, log_replaced),
]


def logs(model: Model) -> list[list[Any]]:
    return [layer.log for layer in model.layers]  # type: ignore[misc]


@pytest.mark.parametrize("at", [0, 2, COUNT - 1])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_change_in_one_layer_is_noticed(change: Callable[[Any], None], at: int, capsys: Any) -> None:
    torch.manual_seed(0)
    expected, model = Model(), Model()
    model.load_state_dict(expected.state_dict())
    compiled = gramme.compile(model, backend="native")
    x = torch.randn(2, 4)
    for turn in range(8):
        if turn == 4:
            change(expected.layers[at])
            change(model.layers[at])
        with torch.no_grad():
            wanted = expected(x)
            told = capsys.readouterr().out
            assert torch.equal(compiled(x), wanted)
        assert capsys.readouterr().out == told
        assert logs(model) == logs(expected)


def test_layers_taken_away_and_put_in(capsys: Any) -> None:
    model = Model()
    compiled = gramme.compile(model, backend="native")
    x = torch.randn(2, 4)
    with torch.no_grad():
        for turn in range(12):
            if turn > 3:
                del model.layers[turn % len(model.layers)]
                model.layers.insert(turn % 3, Layer())
            assert torch.equal(compiled(x), copy.deepcopy(model)(x))


def test_layers_share_a_segment() -> None:
    model = Model()
    compiled = gramme.compile(model, backend="native")
    with torch.no_grad():
        for _ in range(5):
            compiled(torch.ones(2, 4))
    rows = _C.segments(entry_of(compiled))
    assert len(rows) <= 5
    assert max(row["runs"] for row in rows) >= 5 * (COUNT - 2)
