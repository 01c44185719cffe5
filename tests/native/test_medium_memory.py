"""Tensors from 256 KiB to 32 MiB that training steps make, the recorded ones included, lie in a range of their own: the
process takes no more memory than eager's, and pages stay for the next step."""

import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import gramme
import gramme._C as _C
import pytest
import torch
from torch import nn

pytestmark = pytest.mark.usefixtures("fresh")
COUNT = 1 << 19  # numbers of a tensor that is too large for the lists of small ones
BYTES = 4 * COUNT


def used() -> int:
    """Bytes of blocks in the range."""
    return _C.native.memory()["medium"]


def idle() -> int:
    return _C.native.memory()["medium_idle"]


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return gramme.compile(function, backend="native", options=options)


def leaf(count: int = COUNT) -> torch.Tensor:
    return torch.randn(count, requires_grad=True)


def test_what_a_step_makes_is_freed() -> None:
    torch.manual_seed(0)
    model, x = (
        nn.Sequential(*[nn.Sequential(nn.Linear(1024, 1024), nn.GELU()) for _ in range(3)]),
        torch.randn(512, 1024),
    )
    model(x).sum().backward()
    expected = [p.grad for p in model.parameters()]
    call, before = compiled(model), used()
    ends = []
    for step in range(6):
        model.zero_grad()
        assert used() == before
        loss = call(x).sum()
        assert used() >= before + 5 * BYTES  # what formulas saved
        loss.backward()
        del loss
        for p, wanted in zip(model.parameters(), expected, strict=True):
            assert p.grad is not None
            assert wanted is not None
            assert torch.equal(p.grad, wanted)
        gradients = sum(p.numel() * 4 for p in model.parameters() if p.dim() == 2)
        assert (used() >= before + gradients) == (step > 0)  # the first backward is the program's
        ends.append(used() + idle())
    assert len(set(ends[2:])) == 1  # it grows no further


def test_results_are_the_callers() -> None:
    """Results that live are not overwritten by later calls, and are freed by whichever thread."""
    call, x, before = compiled(lambda x: x.sin() * 2), leaf(), used()
    results = [call(x * i) for i in range(12)]
    for result in results:
        result.sum().backward()
    results = [call(x * i) for i in range(12)]
    assert len({result.data_ptr() for result in results}) == 12
    assert all(torch.equal(result, (x * i).sin() * 2) for i, result in enumerate(results))
    held = used()
    del result
    thread = threading.Thread(target=results.clear)
    thread.start()
    thread.join()
    assert used() <= held - 12 * BYTES
    x.grad = None
    assert used() == before


def test_results_are_tensors_like_others() -> None:
    call, x, before = compiled(lambda x: (x + 1) * 2), leaf(), used()
    expected = ((x + 1) * 2).detach()
    for _ in range(4):
        result = call(x)
        result.sum().backward()
        x.grad = None
        assert result.untyped_storage().nbytes() == BYTES
        assert result.data_ptr() % 64 == 0
        assert torch.equal(result, expected)
        assert used() >= before + BYTES
        shared = result.detach().share_memory_()
        assert torch.equal(shared, expected)
        grown = call(x).detach()
        grown.resize_(2 * COUNT)
        assert torch.equal(grown[:COUNT], expected)
        grown.untyped_storage().resize_(0)
        del result, shared, grown
        assert used() == before


def test_blocks_of_many_sizes_do_not_overlap() -> None:
    draw = random.Random(0)
    calls = [compiled(lambda x, i=i: x * 1 + i) for i in range(8)]
    leaves = [leaf(draw.randrange(1 << 18, 1 << 20)) for _ in calls]
    before, live = used(), []
    for call, x in zip(calls, leaves, strict=True):
        for _ in range(2):
            call(x).sum().backward()
        x.grad = None
    for _ in range(300):
        i = draw.randrange(8)
        live.append((calls[i](leaves[i]), i))
        if len(live) > 10:
            result, j = live.pop(draw.randrange(11))
            assert torch.equal(result, leaves[j] * 1 + j)
    assert all(torch.equal(result, leaves[j] * 1 + j) for result, j in live)
    del result
    live.clear()
    assert used() == before
    assert idle() < 64 << 20


