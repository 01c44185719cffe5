"""Checkpointed blocks with a recorded backward, which runs the forward again by a tape: eager's bits."""

import gc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gramme
import pytest
import torch
from e2e.test_leaks import reads_memory, resident
from sampling import SOAK
from torch import nn
from torch.utils.checkpoint import checkpoint

from native import random_checkpoints
from native.random_checkpoints import Counting, Mlp, Writing
from native.same import graphs
from native.test_recorded_backward import bits, recorded

pytestmark = pytest.mark.usefixtures("fresh")


def checkpointed(blocks: list[nn.Module], **options: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    def call(x: torch.Tensor) -> torch.Tensor:
        for block in blocks:
            x = checkpoint(block, x, **{"use_reentrant": False, **options})
        return x.sin()

    return call


def backwards() -> int:
    """Calls of blocks with a recorded backward."""
    blocks = [g for g in graphs() if "checkpoint:" not in gramme._C.native.tape(g)]
    return sum(gramme._C.native.counters(block)["backwards"] for block in blocks)


def lines(start: str) -> list[str]:
    return [line for g in graphs() for line in gramme._C.native.tape(g).splitlines() if line.startswith(start)]


def train(call: Callable[..., Any], blocks: list[nn.Module], steps: int, dtype: torch.dtype | None = None) -> list[Any]:
    told: list[Any] = []
    for step in range(steps):
        torch.manual_seed(step)
        x = torch.randn(4, 8, requires_grad=True)
        parameters = [p for block in blocks for p in block.parameters()]
        for parameter in parameters:
            parameter.grad = None
        with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
            y = call(x)
        y.float().square().sum().backward()
        told += bits([y, x.grad, torch.rand(1), *(p.grad for p in parameters)])
    return told


@pytest.mark.parametrize("dtype", [None, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("p", [0.0, 0.3])
def test_blocks_are_recorded(p: float, dtype: torch.dtype | None) -> None:
    torch.manual_seed(0)
    blocks: list[nn.Module] = [Mlp(p), Mlp(p)]
    call = checkpointed(blocks)
    compiled = recorded(call)
    assert train(compiled, blocks, 6, dtype) == train(call, blocks, 6, dtype)
    # not in the first step, nor in the second, which learns
    assert backwards() == gramme.statistics(compiled).recorded_backwards == 2 * 4


def test_the_forward_leaves_nothing() -> None:
    blocks: list[nn.Module] = [Mlp(0.0)]
    train(recorded(checkpointed(blocks)), blocks, 4)
    assert len(lines("forward: ")) == len(lines("forward again: ")) == 2  # the graph's text has the block's, too


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_reentrant_blocks_are_recorded_where_they_run_again(dtype: torch.dtype | None) -> None:
    torch.manual_seed(0)
    blocks: list[nn.Module] = [Mlp(0.3), Mlp(0.0)]
    call = checkpointed(blocks, use_reentrant=True)
    assert train(recorded(call), blocks, 6, dtype) == train(call, blocks, 6, dtype)
    assert backwards() == 2 * 4


def test_numbers_that_are_drawn_again_are_not_recorded() -> None:
    torch.manual_seed(0)
    blocks: list[nn.Module] = [Mlp(0.3)]
    call = checkpointed(blocks, preserve_rng_state=False)
    assert train(recorded(call), blocks, 5) == train(call, blocks, 5)
    assert backwards() == 0


@pytest.mark.parametrize("kind", [Counting, Writing])
def test_blocks_that_write_are_checkpoints_as_before(kind: type[nn.Module]) -> None:
    torch.manual_seed(0)
    block = kind(0.0)
    call = checkpointed([block])
    start = {name: value.clone() for name, value in block.state_dict().items()}
    found = train(recorded(call), [block], 5), bits(block.buffers())
    block.load_state_dict(start)
    assert found == (train(call, [block], 5), bits(block.buffers()))
    assert backwards() == 0
    assert lines("stopped: ")


def test_a_written_argument_raises_as_eagers_does() -> None:
    block = Mlp(0.0)
    call = checkpointed([block])
    compiled = recorded(call)
    train(compiled, [block], 4)
    texts = []
    for each in (call, compiled):
        x = torch.randn(4, 8)
        y = each(x)
        x.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation") as raised:
            y.sum().backward()
        texts.append(str(raised.value))
    assert texts[0] == texts[1]


def test_parameters_are_read_when_the_backward_runs() -> None:
    """A checkpoint does not notice that its parameters were written, and recomputes with what they are."""
    torch.manual_seed(0)
    block = Mlp(0.0)
    call = checkpointed([block])
    compiled = recorded(call)
    train(compiled, [block], 4)
    x, found = torch.randn(4, 8), []
    start = {name: value.clone() for name, value in block.state_dict().items()}
    for each in (call, compiled):
        block.load_state_dict(start)
        block.zero_grad()
        y = each(x)
        with torch.no_grad():
            block.a.bias.add_(1)
        y.sum().backward(retain_graph=True)
        with torch.no_grad():
            block.a.bias.add_(1)
        y.sum().backward()
        found.append(bits([y, *(p.grad for p in block.parameters())]))
    assert found[0] == found[1]


@reads_memory
def test_nothing_leaks() -> None:
    blocks: list[nn.Module] = [Mlp(0.3), Mlp(0.3)]
    call = recorded(checkpointed(blocks))

    def grown() -> tuple[int, int]:
        before, objects = resident(), len(gc.get_objects())
        train(call, blocks, 400, torch.bfloat16)
        gc.collect()
        return resident() - before, len(gc.get_objects()) - objects

    rounds = [grown() for _ in range(3)]  # the first ones warm up
    assert rounds[-1][0] <= 400_000
    assert rounds[-1][1] <= 20


def test_threads_share_the_blocks() -> None:
    torch.manual_seed(0)
    blocks: list[nn.Module] = [Mlp(0.0), Mlp(0.0)]
    call = checkpointed(blocks)
    compiled = recorded(call)
    inputs = [torch.randn(4, 8, requires_grad=True) for _ in range(6)]

    def gradients(f: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> Any:
        return bits(torch.autograd.grad(f(x).square().sum(), [x, *(p for b in blocks for p in b.parameters())]))

    wanted = [gradients(call, x) for x in inputs]
    with ThreadPoolExecutor(3) as pool:
        for _ in range(15):
            assert list(pool.map(lambda x: gradients(compiled, x), inputs)) == wanted
    assert gramme.statistics(compiled).recorded_backwards > 100


@pytest.mark.parametrize("seed", range(60))
def test_random_models(seed: int) -> None:
    assert random_checkpoints.difference(seed) is None


@pytest.mark.slow
@pytest.mark.timeout(7200 if SOAK else 240)
def test_many_random_models() -> None:
    for seed in range(10_000, 20_000 if SOAK else 10_300):
        assert random_checkpoints.difference(seed) is None
        if seed % 20 == 0:
            gramme.reset()
