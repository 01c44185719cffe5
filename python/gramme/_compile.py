"""gramme.compile, with statistics, reset, disable and graph_break."""

from __future__ import annotations

import functools
import types
from collections import defaultdict
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch

from . import _C
from ._backends import resolve
from ._module import OptimizedModule
from ._options import Backend, Options
from ._originals import note
from ._policy import follow_stance
from ._settings import check_settings, compiles_backward, is_switched_off

__all__ = ["Statistics", "compile", "disable", "graph_break", "reset", "statistics"]

Function = TypeVar("Function", bound=Callable[..., Any])
_MOST_RECOMPILES = 2**31 - 1  # what C++ takes; sys.maxsize means no limit


def _recompile_limit(given: int | None) -> int | None:
    """The checked limit; None means torch._dynamo.config's at each capture."""
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int):
        raise TypeError(f"recompile_limit: expected an int, got {type(given).__name__}")
    if given < 0:
        raise ValueError(f"recompile_limit: expected 0 or more, got {given}")
    return min(given, _MOST_RECOMPILES)


def _flag(name: str, given: Any) -> bool:
    """A checked bool; None counts as false, as for torch.compile."""
    if given is None or (isinstance(given, int) and given in (0, 1)):
        return bool(given)
    raise TypeError(f"{name}: expected a bool, got {given!r}")


def _filter(options: dict[str, Any] | None) -> Callable[..., Any] | None:
    """The option guard_filter_fn."""
    found: Callable[..., Any] | None = (options or {}).get("guard_filter_fn")
    if found is not None and not callable(found):
        raise TypeError(f"guard_filter_fn: expected a callable, got {type(found).__name__}")
    return found


