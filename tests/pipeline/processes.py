"""What the processes of a test run, and how they are started."""

import os
import signal
import threading
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import gramme.pipeline
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.distributed import pipelining
from torch.utils import _pytree as pytree

from pipeline import zoo

MICRO_BATCHES = 4


def loss_of(output: Any, target: Tensor) -> Tensor:
    tensors = [leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, Tensor) and leaf.is_floating_point()]
    return sum((tensor.flatten(1).double() * target).pow(2).mean() for tensor in tensors)


def expected(model: nn.Module, args: Any, kwargs: Any, target: Tensor) -> list[Tensor]:
    """Losses of the uncut model, micro-batch by micro-batch; the gradients are in the model."""
    losses = []
    for i in range(MICRO_BATCHES):
        chunk = slice(i * zoo.SHORT, (i + 1) * zoo.SHORT)
        own = [leaf[chunk] if isinstance(leaf, Tensor) else leaf for leaf in args]
        named = {name: leaf[chunk] if isinstance(leaf, Tensor) else leaf for name, leaf in kwargs.items()}
        losses.append(loss_of(model(*own, **named), target[chunk]))
        losses[-1].backward()
    return losses


def schedule_of(name: str, stages: list[Any]) -> Any:
    schedule = getattr(pipelining, name)
    options = {"loss_fn": loss_of, "scale_grads": False}
    single = issubclass(schedule, pipelining.schedules.PipelineScheduleSingle)
    return schedule(stages[0] if single else stages, MICRO_BATCHES, **options)


def check_gradient(name: str, found: Tensor | None, grad: Tensor | None, *, exact: bool) -> None:
    if found is None or grad is None:  # a result that the loss does not use
        assert not any(each.any() for each in (found, grad) if each is not None), name
    else:
        torch.testing.assert_close(found, grad, rtol=0 if exact else 1e-4, atol=0 if exact else 1e-5, msg=name)


# The backward of the last micro-batch comes first, or weights have a backward of their own.
ANOTHER_ORDER = ("ScheduleLoopedBFS", "ScheduleInterleavedZeroBubble", "ScheduleZBVZeroBubble")


def compare(rank: int, size: int, case: tuple[str, str, int]) -> None:
    """Two steps of a schedule against the uncut model: losses, gradients, buffers and names."""
    name, schedule_name, number = case
    make, arguments = (zoo.SMALL | zoo.TRANSFORMERS)[name]
    torch.manual_seed(0)
    model, twin = make().train(), make().train()
    twin.load_state_dict(model.state_dict())
    args, kwargs = arguments(zoo.SHORT)
    cut = gramme.pipeline.split(model, args, kwargs, stages=number)
    placement = "v" if "ZBV" in schedule_name or "DualPipeV" in schedule_name else "loop"
    stages = cut.pipeline_stages(args, kwargs, placement=placement)
    schedule = schedule_of(schedule_name, stages)
    first, last = stages[0].is_first, stages[-1].is_last
    for step in range(2):  # the second uses the first one's buffers
        torch.manual_seed(step)
        args, kwargs = arguments(zoo.BATCH)
        target = torch.rand(zoo.BATCH, 1)
        wanted = expected(twin, args, kwargs, target)
        losses: list[Tensor] = []
        more = {"target": target, "losses": losses} if last else {}
        schedule.step(*(args if first else ()), **(kwargs if first else {}), **more)
        if last:
            assert [a.item() for a in losses] == [b.item() for b in wanted]
    parameters, buffers = dict(twin.named_parameters()), dict(twin.named_buffers())
    held = {name for stage in stages for name in stage.submod.state_dict()}
    for stage in stages:
        for key, value in stage.submod.named_parameters():
            check_gradient(key, value.grad, parameters[key].grad, exact=schedule_name not in ANOTHER_ORDER)
        for key, value in stage.submod.named_buffers():
            assert torch.equal(value, buffers[key]), key
    found: list[Any] = [None] * size
    dist.all_gather_object(found, held)
    together = set().union(*found)
    assert together <= set(twin.state_dict())
    assert not {key for key, value in parameters.items() if value.grad is not None} - together


def _process(rank: int, size: int, folder: str, seconds: float, run: Callable[..., None], cases: list[Any]) -> None:
    torch.set_num_threads(1)
    store = f"file://{folder}/store"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=size, timeout=timedelta(seconds=seconds))
    for i, case in enumerate(cases):
        try:
            run(rank, size, case)
            told = "equal"
        except _Told as words:
            Path(folder, f"{i}.{rank}").write_text(str(words))
            return  # and ends by itself
        except BaseException:
            told = traceback.format_exc()
        Path(folder, f"{i}.{rank}").write_text(told)
        if told != "equal":
            os._exit(1)  # the others would wait for it
        dist.barrier()
    dist.destroy_process_group()


