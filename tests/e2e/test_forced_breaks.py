"""Breaks forced at any instruction of any frame of real models: nothing differs from eager."""

import dataclasses
import random
from typing import Any

import pytest
import torch

from e2e import front, models

if not front.GRAMME:
    pytest.skip("tells gramme's captures where to end", allow_module_level=True)

import gramme
from gramme import _C

capturing = _C.testing.testing_capture  # type: ignore[attr-defined]
FORCED = 10
"""Without GRAMME_SOAK, breaks in each model."""
ONE_LAYER = {"num_hidden_layers", "n_layer", "num_layers"}


def entry(function: Any, **limits: Any) -> Any:
    made = _C.make_entry(
        function, backend=lambda graph, inputs: graph.forward, fullgraph=False, recompile_limit=1000, keep_graphs=False
    )
    capturing.limit(made, **limits)
    return made


def steps(module: torch.nn.Module, inputs: dict[str, Any]) -> int:
    """Instructions of all frames at which a segment of the model's call may end."""
    call = entry(type(module).forward)
    call(module, **inputs)
    return max(row["steps"] for row in capturing.segments(call))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ["llama", "gpt2", "t5"])
def test_models_with_forced_breaks(name: str, soak: bool) -> None:
    model = models.MODELS[name]
    sizes = {key: 1 if key in ONE_LAYER else value for key, value in model.sizes.items()}
    model = dataclasses.replace(model, sizes=sizes)
    module, inputs = model.make(), model.arguments(0)
    generator = random.Random(name)
    with torch.no_grad(), models.eagerly():
        expected = models.tensors(module(**inputs))
        count = steps(module, inputs)
        assert count > 1000
        given_up = carried_out = 0
        # a break every so many instructions, and one alone
        for everywhere in (True, False):
            places = list(range(1, count)) if soak else generator.sample(range(1, count), FORCED)
            for at in places:
                front.reset()
                call = entry(type(module).forward, stop_at=at, everywhere=everywhere)
                for _ in range(2):
                    with gramme.meter() as meter:
                        result = models.tensors(call(module, **inputs))
                    assert all(map(torch.equal, result, expected)), f"{name}, broken at {at}, {everywhere}"
                given_up += meter.handovers + meter.plain + meter.graph_errors  # a callee that raises, say
                carried_out += meter.steps
    assert given_up <= 0.01 * carried_out, f"{name}: {given_up} frames given up, {carried_out} instructions carried out"