def _plain_wrapper(function: Callable[..., Any]) -> types.FunctionType:
    """A Python function around a C function, which has no bytecode of its own."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    call.__name__ = getattr(function, "__name__", "call")
    return cast(types.FunctionType, call)


def _compiled_class(cls: type, options: Options) -> type:
    """The class, with the calls of its instances compiled."""
    name = "_call_impl" if issubclass(cls, torch.nn.Module) else "__call__"
    setattr(cls, name, options.entry(getattr(cls, name)))
    return cls


def compiled_form(callable_: Any, options: Options) -> Any:
    """The compiled form of a function, a method, a module, a class or another callable."""
    if isinstance(callable_, OptimizedModule):
        return compiled_form(callable_._orig_mod, options)
    if isinstance(callable_, torch.jit.ScriptModule):
        raise RuntimeError("model: a scripted module has no Python to capture; compile the module it was made of")
    if isinstance(callable_, torch.nn.Module):
        note(callable_)
        return OptimizedModule(callable_, options)
    if isinstance(callable_, type) and isinstance(getattr(callable_, "__call__", None), types.FunctionType):  # noqa: B004
        return _compiled_class(callable_, options)
    if isinstance(callable_, _C.Entry):
        return compiled_form(callable_.__wrapped__, options)
    if isinstance(callable_, types.FunctionType):
        return options.entry(callable_)
    if isinstance(callable_, types.MethodType) and isinstance(callable_.__func__, types.FunctionType):
        return types.MethodType(options.entry(callable_.__func__), callable_.__self__)
    call = getattr(type(callable_), "__call__", None)  # noqa: B004 - the function itself is wanted
    if isinstance(call, types.FunctionType):
        return types.MethodType(options.entry(call), callable_)
    return options.entry(_plain_wrapper(callable_))


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
        fullgraph: raise CaptureError where an instruction cannot be captured, instead of running it in Python.
        dynamic: True: sizes and ints vary from the first call on; None: those that changed do; False: none does.
        backend: "inductor" or another name of torch.compiler.list_backends, or a callable that takes
            (torch.fx.GraphModule, list of example inputs) and returns a callable taking the same inputs and returning
            a tuple of tensors. None: torch.compiler.set_default_backend's, else "inductor".
        mode, options: of inductor, or passed on to the backend; not both.
        name: a name for logs.
        disable: return the model as it is.
        recompile_limit: captures of one place, after which other calls run uncompiled (eager); None:
            torch._dynamo.config's at each capture, 8.
        isolate_recompiles: take nothing that another compiled function of the same code has captured. Either way
            every compiled function has a count of captures of its own.

    Returns:
        A callable with the model's signature; an OptimizedModule for a module.

    Raises:
        TypeError: model or backend is not callable; a flag is no bool, options are no dict.
        ValueError: recompile_limit is negative.
        RuntimeError: unknown backend, mode or option; both mode and options.

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
    fullgraph, limit = _flag("fullgraph", fullgraph), _recompile_limit(recompile_limit)
    if _flag("disable", disable) or is_switched_off():
        return model
    isolated = _flag("isolate_recompiles", isolate_recompiles)
    check_settings()
    follow_stance()
    chosen = resolve(backend, mode=mode, options=options, dynamic=dynamic, name=name)
    said = Options(
        chosen,
        fullgraph,
        limit,
        dynamic=dynamic,
        guard_filter=_filter(options),
        compiles_backward=compiles_backward(),
        isolated=isolated,
    )
    return compiled_form(model, said)


def compile_with(options: tuple[str, ...], model: types.FunctionType, *values: Any) -> Any:
    """A function that captured code compiled by calling compile; called from C++."""
    return compile(model, **dict(zip(options, values, strict=True)))


class Statistics:
    """What a compiled function did so far.

    Attributes:
        hits: calls answered from the cache without a capture; some of their instructions may have run in Python.
        captures: captures made, of callees that are captured on their own too.
        shared: segments taken from other compiled functions of the same code, in the place of captures.
        segments: segments in the cache.
        plain_runs: calls that CPython ran from the start: of asynchronous generators, while a debugger traces, where
            a capture was refused, gave nothing or met the recompile limit, and after a first graph that raised.
        steps: instructions run in Python between segments.
        handovers: calls that CPython ran to their end from somewhere in their middle.
        graph_errors: graphs that raised.
        recorded_backwards: runs of the cache's graphs, by the native backend, whose backward is a recorded one.

    """

    def __init__(self, counters: dict[str, int]) -> None:
        self.hits = counters["frameless"] + counters["chained"]
        self.captures = counters["captures"]
        self.shared = counters["shared"]
        self.segments = counters["cached"]
        self.plain_runs = counters["plain"]
        self.steps = counters["steps"]
        self.handovers = counters["handovers"]
        self.graph_errors = counters["graph_errors"]
        self.recorded_backwards = counters["recorded_backwards"]

    def __repr__(self) -> str:
        return f"Statistics({', '.join(f'{key}={value}' for key, value in vars(self).items())})"


def entry_of(compiled: Any) -> Any:
    """The C++ entry behind a compiled callable."""
    if isinstance(compiled, OptimizedModule):
        compiled = compiled.__dict__["_gramme_entry"]
    entry = compiled.__func__ if isinstance(compiled, types.MethodType) else compiled
    entry = getattr(entry, "_gramme_entry", entry)
    if not isinstance(entry, _C.Entry):
        raise TypeError(f"compiled: expected what gramme.compile returned, got {type(compiled).__name__}")
    return entry


def statistics(compiled: Any) -> Statistics:
    """Counts of a compiled function; zeros where GRAMME_DISABLE=1 made compile give back what it was given.

    Example:
        >>> import torch, gramme
        >>> f = gramme.compile(lambda x: x + 1, backend="eager")
        >>> _ = f(torch.ones(2)), f(torch.ones(2))
        >>> gramme.statistics(f).captures
        1

    """
    if is_switched_off() and callable(compiled) and not isinstance(compiled, (OptimizedModule, _C.Entry)):
        return Statistics(defaultdict(int))
    return Statistics(_C.counters(entry_of(compiled)))


def reset() -> None:
    """Drops everything captured so far; compiled functions capture anew at their next call."""
    _C.reset()


def disable(function: Function) -> Function:
    """Marks a function to run uncompiled (eager), never captured nor traced into.

    Raises:
        TypeError: function is not callable.

    Example:
        >>> import gramme
        >>> @gramme.disable
        ... def log(x):
        ...     print(x)

    """
    if not callable(function):
        raise TypeError(f"function: expected a callable, got {type(function).__name__}")

    @functools.wraps(function)
    def plain(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    plain._torchdynamo_disable = True  # type: ignore[attr-defined]
    return plain  # type: ignore[return-value]


def graph_break() -> None:
    """Ends the captured graph here; in plain Python it does nothing."""


graph_break.__gramme_graph_break__ = True  # type: ignore[attr-defined]
