"""Compiles equal graphs once: blocks of a model that are compiled one by one, several instances of a module.

A compiled graph of PyTorch's own backends is a function of its inputs, so it serves every graph that is spelt the same:
operations, constants, what is known of each input and of the memory that inputs share, the thread's modes, the settings
of PyTorch's compilers. What is not known to compare is compiled for itself. What nobody runs any more is forgotten.
"""

from __future__ import annotations

import struct
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch

from . import _C
from ._torch import names

if TYPE_CHECKING:
    from torch import fx

__all__ = [
    "UnknownError",
    "as_results",
    "compiled_before",
    "identity_of",
    "is_of_torch",
    "remember",
    "spelling",
    "spelt",
]

_known: weakref.WeakValueDictionary[Hashable, Any] = weakref.WeakValueDictionary()

_CONFIGS = (names.INDUCTOR_CONFIG, names.FUNCTORCH_CONFIG, names.DYNAMO_CONFIG)
_MEANINGLESS = {"stack_trace", "nn_module_stack", "source_fn_stack", "creation_timestamp", "example_value"}
_OF_MODULE = {"dynamo_flat_name_to_original_fqn", "dynamo_compile_id", "backend_id"}
_PLAIN = (torch.dtype, torch.device, torch.layout, torch.memory_format)


class UnknownError(Exception):
    """Something cannot be compared reliably."""


class _Same:
    """Wraps an object that equals only itself."""

    __slots__ = ("kept",)

    def __init__(self, kept: Any) -> None:
        self.kept = kept

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.kept is other.kept

    def __hash__(self) -> int:
        return id(self.kept)


def identity_of(compiler: Callable[..., Any], mode: str | None, options: dict[str, Any]) -> Hashable | None:
    """The identity of a PyTorch compiler; None for the program's own, which may have effects at each call."""
    module = getattr(compiler, "__module__", None) or ""
    if module != "torch" and not module.startswith("torch."):
        return None
    try:
        return (_Same(compiler), mode, spelt(options))
    except UnknownError:
        return None


