"""Transformers and nets beside strict export: the same program, which computes what the model does at other sizes."""

from __future__ import annotations

import copy
from typing import Any

import gramme
import pytest
import torch

pytest.importorskip("transformers")

from e2e.models import eagerly

from export.beside_torch import (
    assert_same,
    assert_untouched,
    loaded,
    module_calls,
    quietly,
    ranges,
    shapes,
    signature,
    snapshot,
)
from export.models import NETS, TRANSFORMERS, Exported

pytestmark = pytest.mark.slow
ALL = {**TRANSFORMERS, **NETS}


def made(case: Exported, pair: tuple[int, int]) -> dict[str, Any]:
    torch.manual_seed(sum(pair))
    return case.arguments(*pair)


def exported(case: Exported, model: torch.nn.Module, by: Any, **more: Any) -> Any:
    with quietly():
        return by(model, (), made(case, case.pairs[0]), dynamic_shapes=case.shapes, **more)


def live_calls(program: Any) -> list[str]:
    """Operators that results depend on, without arithmetic of sizes.

    torch.export's front end keeps tensors of which only sizes were taken, and computes sizes again.
    """
    graph = copy.deepcopy(program.graph_module).graph
    graph.eliminate_dead_code()
    targets = [node.target for node in graph.nodes if node.op == "call_function"]
    operators = (torch._ops.OpOverload, torch._ops.HigherOrderOperator)
    return sorted(str(t) for t in targets if isinstance(t, operators) and "sym_size" not in str(t))


def assert_computes(program: Any, case: Exported, model: torch.nn.Module) -> None:
    """At each size, once: buffers that are written are those that it writes."""
    for pair in case.pairs:
        eager, ours = copy.deepcopy(model), copy.deepcopy(program).module()
        with torch.no_grad():
            with eagerly():
                expected = eager(**made(case, pair))
            assert_same(ours(**made(case, pair)), expected)
        written, kept = dict(ours.named_buffers()), dict(eager.named_buffers())
        for name in written.keys() & kept.keys():
            torch.testing.assert_close(written[name], kept[name], rtol=1e-5, atol=1e-6)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ALL)
def test_model(name: str) -> None:
    case = ALL[name]
    torch.manual_seed(0)
    model = case.make()
    before = snapshot(model)
    ours = exported(case, model, gramme.export)
    assert_untouched(before, model)
    theirs = exported(case, model, torch.export.export, strict=True)
    assert signature(ours) == signature(theirs)
    assert ranges(ours) == ranges(theirs)
    assert shapes(ours) == shapes(theirs)
    assert live_calls(ours) == live_calls(theirs)
    assert module_calls(ours) == module_calls(theirs)
    assert_computes(ours, case, model)
    assert_computes(loaded(ours), case, model)
