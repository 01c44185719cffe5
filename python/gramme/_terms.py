"""Terms: a number for everything beside the program that determines a capture. Entries with equal terms share."""

from __future__ import annotations

import atexit
import itertools
import weakref
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from . import _C
from ._handover import Backend
from ._native import Native
from ._torch import names

if TYPE_CHECKING:
    from ._options import Options

__all__ = ["may_share", "number_of", "settings"]

_CONFIGS = (names.INDUCTOR_CONFIG, names.FUNCTORCH_CONFIG, names.DYNAMO_CONFIG)
_MOST_SETTINGS = 64

_count = itertools.count(1)
_numbers: dict[Hashable, int] = {}
_settings: dict[int, tuple[dict[str, Any], ...]] = {}
_own: dict[int, tuple[weakref.ref[Any], dict[Hashable, int]]] = {}  # by id of a compiler of the program

atexit.register(_C.keep_nothing)
atexit.register(_C.let_threads_drop)


def _of_program(compiler: Any) -> dict[Hashable, int]:
    """Numbers for one compiler of the program, dropped with it; it never shares with another object."""
    known = _own.get(id(compiler))
    if known is None or known[0]() is not compiler:

        def forget(_: Any, key: int = id(compiler), own: Any = _own, drop: Any = _C.forget_terms) -> None:
            for number in own.pop(key)[1].values():
                drop(number)  # at the interpreter's end globals are None

        known = _own[id(compiler)] = (weakref.ref(compiler, forget), {})
    return known[1]


def may_share(options: Options) -> bool:
    """Whether other entries may use captures made with the options, and their backends the graphs."""
    return not (options.isolated or options.keep_graphs or options.guard_filter is not None)


def number_of(options: Options) -> int:
    """Equal for equal options; odd where PyTorch's compilers get the graphs, whose settings count then.

    0: nothing is shared, since guards are left out, graphs are kept or nobody knows.
    """
    if not may_share(options):
        return 0
    backend: Any = options.backend
    numbers = _numbers
    name: Hashable = None
    if isinstance(backend, Native):
        name = (backend.caching_allocator, backend.recorded_backward, backend.is_asked_for_backward)
    elif isinstance(backend, Backend) and backend.identity is not None:
        name = (backend.__name__, backend.identity)
    elif isinstance(backend, Backend) and not backend.of_torch and type(backend.compiler).__weakrefoffset__:
        numbers = _of_program(backend.compiler)
    elif getattr(backend, "contract", "") != "eager":
        return 0
    exact = getattr(backend, "exact_numpy", False)
    key = (name, options.fullgraph, options.dynamic, options.compiles_backward, exact)
    odd = isinstance(backend, Backend) and backend.of_torch
    return numbers.get(key) or numbers.setdefault(key, 2 * next(_count) + odd)


def settings() -> int:
    """A number for the present settings of PyTorch's compilers, equal for equal ones. Called from C++."""
    now = tuple(_changed(names.loaded(name)) for name in _CONFIGS)
    if now not in _settings.values():
        _settings[next(_count)] = now
    if len(_settings) > _MOST_SETTINGS:
        del _settings[min(_settings)]
    return max(number for number, known in _settings.items() if known == now)


def _changed(config: Any) -> dict[str, Any]:
    """The settings that differ from their defaults."""
    if config is None:
        return {}
    changed: dict[str, Any] = config._get_dict(skip_default=True, readonly_values=True)
    return changed
