"""Hands a captured graph to a backend, and interprets its failures."""

from __future__ import annotations

import contextlib
import copy
import logging
import sys
import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from . import _C, _lazy_backward
from ._buckets import are_wanted as buckets_are_wanted
from ._buckets import by_buckets
from ._context import Context, handing_over
from ._conventions import Modes, each_its_own, is_unfit, watching
from ._hooks import with_backward_state
from ._meshes import has_meshes, with_meshes
from ._originals import keep_metadata
from ._progress import compiling
from ._regions import share_regions
from ._shared import as_results, compiled_before, remember, spelling
from ._torch import names
from .errors import BackendError, refused_graph

if TYPE_CHECKING:
    from ._graph_module import LazyGraphModule

__all__ = ["Backend", "Finalizers", "failure", "not_reproduced", "wrong_outputs"]

Compiler = Callable[..., Any]
_BY_AOT = {"inductor", "aot_eager", "aot_eager_decomp_partition", "aot_eager_default_partitioner"}
_log = logging.getLogger("gramme")


class Backend:
    """A compiler of graphs and how to hand graphs to it.

    Attributes:
        compiler: takes (graph module, example inputs), gives the callable that runs the graph.
        of_torch: one of PyTorch's registry, which will look at all that is handed over. Others may; they find it then.
        hands_over: tells the C++ side to call with the captured graph.
        contract: what captures count on, a row of src/trace/contract.def.
        identity: tells it from other compilers, if equal graphs may have what it made of one.

    """

    hands_over = True
    contract = "compiler"

    def __init__(self, compiler: Compiler, name: str, of_torch: bool, identity: Hashable | None = None) -> None:
        self.compiler = compiler
        self.identity = identity
        self.of_torch = of_torch
        self.__name__ = name

    def __call__(self, graph_module: LazyGraphModule, inputs: list[Any], captured: _C.Captured) -> Any:
        """The compiled graph; NotImplemented if some numbers must be constants, as recorded in `captured`."""
        names, places = captured.names_read_later(), captured.places_read_later()
        run = self._compiled(graph_module, inputs, captured)
        return watching(run, names, *places) if (names or any(places)) and callable(run) else run

    def _compiled(self, graph_module: LazyGraphModule, inputs: list[Any], captured: _C.Captured) -> Any:
        captured.restart()
        if self.of_torch and captured.has_numbers:
            return NotImplemented
        as_captured = graph_module.forward
        modes = Modes(graph_module, peel=self.of_torch)
        unfit = is_unfit(graph_module.graph) or captured.has_aliased_writes
        unfit = unfit or (modes.outer and _would_save_written(inputs, captured))
        if self.of_torch and unfit:
            return modes.around(as_captured)
        distinct = each_its_own(graph_module.graph)
        if self.identity is not None and not captured.has_symbols and not captured.writes_inputs:
            inputs = as_results(graph_module.graph, inputs)
        context = Context(graph_module, inputs, captured, modes.nodes)
        keep_metadata(graph_module)
        with handing_over(context), modes.entered():
            if self.of_torch or captured.has_symbols:
                context.fill()
            else:
                context.put_off()
            if context.symbols is not None:
                inputs = [context.symbols.inputs.get(i, value) for i, value in enumerate(inputs)]
            if captured.has_constants:
                return NotImplemented
            if captured.shares_regions and not (unfit or captured.has_symbols or captured.writes_inputs):
                share_regions(graph_module, by_aot=self.of_torch and self.__name__ in _BY_AOT)
            kept = self._freeze(graph_module, inputs, captured, context)
            bucketed = buckets_are_wanted()
            shared = kept is None and context.symbols is None and not bucketed
            key = spelling(self.identity, graph_module, inputs) if shared else None
            before = compiled_before(key)
            if before is not None:
                return modes.around(distinct(before))
            given = inputs if kept is None else [inputs[i] for i in kept]
            if self.of_torch:
                with compiling(self.__name__, context.compiles.compile_id):
                    compiled = self._checked(graph_module, given, bucketed)
            else:
                compiled = self._checked(graph_module, given, bucketed)
        if not callable(compiled):
            return compiled
        if context.read_by_aot:
            if captured.has_numbers:
                return NotImplemented
            if unfit:
                return modes.around(as_captured)
            context.check_guards()
            _lazy_backward.watch()
            remember(key, compiled)
            compiled = distinct(compiled)
        if context.symbols is not None:
            context.symbols.read_back()
            if captured.has_constants:
                return NotImplemented
        return modes.around(compiled if kept is None else _without_frozen(compiled, kept))

    def _freeze(
        self, graph_module: torch.fx.GraphModule, inputs: list[Any], captured: _C.Captured, context: Context
    ) -> list[int] | None:
        if not self.of_torch or torch.is_grad_enabled() or not _freezing(self.compiler):
            return None
        return _freeze_static_inputs(graph_module, inputs, captured, context)

    def _checked(self, graph_module: LazyGraphModule, inputs: list[Any], bucketed: bool) -> Any:
        config = names.loaded(names.DYNAMO_CONFIG)
        compiler = by_buckets(self.compiler) if bucketed else self.compiler
        if has_meshes(graph_module, self.compiler):
            compiler = partial(with_meshes, compiler)
        if not getattr(config, "verify_correctness", False):
            return with_backward_state(compiler, graph_module, inputs)
        reference = copy.deepcopy(graph_module)
        compiled = with_backward_state(compiler, graph_module, inputs)
        _verify(self.__name__, reference, compiled, inputs)
        return compiled


