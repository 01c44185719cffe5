"""The private names of torch that gramme's Python code uses; src/torch has those of the C++ code.

    from ._torch.names import Source, TracingContext

Names that `import torch` loads are looked up when gramme is imported, and one error lists all that are missing. Others
are looked up at their first use, since their modules take most of a second to import. CHANGES has the differences of
later versions. tools/check_private_names.py refuses such names elsewhere.
"""

import importlib
import importlib.util
import re
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:  # what type checkers see: the same rows as below
    import torch._C._functorch as functorch_in_c
    import torch._dynamo.compiled_autograd as compiled_autograd
    import torch._dynamo.config as dynamo_config
    import torch._dynamo.decorators as dynamo_decorators
    import torch._dynamo.eval_frame as dynamo_eval_frame
    import torch._dynamo.exc as dynamo_exc
    import torch._dynamo.source as dynamo_source
    import torch._functorch.config as functorch_config
    import torch._inductor.config as inductor_config
    import torch._numpy as torch_numpy
    import torch.export._trace as export_trace
    from torch import _check as check
    from torch import _TorchCompileAOTInductorWrapper as TorchCompileAOTInductorWrapper
    from torch import _TorchCompileInductorWrapper as TorchCompileInductorWrapper
    from torch._C import DisableTorchFunctionSubclass as DisableTorchFunctionSubclass
    from torch._C import _dispatch_keys as dispatch_keys
    from torch._C import _FunctionBase as FunctionBase
    from torch._C import _get_cudnn_sdp_enabled as get_cudnn_sdp_enabled
    from torch._C import _get_flash_sdp_enabled as get_flash_sdp_enabled
    from torch._C import _get_function_stack_at as get_function_stack_at
    from torch._C import _get_math_sdp_enabled as get_math_sdp_enabled
    from torch._C import _get_mem_efficient_sdp_enabled as get_mem_efficient_sdp_enabled
    from torch._C import _len_torch_function_stack as len_torch_function_stack
    from torch._C import _set_grad_enabled as set_grad_enabled
    from torch._C import _VariableFunctions as VariableFunctions
    from torch._C._distributed_c10d import _DEFAULT_FIRST_BUCKET_BYTES as DEFAULT_FIRST_BUCKET_BYTES
    from torch._C._distributed_c10d import PrefixStore as PrefixStore
    from torch._C._dynamo.eval_frame import set_guard_complete_hook as set_guard_complete_hook
    from torch._C._functorch import is_batchedtensor as is_batchedtensor
    from torch._dispatch.python import enable_python_dispatcher as enable_python_dispatcher
    from torch._dynamo._trace_wrapped_higher_order_op import trace_wrapped as trace_wrapped
    from torch._dynamo.backends.debugging import ExplainOutput as ExplainOutput
    from torch._dynamo.backends.distributed import DDPOptimizer as DDPOptimizer
    from torch._dynamo.backends.registry import list_backends as list_registered_backends
    from torch._dynamo.backends.registry import lookup_backend as lookup_backend
    from torch._dynamo.callback import CallbackTrigger as CallbackTrigger
    from torch._dynamo.decorators import mark_unbacked as mark_unbacked
    from torch._dynamo.eval_frame import ExportResult as ExportResult
    from torch._dynamo.eval_frame import argument_names as argument_names
    from torch._dynamo.eval_frame import check_user_input_output as check_user_input_output
    from torch._dynamo.exc import FailOnRecompileLimitHit as FailOnRecompileLimitHit
    from torch._dynamo.exc import InvalidBackend as InvalidBackend
    from torch._dynamo.exc import UncapturedHigherOrderOpError as UncapturedHigherOrderOpError
    from torch._dynamo.exc import Unsupported as Unsupported
    from torch._dynamo.exc import UserError as UserError
    from torch._dynamo.exc import UserErrorType as UserErrorType
    from torch._dynamo.external_utils import (
        call_module_hooks_from_backward_state as call_module_hooks_from_backward_state,
    )
    from torch._dynamo.graph_deduplication import apply_graph_deduplication as apply_graph_deduplication
    from torch._dynamo.graph_region_tracker import GraphRegionTracker as GraphRegionTracker
    from torch._dynamo.output_graph import GraphCompileReason as GraphCompileReason
    from torch._dynamo.source import AttrSource as AttrSource
    from torch._dynamo.source import TensorProperty as TensorProperty
    from torch._dynamo.source import TensorPropertySource as TensorPropertySource
    from torch._dynamo.trace_rules import _allowed_callable_ids as allowed_callable_ids
    from torch._dynamo.types import GuardFilterEntry as GuardFilterEntry
    from torch._dynamo.utils import CompilationMetrics as CompilationMetrics
    from torch._dynamo.utils import clone_inputs as clone_inputs
    from torch._dynamo.utils import get_optimize_ddp_mode as get_optimize_ddp_mode
    from torch._dynamo.utils import same as same
    from torch._export.non_strict_utils import make_fake_inputs as make_fake_inputs
    from torch._export.non_strict_utils import (
        produce_guards_and_solve_constraints as produce_guards_and_solve_constraints,
    )
    from torch._export.wrappers import _wrap_submodules as wrap_submodules
    from torch._guards import CompileContext as CompileContext
    from torch._guards import CompileId as CompileId
    from torch._guards import Guard as Guard
    from torch._guards import GuardEnvExpr as GuardEnvExpr
    from torch._guards import GuardsSet as GuardsSet
    from torch._guards import Source as Source
    from torch._guards import StorageOverlap as StorageOverlap
    from torch._guards import TracingContext as TracingContext
    from torch._guards import compile_context as compile_context
    from torch._guards import tracing as tracing
    from torch._higher_order_ops import invoke_subgraph as invoke_subgraph
    from torch._higher_order_ops.base_hop import BaseHOP as BaseHOP
    from torch._higher_order_ops.cond import cond_op as cond_op
    from torch._higher_order_ops.invoke_leaf_function import _LeafCallable as _LeafCallable
    from torch._higher_order_ops.invoke_leaf_function import make_leaf_function_wrappers as make_leaf_function_wrappers
    from torch._higher_order_ops.map import map_impl as map_impl
    from torch._higher_order_ops.scan import scan_op as scan_op
    from torch._higher_order_ops.while_loop import while_loop_op as while_loop_op
    from torch._higher_order_ops.wrap import tag_activation_checkpoint as tag_activation_checkpoint
    from torch._higher_order_ops.wrap import wrap as wrap
    from torch._library.custom_ops import OPDEFS as OPDEFS
    from torch._library.fake_class_registry import maybe_to_fake_obj as maybe_to_fake_obj
    from torch._library.opaque_object import is_opaque_type as is_opaque_type
    from torch._library.opaque_object import is_opaque_value_type as is_opaque_value_type
    from torch._logging._internal import getArtifactLogger as getArtifactLogger
    from torch._logging._internal import trace_structured as trace_structured
    from torch._logging.structured import intern_string as intern_string
    from torch._numpy._ndarray import ndarray as torch_numpy_array
    from torch._ops import HigherOrderOperator as HigherOrderOperator
    from torch._ops import OpOverload as OpOverload
    from torch._ops import OpOverloadPacket as OpOverloadPacket
    from torch._subclasses.fake_tensor import FakeTensor as FakeTensor
    from torch._subclasses.fake_tensor import FakeTensorMode as FakeTensorMode
    from torch.amp.autocast_mode import _enter_autocast as enter_autocast
    from torch.amp.autocast_mode import _exit_autocast as exit_autocast
    from torch.autograd.grad_mode import _enter_inference_mode as enter_inference_mode
    from torch.autograd.grad_mode import _exit_inference_mode as exit_inference_mode
    from torch.distributed._functional_collectives import AsyncCollectiveTensor as AsyncCollectiveTensor
    from torch.distributed.distributed_c10d import _get_default_store as get_default_store
    from torch.distributed.pipelining._utils import generate_stage_to_rank_mapping as generate_stage_to_rank_mapping
    from torch.fx._lazy_graph_module import _LazyGraphModule as _LazyGraphModule
    from torch.fx.experimental._backward_state import BackwardState as BackwardState
    from torch.fx.experimental.symbolic_shapes import ConstraintViolationError as ConstraintViolationError
    from torch.fx.experimental.symbolic_shapes import DimDynamic as DimDynamic
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode as GuardOnDataDependentSymNode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv as ShapeEnv
    from torch.fx.experimental.symbolic_shapes import StatefulSymbolicContext as StatefulSymbolicContext
    from torch.fx.experimental.symbolic_shapes import SubclassSymbolicContext as SubclassSymbolicContext
    from torch.fx.experimental.symbolic_shapes import compute_unbacked_bindings as compute_unbacked_bindings
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols as free_unbacked_symbols
    from torch.fx.graph import _PyTreeCodeGen as PyTreeCodeGen
    from torch.fx.graph import _PyTreeInfo as PyTreeInfo
    from torch.fx.proxy import _COPY_META_FIELDS as COPY_META_FIELDS
    from torch.jit._recursive import ignored_attributes as ignored_attributes
    from torch.library import _impls as python_kernels
    from torch.nested._internal.nested_tensor import NestedTensor as NestedTensor
    from torch.nn.modules.batchnorm import _BatchNorm as BatchNorm
    from torch.utils import _pytree as pytree
    from torch.utils._dtype_abbrs import dtype_abbrs as dtype_abbrs
    from torch.utils._python_dispatch import TorchDispatchMode as TorchDispatchMode
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack as get_current_dispatch_mode_stack
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass as is_traceable_wrapper_subclass
    from torch.utils._pytree import tree_structure as tree_structure
    from torch.utils._sympy.numbers import int_oo as int_oo
    from torch.utils._sympy.value_ranges import ValueRangeError as ValueRangeError
    from torch.utils._sympy.value_ranges import ValueRanges as ValueRanges