def run_processes(
    size: int,
    folder: Path,
    run: Callable[..., None],
    cases: list[Any],
    *,
    seconds: float = 30,
    limit: float = 200,
    stops: tuple[int, ...] = (),
) -> list[list[str]]:
    """By case and process what came of it; processes that stop, and those that do not end in time, are killed."""
    context = mp.get_context("forkserver")
    context.set_forkserver_preload(["gramme.pipeline", "torch.distributed.pipelining"])
    processes = [
        context.Process(target=_process, args=(rank, size, str(folder), seconds, run, cases), daemon=True)
        for rank in range(size)
    ]
    for process in processes:
        process.start()
    end = time.monotonic() + limit
    for rank, process in sorted(enumerate(processes), key=lambda each: each[0] in stops):
        process.join(0 if rank in stops else max(0, end - time.monotonic()))
        if process.is_alive():
            os.kill(process.pid, signal.SIGKILL)
            (folder / f"late.{rank}").touch()
    files = [[folder / f"{i}.{rank}" for rank in range(size)] for i in range(len(cases))]
    return [[file.read_text() if file.exists() else "no answer" for file in row] for row in files]


def step_and_fail(rank: int, size: int, case: tuple[int, str]) -> None:
    """Steps until the process of that rank fails in that way; the others tell which it was."""
    failing, way = case
    model = zoo.UNet()
    (x,), _ = zoo.image(zoo.SHORT)
    stages = gramme.pipeline.split(model, (x,), stages=size).pipeline_stages((x,))
    schedule = schedule_of("Schedule1F1B", stages)
    target, (batch,) = torch.rand(zoo.BATCH, 1), zoo.image(zoo.BATCH)[0]

    def fail(*_: Any) -> None:
        if way == "raises":
            raise ZeroDivisionError("mine")
        if way == "interrupted":
            signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background jobs ignore
            signal.raise_signal(signal.SIGINT)
        os.kill(os.getpid(), signal.SIGKILL if way == "dies" else signal.SIGSTOP)

    def step() -> None:
        more = {"target": target} if stages[0].is_last else {}
        schedule.step(*((batch,) if stages[0].is_first else ()), **more)

    with gramme.pipeline.watched():
        step()
    if rank == failing:
        stages[0].submod.register_forward_pre_hook(fail)
    began = time.monotonic()
    try:
        with gramme.pipeline.watched():
            step()
    except gramme.pipeline.PeerError as error:
        told = f"{type(error).__name__} {error.ranks} {error}"
    except (RuntimeError, KeyboardInterrupt) as error:
        told = f"{type(error).__name__} {type(error.__cause__).__name__}"
    assert all("gramme" not in thread.name for thread in threading.enumerate())
    raise _Told(f"{told} after {time.monotonic() - began:.1f}")


class _Told(BaseException):
    pass


def wrapped_and_saved(rank: int, size: int, case: str) -> None:
    """A stage in DistributedDataParallel; the states of all stages together are the model's."""
    torch.manual_seed(0)
    model, twin = zoo.Tied(), zoo.Tied()
    twin.load_state_dict(model.state_dict())
    args, kwargs = zoo.masked(zoo.SHORT)
    groups = [dist.new_group([member]) for member in range(size)]
    cut = gramme.pipeline.split(model, args, kwargs, stages=size)
    (stage,) = cut.pipeline_stages(
        args, kwargs, wrap=lambda module: nn.parallel.DistributedDataParallel(module, process_group=groups[rank])
    )
    schedule = schedule_of("Schedule1F1B", [stage])
    args, kwargs = zoo.masked(zoo.BATCH)
    target = torch.rand(zoo.BATCH, 1)
    expected(twin, args, kwargs, target)
    if stage.is_first:
        schedule.step(*args, **kwargs)
    else:
        schedule.step(target=target)
    grads = {name: value.grad for name, value in twin.named_parameters()}
    for name, value in stage.submod.module.named_parameters():
        torch.testing.assert_close(value.grad, grads[name])
    states: list[Any] = [None] * size
    dist.all_gather_object(states, stage.submod.module.state_dict())
    together = {name: value for state in states for name, value in state.items()}
    twin.load_state_dict(together)
    assert together.keys() == model.state_dict().keys()


def refused(rank: int, size: int, case: str) -> None:
    """What cannot be handed to the engine is refused in all processes."""
    (x,), _ = zoo.image(zoo.SHORT)

    def told(model: nn.Module, **wishes: Any) -> str:
        try:
            stages = gramme.pipeline.split(model, (x,), stages=size, **wishes).pipeline_stages((x,))
            return "" if rank else str(stages[0].submod(torch.cat((x, x))))
        except ValueError as error:
            return str(error)

    class Noted(zoo.UNet):
        def forward(self, x: Tensor) -> Tensor:
            log.append(x.shape[0])
            return super().forward(x)

    class Sized(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            found = (x > 0).nonzero()
            gramme.pipeline.cut()
            return found, x.sin()

    log: list[int] = []
    assert "effect" in told(Noted())
    assert "cut differently" in told(zoo.UNet(), begin=[f"down.{rank}"])
    assert "depends on data" in told(Sized())
    assert ("multiple" in told(zoo.UNet())) == (rank == 0)
