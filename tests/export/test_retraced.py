"""Exported programs that are exported again, and what nodes say of the program that they are from."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import gramme
import pytest
import torch
from torch import nn
from torch.export import Dim

from export.beside_torch import assert_same, loaded, quietly, signature


def rows(n: int = 4) -> torch.Tensor:
    return torch.randn(n, 3)


class Part(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (self.linear(x),))


class Whole(nn.Module):
    mean: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.part, self.last = Part(), nn.ReLU()
        self.register_buffer("mean", torch.zeros(3))
        self.scale = torch.ones(3)

    def forward(self, x: Any, *, k: int = 2) -> Any:
        with torch.fx.traceback.annotate({"stage": 1}):
            y = self.part(x)
        self.mean.add_(y.mean(0))
        return {"y": self.last(y) * k * self.scale + self.mean, "rows": x.shape[0]}


SHAPES = {"x": {0: Dim("rows", min=2)}, "k": None}


def exported(module: nn.Module, by: Any = gramme.export, **more: Any) -> Any:
    with quietly():
        return by(module, (rows(),), {"k": 3}, dynamic_shapes=SHAPES, **more)


def calls(program: Any) -> list[str]:
    return [str(node.target) for node in program.graph.nodes if node.op == "call_function"]


def said(program: Any) -> list[Any]:
    """By call: the modules that it is in, the user's line, what the user wrote on it."""
    return [
        (
            [path for path, _ in node.meta["nn_module_stack"].values()],
            node.meta.get("stack_trace", "").splitlines()[-2:-1],
            {key: value for key, value in node.meta.get("custom", {}).items() if key[0] != "_"},
            node.meta.get("source_fn_stack"),
        )
        for node in program.graph.nodes
        if node.op == "call_function"
    ]


@pytest.mark.parametrize("first_by", [gramme.export, torch.export.export], ids=["gramme", "torch"])
@pytest.mark.parametrize("through", ["module", "loaded", "decomposed", "copied"])
def test_exported_again(first_by: Any, through: str) -> None:
    torch.manual_seed(0)
    module = Whole()
    once = exported(copy.deepcopy(module), first_by, **({} if first_by is gramme.export else {"strict": True}))
    if through == "loaded":
        once = loaded(once)
    if through == "decomposed":
        once = once.run_decompositions()
    again = copy.deepcopy(once.module()) if through == "copied" else once.module()
    twice, theirs = exported(again), exported(again, torch.export.export, strict=True)
    assert calls(twice) == calls(theirs)
    assert signature(twice) == signature(theirs)
    assert [entry.fqn for entry in twice.module_call_graph] == [entry.fqn for entry in theirs.module_call_graph]
    assert said(twice) == said(theirs)
    assert any(custom == {"stage": 1} for _, _, custom, _ in said(twice))
    x = rows(7)
    assert_same(twice.module()(x, k=3), module(x, k=3))


def test_submodules_of_a_program_that_was_exported_twice() -> None:
    module, x = Whole(), rows()
    once = exported(copy.deepcopy(module))
    unflattened = torch.export.unflatten(exported(once.module()))
    assert {"part", "last"} <= {name for name, _ in unflattened.named_children()}
    assert {node.target for node in unflattened.graph.nodes if node.op == "call_module"} == {"part", "last"}
    assert_same(unflattened(x, k=3), module(x, k=3))


def test_a_graph_module_without_annotations() -> None:
    module, x = nn.Sequential(nn.Linear(3, 3), nn.ReLU()), rows()
    program = gramme.export(torch.fx.symbolic_trace(module), (x,))
    assert_same(program.module()(x), module(x))


def test_annotations_are_no_effect() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        program = gramme.export(Whole(), (rows(),))
    custom = {node.name: node.meta.get("custom") for node in program.graph.nodes if node.op == "call_function"}
    assert custom["linear"] == custom["cond"] == {"stage": 1}
    assert custom["relu"] is None