NAMES: dict[str, tuple[str, str]] = {  # name here: (module, attribute; "" for the module itself)
    "export_trace": ("torch.export._trace", ""),
    "ExportResult": ("torch._dynamo.eval_frame", "ExportResult"),
    "GuardsSet": ("torch._guards", "GuardsSet"),
    "make_fake_inputs": ("torch._export.non_strict_utils", "make_fake_inputs"),
    "produce_guards_and_solve_constraints": ("torch._export.non_strict_utils", "produce_guards_and_solve_constraints"),
    "wrap_submodules": ("torch._export.wrappers", "_wrap_submodules"),
    "argument_names": ("torch._dynamo.eval_frame", "argument_names"),
    "check_user_input_output": ("torch._dynamo.eval_frame", "check_user_input_output"),
    "ConstraintViolationError": ("torch.fx.experimental.symbolic_shapes", "ConstraintViolationError"),
    "PyTreeCodeGen": ("torch.fx.graph", "_PyTreeCodeGen"),
    "PyTreeInfo": ("torch.fx.graph", "_PyTreeInfo"),
    "ValueRangeError": ("torch.utils._sympy.value_ranges", "ValueRangeError"),
    "FunctionBase": ("torch._C", "_FunctionBase"),
    "set_guard_complete_hook": ("torch._C._dynamo.eval_frame", "set_guard_complete_hook"),
    "DisableTorchFunctionSubclass": ("torch._C", "DisableTorchFunctionSubclass"),
    "TorchCompileAOTInductorWrapper": ("torch", "_TorchCompileAOTInductorWrapper"),
    "TorchCompileInductorWrapper": ("torch", "_TorchCompileInductorWrapper"),
    "VariableFunctions": ("torch._C", "_VariableFunctions"),
    "pytree": ("torch.utils._pytree", ""),
    "get_default_store": ("torch.distributed.distributed_c10d", "_get_default_store"),
    "BatchNorm": ("torch.nn.modules.batchnorm", "_BatchNorm"),
    "check": ("torch", "_check"),
    "dispatch_keys": ("torch._C", "_dispatch_keys"),
    "get_cudnn_sdp_enabled": ("torch._C", "_get_cudnn_sdp_enabled"),
    "get_flash_sdp_enabled": ("torch._C", "_get_flash_sdp_enabled"),
    "get_math_sdp_enabled": ("torch._C", "_get_math_sdp_enabled"),
    "get_mem_efficient_sdp_enabled": ("torch._C", "_get_mem_efficient_sdp_enabled"),
    "get_function_stack_at": ("torch._C", "_get_function_stack_at"),
    "len_torch_function_stack": ("torch._C", "_len_torch_function_stack"),
    "set_grad_enabled": ("torch._C", "_set_grad_enabled"),
    "DEFAULT_FIRST_BUCKET_BYTES": ("torch._C._distributed_c10d", "_DEFAULT_FIRST_BUCKET_BYTES"),
    "PrefixStore": ("torch._C._distributed_c10d", "PrefixStore"),
    "functorch_in_c": ("torch._C._functorch", ""),
    "is_batchedtensor": ("torch._C._functorch", "is_batchedtensor"),
    "enable_python_dispatcher": ("torch._dispatch.python", "enable_python_dispatcher"),
    "ExplainOutput": ("torch._dynamo.backends.debugging", "ExplainOutput"),
    "DDPOptimizer": ("torch._dynamo.backends.distributed", "DDPOptimizer"),
    "list_registered_backends": ("torch._dynamo.backends.registry", "list_backends"),
    "lookup_backend": ("torch._dynamo.backends.registry", "lookup_backend"),
    "CallbackTrigger": ("torch._dynamo.callback", "CallbackTrigger"),
    "compiled_autograd": ("torch._dynamo.compiled_autograd", ""),
    "dynamo_config": ("torch._dynamo.config", ""),
    "dynamo_decorators": ("torch._dynamo.decorators", ""),
    "mark_unbacked": ("torch._dynamo.decorators", "mark_unbacked"),
    "dynamo_eval_frame": ("torch._dynamo.eval_frame", ""),
    "dynamo_exc": ("torch._dynamo.exc", ""),
    "FailOnRecompileLimitHit": ("torch._dynamo.exc", "FailOnRecompileLimitHit"),
    "InvalidBackend": ("torch._dynamo.exc", "InvalidBackend"),
    "UncapturedHigherOrderOpError": ("torch._dynamo.exc", "UncapturedHigherOrderOpError"),
    "Unsupported": ("torch._dynamo.exc", "Unsupported"),
    "UserError": ("torch._dynamo.exc", "UserError"),
    "UserErrorType": ("torch._dynamo.exc", "UserErrorType"),
    "GraphRegionTracker": ("torch._dynamo.graph_region_tracker", "GraphRegionTracker"),
    "apply_graph_deduplication": ("torch._dynamo.graph_deduplication", "apply_graph_deduplication"),
    "COPY_META_FIELDS": ("torch.fx.proxy", "_COPY_META_FIELDS"),
    "call_module_hooks_from_backward_state": (
        "torch._dynamo.external_utils",
        "call_module_hooks_from_backward_state",
    ),
    "GraphCompileReason": ("torch._dynamo.output_graph", "GraphCompileReason"),
    "dynamo_source": ("torch._dynamo.source", ""),
    "functorch_config": ("torch._functorch.config", ""),
    "maybe_to_fake_obj": ("torch._library.fake_class_registry", "maybe_to_fake_obj"),
    "is_opaque_type": ("torch._library.opaque_object", "is_opaque_type"),
    "is_opaque_value_type": ("torch._library.opaque_object", "is_opaque_value_type"),
    "AttrSource": ("torch._dynamo.source", "AttrSource"),
    "TensorProperty": ("torch._dynamo.source", "TensorProperty"),
    "TensorPropertySource": ("torch._dynamo.source", "TensorPropertySource"),
    "trace_wrapped": ("torch._dynamo._trace_wrapped_higher_order_op", "trace_wrapped"),
    "allowed_callable_ids": ("torch._dynamo.trace_rules", "_allowed_callable_ids"),
    "GuardFilterEntry": ("torch._dynamo.types", "GuardFilterEntry"),
    "CompilationMetrics": ("torch._dynamo.utils", "CompilationMetrics"),
    "clone_inputs": ("torch._dynamo.utils", "clone_inputs"),
    "same": ("torch._dynamo.utils", "same"),
    "get_optimize_ddp_mode": ("torch._dynamo.utils", "get_optimize_ddp_mode"),
    "CompileContext": ("torch._guards", "CompileContext"),
    "CompileId": ("torch._guards", "CompileId"),
    "Guard": ("torch._guards", "Guard"),
    "GuardEnvExpr": ("torch._guards", "GuardEnvExpr"),
    "Source": ("torch._guards", "Source"),
    "StorageOverlap": ("torch._guards", "StorageOverlap"),
    "TracingContext": ("torch._guards", "TracingContext"),
    "compile_context": ("torch._guards", "compile_context"),
    "tracing": ("torch._guards", "tracing"),
    "invoke_subgraph": ("torch._higher_order_ops", "invoke_subgraph"),
    "BaseHOP": ("torch._higher_order_ops.base_hop", "BaseHOP"),
    "cond_op": ("torch._higher_order_ops.cond", "cond_op"),
    "_LeafCallable": ("torch._higher_order_ops.invoke_leaf_function", "_LeafCallable"),
    "make_leaf_function_wrappers": ("torch._higher_order_ops.invoke_leaf_function", "make_leaf_function_wrappers"),
    "map_impl": ("torch._higher_order_ops.map", "map_impl"),
    "scan_op": ("torch._higher_order_ops.scan", "scan_op"),
    "while_loop_op": ("torch._higher_order_ops.while_loop", "while_loop_op"),
    "tag_activation_checkpoint": ("torch._higher_order_ops.wrap", "tag_activation_checkpoint"),
    "wrap": ("torch._higher_order_ops.wrap", "wrap"),
    "inductor_config": ("torch._inductor.config", ""),
    "OPDEFS": ("torch._library.custom_ops", "OPDEFS"),
    "trace_structured": ("torch._logging._internal", "trace_structured"),
    "intern_string": ("torch._logging.structured", "intern_string"),
    "getArtifactLogger": ("torch._logging._internal", "getArtifactLogger"),
    "HigherOrderOperator": ("torch._ops", "HigherOrderOperator"),
    "OpOverload": ("torch._ops", "OpOverload"),
    "OpOverloadPacket": ("torch._ops", "OpOverloadPacket"),
    "FakeTensor": ("torch._subclasses.fake_tensor", "FakeTensor"),
    "FakeTensorMode": ("torch._subclasses.fake_tensor", "FakeTensorMode"),
    "enter_autocast": ("torch.amp.autocast_mode", "_enter_autocast"),
    "exit_autocast": ("torch.amp.autocast_mode", "_exit_autocast"),
    "enter_inference_mode": ("torch.autograd.grad_mode", "_enter_inference_mode"),
    "exit_inference_mode": ("torch.autograd.grad_mode", "_exit_inference_mode"),
    "AsyncCollectiveTensor": ("torch.distributed._functional_collectives", "AsyncCollectiveTensor"),
    "generate_stage_to_rank_mapping": ("torch.distributed.pipelining._utils", "generate_stage_to_rank_mapping"),
    "_LazyGraphModule": ("torch.fx._lazy_graph_module", "_LazyGraphModule"),
    "BackwardState": ("torch.fx.experimental._backward_state", "BackwardState"),
    "DimDynamic": ("torch.fx.experimental.symbolic_shapes", "DimDynamic"),
    "GuardOnDataDependentSymNode": ("torch.fx.experimental.symbolic_shapes", "GuardOnDataDependentSymNode"),
    "ShapeEnv": ("torch.fx.experimental.symbolic_shapes", "ShapeEnv"),
    "StatefulSymbolicContext": ("torch.fx.experimental.symbolic_shapes", "StatefulSymbolicContext"),
    "SubclassSymbolicContext": ("torch.fx.experimental.symbolic_shapes", "SubclassSymbolicContext"),
    "compute_unbacked_bindings": ("torch.fx.experimental.symbolic_shapes", "compute_unbacked_bindings"),
    "free_unbacked_symbols": ("torch.fx.experimental.symbolic_shapes", "free_unbacked_symbols"),
    "ignored_attributes": ("torch.jit._recursive", "ignored_attributes"),
    "python_kernels": ("torch.library", "_impls"),
    "NestedTensor": ("torch.nested._internal.nested_tensor", "NestedTensor"),
    "TorchDispatchMode": ("torch.utils._python_dispatch", "TorchDispatchMode"),
    "get_current_dispatch_mode_stack": ("torch.utils._python_dispatch", "_get_current_dispatch_mode_stack"),
    "is_traceable_wrapper_subclass": ("torch.utils._python_dispatch", "is_traceable_wrapper_subclass"),
    "dtype_abbrs": ("torch.utils._dtype_abbrs", "dtype_abbrs"),
    "tree_structure": ("torch.utils._pytree", "tree_structure"),
    "int_oo": ("torch.utils._sympy.numbers", "int_oo"),
    "torch_numpy": ("torch._numpy", ""),
    "torch_numpy_array": ("torch._numpy._ndarray", "ndarray"),
    "ValueRanges": ("torch.utils._sympy.value_ranges", "ValueRanges"),
}

