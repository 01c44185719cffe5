"""Translations of regular functions: functions of torch._numpy, and ufuncs as operators of torch."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from gramme._numpy._question import Question
from gramme._numpy._values import TORCH_DTYPES, Call, Stand, UnknownCallError, mapped
from gramme._torch.names import torch_numpy as tnp
from gramme._torch.names import torch_numpy_array


def _tensors(result: Any) -> Any:
    if isinstance(result, torch_numpy_array):
        return result.tensor
    if isinstance(result, list | tuple):
        return type(result)(_tensors(item) for item in result)
    return result


_array_of: Callable[[torch.Tensor], Any] = torch_numpy_array


def _arrays(tree: Any) -> Any:
    return mapped(tree, lambda leaf: _array_of(leaf) if isinstance(leaf, torch.Tensor) else leaf)


@functools.cache
def wrapped(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Calls the function of torch._numpy on tensors."""

    def call(*args: Any, **keywords: Any) -> Any:
        return _tensors(function(*_arrays(args), **_arrays(keywords)))

    call.__name__ = call.__qualname__ = f"wrapped_{name}"
    return call


def _is_dtype(value: Any) -> bool:
    return isinstance(value, np.dtype) or (
        isinstance(value, type) and (issubclass(value, np.generic) or value in (float, int, bool, complex))
    )


def operand(leaf: Any) -> Any:
    """An operand; a NumPy scalar keeps its own dtype."""
    if isinstance(leaf, np.generic):
        return Call(torch.full, ((), leaf.item()), {"dtype": TORCH_DTYPES[leaf.dtype]})
    return plain(leaf)


def plain(leaf: Any) -> Any:
    if isinstance(leaf, np.generic):
        return leaf.item()
    if _is_dtype(leaf):
        return np.dtype(leaf).name
    return leaf


def by_tnp(name: str, function: Callable[..., Any], args: Any, keywords: Any, leaf: Callable[[Any], Any]) -> Call:
    return Call(wrapped(name, function), mapped(args, leaf), mapped(keywords, leaf))


Lower = Callable[[Question], Any]


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool | np.generic)


def into_output(lower: Lower) -> Lower:
    """Writes the result of the call without out= to out=, for the elements that where= selects."""

    def lowered(question: Question) -> Any:
        out = output_of(question)
        mask = question.keywords.get("where", True)
        masks = isinstance(question.function, np.ufunc)
        if out is None:
            if masks and mask is not True:
                raise UnknownCallError  # other elements are uninitialised memory
            return lower(question)
        left_out = ("out", "where") if masks else ("out",)
        question.keywords = {key: value for key, value in question.keywords.items() if key not in left_out}
        value = lower(question)
        if masks and mask is not True:
            if not isinstance(mask, Stand) or mask.dtype != torch.bool or not isinstance(value, Call):
                raise UnknownCallError
            value = Call(torch.where, (mask, Call("to", (value, out.dtype)), out))
        return Call("copy_", (out, value))

    return lowered


def output_of(question: Question) -> Stand | None:
    """The one array that out= names."""
    out = question.keywords.get("out")
    out = out[0] if isinstance(out, tuple) and len(out) == 1 else out
    if out is not None and not isinstance(out, Stand):
        raise UnknownCallError
    return out


def function_of(name: str, function: Callable[..., Any], leaf: Callable[[Any], Any] = plain) -> Lower:
    return into_output(lambda question: by_tnp(name, function, question.args, question.keywords, leaf))


def ufunc(name: str, direct: Callable[..., Any] | None = None, *, scalars: bool = True, right: bool = False) -> Lower:
    """A ufunc whose operands NumPy converts to the dtype in which it computes.

    direct: the operator of torch; scalars: whether it takes Python numbers, too; right: on the right.
    """
    call = direct or wrapped(name, getattr(tnp, name))

    def lowered(question: Question) -> Any:
        if question.keywords:
            return by_tnp(name, getattr(tnp, name), question.args, question.keywords, operand)
        dtype = _loop_dtype(question)
        operands = enumerate(question.args)
        return Call(call, tuple(converted(arg, dtype, scalars or (right and place > 0)) for place, arg in operands))

    return into_output(lowered)


def _loop_dtype(question: Question) -> torch.dtype:
    """The dtype in which NumPy computes: the result's; for comparisons the common one of the operands."""
    result = question.result
    if not hasattr(result, "dtype") or result.dtype not in TORCH_DTYPES:
        raise UnknownCallError
    likes = [np.asarray(like) if isinstance(like, list | tuple) else like for like in question.real(question.args)]
    common = np.result_type(*likes)
    if result.dtype.kind == "b" or (common.kind == "c" and result.dtype.kind == "f"):
        for like in likes:  # NumPy compares with ints that do not fit the dtype
            if (
                isinstance(like, int)
                and common.kind in "iu"
                and not np.iinfo(common).min <= like <= np.iinfo(common).max
            ):
                raise UnknownCallError
        return TORCH_DTYPES[common]
    return TORCH_DTYPES[result.dtype]


def converted(leaf: Any, dtype: torch.dtype, scalars: bool) -> Any:
    if isinstance(leaf, Stand):
        return leaf if leaf.dtype == dtype else Call("to", (leaf, dtype))
    number = leaf.item() if isinstance(leaf, np.generic) else leaf
    if isinstance(number, bool | int | float | complex):
        return number if scalars else Call(torch.full, ((), number), {"dtype": dtype})
    if not isinstance(leaf, list | tuple):
        raise UnknownCallError
    return Call(torch.tensor, (mapped(leaf, literal),), {"dtype": dtype})


def literal(leaf: Any) -> Any:
    if isinstance(leaf, Stand):
        raise UnknownCallError
    return leaf.item() if isinstance(leaf, np.generic) else leaf


def swapped(lower: Lower) -> Lower:
    def lowered(question: Question) -> Any:
        question.args = question.args[::-1]
        return lower(question)

    return lowered


def in_place(lower: Lower) -> Lower:
    return lambda question: Call("copy_", (question.args[0], lower(question)))
