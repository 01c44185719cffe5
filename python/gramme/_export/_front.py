"""gramme as the front end of torch.export(strict=True); everything below the front end is torch.export's."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import math
import re
import types
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import torch

from .._torch.names import (
    ConstraintViolationError,
    GuardOnDataDependentSymNode,
    UserError,
    UserErrorType,
    ValueRangeError,
    check,
    check_user_input_output,
    dynamo_config,
    export_trace,
    functorch_config,
    make_fake_inputs,
    produce_guards_and_solve_constraints,
    pytree,
    wrap_submodules,
)
from ._call import Call, Place, capture, varying_dimensions
from ._program import torch_graph

__all__ = ["captured_graph", "front_end", "marks_put_back", "stand_everywhere"]

_everywhere = False
_active: ContextVar[bool] = ContextVar("gramme.export", default=False)


@contextlib.contextmanager
def front_end() -> Iterator[None]:
    """In the scope, torch.export.export(strict=True) captures by gramme on this thread."""
    _stand_in_front()
    token = _active.set(True)
    try:
        yield
    finally:
        _active.reset(token)


def stand_everywhere(stand: bool) -> None:
    """Sets whether torch.export.export(strict=True) captures with gramme in all callers."""
    global _everywhere
    if stand:
        _stand_in_front()
    _everywhere = stand


def _stand_in_front() -> None:
    """Replaces torch.export's front end, without effect outside the scope; again if another function took over."""
    original = export_trace._export_to_torch_ir
    if hasattr(original, "_of_gramme"):  # wrappers of others have what they wrap
        return

    @functools.wraps(original)
    def export_to_torch_ir(module: Any, args: Any, kwargs: Any = None, shapes: Any = None, **given: Any) -> Any:
        if not (_active.get() or (_everywhere and not _drafts())):
            return original(module, args, kwargs, shapes, **given)
        return captured_graph(
            module,
            args,
            kwargs or {},
            shapes,
            given.get("preserve_module_call_signature", ()),
            given.get("prefer_deferred_runtime_asserts_over_guards", False),
        )

    export_to_torch_ir._of_gramme = True  # type: ignore[attr-defined]
    export_trace._export_to_torch_ir = export_to_torch_ir  # type: ignore[assignment]


def _drafts() -> bool:
    """Whether torch.export.draft_export runs, which needs PyTorch's own front end for its report."""
    return bool(functorch_config.fake_tensor_propagate_real_tensors)


@contextlib.contextmanager
def _user_errors() -> Iterator[None]:
    """Turns errors into those that torch.export's callers catch."""
    try:
        yield
    except (ConstraintViolationError, ValueRangeError) as error:
        raise UserError(UserErrorType.CONSTRAINT_VIOLATION, str(error)) from error
    except GuardOnDataDependentSymNode as error:
        text = f"Consider annotating your code using torch._check*(). {error}"
        raise UserError(UserErrorType.ANTI_PATTERN, text, case_name="constrain_as_size_example") from error


def captured_graph(
    module: torch.nn.Module, args: Any, kwargs: dict[str, Any], shapes: Any, preserved: tuple[str, ...], deferred: bool
) -> torch.fx.GraphModule:
    """The captured graph for torch.export to lower, once its sizes are known to vary as `shapes` demands.

    Raises:
        CaptureError: the call is not one graph.
        torch._dynamo.exc.UserError: arguments, results or sizes that cannot be exported.

    """
    with _user_errors():
        return _captured_graph(module, args, kwargs, shapes, preserved, deferred)


def _captured_graph(
    module: torch.nn.Module, args: Any, kwargs: dict[str, Any], shapes: Any, preserved: tuple[str, ...], deferred: bool
) -> torch.fx.GraphModule:
    if not isinstance(args, tuple):
        text = f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}"
        raise UserError(UserErrorType.INVALID_INPUT, text)
    leaves, spec = pytree.tree_flatten((args, kwargs))
    check_user_input_output(leaves, UserErrorType.INVALID_INPUT)
    mode, fake_args, fake_kwargs, equalities, signature, shapes = make_fake_inputs(  # type: ignore[no-untyped-call]
        module, args, kwargs, shapes, prefer_deferred_runtime_asserts_over_guards=deferred
    )
    fakes = pytree.tree_leaves((fake_args, fake_kwargs))
    specs = export_trace._ExportModuleSpecTrackerDict()
    hooked, portable = wrap_submodules(module, preserved, specs), export_trace._ignore_backend_decomps()
    with _settings(deferred), hooked, portable, _without_marks(leaves):
        call = capture(module, leaves, spec, fakes)
    _require(call, leaves, fakes, deferred)
    graph = torch_graph(module, args, kwargs, fakes, mode, call, specs)
    produce_guards_and_solve_constraints(mode, graph, shapes, equalities, signature)
    mode.shape_env.frozen = False  # for numbers from data that are found when the graph is lowered
    return graph


