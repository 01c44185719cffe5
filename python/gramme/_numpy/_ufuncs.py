"""Methods of ufuncs, and ufuncs that need more than one operator."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from gramme._numpy._calls import Lower, converted, into_output, plain, wrapped
from gramme._numpy._question import Question
from gramme._numpy._values import Call, Stand, UnknownCallError
from gramme._torch.names import torch_numpy as tnp

REDUCED = {
    "add": "sum",
    "multiply": "prod",
    "maximum": "max",
    "minimum": "min",
    "logical_and": "all",
    "logical_or": "any",
}
"""By a ufunc, the function that its reduce() is, but for the axis."""


def _first_of(operator: Callable[..., Any]) -> Callable[..., torch.Tensor]:
    def running(tensor: torch.Tensor, axis: int) -> torch.Tensor:
        values: torch.Tensor = operator(tensor, axis)[0]
        return values

    running.__name__ = running.__qualname__ = operator.__name__
    return running


_RUNNING: dict[str, Callable[..., Any]] = {
    "add": torch.cumsum,
    "multiply": torch.cumprod,
    "maximum": _first_of(torch.cummax),
    "minimum": _first_of(torch.cummin),
}


def _add_at(tensor: torch.Tensor, indices: tuple[torch.Tensor, ...], values: torch.Tensor) -> None:
    tensor.index_put_(indices, values, accumulate=True)


def _subtract_at(tensor: torch.Tensor, indices: tuple[torch.Tensor, ...], values: torch.Tensor) -> None:
    tensor.index_put_(indices, -values, accumulate=True)


_AT = {"add": _add_at, "subtract": _subtract_at}


def _name_and_rest(question: Question) -> str:
    """The ufunc's name, and the question without the ufunc."""
    function, *rest = question.args
    if not isinstance(function, np.ufunc):
        raise UnknownCallError
    question.args = tuple(rest)
    return function.__name__


def reduced(reductions: dict[str, Lower]) -> Lower:
    """Lower reduce(): along the first axis, if it is not said."""

    def lowered(question: Question) -> Any:
        name = REDUCED.get(_name_and_rest(question))
        array, *axis = question.args
        if name is None or len(axis) > 1 or not isinstance(array, Stand):
            raise UnknownCallError
        question.args = (array,)
        question.keywords = {"axis": axis[0] if axis else 0, **question.keywords}
        if question.keywords["axis"] is None:
            del question.keywords["axis"]
        return reductions[name](question)

    return into_output(lowered)


def accumulated(question: Question) -> Any:
    """Lower accumulate(): along the first axis, if it is not said."""
    running = _RUNNING.get(_name_and_rest(question))
    array, *axis = question.args
    if axis and not question.keywords:
        question.keywords = {"axis": axis[0]}
    if running is None or len(axis) > 1 or question.keywords.keys() - {"axis"} or not isinstance(array, Stand):
        raise UnknownCallError
    return Call(running, (array, plain(question.keywords.get("axis", 0))))


def outer(question: Question) -> Any:
    """Each element of one operand combined with each of the other."""
    name = _name_and_rest(question)
    left, right = question.args
    if question.keywords or not isinstance(left, Stand) or not isinstance(right, Stand) or not hasattr(tnp, name):
        raise UnknownCallError
    apart = Call("reshape", (left, (*left.sizes, *(1 for _ in right.sizes))))
    return Call(wrapped(name, getattr(tnp, name)), (apart, right))


def at(question: Question) -> Any:
    """Change elements in place; those with a repeated index change repeatedly."""
    change = _AT.get(_name_and_rest(question))
    array, indices, values = question.args
    parts = indices if isinstance(indices, tuple) else (indices,)
    by_arrays = all(isinstance(part, Stand) and part.dtype == torch.int64 and part.sizes for part in parts)
    other = isinstance(values, Stand) and values.dtype != array.dtype
    if change is None or question.keywords or not by_arrays or other or array.dtype == torch.bool:
        raise UnknownCallError
    made = converted(values, array.dtype, scalars=False)
    return Call(change, (array, parts, Call("clone", (made,)) if isinstance(made, Stand) else made))


def both(quotient: Lower, remainder: Lower) -> Lower:
    """Quotient and remainder, as divmod() gives them."""

    def lowered(question: Question) -> Any:
        if question.keywords:
            raise UnknownCallError
        args, results = question.args, question.result
        parts = []
        for lower, result in zip((quotient, remainder), results, strict=True):
            question.args, question.result = args, result
            parts.append(lower(question))
        question.args, question.result = args, results
        return tuple(parts)

    return lowered


def masked(question: Question) -> Any:
    """Lower np.putmask() of one number."""
    array, mask, value = question.args
    if question.keywords or isinstance(value, Stand | list | tuple) or not is_mask(mask):
        raise UnknownCallError
    return Call("copy_", (array, Call(torch.where, (mask, converted(value, array.dtype, scalars=False), array))))


def is_mask(value: Any) -> bool:
    return isinstance(value, Stand) and value.dtype == torch.bool
