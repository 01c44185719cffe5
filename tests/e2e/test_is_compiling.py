"""Who asks whether it is compiled, and is told so: programs are; torch's own code where it does the same then."""

from typing import Any

import gramme
import pytest
import torch
from torch import nn

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.filterwarnings("ignore:The PyTorch API of nested")]
EXECUTORS = ["eager", "native"]


def encoder() -> Any:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    return nn.TransformerEncoder(layer, 2).eval()


def attention() -> Any:
    return nn.MultiheadAttention(8, 2, batch_first=True).eval()


def padding() -> torch.Tensor:
    return torch.tensor([[False, False, True], [False, False, False]])


@pytest.mark.parametrize("backend", EXECUTORS)
def test_a_padded_encoder_takes_its_fast_path(backend: str) -> None:
    """What is padded is zero there, and something else on the path for compilers."""
    torch.manual_seed(0)
    model, x = encoder(), torch.randn(2, 3, 8)
    compiled = gramme.compile(model, backend=backend)
    with torch.no_grad():
        wanted = model(x, src_key_padding_mask=padding())
        assert wanted[0, 2].tolist() == [0] * 8
        for _ in range(2):
            assert torch.equal(compiled(x, src_key_padding_mask=padding()), wanted)


@pytest.mark.parametrize("backend", EXECUTORS)
@pytest.mark.parametrize("masked", [False, True])
def test_fused_attention_has_its_bits(masked: bool, backend: str) -> None:
    torch.manual_seed(0)
    model, x = attention(), torch.randn(2, 3, 8)
    compiled = gramme.compile(model, backend=backend, fullgraph=True)
    mask = padding() if masked else None
    with torch.no_grad():
        wanted = model(x, x, x, key_padding_mask=mask)
        for _ in range(2):
            found = compiled(x, x, x, key_padding_mask=mask)
            assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))


def test_compilers_get_the_form_of_graphs() -> None:
    """The fused operator would be a black box to them."""
    seen: list[str] = []

    def backend(graph: torch.fx.GraphModule, _: Any) -> Any:
        seen.append(graph.code)
        return graph

    with torch.no_grad():
        gramme.compile(attention(), backend=backend)(*[torch.randn(2, 3, 8)] * 3)
    assert "_native_multi_head_attention" not in "".join(seen)
    assert "multi_head_attention_forward" in "".join(seen)


def test_a_budget_may_be_set_in_compiled_code() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        with torch.autograd.graph.region_activation_memory_budget(0.5):
            return x.sin().exp()

    x = torch.ones(3)
    assert torch.equal(gramme.compile(f, backend="eager")(x), x.sin().exp())
    with pytest.raises(RuntimeError, match="no effect in eager mode"):
        f(x)


@pytest.mark.parametrize("asked", [torch.compiler.is_compiling, torch.compiler.is_dynamo_compiling])
def test_programs_are_told(asked: Any) -> None:
    def helper() -> Any:
        return asked()

    def f(x: torch.Tensor) -> Any:
        return x + 1, asked(), helper(), [asked() for _ in range(1)]

    compiled = gramme.compile(f, backend="eager", fullgraph=True)
    assert compiled(torch.ones(1))[1:] == (True, True, [True])
    assert asked() is False
