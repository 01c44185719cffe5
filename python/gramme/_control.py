"""Control flow for backends that run graphs as they are: with Python's semantics, gradients included.

PyTorch's operators trace their functions again for each gradient.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ._torch import names
from ._torch.names import cond_op, scan_op, while_loop_op
from ._torch.names import map_impl as map_op

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["OWN"]


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Sequence[Any]) -> Any:
    if isinstance(pred, torch.Tensor) and names.is_batchedtensor(pred):
        both = zip(true_fn(*operands), false_fn(*operands), strict=True)
        return tuple(torch.where(pred, yes, no) for yes, no in both)
    return true_fn(*operands) if pred else false_fn(*operands)


def while_loop(
    cond_fn: Callable[..., Any],
    body_fn: Callable[..., Any],
    carried_inputs: tuple[torch.Tensor, ...],
    additional_inputs: tuple[Any, ...],
) -> tuple[torch.Tensor, ...]:
    if not cond_fn(*carried_inputs, *additional_inputs):
        return tuple(value.clone() if isinstance(value, torch.Tensor) else value for value in carried_inputs)
    carried = body_fn(*carried_inputs, *additional_inputs)
    while cond_fn(*carried, *additional_inputs):
        carried = body_fn(*carried, *additional_inputs)
    made: tuple[torch.Tensor, ...] = carried
    return made


def map_impl(f: Callable[..., Any], xs: Sequence[torch.Tensor], pos_args: Sequence[Any]) -> tuple[torch.Tensor, ...]:
    made = [f(*items, *pos_args) for items in zip(*(x.unbind() for x in xs), strict=True)]
    return tuple(torch.stack(column) for column in zip(*made, strict=True))


def scan(
    combine_fn: Callable[..., Any],
    init: Sequence[torch.Tensor],
    xs: Sequence[torch.Tensor],
    additional_inputs: Sequence[Any],
) -> tuple[torch.Tensor, ...]:
    carry, made = list(init), []
    for items in zip(*(x.unbind() for x in xs), strict=True):
        result = combine_fn(*carry, *items, *additional_inputs)
        carry = result[: len(carry)]
        made.append(result[len(carry) :])
    return (*carry, *(torch.stack(column) for column in zip(*made, strict=True)))


OWN: dict[Any, Callable[..., Any]] = {
    cond_op: cond,
    while_loop_op: while_loop,
    map_op: map_impl,
    scan_op: scan,
}
