"""A call captured as a whole is not run: what it would return and change comes back, and nothing has changed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from gramme import _C


class Keep:
    """Its graph's nodes stand for what they give."""

    contract = "export"
    hands_over = True

    def __call__(self, graph_module: Any, inputs: list[Any], captured: _C.Captured) -> Callable[..., Any]:
        self.graph = graph_module.graph
        self.inputs = inputs
        self.conditions = captured.conditions([torch.ones(9).shape[0]] * 9)
        self.symbols = captured.symbol_sources()
        outputs = list(graph_module.graph.output_node().args[0])
        return lambda *_: outputs


def capture(function: Any, *arguments: Any, varies: Any = ()) -> tuple[Any, list[Any], Keep]:
    keep = Keep()
    patterns = [(re.compile(pattern), dim) for pattern, dim in varies]
    result, changes = _C.capture_whole(function, *arguments, backend=keep, varies=patterns)
    return result, changes, keep


class Module(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.cache: Any = None
        self.lines: list[str] = []
        self.linear = torch.nn.Linear(3, 3)
        self.mean: torch.Tensor
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x: torch.Tensor, k: int) -> dict[str, Any]:
        self.count += k
        self.mean = self.mean + x.sum(0)
        self.cache = (x * 2, "old")
        self.lines.append("called")
        return {"y": self.linear(x), "weight": self.linear.weight, "same": x, "k": (k, [None, "text"])}


def call(self: Any, *leaves: Any) -> Any:
    return self(*leaves)


def call_two(self: Any, x: Any, k: Any) -> Any:
    return self(x, k)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_what_a_call_would_return_and_change(device: str) -> None:
    module, x = Module().to(device), torch.ones(5, 3, device=device)
    before = dict(vars(module)), module.mean, module.mean._version
    result, changes, keep = capture(call_two, module, x, 2)
    assert list(result) == ["y", "weight", "same", "k"]
    assert isinstance(result["y"], torch.fx.Node)
    assert result["y"].target is torch._C._nn.linear
    assert result["weight"] is module.linear.weight
    assert result["same"] is x
    assert result["k"] == (2, [None, "text"])
    assert (dict(vars(module)), module.mean, module.mean._version) == before
    assert module.lines == []
    assert module.count == 0
    assert module.cache is None
    by_target = {(change[0], id(change[1])): change for change in changes}
    stored = [change for change in changes if change[0] == "StoreAttr"]
    assert [(change[1], change[2]) for change in stored] == [(module, "count"), (module, "cache")]
    assert stored[0][3] == [2]
    assert isinstance(stored[1][3][0][0], torch.fx.Node)
    assert stored[1][3][0][1] == "old"
    assert by_target["FillList", id(module.lines)][3] == ["called"]
    name, value = by_target["FillDict", id(module._buffers)][3]
    assert name == "mean"
    assert isinstance(value, torch.fx.Node)


def scaled(x: torch.Tensor, n: int) -> Any:
    if x.shape[0] > 3:
        return x * n, n, x.shape[0] * 2
    return x, n, 0


def test_sizes_and_ints_that_vary_are_outputs_of_the_graph() -> None:
    x = torch.ones(9, 2)
    result, changes, keep = capture(scaled, x, 5, varies=[(r"L\['x'\]\Z", 0), (r"L\['n'\]\Z", None)])
    assert not changes
    assert all(isinstance(value, torch.fx.Node) for value in result)
    assert result[1].op == "placeholder"
    assert (True, "L['x'].size()[0] >= 4") in [(holds, words) for holds, _, words in keep.conditions]
    plain, _, keep = capture(scaled, x, 5)
    assert plain[1:] == (5, 18)
    assert keep.conditions == []


def never(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if x.sum() > 0 else x - 1


def raises(x: torch.Tensor) -> torch.Tensor:
    raise ValueError(f"not {x.dim()}")


def mismatched(x: torch.Tensor) -> torch.Tensor:
    return x @ torch.ones(7, 7)


@pytest.mark.parametrize(
    ("function", "said"),
    [(never, "data"), (raises, "ValueError: not 2"), (mismatched, "cannot be multiplied")],
)
def test_a_call_that_is_no_graph_is_an_error_with_its_line(function: Any, said: str) -> None:
    with pytest.raises(gramme.CaptureError, match=said) as raised:
        capture(function, torch.ones(2, 2))
    assert raised.value.file == __file__
    assert raised.value.line == function.__code__.co_firstlineno + 1


def hooked(x: torch.Tensor) -> Any:
    y = x * 2
    return y, y.register_hook(lambda g: g)


def test_what_only_a_real_call_can_give_is_refused() -> None:
    with pytest.raises((RuntimeError, gramme.CaptureError)):
        capture(hooked, torch.ones(2, requires_grad=True))


def test_other_arguments_than_parameters_are_refused() -> None:
    with pytest.raises(TypeError, match="as many arguments"):
        capture(scaled, torch.ones(2))
    with pytest.raises(TypeError, match="as many arguments"):
        capture(call, Module(), torch.ones(2))
