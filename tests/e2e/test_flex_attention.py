"""torch.nn.attention.flex_attention: its two functions are graphs, and results and gradients are eager's."""

import functools
import gc
import linecache
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from e2e.nested_text import Shown

BACKENDS = ["eager", "native", "aot_eager"]
LENGTH = 128
torch.manual_seed(0)
bias = torch.randn(2)
table = torch.randn(1, 2)
documents = torch.arange(LENGTH) // 40


def masked(mask: Any) -> BlockMask:
    return create_block_mask(mask, 1, 1, LENGTH, LENGTH, device="cpu")


CAUSAL = masked(lambda b, h, i, j: i >= j)
DOCUMENTS = masked(lambda b, h, i, j: documents[i] == documents[j])


def plain(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    return flex_attention(q, k, v)


def biased(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + bias[h] * (i - j))


def two_indices(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    slope = q.sum(-1)
    return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s * table[b, h] + slope[b, h, i])


def capped(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    cap = 2.0

    def score(s: torch.Tensor, b: torch.Tensor, h: torch.Tensor, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        s = cap * torch.tanh(s / cap)
        return torch.where(i - j < 9, s, -float("inf")) if cap > 1 else s

    return flex_attention(q, k, v, score_mod=score, block_mask=CAUSAL, scale=0.3)


def relative(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + bias[h] * (i - j), block_mask=CAUSAL)


def of_documents(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    return flex_attention(q * 2, k, v, block_mask=DOCUMENTS).sum(1)


def with_sums(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    out, sums = flex_attention(q, k, v, block_mask=CAUSAL, return_lse=True)
    return out, sums * 2


def grouped(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    return flex_attention(q, k[:, :1], v[:, :1], enable_gqa=True)


def twice(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    once = flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + i)
    return flex_attention(once.relu(), k, once, score_mod=lambda s, b, h, i, j: s - table[b, h])


PROGRAMS = [plain, biased, two_indices, capped, relative, of_documents, with_sums, grouped, twice]


def inputs() -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(1)
    return tuple(torch.randn(1, 2, LENGTH, 8, generator=generator) for _ in range(3))


@functools.cache
def in_eager(program: Callable[..., Any]) -> Any:
    torch._dynamo.reset()  # PyTorch compiles it, and 2.15 fails where another program has made sizes vary
    return program(*inputs())


def gradients(function: Callable[..., Any]) -> tuple[torch.Tensor, ...]:
    """Of what the functions of the program look at: on CPUs there are no others."""
    closures = (bias.requires_grad_(), table.requires_grad_())
    try:
        return torch.autograd.grad(function(*inputs()).sin().sum(), closures, materialize_grads=True)
    finally:
        bias.requires_grad_(False)
        table.requires_grad_(False)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:flex_attention called without")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_is_one_graph_and_equals_eager(program: Callable[..., Any], backend: str) -> None:
    compiled = gramme.compile(program, backend=backend, fullgraph=program is not with_sums)
    for _ in range(3):
        torch.testing.assert_close(compiled(*inputs()), in_eager(program), rtol=0, atol=0)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:flex_attention called without")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [biased, two_indices])
def test_gradients_are_eagers(program: Callable[..., Any], backend: str) -> None:
    expected = gradients(program)
    compiled = gramme.compile(program, backend=backend, fullgraph=True)
    for _ in range(2):
        torch.testing.assert_close(gradients(compiled), expected, rtol=0, atol=0)


@pytest.mark.parametrize("program", [capped, relative])
def test_graph_is_pytorchs_but_for_the_order_of_inputs(program: Callable[..., Any]) -> None:
    shown = Shown()
    for front in (gramme.compile, torch.compile):
        torch._dynamo.reset()
        front(program, backend=shown, fullgraph=True)(*inputs())
    assert sorted(shown.graphs[0]) == sorted(shown.graphs[1])


def test_lengths_change() -> None:
    compiled = gramme.compile(biased, backend="eager")
    for length in (16, 24, 16, 40):
        given = [each[:, :, :length] for each in inputs()]
        torch.testing.assert_close(compiled(*given), biased(*given), rtol=0, atol=0)


@pytest.mark.filterwarnings("ignore:flex_attention called without")
def test_a_function_with_effects_runs_for_real() -> None:
    seen: list[int] = []

    def program(q: torch.Tensor) -> torch.Tensor:
        def score(s: torch.Tensor, b: torch.Tensor, h: torch.Tensor, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
            seen.append(1)
            return s * 2

        return flex_attention(q + 1, q, q, score_mod=score) * 2

    q = inputs()[0]
    outcomes = []
    for function in (program, gramme.compile(program, backend="eager")):
        seen.clear()
        try:
            outcomes.append(function(q))
        except Exception as error:
            outcomes.append(type(error))
        outcomes.append(len(seen))
    assert outcomes[:2] == outcomes[2:] or torch.equal(outcomes[0], outcomes[2])


def test_errors_are_eagers() -> None:
    def program(q: torch.Tensor) -> torch.Tensor:
        return flex_attention(q[0], q, q)

    for function in (program, gramme.compile(program, backend="eager")):
        with pytest.raises(NotImplementedError, match="must be 4D"):
            function(inputs()[0])


def test_what_cpus_refuse_is_refused() -> None:
    given = [each.requires_grad_() for each in inputs()]
    for function in (biased, gramme.compile(biased, backend="native")):
        with pytest.raises(NotImplementedError, match="does not support backward on CPU"):
            function(*given)


def test_training_a_module() -> None:
    class Attention(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv = torch.nn.Linear(8, 3 * 16).requires_grad_(False)
            self.out = torch.nn.Linear(16, 8)
            self.slopes = torch.nn.Parameter(torch.ones(2))

        def forward(self, x: torch.Tensor) -> Any:
            q, k, v = (each.unflatten(-1, (2, 8)).transpose(1, 2) for each in self.qkv(x).chunk(3, -1))
            out = flex_attention(
                q, k, v, score_mod=lambda s, b, h, i, j: s + self.slopes[h] * (i - j), block_mask=CAUSAL
            )
            return self.out(out.transpose(1, 2).flatten(-2))

    outcomes = []
    for compiled in (False, True):
        torch.manual_seed(0)
        module = Attention()
        run = gramme.compile(module, backend="native", fullgraph=True) if compiled else module
        optimizer = torch.optim.SGD([each for each in module.parameters() if each.requires_grad], lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            run(torch.linspace(-1, 1, LENGTH * 8).view(1, LENGTH, 8)).square().sum().backward()
            optimizer.step()
        outcomes.append([parameter.detach().clone() for parameter in module.parameters()])
    torch.testing.assert_close(outcomes[1], outcomes[0], rtol=0, atol=0)


def test_captures_leak_nothing() -> None:
    given = inputs()

    def captures(times: int) -> int:
        for _ in range(times):
            torch._dynamo.reset()
            gramme.compile(biased, backend="native", fullgraph=True)(*given)
        linecache.clearcache()  # torch.fx leaves the text of each module there
        gc.collect()
        return len(gc.get_objects())

    captures(5)
    before = captures(3)
    assert captures(15) <= before + 5
