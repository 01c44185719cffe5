"""Translations of functions that need a form of their own."""

from typing import Any

import numpy as np
import torch

from gramme._numpy._calls import Lower, by_tnp, converted, function_of, literal, plain, wrapped
from gramme._numpy._items import lying_apart
from gramme._numpy._question import Question
from gramme._numpy._ufuncs import is_mask
from gramme._numpy._values import (
    TORCH_DTYPES,
    Call,
    Stand,
    UnknownCallError,
    VaryingFloat,
    VaryingInt,
    mapped,
    stands_in,
)
from gramme._torch.names import torch_numpy as tnp


def as_type(question: Question) -> Any:
    array, *rest = question.args
    others = {key: value for key, value in question.keywords.items() if key not in ("dtype", "copy")}
    if len(rest) > 1 or others:
        raise UnknownCallError
    dtype = TORCH_DTYPES[question.result.dtype]
    if question.result is question.likes.get(array.index):
        return array
    return Call("clone", (array,)) if dtype == array.dtype else Call("to", (array, dtype))


def where(question: Question) -> Any:
    condition, *choices = question.args
    if len(choices) != 2 or not isinstance(condition, Stand) or condition.dtype != torch.bool or question.keywords:
        raise UnknownCallError
    dtype = TORCH_DTYPES[question.result.dtype]
    return Call(torch.where, (condition, *(converted(choice, dtype, scalars=False) for choice in choices)))


def reshaped(question: Question) -> Any:
    array, *sizes = question.args
    if question.keywords or not sizes:
        raise UnknownCallError
    whole = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], list | tuple) else sizes
    return Call("reshape", (array, tuple(plain(size) for size in whole)))


def flattened(question: Question) -> Any:
    if len(question.args) != 1 or question.keywords:
        raise UnknownCallError
    return Call("reshape", (question.args[0], (-1,)))


def diagonal_of(question: Question) -> Any:
    array, *offset = question.args
    if question.keywords:
        raise UnknownCallError
    return Call(torch.diagonal if len(array.sizes) == 2 else torch.diag, (array, *offset))


def of_rank(name: str) -> Lower:
    """np.percentile() and its like; torch._numpy keeps a dimension without axis=."""
    function = getattr(tnp, name)

    def lowered(question: Question) -> Any:
        array, *rest = question.args
        if not isinstance(array, Stand) or not array.dtype.is_floating_point:
            raise UnknownCallError
        if len(rest) > (name != "median") or question.keywords.get("axis") is not None:
            return by_tnp(name, function, question.args, question.keywords, plain)
        keywords = {key: value for key, value in question.keywords.items() if key != "axis"}
        if "keepdims" in keywords:
            raise UnknownCallError
        flat = Call("reshape", (array, (-1,)))
        return Call(wrapped(name, function), (flat, *mapped(rest, plain)), {**mapped(keywords, plain), "axis": 0})

    return lowered


def transform(name: str) -> Lower:
    """A function of np.fft: torch.fft has it with dim= for axis=."""
    direct = getattr(torch.fft, name)

    def lowered(question: Question) -> Any:
        array, *rest = question.args
        names = {"axis": "dim", "axes": "dim"}
        keywords = {names.get(key, key): value for key, value in mapped(question.keywords, plain).items()}
        if not isinstance(array, Stand) or "out" in keywords:
            raise UnknownCallError
        whole = not (array.dtype.is_floating_point or array.dtype.is_complex)
        operand = Call("to", (array, torch.float64)) if whole else array
        return Call(direct, (operand, *mapped(rest, plain)), keywords)

    return lowered


def copied(question: Question) -> Any:
    """np.array(), np.asarray() and their like of one array, or of a list."""
    given = question.args[0] if question.args else None
    result = question.result
    if isinstance(given, Stand):
        if result is question.likes[given.index]:
            return given
        dtype = TORCH_DTYPES[result.dtype]
        if result.ndim != len(given.sizes):
            raise UnknownCallError
        return Call("clone", (given,)) if dtype == given.dtype else Call("to", (given, dtype))
    return _stacked(given, TORCH_DTYPES[result.dtype])


def _stacked(tree: Any, dtype: torch.dtype) -> Any:
    """A list of arrays and numbers as one tensor."""
    if not isinstance(tree, list | tuple):
        return converted(tree, dtype, scalars=False)
    if not any(True for _ in stands_in(tree)) and not varies(tree):
        return Call(torch.tensor, (mapped(tree, literal),), {"dtype": dtype})
    return Call(torch.stack, ([_stacked(item, dtype) for item in tree],))


def varies(tree: Any) -> bool:
    if isinstance(tree, list | tuple):
        return any(map(varies, tree))
    return isinstance(tree, VaryingInt | VaryingFloat)


def filled(question: Question) -> Any:
    array, value = question.args
    return Call("fill_", (array, plain(value)))


def copy_into(question: Question) -> Any:
    """Lower np.copyto(): all elements, or those that where= names."""
    target, value = question.args
    mask = question.keywords.get("where", True)
    if question.keywords.keys() - {"where", "casting"} or (mask is not True and not is_mask(mask)):
        raise UnknownCallError
    value = lying_apart(value, target) if isinstance(value, Stand) else converted(value, target.dtype, scalars=False)
    if mask is not True:
        value = value if isinstance(value, Call) or value.dtype == target.dtype else Call("to", (value, target.dtype))
        value = Call(torch.where, (mask, value, target))
    return Call("copy_", (target, value))


def transposed(question: Question) -> Any:
    array = question.args[0]
    return Call("permute", (array, tuple(range(len(array.sizes)))[::-1]))


def viewed(question: Question) -> Any:
    if len(question.args) != 1 or question.keywords:
        raise UnknownCallError
    array = question.args[0]
    return Call("view_as", (array, array))


def made_known(question: Question) -> Any:
    """An array of known numbers: small ones stand in the graph as they are."""
    result = question.result
    if type(result) is not np.ndarray or result.dtype not in TORCH_DTYPES:
        raise UnknownCallError
    if varies([*question.args, *question.keywords.values()]):
        return None
    keywords = {"dtype": TORCH_DTYPES[result.dtype]}
    flat = result.reshape(-1)
    if result.size and (flat[0] == flat).all():
        return Call(torch.full, (result.shape, flat[0].item()), keywords)
    if result.size <= _MOST_LITERALS:
        return Call(torch.tensor, (result.tolist(),), keywords)
    return None


_MOST_LITERALS = 64


def maker(name: str) -> Lower:
    by_tnp = function_of(name, getattr(tnp, name))

    def lowered(question: Question) -> Any:
        if question.stands:
            return by_tnp(question)
        made = made_known(question)
        return by_tnp(question) if made is None else made

    return lowered
