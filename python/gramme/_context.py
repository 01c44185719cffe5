"""What AOTAutograd and Inductor find around a captured graph and on it.

The graph comes with the real inputs. PyTorch's backends look for a TracingContext (fake mode, ShapeEnv, how each input
may vary), for attributes on the graph module and its placeholders, and for a compile id; without them every dimension
is dynamic, parameters are copied, and caches on disk are bypassed.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch._guards import (
    CompileContext,
    CompileId,
    GuardEnvExpr,
    Source,
    StorageOverlap,
    TracingContext,
    compile_context,
    tracing,
)

from ._graph_module import assign_examples
from ._scalars import narrowed

if TYPE_CHECKING:
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import StatefulSymbolicContext

    from . import _C
    from ._symbols import Symbols

__all__ = ["Context", "handing_over"]

Describe = Callable[[torch.Tensor, Source], "StatefulSymbolicContext"]

_compile_ids = itertools.count()


@contextlib.contextmanager
def handing_over(context: Context) -> Iterator[None]:
    """While a backend compiles."""
    compile_id = CompileId(frame_id=next(_compile_ids), frame_compile_id=0)
    with tracing(context), compile_context(CompileContext(compile_id)):
        try:
            yield
        finally:
            context.release()  # before tracing() looks into it


class Context(TracingContext):
    """A tracing context that is filled when somebody looks into it: compilers that do not pay next to nothing."""

    def __init__(
        self,
        graph_module: torch.fx.GraphModule,
        inputs: Sequence[Any],
        captured: _C.Captured,
        nodes: Sequence[torch.fx.Node] | None = None,
    ) -> None:
        """`nodes` are those of the graph as it was captured, if it has changed since."""
        self._filling: tuple[torch.fx.GraphModule, Sequence[Any], _C.Captured] | None = None
        self._fake_mode: FakeTensorMode | None = None
        super().__init__(None)
        self._nodes = nodes
        self._filling = (graph_module, inputs, captured)
        self._fakes: list[torch.Tensor] = []
        self.sources: list[Source | None] = []
        self.symbols: Symbols | None = None

    def fill(self) -> None:
        if self._filling is None:
            return
        graph_module, inputs, captured = self._filling
        self._filling = None
        fake_mode = _fake_mode()
        self._fake_mode = fake_mode
        nodes = self._nodes or list(graph_module.graph.nodes)
        from ._sources import dynamo_sources

        self.sources = dynamo_sources(*captured.sources())
        if captured.has_symbols:
            from ._symbols import Symbols

            assert fake_mode.shape_env is not None
            self.symbols = Symbols(fake_mode.shape_env, captured, self.sources)
        for index, (node, value, source) in enumerate(zip(nodes, inputs, self.sources, strict=False)):
            node._dynamo_source = source
            if isinstance(value, torch.Tensor):
                node.meta["tensor_dict"] = _static_mark(value, source)
                if source is not None:
                    self._describe(index, value, source)
            elif self.symbols is not None and index in self.symbols.inputs:
                node.meta["example_value"] = self.symbols.inputs[index]
        values = self.symbols.values if self.symbols is not None else []
        for node, example in assign_examples(graph_module, captured.examples(fake_mode, values), nodes):
            node.meta["example_value"] = example
        if captured.has_unbacked:
            self._bind_unbacked(graph_module, inputs)
        if self.symbols is not None:
            for number in narrowed(graph_module.graph):
                self.symbols.specialize_input(nodes.index(number))
        _mark_as_captured(graph_module)

    def _bind_unbacked(self, graph_module: torch.fx.GraphModule, inputs: Sequence[Any]) -> None:
        """What nodes give and bring, where sizes or numbers come out of data; as PyTorch's passes find it."""
        from ._unbacked import propagate

        assert self._fake_mode is not None
        assert self._fake_mode.shape_env is not None
        known = self.symbols.inputs if self.symbols is not None else {}
        values = [known.get(index, value) for index, value in enumerate(inputs)]
        contexts = [self._tensor_to_context.get(v) if isinstance(v, torch.Tensor) else None for v in values]
        propagate(graph_module, self._fake_mode.shape_env, values, contexts, self.sources, forget_items)

    def _describe(self, index: int, tensor: torch.Tensor, source: Source) -> None:
        """How the input may vary."""
        varies = self.symbols is not None and self.symbols.vary(index)
        describe: Describe = partial(self.symbols.context, index) if self.symbols and varies else _all_static
        self._tensor_to_context[tensor] = describe(tensor, source)
        assert self._fake_mode is not None
        self._fakes.extend(_fakes_of_gradient(self._fake_mode, tensor, source, describe))

    def release(self) -> None:
        """Drops the weak references to the inputs, which would keep torch.utils.swap_tensors from working."""
        self._filling = self._nodes = None
        self._fakes.clear()
        self._tensor_to_context.clear()
        if self._fake_mode is not None:
            describer = self._fake_mode.fake_tensor_converter.meta_converter.describer
            describer.lookup_tensor.clear()
            describer.lookup_storage.clear()

    @property
    def read_by_aot(self) -> bool:
        """AOTAutograd has compiled something under this context."""
        return self._params_flat is not None

    def check_guards(self) -> None:
        """Of shapes that do not vary a backend must not have assumed more than them."""
        shapes = self._fake_mode.shape_env if self._fake_mode and self.symbols is None else None
        assumed = [
            *(shapes.guards if shapes else ()),
            *filter(self._is_unknown, self.guards_context.aotautograd_guards),
        ]
        if assumed:
            raise NotImplementedError(f"the backend assumed what gramme does not guard: {assumed[0]}")

    def _is_unknown(self, guard: GuardEnvExpr) -> bool:
        """What AOTAutograd says of memory where sizes vary is true: a written input overlaps no other one.

        Others that do overlap are compared as they are, so the next graph is for their sizes.
        """
        if self.symbols is None or not isinstance(guard, StorageOverlap):
            return True
        if guard.overlapping_sources:
            self.symbols.specialize()
        return False

    # What backends look for first: reading (the flat parameters: writing) it fills the context.

    @property
    def fake_mode(self) -> FakeTensorMode | None:
        self.fill()
        return self._fake_mode

    @fake_mode.setter
    def fake_mode(self, mode: FakeTensorMode | None) -> None:
        self._fake_mode = mode

    @property
    def tensor_to_context(self) -> Any:
        self.fill()
        return self._tensor_to_context

    @tensor_to_context.setter
    def tensor_to_context(self, table: Any) -> None:
        self._tensor_to_context = table

    @property
    def params_flat(self) -> list[Any] | None:
        return self._params_flat

    @params_flat.setter
    def params_flat(self, params: list[Any] | None) -> None:
        self.fill()
        self._params_flat = params


