"""Programs that communicate, run by each of two processes: uncompiled, and compiled for several backends.

Each returns what a program can see: results, tensors that were written, gradients. Breaks are noted beside them.
"""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import gramme
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

from e2e.several_processes import copied

BACKENDS = ("eager", "native", "aot_eager")
Program = Callable[[int], tuple[Callable[..., Any], list[Any]]]
PROGRAMS: dict[str, Program] = {}
BREAKS = {
    "under no_grad, of what requires a gradient": 1,  # backward()
    "functional, with gradients": 1,  # backward()
    "saved for a backward": 3,  # backward(), and each version
    "gradients pass": 2,  # backward(), too
    "asynchronous": 2,
    "several at once": 5,
    "from one to the other": 2,
    "to each other": 3,
    "a future": 3,
    "in another order": 1,
    "complex": 1,
}


def backends_of(name: str) -> tuple[str, ...]:
    """Compilers have no write that autograd does not notice: backward raises there."""
    return BACKENDS[:2] if name == "saved for a backward" else BACKENDS


def program(name: str) -> Callable[[Program], Program]:
    def add(made: Program) -> Program:
        PROGRAMS[name] = made
        return made

    return add


def rows(rank: int, *sizes: int) -> torch.Tensor:
    return torch.arange(float(torch.Size(sizes).numel())).view(sizes) + 10 * rank


@program("all_reduce")
def _(rank: int) -> Any:
    def f(x: torch.Tensor) -> Any:
        y = x * 2
        none = dist.all_reduce(y)
        return y + 1, none

    return f, [rows(rank, 3, 2)]


@program("maximum of an argument")
def _(rank: int) -> Any:
    def f(x: torch.Tensor) -> Any:
        view = x[1:]
        dist.all_reduce(x, op=dist.ReduceOp.MAX)
        return view * 2

    return f, [rows(rank, 3, 2)]


@program("a view is reduced")
def _(rank: int) -> Any:
    def f(x: torch.Tensor) -> Any:
        dist.all_reduce(x[1:], dist.ReduceOp.MIN, dist.group.WORLD)
        return x.sum(0)

    return f, [rows(rank, 3, 2)]


@program("all_gather_into_tensor")
def _(rank: int) -> Any:
    def f(x: torch.Tensor) -> Any:
        out = x.new_zeros(6, 2)
        dist.all_gather_into_tensor(out, x + 1)
        return out

    return f, [rows(rank, 3, 2)]


@program("all_gather")
def _(rank: int) -> Any:
    def f(x: torch.Tensor) -> Any:
        outs = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(outs, x)
        return outs[dist.get_rank()] - x, torch.stack(outs)

    return f, [rows(rank, 3, 2)]


@program("reduce_scatter_tensor")
def _(rank: int) -> Any:
    def f(x: torch.Tensor) -> Any:
        out = x.new_zeros(2, 2)
        dist.reduce_scatter_tensor(out, x)
        return out * 2

    return f, [rows(rank, 4, 2)]


@program("all_to_all_single")
def _(rank: int) -> Any:
    def f(x: torch.Tensor) -> Any:
        out = torch.empty_like(x)
        dist.all_to_all_single(out, x)
        return out + 1

    return f, [rows(rank, 4, 2)]


@program("broadcast from the last")
def _(rank: int) -> Any:
    def f(x: torch.Tensor) -> Any:
        dist.broadcast(x, 1)
        return x * 2

    return f, [rows(rank, 4)]


@program("ranks decide")
def _(rank: int) -> Any:
    def f(x: torch.Tensor) -> Any:
        y = x + dist.get_rank()
        if dist.get_rank() == 0:
            y = y * 3
        dist.all_reduce(y)
        return y / dist.get_world_size()

    return f, [rows(rank, 4)]


@program("under no_grad, of what requires a gradient")
def _(rank: int) -> Any:
    def f(w: torch.Tensor, x: torch.Tensor) -> Any:
        with torch.no_grad():
            mean = (w * x).mean(0)
            dist.all_reduce(mean)
        (w * mean).sum().backward()
        return w.grad

    return f, [rows(rank, 2, 2).requires_grad_(), rows(rank, 2, 2)]


@program("functional, with gradients")
def _(rank: int) -> Any:
    def f(w: torch.Tensor, x: torch.Tensor) -> Any:
        y = functional.all_reduce(w * x, "sum", dist.group.WORLD)
        z = functional.all_gather_single(y, 0, dist.group.WORLD)
        z.sin().sum().backward()
        return z.detach() + 0, w.grad

    return f, [rows(rank, 2, 2).requires_grad_(), rows(rank, 2, 2)]


