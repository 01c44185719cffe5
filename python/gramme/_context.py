"""The context that AOTAutograd and Inductor expect around a captured graph and on its module.

The graph comes with the real inputs. PyTorch's backends look for a TracingContext (fake mode, ShapeEnv, how each input
may vary), for attributes on the graph module and its placeholders, and for a compile id; without them every dimension
is dynamic, parameters are copied, and caches on disk are bypassed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from ._node_meta import Tree, assign_examples, put_off, put_off_module, stamp, tree_of
from ._scalars import narrowed
from ._torch import names
from ._torch.names import (
    CompileContext,
    CompileId,
    GuardEnvExpr,
    Source,
    StorageOverlap,
    TracingContext,
    compile_context,
    tracing,
)

if TYPE_CHECKING:
    from . import _C
    from ._events import Id
    from ._graph_module import LazyGraphModule
    from ._sources import Row
    from ._symbols import Symbols
    from ._torch.names import FakeTensorMode, StatefulSymbolicContext

__all__ = ["Context", "compile_id_of", "context_of", "handing_over", "name_of", "note_break"]

Describe = Callable[[torch.Tensor, Source], "StatefulSymbolicContext"]


def compile_id_of(numbers: Id) -> CompileId:
    """The id of a capture in logs, compilers and profilers."""
    return CompileId(frame_id=numbers[0], frame_compile_id=numbers[1])


def context_of(captured: _C.Captured) -> CompileContext:
    """In its scope, compiling and logging refer to the graph."""
    frame, number = captured.compile_id
    context = CompileContext(CompileId(frame_id=frame, frame_compile_id=number))
    if captured.attempt:
        context.attempt = 1
    return context


def name_of(compile_id: CompileId | None) -> str:
    """The name of a graph."""
    return f"__compiled_fn_{compile_id}"


@contextlib.contextmanager
def handing_over(context: Context) -> Iterator[None]:
    """The scope in which a backend compiles."""
    with tracing(context), compile_context(context.compiles):
        try:
            yield
        finally:
            context.release()  # before tracing() looks into it


class Context(TracingContext):
    """A tracing context that is filled at its first use, so that it costs other compilers almost nothing.

    So are the nodes' `meta`, by `put_off`, at any time.
    """

    def __init__(
        self,
        graph_module: LazyGraphModule,
        inputs: Sequence[Any],
        captured: _C.Captured,
        nodes: Sequence[torch.fx.Node] | None = None,
    ) -> None:
        """`nodes` are those of the graph as it was captured, if it has changed since."""
        self._filling: _Filling | None = None
        self._fake_mode: FakeTensorMode | None = None
        self._is_open = True
        super().__init__(None)
        self.compiles = context_of(captured)
        self._nodes = nodes
        self._tree: Tree | None = None
        self._is_late = False  # it may be filled after it was released
        self._filling = _Filling(graph_module, inputs, captured)
        self._fakes: list[torch.Tensor] = []
        self.sources: list[Source | None] = []
        self.symbols: Symbols | None = None

    def put_off(self) -> None:
        """Fills the nodes' `meta` at the first look."""
        assert self._filling is not None
        module = self._filling.graph_module
        put_off_module(module, self.fill)
        module.show_nodes(self._show)
        self._is_late = True

    def _show(self) -> None:
        if self._filling is not None:
            put_off(self._of_nodes(), self.fill)

    def _of_nodes(self) -> Tree:
        assert self._filling is not None
        if self._tree is None:
            module = self._filling.graph_module
            self._tree = tree_of(module, self._nodes or module._graph.nodes)
        return self._tree

    def fill(self) -> None:
        if self._filling is None:
            return
        tree, filling = self._of_nodes(), self._filling
        self._filling = None
        graph_module, captured, known = filling.graph_module, filling.captured, filling.known()
        fake_mode = _fake_mode()
        self._fake_mode = fake_mode
        from ._sources import dynamo_sources

        self.sources = dynamo_sources(*known.sources)
        if captured is not None and captured.has_symbols:
            from ._symbols import Symbols

            assert fake_mode.shape_env is not None
            self.symbols = Symbols(fake_mode.shape_env, captured, self.sources)
        for index, (node, source) in enumerate(zip((node for node, _ in tree), self.sources, strict=False)):
            node._dynamo_source = source
            if known.tensors[index]:
                node.meta["tensor_dict"] = _static_mark(known.stay[index], source)
                if source is not None and captured is not None:
                    self._describe(index, filling.inputs[index], source)
            elif self.symbols is not None and index in self.symbols.inputs:
                node.meta["example_value"] = self.symbols.inputs[index]
        values = self.symbols.values if self.symbols is not None else []
        stamp(tree)
        for node, example in assign_examples(tree, known.examples.fakes(fake_mode, values)):
            node.meta["example_value"] = example
        if captured is not None and captured.has_unbacked:
            self._bind_unbacked(graph_module, filling.inputs)
        if self.symbols is not None:
            nodes = [node for node, _ in tree]
            for number in narrowed(graph_module.graph):
                self.symbols.specialize_input(nodes.index(number))
        _mark_as_captured(graph_module, _reason(*known.reason), self.sources, self.compiles.compile_id)

    def _bind_unbacked(self, graph_module: torch.fx.GraphModule, inputs: Sequence[Any]) -> None:
        """Sets nodes' example values and new symbols for PyTorch's passes, where sizes or numbers come from data."""
        from ._unbacked import propagate

        assert self._fake_mode is not None
        assert self._fake_mode.shape_env is not None
        known = self.symbols.inputs if self.symbols is not None else {}
        values = [known.get(index, value) for index, value in enumerate(inputs)]
        contexts = [self._tensor_to_context.get(v) if isinstance(v, torch.Tensor) else None for v in values]
        propagate(graph_module, self._fake_mode.shape_env, values, contexts, self.sources, forget_items)

    def _describe(self, index: int, tensor: torch.Tensor, source: Source) -> None:
        """Describes how an input may vary."""
        from ._symbols import all_static

        varies = self.symbols is not None and self.symbols.vary(index)
        describe: Describe = partial(self.symbols.context, index) if self.symbols and varies else all_static
        assert self._fake_mode is not None
        base = tensor._base if tensor._is_view() else None
        if base is not None and base.is_nested and (not tensor.is_nested or base.layout == torch.strided):
            self._fakes.append(_fake_without_base(self._fake_mode, tensor, source, describe))
            return
        self._tensor_to_context[tensor] = describe(tensor, source)
        self._fakes.extend(_fakes_of_gradient(self._fake_mode, tensor, source, describe))

    def release(self) -> None:
        """Drops the inputs, and the weak references to them, which would keep torch.utils.swap_tensors from working."""
        self._is_open = False
        if self._filling is not None and self._is_late:
            self._filling.close()
        else:
            self._filling = None
        self._nodes = None
        self._fakes.clear()
        self._tensor_to_context.clear()
        if self._fake_mode is not None:
            describer = self._fake_mode.fake_tensor_converter.meta_converter.describer
            describer.lookup_tensor.clear()
            describer.lookup_storage.clear()

    @property
    def read_by_aot(self) -> bool:
        """True if AOTAutograd has compiled something under this context."""
        return self._params_flat is not None

    def check_guards(self) -> None:
        """Checks that a backend assumed nothing beyond the fixed shapes."""
        shapes = self._fake_mode.shape_env if self._fake_mode and self.symbols is None else None
        assumed = [
            *(shapes.guards if shapes else ()),
            *filter(self._is_unknown, self.guards_context.aotautograd_guards),
        ]
        if assumed:
            raise NotImplementedError(f"the backend assumed what gramme does not guard: {assumed[0]}")

    def _is_unknown(self, guard: GuardEnvExpr) -> bool:
        """Whether gramme does not guard it. With varying sizes, AOTAutograd's guards on overlapping memory are guarded.

        Written inputs overlap no other; for others that overlap, the next graph is specialised on their sizes.
        """
        if self.symbols is None or not isinstance(guard, StorageOverlap):
            return True
        if guard.overlapping_sources:
            self.symbols.specialize()
        return False

    # What backends look for first: reading (the flat parameters: writing) it fills the context.

    @property
    def fake_mode(self) -> FakeTensorMode | None:
        if self._is_open:
            self.fill()
        return self._fake_mode

    @fake_mode.setter
    def fake_mode(self, mode: FakeTensorMode | None) -> None:
        self._fake_mode = mode

    @property
    def tensor_to_context(self) -> Any:
        if self._is_open:
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
        if self._is_open:
            self.fill()
        self._params_flat = params