_DISTRIBUTED = ("torch.distributed.", "torch._C._distributed")  # not in every build of torch

# Modules that are used only if they are imported already.
COMPILER_BISECTOR = "torch._inductor.compiler_bisector"
CORE = "torch._C"
DYNAMO = "torch._dynamo"
DYNAMO_CONFIG = "torch._dynamo.config"
DYNAMO_DECORATORS = "torch._dynamo.decorators"
DYNAMO_EVAL_FRAME = "torch._dynamo.eval_frame"
DYNAMO_EXC = "torch._dynamo.exc"
DYNAMO_FUNCTIONS = "torch._dynamo.variables.functions"
DYNAMO_OUTPUT_GRAPH = "torch._dynamo.output_graph"
DTENSOR_SPEC = "torch.distributed.tensor._dtensor_spec"
AOT_RUNTIME = "torch._functorch._aot_autograd.runtime_wrappers"
FUNCTORCH_CONFIG = "torch._functorch.config"
HIGHER_ORDER = "torch._higher_order_ops"
INDUCTOR_CONFIG = "torch._inductor.config"
REGISTRY = "torch._dynamo.backends.registry"
SYMBOLIC_SHAPES = "torch.fx.experimental.symbolic_shapes"
LOOKED_AT = (
    COMPILER_BISECTOR,
    DYNAMO,
    DYNAMO_CONFIG,
    DYNAMO_DECORATORS,
    DYNAMO_EVAL_FRAME,
    DYNAMO_EXC,
    DYNAMO_FUNCTIONS,
    DYNAMO_OUTPUT_GRAPH,
    DTENSOR_SPEC,
    AOT_RUNTIME,
    FUNCTORCH_CONFIG,
    HIGHER_ORDER,
    INDUCTOR_CONFIG,
    REGISTRY,
    SYMBOLIC_SHAPES,
)

