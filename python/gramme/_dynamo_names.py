"""Functions of torch._dynamo that are gramme's under gramme.install: optimize, optimize_assert, explain, run.

And reset, which drops gramme's captures, too, whoever is installed.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import sys
import types
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ._compile import compile, reset
from ._explain import explain
from ._torch import names

__all__ = ["DynamoNames", "follow_reset"]

_MODULE = names.DYNAMO
# Their keywords that gramme.compile takes, with its names for them.
_KEYWORDS = {
    "nopython": "fullgraph",
    "disable": "disable",
    "dynamic": "dynamic",
    "recompile_limit": "recompile_limit",
    "isolate_recompiles": "isolate_recompiles",
}


class DynamoNames:
    """gramme's functions under PyTorch's names, from the import of torch._dynamo on, until `undo()`."""

    def __init__(self, makers: dict[str, Callable[[Any], Any]] | None = None) -> None:
        self._makers = _MAKERS if makers is None else makers
        self._before: dict[str, Any] = {}
        self._ours: dict[str, Any] = {}
        _when_imported(self._put)

    def _put(self, module: types.ModuleType) -> None:
        self._before = {name: getattr(module, name) for name in self._makers}
        self._ours = {name: self._makers[name](before) for name, before in self._before.items()}
        for name, function in self._ours.items():
            setattr(module, name, function)

    def undo(self) -> None:
        if self._put in _finder.listeners:
            _finder.listeners.remove(self._put)
        for name, before in self._before.items():
            if getattr(sys.modules[_MODULE], name, None) is self._ours[name]:
                setattr(sys.modules[_MODULE], name, before)


class _Finder(importlib.abc.MetaPathFinder):
    """An import finder that reports when torch._dynamo has been imported."""

    def __init__(self) -> None:
        self.listeners: list[Callable[[types.ModuleType], None]] = []

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_tell(module: types.ModuleType) -> None:
            execute(module)
            for tell in self.listeners:
                tell(module)

        spec.loader.exec_module = execute_and_tell  # type: ignore[method-assign]
        return spec


_finder = _Finder()


def _when_imported(tell: Callable[[types.ModuleType], None]) -> None:
    """Calls it now if torch._dynamo is imported, else after its import, which takes more than a second."""
    if _MODULE in sys.modules:
        tell(sys.modules[_MODULE])
        return
    _finder.listeners.append(tell)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def follow_reset() -> None:
    """Makes torch._dynamo.reset() drop gramme's captures as well."""
    _when_imported(_put_reset)


def _put_reset(module: types.ModuleType) -> None:
    original = getattr(module, "reset", None)
    if original is not None and not hasattr(original, "_of_gramme"):
        module.reset = _reset(original)  # type: ignore[attr-defined]


def _asked_by_torch() -> bool:
    """Whether the caller's caller is PyTorch, which compiles to run some of its operators."""
    name = str(sys._getframe(2).f_globals.get("__name__", ""))
    return name == "torch" or name.startswith("torch.")


class _Optimize:
    """The result of optimize(backend), a decorator. As a context manager it acts as PyTorch's: an error by default."""

    def __init__(self, given: dict[str, Any], theirs: Callable[[], Any]) -> None:
        self._given = given
        self._theirs = functools.lru_cache(1)(theirs)

    def __call__(self, function: Any) -> Any:
        return compile(function, **self._given)

    def __enter__(self) -> Any:
        return self._theirs().__enter__()

    def __exit__(self, *error: object) -> Any:
        return self._theirs().__exit__(*error)


def _optimize(original: Callable[..., Any], whole: bool) -> Callable[..., Any]:
    @functools.wraps(original)
    def optimize(*args: Any, **given: Any) -> Any:
        theirs = functools.partial(original, *args, **given)
        rest = dict(given)
        backend = args[0] if args else rest.pop("backend", "inductor")
        asked = {name: value for name, value in rest.items() if name not in _KEYWORDS and value is not None}
        if asked or len(args) > 1 or _asked_by_torch():
            return theirs()
        taken = {_KEYWORDS[name]: value for name, value in rest.items() if name in _KEYWORDS}
        return _Optimize({**taken, "backend": backend, **({"fullgraph": True} if whole else {})}, theirs)

    return optimize


def _explain(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def explained(f: Any, *extra_args: Any, **extra_kwargs: Any) -> Any:
        def inner(*args: Any, **kwargs: Any) -> Any:
            from ._torch.names import ExplainOutput

            found = explain(f)(*args, **kwargs)
            reasons: list[Any] = [*found.break_reasons]
            guards: list[Any] = [f"{guard}\n" for guard in found.out_guards]  # printed one after another
            counts = found.graph_count, len(reasons)
            return ExplainOutput(found.graphs, *counts, reasons, found.op_count, found.ops_per_graph, guards)

        if not extra_args and not extra_kwargs:
            return inner
        told = "explain(f, *args, **kwargs) is deprecated, use explain(f)(*args, **kwargs) instead."
        warnings.warn(told, FutureWarning, stacklevel=2)
        return inner(*extra_args, **extra_kwargs)

    return explained


def _run(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def run(fn: Any = None) -> Any:
        if fn is None or _asked_by_torch():
            return original(fn)

        @functools.wraps(fn)
        def call(*args: Any, **kwargs: Any) -> Any:
            with torch.compiler.set_stance("eager_on_recompile"):
                return fn(*args, **kwargs)

        return call

    return run


def _reset(original: Callable[[], None]) -> Callable[[], None]:
    @functools.wraps(original)
    def reset_both() -> None:
        reset()
        original()

    reset_both._of_gramme = True  # type: ignore[attr-defined]
    return reset_both


_MAKERS: dict[str, Callable[[Any], Any]] = {
    "optimize": functools.partial(_optimize, whole=False),
    "optimize_assert": functools.partial(_optimize, whole=True),
    "explain": _explain,
    "run": _run,
}
