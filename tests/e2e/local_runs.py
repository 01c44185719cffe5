"""Programs whose steps on distributed tensors run below DTensor's dispatch, or must not, in each of two processes."""

import gc
import re
import warnings
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import gramme
import torch
import torch.distributed as dist
from gramme import _C
from torch import nn
from torch._dynamo import compiled_autograd
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

from e2e.parallel_models import SEQUENCES, TENSORS, batch, mean, plain, train, two_blocks

STEPS = 6
Wrap = Callable[[Any], Any]
PROGRAMS: dict[str, Callable[[Wrap, int], list[Any]]] = {}
LEFT_TO_THE_DISPATCH: set[str] = set()


def program(made: Callable[[Wrap, int], list[Any]]) -> Callable[[Wrap, int], list[Any]]:
    PROGRAMS[made.__name__] = made
    return made


def left(made: Callable[[Wrap, int], list[Any]]) -> Callable[[Wrap, int], list[Any]]:
    LEFT_TO_THE_DISPATCH.add(made.__name__)
    return program(made)


def mesh() -> Any:
    return init_device_mesh("cpu", (2,))


def weight(rows: int = 4, *placements: Any) -> DTensor:
    torch.manual_seed(3)
    made = distribute_tensor(torch.randn(rows, 8), mesh(), list(placements) or [Shard(0)])
    return made.requires_grad_()


def steps(called: Any, leaves: list[Any], arguments: Callable[[int], list[Any]], loss: Any = mean) -> list[Any]:
    """Of each step the loss and gradients; the leaves change between steps."""
    told = []
    for step in range(STEPS):
        out = called(*arguments(step))
        found = loss(out)
        found.backward()
        told.append([plain(out), plain(found), [plain(each.grad) for each in leaves]])
        with torch.no_grad():
            for each in leaves:
                each.sub_(each.grad, alpha=0.1)
                each.grad = None
    return told


@program
def inference(wrap: Wrap, rank: int) -> list[Any]:
    told = []
    for plan in (TENSORS, SEQUENCES):
        model = two_blocks(plan)
        called = wrap(model)
        with torch.no_grad():
            told.append([plain(called(batch(step))) for step in range(STEPS)])
    return told


@program
def evaluation_first(wrap: Wrap, rank: int) -> list[Any]:
    """The first backward finds DTensor's caches cold."""
    model = two_blocks(SEQUENCES)
    called = wrap(model)
    with torch.no_grad():
        told = [plain(called(batch(step))) for step in range(3)]
    return [told, train(model, called)]


@program
def uneven_shards(wrap: Wrap, rank: int) -> list[Any]:
    w = weight(5)

    def f(x: torch.Tensor) -> torch.Tensor:
        return (w * 2).redistribute(placements=[Replicate()]).to_local() @ x

    called = wrap(f)
    return steps(called, [w], lambda step: [batch(step)[0].T])


@program
def partial_sums(wrap: Wrap, rank: int) -> list[Any]:
    over = mesh()

    def f(x: torch.Tensor) -> torch.Tensor:
        y = DTensor.from_local(x.sin(), over, [Partial()], run_check=False)
        return y.redistribute(placements=[Shard(0)]).to_local() * 2

    x = (batch(rank)[0] + 0).requires_grad_()
    return steps(wrap(f), [x], lambda step: [x])


@program
def a_distributed_argument(wrap: Wrap, rank: int) -> list[Any]:
    """Neither a leaf nor plain."""
    w = weight()
    called = wrap(lambda x: (x * 3).relu().redistribute(placements=[Replicate()]).to_local().sin())
    return steps(called, [w], lambda step: [w * (step + 1)])