# Arranged otherwise here: nothing is replayed, asserts of the lowered graph are torch.export's, floats are constants.
_OTHERWISE = {"do_not_emit_runtime_asserts", "replay_side_effects", "specialize_float"}


def _settings(deferred: bool) -> Any:
    """The settings that torch.export makes for its front end."""
    asked = dataclasses.asdict(export_trace.DEFAULT_EXPORT_DYNAMO_CONFIG)
    asked["prefer_deferred_runtime_asserts_over_guards"] = deferred
    asked["side_effect_replay_policy"] = "silent"  # reported in other words
    return dynamo_config.patch({name: value for name, value in asked.items() if name not in _OTHERWISE})


_MARKS = re.compile(r"_dynamo_\w+_(indices|range)|_has_dynamo_dim_marking|_specialize_on")


def _marks(tensor: torch.Tensor) -> dict[str, Any]:
    return {name: value for name, value in vars(tensor).items() if _MARKS.fullmatch(name)}


@contextlib.contextmanager
def _without_marks(leaves: list[Any]) -> Iterator[None]:
    """Removes marks that torch.export put on tensors for its own front end; the fakes have their content."""
    hidden = [(tensor, _marks(tensor)) for tensor in leaves if isinstance(tensor, torch.Tensor)]
    for tensor, marks in hidden:
        for name in marks:
            delattr(tensor, name)
    try:
        yield
    finally:
        for tensor, marks in hidden:
            vars(tensor).update(marks)


@contextlib.contextmanager
def marks_put_back(arguments: Any) -> Iterator[None]:
    """Restores the marks of tensors after the scope, in which torch.export reads, writes and drops them."""
    before = [(leaf, _marks(leaf)) for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, torch.Tensor)]
    kept = [(tensor, {name: copy.copy(value) for name, value in marks.items()}) for tensor, marks in before]
    try:
        yield
    finally:
        for tensor, marks in kept:
            for name in _marks(tensor):
                delattr(tensor, name)
            vars(tensor).update(marks)


def _require(call: Call, leaves: list[Any], fakes: list[Any], deferred: bool) -> None:
    """Turns the capture's conditions into guards of the fakes' environment, which knows the user's constraints.

    If they are to be `deferred`, they are asserted where the program runs.
    """
    fixed = [*_fixed(call, fakes)]
    for condition in call.conditions:
        holds = _of_floats(condition.words, fakes) if condition.holds is None else condition.holds
        if holds is None:  # no guard can express it for other numbers
            fixed += _places_in(condition.words)
        elif deferred and isinstance(holds, torch.SymBool):
            check(holds)  # type: ignore[no-untyped-call]
        elif not bool(holds):
            raise AssertionError(f"gramme: {condition.words} does not hold of the fakes")
    for place in fixed:
        known = place.of(leaves)
        if not bool(place.of(fakes) == known):
            raise AssertionError(f"gramme: {place} is {known}")


_MATH = types.SimpleNamespace(trunc=math.trunc, floor=math.floor, ceil=math.ceil, sqrt=torch.sym_sqrt)
_FUNCTIONS = {"math": _MATH, "float": torch.sym_float, "min": torch.sym_min, "max": torch.sym_max, "round": round}


def _of_floats(words: str, fakes: list[Any]) -> Any:
    """A condition about floats, computed on the fakes: its text is Python. None if it cannot be computed."""
    try:
        return eval(words, {"__builtins__": {}, **_FUNCTIONS, "L": {"leaves": fakes}})
    except (ArithmeticError, NameError, NotImplementedError, SyntaxError, TypeError, ValueError):
        return None


_PLACE = re.compile(r"L\['leaves'\]\[(\d+)\](?:\.(size|stride|storage_offset)\(\)(?:\[(\d+)\])?)?")


def _places_in(words: str) -> list[Place]:
    """The places that a condition refers to."""
    found = [match.groups() for match in _PLACE.finditer(words)]
    return [Place(int(leaf), (what or "").removeprefix("storage_"), int(dim or 0)) for leaf, what, dim in found]


def _fixed(call: Call, fakes: list[Any]) -> Iterator[Place]:
    """Sizes and ints that should vary but that the graph fixes."""
    for i in call.looked_at:
        fake = fakes[i]
        places = [Place(i)] if isinstance(fake, torch.SymInt) else []
        if isinstance(fake, torch.Tensor):
            places = [Place(i, "size", d) for d in varying_dimensions(fake)]
        yield from (place for place in places if place not in call.varying)
