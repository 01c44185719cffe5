"""Caches made in forward, returned, passed to the next call and written there: decoding loops."""

from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch

pytest.importorskip("transformers")

import transformers

from e2e.models import MODELS, VOCABULARY, eagerly, same, tensors

pytestmark = pytest.mark.slow

STEPS = 10
Cache = Callable[[Any], Any]
CACHES: dict[str, Cache] = {
    "made": lambda model: None,
    "dynamic": lambda model: transformers.DynamicCache(config=model.config),
    "static": lambda model: transformers.StaticCache(config=model.config, max_cache_len=32),
}


def decode(call: Callable[..., Any], cache: Any, masked: bool = False) -> tuple[list[torch.Tensor], Any]:
    """Greedy decoding: the logits of each step and the cache at the end."""
    tokens = torch.randint(3, VOCABULARY, (2, 4), generator=torch.Generator().manual_seed(0))
    logits = []
    for step in range(STEPS):
        more = {"attention_mask": torch.ones(2, 4 + step, dtype=torch.long)} if masked else {}
        with torch.no_grad():
            output = call(input_ids=tokens, past_key_values=cache, use_cache=True, **more)
        logits.append(output.logits.clone())
        cache = output.past_key_values
        tokens = output.logits[:, -1:].argmax(-1)
    return logits, cache


def eager(*args: Any, **kwargs: Any) -> Any:
    with eagerly():
        return decode(*args, **kwargs)


@pytest.mark.parametrize("kind", ["made", "dynamic"])
@pytest.mark.parametrize("name", ["llama", "gpt2", "mistral", "gemma2_cache"])
def test_a_growing_cache(name: str, kind: str) -> None:
    """One capture for each length, none for lengths seen before."""
    model = MODELS[name].make()
    compiled = gramme.compile(model, backend="eager", fullgraph=True, recompile_limit=64)
    expected, cache = eager(model, CACHES[kind](model), masked=name == "gpt2")
    for _ in range(2):
        actual, filled = decode(compiled, CACHES[kind](model), masked=name == "gpt2")
        assert same(actual, expected)
        assert type(filled) is type(cache)
        assert same(tensors(filled), tensors(cache))
        assert filled.get_seq_length() == cache.get_seq_length() == STEPS + 3
    assert gramme.statistics(compiled).captures <= STEPS


@pytest.mark.parametrize("name", ["llama", "gpt2", "qwen2"])
def test_a_static_cache(name: str) -> None:
    """Written in place: one capture for the prompt, one for all steps after it."""
    model = MODELS[name].make()
    compiled = gramme.compile(model, backend="eager", fullgraph=True)
    expected, cache = eager(model, CACHES["static"](model))
    for _ in range(2):
        actual, filled = decode(compiled, CACHES["static"](model))
        assert same(actual, expected)
        assert same(tensors(filled), tensors(cache))
    statistics = gramme.statistics(compiled)
    assert (statistics.captures, statistics.hits) == (2, 2 * STEPS - 2)


def test_a_full_static_cache_raises_as_eager() -> None:
    """The step that does not fit raises, and leaves the cache as eager leaves it."""
    model = MODELS["llama"].make()
    compiled = gramme.compile(model, backend="eager", fullgraph=True)

    def fill(call: Callable[..., Any]) -> tuple[str, list[torch.Tensor]]:
        cache = transformers.StaticCache(config=model.config, max_cache_len=6)
        with torch.no_grad():
            for length in (4, 1, 1):
                call(input_ids=torch.full((1, length), 5), past_key_values=cache, use_cache=True)
            with pytest.raises((IndexError, RuntimeError)) as raised:
                call(input_ids=torch.full((1, 1), 5), past_key_values=cache, use_cache=True)
        return str(raised.value), tensors(cache)

    with eagerly():
        message, left = fill(model)
    actual = fill(compiled)
    assert actual[0] == message
    assert same(actual[1], left)


@pytest.mark.parametrize("name", ["t5", "bart", "whisper"])
def test_encoder_and_decoder(name: str) -> None:
    case = MODELS[name]
    model = case.make()
    given = {k: v for k, v in case.arguments(0).items() if k not in ("decoder_input_ids", "use_cache")}

    def loop(call: Callable[..., Any]) -> list[Any]:
        tokens, cache, outputs = torch.full((2, 1), 3), None, []
        for _ in range(4):
            with torch.no_grad():
                output = call(**given, decoder_input_ids=tokens, past_key_values=cache, use_cache=True)
            cache = output.past_key_values
            outputs.append([tensor.clone() for tensor in tensors(output)])
            tokens = output[0][:, -1:].argmax(-1)
        return outputs

    compiled = gramme.compile(model, backend="eager", fullgraph=True)
    expected = loop(model)
    for _ in range(2):
        assert same(loop(compiled), expected)
    assert gramme.statistics(compiled).captures <= 4