@program
def weights_used_twice(wrap: Wrap, rank: int) -> list[Any]:
    """In two runs, and twice in one."""
    w, over = weight(8), mesh()

    def linear(x: torch.Tensor) -> torch.Tensor:
        y = DTensor.from_local(x, over, [Replicate()], run_check=False)
        return nn.functional.linear(y, w).redistribute(placements=[Replicate()]).to_local()

    def both(x: torch.Tensor) -> torch.Tensor:
        y = DTensor.from_local(x, over, [Replicate()], run_check=False)
        return (nn.functional.linear(y, w) * w.sum(1).redistribute(placements=[Shard(0)])).full_tensor()

    two = steps(wrap(lambda x: linear(linear(x).sin().cos() * 2)), [w], lambda step: [batch(step)])
    return [two, steps(wrap(both), [w], lambda step: [batch(step)])]


@program
def other_layouts_of_gradients(wrap: Wrap, rank: int) -> list[Any]:
    w = weight(8)
    called = wrap(lambda x: (w @ x).redistribute(placements=[Replicate()]).to_local())
    told = []
    for step in range(2 * STEPS):
        out = called(weight(8, Replicate()).detach())
        (out.sum() if step % 4 == 3 else out.square().mean()).backward()
        told.append([plain(out), plain(w.grad)])
        w.grad = None
    return told


@program
def gradients_add_up(wrap: Wrap, rank: int) -> list[Any]:
    model = two_blocks(SEQUENCES)
    called = wrap(model)
    told = []
    for step in range(STEPS):
        called(batch(step)).square().mean().backward()
        told.append([plain(p.grad) for p in model.parameters()])
    return told


@program
def some_gradients(wrap: Wrap, rank: int) -> list[Any]:
    """Of one parameter alone, from a call by tape."""
    model = two_blocks(TENSORS)
    called = wrap(model)
    told = train(model, called)
    for step in range(3):
        for name in ("0.up.weight", "0.down.bias", "0.norm.weight"):
            told.append(plain(torch.autograd.grad(called(batch(step)).square().mean(), model.get_parameter(name))[0]))
    return [told, train(model, called)]


@program
def hooks_that_communicate(wrap: Wrap, rank: int) -> list[Any]:
    """Added behind a forward by tape: they run between the collectives of the backward."""
    model = two_blocks(SEQUENCES)
    called = wrap(model)
    told = train(model, called)
    for step in range(3):
        heard: list[Any] = []
        out = called(batch(step)).square().mean()

        def hook(grad: Any, heard: list[Any] = heard) -> None:
            local = grad.to_local().clone()
            dist.all_reduce(local)
            heard.append(local)

        added = [
            model.get_parameter(f"{block}.{name}.weight").register_hook(hook)
            for block in (0, 1)
            for name in ("up", "down")
        ]
        out.backward()
        told.append([heard, [plain(p.grad) for p in model.parameters()]])
        model.zero_grad()
        for each in added:
            each.remove()
    return told


@program
def second_derivatives(wrap: Wrap, rank: int) -> list[Any]:
    """Through collectives, of calls by tape; the second pass also adds to the first's gradients."""
    w, over = weight(8), mesh()

    def f(x: torch.Tensor) -> torch.Tensor:
        y = DTensor.from_local(x, over, [Shard(0)], run_check=False).redistribute(placements=[Replicate()])
        return (nn.functional.linear(y, w).sin() * 2).redistribute(placements=[Replicate()]).to_local()

    called = wrap(f)
    told = []
    for step in range(STEPS):
        x = batch(step + rank)[0].requires_grad_()
        loss = called(x).square().mean()
        if step < STEPS - 1 and step != 3:
            loss.backward()
        else:
            (grad,) = torch.autograd.grad(loss, x, create_graph=True)
            (loss + grad.square().sum()).backward()
        told.append([plain(loss), plain(x.grad), plain(w.grad)])
        w.grad = None
    return told


