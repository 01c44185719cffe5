"""Creates the state of PyTorch's optimizers before the first capture of a step."""

import inspect
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch

_EXACT = (torch.Tensor, torch.nn.Parameter)


def _is_plain(optimizer: torch.optim.Optimizer, init_group: Callable[..., object]) -> bool:
    """Whether creating the state calls only PyTorch's own method, on tensors of no subclass."""
    found = inspect.getattr_static(type(optimizer), "_init_group", None)
    if init_group not in (found, getattr(found, "_torchdynamo_orig_callable", None)):
        return False
    attributes = optimizer.__dict__
    state, groups = attributes.get("state"), attributes.get("param_groups")
    if type(state) is not defaultdict or state.default_factory is not dict or type(groups) is not list:
        return False
    for group in groups:
        if type(group) is not dict or type(group.get("params")) is not list or group.get("differentiable"):
            return False
        for p in group["params"]:
            if type(p) not in _EXACT or type(p.grad) not in (*_EXACT, type(None)):
                return False
    return True


def _without_state(optimizer: torch.optim.Optimizer) -> int:
    params = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    return sum(not optimizer.state.get(p) for p in params)


def make_state(optimizer: torch.optim.Optimizer, init_group: Callable[..., Any], lists: int) -> bool:
    """Has the optimizer make the state of parameters that have none, of all groups.

    Args:
        optimizer: of torch.optim, or of a class below one.
        init_group: the method, as a function.
        lists: how many lists it fills, besides the group.

    Returns:
        Is there state now that was not there? What the method refuses it refuses again, where the program calls it.

    """
    if not _is_plain(optimizer, init_group):
        return False
    missing = _without_state(optimizer)
    if not missing:
        return False
    try:
        for group in optimizer.param_groups:
            init_group(optimizer, group, *([] for _ in range(lists)))
    except Exception:
        pass
    return _without_state(optimizer) < missing
