"""Transformers built from configurations: one graph, the same numbers, hits."""

from typing import Any

import gramme
import pytest
import torch

pytestmark = pytest.mark.slow

SMALL: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert": (
        "BertModel",
        "BertConfig",
        {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 64,
            "vocab_size": 50,
        },
    ),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", {"n_embd": 32, "n_layer": 2, "n_head": 2, "vocab_size": 50}),
    "llama": (
        "LlamaForCausalLM",
        "LlamaConfig",
        {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 64,
            "vocab_size": 50,
        },
    ),
}


def flatten(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else []
    return [tensor for item in items for tensor in flatten(item)]


@pytest.mark.parametrize("name", SMALL)
def test_one_graph_and_the_same_numbers(name: str) -> None:
    transformers = pytest.importorskip("transformers")
    model_name, config_name, sizes = SMALL[name]
    torch.manual_seed(0)
    model = getattr(transformers, model_name)(getattr(transformers, config_name)(**sizes)).eval()
    graphs: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        graphs.append(graph)
        return graph.forward

    compiled = gramme.compile(model, backend=backend, fullgraph=True)
    for seed in range(3):
        ids = torch.randint(0, 50, (2, 8), generator=torch.Generator().manual_seed(seed))
        with torch.no_grad():
            expected, actual = model(input_ids=ids), compiled(input_ids=ids)
        assert type(actual) is type(expected)
        assert list(actual.keys()) == list(expected.keys())
        assert all(torch.equal(a, b) for a, b in zip(flatten(actual), flatten(expected), strict=True))
    assert len(graphs) == 1
    assert gramme.statistics(compiled).captures == 1
