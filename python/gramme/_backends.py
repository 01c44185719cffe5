"""Turns compile's arguments backend, mode and options into a backend."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable
from typing import Any

import torch

from ._graph_module import locate
from ._handover import Backend, Compiler
from ._higher_order import as_they_are
from ._native import Native, native
from ._shared import identity_of
from ._torch import names

__all__ = ["eager", "list_backends", "resolve"]

_OWN = ("eager", "native")
_log = logging.getLogger("gramme")
Options = dict[str, Any] | None


class Eager:
    """The backend that runs the captured graph as it is.

    Attributes:
        exact_numpy: NumPy's calls that compute are NumPy's own in the graph, too, with its bits.

    """

    __name__ = "eager"
    contract = "eager"

    def __init__(self, exact_numpy: bool = False) -> None:
        if not isinstance(exact_numpy, bool):
            raise TypeError(f"options: exact_numpy: expected a bool, got {type(exact_numpy).__name__}")
        self.exact_numpy = exact_numpy

    def __call__(self, graph_module: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        graph_module = as_they_are(graph_module)
        return graph_module.forward

    def locate(self, compiled: Callable[..., Any], error: BaseException) -> int | None:
        """The call of the graph that raised, counted from 0; the traceback then begins below it. Called from C++."""
        return locate(compiled.__self__, error)  # type: ignore[attr-defined]


eager = Eager()


def resolve(
    backend: str | Compiler | None,
    *,
    mode: str | None = None,
    options: Options = None,
    dynamic: bool | None = None,
    name: str | None = None,
) -> Compiler:
    """The backend for graphs, chosen as torch.compile does.

    torch._dynamo and Inductor are imported when a graph is first compiled by them, or when there is a mode, an option
    or a name of their registry to check.

    Raises:
        TypeError: backend is neither a name nor a callable.
        RuntimeError: mode and options are both given; an unknown name, mode or option (torch._dynamo's InvalidBackend
            for the name).

    """
    if dynamic not in (None, True, False):
        raise TypeError(f"dynamic: expected a bool or None, got {type(dynamic).__name__}")
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    chosen = _default() if backend is None else backend
    if not isinstance(chosen, str) and not callable(chosen):
        raise TypeError(f"backend: expected a name or a callable, got {type(chosen).__name__}")
    chosen = _bisected(chosen)
    if options is not None and not isinstance(options, dict):
        raise TypeError(f"options: expected a dict, got {type(options).__name__}")
    wanted = dict(options or {})
    wanted.pop("guard_filter_fn", None)  # of captures
    mode = None if mode == "default" else mode
    if chosen == "inductor":
        return _inductor(mode, wanted, dynamic, name)
    if chosen == "native":
        return _native(mode, wanted)
    if chosen == "eager":
        exact = wanted.pop("exact_numpy", False)
        return _without_options(eager if exact is False else Eager(exact), mode, wanted)
    return _other(chosen, mode, wanted)


def _default() -> str | Compiler:
    """torch.compiler.set_default_backend's choice; there is none unless the registry was imported."""
    registry = names.loaded(names.REGISTRY)
    chosen: str | Compiler = registry.get_default_backend() if registry else "inductor"
    return chosen


def _bisected(backend: str | Compiler) -> str | Compiler:
    """The backend that PyTorch's compiler bisector asks for, if it does."""
    bisector = names.loaded(names.COMPILER_BISECTOR)
    forced: str | None = bisector.CompilerBisector.get_backend() if bisector else None
    return forced or backend


def _inductor(mode: str | None, options: dict[str, Any], dynamic: bool | None, name: str | None) -> Backend:
    ahead = options.pop("use_aoti", False)
    make: Any = names.TorchCompileAOTInductorWrapper if ahead else names.TorchCompileInductorWrapper
    identity = None if ahead else identity_of(make, mode, options | {"dynamic": dynamic})
    if mode or options or ahead:
        return Backend(make(mode, options, dynamic, name), "inductor", True, identity)

    def first(graph_module: torch.fx.GraphModule, example_inputs: list[Any]) -> Any:
        made.compiler = make(None, None, dynamic, name)
        return made.compiler(graph_module, example_inputs)

    first.get_compiler_config = lambda: make(None, None, dynamic, name).get_compiler_config()  # type: ignore[attr-defined]
    made = Backend(first, "inductor", True, identity)
    return made


def _native(mode: str | None, options: dict[str, Any]) -> Compiler:
    known = ("caching_allocator", "recorded_backward", "exact_numpy")
    unknown = sorted(set(options) - set(known))
    if unknown:
        has = ", ".join(f"{name} (bool)" for name in known)
        raise RuntimeError(f"options: the native backend has no option {unknown[0]!r}; it has {has}")
    return _without_options(Native(**options) if options else native, mode, {})


def _without_options(backend: Compiler, mode: str | None, options: dict[str, Any]) -> Compiler:
    """Checks mode and options for a backend that ignores them: they must exist."""
    if mode or options:
        _inductor(mode, dict(options), None, None)
        _log.warning("%s backend ignoring mode %r and options %r", backend.__name__, mode, options)
    return backend


def _other(backend: str | Compiler, mode: str | None, options: dict[str, Any]) -> Backend:
    extra: dict[str, Any] = {}
    if mode:
        extra["mode"] = mode
    if options:
        extra["options"] = options
    compiler = _looked_up(backend) if isinstance(backend, str) else backend
    name = backend if isinstance(backend, str) else getattr(backend, "__name__", type(backend).__name__)
    of_torch = isinstance(backend, str)
    identity = identity_of(compiler, mode, options) if of_torch else None
    if not extra:
        return Backend(compiler, name, of_torch, identity)

    def with_extra(graph_module: torch.fx.GraphModule, example_inputs: list[Any]) -> Any:
        return compiler(graph_module, example_inputs, **extra)

    return Backend(with_extra, name, of_torch, identity)


def _looked_up(name: str) -> Compiler:
    from ._torch.names import InvalidBackend, lookup_backend

    try:
        found: Compiler = lookup_backend(name)
    except InvalidBackend as error:
        alike = difflib.get_close_matches(name, [*_OWN, *_registered(all_of_them=True)], n=3)
        text = f"Invalid backend: {name!r}, see `gramme.list_backends()` for available backends"
        text += f"; did you mean {' or '.join(map(repr, alike))}?" if alike else "."
        error.args = (text,)
        raise
    return found


def _registered(*, all_of_them: bool) -> list[str]:
    from ._torch.names import list_registered_backends as names

    return list(names(exclude_tags=()) if all_of_them else names())


def list_backends() -> list[str]:
    """Names that `compile` takes for its backend: gramme's own and torch.compiler.list_backends'.

    Example:
        >>> import gramme
        >>> {"eager", "inductor", "native"} <= set(gramme.list_backends())
        True

    """
    return sorted({*_OWN, *_registered(all_of_them=False)})