@program
def written_before_the_backward(wrap: Wrap, rank: int) -> list[Any]:
    model = two_blocks(TENSORS)
    called = wrap(model)
    told: list[Any] = []
    for step in range(STEPS):
        loss = called(batch(step)).square().mean()
        if step >= 3:
            with torch.no_grad():
                model.get_parameter(("1.up.weight", "1.down.weight", "1.down.bias")[step % 3]).mul_(2)
        try:
            loss.backward()
        except RuntimeError as error:
            told.append("modified by an inplace operation" in str(error))
        told.append([plain(p.grad) for p in model.parameters()])
        model.zero_grad()
    return told


@program
def twice(wrap: Wrap, rank: int) -> list[Any]:
    w = weight()
    called = wrap(lambda: w.sin().redistribute(placements=[Replicate()]).to_local())
    told: list[Any] = []
    for _ in range(STEPS):
        loss = called().square().mean()
        loss.backward(retain_graph=True)
        loss.backward()
        told.append(plain(w.grad))
        w.grad = None
        try:
            loss.backward()
        except RuntimeError as error:
            told.append(str(error))
    return told


@program
def other_placements(wrap: Wrap, rank: int) -> list[Any]:
    """The module's parameter is another one from the fourth step on, then one that needs no gradient."""
    model = nn.Module()
    model.weight = nn.Parameter(weight(8))

    def f(x: torch.Tensor) -> torch.Tensor:
        y = DTensor.from_local(x, model.weight.device_mesh, [Replicate()], run_check=False)
        return nn.functional.linear(y, model.weight).redistribute(placements=[Replicate()]).to_local()

    called = wrap(f)
    told = []
    for step in range(3 * STEPS):
        if step == STEPS:
            model.weight = nn.Parameter(weight(8, Shard(1)))
        if step == 2 * STEPS:
            model.weight.requires_grad_(False)
        x = batch(step).requires_grad_()
        out = called(x)
        out.square().mean().backward()
        told.append([plain(out), plain(x.grad), plain(model.weight.grad)])
        model.weight.grad = None
    return told


@program
def processes_that_differ(wrap: Wrap, rank: int) -> list[Any]:
    """One of them goes through DTensor's dispatch in some calls, and the other in others."""
    model = two_blocks(SEQUENCES)
    called = wrap(model)
    told = []
    for step in range(4 * STEPS):
        if step % 4 == 3 and step // 4 % 2 == rank:
            with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
                loss = called(batch(step)).square().mean()
        else:
            loss = called(batch(step)).square().mean()
        kept = step % 5 == 4 and rank == 0  # only there the graph is kept
        loss.backward(retain_graph=kept)
        told.append([plain(p.grad) for p in model.parameters()])
        model.zero_grad()
    return told


@program
def a_second_derivative_in_one_process(wrap: Wrap, rank: int) -> list[Any]:
    """A process makes autograd's graph again, without a collective that the other does not call."""
    w = weight(8)
    called = wrap(lambda x: (w @ x).redistribute(placements=[Replicate()]).to_local().sin())
    x = weight(8, Replicate()).detach()
    told = []
    for step in range(STEPS):
        loss = called(x).square().mean()
        (grad,) = torch.autograd.grad(loss, w, create_graph=step == 4 and rank == 0)
        told.append(plain(grad))
    return told


@program
def by_compiled_autograd(wrap: Wrap, rank: int) -> list[Any]:
    """Of a call whose graph is autograd's, and of a call by tape."""
    w = weight()
    called = wrap(lambda: w.sin().redistribute(placements=[Replicate()]).to_local())
    told = []
    for step in range(STEPS):
        loss = called().square().mean()
        if step in (1, 4):
            with compiled_autograd._enable(lambda graph: graph):
                loss.backward()
        else:
            loss.backward()
        told.append(plain(w.grad))
        w.grad = None
    return told


