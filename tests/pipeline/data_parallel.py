"""What processes run in which each stage has replicas that train on data of their own."""

from typing import Any

import gramme.pipeline
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from pipeline import zoo
from pipeline.processes import expected, schedule_of

REPLICAS = 2


def wrapped(module: nn.Module, way: str, mesh: DeviceMesh) -> nn.Module:
    if way == "ddp":
        return DistributedDataParallel(module, process_group=mesh.get_group())
    fully_shard(module, mesh=mesh)
    return module


def whole(tensor: Tensor | None) -> Tensor | None:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def batch_of(arguments: Any, seed: int) -> tuple[Any, Any, Tensor]:
    torch.manual_seed(seed)
    args, kwargs = arguments(zoo.BATCH)
    return args, kwargs, torch.rand(zoo.BATCH, 1)


def step_of(schedule: Any, stages: list[Any], batch: tuple[Any, Any, Tensor]) -> None:
    args, kwargs, target = batch
    first, last = stages[0].is_first, stages[-1].is_last
    schedule.step(*(args if first else ()), **(kwargs if first else {}), **({"target": target} if last else {}))


def trained(rank: int, size: int, case: tuple[str, str, str, int]) -> None:
    """Two steps beside those of the uncut model, whose gradients are the mean over the replicas' batches."""
    name, schedule_name, way, stages_each = case
    make, arguments = (zoo.SMALL | zoo.TRANSFORMERS)[name]
    torch.manual_seed(0)
    model, twin = make().train(), make().train()
    twin.load_state_dict(model.state_dict())
    mesh = init_device_mesh("cpu", (size // REPLICAS, REPLICAS), mesh_dim_names=("stage", "replica"))
    args, kwargs = arguments(zoo.SHORT)
    cut = gramme.pipeline.split(model, args, kwargs, stages=stages_each * size // REPLICAS)
    stages = cut.pipeline_stages(
        args, kwargs, group=mesh.get_group("stage"), wrap=lambda module: wrapped(module, way, mesh["replica"])
    )
    schedule = schedule_of(schedule_name, stages)
    modules = [stage.submod.module if way == "ddp" else stage.submod for stage in stages]
    before = [value.clone() for value in model.parameters()]
    own = [pair for module in modules for pair in module.named_parameters()]
    assert all(isinstance(value, DTensor) == (way != "ddp") for _, value in own)
    optimizer = torch.optim.SGD([value for _, value in own], lr=0.1, momentum=0.9)
    of_twin = torch.optim.SGD(twin.parameters(), lr=0.1, momentum=0.9)
    parameters = dict(twin.named_parameters())
    for step in range(2):
        batches = [batch_of(arguments, REPLICAS * step + replica) for replica in range(REPLICAS)]
        step_of(schedule, stages, batches[mesh.get_local_rank("replica")])
        found: list[dict[str, Tensor]] = []
        for batch in batches:
            twin.zero_grad()
            expected(twin, *batch)
            found.append({key: value.grad for key, value in parameters.items() if value.grad is not None})
        for key, value in parameters.items():
            value.grad = sum(grads[key] for grads in found) / REPLICAS if key in found[0] else None
        for key, value in own:
            grad = whole(value.grad)
            assert grad is not None, key
            assert torch.equal(grad, parameters[key].grad), (key, step)
        optimizer.step()
        of_twin.step()
        for key, value in own:
            assert torch.equal(whole(value), parameters[key]), (key, step)
        optimizer.zero_grad()
    if way == "fsdp":  # what is trained are shards of copies
        assert all(map(torch.equal, model.parameters(), before))
    states: list[Any] = [None] * size
    dist.all_gather_object(
        states, {key: whole(value.detach()) for module in modules for key, value in module.state_dict().items()}
    )
    together = {key: value for state in states for key, value in state.items()}
    named = twin.state_dict()  # a tied parameter is there under each of its names, in the stages under the first
    assert together.keys() <= named.keys()
    assert {named[key].data_ptr() for key in together} == {value.data_ptr() for value in named.values()}
    for key, value in parameters.items():
        assert torch.equal(together[key], value), key
