"""What a call did, as plain data: two calls did the same if it is equal."""

import gc
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree
from device import DEVICE, streams

older: list[Any] = []  # native graphs from before the test, held by cycles through autograd's C++ objects


def all_graphs() -> list[Any]:
    return [thing for thing in gc.get_objects() if type(thing).__name__ == "NativeGraph"]


def graphs() -> list[Any]:
    """The native executor's graphs made in this test, in the order of creation if none was freed."""
    known = {id(graph) for graph in older}
    return [graph for graph in all_graphs() if id(graph) not in known]


def twin(value: Any) -> Any:
    """A tensor of the same bytes in memory of its own; everything else as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    with torch.no_grad():
        if value.layout != torch.strided or value.is_quantized or type(value) is not torch.Tensor:
            copy = value.detach().clone()
        elif value.is_conj():
            return twin(value.detach().conj()).conj().requires_grad_(value.requires_grad)
        elif value.is_neg():
            copy = torch._neg_view(twin(torch._neg_view(value.detach())))
        else:
            storage = value.untyped_storage().clone()
            copy = torch.empty(0, dtype=value.dtype, device=value.device).set_(
                storage, value.storage_offset(), value.shape, value.stride()
            )
    return copy.requires_grad_(value.requires_grad)


def values_of(tensor: torch.Tensor) -> Any:
    """The values, all NaN being one."""
    if tensor.is_nested:
        return [values_of(part) for part in tensor.unbind()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [values_of(part) for part in (tensor.crow_indices(), tensor.col_indices(), tensor.values())]
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [values_of(part) for part in (tensor.ccol_indices(), tensor.row_indices(), tensor.values())]
    if tensor.layout == torch.sparse_coo:
        return [tensor.is_coalesced(), values_of(tensor._indices()), values_of(tensor._values())]
    if tensor.is_quantized:
        return values_of(tensor.int_repr())
    if tensor.layout != torch.strided:
        return values_of(tensor.to_dense())
    if tensor.device.type == DEVICE:
        tensor = tensor.cpu()
    if tensor.device.type != "cpu":
        return None
    if tensor.is_complex():
        return values_of(torch.view_as_real(tensor.resolve_conj()))
    values = tensor.resolve_neg().contiguous()
    if values.is_floating_point() and values.element_size() > 1:
        values = values.masked_fill(values.isnan(), float("nan"))
    flat = values.reshape(-1)
    flat = flat.as_strided(flat.shape, (1,)) if flat.numel() == 1 else flat  # its stride may be any
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def facts_of(tensor: torch.Tensor, inputs: Sequence[torch.Tensor]) -> dict[str, Any]:
    """Everything that a program can see of a tensor; `inputs` are those it may be, or share memory with.

    The version of a tensor that is new says how its operator works inside, and nothing else.
    """
    with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
        plain = tensor.detach()
        strided = plain.layout == torch.strided and not plain.is_nested
        base = tensor._base if strided else None
        shared = [i for i, other in enumerate(inputs) if strided and _memory(other) == _memory(tensor)]
        return {
            "type": type(tensor),
            "dtype": tensor.dtype,
            "device": tensor.device,
            "sizes": None if plain.is_nested else tuple(plain.shape),
            "strides": plain.stride() if strided else None,
            "offset": plain.storage_offset() if strided else None,
            "layout": plain.layout,
            "conj": (plain.is_conj(), plain.is_neg()),
            "values": values_of(plain),
            "requires_grad": tensor.requires_grad,
            "autograd": _autograd(tensor),
            "inference": tensor.is_inference(),
            "version": tensor._version if shared and not tensor.is_inference() else None,
            "is": [i for i, other in enumerate(inputs) if other is tensor],
            "view": base is not None,
            "base": [i for i, other in enumerate(inputs) if base is not None and base is other],
            "memory": shared,
        }


def _autograd(tensor: torch.Tensor) -> Any:
    """Asking raises for a view whose base was written in another mode."""
    try:
        return tensor.is_leaf, tensor.grad_fn.name() if tensor.grad_fn is not None else None
    except RuntimeError as error:
        return str(error)


def _memory(tensor: torch.Tensor) -> Any:
    return tensor.untyped_storage()._cdata if tensor.layout == torch.strided and not tensor.is_nested else None


def tensors_in(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def describe(value: Any, known: Sequence[torch.Tensor]) -> Any:
    leaves, spec = pytree.tree_flatten(value)
    return [str(spec)] + [
        facts_of(leaf, known) if isinstance(leaf, torch.Tensor) else (type(leaf).__name__, repr(leaf))
        for leaf in leaves
    ]


def nodes(tensor: torch.Tensor) -> list[str]:
    """The names of all nodes below a tensor."""
    found, left = set(), [tensor.grad_fn]
    while left:
        node = left.pop()
        if node is not None and node not in found:
            found.add(node)
            left += [below for below, _ in node.next_functions]
    return sorted(node.name() for node in found)


def recorded_nodes(tensor: torch.Tensor) -> list[str]:
    """The names of the nodes below a tensor that stand for a recorded backward: of a type that has no name."""
    found, left = [], [tensor.grad_fn]
    seen = set()
    while left:
        node = left.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if type(node).__name__ == "CppFunction" and node.name() != "LinearBackward":
            found.append(node.name())
        left += [below for below, _ in node.next_functions]
    return found


def gradients(outputs: Any, inputs: Sequence[torch.Tensor]) -> Any:
    """Of the outputs' sum for the leaves among the inputs, or the error.

    Whether one is a view is left out: where nodes are fewer, it is a matrix instead of a view of one that is gone.
    """
    wanted = [t for t in inputs if t.requires_grad and t.is_leaf]
    given = [t for t in tensors_in(outputs) if t.requires_grad and t.grad_fn is not None]
    if not wanted or not given:
        return None
    try:
        found = torch.autograd.grad(given, wanted, [torch.ones_like(t) for t in given], allow_unused=True)
    except Exception as error:
        return type(error).__name__, str(error).split("\n")[0]
    return [None if g is None else facts_of(g, []) | {"view": None} for g in found]


def without_bases(told: dict[str, Any]) -> dict[str, Any]:
    """Results of a recorded backward are no views of what only the graph knows of."""
    results = [
        fact | {"view": None} if isinstance(fact, dict) and fact["requires_grad"] and not fact["memory"] else fact
        for fact in told.get("result", [])
    ]
    return told | {"result": results}


def outcome(
    call: Callable[..., Any], inputs: Sequence[Any], seed: int = 0, leaves: Sequence[torch.Tensor] | None = None
) -> dict[str, Any]:
    """What the call made of the inputs; `leaves`: those that gradients are for, if not the inputs."""
    tensors = tensors_in(inputs)
    torch.manual_seed(seed)
    try:
        result = call(*inputs)
    except Exception as error:
        text = str(error).split("\nException raised from")[0]  # some tell the C++ frames that they were raised in
        return {"raised": (type(error).__name__, text), "state": torch.is_grad_enabled()}
    random = [stream.numpy().tobytes() for stream in streams()]
    outputs = tensors_in(result)
    return {
        "result": describe(result, tensors),
        "together": [[i for i, other in enumerate(outputs) if _memory(other) == _memory(t)] for t in outputs],
        "inputs": [facts_of(t, tensors) for t in tensors],
        "random": random,
        "gradients": gradients(result, tensors if leaves is None else leaves),
        "state": torch.is_grad_enabled(),
    }


def difference(expected: Any, actual: Any, path: str = "") -> str | None:
    """Where two outcomes differ first; None if nowhere."""
    if isinstance(expected, dict) and isinstance(actual, dict) and expected.keys() == actual.keys():
        found = (difference(expected[key], actual[key], f"{path}.{key}") for key in expected)
        return next((text for text in found if text), None)
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        pairs = enumerate(zip(expected, actual, strict=True))
        found = (difference(e, a, f"{path}[{i}]") for i, (e, a) in pairs)
        return next((text for text in found if text), None)
    if expected == actual:
        return None
    return f"{path}: {_short(expected)} expected, {_short(actual)} found"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 300 else text[:300] + "…"