class Finalizers:
    """In the scope of a backend's work, keeps interruptions raised in finalizers, which Python would only print.

    Called from C++.
    """

    def __init__(self) -> None:
        self._before = sys.unraisablehook
        self._kept: BaseException | None = None
        sys.unraisablehook = self

    def __call__(self, unraisable: sys.UnraisableHookArgs) -> None:
        if unraisable.exc_value is not None and _C.interrupts(unraisable.exc_value):
            self._kept = unraisable.exc_value
        else:
            self._before(unraisable)

    def close(self) -> BaseException | None:
        """Ends the scope; returns the exception to raise, if any."""
        if sys.unraisablehook is self:
            sys.unraisablehook = self._before
        return self._kept


def _would_save_written(inputs: list[Any], captured: _C.Captured) -> bool:
    """Whether AOTAutograd may save a written input's later content for backward.

    Backward would then recompute from it what the graph computed from the content before.
    """
    needed = any(isinstance(v, torch.Tensor) and v.requires_grad for v in inputs)
    return needed and captured.uses_what_it_writes and captured.records_gradients


# Freezing: parameters become part of the compiled code.


def _freezing(compiler: Compiler) -> bool:
    patches = getattr(compiler, "config", None)
    if isinstance(patches, dict) and "freezing" in patches:
        return bool(patches["freezing"])
    return bool(names.inductor_config.freezing)


def _freeze_static_inputs(
    graph_module: torch.fx.GraphModule, inputs: Sequence[Any], captured: _C.Captured, context: Context
) -> list[int]:
    """Makes static inputs attributes of the module; returns the indices of the other inputs."""
    graph, kept = graph_module.graph, []
    for index, (node, value) in enumerate(zip(list(graph.nodes), inputs, strict=False)):
        if not node.meta.get("tensor_dict"):
            kept.append(index)
            continue
        name = node.target
        if isinstance(value, torch.nn.Parameter):
            graph_module.register_parameter(name, value)
        else:
            graph_module.register_buffer(name, value)
        with graph.inserting_before(node):
            attribute = graph.get_attr(name)
        attribute.meta.update(node.meta)
        node.replace_all_uses_with(attribute)
        graph.erase_node(node)
        graph_module.__dict__["_param_name_to_source"][name] = context.sources[index]
        captured.freeze(index)
    graph_module.recompile()
    return kept


def _without_frozen(compiled: Callable[..., Any], kept: list[int]) -> Callable[..., Any]:
    def call(*inputs: Any) -> Any:
        return compiled(*[inputs[i] for i in kept])

    return call


# Checking and failing.


def _verify(name: str, reference: torch.fx.GraphModule, compiled: Callable[..., Any], inputs: list[Any]) -> None:
    """torch._dynamo.config.verify_correctness: compares the compiled graph's results with the captured one's."""
    from ._torch.names import clone_inputs, same

    numbers = [value.node.hint if isinstance(value, torch.SymInt) else value for value in inputs]
    with _random_state():
        expected = reference(*clone_inputs(numbers))
    with _random_state():
        actual = compiled(*clone_inputs(numbers))
    if not same(expected, tuple(actual)):
        raise RuntimeError(f"incorrect results of backend {name}")


