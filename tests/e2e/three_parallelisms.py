"""A transformer cut into pipeline stages, each sharded and tensor parallel, its blocks compiled: eight processes.

Two stages of torch.distributed.pipelining, two shards by fully_shard, two halves of every matrix. Each block is
compiled before it is sharded, as in large training programs.
"""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import gramme
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.utils.checkpoint import checkpoint

BACKENDS = ("eager", "native", "aot_eager")
SETTINGS = [(False, False), (True, False), (False, True)]  # in bfloat16, with checkpoints
STEPS, WIDTH, HEADS, TOKENS, LENGTH = 3, 16, 4, 20, 6


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        q, k, v = (m(x).view(batch, length, -1, WIDTH // HEADS).transpose(1, 2) for m in (self.q, self.k, self.v))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, -1))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.attention = nn.RMSNorm(WIDTH), Attention()
        self.again, self.up = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.gate, self.down = nn.Linear(WIDTH, 2 * WIDTH, bias=False), nn.Linear(2 * WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm(x))
        return x + self.feed(self.again(x))

    def feed(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))


class Checkpointed(nn.Module):
    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(self.inner, x, use_reentrant=False)  # type: ignore[return-value]


class Stage(nn.Module):
    """The first has the embedding, the last the head; each two blocks."""

    def __init__(self, index: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(TOKENS, WIDTH) if index == 0 else None
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(WIDTH, TOKENS, bias=False) if index == 1 else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.tokens(x) if self.tokens is not None else x
        for block in self.blocks:
            x = block(x)
        return self.head(x) if self.head is not None else x


PLAN = {
    "norm": SequenceParallel(),
    "attention": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
    "attention.q": ColwiseParallel(),
    "attention.k": ColwiseParallel(),
    "attention.v": ColwiseParallel(),
    "attention.out": RowwiseParallel(output_layouts=Shard(1)),
    "again": SequenceParallel(),
    "gate": ColwiseParallel(input_layouts=Shard(1)),
    "up": ColwiseParallel(input_layouts=Shard(1)),
    "down": RowwiseParallel(output_layouts=Shard(1)),
}


class Gathered(nn.Module):
    """A block between whole sequences, of which it sees a part."""

    def __init__(self, inner: Any, mesh: Any) -> None:
        super().__init__()
        self.inner, self.mesh = inner, mesh

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        whole = DTensor.from_local(x, self.mesh, [Replicate()], run_check=False)
        part = self.inner(whole.redistribute(placements=[Shard(1)]).to_local())
        return DTensor.from_local(part, self.mesh, [Shard(1)], run_check=False).full_tensor()


def train(wrap: Callable[[Any], Any], mixed: bool, checkpoints: bool) -> list[Any]:
    mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("pp", "dp", "tp"))
    index = mesh["pp"].get_local_rank()
    torch.manual_seed(index)
    model = Stage(index)
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if mixed else MixedPrecisionPolicy()
    for i, block in enumerate(model.blocks):
        parallelize_module(block, mesh["tp"], PLAN)
        made = Gathered(wrap(Checkpointed(block) if checkpoints and i else block), mesh["tp"])
        model.blocks[i] = fully_shard(made, mesh=mesh["dp"], mp_policy=policy)
    fully_shard(model, mesh=mesh["dp"], mp_policy=policy)
    stage = PipelineStage(model, index, 2, torch.device("cpu"), group=mesh["pp"].get_group())
    schedule = Schedule1F1B(
        stage, 2, loss_fn=lambda x, y: nn.functional.cross_entropy(x.flatten(0, 1).float(), y.flatten())
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    found: list[Any] = []
    for step in range(STEPS):
        torch.manual_seed(100 * step + mesh["dp"].get_local_rank())
        ids = torch.randint(TOKENS, (4, LENGTH))
        losses: list[torch.Tensor] = []
        if index == 0:
            schedule.step(ids)
        else:
            schedule.step(target=ids, losses=losses)
        found += [loss.item() for loss in losses]
        optimizer.step()
        optimizer.zero_grad()
    return [*found, *(p.to_local().detach().clone() for p in model.parameters())]


def run_all(rank: int, store: str, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store, world_size=8, rank=rank, timeout=timedelta(seconds=300))
    found: dict[Any, Any] = {}
    try:
        for mixed, checkpoints in SETTINGS:
            found[mixed, checkpoints, ""] = train(lambda m: m, mixed, checkpoints)
            for backend in BACKENDS[: 2 if checkpoints else 3]:
                made: list[Any] = []

                def wrap(module: Any, backend: str = backend, made: list[Any] = made) -> Any:
                    made.append(gramme.compile(module, backend=backend))
                    return made[-1]

                outcome = train(wrap, mixed, checkpoints)
                found[mixed, checkpoints, backend] = outcome
                found["captures", mixed, checkpoints, backend] = [gramme.statistics(each).captures for each in made]
                gramme.reset()
    finally:
        dist.destroy_process_group()
    torch.save(found, Path(folder) / str(rank))
