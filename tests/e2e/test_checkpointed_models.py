"""Transformers with gradient checkpointing: one graph, eager's loss and gradients."""

from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch

transformers = pytest.importorskip("transformers")

SMALL: dict[str, Any] = {"vocab_size": 60, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}


def bert() -> Any:
    config = transformers.BertConfig(**SMALL, intermediate_size=32, max_position_embeddings=16)
    return transformers.BertModel(config, add_pooling_layer=False)


def llama() -> Any:
    config = transformers.LlamaConfig(**SMALL, intermediate_size=32, num_key_value_heads=2, max_position_embeddings=16)
    return transformers.LlamaModel(config)


def t5() -> Any:
    config = transformers.T5Config(
        vocab_size=60, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, is_encoder_decoder=False, use_cache=False
    )
    return transformers.T5EncoderModel(config)


def bloom() -> Any:
    """Its gelu is a function with a gradient of its own."""
    config = transformers.BloomConfig(vocab_size=60, hidden_size=16, n_layer=2, n_head=2, use_cache=False)
    return transformers.BloomModel(config)


def train(make: Callable[[], Any], backend: str | None, reentrant: bool) -> Any:
    torch.manual_seed(0)
    model = make().train()
    model.config.use_cache = False
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": reentrant})
    if reentrant:
        model.enable_input_require_grads()
    called = gramme.compile(model, backend=backend, fullgraph=True) if backend else model
    words = torch.arange(20).view(2, 10)
    losses = []
    for _ in range(2):
        loss = called(input_ids=words).last_hidden_state.pow(2).mean()
        loss.backward()
        losses.append(loss.detach())
    return losses, {name: parameter.grad for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("make", [bert, llama, t5, bloom])
def test_one_graph_with_eagers_gradients(make: Callable[[], Any], backend: str) -> None:
    torch.testing.assert_close(train(make, backend, False), train(make, None, False), rtol=0, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize("make", [llama, bert])
def test_one_graph_with_reentrant_checkpoints(make: Callable[[], Any]) -> None:
    torch.testing.assert_close(train(make, "eager", True), train(make, None, True), rtol=0, atol=0)
