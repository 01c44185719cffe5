"""What processes run in which each stage is tensor parallel, and may be sharded over replicas too."""

from collections.abc import Callable
from typing import Any

import gramme.pipeline
import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_module
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from pipeline import zoo
from pipeline.processes import expected, schedule_of

WIDTH, LENGTH, HEADS = 16, 6, 4
BATCH = (zoo.BATCH, LENGTH, WIDTH)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.again = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attend(self.norm(x))
        return x + self.down(torch.nn.functional.gelu(self.up(self.again(x))))

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = (m(x).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2) for m in (self.q, self.k, self.v))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(4)])
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x)  # type: ignore[no-any-return]


def tensor_parallel(mesh: DeviceMesh) -> nn.Module:
    model = Net()
    plan = {
        **{f"blocks.*.{name}": ColwiseParallel() for name in ("q", "k", "v", "up")},
        **{f"blocks.*.{name}": RowwiseParallel() for name in ("out", "down")},
    }
    return parallelize_module(model, mesh, plan)


def sequence_parallel(mesh: DeviceMesh) -> nn.Module:
    """Between the blocks each process has a part of the sequence."""
    model = Net()
    whole: dict[str, Any] = {"input_layouts": (Shard(1),), "desired_input_layouts": (Replicate(),)}
    plan: dict[str, Any] = {
        "blocks.0": PrepareModuleInput(
            input_layouts=(Replicate(),), desired_input_layouts=(Shard(1),), use_local_output=True
        ),
        "blocks.*.norm": SequenceParallel(),
        "blocks.*.again": SequenceParallel(),
        **{f"blocks.*.{name}": ColwiseParallel(input_layouts=Shard(1)) for name in ("q", "k", "v", "up")},
        **{f"blocks.*.{name}": RowwiseParallel(output_layouts=Shard(1)) for name in ("out", "down")},
        "head": PrepareModuleInput(**whole, use_local_output=True),
    }
    return parallelize_module(model, mesh, plan)


class Distributed(nn.Module):
    """A value that two layers use is a DTensor where the stages meet."""

    def __init__(self, mesh: DeviceMesh, placement: Any) -> None:
        super().__init__()
        self.first, self.second, self.third = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.head, self.mesh, self.placement = nn.Linear(WIDTH, 1), mesh, placement
        for layer in (self.first, self.second, self.third, self.head):
            distribute_module(layer, mesh)

    def forward(self, x: Tensor) -> Tensor:
        whole = DTensor.from_local(x, self.mesh, [Replicate()], run_check=False)
        x = whole.redistribute(placements=[Shard(1)])
        x = self.first(x).relu()
        x = (self.second(x) + x).transpose(0, 1)
        if self.placement is not None:
            x = x.redistribute(placements=[self.placement])
        gramme.pipeline.cut()
        x = self.third(x) + x
        return self.result(self.head(x.transpose(0, 1)))

    def result(self, x: DTensor) -> Tensor:
        return x.full_tensor()


class Returning(Distributed):
    def result(self, x: DTensor) -> Tensor:
        return x


class Summed(nn.Module):
    """Where the stages meet each process has a summand."""

    def __init__(self, mesh: DeviceMesh) -> None:
        super().__init__()
        self.layer, self.mesh = nn.Linear(WIDTH, 1), mesh

    def forward(self, x: Tensor) -> Tensor:
        summand = DTensor.from_local(self.layer(x), self.mesh, [Partial()], run_check=False)
        gramme.pipeline.cut()
        return (summand * 2).full_tensor()


MODELS: dict[str, Callable[[DeviceMesh], nn.Module]] = {
    "tensor parallel": tensor_parallel,
    "sequence parallel": sequence_parallel,
    "a sharded value": lambda mesh: Distributed(mesh, None),
    "a sharded value of other placement": lambda mesh: Distributed(mesh, Shard(0)),
    "a replicated value": lambda mesh: Distributed(mesh, Replicate()),
}
REFUSED: dict[str, tuple[Callable[[DeviceMesh], nn.Module], str]] = {
    "a summand": (Summed, r"is a DTensor with a Partial placement, which is not handed over \(.*: redistribute it"),
    "a result": (
        lambda mesh: Returning(mesh, None),
        r"the model returns a DTensor \(.*\), which a stage cannot: return its to_local\(\) or full_tensor\(\)",
    ),
}


