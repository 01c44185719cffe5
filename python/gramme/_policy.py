"""Settings of PyTorch for captures: torch.compiler.set_stance and lists in torch.compiler.config."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable
from typing import Any

import torch

from . import _C
from ._torch import names
from .errors import CaptureError

__all__ = [
    "all_hit",
    "compiled_backward",
    "follow_stance",
    "forced",
    "named_sources",
    "numbers",
    "rehearsal",
    "substitute_of",
    "substituted",
]


def named_sources(text: str) -> list[tuple[re.Pattern[str], int | None]]:
    """The entries of a comma-separated list of sources: a name or a regex, and the dimension of a suffix ":1"."""
    rows: list[tuple[re.Pattern[str], int | None]] = []
    for entry in filter(None, text.replace(" ", "").split(",")):
        parts = re.fullmatch(r"(.*?)(?::(\d+))?", entry)
        assert parts is not None
        pattern, dim = parts.groups()
        rows.append((re.compile(rf"{re.escape(pattern)}\Z|(?:{pattern})"), None if dim is None else int(dim)))
    return rows


def numbers(text: str) -> list[int]:
    """The entries of a comma-separated list of whole numbers."""
    return [int(entry) for entry in text.split(",") if entry.strip()]


def _substitutes() -> dict[Any, Any]:
    """Maps functions to the holders of their substitutes, without PyTorch's own, which are for its front end."""
    module: Any = names.loaded(names.DYNAMO_FUNCTIONS)
    known = {} if module is None else module.PolyfilledFunctionVariable._get_polyfill_handlers()
    return {f: known[f] for f in list(known) if not (_substitute(known[f]).__module__ or "").startswith("torch.")}


def _substitute(registered: Any) -> Any:
    return registered.__torch_dynamo_polyfill__


def substituted() -> list[Any]:
    """Functions with a substitute by torch.compiler.substitute_in_graph. Called from C++."""
    return list(_substitutes())


def substitute_of(function: Any) -> Any:
    """The substitute to trace for a function of substituted(). Called from C++."""
    found = _substitutes().get(function)
    return None if found is None else _substitute(found)


def follow_stance() -> None:
    """Makes torch.compiler.set_stance take effect, without importing PyTorch's front end; guard collectives, too."""
    _follow_guard_collectives()
    decorators: Any = names.loaded(names.DYNAMO_DECORATORS)
    if decorators is not None:
        _follow(decorators)
    elif not hasattr(torch.compiler.set_stance, "_of_gramme"):
        torch.compiler.set_stance = _watched(torch.compiler.set_stance)


def all_hit(hit: bool) -> bool:
    """Whether a segment fits in every process of the group (torch.compiler.set_enable_guard_collectives); from C++."""
    from ._torch.names import dynamo_eval_frame as eval_frame

    return eval_frame.guard_collectives_hook(hit)


def _follow_guard_collectives() -> None:
    """Makes torch.compiler.set_enable_guard_collectives take effect, also if it was called before."""
    original = torch.compiler.set_enable_guard_collectives
    if hasattr(original, "_of_gramme"):
        return

    @functools.wraps(original)
    def set_enable_guard_collectives(enabled: bool) -> bool:
        before: bool = original(enabled)
        _C.set_guards_together(bool(enabled))
        return before

    set_enable_guard_collectives._of_gramme = True  # type: ignore[attr-defined]
    torch.compiler.set_enable_guard_collectives = set_enable_guard_collectives
    hook = names.set_guard_complete_hook(None)
    names.set_guard_complete_hook(hook)
    _C.set_guards_together(hook is not None)


def _watched(original: Any) -> Any:
    @functools.wraps(original)
    def set_stance(*args: Any, **given: Any) -> Any:
        from ._torch.names import dynamo_decorators as decorators

        _follow(decorators)
        return original(*args, **given)

    set_stance._of_gramme = True  # type: ignore[attr-defined]
    return set_stance


def _follow(decorators: Any) -> None:
    from ._torch.names import dynamo_eval_frame as eval_frame

    original = decorators._set_stance
    if hasattr(original, "_of_gramme"):
        return

    @functools.wraps(original)
    def set_stance(stance: Any) -> Any:
        try:
            _C.set_stance(_name(stance))
        except ValueError:
            raise RuntimeError(f"invalid torch.compile stance: {stance.stance!r}") from None
        return original(stance)

    set_stance._of_gramme = True  # type: ignore[attr-defined]
    decorators._set_stance = set_stance
    _C.set_stance(_name(eval_frame._stance))


def _name(stance: Any) -> str:
    """The name of a DynamoStance in C++."""
    if stance.stance == "default" and stance.backend is not None:
        return "force_backend"
    if stance.stance == "default" and stance.skip_guard_eval_unsafe:
        return "skip_guard_eval_unsafe"
    return str(stance.stance)


def forced(entry: Any) -> Any:
    """The entry's form with the backend of set_stance(force_backend=); None if there is none. Called from C++."""
    from ._backends import resolve
    from ._torch.names import dynamo_eval_frame as eval_frame

    backend, options = eval_frame._stance.backend, entry.__dict__.get("_gramme_options")
    if backend is None or options is None:
        return None
    forms: dict[Any, Any] = entry.__dict__.setdefault("_gramme_forced", {})
    if backend not in forms:
        made = dataclasses.replace(options, backend=resolve(backend)).entry(entry.__wrapped__)
        _C.set_forced(made)
        forms[backend] = made
    return forms[backend]


@functools.cache
def rehearsal() -> Any:
    """The backend of first captures under set_stance("aot_eager_then_compile"). Called from C++."""
    from ._backends import resolve

    return resolve("aot_eager")


def compiled_backward(entry: Any) -> Callable[[], Any]:
    """Enters PyTorch's compiled autograd with the entry's options; returns a function to leave it. Called from C++."""
    from ._torch.names import compiled_autograd
    from ._torch.names import dynamo_config as config

    options = dataclasses.replace(entry.__dict__["_gramme_options"], compiles_backward=False)
    override = config.compiled_autograd_kwargs_override
    if override and set(override) != {"fullgraph"}:
        text = f"Only `fullgraph` kwarg override is supported for now, but got {override.keys()}"
        raise AssertionError(text)
    fullgraph = bool(override.get("fullgraph", options.fullgraph))
    dynamic = not config.assume_static_by_default if options.dynamic is None else options.dynamic
    scope = compiled_autograd._enable(
        functools.partial(_backward, options, fullgraph), dynamic=dynamic, ignore_active_disable_ctx=False
    )
    scope.__enter__()
    return functools.partial(scope.__exit__, None, None, None)


def _backward(options: Any, fullgraph: bool, graph: Any) -> Callable[..., Any]:
    """Compiles a backward pass: as one graph or, if that is impossible, as several."""
    from ._compile import entry_of
    from ._torch.names import FailOnRecompileLimitHit

    def backward(*args: Any) -> Any:  # not graph.__call__, which handles exceptions of hooks
        return graph.forward(*args)

    whole = dataclasses.replace(options, fullgraph=True)(backward)
    if fullgraph:
        return whole  # type: ignore[no-any-return]
    entry, pieces = entry_of(whole), None

    def call(*args: Any) -> Any:
        nonlocal pieces
        if pieces is None:
            raised = _C.counters(entry)["graph_errors"]
            try:
                return whole(*args)
            except (CaptureError, FailOnRecompileLimitHit):
                if _C.counters(entry)["graph_errors"] != raised:
                    raise  # a hook's own, when the pass ran
                pieces = dataclasses.replace(options, fullgraph=False)(backward)
        return pieces(*args)

    return call
