"""Jagged nested tensors: few captures for many batches, random programs, gradients, nothing leaks."""

import gc
import random
import weakref
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from e2e.front import GRAMME
from sampling import SOAK
from torch.nn import functional

from subclasses.harness import described, rounded
from subclasses.jagged import leaf, offsets, ragged

pytestmark = pytest.mark.skipif(not GRAMME, reason="gramme's own")
Step = Callable[[Any, Any], Any]
STEPS: dict[str, Step] = {
    "x.sin()": lambda x, y: x.sin(),
    "x * y": lambda x, y: x * y,
    "x + y": lambda x, y: x + y,
    "x - 2.5": lambda x, y: x - 2.5,
    "linear": lambda x, y: functional.linear(x, torch.eye(4) * 2, torch.ones(4)),
    "softmax": lambda x, y: x.softmax(-1),
    "layer_norm": lambda x, y: functional.layer_norm(x, (4,)),
    "heads": lambda x, y: x.unflatten(-1, [2, 2]).transpose(1, 2).transpose(1, 2).flatten(-2),
    "chunk": lambda x, y: torch.cat(x.chunk(2, -1)[::-1], -1),
    "clone": lambda x, y: x.clone(),
    "made": lambda x, y: torch.nested.nested_tensor_from_jagged(x.values() * 2, x.offsets()),
    "made of others": lambda x, y: torch.nested.nested_tensor_from_jagged(x.values() + y.values(), y.offsets()),
    "written": lambda x, y: x.clone().mul_(2),
    "its size": lambda x, y: x * x.size(0) + x.size(-1),
    "its length": lambda x, y: x * x.dim(),
    "compared": lambda x, y: torch.where(x > y, x, y),
    "scaled": lambda x, y: x * x.sum(dim=-1, keepdim=True),
    "printed": lambda x, y: [x * 2, str(x)][0],
}


def program_of(names: list[str]) -> Callable[[Any, Any], Any]:
    steps = [STEPS[name] for name in names]

    def run(x: Any, y: Any) -> Any:
        for step in steps:
            x, y = step(x, y), x
        return x, y.values(), x.offsets()

    return run


def observed(call: Callable[[Any, Any], Any], batch: tuple[int, ...], twins: bool) -> str:
    x = leaf(*batch)
    y = x * 0.5 if twins else ragged(*batch)
    try:
        made, values, bounds = call(x, y)
        (made.values().square().sum() + values.sum()).backward()
    except RuntimeError as error:
        return type(error).__name__
    return described([made.values(), made._ragged_idx, values, bounds, x.grad.values()])


@pytest.mark.parametrize("backend", ["eager", "native", pytest.param("aot_eager", marks=pytest.mark.slow)])
def test_random_programs(backend: str) -> None:
    for seed in range(400 if SOAK else 12):
        r = random.Random(seed)
        names = r.choices(list(STEPS), k=r.randint(1, 6))
        batches = [tuple(r.randint(1, 6) for _ in range(r.randint(2, 4))) for _ in range(4)]
        twins = r.random() < 0.8
        function = program_of(names)
        compiled = gramme.compile(function, backend=backend)
        for batch in batches:
            expected = observed(function, batch, twins)
            found = observed(compiled, batch, twins)
            if backend == "aot_eager" and expected != found:
                expected, found = (rounded(text) for text in (expected, found))
            assert found == expected, (seed, names, batch, twins)


@pytest.mark.parametrize("backend", ["eager", "native", pytest.param("aot_eager", marks=pytest.mark.slow)])
def test_few_captures_take_any_lengths(backend: str) -> None:
    linear = torch.nn.Linear(4, 4)

    def function(x: Any) -> Any:
        return (linear(x).relu() + x).sum(-1)

    compiled = gramme.compile(function, backend=backend)
    r = random.Random(0)
    for _ in range(20):
        x = ragged(*(r.randint(1, 9) for _ in range(r.randint(2, 5))))
        assert torch.equal(compiled(x).values(), function(x).values())
    assert gramme.statistics(compiled).captures <= 3
    assert gramme.statistics(compiled).segments <= 3


def test_offsets_are_told_apart() -> None:
    """What was captured for one tensor twice is not used for two of equal lengths, nor the other way round."""

    def function(x: Any, y: Any) -> Any:
        return x + y

    for order in ((True, False, True), (False, True, False)):
        compiled = gramme.compile(function, backend="eager")
        for same in order:
            x = ragged(3, 2)
            y = x if same else ragged(3, 2)
            if same:
                assert torch.equal(compiled(x, y).values(), x.values() * 2)
            else:
                with pytest.raises(RuntimeError, match="cannot call binary pointwise function"):
                    compiled(x, y)


def test_one_offsets_for_two() -> None:
    def function(values: torch.Tensor, bounds: torch.Tensor) -> Any:
        query = torch.nested.nested_tensor_from_jagged(values, bounds)
        return query * torch.nested.nested_tensor_from_jagged(values + 1, bounds), query.offsets()

    compiled = gramme.compile(function, backend="eager", fullgraph=True)
    for lengths in ((3, 2), (1, 4), (2, 2, 3)):
        values, bounds = torch.randn(sum(lengths), 4), offsets(*lengths)
        made, kept = compiled(values, bounds)
        assert torch.equal(made.values(), values * (values + 1))
        assert kept is bounds
        assert made.offsets() is bounds


def test_attention_is_captured_up_to_what_needs_data() -> None:
    def function(x: Any) -> Any:
        heads = x.unflatten(-1, [2, 2]).transpose(1, 2)
        mixed = functional.scaled_dot_product_attention(heads, heads, heads)
        return mixed.transpose(1, 2).flatten(-2) * 2

    found = gramme.explain(function)(ragged(3, 5))
    assert found.graph_count == 2
    assert found.op_count == 5
    assert "NestedTensor" in str(found)


def test_the_ragged_size_is_the_programs() -> None:
    def function(x: Any) -> Any:
        y = x * 2
        return y, x.shape, y.shape[1] == x.shape[1], x.shape[0] + 1

    x = ragged(3, 5)
    y, shape, equal, number = gramme.compile(function, backend="eager")(x)
    assert shape == x.shape == y.shape
    assert type(shape) is torch.Size
    assert equal is True
    assert number == 3


@pytest.mark.parametrize("backend", ["eager", "native", pytest.param("aot_eager", marks=pytest.mark.slow)])
def test_nothing_leaks(backend: str) -> None:
    compiled = gramme.compile(lambda x: (x.sin() * 2 + x, x.values().sum()), backend=backend)
    for lengths in ((3, 5), (2, 2, 4), (1, 3)):
        x = leaf(*lengths)
        made, total = compiled(x)
        (total + made.values().sum()).backward()
        kept = [x, x.values(), x.offsets(), made, made.values(), x.grad]
        gone = [weakref.ref(each) for each in (kept[0], kept[2], kept[3], kept[5])]
        del x, made, total, kept
        gc.collect()
        assert [each() for each in gone] == [None] * 4
