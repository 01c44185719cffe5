"""What distributed training does over time, by two or four processes: nothing is kept, nobody waits for the dead."""

import gc
import os
import signal
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import gramme
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from e2e.sharded_models import Model, train

TENSORS = (torch.Tensor, DTensor, nn.Parameter)


def begin(rank: int, store: str, size: int, seconds: int = 120) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=size, timeout=timedelta(seconds=seconds))


def in_two_dimensions(inside: Any) -> Model:
    """Parts of linear layers on one dimension of a mesh of two by two, shards of parameters on the other."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    model = Model()
    for i, block in enumerate(model.blocks):
        parallelize_module(block, mesh["tensor"], {"first": ColwiseParallel(), "last": RowwiseParallel()})
        model.blocks[i] = fully_shard(inside(block), mesh=mesh["data"])
    return fully_shard(model, mesh=mesh["data"])


def tensor_and_data(rank: int, store: str, folder: str) -> None:
    """One of four processes: losses and parameters, uncompiled and by backend."""
    begin(rank, store, 4)

    def nothing(module: nn.Module) -> nn.Module:
        return module

    found: dict[str, Any] = {"": train(in_two_dimensions, nothing, nothing, rank // 2)}
    for backend in ("eager", "native", "aot_eager"):

        def compiled(module: nn.Module, backend: str = backend) -> Any:
            module.compile(backend=backend)
            return module

        with gramme.install():
            gramme.reset()
            found[backend] = train(in_two_dimensions, compiled, nothing, rank // 2)
    torch.save(found, Path(folder) / str(rank))
    dist.destroy_process_group()


def held() -> Counter[str]:
    gc.collect()
    return Counter(type(each).__name__ for each in gc.get_objects() if isinstance(each, TENSORS))


def many_steps(rank: int, store: str, folder: str, steps: int) -> None:
    """Tensors that are alive after some steps, and after many more."""
    begin(rank, store, 2)
    mesh = init_device_mesh("cpu", (2,))
    torch.manual_seed(0)
    model = Model()
    for block in model.blocks:
        parallelize_module(block, mesh, {"first": ColwiseParallel(), "last": RowwiseParallel()})
    compiled, optimizer = gramme.compile(model, backend="native"), torch.optim.SGD(model.parameters(), lr=0.01)

    def step() -> None:
        ids = torch.randint(11, (2, 5))
        total = compiled(ids).square().mean()
        total.backward()
        optimizer.step()
        optimizer.zero_grad()
        dist.all_reduce(total.detach())

    for _ in range(10):
        step()
    before = held()
    for _ in range(steps):
        step()
    torch.save([before, held()], Path(folder) / str(rank))
    dist.destroy_process_group()


def saved_and_loaded(rank: int, store: str, folder: str) -> None:
    """Outputs of a model, and of another one that loads its checkpoint; the first or the second is compiled."""
    begin(rank, store, 2)
    ids, found = torch.arange(10).view(2, 5), []
    for first_is_compiled in (True, False):
        models = []
        for seed in range(2):
            torch.manual_seed(seed)
            model = Model()
            for i, block in enumerate(model.blocks):
                model.blocks[i] = fully_shard(block)
            models.append(fully_shard(model))
        with gramme.install():
            models[not first_is_compiled].compile(backend="native")
            outputs = [model(ids).detach() for model in models]
            place = Path(folder) / f"checkpoint{first_is_compiled}"
            checkpoint.save(get_model_state_dict(models[0]), checkpoint_id=place)
            state = get_model_state_dict(models[1])
            checkpoint.load(state, checkpoint_id=place)
            set_model_state_dict(models[1], state)
            found.append([*outputs, models[1](ids).detach()])
    torch.save(found, Path(folder) / str(rank))
    dist.destroy_process_group()


def one_dies(rank: int, store: str, folder: str, sent: int) -> None:
    """The other process notes how long it waited for a collective in a graph, and how that ended."""
    begin(rank, store, 2, seconds=5)

    def f(x: torch.Tensor) -> torch.Tensor:
        dist.all_reduce(x)
        return x + 1

    compiled = gramme.compile(f, backend="native")
    compiled(torch.ones(2))
    if rank == 1:
        os.kill(os.getpid(), sent)
        return
    start, ended = time.monotonic(), ""
    try:
        for _ in range(3):
            compiled(torch.ones(2))
    except RuntimeError as error:
        ended = str(error)
    torch.save([time.monotonic() - start, ended], Path(folder) / "0")
    os._exit(0)


def run_with_a_death(folder: Path, sent: int) -> Any:
    context = mp.get_context("spawn")
    args = (f"file://{folder / 'store'}", str(folder), sent)
    processes = [context.Process(target=one_dies, args=(rank, *args)) for rank in range(2)]
    for process in processes:
        process.start()
    processes[0].join(60)
    for process in processes:
        process.kill()
        process.join()
    return torch.load(folder / "0")


KILLED, STOPPED = signal.SIGKILL, signal.SIGSTOP
