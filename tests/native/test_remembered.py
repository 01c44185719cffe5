"""What a call remembers of the one before is used for the same sizes, strides and numbers only."""

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gramme
import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from native import test_computed_views as computed
from native.same import difference, outcome, twin

native: Any = gramme._C.native
pytestmark = pytest.mark.usefixtures("one_thread")


def check(module: Any, graph: Any, *inputs: Any) -> None:
    wanted, found = outcome(module.forward, [*map(twin, inputs)]), outcome(graph, [*map(twin, inputs)])
    assert difference(wanted, found) is None, f"{difference(wanted, found)}\n{native.tape(graph)}"


def compiled(program: Callable[..., Any]) -> tuple[Any, Any]:
    module = torch.fx.symbolic_trace(program)
    return module, native.from_graph_module(module)


@pytest.mark.parametrize("program", computed.PROGRAMS, ids=lambda program: program.__name__)
def test_sizes_and_strides_come_and_go(program: Callable[..., Any]) -> None:
    module, graph = compiled(program)
    rng = random.Random(0)
    only_contiguous = program.__name__ in ("views", "chains", "slices_of_views", "pieces", "layers", "attention")
    with torch.no_grad():
        for _ in range(12):
            n = rng.choice((4, 4, 6, 1, 0))
            layouts = (
                computed.tensor(n, 3, 4),
                computed.tensor(4, 3, n).transpose(0, 2),
                computed.tensor(2 * n, 3, 4)[::2],
            )
            x = rng.choice(layouts)
            for _ in range(rng.choice((1, 2, 3))):
                check(module, graph, x.contiguous() if only_contiguous else x, n)
    assert native.counters(graph)["recorded"] == 1


def test_numbers_change_while_sizes_stay() -> None:
    module, graph = compiled(lambda x, n: (x.view(-1, 6)[: n - 1].unsqueeze(1) * 1, x[n // 2] * 1))
    with torch.no_grad():
        for n in (3, 3, 2, 2, 4, 3, 4, 4, 9, 3, 3):
            check(module, graph, computed.tensor(6, 2, 3), n)


def test_data_changes_sizes_while_inputs_stay() -> None:
    module, graph = compiled(lambda x, n: (x[x > 0].view(-1, 1).expand(-1, 2)[: n + 1] * 1).transpose(0, 1) * 1)
    with torch.no_grad():
        for seed in (0, 0, 1, 2, 2, 3, 0):
            check(module, graph, torch.randn(9, generator=torch.Generator().manual_seed(seed)), 5)


def test_a_call_that_raised_is_not_remembered() -> None:
    module, graph = compiled(lambda x, n: x.unsqueeze(0).view(n, 6) * 1)
    with torch.no_grad():
        for n in (4, 5, 5, 4, 4, 5, 4):
            check(module, graph, computed.tensor(4, 2, 3), n)


# ---- attention: the kernel is chosen by sizes, strides and settings


def heads(n: int, batch: int = 2, width: int = 8) -> torch.Tensor:
    return computed.tensor(batch, n, 3, width).transpose(1, 2)


def attend(x: Any, n: Any, mask: Any = None, *, causal: bool = False, scale: float | None = None) -> Any:
    return F.scaled_dot_product_attention(x, x + 1, x * 2, mask, 0.0, causal, scale=scale).transpose(1, 2) + n


ATTENTION: dict[str, Callable[..., Any]] = {
    "plain": lambda x, n: attend(x, n),
    "causal": lambda x, n: attend(x, n, causal=True),
    "scaled": lambda x, n: attend(x, n, scale=0.5),
    "with a mask": lambda x, n: attend(x, n, (x[..., :1] > x[..., 1:2].transpose(-1, -2)) | (x[..., :1] > -9)),
    "with one that leaves rows out": lambda x, n: attend(x, n, x[..., :1] > x[..., 1:2].transpose(-1, -2)),
    "with a float mask": lambda x, n: attend(x, n, x[..., :1] - x[..., 1:2].transpose(-1, -2)),
    "with a mask for all heads": lambda x, n: attend(x, n, x[:, :1, :, :1] > x[:, :1, :, 1:2].transpose(-1, -2)),
    "of another length": lambda x, n: F.scaled_dot_product_attention(x[:, :, 1:], x, x) * n,
    "with columns apart": lambda x, n: F.scaled_dot_product_attention(x[..., ::2], x[..., ::2], x[..., 1::2]) * n,
    "of other widths": lambda x, n: F.scaled_dot_product_attention(x[..., :4], x[..., :4], x) * n,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ATTENTION)
def test_attention(name: str, dtype: torch.dtype) -> None:
    module, graph = compiled(ATTENTION[name])
    rng = random.Random(name)
    with torch.no_grad():
        for _ in range(10):
            n, batch = rng.choice((5, 16, 33, 1, 0)), rng.choice((2, 1))
            for _ in range(rng.choice((1, 2, 3))):
                check(module, graph, heads(n, batch).to(dtype), n)
    assert native.counters(graph) | {"recorded": 1, "stepwise": 0} == native.counters(graph)


def test_attention_follows_the_settings() -> None:
    module, graph = compiled(lambda x, n: attend(x, n))
    with torch.no_grad():
        for backends in ([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH], [SDPBackend.MATH]) * 3:
            with sdpa_kernel(backends):
                for _ in range(3):
                    check(module, graph, heads(40), 3)


def test_attention_that_raises() -> None:
    module, graph = compiled(lambda x, n, mask: F.scaled_dot_product_attention(x, x, x, mask) * n)
    with torch.no_grad():
        for n in (7, 7, 6, 7, 6, 6, 7):
            check(module, graph, heads(7), n, torch.ones(n, 7, dtype=torch.bool).tril())


def test_threads_remember_for_themselves() -> None:
    module, graph = compiled(lambda x, n: attend(x, n).reshape(n, -1)[: n // 2].unsqueeze(-1) * 1)

    def work(i: int) -> bool:
        torch.set_num_threads(1)
        n = (3, 8, 8, 17)[i % 4]
        with torch.no_grad():
            return torch.equal(graph(heads(n), n), module(heads(n), n))

    assert work(0)
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(200)))
    assert native.counters(graph)["recorded"] == 1