@pytest.mark.parametrize("count", [(1 << 18) - 64, 1 << 23])
def test_other_sizes_lie_elsewhere(count: int) -> None:
    call, x, before = compiled(lambda x: x.sin() * 2), leaf(count), used()
    for _ in range(3):
        result = call(x)
        assert used() == before
        result.sum().backward()
        assert used() == before


@pytest.mark.parametrize("options", [{"caching_allocator": False}, {"recorded_backward": False}])
def test_other_steps_take_it_from_the_original_allocator(options: dict[str, Any]) -> None:
    call, x, before = compiled(lambda x: x.sin() * 2, **options), leaf(), used()
    for _ in range(3):
        result = call(x)
        assert used() == before
        result.sum().backward()
        assert used() == before


def test_calls_without_gradients_do_so_too() -> None:
    call, x, before = compiled(lambda x: x.sin() * 2), torch.randn(COUNT), used()
    with torch.no_grad():
        results = [call(x) for _ in range(3)]
    assert used() == before
    del results


def test_while_memory_is_profiled_blocks_are_the_original_allocators() -> None:
    call, x, before = compiled(lambda x: (x + 1) * 2), leaf(), used()
    for _ in range(3):
        call(x)
    with torch.profiler.profile(profile_memory=True) as profiler:
        result = call(x)
    assert used() == before
    assert sum(event.self_cpu_memory_usage for event in profiler.events()) >= result.nbytes


def test_a_forked_process_goes_on() -> None:
    call, x = compiled(lambda x: (x + 1) * 2), leaf()
    expected = [call(x) for _ in range(3)][-1]
    child = os.fork()
    if not child:
        torch.set_num_threads(1)  # OpenMP's other threads are not in the child
        os._exit(0 if all(torch.equal(call(x), expected) for _ in range(3)) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


LIMITED = """
import resource, gramme, torch
resource.setrlimit(resource.RLIMIT_AS, (1 << 40, resource.getrlimit(resource.RLIMIT_AS)[1]))
x = torch.randn(1 << 19, requires_grad=True)
call = gramme.compile(lambda x: x.sin() * 2, backend="native")
for _ in range(4):
    call(x).sum().backward()
assert torch.equal(call(x), x.sin() * 2)
print(gramme._C.native.memory()["medium"])
"""


@pytest.mark.skipif("libasan" in os.environ.get("LD_PRELOAD", ""), reason="AddressSanitizer needs the addresses")
def test_where_addresses_are_limited_none_are_reserved() -> None:
    run = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, "0\n"), run.stderr


PROGRAM = """
import gc, sys, gramme, torch
from torch import nn

def told(what):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(what))

torch.manual_seed(0)
model = nn.Sequential(*[nn.Sequential(nn.Linear(1024, 1024), nn.GELU()) for _ in range(12)])
x, small = torch.randn(300, 1024), torch.ones(2, 2, requires_grad=True)
call = gramme.compile(lambda x: (x @ x).sum(), backend="native")
for _ in range(3):  # what is loaded once
    call(small).backward()
call = model if sys.argv[1] == "eager" else gramme.compile(model, backend="native")
before = told("VmRSS")
for _ in range(4):
    model.zero_grad()
    call(x).sum().backward()
peak, at_end = told("VmHWM"), told("VmRSS")
model.zero_grad()
gramme.reset()
del call
gc.collect()
print(peak - before, at_end - told("VmRSS"))
"""


def test_the_process_takes_no_more_memory_than_eager() -> None:
    """Gradients are larger than the activations beside them, whose memory they need. Without graphs nothing is kept."""

    def measured(front: str) -> list[int]:
        run = subprocess.run([sys.executable, "-c", PROGRAM, front], capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
        return [int(number) for number in run.stdout.split()]

    [eager, _], [native, returned] = measured("eager"), measured("native")
    assert native <= 1.05 * eager, (native, eager)
    assert returned >= 40 << 10  # its gradients' pages
