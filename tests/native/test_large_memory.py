"""Tensors of 32 MiB and more that a native graph makes lie in blocks of huge pages, which are used again."""

import os
import pickle
import threading
from collections.abc import Callable, Iterator
from typing import Any

import gramme
import gramme._C as _C
import pytest
import torch

SIDE = 3000  # 36 MB in float32
KEPT_AT_MOST = 512 << 20


def counted() -> dict[str, int]:
    return _C.native.memory()


@pytest.fixture
def x() -> Iterator[torch.Tensor]:
    yield torch.arange(SIDE * SIDE, dtype=torch.float32).view(SIDE, SIDE)
    gramme.reset()


def compiled(function: Callable[..., Any], x: torch.Tensor) -> Callable[..., Any]:
    """Has its tape."""
    made = gramme.compile(function, backend="native")
    for _ in range(3):
        made(x)
    return made


def test_freed_blocks_are_used_again(x: torch.Tensor) -> None:
    call = compiled(lambda x: (x + 1).mul(2).sum(1), x)
    before = counted()
    assert torch.equal(call(x), (x + 1).mul(2).sum(1))
    after = counted()
    made = after["large"] - before["large"]
    assert made >= 1
    assert after["large_reused"] - before["large_reused"] == made
    assert 0 < after["large_kept"] <= KEPT_AT_MOST


def test_small_tensors_and_those_made_outside_lie_elsewhere(x: torch.Tensor) -> None:
    call = compiled(lambda x: x[:100] + 1, x)
    before = counted()["large"]
    call(x)
    kept = [x + 1, torch.empty(SIDE, SIDE)]
    assert counted()["large"] == before
    del kept


def test_results_are_the_callers(x: torch.Tensor) -> None:
    """Results that live are not overwritten by later calls, and are freed by whichever thread."""
    call = compiled(lambda x: x + 1, x)
    results = [call(x) for _ in range(4)]
    assert len({result.data_ptr() for result in results}) == 4
    call(x * 2)
    assert all(torch.equal(result, x + 1) for result in results)
    kept = counted()["large_kept"]
    thread = threading.Thread(target=results.clear)
    thread.start()
    thread.join()
    assert counted()["large_kept"] > kept


def test_no_more_is_kept_than_the_bound(x: torch.Tensor) -> None:
    call = compiled(lambda x: x + 1, x)
    results = [call(x) for _ in range(20)]  # 720 MB
    results.clear()
    assert counted()["large_kept"] <= KEPT_AT_MOST


def test_results_are_tensors_like_others(x: torch.Tensor) -> None:
    call = compiled(lambda x: x + 1, x)
    result = call(x)
    assert result.untyped_storage().nbytes() == 4 * SIDE * SIDE
    assert (result.numpy() == (x + 1).numpy()).all()
    assert torch.equal(pickle.loads(pickle.dumps(result)), x + 1)
    shared = call(x).share_memory_()
    assert shared.is_shared()
    assert torch.equal(shared, x + 1)
    grown = call(x).resize_(2 * SIDE, SIDE)
    assert torch.equal(grown[:SIDE], x + 1)
    grown.untyped_storage().resize_(0)
    assert grown.untyped_storage().nbytes() == 0


def test_gradients_of_a_large_parameter(x: torch.Tensor) -> None:
    weight = torch.nn.Parameter(x / x.numel())
    tokens = torch.arange(8) * 7

    def loss(tokens: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.embedding(tokens, weight).square().sum()

    call = gramme.compile(loss, backend="native")
    before = counted()["large"]
    for step in range(5):
        weight.grad = None
        loss(tokens).backward()
        expected, weight.grad = weight.grad, None
        call(tokens).backward()
        assert torch.equal(weight.grad, expected), step
    assert counted()["large"] > before


def test_while_memory_is_profiled_blocks_are_the_original_allocators(x: torch.Tensor) -> None:
    call = compiled(lambda x: x + 1, x)
    before = counted()["large"]
    with torch.profiler.profile(profile_memory=True) as profiler:
        result = call(x)
    assert counted()["large"] == before
    assert sum(event.self_cpu_memory_usage for event in profiler.events()) >= result.nbytes


def test_a_forked_process_goes_on(x: torch.Tensor) -> None:
    call = compiled(lambda x: x + 1, x)
    expected = call(x)
    child = os.fork()
    if not child:
        torch.set_num_threads(1)  # OpenMP's other threads are not in the child
        os._exit(0 if torch.equal(call(x), expected) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
