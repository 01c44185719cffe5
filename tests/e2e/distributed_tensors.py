"""Programs over distributed tensors, run by each of two processes: uncompiled, and compiled for several backends."""

from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any

import gramme
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_module, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.utils import _pytree as pytree

from e2e.collectives import BACKENDS, Program, rows
from e2e.several_processes import copied, is_equal

PROGRAMS: dict[str, Program] = {}
GRAPHS = {
    "the local tensor of an asynchronous result": 2,
    "backward inside": 2,
    "loss parallelism": 2,
}


def program(name: str) -> Any:
    def add(made: Program) -> Program:
        PROGRAMS[name] = made
        return made

    return add


def mesh() -> Any:
    return init_device_mesh("cpu", (2,))


def sharded(rank: int, *sizes: int, dim: int = 0) -> DTensor:
    return DTensor.from_local(rows(rank, *sizes), mesh(), [Shard(dim)])


@program("operators")
def _(rank: int) -> Any:
    return lambda x: (x * 2 + 1).relu() - x.abs(), [sharded(rank, 3, 2)]


@program("a product of two placements")
def _(rank: int) -> Any:
    weight = distribute_tensor(torch.arange(6.0).view(3, 2), mesh(), [Replicate()])
    return lambda x, w: x @ w, [sharded(rank, 2, 3), weight]


@program("a partial sum is reduced")
def _(rank: int) -> Any:
    def f(x: Any) -> Any:
        total = x.sum(0)
        return total.redistribute(placements=[Replicate()]) * 2, x.placements, total.placements

    return f, [sharded(rank, 3, 2)]


@program("to another dimension and back")
def _(rank: int) -> Any:
    def f(x: Any) -> Any:
        y = x.redistribute(x.device_mesh, [Shard(1)]) + 1
        return y, y.redistribute(y.device_mesh, [Shard(0)]).to_local() * 2

    return f, [sharded(rank, 2, 4)]


@program("local tensors")
def _(rank: int) -> Any:
    def f(x: Any) -> Any:
        local = x.to_local()
        return DTensor.from_local(local * 2, x.device_mesh, [Partial()], run_check=False).full_tensor() + 1

    return f, [sharded(rank, 2, 4)]


@program("asynchronous, then local")
def _(rank: int) -> Any:
    def f(x: Any) -> Any:
        y = x.redistribute(placements=[Replicate()], async_op=True)
        return y.to_local().sin() * 2 + 1

    return f, [sharded(rank, 2, 4)]


@program("the local tensor of an asynchronous result")
def _(rank: int) -> Any:
    def f(x: Any) -> Any:
        y = x.redistribute(placements=[Replicate()], async_op=True)
        return y._local_tensor.sin() * 2 + 1

    return f, [sharded(rank, 2, 4)]


@program("the whole tensor")
def _(rank: int) -> Any:
    return lambda x: x.full_tensor().sin() + x.shape[0], [sharded(rank, 2, 4)]


@program("placements decide")
def _(rank: int) -> Any:
    def f(x: Any, y: Any) -> Any:
        results = []
        for each in (x, y, x + 1):
            shard = each.placements[0]
            is_row = isinstance(shard, Shard) and shard.dim == 0
            results.append(each * 2 if is_row else each.redistribute(placements=[Shard(0)]))
        return results

    return f, [sharded(rank, 2, 4), sharded(rank, 2, 4, dim=1)]


@program("questions about the mesh")
def _(rank: int) -> Any:
    def f(x: Any) -> Any:
        m = (x + 1).device_mesh
        return x * m.size() + m.get_local_rank(), m.ndim, m.device_type, m.get_coordinate(), m == x.device_mesh

    return f, [sharded(rank, 2, 2)]


@program("written")
def _(rank: int) -> Any:
    def f(x: Any) -> Any:
        x.add_(1)
        x.mul_(2)
        return x.sum()

    return f, [sharded(rank, 2, 2)]


@program("gradients")
def _(rank: int) -> Any:
    def f(x: Any, w: Any) -> Any:
        y = (x * w).redistribute(placements=[Replicate()])
        return y.to_local().sin().sum()

    w = distribute_tensor(torch.arange(8.0).view(4, 2), mesh(), [Shard(0)])
    return f, [sharded(rank, 2, 2).requires_grad_(), w.requires_grad_()]


@program("backward inside")
def _(rank: int) -> Any:
    def f(x: Any) -> Any:
        loss = (x * x).sum().full_tensor()
        loss.backward()
        return loss.detach() + 1, x.grad

    return f, [sharded(rank, 2, 2).requires_grad_()]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.first, self.last = nn.LayerNorm(4), nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.last(torch.relu(self.first(self.norm(x))))


def seeded(make: Any) -> Any:
    torch.manual_seed(0)
    return make()


@program("tensor parallelism")
def _(rank: int) -> Any:
    model = seeded(Block)
    parallelize_module(model, mesh(), {"first": ColwiseParallel(), "last": RowwiseParallel()})
    return model, [rows(0, 3, 4).sin().requires_grad_()]


@program("sequence parallelism")
def _(rank: int) -> Any:
    model = seeded(Block)
    plan = {
        "norm": SequenceParallel(),
        "first": ColwiseParallel(input_layouts=Shard(1)),
        "last": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
        "": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Shard(1),)),
    }
    parallelize_module(model, mesh(), plan)
    return lambda x: model(x).to_local() * 2, [rows(rank, 2, 3, 4).sin().requires_grad_()]


