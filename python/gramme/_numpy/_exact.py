"""For the option exact_numpy: nodes that call NumPy itself, on arrays over the memory of the tensors."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from gramme._numpy._forms import diagonal_of, flattened, reshaped, transposed, viewed
from gramme._numpy._items import get_item, rows
from gramme._numpy._question import Question, Trial
from gramme._numpy._values import (
    Answer,
    Call,
    Expected,
    Stand,
    UnknownCallError,
    VaryingFloat,
    VaryingInt,
    mapped,
)
from gramme._torch.names import FakeTensor

_MOVES = (get_item, rows, reshaped, flattened, viewed, transposed, diagonal_of)
"""They give elements as they are: torch's operators have NumPy's bits there."""


def exact_answer(
    question: Question, function: Any, lower: Callable[[Question], Any], expected: Any, written: int | None
) -> Answer:
    """The answer to a call that NumPy computes. `written`: the index of the array that the call writes."""
    if any(stand.apart for stand in question.stands.values()):
        raise UnknownCallError  # with another layout elements are added in another order
    if written is not None:
        stand = question.stands[written]
        if stand.seen or stand.type is not np.ndarray:
            raise UnknownCallError
        made = Expected(stand.dtype, stand.sizes, _packed(stand.sizes), -1, np.ndarray, True)
        return Answer(Call("copy_", (stand, _node(question, function, made, written))), expected, True)
    if not question.stands:
        value = lower(question)
        if not isinstance(value, Call) or value.target not in (torch.full, torch.tensor):
            raise UnknownCallError  # computed by torch
        return Trial(question).adapted(value, expected)
    if lower in _MOVES or _shares(expected):
        return Trial(question).adapted(lower(question), expected)
    if not _is_new(expected):
        raise UnknownCallError
    return Answer(_node(question, function, expected, None), expected, True)


def _packed(sizes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(sizes[place + 1 :]) for place in range(len(sizes)))


def _shares(expected: Any) -> bool:
    """True if all of its memory is the arguments'."""
    if isinstance(expected, Expected):
        return expected.memory >= 0
    return isinstance(expected, Stand) or (isinstance(expected, list | tuple) and all(map(_shares, expected)))


def _is_new(expected: Any) -> bool:
    """True if none of its memory is the arguments'."""
    if isinstance(expected, Expected):
        return expected.memory < 0 and all(stride >= 0 for stride in expected.strides)
    return isinstance(expected, list | tuple) and all(map(_is_new, expected))


class _Slot:
    """The index of a node's operand among the arguments of the call."""

    def __init__(self, index: int, type_: type | None) -> None:
        self.index, self.type = index, type_

    def filled(self, operands: tuple[Any, ...]) -> Any:
        operand = operands[self.index]
        if self.type is None:
            return operand
        array = operand.numpy()
        return array if self.type is np.ndarray else array[()]


def _node(question: Question, function: Any, expected: Any, written: int | None) -> Call:
    operands: list[Any] = []
    places: dict[int, int] = {}  # by the index of an array, which may be an argument twice
    takes_numbers = isinstance(function, np.ufunc) or question.is_operator

    def slot(leaf: Any) -> Any:
        if isinstance(leaf, VaryingInt | VaryingFloat):
            if not takes_numbers:  # sizes may follow from it: it is what it is
                return int(leaf) if isinstance(leaf, VaryingInt) else float(leaf)
            operands.append(leaf)
            return _Slot(len(operands) - 1, None)
        if not isinstance(leaf, Stand):
            return leaf
        if leaf.index not in places:
            places[leaf.index] = len(operands)
            operands.append(leaf)
        return _Slot(places[leaf.index], leaf.type)

    args, keywords = mapped(question.args, slot), mapped(question.keywords, slot)
    place = None if written is None else places[written]
    return Call(_carried_out(question.applied, args, keywords, expected, place), tuple(operands))


def _carried_out(
    function: Callable[..., Any], args: Any, keywords: Mapping[str, Any], expected: Any, written: int | None
) -> Callable[..., Any]:
    """The call as a function of tensors; for a written array it returns the new content."""

    def exact_numpy(*operands: Any) -> Any:
        if any(isinstance(operand, FakeTensor) for operand in operands):
            return _empty(expected)
        if written is not None:
            operands = (*operands[:written], operands[written].clone(), *operands[written + 1 :])
        with np.errstate(all="ignore"):
            result = function(
                *mapped(args, lambda leaf: _filled(leaf, operands)),
                **mapped(keywords, lambda leaf: _filled(leaf, operands)),
            )
        return operands[written] if written is not None else _tensors(result, expected)

    exact_numpy.__name__ = exact_numpy.__qualname__ = f"exact_{getattr(function, '__name__', 'call')}"
    return exact_numpy


def _filled(leaf: Any, operands: tuple[Any, ...]) -> Any:
    return leaf.filled(operands) if isinstance(leaf, _Slot) else leaf


def _empty(expected: Any) -> Any:
    if isinstance(expected, Expected):
        return torch.empty_strided(expected.sizes, expected.strides, dtype=expected.dtype, device="cpu")
    return type(expected)(map(_empty, expected))


def _tensors(result: Any, expected: Any) -> Any:
    if not isinstance(expected, Expected):
        return type(expected)(_tensors(*part) for part in zip(result, expected, strict=True))
    tensor = torch.from_numpy(np.asarray(result))
    strides = tensor.stride()
    agrees = (tensor.dtype, tuple(tensor.shape)) == (expected.dtype, expected.sizes)
    if not agrees or not expected.agrees(tensor.dtype, expected.sizes, strides, -1):
        raise RuntimeError("NumPy gave another array than for arrays alike")
    return tensor
