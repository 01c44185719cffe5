"""Transformers built from configurations: Dynamo's graph, eager's numbers, one capture."""

import contextlib
import gc
import linecache
import weakref
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from sampling import SOAK

pytest.importorskip("transformers")

from e2e.models import MODELS, VOCABULARY, eagerly, same, tensors
from e2e.record_models import GOLDEN, sections, summary

pytestmark = pytest.mark.slow

# Not one graph in training, with Dynamo neither.
TRAINING_BREAKS = {
    "wav2vec2": "assigns requires_grad of a tensor",
    "detr": "branches on whether a tensor is finite",
}


class Captured:
    """A compiled model with the graphs it was captured as."""

    def __init__(self, model: Any) -> None:
        self.graphs: list[torch.fx.GraphModule] = []
        self.call = gramme.compile(model, backend=self.backend, fullgraph=True)

    def backend(self, graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        self.graphs.append(graph)
        return graph.forward

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.call(*args, **kwargs)

    @property
    def captures(self) -> int:
        return gramme.statistics(self.call).captures


@pytest.mark.parametrize("name", MODELS)
def test_one_graph_as_dynamo_records_it(name: str) -> None:
    case = MODELS[name]
    model = case.make()
    captured = Captured(model)
    for seed in range(3):
        with torch.no_grad():
            actual = captured(**case.arguments(seed))
            with eagerly():
                assert same(actual, model(**case.arguments(seed)))
    assert captured.captures == len(captured.graphs) == 1
    found, golden = summary(captured.graphs[0]), sections(GOLDEN.read_text())[name].rstrip()
    assert found == golden


@pytest.mark.parametrize("name", [name for name in MODELS if name not in TRAINING_BREAKS])
def test_training(name: str) -> None:
    """Dropout on, gradients of all parameters, buffers written by the forward."""
    case = MODELS[name]
    model = case.make().train()
    captured = Captured(model)

    def step(call: Callable[..., Any], seed: int) -> dict[str, Any]:
        model.zero_grad()
        torch.manual_seed(seed)
        output = call(**case.arguments(seed))
        sum(t.sum() for t in tensors(output) if t.requires_grad).backward()  # type: ignore[union-attr]
        return {"output": output, "gradients": {n: p.grad for n, p in model.named_parameters() if p.grad is not None}}

    buffers = {n: b.clone() for n, b in model.named_buffers()}
    for seed in range(2):
        with eagerly():
            expected = step(model, seed)
        after = {n: b.clone() for n, b in model.named_buffers()}
        model.load_state_dict(buffers, strict=False)
        actual = step(captured, seed)
        assert expected["gradients"]
        assert all(same(actual[what], expected[what]) for what in expected)
        assert same(dict(model.named_buffers()), after)
    assert captured.captures == 1


def labels(length: int = 16) -> Callable[[torch.Generator], dict[str, Any]]:
    return lambda g: {"labels": torch.randint(3, VOCABULARY, (2, length), generator=g)}


def constant(**values: Any) -> Callable[[torch.Generator], dict[str, Any]]:
    return lambda g: values


PADDED = constant(attention_mask=torch.ones(2, 16, dtype=torch.long).index_fill_(1, torch.tensor([14, 15]), 0))
EVERYTHING = constant(output_attentions=True, output_hidden_states=True)
VARIANTS: list[tuple[str, str, Callable[[torch.Generator], dict[str, Any]]]] = [
    *((name, "tuple", constant(return_dict=False)) for name in ("bert", "llama_cache", "t5", "clip")),
    *((name, "everything", EVERYTHING) for name in ("bert", "gpt2", "bart", "vit", "mixtral")),
    *((name, "loss", labels()) for name in ("gpt2", "llama", "mixtral")),
    *((name, "padded", PADDED) for name in ("bert", "llama", "llama_cache", "opt")),
    ("llama", "last_token", constant(logits_to_keep=1)),
]


@pytest.mark.parametrize(("name", "what", "more"), VARIANTS, ids=[f"{n}-{w}" for n, w, _ in VARIANTS])
def test_other_arguments(name: str, what: str, more: Callable[[torch.Generator], dict[str, Any]]) -> None:
    case = MODELS[name]
    model = case.make()
    if what == "everything":
        model.set_attn_implementation("eager")
    captured = Captured(model)
    for seed in range(2):
        arguments = case.arguments(seed) | more(torch.Generator().manual_seed(seed))
        with torch.no_grad():
            with eagerly():
                expected = model(**arguments)
            actual = captured(**arguments)
        assert same(actual, expected)
        if what == "tuple":
            assert type(actual) is tuple
            continue
        assert same(actual.to_tuple(), expected.to_tuple())
        assert all(getattr(actual, key) is actual[key] for key in actual)
        assert [key for key in vars(actual) if getattr(actual, key) is None] == [
            key for key in vars(expected) if getattr(expected, key) is None
        ]
    assert captured.captures == 1


def test_a_loss_is_what_the_backward_starts_from() -> None:
    case = MODELS["llama"]
    model = case.make()
    captured = Captured(model)
    arguments = case.arguments(0) | labels()(torch.Generator().manual_seed(0))
    gradients = []
    for call, told in ((model, eagerly), (captured, contextlib.nullcontext)):
        model.zero_grad()
        with told():
            call(**arguments).loss.backward()
        gradients.append({n: p.grad.clone() for n, p in model.named_parameters()})
    assert same(gradients[1], gradients[0])


def test_captures_leave_nothing_behind() -> None:
    """No object is left of a capture that was dropped, and its parameters die with the model, without the collector."""
    case = MODELS["bert"]

    def capture(model: Any = case.make()) -> None:
        gramme.reset()
        with torch.no_grad():
            Captured(model)(**case.arguments(0))  # in a cycle with its entry, through the backend

    def objects() -> int:
        gramme.reset()
        linecache.clearcache()  # torch.fx keeps the source of each graph there
        gc.collect()
        return len(gc.get_objects())

    for _ in range(3):
        capture()
    before = objects()
    for _ in range(500 if SOAK else 40):
        capture()
    assert objects() - before <= 5
    model = case.make()
    compiled = gramme.compile(model, backend="eager", fullgraph=True)
    with torch.no_grad():
        compiled(**case.arguments(0))
    parameters = [weakref.ref(p) for p in model.parameters()]
    gc.collect()
    gc.disable()
    try:
        del compiled, model
        assert not any(p() is not None for p in parameters)
    finally:
        gc.enable()