@program("a group by its name")
def _(rank: int) -> Any:
    name = dist.group.WORLD.group_name

    def f(x: torch.Tensor) -> Any:
        return functional.all_gather_single(x, 0, name) + 1, functional.all_reduce(x, "avg", [0, 1]) * 2

    return f, [rows(rank, 2, 2)]


@program("gradients pass")
def _(rank: int) -> Any:
    """A collective in place is not seen by autograd; its functional form would be."""

    def f(w: torch.Tensor, x: torch.Tensor) -> Any:
        y = w * x
        dist.all_reduce(y)
        y.sum().backward()
        return y.detach() + 0, w.grad

    return f, [rows(rank, 2, 2).requires_grad_(), rows(rank, 2, 2)]


@program("saved for a backward")
def _(rank: int) -> Any:
    """Autograd does not notice that the saved tensor changes."""

    def f(w: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> Any:
        z = (w * x * y).sum()
        dist.all_reduce(x)
        dist.broadcast(y, 0)
        z.backward()
        return w.grad, x + 1, x._version, y._version

    return f, [rows(rank, 2, 2).requires_grad_(), rows(rank, 2, 2), rows(rank, 2, 2)]


@program("asynchronous")
def _(rank: int) -> Any:
    def f(x: torch.Tensor) -> Any:
        y = x * 2
        work = dist.all_reduce(y, async_op=True)
        z = x + 1
        work.wait()
        return y + z

    return f, [rows(rank, 3, 2)]


@program("several at once")
def _(rank: int) -> Any:
    def f(x: torch.Tensor) -> Any:
        parts = [x * i for i in range(1, 4)]
        works = [dist.all_reduce(part, async_op=True) for part in parts]
        for work in works:
            work.wait()
        return sum(parts), works[0].is_completed()

    return f, [rows(rank, 3)]


@program("from one to the other")
def _(rank: int) -> Any:
    def f(x: torch.Tensor) -> Any:
        x = x * 2
        got = torch.empty_like(x)
        work = dist.isend(x, 1) if dist.get_rank() == 0 else dist.irecv(got, 0)
        work.wait()
        return (x if dist.get_rank() == 0 else got) + 1

    return f, [rows(rank, 3)]


@program("to each other")
def _(rank: int) -> Any:
    def f(x: torch.Tensor) -> Any:
        got, other = torch.empty_like(x), 1 - dist.get_rank()
        works = [dist.P2POp(dist.isend, x * 3, other), dist.P2POp(dist.irecv, got, other)]
        for work in dist.batch_isend_irecv(works):
            work.wait()
        return got * 2

    return f, [rows(rank, 3)]


@program("a future")
def _(rank: int) -> Any:
    def f(x: torch.Tensor) -> Any:
        work = dist.all_reduce(x, async_op=True)
        [result] = work.get_future().wait()
        return result + 1, x

    return f, [rows(rank, 3)]


@program("of other sizes")
def _(rank: int) -> Any:
    def f(x: torch.Tensor) -> Any:
        out = x.new_zeros(2, 3)
        try:
            dist.all_gather_into_tensor(out, x)
        except RuntimeError as error:
            return str(error)
        return out + 1

    return f, [rows(rank, 3)]


@program("in another order")
def _(rank: int) -> Any:
    def f(x: torch.Tensor) -> Any:
        y = x.t()
        try:
            dist.all_reduce(y)
        except ValueError as error:
            return str(error)
        return y + 1

    return f, [rows(rank, 3, 2)]


@program("complex")
def _(rank: int) -> Any:
    def f(x: torch.Tensor) -> Any:
        y = torch.complex(x, x)
        dist.all_reduce(y)
        return torch.view_as_real(y)

    return f, [rows(rank, 3)]


@program("one group collects")
def _(rank: int) -> Any:
    def f(x: torch.Tensor) -> Any:
        y, z = x * 2, x + 1
        with dist.distributed_c10d._coalescing_manager():
            dist.all_reduce(y)
            dist.all_reduce(z)
        return y + z

    return f, [rows(rank, 3)]


def outcome(f: Callable[..., Any], args: list[Any]) -> Any:
    args = copied(args)
    return f(*args), [a.detach() for a in args]


def run_all(rank: int, store: str, folder: str) -> None:
    """One of two processes: of each program the outcomes of eager and of two calls for each backend, and breaks."""
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2, timeout=timedelta(seconds=60))
    found: dict[str, Any] = {}
    for name, make in PROGRAMS.items():
        f, args = make(rank)
        found[name] = {"": outcome(f, args)}
        for backend in backends_of(name):
            gramme.reset()
            compiled = gramme.compile(f, backend=backend)
            found[name][backend] = [outcome(compiled, args), outcome(compiled, args)]
        gramme.reset()
        found[name]["breaks"] = len(gramme.explain(f)(*copied(args)).break_reasons)
    torch.save(found, Path(folder) / str(rank))
    dist.destroy_process_group()
