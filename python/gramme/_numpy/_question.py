"""Calls NumPy for a call's result type, and tries the graph's operations in its place."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from gramme._numpy._values import (
    MOST_COMPARED,
    MOST_ELEMENTS,
    NUMPY_DTYPES,
    TORCH_DTYPES,
    Answer,
    Call,
    Expected,
    Stand,
    UnknownCallError,
    mapped,
    stands_in,
)


def _data(dtype: np.dtype, count: int, whole: int) -> np.ndarray:
    """Data that most functions accept."""
    if dtype.kind in "fc":
        return (np.arange(count) * 7919 % 101 / 101 + 0.25).astype(dtype)
    return np.full(count, whole, dtype)


def array_like(stand: Stand, whole: int) -> Any:
    """An array like the one it stands for; ints in it are `whole`."""
    dtype = NUMPY_DTYPES[stand.dtype]
    if stand.type is not np.ndarray:
        return dtype.type(_data(dtype, 1, whole)[0])
    steps = [(size - 1) * stride for size, stride in zip(stand.sizes, stand.strides, strict=True)]
    reach = 1 + sum(map(abs, steps))
    if max(reach, math.prod(stand.sizes)) > MOST_ELEMENTS:
        raise UnknownCallError
    strides = tuple(stride * dtype.itemsize for stride in stand.strides)
    data = _data(dtype, 0 if 0 in stand.sizes else reach, whole)
    start = data[-sum(step for step in steps if step < 0) :]
    like = np.lib.stride_tricks.as_strided(start, stand.sizes, strides) if data.size else np.zeros(stand.sizes, dtype)
    if (
        like.ndim >= 2 and like.shape[-1] == like.shape[-2] and dtype.kind in "fc"
    ):  # positive definite, as matrices may have to be
        like[...] = (like + np.swapaxes(like, -1, -2)) / 2 + 2 * like.shape[-1] * np.eye(like.shape[-1])
    if not stand.writeable:
        like.flags.writeable = False
    return like


def _differs(a: np.ndarray, b: np.ndarray) -> bool:
    return not np.array_equal(a.flat[:MOST_COMPARED], b.flat[:MOST_COMPARED], equal_nan=a.dtype.kind in "fc")


def _applied(function: Any) -> Callable[..., Any]:
    if function is vars(np.ndarray)["__iter__"]:
        return tuple
    applied: Callable[..., Any] = function if callable(function) else function.__get__  # of a descriptor
    return applied


class Question:
    """One call: NumPy's result for arrays like the program's."""

    def __init__(self, function: Any, args: tuple[Any, ...], keywords: dict[str, Any], whole: int) -> None:
        if isinstance(function, np.ufunc) and len(args) > function.nin:
            args, keywords = args[: function.nin], {**keywords, "out": args[function.nin :]}
        self.function, self.args, self.keywords, self.whole = function, args, keywords, whole
        self.applied = _applied(function)
        self.is_operator = getattr(function, "__name__", "").startswith("__") and len(args) <= 2
        self.stands = {stand.index: stand for stand in stands_in([args, keywords])}
        self.likes = {index: array_like(stand, whole) for index, stand in self.stands.items()}
        try:
            with np.errstate(all="ignore"):
                self.result = self.applied(*self.real(args), **self.real(keywords))
        except Exception as error:  # NumPy would raise the same in the program
            raise UnknownCallError from error

    def writes_others(self, written: int | None) -> bool:
        """True if the call wrote to another array of its own."""
        if len(self.stands) < 2:
            return False
        return any(
            index != written
            and isinstance(like, np.ndarray)
            and _differs(like, array_like(self.stands[index], self.whole))
            for index, like in self.likes.items()
        )

    def real(self, tree: Any) -> Any:
        """The value with arrays in place of Stands."""
        return mapped(tree, lambda leaf: self.likes[leaf.index] if isinstance(leaf, Stand) else leaf)

    def expected(self, result: Any) -> Any:
        """The result that the graph must return."""
        for index, like in self.likes.items():
            if result is like and isinstance(like, np.ndarray):
                return self.stands[index]
        if type(result) in (list, tuple):
            return type(result)(self.expected(item) for item in result)
        is_number = isinstance(result, np.generic)
        if (type(result) is not np.ndarray and not is_number) or result.dtype not in TORCH_DTYPES:
            raise UnknownCallError
        dtype = TORCH_DTYPES[result.dtype]
        if is_number:
            return Expected(dtype, (), (), -1, type(result), True)
        strides = tuple(stride // result.itemsize for stride in result.strides)
        return Expected(dtype, result.shape, strides, self._memory_of(result), np.ndarray, result.flags.writeable)

    def _memory_of(self, result: np.ndarray) -> int:
        for index, like in self.likes.items():
            if isinstance(like, np.ndarray) and np.may_share_memory(like, result):
                return self.stands[index].memory
        return -1


def _tensor_like(stand: Stand, whole: int) -> torch.Tensor:
    if stand.apart:
        return torch.from_numpy(np.array(array_like(stand, whole)))
    writeable = Stand(stand.index, stand.memory, stand.dtype, stand.sizes, stand.strides, stand.type, True)
    return torch.from_numpy(np.asarray(array_like(writeable, whole)))


class Trial:
    """Runs the calls of an answer on tensors like the program's: they must do what NumPy did."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._tensors = {index: _tensor_like(stand, question.whole) for index, stand in question.stands.items()}

    def adapted(self, value: Any, expected: Any) -> Answer:
        """The answer with calls added that make NumPy's layout and memory sharing."""
        try:
            made = self._carried_out(value)
        except Exception as error:
            raise UnknownCallError from error
        for index, like in self._question.likes.items():
            if isinstance(like, np.ndarray) and not _are_close(like, self._tensors[index].numpy()):
                raise UnknownCallError
        return Answer(*self._fitted(value, made, expected, self._question.result))

    def _carried_out(self, tree: Any) -> Any:
        if isinstance(tree, Call):
            args, keywords = self._carried_out(tree.args), self._carried_out(tree.keywords)
            return (
                getattr(args[0], tree.target)(*args[1:])
                if isinstance(tree.target, str)
                else tree.target(*args, **keywords)
            )
        if isinstance(tree, list | tuple):
            return type(tree)(self._carried_out(item) for item in tree)
        if isinstance(tree, Mapping):
            return {key: self._carried_out(item) for key, item in tree.items()}
        return self._tensors[tree.index] if isinstance(tree, Stand) else tree

    def _fitted(self, value: Any, made: Any, expected: Any, result: Any) -> tuple[Any, Any]:
        if expected is None or expected is ... or isinstance(expected, Stand):
            return value, expected
        if not isinstance(expected, Expected):
            return self._fitted_parts(value, made, expected, result)
        if not isinstance(made, torch.Tensor) or made.device.type != "cpu" or made.dtype != expected.dtype:
            raise UnknownCallError
        if tuple(made.shape) != expected.sizes or not _are_close(np.asarray(result), made.resolve_conj().numpy()):
            raise UnknownCallError
        if made.is_conj() or made.is_neg():
            value, made = (
                Call(torch.resolve_neg, (Call(torch.resolve_conj, (value,)),)),
                made.resolve_conj().resolve_neg(),
            )
        memory = self._memory_of(made)
        viewed = self._view_of(expected)
        if viewed is not None:  # a copy is read in its place
            expected = expected._replace(view_of=viewed.index)
            return (Call("clone", (value,)) if memory >= 0 else value), expected
        if memory >= 0 and expected.memory < 0:
            value, made, memory = Call("clone", (value,)), made.clone(), -1
        if not expected.agrees(made.dtype, expected.sizes, made.stride(), memory) and expected.memory < 0:
            value = _laid_out(value, expected.strides)
        return value, expected

    def _fitted_parts(self, value: Any, made: Any, expected: Any, result: Any) -> tuple[Any, Any]:
        if not isinstance(made, list | tuple) or len(made) != len(expected):
            raise UnknownCallError
        each = isinstance(value, list | tuple) and not isinstance(value, Call)
        parts = value if each else [value] * len(made)
        fitted = [self._fitted(*part) for part in zip(parts, made, expected, result, strict=True)]
        values, kinds = [part for part, _ in fitted], type(expected)(kind for _, kind in fitted)
        if each:
            return type(value)(values), kinds
        if any(part is not value for part in values):
            raise UnknownCallError
        return value, kinds

    def _view_of(self, expected: Expected) -> Stand | None:
        """The base array of a view that no tensor can represent."""
        stands = [stand for stand in self._question.stands.values() if stand.memory == expected.memory]
        apart = any(stand.apart for stand in stands) or any(stride < 0 for stride in expected.strides)
        return stands[0] if stands and apart else None

    def _memory_of(self, made: torch.Tensor) -> int:
        for index, tensor in self._tensors.items():
            if tensor.untyped_storage().data_ptr() == made.untyped_storage().data_ptr() and made.numel():
                return self._question.stands[index].memory
        return -1


def _are_close(expected: np.ndarray, found: np.ndarray) -> bool:
    if expected.dtype != found.dtype or expected.shape != found.shape:
        return False
    if expected.size > MOST_COMPARED:
        return True
    if expected.dtype.kind not in "fc":
        return bool(np.array_equal(expected, found))
    tolerance = (
        1e-2 if expected.dtype == np.float16 else 1e-4 if expected.dtype.name in ("float32", "complex64") else 1e-9
    )
    return bool(np.allclose(expected, found, rtol=tolerance, atol=tolerance, equal_nan=True))


def _laid_out(value: Any, strides: tuple[int, ...]) -> Any:
    """The value in new memory, with its dimensions in the order of the strides."""
    order = tuple(sorted(range(len(strides)), key=lambda d: -strides[d]))
    if order == tuple(range(len(strides))):
        return Call("contiguous", (value,))
    back = tuple(order.index(d) for d in range(len(strides)))
    return Call("permute", (Call("contiguous", (Call("permute", (value, order)),)), back))