def _fake_mode() -> FakeTensorMode:
    from ._torch.names import FakeTensorMode, ShapeEnv

    mode = FakeTensorMode(shape_env=ShapeEnv())
    mode._allow_unsafe_data_ptr_access = False
    forget_items(mode)
    return mode


def forget_items(mode: FakeTensorMode) -> None:
    """Forgets an input's memoized item(), data in the captured graph: the mode would take it for a guarded number."""
    from ._torch.names import FakeTensor

    converter = mode.fake_tensor_converter
    convert = converter.from_real_tensor

    def without_item(*args: Any, **options: Any) -> Any:
        fake = convert(*args, **options)
        if isinstance(fake, FakeTensor):
            fake.item_memo = None
        return fake

    converter.from_real_tensor = without_item  # type: ignore[method-assign]


def _fake_without_base(mode: FakeTensorMode, tensor: torch.Tensor, source: Source, describe: Describe) -> torch.Tensor:
    """The fake of what views a nested tensor. PyTorch would make it by the view, for which it needs the lengths."""
    alone = tensor.detach().requires_grad_(tensor.requires_grad)
    fake = mode.from_tensor(alone, symbolic_context=describe(alone, source), source=source)
    mode.fake_tensor_converter.set_tensor_memo(tensor, fake)
    return fake


