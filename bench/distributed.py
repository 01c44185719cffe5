"""Training steps of a transformer in two processes over gloo: uncompiled, by gramme, by PyTorch's front end.

    python bench/distributed.py [rounds]

For DistributedDataParallel, fully_shard, tensor parallelism and sequence parallelism. Prints milliseconds a step of the
slower process (the median over the rounds, in which the contestants take turns), ratios to uncompiled code, the time of
the first step, and how far the resident set rises above where it was in three steps on a batch of 32 x 128, in the
process where it rises most. One thread a process.
"""

import copy
import ctypes
import gc
import os
import platform
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import gramme
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from memory import risen
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

WIDTH, LENGTH, BATCH, LAYERS, STEPS = 64, 32, 2, 4, 5


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH)
        self.again, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.mix(self.norm(x)).unflatten(-1, (4, -1)).transpose(1, 2).chunk(3, -1)
        x = x + nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2)
        return x + self.down(nn.functional.gelu(self.up(self.again(x))))


def ddp(model: nn.Sequential) -> nn.Module:
    return DistributedDataParallel(model)


def fsdp(model: nn.Sequential) -> nn.Module:
    for block in model:
        fully_shard(block)
    return fully_shard(model)


def tensor_parallel(model: nn.Sequential) -> nn.Module:
    for block in model:
        parallelize_module(block, init_device_mesh("cpu", (2,)), {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return model


def sequence_parallel(model: nn.Sequential) -> nn.Module:
    plan = {
        "again": SequenceParallel(use_local_output=True),
        "up": ColwiseParallel(input_layouts=Shard(1)),
        "down": RowwiseParallel(output_layouts=Shard(1)),
    }
    for block in model:
        parallelize_module(block, init_device_mesh("cpu", (2,)), plan)
    return model


WAYS = {f.__name__: f for f in (ddp, fsdp, tensor_parallel, sequence_parallel)}
CONTESTANTS: dict[str, Callable[[nn.Module], Any]] = {
    "uncompiled": lambda model: model,
    "gramme, native": lambda model: gramme.compile(model, backend="native"),
    "gramme, eager": lambda model: gramme.compile(model, backend="eager"),
    "torch, eager": lambda model: torch.compile(model, backend="eager"),
}


def step(called: Any, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> None:
    called(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


def seconds(called: Any, optimizer: torch.optim.Optimizer, x: torch.Tensor, steps: int) -> float:
    """A step's time in the slower process."""
    dist.barrier()
    start = time.perf_counter()
    for _ in range(steps):
        step(called, optimizer, x)
    took = torch.tensor((time.perf_counter() - start) / steps)
    dist.all_reduce(took, dist.ReduceOp.MAX)
    return took.item()


def peak(called: Any, optimizer: torch.optim.Optimizer) -> float:
    """MiB above the resident set, in the process where it rises most."""
    x = torch.randn(32, 128, WIDTH)

    def steps() -> None:
        for _ in range(3):
            step(called, optimizer, x)

    steps()
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    dist.barrier()
    rise = torch.tensor(risen(steps) / 1024)
    dist.all_reduce(rise, dist.ReduceOp.MAX)
    return rise.item()


def run(rank: int, store: str, rounds: int) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2, timeout=timedelta(seconds=300))
    for name, distribute in WAYS.items():
        torch.manual_seed(0)
        model = nn.Sequential(*(Block() for _ in range(LAYERS)))
        x = torch.randn(BATCH, LENGTH, WIDTH)
        ready, first, found = {}, {}, {contestant: [] for contestant in CONTESTANTS}
        for contestant, compiler in CONTESTANTS.items():
            own = distribute(copy.deepcopy(model))
            called, optimizer = compiler(own), torch.optim.SGD(own.parameters(), lr=0.01)
            ready[contestant] = called, optimizer
            first[contestant] = seconds(called, optimizer, x, 1)
            seconds(called, optimizer, x, STEPS)
        gc.collect()
        for _ in range(rounds):
            for contestant, (called, optimizer) in ready.items():
                found[contestant].append(seconds(called, optimizer, x, STEPS))
        peaks = {contestant: peak(*each) for contestant, each in ready.items()}
        if rank == 0:
            print(name)
            for contestant, times in found.items():
                middle = statistics.median(times)
                ratio = statistics.median(b / t for b, t in zip(found["uncompiled"], times, strict=True))
                print(
                    f"  {contestant:16} {middle * 1e3:7.2f} ms ({min(times) * 1e3:.2f} to {max(times) * 1e3:.2f})"
                    f"  {ratio:5.2f}x uncompiled  first step {first[contestant]:6.2f} s"
                    f"  peak {peaks[contestant]:6.1f} MiB"
                )
    dist.destroy_process_group()


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    print(f"torch {torch.__version__}, CPython {platform.python_version()}, {os.cpu_count()} cores, two processes")
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(run, (f"file://{folder}/store", rounds), nprocs=2, start_method="spawn")


if __name__ == "__main__":
    main()