@contextlib.contextmanager
def _random_state() -> Iterator[None]:
    with torch.random.fork_rng():
        yield


def failure(
    backend: Any, error: Exception, graph_module: torch.fx.GraphModule, may_run_uncompiled: bool
) -> Exception | None:
    """The exception to raise for a backend's exception; None to run the program uncompiled. Called from C++.

    An IndexError (an operator's dimension out of range) and torch._dynamo's own errors are raised unchanged. PyTorch's
    exceptions with which a backend declines a graph run the program uncompiled.
    """
    if isinstance(error, NotImplementedError) and error.__traceback__ and _raised_here(error):
        return error
    from ._torch.names import dynamo_config as config
    from ._torch.names import dynamo_exc as exc

    name = _name(backend)
    if isinstance(error, exc.SkipFrame):
        text = f"fullgraph=True found no compiled frames: backend {name!r} asked for the frame to be skipped: {error}"
        return None if may_run_uncompiled else RuntimeError(text)
    if isinstance(error, exc.exceptions_allowed_to_be_fallback) and not _has_allowed(graph_module):
        text = f"backend {name!r} takes no such graph: {type(error).__name__}: {error}"
        if not may_run_uncompiled:
            return refused_graph(text, graph_module)
        _log.warning("%s. The program runs uncompiled (eager).", text)
        return None
    if isinstance(error, (IndexError, exc.ShortenTraceback)) and not (config.suppress_errors and may_run_uncompiled):
        return error
    failed = exc.BackendCompilerFailed(backend, error, None)
    failed.args = (f"{failed.args[0]}\nThe graph is in {_save(graph_module, failed.backend_name, error)}",)
    failed.__cause__ = error
    if config.suppress_errors and may_run_uncompiled:
        warnings.warn(f"{failed.args[0]}\nThe program runs uncompiled (suppress_errors).", RuntimeWarning, stacklevel=2)
        return None
    return failed


def _has_allowed(graph_module: torch.fx.GraphModule) -> bool:
    """Whether the graph calls a function that the program allowed in graphs, which may raise anything."""
    allowed = names.allowed_callable_ids
    return any(node.op == "call_function" and id(node.target) in allowed for node in graph_module.graph.nodes)


def not_reproduced(backend: Any, error: BaseException) -> Exception | None:
    """The exception for a graph's exception that the uncompiled program did not raise. Called from C++."""
    name = _name(backend)
    if str(error).startswith(names.ASSERTION_FAILED) or names.OUT_OF_BOUNDS.fullmatch(str(error)):
        return None  # an assumption failed that the program does not depend on, or whose failure it handles
    message = f"the compiled graph raised {type(error).__name__}, which the program itself does not raise: {error}"
    config = names.loaded(names.DYNAMO_CONFIG)
    if getattr(config, "suppress_errors", False):
        text = f"backend {name!r}: {message}\nThe program ran uncompiled (suppress_errors)."
        warnings.warn(text, RuntimeWarning, stacklevel=2)
        return None
    failed = BackendError(name, message)
    failed.__cause__ = error
    failed.add_note("The program ran uncompiled instead: its effects took place, its result is lost.")
    return failed


def wrong_outputs(backend: Any, wanted: int, given: int) -> Exception:
    """The exception for a graph with a wrong number of outputs. Called from C++."""
    what = f"{given} outputs" if given >= 0 else "no tuple or list"
    return BackendError(_name(backend), f"the compiled graph gave {what}, its graph has {wanted} outputs")


def _name(backend: Any) -> str:
    return str(getattr(backend, "__name__", type(backend).__name__))


def _raised_here(error: Exception) -> bool:
    """Whether the exception was raised here, not by the compiler."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback is not None and traceback.tb_frame.f_globals.get("__name__") == __name__


def _save(graph_module: torch.fx.GraphModule, name: str, error: Exception) -> str:
    """Writes the graph to a file for the user; returns its path, or why there is none."""
    from ._repro import save_graph

    try:
        return save_graph(graph_module, name, error)
    except Exception as problem:
        return f"no file: {type(problem).__name__}: {problem}"