def _fakes_of_gradient(
    mode: FakeTensorMode, tensor: torch.Tensor, source: Source, describe: Describe
) -> Iterator[torch.Tensor]:
    """Makes the fake of a leaf's gradient under `mode`, to be held while it is needed.

    Where only one of the two is a view, PyTorch's own fake of the gradient has dimensions that vary.
    """
    from ._torch.names import AttrSource

    gradient = tensor.grad if tensor.is_leaf else None
    if gradient is not None and (tensor._is_view() or gradient._is_view()):
        of_gradient = AttrSource(source, "grad")
        context = describe(gradient, of_gradient)
        yield mode.from_tensor(gradient, source=of_gradient, symbolic_context=context)


def _static_mark(stays: bool, source: Source | None) -> dict[str, str]:
    """The mark of inputs whose memory stays in place between calls: parameters and tensors of modules."""
    of_module = source is not None and source.guard_source.is_unspecialized_nn_module()
    return {"_dynamo_static_input_type": "unguarded"} if stays or of_module else {}


class _Known(NamedTuple):
    """Facts for the nodes' `meta`, which may be asked for after the backend has returned."""

    sources: tuple[list[Row], list[int]]
    examples: _C.Examples
    reason: tuple[str | None, str, int, str]
    tensors: list[bool]  # by input: whether it is one
    stay: list[bool]  # by input: whether its memory stays in place


@dataclasses.dataclass(slots=True)
class _Filling:
    """The sources for filling a context; without the inputs once it is closed."""

    graph_module: LazyGraphModule
    inputs: Sequence[Any]
    captured: _C.Captured | None
    kept: _Known | None = None

    def known(self) -> _Known:
        if self.kept is not None:
            return self.kept
        assert self.captured is not None
        tensors = [isinstance(value, torch.Tensor) for value in self.inputs]
        stay = [_stays(value) for value in self.inputs]
        return _Known(self.captured.sources(), self.captured.examples(), self.captured.reason(), tensors, stay)

    def close(self) -> None:
        self.kept = self.known()
        self.inputs, self.captured = (), None


def _stays(value: Any) -> bool:
    return isinstance(value, torch.nn.Parameter) or getattr(value, "_dynamo_static_input_type", None) is not None


_OF_MODULES = re.compile(r"L\['(\w+)'\]((?:\._(?:modules|parameters|buffers)\['[^']+'\])+)")
_KEY = re.compile(r"\['([^']+)'\]")


def _original_names(sources: Sequence[Source | None]) -> dict[str, str]:
    """Maps PyTorch's flat names to names of parameters and buffers in the function's module."""
    names = {}
    for source in sources:
        found = _OF_MODULES.fullmatch(source.name) if source is not None else None
        if found:
            original = ".".join(_KEY.findall(found[2]))
            names[re.sub(r"[^a-zA-Z0-9]", "_", f"L['{found[1]}'].{original}")] = original
    return names


def _named_parts(sources: Sequence[Source | None]) -> Iterator[tuple[str, Source]]:
    """Names of parameters and buffers among the inputs, in the module's own form: "module.path.weight"."""
    for source in sources:
        found = _OF_MODULES.fullmatch(source.name) if source is not None else None
        if source is not None and found:
            yield ".".join([found[1], *_KEY.findall(found[2])]), source


def _mark_as_captured(
    graph_module: torch.fx.GraphModule, reason: Any, sources: Sequence[Source | None], compile_id: CompileId | None
) -> None:
    """Sets the attributes by which AOTAutograd knows that sources are given.

    The order in which the attributes come is part of the cache key.
    """
    attributes = graph_module.__dict__
    attributes["compile_subgraph_reason"] = reason
    attributes["_param_name_to_source"] = dict(_named_parts(sources))
    attributes["_source_to_user_stacks"] = {}
    graph_module.meta.setdefault("dynamo_flat_name_to_original_fqn", _original_names(sources))
    graph_module.meta["dynamo_compile_id"] = compile_id
    graph_module.meta["backend_id"] = name_of(compile_id)


def _stack(file: str, line: int, function: str) -> list[traceback.FrameSummary]:
    """The user's stack for a reason: its innermost frame."""
    return [traceback.FrameSummary(file, line, function, lookup_line=False)] if file else []


def _reason(text: str | None, file: str, line: int, function: str) -> Any:
    """Why the graph ends where it does."""
    from ._torch.names import GraphCompileReason

    reason = GraphCompileReason(text or "return_value", _stack(file, line, function), graph_break=False)
    reason.graph_break = text is not None  # note_break() has noted it
    return reason


def note_break(reason: str, file: str, line: int, function: str) -> None:
    """Adds to torch._dynamo.graph_break_reasons, once somebody has imported it. Called from C++."""
    module = names.loaded(names.DYNAMO_OUTPUT_GRAPH)
    if module is not None:
        module.GraphCompileReason(reason, _stack(file, line, function))