def local(value: Tensor | None) -> Tensor | None:
    return value.to_local() if isinstance(value, DTensor) else value


def trained(rank: int, size: int, case: tuple[str, str, int]) -> None:
    """Two steps of SGD beside the uncut, tensor parallel model: losses, gradients and parameters have its bits."""
    name, schedule_name, stages_each = case
    mesh = init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("stage", "part"))
    models = []
    for _ in range(2):
        torch.manual_seed(0)
        models.append(MODELS[name](mesh["part"]))
    model, twin = models
    cut = gramme.pipeline.split(model, (torch.randn(zoo.SHORT, *BATCH[1:]),), stages=stages_each * size // 2)
    stages = cut.pipeline_stages((torch.randn(zoo.SHORT, *BATCH[1:]),), group=mesh.get_group("stage"))
    schedule = schedule_of(schedule_name, stages)
    parameters = dict(twin.named_parameters())
    own = [pair for stage in stages for pair in stage.submod.named_parameters()]
    assert any(isinstance(value, DTensor) for _, value in own)
    optimizers = [torch.optim.SGD([p for _, p in pairs], lr=0.1) for pairs in (own, parameters.items())]
    for step in range(2):
        torch.manual_seed(step)
        x, target = torch.randn(BATCH), torch.rand(zoo.BATCH, 1)
        wanted = expected(twin, (x,), {}, target)
        losses: list[Tensor] = []
        last = stages[-1].is_last
        schedule.step(*((x,) if stages[0].is_first else ()), **({"target": target, "losses": losses} if last else {}))
        assert [a.item() for a in losses] == [b.item() for b in wanted] * last
        for key, value in own:
            grad, other = local(value.grad), local(parameters[key].grad)
            assert grad is not None, key
            assert other is not None, key
            assert torch.equal(grad, other), (key, step)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        assert all(torch.equal(local(value), local(parameters[key])) for key, value in own)
    found: list[Any] = [None] * size
    dist.all_gather_object(found, [key for key, _ in own])
    assert set(parameters) == {key for keys in found for key in keys}


def sharded(rank: int, size: int, case: str) -> None:
    """The stages of a tensor parallel model are sharded over replicas: the gradient is the mean over the replicas."""
    mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("stage", "replica", "part"))
    models = []
    for _ in range(2):
        torch.manual_seed(0)
        models.append(MODELS[case](mesh["part"]))
    model, twin = models
    example = torch.randn(zoo.SHORT, *BATCH[1:])
    cut = gramme.pipeline.split(model, (example,), stages=2)
    (stage,) = cut.pipeline_stages(
        (example,), group=mesh.get_group("stage"), wrap=lambda module: fully_shard(module, mesh=mesh["replica"])
    )
    schedule = schedule_of("Schedule1F1B", [stage])
    batches = []
    for replica in range(2):
        torch.manual_seed(10 + replica)
        batches.append((torch.randn(BATCH), torch.rand(zoo.BATCH, 1)))
    x, target = batches[mesh.get_local_rank("replica")]
    schedule.step(*((x,) if stage.is_first else ()), **({"target": target} if stage.is_last else {}))
    sums: dict[str, Tensor] = {}
    for x, target in batches:
        twin.zero_grad()
        expected(twin, (x,), {}, target)
        for key, value in twin.named_parameters():
            whole = value.grad.full_tensor() if isinstance(value.grad, DTensor) else value.grad
            assert whole is not None
            sums[key] = sums[key] + whole if key in sums else whole.clone()
    for key, value in stage.submod.named_parameters():
        assert isinstance(value.grad, DTensor), key
        assert torch.equal(value.grad.full_tensor(), sums[key] / 2), key


def refused_in_words(rank: int, size: int, case: str) -> None:
    make, words = REFUSED[case]
    mesh = init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("stage", "part"))
    example = torch.randn(zoo.SHORT, *BATCH[1:])
    cut = gramme.pipeline.split(make(mesh["part"]), (example,), stages=2)
    with pytest.raises(ValueError, match=words):
        cut.pipeline_stages((example,), group=mesh.get_group("stage"))
