"""A recorded backward under DistributedDataParallel: its hooks hear of each gradient when they hear of it eagerly.

Parameters have hooks there, and their backward stays the engine's: buckets are reduced while the rest is computed.
"""

import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from native.test_recorded_backward import is_recorded, recorded

pytestmark = pytest.mark.usefixtures("fresh")

Wrap = Callable[[nn.Module], tuple[DistributedDataParallel, Callable[..., torch.Tensor]]]


class Net(nn.Module):
    """Parameters used twice, in other orders than they are registered in, and not at all."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(8, 3)
        self.first = nn.Linear(4, 8)
        self.norm = nn.LayerNorm(8)
        self.again = nn.Linear(8, 8)
        self.unused = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(self.first(x)).relu()
        return self.last(self.again(self.again(h).tanh()))


def wrapped(model: nn.Module) -> DistributedDataParallel:
    return DistributedDataParallel(model, bucket_cap_mb=0.0001, find_unused_parameters=True)


def plain(model: nn.Module) -> Any:
    ddp = wrapped(model)
    return ddp, ddp


def inside(model: nn.Module) -> Any:
    """The module that is wrapped is a compiled one."""
    ddp = wrapped(recorded(model))  # type: ignore[arg-type]
    return ddp, ddp


def outside(model: nn.Module) -> Any:
    ddp = wrapped(model)
    return ddp, recorded(ddp)


def told(wrap: Wrap, steps: int = 6) -> tuple[list[Any], bool]:
    """What a hook of DDP heard in each step, and the gradients; whether the last was recorded."""
    torch.manual_seed(3)
    model = Net()
    names = {id(p): name for name, p in model.named_parameters()}
    ddp, function = wrap(model)
    heard: list[Any] = []

    def reduce(state: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        members = [names[id(p)] for p in bucket.parameters()]
        heard.append(("bucket", bucket.index(), bucket.is_last(), members, bucket.buffer().tolist()))
        work = dist.all_reduce(bucket.buffer(), async_op=True)
        return work.get_future().then(lambda done: done.value()[0] / dist.get_world_size())

    ddp.register_comm_hook(None, reduce)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(steps):
        torch.manual_seed(step * 10 + dist.get_rank())
        optimizer.zero_grad()
        out = function(torch.randn(5, 4))
        out.square().sum().backward()
        heard.append([None if p.grad is None else p.grad.tolist() for p in model.parameters()])
        optimizer.step()
    return heard, is_recorded(out)


@pytest.fixture
def alone() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("wrap", [inside, outside])
def test_hooks_hear_of_gradients_in_eagers_order(wrap: Wrap) -> None:
    wanted, _ = told(plain)
    found, last = told(wrap)
    assert sum(isinstance(each, tuple) for each in wanted) > 6 * 3  # several buckets a step
    assert found == wanted
    assert not last


def rank(number: int, store: str) -> None:
    dist.init_process_group(
        "gloo", store=dist.FileStore(store, 2), rank=number, world_size=2, timeout=timedelta(seconds=60)
    )
    wanted, _ = told(plain)
    for wrap in (inside, outside):
        found, last = told(wrap)
        assert found == wanted, wrap.__name__
        assert not last, wrap.__name__
    dist.destroy_process_group()
    # gloo's thread frees the Python objects of the last future when it gets to it. If the interpreter is ending by
    # then, CPython ends the thread in the middle of a destructor, which aborts the process: without gramme, too.
    os._exit(0)


@pytest.mark.slow
def test_two_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tests = str(Path(__file__).parents[1])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([tests, os.environ.get("PYTHONPATH", "")]))
    mp.spawn(rank, (str(tmp_path / "store"),), nprocs=2)  # type: ignore[no-untyped-call]
