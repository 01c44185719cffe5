"""Attention of any length: one capture whichever kernel it takes, laid out as eager's."""

from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as attention

MASKS: dict[str, Callable[[int], torch.Tensor | None]] = {
    "none": lambda length: None,
    "two": lambda length: torch.rand(length, length) > 0.3,
    "three": lambda length: torch.rand(3, 1, length),
    "four": lambda length: torch.rand(1, 3, length, length),
    "with gradient": lambda length: torch.rand(1, 3, length, length).requires_grad_(),
}


def program(q: torch.Tensor, mask: torch.Tensor | None, dropout: float) -> Any:
    by_heads = q.transpose(1, 2).contiguous().transpose(1, 2)
    return (
        attention(q, q, q, mask, dropout),
        attention(by_heads, by_heads, by_heads, mask, dropout),
        attention(by_heads, q, by_heads, attn_mask=mask, dropout_p=dropout),
    )


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("kind", MASKS)
def test_one_capture(kind: str, dropout: float, backend: str) -> None:
    compiled = gramme.compile(lambda q, mask: program(q, mask, dropout), backend=backend, dynamic=True, fullgraph=True)
    for length in (4, 6, 9, 17):
        q, mask = torch.randn(2, 3, length, 8), MASKS[kind](length)
        torch.manual_seed(0)
        expected = program(q, mask, dropout)
        torch.manual_seed(0)
        for ours, eagers in zip(compiled(q, mask), expected, strict=True):
            torch.testing.assert_close(ours, eagers, rtol=0, atol=0, equal_nan=True)
            assert ours.stride() == eagers.stride()
    assert gramme.statistics(compiled).captures == 1


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("Bert", {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}),
        ("T5", {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2}),
    ],
)
def test_models_in_training(kind: str, options: dict[str, int]) -> None:
    transformers = pytest.importorskip("transformers")
    model = getattr(transformers, f"{kind}Model")(getattr(transformers, f"{kind}Config")(vocab_size=64, **options))
    model.train()
    compiled = gramme.compile(model, backend="eager", dynamic=True, fullgraph=True)
    for shape in ((2, 8), (3, 12), (2, 20), (5, 9)):
        ids = torch.randint(0, 64, shape)
        more = {"decoder_input_ids": ids} if kind == "T5" else {}
        torch.manual_seed(0)
        expected = model(ids, **more)[0]
        torch.manual_seed(0)
        torch.testing.assert_close(compiled(ids, **more)[0], expected, rtol=0, atol=0)
    assert gramme.statistics(compiled).captures == 1