@program
def two_dimensions(wrap: Wrap, rank: int) -> list[Any]:
    over = init_device_mesh("cpu", (2, 1), mesh_dim_names=("a", "b"))
    torch.manual_seed(3)
    w = distribute_tensor(torch.randn(8, 8), over, [Shard(0), Shard(1)]).requires_grad_()

    def f(x: torch.Tensor) -> torch.Tensor:
        y = DTensor.from_local(x, over, [Replicate(), Replicate()], run_check=False)
        return nn.functional.linear(y, w).redistribute(placements=[Replicate(), Replicate()]).to_local()

    return steps(wrap(f), [w], lambda step: [batch(step)])


@program
def random_numbers(wrap: Wrap, rank: int) -> list[Any]:
    w = weight()

    def arguments(step: int) -> list[Any]:
        torch.manual_seed(step)
        return []

    called = wrap(lambda: nn.functional.dropout(w * 2).redistribute(placements=[Replicate()]).to_local())
    return steps(called, [w], arguments)


@left
def memory_of_inputs(wrap: Wrap, rank: int) -> list[Any]:
    """The program may write to what it gets."""
    over = mesh()
    called = wrap(lambda x: DTensor.from_local(x, over, [Replicate()], run_check=False).to_local())
    x = torch.ones(4)
    told = []
    for _ in range(STEPS):
        with torch.no_grad():
            called(x).add_(1)
        told.append(plain(x))
    return told


@left
def writes(wrap: Wrap, rank: int) -> list[Any]:
    x = weight().detach()

    def f() -> torch.Tensor:
        x.add_(1)
        return x.redistribute(placements=[Replicate()]).to_local() * 2

    called = wrap(f)
    return [[plain(called()), plain(x)] for _ in range(STEPS)]


@left
def hooks_of_parameters(wrap: Wrap, rank: int) -> list[Any]:
    w = weight()
    heard: list[Any] = []
    w.register_post_accumulate_grad_hook(lambda p: heard.append(plain(p.grad)))  # type: ignore[arg-type]
    called = wrap(lambda: (w * 2).redistribute(placements=[Replicate()]).to_local())
    return [steps(called, [w], lambda step: []), heard]


@left
def other_wrappers(wrap: Wrap, rank: int) -> list[Any]:
    """Of a class that is not DTensor, made of plain tensors."""
    offsets = torch.tensor([0, 2, 4])

    def f(x: torch.Tensor) -> torch.Tensor:
        return (torch.nested.nested_tensor_from_jagged(x, offsets).sin() * 2).values()

    called = wrap(f)
    x = batch(0)[0].requires_grad_()
    with torch.no_grad():
        told = [plain(called(x)) for _ in range(STEPS)]
    return [told, steps(called, [x], lambda step: [x])]


@left
def inference_mode(wrap: Wrap, rank: int) -> list[Any]:
    model = two_blocks(TENSORS)
    called = wrap(model)
    with torch.inference_mode():
        return [plain(called(batch(step))) for step in range(STEPS)]


@left
def profiled(wrap: Wrap, rank: int) -> list[Any]:
    model = two_blocks(TENSORS)
    called = wrap(model)
    with torch.profiler.profile():
        return train(model, called)


def local_runs() -> int:
    """How often tapes on local tensors ran, of all graphs that are alive."""
    told = [_C.native.tape(thing) for thing in gc.get_objects() if type(thing).__name__ == "NativeGraph"]
    return sum(int(times) for text in told for times in re.findall(r"on local tensors, (\d+) times", text))


def run_all(rank: int, store: str, folder: str) -> None:
    """One of two processes: of each program what it tells uncompiled and compiled, and runs on local tensors."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2, timeout=timedelta(seconds=60))
    found: dict[str, Any] = {}
    for name, made in PROGRAMS.items():
        gramme.reset()
        gc.collect()
        before = local_runs()
        kept: list[Any] = []

        def wrap(function: Any, kept: list[Any] = kept) -> Any:
            kept.append(gramme.compile(function, backend="native"))
            return kept[-1]

        told = made(wrap, rank)
        found[name] = told, local_runs() - before, made(partial(lambda function: function), rank)
    torch.save(found, Path(folder) / str(rank))
    dist.destroy_process_group()