@program("a distributed module")
def _(rank: int) -> Any:
    model = distribute_module(seeded(lambda: nn.Linear(4, 4)), mesh())
    return lambda x: model(x).full_tensor(), [sharded(rank, 2, 4)]


@program("loss parallelism")
def _(rank: int) -> Any:
    model = seeded(lambda: nn.Linear(4, 6))
    parallelize_module(model, mesh(), ColwiseParallel(output_layouts=Shard(-1), use_local_output=False))

    def f(x: torch.Tensor, target: torch.Tensor) -> Any:
        with loss_parallel():
            loss = nn.functional.cross_entropy(model(x), target).full_tensor()
            loss.backward()
        return loss.detach() + 1, x.grad

    return f, [rows(0, 3, 4).sin().requires_grad_(), torch.tensor([0, 5, 2])]


def plain(value: Any) -> Any:
    """What can be saved and compared: of a distributed tensor its local one and its placements."""
    if isinstance(value, DTensor):
        return [
            value.to_local().detach().clone(),
            [str(p) for p in value.placements],
            tuple(value.shape),
            str(value.dtype),
        ]
    if isinstance(value, torch.Tensor):
        return [value.detach().clone() + 0]
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return str(value)


def outcome(f: Any, args: list[Any], parameters: list[nn.Parameter]) -> Any:
    args = copied(args)
    result = f(*args)
    if isinstance(result, torch.Tensor) and result.requires_grad:
        result.sum().backward()
    gradients = [each.grad for each in (*args, *parameters)]
    for each in parameters:
        each.grad = None
    return [plain(result), plain(args), plain(gradients)]


def parallel_layers(rank: int) -> Any:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 4))
    return parallelize_module(model, mesh(), {"0": ColwiseParallel(), "2": RowwiseParallel()})


def parallel_sequences(rank: int) -> Any:
    torch.manual_seed(0)
    model = nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 6), nn.Linear(6, 4))
    plan = {"0": SequenceParallel(), "1": ColwiseParallel(input_layouts=Shard(1)), "2": RowwiseParallel()}
    return parallelize_module(model, mesh(), plan)


def sums(over: Any, x: torch.Tensor) -> torch.Tensor:
    return DTensor.from_local(x, over, [Shard(0)]).sum(0).full_tensor() * x.shape[0]


@cache
def one_mesh() -> Any:
    return mesh()


VARYING: dict[str, Any] = {  # for many sizes: what is called, and what makes its argument
    "parallel layers": (parallel_layers, lambda rank, size: rows(0, size, 4)),
    "parallel sequences": (parallel_sequences, lambda rank, size: rows(0, 2, 2 * size, 4)),
    "made inside": (
        lambda rank: partial(sums, mesh()),
        lambda rank, size: rows(rank, size, 3),
    ),
    "an argument": (
        lambda rank: lambda x: (x * 2).relu() + x.shape[0],
        lambda rank, size: DTensor.from_local(rows(rank, size, 3), one_mesh(), [Shard(0)]),
    ),
    "a replicated argument": (
        lambda rank: lambda x: (x + 1).redistribute(placements=[Shard(0)]).to_local() * x.shape[1],
        lambda rank, size: DTensor.from_local(rows(0, 2, size), one_mesh(), [Replicate()]),
    ),
}
SIZES = (3, 4, 5, 6, 8, 2, 1, 7, 9)


def run_sizes(rank: int, store: str, folder: str) -> None:
    """One of two processes: of each program and backend the sizes at which it differs, and captures."""
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2, timeout=timedelta(seconds=120))
    found: dict[Any, Any] = {}
    for name, (make, argument) in VARYING.items():
        f = make(rank)
        parameters = list(f.parameters()) if isinstance(f, nn.Module) else []
        for backend in BACKENDS:
            gramme.reset()
            compiled = gramme.compile(f, backend=backend, recompile_limit=64)
            differs = []
            for size in SIZES:
                args = [argument(rank, size)]
                made, expected = (outcome(each, args, parameters) for each in (compiled, f))
                leaves, others = pytree.tree_leaves(made), pytree.tree_leaves(expected)
                if len(leaves) != len(others) or not all(map(is_equal, leaves, others)):
                    differs.append(size)
            found[name, backend] = differs, gramme.statistics(compiled).captures
    torch.save(found, Path(folder) / str(rank))
    dist.destroy_process_group()


def run_all(rank: int, store: str, folder: str) -> None:
    """One of two processes: of each program the outcomes of eager and of two calls for each backend, and graphs."""
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2, timeout=timedelta(seconds=120))
    found: dict[str, Any] = {}
    for name, make in PROGRAMS.items():
        f, args = make(rank)
        parameters = list(f.parameters()) if isinstance(f, nn.Module) else []
        found[name] = {"": outcome(f, args, parameters)}
        for backend in BACKENDS:
            gramme.reset()
            compiled = gramme.compile(f, backend=backend)
            found[name][backend] = [outcome(compiled, args, parameters), outcome(compiled, args, parameters)]
        gramme.reset()
        found[name]["graphs"] = gramme.explain(f)(*copied(args)).graph_count
    torch.save(found, Path(folder) / str(rank))
    dist.destroy_process_group()
