"""Nets at varying batches and lengths: eager's bits, within a limit of captures."""

import contextlib
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("transformers")

import transformers
from e2e.models import MODELS, VOCABULARY, eagerly, same, tensors

from shapes.models import SIZED, SizedModel, ids
from shapes.open_captures import hold

pytestmark = pytest.mark.slow
MOST_CAPTURES = 256
NEW_TOKENS = 16
DECODED = 64
STEPS = 30


@pytest.fixture(autouse=True)
def fresh() -> None:
    gramme.reset()


def compiled_of(model: Any, backend: str) -> Any:
    return gramme.compile(model, backend=backend, recompile_limit=MOST_CAPTURES)


def refuse_plain_runs(compiled: Any) -> None:
    statistics = gramme.statistics(compiled)
    assert (statistics.plain_runs, statistics.handovers) == (0, 0)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("case", SIZED.values(), ids=SIZED)
def test_forward(case: SizedModel, backend: str) -> None:
    model = case.make()
    compiled = compiled_of(model, backend)
    for pair, arguments, again in zip(case.pairs, case.calls(), case.calls(), strict=True):
        with torch.no_grad():
            with eagerly():
                expected = model(**arguments)
            assert same(compiled(**again), expected), f"batch and size {pair}"
    refuse_plain_runs(compiled)
    hold(f"models.{case.name}", gramme.statistics(compiled).captures, case.limit)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "case", [SIZED[n] for n in ("bert", "gpt2", "llama", "t5", "lstm", "unet")], ids=lambda c: c.name
)
def test_backward(case: SizedModel) -> None:
    """Gradients at each size, and of a forward that another one followed."""
    model = case.make()
    compiled = compiled_of(model, "aot_eager")

    def gradients(call: Callable[..., Any]) -> list[torch.Tensor]:
        model.zero_grad()
        found, calls = [], case.calls()
        outputs = [tensors(call(**arguments)) for arguments in calls]
        for made in reversed(outputs):
            torch.stack([t.square().mean() for t in made if t.requires_grad]).sum().backward()
            found += [p.grad.clone() for p in model.parameters() if p.grad is not None]
        return found

    with eagerly():
        expected = gradients(model)
    torch.testing.assert_close(gradients(compiled), expected, rtol=1e-4, atol=1e-5)


def decode(call: Callable[..., Any], config: Any) -> tuple[list[torch.Tensor], Any]:
    cache = transformers.DynamicCache(config=config)
    tokens, logits = ids(torch.Generator().manual_seed(0), 2, 4), []
    for _ in range(DECODED):
        with torch.no_grad():
            output = call(input_ids=tokens, past_key_values=cache, use_cache=True)
        logits.append(output.logits.clone())
        tokens = output.logits[:, -1:].argmax(-1)
    return logits, cache


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_a_cache_that_grows(backend: str) -> None:
    model = MODELS["llama"].make()
    compiled = compiled_of(model, backend)
    with eagerly():
        expected, filled = decode(model, model.config)
    actual, cache = decode(compiled, model.config)
    assert same(actual, expected)
    assert same(tensors(cache), tensors(filled))
    refuse_plain_runs(compiled)
    hold("models.decode", gramme.statistics(compiled).captures, 3)


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_generate(backend: str) -> None:
    """Greedy, prompts of two lengths, a dynamic cache made by the library."""

    def generate(model: Any) -> list[torch.Tensor]:
        made = []
        for seed, length in enumerate((5, 9)):
            prompt = ids(torch.Generator().manual_seed(seed), 2, length)
            mask = torch.ones_like(prompt)
            made.append(
                model.generate(
                    prompt, attention_mask=mask, max_new_tokens=NEW_TOKENS, min_new_tokens=NEW_TOKENS, do_sample=False
                )
            )
        return made

    def as_if_compiled(forward: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            with eagerly():
                return forward(*args, **kwargs)

        return call

    model, other = MODELS["llama"].make(), MODELS["llama"].make()
    forward = compiled_of(model.forward, backend)
    other.forward = as_if_compiled(other.forward)
    expected = generate(other)
    model.forward = forward
    actual = generate(model)
    assert same(actual, expected)
    refuse_plain_runs(forward)
    hold("models.generate", gramme.statistics(forward).captures, 3)


SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "beam": {"do_sample": False, "num_beams": 3},
    "sampling": {"do_sample": True},
    "beam sampling": {"do_sample": True, "num_beams": 2},
}


def search(model: Any, how: str) -> torch.Tensor:
    torch.manual_seed(0)
    prompt = ids(torch.Generator().manual_seed(1), 2, 5)
    made: torch.Tensor = model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=NEW_TOKENS,
        min_new_tokens=NEW_TOKENS,
        **SEARCHES[how],
    )
    return made


@pytest.mark.parametrize("how", SEARCHES)
def test_tokens_after_the_third_hit(how: str) -> None:
    model, other = MODELS["llama"].make(), MODELS["llama"].make()
    forward = compiled_of(model.forward, "eager")
    captured = []

    def counted(*args: Any, **kwargs: Any) -> Any:
        result = forward(*args, **kwargs)
        captured.append(gramme.statistics(forward).captures)
        return result

    with eagerly():
        expected = search(other, how)
    model.forward = counted
    assert torch.equal(search(model, how), expected)
    assert captured[2:] == [3] * (NEW_TOKENS - 2)


@pytest.mark.parametrize("how", SEARCHES)
def test_a_search_is_in_graphs(how: str) -> None:
    model, other = MODELS["llama"].make(), MODELS["llama"].make()
    with eagerly():
        expected = search(other, how)
    model.generate = gramme.compile(model.generate, backend="eager", recompile_limit=MOST_CAPTURES)
    for _ in range(2):
        before = gramme.statistics(model.generate).captures
        with gramme.meter() as meter:
            assert torch.equal(search(model, how), expected)
        assert meter.inside >= 0.97 * (meter.inside + meter.outside), str(meter)
    assert gramme.statistics(model.generate).captures == before


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_training(backend: str) -> None:
    """Batch and length differ from step to step: losses and weights are eager's."""

    def train(compile_: Callable[[Any], Any]) -> tuple[list[torch.Tensor], list[torch.Tensor], Any]:
        model = MODELS["llama"].make().train()
        step = compile_(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        losses, g = [], torch.Generator().manual_seed(0)
        for i in range(STEPS):
            tokens = ids(g, 1 + i * 5 % 6, 2 + i * 7 % 23)
            with eagerly() if step is model else contextlib.nullcontext():
                logits = step(input_ids=tokens, use_cache=False).logits
            loss = F.cross_entropy(logits[:, :-1].reshape(-1, VOCABULARY), tokens[:, 1:].reshape(-1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return losses, list(model.parameters()), step

    losses, weights, _ = train(lambda model: model)
    actual, trained, compiled = train(lambda model: compiled_of(model, backend))
    assert same(actual, losses)
    assert same(trained, weights)
    refuse_plain_runs(compiled)
    hold("models.training", gramme.statistics(compiled).captures, 3)