def _fake_mode() -> FakeTensorMode:
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    mode = FakeTensorMode(shape_env=ShapeEnv())
    mode._allow_unsafe_data_ptr_access = False
    forget_items(mode)
    return mode


def forget_items(mode: FakeTensorMode) -> None:
    """An item() of an input is data in the captured graph; the mode would take it for a number that guards know."""
    from torch._subclasses.fake_tensor import FakeTensor

    converter = mode.fake_tensor_converter
    convert = converter.from_real_tensor

    def without_item(*args: Any, **options: Any) -> Any:
        fake = convert(*args, **options)
        if isinstance(fake, FakeTensor):
            fake.item_memo = None
        return fake

    converter.from_real_tensor = without_item  # type: ignore[method-assign]


def _all_static(tensor: torch.Tensor, source: Source) -> StatefulSymbolicContext:
    """No dimension of the tensor, nor of the tensor it is a view of, varies."""
    from torch._dynamo.source import AttrSource
    from torch.fx.experimental.symbolic_shapes import DimDynamic, StatefulSymbolicContext

    count = tensor.dim()
    base = tensor._base if tensor._is_view() else None
    return StatefulSymbolicContext(
        dynamic_sizes=[DimDynamic.STATIC] * count,
        dynamic_strides=[DimDynamic.INFER_STRIDE] * count,
        constraint_sizes=[None] * count,
        constraint_strides=[None] * count,
        view_base_context=None if base is None else _all_static(base, AttrSource(source, "_base")),
        tensor_source=source,
        shape_env_to_source_to_symbol_cache={},
    )


def _fakes_of_gradient(
    mode: FakeTensorMode, tensor: torch.Tensor, source: Source, describe: Describe
) -> Iterator[torch.Tensor]:
    """The gradient of a leaf as `mode` will know it, while somebody holds it.

    Where only one of the two is a view, PyTorch's own fake of the gradient has dimensions that vary.
    """
    from torch._dynamo.source import AttrSource

    gradient = tensor.grad if tensor.is_leaf else None
    if gradient is not None and (tensor._is_view() or gradient._is_view()):
        of_gradient = AttrSource(source, "grad")
        context = describe(gradient, of_gradient)
        yield mode.from_tensor(gradient, source=of_gradient, symbolic_context=context)


def _static_mark(tensor: torch.Tensor, source: Source | None) -> dict[str, str]:
    """Parameters, and tensors that hang off modules, stay where they are in memory from call to call."""
    of_module = source is not None and source.guard_source.is_unspecialized_nn_module()
    marked = getattr(tensor, "_dynamo_static_input_type", None) is not None
    is_static = marked or of_module or isinstance(tensor, torch.nn.Parameter)
    return {"_dynamo_static_input_type": "unguarded"} if is_static else {}


def _mark_as_captured(graph_module: torch.fx.GraphModule) -> None:
    """What tells AOTAutograd that sources are known.

    The order in which the attributes come is part of the cache key.
    """
    attributes = graph_module.__dict__
    attributes["compile_subgraph_reason"] = None
    attributes["_param_name_to_source"] = {}
    attributes["_source_to_user_stacks"] = {}
    compile_id = CompileContext.current_compile_id()
    graph_module.meta.setdefault("dynamo_flat_name_to_original_fqn", {})
    graph_module.meta["dynamo_compile_id"] = compile_id
    graph_module.meta["backend_id"] = f"__compiled_fn_{compile_id}"