class _Result(torch.autograd.Function):
    """A tensor with the same memory that is the result of an operation, but no view."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.data


def as_results(graph: fx.Graph, inputs: list[Any]) -> list[Any]:
    """Inputs to compile a graph for if it writes none: leaves that need gradients look like results of operations.

    The first of several equal blocks may be given a leaf, the others get what the block before them gave; the compiled
    graph is one. That is right, since AOTAutograd of PyTorch 2.13 reads whether an input is a leaf (`is_leaf` of
    InputAliasInfo and of the fakes) in these places only:

    - `_apply_mutations`, `create_synthetic_base_metadata`, autograd's check of writes to leaves: of written inputs;
    - `_compute_indices_of_inps_to_detach`: a result that gets no gradient, whatever the program does, is detached, so
      that the engine does not pass through what made it. A leaf that gets none may be detached as well: eagerly, no
      edge leads to it either. The other way round would not do, so the graph is compiled for a result.

    Inductor does not read it, nor do functions of torch that stand in graphs, but for `invoke_leaf_function`, which
    has a body; functions of other libraries may. Parameters are leaves in every call.
    """
    if not torch.is_grad_enabled() or torch.is_inference_mode_enabled() or not all(map(is_of_torch, graph.nodes)):
        return inputs
    as_result: Any = _Result.apply
    return [as_result(value.data.requires_grad_()) if _may_be_result(value) else value for value in inputs]


def is_of_torch(node: fx.Node) -> bool:
    if node.op != "call_function":
        return node.op != "get_attr"
    if isinstance(node.target, names.OpOverload | names.OpOverloadPacket):
        return str(node.target).startswith("aten.")
    module = getattr(node.target, "__module__", None) or ""
    known = ("torch.nn.", "torch.amp.", names.CORE)
    return module in ("torch", "torch.functional", "_operator") or module.startswith(known)


def _may_be_result(value: Any) -> bool:
    if type(value) is not torch.Tensor or not value.requires_grad or not value.is_leaf or value._is_view():
        return False
    return value.layout is torch.strided and value.grad_dtype is value.dtype and not value.__dict__


def spelling(identity: Hashable | None, graph_module: fx.GraphModule, inputs: Sequence[Any]) -> Hashable | None:
    """The key of a compiled graph; None if it has none. The thread must be in the modes to compile in."""
    bisector = names.loaded(names.COMPILER_BISECTOR)
    if bisector and bisector.CompilerBisector.get_backend():
        return None  # it counts
    if identity is None or not set(graph_module.meta) <= _OF_MODULE:
        return None
    try:
        return (identity, _graph(graph_module.graph), _inputs(graph_module.graph, inputs), _modes(), _settings())
    except UnknownError:
        return None


def compiled_before(key: Hashable | None) -> Any:
    """The compiled form of equal graphs; None if there is none."""
    return None if key is None else _known.get(key)


def remember(key: Hashable | None, compiled: Any) -> None:
    """Offers a compiled graph to equal graphs as long as it is referenced."""
    if key is not None and type(compiled).__weakrefoffset__:
        _known[key] = compiled


def spelt(value: Any, nodes: Mapping[fx.Node, Hashable] = MappingProxyType({})) -> Hashable:
    """The comparable form of a constant or an argument of a node, with its type: 1, True and 1.0 differ."""
    kind = type(value)
    if kind is float:
        return (float, struct.pack("d", value))
    if kind in (int, bool, str, bytes) or value is None or value is Ellipsis or kind in _PLAIN:
        return (kind, value)
    if kind is complex:
        return (complex, struct.pack("dd", value.real, value.imag))
    if isinstance(value, torch.fx.Node):
        return nodes[value]
    if isinstance(value, tuple | list):  # torch.fx has lists of its own
        return (tuple if isinstance(value, tuple) else list, *(spelt(each, nodes) for each in value))
    if isinstance(value, dict):
        return (dict, *((spelt(key), spelt(each, nodes)) for key, each in value.items()))
    if kind is slice:
        return (slice, *(spelt(each, nodes) for each in (value.start, value.stop, value.step)))
    raise UnknownError


def _graph(graph: fx.Graph) -> Hashable:
    nodes = {node: index for index, node in enumerate(graph.nodes)}
    words = []
    for node in graph.nodes:
        if node.op not in ("placeholder", "call_function", "call_method", "output"):
            raise UnknownError
        if node.op != "placeholder" and not set(node.meta) <= _MEANINGLESS:
            raise UnknownError
        target = node.target if isinstance(node.target, str) else _Same(node.target)
        called = None if node.op == "placeholder" else target
        words.append((node.op, called, spelt(node.args, nodes), spelt(node.kwargs, nodes)))
    return tuple(words)


def _inputs(graph: fx.Graph, inputs: Sequence[Any]) -> Hashable:
    memory: dict[int, int] = {}
    objects: dict[int, int] = {}
    words = []
    for node, value in zip(graph.find_nodes(op="placeholder"), inputs, strict=True):
        if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout is not torch.strided:
            raise UnknownError
        if not set(node.meta) <= _MEANINGLESS | {"tensor_dict"}:
            raise UnknownError
        base = value._base if value._is_view() else None
        shared = (
            memory.setdefault(value.untyped_storage()._cdata, len(memory)),
            objects.setdefault(id(value), len(objects)),
            base is not None and (objects.setdefault(id(base), len(objects)), _tensor(base)),
            value.data_ptr() % 64,
        )
        words.append((_tensor(value), shared, spelt(dict(node.meta.get("tensor_dict", {})))))
    return tuple(words)


def _tensor(tensor: torch.Tensor) -> Hashable:
    gradient = tensor.grad if tensor.is_leaf else None
    if gradient is not None and (gradient._is_view() or tensor._is_view()):
        raise UnknownError
    described = _C.tensor_type(tensor)
    if described is None:
        raise UnknownError
    return described


def _modes() -> Hashable:
    """The modes of the thread and the process."""
    autocast = [
        (device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)) for device in ("cpu", "cuda")
    ]
    backends, matmul = torch.backends, torch.backends.cuda.matmul
    return (
        *autocast,
        torch.is_autocast_cache_enabled(),
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.get_default_dtype(),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.get_float32_matmul_precision(),
        torch.get_num_threads(),
        (
            matmul.allow_tf32,
            matmul.allow_fp16_reduced_precision_reduction,
            matmul.allow_bf16_reduced_precision_reduction,
        ),
        (backends.cudnn.enabled, backends.cudnn.benchmark, backends.cudnn.deterministic, backends.cudnn.allow_tf32),
        (backends.mkldnn.enabled, backends.mkldnn.deterministic, backends.mkldnn.allow_tf32),
        (names.get_flash_sdp_enabled(), names.get_mem_efficient_sdp_enabled()),
        (names.get_math_sdp_enabled(), names.get_cudnn_sdp_enabled()),
    )


def _settings() -> Hashable:
    """The settings of PyTorch's compilers; functions among them cannot be compared."""
    words = []
    for name in _CONFIGS:
        config: Any = names.loaded(name)
        values = config.get_config_copy() if config else {}
        if any(callable(value) and not isinstance(value, type) for value in values.values()):
            raise UnknownError
        if values.get("verify_correctness"):
            raise UnknownError  # each time
        words.append(repr(sorted(values.items())))
    return tuple(words)
