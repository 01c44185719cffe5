"""gramme.compile and what belongs to it."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch

from . import _C

__all__ = ["Statistics", "compile", "disable", "graph_break", "reset", "statistics"]

Function = TypeVar("Function", bound=Callable[..., Any])
Backend = Callable[..., Any]
_DEFAULT_RECOMPILE_LIMIT = 8


def _eager(graph: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """The backend that runs the captured graph as it is."""
    return graph.forward


def _resolve_backend(backend: str | Backend | None) -> Backend:
    if backend is None:
        raise NotImplementedError("backend=None (inductor) is not supported yet: pass backend='eager' or a callable")
    if callable(backend):
        return backend
    if not isinstance(backend, str):
        raise TypeError(f"backend: expected a name or a callable, got {type(backend).__name__}")
    if backend == "eager":
        return _eager
    known = torch.compiler.list_backends(())
    if backend in known:
        raise NotImplementedError(f"backend={backend!r} is not supported yet: pass backend='eager' or a callable")
    raise ValueError(
        f"backend={backend!r} is unknown; 'eager', a callable taking (graph_module, example_inputs), or one of {known}"
    )


def _check_options(
    dynamic: bool | None, mode: str | None, options: dict[str, Any] | None, isolate_recompiles: bool
) -> None:
    if dynamic:
        raise NotImplementedError("dynamic=True is not supported yet: shapes are captured as they are")
    if mode not in (None, "default"):
        raise NotImplementedError(f"mode={mode!r} is not supported yet: leave it out")
    if options:
        raise NotImplementedError(f"options: unknown option {next(iter(options))!r}; none is supported yet")
    if isolate_recompiles:
        raise NotImplementedError(
            "isolate_recompiles=True is not supported yet; every compiled function has a cache of its own already"
        )


def _recompile_limit(given: int | None) -> int:
    if given is not None:
        if isinstance(given, bool) or not isinstance(given, int):
            raise TypeError(f"recompile_limit: expected an int, got {type(given).__name__}")
        return given
    dynamo = sys.modules.get("torch._dynamo.config")
    return int(getattr(dynamo, "recompile_limit", _DEFAULT_RECOMPILE_LIMIT))


def _plain_wrapper(function: Callable[..., Any]) -> types.FunctionType:
    """A Python function around a C function, which has no bytecode of its own."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    call.__name__ = getattr(function, "__name__", "call")
    return cast(types.FunctionType, call)


def _entry(function: Any, backend: Backend, fullgraph: bool, limit: int, keep_graphs: bool) -> Any:
    """The compiled form of a function, a method, a module or another callable."""
    make = functools.partial(
        _C.make_entry, backend=backend, fullgraph=fullgraph, recompile_limit=limit, keep_graphs=keep_graphs
    )
    if isinstance(function, types.FunctionType):
        return make(function)
    if isinstance(function, types.MethodType) and isinstance(function.__func__, types.FunctionType):
        return types.MethodType(make(function.__func__), function.__self__)
    call = getattr(type(function), "__call__", None)  # noqa: B004 - the function itself is wanted
    if isinstance(call, types.FunctionType) and not isinstance(function, type):
        return types.MethodType(make(call), function)
    return make(_plain_wrapper(function))


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Backend | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
) -> Any:
    """Capture a function's tensor operations at its first call, and answer later calls from a cache; as torch.compile.

    Args:
        model: a function, method or callable object; without it, a decorator is returned.
        fullgraph: raise CaptureError instead of running an instruction for real.
        dynamic: None or False; True is not supported yet.
        backend: "eager", or a callable that takes (torch.fx.GraphModule, list of example inputs) and returns a callable
            taking the same inputs and returning a tuple of tensors.
        mode, options: not supported yet.
        name: a name for logs.
        disable: return the model as it is.
        recompile_limit: captures for one place before it runs plainly; torch's default, 8.
        isolate_recompiles: not supported yet.

    Returns:
        A callable with the model's signature.

    Raises:
        TypeError: model or backend is not callable.
        ValueError: unknown backend.
        NotImplementedError: an option that is not supported yet.

    Example:
        >>> import torch, gramme
        >>> @gramme.compile(backend="eager")
        ... def f(x):
        ...     return x * 2 + 1
        >>> f(torch.ones(2))
        tensor([3., 3.])

    """
    if model is None:
        given: dict[str, Any] = {
            "fullgraph": fullgraph,
            "dynamic": dynamic,
            "backend": backend,
            "mode": mode,
            "options": options,
            "name": name,
            "disable": disable,
            "recompile_limit": recompile_limit,
            "isolate_recompiles": isolate_recompiles,
        }
        return lambda function: compile(function, **given)
    if not callable(model):
        raise TypeError(f"model: expected a callable, got {type(model).__name__}")
    if disable:
        return model
    _check_options(dynamic, mode, options, isolate_recompiles)
    return _entry(model, _resolve_backend(backend), fullgraph, _recompile_limit(recompile_limit), False)


class Statistics:
    """What a compiled function did so far.

    Attributes:
        hits: calls answered from the cache, without a capture.
        captures: captures made, of callees that are captured on their own too.
        segments: segments in the cache.
        plain_runs: calls that ran plainly from the start.
        steps: instructions carried out for real between segments.

    """

    def __init__(self, counters: dict[str, int]) -> None:
        self.hits = counters["frameless"] + counters["chained"]
        self.captures = counters["captures"]
        self.segments = counters["cached"]
        self.plain_runs = counters["plain"]
        self.steps = counters["steps"]

    def __repr__(self) -> str:
        return f"Statistics({', '.join(f'{key}={value}' for key, value in vars(self).items())})"


def entry_of(compiled: Any) -> Any:
    """The C++ entry behind a compiled callable."""
    entry = compiled.__func__ if isinstance(compiled, types.MethodType) else compiled
    if not isinstance(entry, _C.Entry):
        raise TypeError(f"compiled: expected what gramme.compile returned, got {type(compiled).__name__}")
    return entry


def statistics(compiled: Any) -> Statistics:
    """Counts of a compiled function.

    Example:
        >>> import torch, gramme
        >>> f = gramme.compile(lambda x: x + 1, backend="eager")
        >>> _ = f(torch.ones(2)), f(torch.ones(2))
        >>> gramme.statistics(f).captures
        1

    """
    return Statistics(_C.counters(entry_of(compiled)))


def reset() -> None:
    """Drops everything captured so far; compiled functions capture anew at their next call."""
    _C.reset()


def disable(function: Function) -> Function:
    """Marks a function to run plainly, never captured nor traced into.

    Example:
        >>> import gramme
        >>> @gramme.disable
        ... def log(x):
        ...     print(x)

    """

    @functools.wraps(function)
    def plain(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    plain._torchdynamo_disable = True  # type: ignore[attr-defined]
    return plain  # type: ignore[return-value]


def graph_break() -> None:
    """Ends the captured graph here; in plain Python it does nothing."""


graph_break.__gramme_graph_break__ = True  # type: ignore[attr-defined]
