"""A split model as stages of torch.distributed.pipelining."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage

from .._torch.names import generate_stage_to_rank_mapping, pytree
from ._relay import Relay, local_part
from ._split import undisturbed

if TYPE_CHECKING:
    from ._split import Split


def _relay(split: Split, args: tuple[Any, ...], kwargs: dict[str, Any], device: torch.device) -> Relay:
    cut = split.cut
    if effects := split.effects:
        raise ValueError(f"the model's call has an effect that its stages do not have: {effects[0]}")
    bound = split.bind(*args, **kwargs)
    values = [bound.values[node.name] for node in cut.inputs]
    nodes = {node.name: node for node in cut.module.graph.nodes}
    tensors = [value for value in values if isinstance(value, Tensor)]
    with undisturbed(tensor for tensor in tensors if not tensor.requires_grad), torch.enable_grad():
        return Relay(cut, [nodes[name] for name in bound.leaves], values, device)


def _check_that_all_agree(relay: Relay, group: dist.ProcessGroup | None) -> None:
    """A plan made of measured costs differs from process to process."""
    own = (relay.cut.bounds, [_shapes(relay.stage(i).outputs) for i in range(relay.number)])
    found: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(found, own, group)
    for rank, other in enumerate(found):
        if other != found[0]:
            raise ValueError(f"processes 0 and {rank} of the pipeline cut differently: {found[0][0]} and {other[0]}")


def _shapes(tensors: tuple[Tensor, ...]) -> list[tuple[Any, ...]]:
    return [(tuple(tensor.shape), str(tensor.dtype), tensor.requires_grad) for tensor in tensors]


class _Arguments:
    """Turns the model's arguments into those of the first stage."""

    def __init__(self, split: Split, relay: Relay) -> None:
        self.split, self.relay = split, relay

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        values = self.split.bind(*args, **kwargs).values
        for node in self.relay.arguments:
            value, expected = local_part(values[node.name]), self.relay.values[node]
            if isinstance(value, Tensor) and value.shape != expected.shape:
                raise ValueError(
                    f"a micro-batch has an argument of shape {tuple(value.shape)}, the stages were made for "
                    f"{tuple(expected.shape)}: all micro-batches have one shape, so the batch is a multiple of it"
                )
        return tuple(values[node.name] for node in self.relay.arguments), {}


def _without_keywords(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Drops the model's keyword arguments, which the engine passes to all stages of a process."""
    return args, {}


def _nothing_left() -> Callable[[], None]:
    """The weights' half after a backward that was done whole: nothing."""
    return lambda: None


def stages_of_process(
    split: Split,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    device: torch.device,
    group: dist.ProcessGroup | None,
    placement: str,
    wrap: Callable[[nn.Module], nn.Module] | None,
) -> list[PipelineStage]:
    relay = _relay(split, args, kwargs, device)
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    if size > relay.number:
        raise ValueError(f"there are {size} processes for {relay.number} stages")
    _check_that_all_agree(relay, group)
    places = generate_stage_to_rank_mapping(size, relay.number, placement)
    made = []
    for index in (stage for stage, place in places.items() if place == rank):
        stage = relay.stage(index)
        inputs = stage.inputs
        if index == 0:
            stage.module.register_forward_pre_hook(_Arguments(split, relay), with_kwargs=True)
            inputs = tuple(leaf for leaf in pytree.tree_leaves(args) if isinstance(leaf, Tensor))
        else:
            stage.module.register_forward_pre_hook(_without_keywords, with_kwargs=True)
        module = wrap(stage.module) if wrap else stage.module
        at_once = _nothing_left if stage.is_whole else None
        made.append(
            PipelineStage(module, index, relay.number, device, inputs, stage.outputs, group=group, dw_builder=at_once)
        )
    return made
