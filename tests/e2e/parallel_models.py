"""Tensor and sequence parallel models, trained by each of two processes: uncompiled, and by the native executor.

Between the steps on distributed tensors it runs tapes, whose backwards are recorded.
"""

import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import gramme
import torch
import torch.distributed as dist
from native.same import nodes
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module

STEPS, WIDTH = 6, 8
Program = Callable[[Callable[[Any], Any], int], list[Any]]
PROGRAMS: dict[str, Program] = {}


class Block(nn.Module):
    def __init__(self, dropout: float = 0.0, attends: bool = True) -> None:
        super().__init__()
        self.attends = attends
        self.norm, self.mix = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH)
        self.again, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 16), nn.Linear(16, WIDTH)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.mix(self.norm(x)).unflatten(-1, (2, -1)).transpose(1, 2).chunk(3, -1)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v) if self.attends else torch.tanh(q * k) + v
        x = x + self.dropout(mixed.transpose(1, 2).flatten(-2))
        return x + self.down(nn.functional.gelu(self.up(self.again(x))))


TENSORS = {"up": ColwiseParallel(), "down": RowwiseParallel()}
SEQUENCES = {
    "again": SequenceParallel(use_local_output=True),
    "up": ColwiseParallel(input_layouts=Shard(1)),
    "down": RowwiseParallel(output_layouts=Shard(1)),
}


def parallel(model: nn.Module, plan: dict[str, Any]) -> nn.Module:
    for block in model.modules():
        if isinstance(block, Block):
            parallelize_module(block, init_device_mesh("cpu", (2,)), plan)
    return model


def two_blocks(plan: dict[str, Any], **options: Any) -> nn.Module:
    torch.manual_seed(0)
    return parallel(nn.Sequential(Block(**options), Block(**options)), plan)


def plain(tensor: Any) -> Any:
    if tensor is None:
        return None
    local = tensor.to_local() if isinstance(tensor, DTensor) else tensor
    return [type(tensor).__name__, [str(p) for p in getattr(tensor, "placements", ())], local.detach().clone()]


def batch(step: int, rows: int = 2) -> torch.Tensor:
    torch.manual_seed(step)
    return torch.randn(rows, 4, WIDTH)


def mean(out: torch.Tensor) -> torch.Tensor:
    return out.square().mean()


def train(model: nn.Module, called: Any, loss: Any = mean, rows: Any = lambda step: 2) -> Any:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    told = []
    for step in range(STEPS):
        found = loss(called(batch(step, rows(step))))
        found.backward()
        told.append([found.item(), [plain(p.grad) for p in model.parameters()]])
        optimizer.step()
        optimizer.zero_grad()
    return told


def program(made: Program) -> Program:
    PROGRAMS[made.__name__] = made
    return made


@program
def tensors(wrap: Callable[[Any], Any], rank: int) -> list[Any]:
    model = two_blocks(TENSORS)
    return train(model, wrap(model))


@program
def sequences(wrap: Callable[[Any], Any], rank: int) -> list[Any]:
    model = two_blocks(SEQUENCES)
    return train(model, wrap(model))


@program
def random_numbers(wrap: Callable[[Any], Any], rank: int) -> list[Any]:
    model = two_blocks(TENSORS, dropout=0.5)
    return train(model, wrap(model))


@program
def frozen(wrap: Callable[[Any], Any], rank: int) -> list[Any]:
    """Other parameters need gradients from the third step on."""
    model = two_blocks(TENSORS)
    called = wrap(model)
    found = []
    for half in range(2):
        for i, parameter in enumerate(model.parameters()):
            parameter.requires_grad_(i % 2 == half)
        found.append(train(model, called))
    return found


@program
def sizes(wrap: Callable[[Any], Any], rank: int) -> list[Any]:
    model = two_blocks(TENSORS)
    return train(model, wrap(model), rows=lambda step: 2 + step % 3)


@program
def hooks(wrap: Callable[[Any], Any], rank: int) -> list[Any]:
    """On parameters: of a tape's, and of distributed ones."""
    model = two_blocks(SEQUENCES)
    heard: list[Any] = []
    for at in ("0.mix.weight", "1.up.weight", "1.again.bias"):
        parameter = model.get_parameter(at)
        parameter.register_hook(lambda grad, at=at: heard.append([at, plain(grad)]))
        parameter.register_post_accumulate_grad_hook(lambda p, at=at: heard.append([at, plain(p.grad)]))  # type: ignore[arg-type, union-attr]
    return [train(model, wrap(model)), heard]


@program
def hooks_of_modules(wrap: Callable[[Any], Any], rank: int) -> list[Any]:
    """On results between distributed tensors and tapes."""
    model = two_blocks(TENSORS)
    heard: list[Any] = []

    def hook(module: nn.Module, args: Any, result: torch.Tensor) -> None:
        result.register_hook(lambda grad: heard.append(plain(grad)))

    for block in model:
        block.down.register_forward_hook(hook)
        block.norm.register_forward_hook(hook)
    return [train(model, wrap(model)), heard]


