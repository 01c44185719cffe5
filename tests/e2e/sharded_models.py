"""Models that fully_shard treats, trained by two processes: uncompiled, and compiled around the model or inside."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import gramme
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.utils.checkpoint import checkpoint

BACKENDS = ("eager", "native", "aot_eager")
STEPS = 5
Wrap = Callable[[nn.Module], Any]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(8), nn.Linear(8, 24)
        self.again, self.first, self.last = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.mix(self.norm(x)).view(2, 5, 2, 12).transpose(1, 2).chunk(3, -1)
        return nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(2, 5, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attend(x)
        return x + self.last(nn.functional.gelu(self.first(self.again(x))))


class Model(nn.Module):
    """Its blocks are checkpointed on request."""

    def __init__(self, checkpoints: bool = False) -> None:
        super().__init__()
        self.checkpoints = checkpoints
        self.tokens, self.blocks = nn.Embedding(11, 8), nn.ModuleList([Block(), Block()])
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 11)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpoints else block(x)  # type: ignore[assignment]
        return self.head(self.norm(x))


def shard(model: Model, inside: Wrap, **options: Any) -> Model:
    for i, block in enumerate(model.blocks):
        model.blocks[i] = fully_shard(inside(block), **options)
    return fully_shard(model, **options)


def plain(inside: Wrap) -> Model:
    return shard(Model(), inside)


def mixed_precision(inside: Wrap) -> Model:
    return shard(
        Model(), inside, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    )


def checkpoints(inside: Wrap) -> Model:
    return shard(Model(checkpoints=True), inside)


def offload(inside: Wrap) -> Model:
    return shard(Model(), inside, offload_policy=CPUOffloadPolicy(pin_memory=False))


def kept_gathered(inside: Wrap) -> Model:
    model = shard(Model(), inside, reshard_after_forward=False)
    model.set_reshard_after_forward(True, recurse=False)  # type: ignore[operator]
    return model


def tensor_parallel(inside: Wrap) -> Model:
    """The two dimensions of a mesh of one by two."""
    mesh = init_device_mesh("cpu", (1, 2), mesh_dim_names=("data", "tensor"))
    model = Model()
    for block in model.blocks:
        parallelize_module(block, mesh["tensor"], {"first": ColwiseParallel(), "last": RowwiseParallel()})
    return shard(model, inside, mesh=mesh["data"])


SETTINGS = {f.__name__: f for f in (plain, mixed_precision, checkpoints, offload, kept_gathered, tensor_parallel)}


def train(make: Callable[[Wrap], Model], outside: Wrap, inside: Wrap, rank: int, accumulate: int = 1) -> list[Any]:
    """Losses of some steps, and what the parameters are in the end."""
    torch.manual_seed(0)
    model = make(inside)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    called, losses = outside(model), []
    for step in range(STEPS):
        for part in range(accumulate):
            model.set_requires_gradient_sync(part == accumulate - 1)  # type: ignore[operator]
            torch.manual_seed(100 * step + 10 * part + rank)
            ids = torch.randint(11, (2, 5))
            loss = nn.functional.cross_entropy(called(ids).flatten(0, 1).float(), ids.flatten())
            loss.backward()
            losses.append(loss.item())
        optimizer.step()
        optimizer.zero_grad()
    return [losses, [each.full_tensor().detach().clone() for each in model.parameters()]]


def run_all(rank: int, store: str, folder: str) -> None:
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2, timeout=timedelta(seconds=120))
    found: dict[str, Any] = {}

    def nothing(module: nn.Module) -> nn.Module:
        return module

    for name, make in (*SETTINGS.items(), ("accumulation", plain)):
        count = 3 if name == "accumulation" else 1
        found[name] = {"": train(make, nothing, nothing, rank, count)}
        for backend in BACKENDS:

            def compiled(module: nn.Module, backend: str = backend) -> Any:
                module.compile(backend=backend)
                return module

            with gramme.install():
                gramme.reset()
                found[name][backend, "outside"] = train(make, compiled, nothing, rank, count)
                gramme.reset()
                found[name][backend, "inside"] = train(make, nothing, compiled, rank, count)
    torch.save(found, Path(folder) / str(rank))
    dist.destroy_process_group()
