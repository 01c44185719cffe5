"""Subscripts of arrays, read and written."""

import operator
from typing import Any

import torch

from gramme._numpy._calls import is_number, operand, plain, wrapped
from gramme._numpy._question import Question
from gramme._numpy._values import Call, Stand, UnknownCallError, mapped


def _get_item(array: Any, index: Any) -> Any:
    return array[index]


def _set_item(array: Any, index: Any, value: Any) -> None:
    array[index] = value


def rows(question: Question) -> tuple[Call, ...]:
    array = question.args[0]
    return tuple(Call(operator.getitem, (array, i)) for i in range(array.sizes[0]))


def _is_basic(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return all(
        part is None
        or part is Ellipsis
        or isinstance(part, slice)
        or (isinstance(part, int) and part is not True and part is not False)
        for part in parts
    )


def get_item(question: Question) -> Any:
    array, index = question.args
    index = mapped(index, plain)
    if not _is_basic(index):
        return Call(wrapped("getitem", _get_item), (array, index))
    forward = _reversed_slices(index)
    if forward is None:
        raise UnknownCallError
    read = Call(operator.getitem, (array, forward[0] if isinstance(index, tuple) else forward[0][0]))
    return Call(torch.flip, (read, forward[1])) if forward[1] else read


def set_item(question: Question) -> Any:
    array, index, value = question.args
    index, value = mapped(index, plain), lying_apart(mapped(value, operand), array)
    same = isinstance(value, Call) or (isinstance(value, Stand) and value.dtype == array.dtype)
    if _is_basic(index) and (same or (is_number(value) and array.dtype.is_floating_point)):
        return Call(operator.setitem, (array, index, value))
    return Call(wrapped("setitem", _set_item), (array, index, value))


def lying_apart(value: Any, target: Stand) -> Any:
    """Copies a value that overlaps with the written array, as NumPy does; torch refuses overlaps."""
    if not isinstance(value, Stand) or (value.fresh and value.memory != target.memory):
        return value
    return Call("clone", (value,)) if value.dtype == target.dtype else Call("to", (value, target.dtype))


def _reversed_slices(index: Any) -> tuple[Any, tuple[int, ...]] | None:
    """The subscript with steps forward, and the dimensions of the result that are to be reversed."""
    parts = index if isinstance(index, tuple) else (index,)
    forward, reversed_, dimension = [], [], 0
    for place, part in enumerate(parts):
        if part is Ellipsis:
            dimension = -sum(1 for other in parts[place + 1 :] if not isinstance(other, int))
            forward.append(part)
            continue
        if isinstance(part, slice) and part.step is not None and part.step < 0:
            if part != slice(None, None, part.step) or part.step != -1:
                return None
            reversed_.append(dimension)
            part = slice(None)
        forward.append(part)
        dimension += not isinstance(part, int)
    return tuple(forward), tuple(reversed_)
