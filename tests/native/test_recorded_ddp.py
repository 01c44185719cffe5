"""A recorded backward under DistributedDataParallel: its hooks hear of each gradient when they hear of it eagerly.

The node of a recorded backward calls the reducer's hooks as soon as a gradient is made, so buckets are reduced while
the rest is computed. Where it cannot keep the order in which autograd's nodes deliver, the backward stays the engine's.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import gramme
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from native.test_recorded_backward import is_recorded, recorded

pytestmark = pytest.mark.usefixtures("fresh")

Wrap = Callable[[nn.Module], tuple[DistributedDataParallel, Callable[..., torch.Tensor]]]


class Once(nn.Module):
    """Parameters used in other orders than they are registered in, and not at all."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(8, 3)
        self.first = nn.Linear(4, 8)
        self.norm = nn.LayerNorm(8)
        self.again = nn.Linear(8, 8)
        self.unused = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.again(self.norm(self.first(x)).relu()).tanh())


class Twice(Once):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(self.first(x)).relu()
        return self.last(self.again(self.again(h).tanh()))


class Kept(Once):
    """A sum saves nothing: a second backward through it is allowed."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + self.shift


class ThreeAtOnce(Once):
    """The engine calls leaves that become ready together in an order of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.ParameterList([torch.full((3,), float(i)) for i in range(5)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * torch.stack(list(self.rows)).tanh()


class InParts(Once):
    """The second graph takes a result of the first, which a norm's node has beside two parameters."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        gramme.graph_break()
        return self.last(self.again(self.norm(x).relu()).tanh())


RECORDED = {Once: True, InParts: True, Twice: False, Kept: False, ThreeAtOnce: False}


def wrapped(model: nn.Module, **options: Any) -> DistributedDataParallel:
    return DistributedDataParallel(model, bucket_cap_mb=0.0001, **({"find_unused_parameters": True} | options))


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


def told(wrap: Wrap, make: Callable[[], nn.Module] = Once, steps: int = 6) -> tuple[list[Any], bool]:
    """What a hook of DDP heard in each step, and the gradients; whether the last was recorded."""
    torch.manual_seed(3)
    model = make()
    ddp, function = wrap(model)
    heard = listen(ddp, model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(steps):
        out = take_step(step, function, optimizer)
        heard.append([None if p.grad is None else p.grad.tolist() for p in model.parameters()])
    return heard, is_recorded(out)


def listen(ddp: DistributedDataParallel, model: nn.Module) -> list[Any]:
    names = {id(p): name for name, p in model.named_parameters()}
    heard: list[Any] = []

    def reduce(state: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        members = [names[id(p)] for p in bucket.parameters()]
        here = [names[id(p)] for p in model.parameters() if p.grad is not None]
        heard.append(("bucket", bucket.index(), bucket.is_last(), members, here, bucket.buffer().tolist()))
        work = dist.all_reduce(bucket.buffer(), async_op=True)
        return work.get_future().then(lambda done: done.value()[0] / dist.get_world_size())

    ddp.register_comm_hook(None, reduce)
    return heard


def take_step(step: int, function: Any, optimizer: torch.optim.Optimizer, **options: Any) -> torch.Tensor:
    torch.manual_seed(step * 10 + dist.get_rank())
    optimizer.step()
    optimizer.zero_grad()
    out = function(torch.randn(5, 4))
    out.square().sum().backward(**options)
    return out


@pytest.fixture
def alone() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("make", RECORDED)
@pytest.mark.parametrize("wrap", [inside, outside])
def test_hooks_hear_of_gradients_in_eagers_order(wrap: Wrap, make: type[nn.Module]) -> None:
    wanted, _ = told(plain, make)
    found, last = told(wrap, make)
    assert sum(isinstance(each, tuple) for each in wanted) > 6 * 3  # several buckets a step
    assert found == wanted
    assert last == RECORDED[make]


def no_sync(compile_it: Any, options: dict[str, Any]) -> list[Any]:
    """Gradients add up over three calls; the reducer learns the order of its buckets in the third."""
    model, ddp, function, heard, optimizer = begin(compile_it, options)
    for step in range(5):
        for part in range(3):
            torch.manual_seed(10 * step + part)
            with ddp.no_sync() if part < 2 else contextlib.nullcontext():
                out = function(torch.randn(5, 4))
                out.square().sum().backward()
        heard.append([None if p.grad is None else p.grad.tolist() for p in model.parameters()])
        optimizer.step()
        optimizer.zero_grad(set_to_none=step % 2 == 0)
    return [heard, is_recorded(out)]


def trained_before(compile_it: Any, options: dict[str, Any]) -> list[Any]:
    """The reducer learns the order of its buckets from a backward that is recorded already."""
    torch.manual_seed(3)
    model = Used()
    function = compile_it(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(5):
        take_step(step, function, optimizer)
    ddp = wrapped(function, **options)
    heard = listen(ddp, model)
    for step in range(5):
        out = take_step(step, ddp, optimizer)
    return [heard, [p.tolist() for p in model.parameters()], is_recorded(out)]


def graph_kept(compile_it: Any, options: dict[str, Any]) -> list[Any]:
    model, _, function, heard, optimizer = begin(compile_it, options)
    for step in range(6):
        out = take_step(step, function, optimizer, retain_graph=True)
        heard.append([p.grad.tolist() for p in model.parameters()])  # type: ignore[union-attr]
    return [heard, is_recorded(out)]


def hooks_of_the_program(compile_it: Any, options: dict[str, Any]) -> list[Any]:
    """A hook that comes after the forward, then one before it."""
    model, _, function, heard, optimizer = begin(compile_it, options)
    for step in range(8):
        optimizer.zero_grad()
        torch.manual_seed(step)
        out = function(torch.randn(5, 4))
        if step == 5:
            model.again.weight.register_hook(lambda grad: heard.append(grad.tolist()))  # type: ignore[union-attr]
        out.square().sum().backward()
        if step == 5:
            recorded_then = is_recorded(out)
        heard.append([p.grad.tolist() for p in model.parameters()])  # type: ignore[union-attr]
        optimizer.step()
    return [heard, recorded_then, is_recorded(out)]


def wanted_of_some(compile_it: Any, options: dict[str, Any]) -> list[Any]:
    """A frozen parameter, and torch.autograd.grad, of which the reducer hears nothing."""
    model, ddp, function, heard, optimizer = begin(compile_it, options, frozen="first.weight")
    for step in range(6):
        out = take_step(step, function, optimizer)
        with ddp.no_sync():
            again = function(torch.randn(5, 4))
            heard.append([g.tolist() for g in torch.autograd.grad(again.sum(), [model.again.weight, model.last.bias])])
    return [heard, is_recorded(out)]


class Used(Once):
    def __init__(self) -> None:
        super().__init__()
        del self.unused


def begin(compile_it: Any, options: dict[str, Any], frozen: str = "") -> Any:
    torch.manual_seed(3)
    model = Used()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name != frozen)
    ddp = wrapped(model, **options)
    function = compile_it(ddp)
    return model, ddp, function, listen(ddp, model), torch.optim.SGD(model.parameters(), 0.1)


PROGRAMS = {  # and whether their last calls are recorded
    no_sync: [True],
    trained_before: [True],
    graph_kept: [False],  # autograd's nodes take over, and calls are the engine's from then on
    hooks_of_the_program: [True, False],
    wanted_of_some: [True],
}
OPTIONS: dict[str, dict[str, Any]] = {
    "rebuilt buckets": {"find_unused_parameters": False},
    "static": {"find_unused_parameters": False, "static_graph": True},
    "bucket views": {"find_unused_parameters": False, "gradient_as_bucket_view": True},
    "searched": {},
}


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_programs(program: Any, options: str) -> None:
    if program is no_sync and options == "static":
        pytest.skip("DistributedDataParallel refuses it")
    wanted = program(lambda module: module, OPTIONS[options])
    found = program(recorded, OPTIONS[options])
    ends = len(PROGRAMS[program])
    assert found[:-ends] == wanted[:-ends]
    assert found[-ends:] == PROGRAMS[program]
    assert not any(wanted[-ends:])


def rank(number: int, store: str) -> None:
    dist.init_process_group(
        "gloo", store=dist.FileStore(store, 2), rank=number, world_size=2, timeout=timedelta(seconds=60)
    )
    for make, is_last_recorded in RECORDED.items():
        wanted, _ = told(plain, make)
        for wrap in (inside, outside):
            found, last = told(wrap, make)
            assert found == wanted, (make.__name__, wrap.__name__)
            assert last == is_last_recorded, (make.__name__, wrap.__name__)
    dist.destroy_process_group()
    # gloo's thread frees the Python objects of the last future when it gets to it. If the interpreter is ending by
    # then, CPython ends the thread in the middle of a destructor, which aborts the process: without gramme, too.
    os._exit(0)


@pytest.mark.slow
def test_two_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tests = str(Path(__file__).parents[1])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([tests, os.environ.get("PYTHONPATH", "")]))
    mp.spawn(rank, (str(tmp_path / "store"),), nprocs=2)  # type: ignore[no-untyped-call]