# Messages of exceptions, where PyTorch shows the cause in no other way; tests/e2e/test_messages.py provokes each. An
# assumption about data failed: in a graph's words, and in Inductor's for a number from data.
ASSERTION_FAILED = "Runtime assertion failed"
OUT_OF_BOUNDS = re.compile(r"u\d+ [<>]= -?\d+")

# The attribute of DistributedDataParallel that holds the module whose forward runs, if one does.
ACTIVE_DDP = "_active_ddp_module"

# Arguments of torch.compile about varying sizes, in different versions.
SHAPES_OF_COMPILE = frozenset({"shapes_spec", "dynamic_shapes"})

_VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])

# Whether frames of stack traces in graphs name the line on which they end.
FRAMES_END = _VERSION >= (2, 15)

# By minor version: rows that differ from that version on.
CHANGES: dict[tuple[int, int], dict[str, tuple[str, str]]] = {}


def rows() -> dict[str, tuple[str, str]]:
    """The table for the running torch."""
    known = dict(NAMES)
    for version in sorted(CHANGES):
        if version <= _VERSION:
            known |= CHANGES[version]
    return known


def loaded(module: str) -> ModuleType | None:
    """The module if its import is complete; another thread may still be importing it."""
    found = sys.modules.get(module)
    return None if getattr(getattr(found, "__spec__", None), "_initializing", False) else found


def _found(name: str) -> Any:
    module, attribute = _ROWS[name]
    owner = importlib.import_module(module)
    return getattr(owner, attribute) if attribute else owner


def _exists(module: str) -> bool:
    """Whether the module exists. Packages are not imported; below one that is not, the answer is yes."""
    package = sys.modules.get(module.rpartition(".")[0])
    if module in sys.modules or package is None:
        return True
    return hasattr(package, "__path__") and importlib.util.find_spec(module) is not None


def _resolve() -> list[str]:
    """Looks up the names of loaded modules; returns those that are missing."""
    missing = [module for module in LOOKED_AT if not _exists(module)]
    for name, (module, attribute) in _ROWS.items():
        if module.startswith(_DISTRIBUTED) and not torch.distributed.is_available():
            continue
        if module in sys.modules:
            try:
                globals()[name] = _found(name)
            except AttributeError:
                missing.append(f"{module}.{attribute}")
        elif not _exists(module):
            missing.append(module)
    return sorted(set(missing))


def __getattr__(name: str) -> Any:
    if name not in _ROWS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = _found(name)
    return found


_ROWS = rows()
if _MISSING := _resolve():
    raise ImportError(f"torch {torch.__version__} does not have what gramme names of it: {', '.join(_MISSING)}")