@program
def second_derivatives(wrap: Callable[[Any], Any], rank: int) -> list[Any]:
    model = two_blocks(TENSORS, attends=False)
    called = wrap(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    told = []
    for step in range(STEPS):
        weight = model.get_parameter("1.norm.weight")
        (grad,) = torch.autograd.grad(called(batch(step)).square().mean(), weight, create_graph=step % 2 == 1)
        told.append(plain(grad))
        if step % 2 == 1:
            grad.square().sum().backward()
            told.append([plain(p.grad) for p in model.parameters()])
        optimizer.step()
        optimizer.zero_grad()
    return told


@program
def twice(wrap: Callable[[Any], Any], rank: int) -> list[Any]:
    """The graph is kept for a second pass, and one without it raises."""
    model = two_blocks(TENSORS)
    called = wrap(model)
    told = []
    for step in range(STEPS):
        loss = called(batch(step)).square().mean()
        loss.backward(retain_graph=True)
        loss.backward()
        told.append([plain(p.grad) for p in model.parameters()])
        try:
            loss.backward()
        except RuntimeError as error:
            told.append(str(error))
    return told


@program
def written_between(wrap: Callable[[Any], Any], rank: int) -> list[Any]:
    """A parameter of a tape is written before the backward, which raises."""
    model = two_blocks(TENSORS)
    called = wrap(model)
    told = []
    for step in range(STEPS):
        loss = called(batch(step)).square().mean()
        if step == 4:
            with torch.no_grad():
                model.get_parameter("1.norm.weight").mul_(2)
        try:
            loss.backward()
        except RuntimeError as error:
            told.append(str(error))
            model.zero_grad()
        told.append([plain(p.grad) for p in model.parameters()])
    return told


@program
def autocast(wrap: Callable[[Any], Any], rank: int) -> list[Any]:
    model = two_blocks(TENSORS)
    called = wrap(model)

    def cast(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return called(x)

    return train(model, cast, loss=lambda out: out.float().square().mean())


@program
def without_gradients(wrap: Callable[[Any], Any], rank: int) -> list[Any]:
    """Training and evaluation in turn."""
    model = two_blocks(SEQUENCES)
    called = wrap(model)
    told = []
    for _ in range(2):
        told.append(train(model, called))
        with torch.no_grad():
            told.append([plain(called(batch(9 + step))) for step in range(3)])
    return told


@program
def written_results(wrap: Callable[[Any], Any], rank: int) -> list[Any]:
    """What comes of a distributed tensor is written in place, and what a tape made."""
    model = two_blocks(TENSORS)

    def called(x: torch.Tensor) -> Any:
        y = model(x * 1)
        y += 1
        y.mul_(2)
        z = y.sin().cos() + y
        z[:, 0].mul_(3)
        return model(z).tanh()

    return train(model, wrap(called))


@program
def another_mesh(wrap: Callable[[Any], Any], rank: int) -> list[Any]:
    """The same function for models on other meshes and with other placements."""
    models = [two_blocks(plan) for plan in (TENSORS, TENSORS, SEQUENCES)]

    def called(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return model(x)

    compiled = wrap(called)
    return [train(model, lambda x, model=model: compiled(model, x)) for model in (*models, *models)]


@program
def an_error(wrap: Callable[[Any], Any], rank: int) -> list[Any]:
    """An operator raises in one call, between the steps on distributed tensors."""
    model = two_blocks(TENSORS)

    def called(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return model(x) + model(x.sin().cos().tanh()[index])

    compiled = wrap(called)
    told = []
    for step in range(STEPS):
        try:
            out = compiled(batch(step), torch.tensor([0, 5 if step == 3 else 1]))
        except (IndexError, RuntimeError) as error:
            told.append(str(error))
            continue
        out.square().mean().backward()
        told.append([plain(p.grad) for p in model.parameters()])
    return told


def run_all(rank: int, store: str, folder: str) -> None:
    """One of two processes: of each program what it tells uncompiled and compiled, and recorded backwards."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2, timeout=timedelta(seconds=120))
    found: dict[str, Any] = {}
    for name, made in PROGRAMS.items():
        for recorded in (True, False):
            compiled: list[Any] = []

            def wrap(function: Any, compiled: list[Any] = compiled, recorded: bool = recorded) -> Any:
                compiled.append(gramme.compile(function, backend="native", options={"recorded_backward": recorded}))
                return compiled[-1]

            gramme.reset()
            told = made(wrap, rank)
            found[name, recorded] = told, sum(gramme.statistics(each).recorded_backwards for each in compiled)
        found[name] = made(lambda function: function, rank)
    gramme.reset()
    model = two_blocks(TENSORS)
    engine = gramme.compile(model, backend="native", options={"recorded_backward": False})
    for step in range(3):
        out = engine(batch(step))
    found["nodes"] = nodes(out), nodes(model(batch(2)))
    torch.save(found, Path(folder) / str(rank))
    dist.destroy_process_group()
