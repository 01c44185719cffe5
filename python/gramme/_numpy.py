"""What calls of NumPy's with arrays come to in a graph: operations on the tensors below the arrays.

NumPy itself is asked first, with arrays that are like those of the program in all but their data (`_like`): what it gives says the
result's class, dtype, sizes, strides, whose memory it shares and whether it may be written. What the graph computes must
agree (`Expected.agrees`), else the segment ends in front of the call. So the tables here say what is computed, never
what its type is. Frequent calls are operators of torch; for the rest functions of torch._numpy stand in the graph.
"""

import functools
import itertools
import math
import operator
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import _numpy as tnp

_MOST_ELEMENTS = 1 << 24
"""Of one array that NumPy is asked about."""

_MOST_COMPARED = 4096
"""Elements of a result that is compared with NumPy's."""

_TORCH_DTYPES = {
    np.dtype(name): getattr(torch, name if name != "bool" else "bool")
    for name in (
        *("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"),
        *("complex64", "complex128"),
    )
}
_NUMPY_DTYPES = {of_torch: of_numpy for of_numpy, of_torch in _TORCH_DTYPES.items()}


class Stand:
    """Stands for an array of the program, or for one of NumPy's numbers: all that is known of it but its data.

    memory: the index of the first array of the call that lies in the same memory. apart: the array is a view with negative
    strides, and its tensor a copy, which is only read.
    """

    __slots__ = ("apart", "dtype", "index", "memory", "sizes", "strides", "type", "writeable")

    def __init__(
        self,
        index: int,
        memory: int,
        dtype: torch.dtype,
        sizes: tuple[int, ...],
        strides: tuple[int, ...],
        type_: type,
        writeable: bool,
        apart: bool = False,
    ) -> None:
        self.index, self.memory, self.dtype, self.sizes, self.strides = index, memory, dtype, sizes, strides
        self.type, self.writeable, self.apart = type_, bool(writeable) and not apart, bool(apart)


class VaryingInt(int):
    """A number of now, which may be another one in the next call; nothing but itself stands for it."""

    index: int


class VaryingFloat(float):
    """The same of a float."""

    index: int


class Call(NamedTuple):
    """A call that the graph makes: of a function, or of the method of that name."""

    target: Callable[..., Any] | str
    args: tuple[Any, ...]
    keywords: dict[str, Any] = {}


class Expected(NamedTuple):
    """An array, or a number of NumPy's, that a call gives."""

    dtype: torch.dtype
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    memory: int
    type: type
    writeable: bool
    view_of: int = -1
    """The index of the array of which NumPy has a view that no tensor can be."""

    def agrees(self, dtype: torch.dtype, sizes: tuple[int, ...], strides: tuple[int, ...], memory: int) -> bool:
        """Is a tensor like this what NumPy gives?"""
        if self.view_of >= 0:
            return (dtype, sizes, memory) == (self.dtype, self.sizes, -1)
        if (dtype, sizes, memory) != (self.dtype, self.sizes, self.memory):
            return False
        return 0 in sizes or all(a == b for size, a, b in zip(sizes, strides, self.strides, strict=True) if size > 1)


class Answer(NamedTuple):
    """`value`: constants, Stands and Calls. `expected`: of the same form; None of what is no array, ... for None."""

    value: Any
    expected: Any


def traces() -> bool:
    """Are calls of NumPy's captured? `torch._dynamo.config.trace_numpy` says so."""
    config = sys.modules.get("torch._dynamo.config")
    return config is None or bool(config.trace_numpy)


def has_dtype(dtype: torch.dtype) -> bool:
    """Has NumPy arrays of it, with which captures go on?"""
    return dtype in _NUMPY_DTYPES


# ---- asking NumPy


class _Unknown(Exception):
    """The call is carried out for real."""


def _data(dtype: np.dtype, count: int, whole: int) -> np.ndarray:
    """Numbers that most functions take."""
    if dtype.kind in "fc":
        return (np.arange(count) * 7919 % 101 / 101 + 0.25).astype(dtype)
    return np.full(count, whole, dtype)


def _like(stand: Stand, whole: int) -> Any:
    """An array like the one it stands for; whole numbers in it are `whole`."""
    dtype = _NUMPY_DTYPES[stand.dtype]
    if stand.type is not np.ndarray:
        return dtype.type(_data(dtype, 1, whole)[0])
    steps = [(size - 1) * stride for size, stride in zip(stand.sizes, stand.strides, strict=True)]
    reach = 1 + sum(map(abs, steps))
    if max(reach, math.prod(stand.sizes)) > _MOST_ELEMENTS:
        raise _Unknown
    strides = tuple(stride * dtype.itemsize for stride in stand.strides)
    data = _data(dtype, 0 if 0 in stand.sizes else reach, whole)
    start = data[-sum(step for step in steps if step < 0) :]
    like = np.lib.stride_tricks.as_strided(start, stand.sizes, strides) if data.size else np.zeros(stand.sizes, dtype)
    if like.ndim >= 2 and like.shape[-1] == like.shape[-2] and dtype.kind in "fc":  # positive definite, as matrices may have to be
        like[...] = (like + np.swapaxes(like, -1, -2)) / 2 + 2 * like.shape[-1] * np.eye(like.shape[-1])
    if not stand.writeable:
        like.flags.writeable = False
    return like


def _stands(tree: Any) -> Iterator[Stand]:
    if isinstance(tree, Stand):
        yield tree
    elif isinstance(tree, list | tuple):
        for item in tree:
            yield from _stands(item)
    elif isinstance(tree, dict):
        yield from _stands(list(tree.values()))


def _mapped(tree: Any, leaf: Callable[[Any], Any]) -> Any:
    if isinstance(tree, list | tuple):
        return type(tree)(_mapped(item, leaf) for item in tree)
    if isinstance(tree, dict):
        return {key: _mapped(value, leaf) for key, value in tree.items()}
    return leaf(tree)


def _applied(function: Any) -> Callable[..., Any]:
    if function is vars(np.ndarray)["__iter__"]:
        return tuple
    return function if callable(function) else function.__get__  # of a descriptor


class _Question:
    """One call: what NumPy gives for arrays like those of the program."""

    def __init__(self, function: Any, args: tuple[Any, ...], keywords: dict[str, Any], whole: int) -> None:
        self.args, self.keywords, self.whole = args, keywords, whole
        self.stands = {stand.index: stand for stand in _stands([args, keywords])}
        self.likes = {index: _like(stand, whole) for index, stand in self.stands.items()}
        try:
            with np.errstate(all="ignore"):
                self.result = _applied(function)(*self.real(args), **self.real(keywords))
        except Exception as error:  # what NumPy raises it raises in the program
            raise _Unknown from error

    def real(self, tree: Any) -> Any:
        """With arrays for Stands."""
        return _mapped(tree, lambda leaf: self.likes[leaf.index] if isinstance(leaf, Stand) else leaf)

    def expected(self, result: Any) -> Any:
        """The result as the graph must give it."""
        for index, like in self.likes.items():
            if result is like and isinstance(like, np.ndarray):
                return self.stands[index]
        if type(result) in (list, tuple):
            return type(result)(self.expected(item) for item in result)
        is_number = isinstance(result, np.generic)
        if (type(result) is not np.ndarray and not is_number) or result.dtype not in _TORCH_DTYPES:
            raise _Unknown
        dtype = _TORCH_DTYPES[result.dtype]
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
        return torch.from_numpy(np.array(_like(stand, whole)))
    writeable = Stand(stand.index, stand.memory, stand.dtype, stand.sizes, stand.strides, stand.type, True)
    return torch.from_numpy(np.asarray(_like(writeable, whole)))


class _Trial:
    """The calls of an answer, carried out on tensors like those of the program: they must do what NumPy did."""

    def __init__(self, question: _Question) -> None:
        self._question = question
        self._tensors = {index: _tensor_like(stand, question.whole) for index, stand in question.stands.items()}

    def adapted(self, value: Any, expected: Any) -> Answer:
        """With calls added that give the layout and the memory which NumPy gives."""
        try:
            made = self._carried_out(value)
        except Exception as error:
            raise _Unknown from error
        for index, like in self._question.likes.items():
            if isinstance(like, np.ndarray) and not _are_close(like, self._tensors[index].numpy()):
                raise _Unknown
        return Answer(*self._fitted(value, made, expected, self._question.result))

    def _carried_out(self, tree: Any) -> Any:
        if isinstance(tree, Call):
            args, keywords = self._carried_out(tree.args), self._carried_out(tree.keywords)
            return getattr(args[0], tree.target)(*args[1:]) if isinstance(tree.target, str) else tree.target(*args, **keywords)
        if isinstance(tree, list | tuple):
            return type(tree)(self._carried_out(item) for item in tree)
        if isinstance(tree, dict):
            return {key: self._carried_out(item) for key, item in tree.items()}
        return self._tensors[tree.index] if isinstance(tree, Stand) else tree

    def _fitted(self, value: Any, made: Any, expected: Any, result: Any) -> tuple[Any, Any]:
        if expected is None or expected is ... or isinstance(expected, Stand):
            return value, expected
        if not isinstance(expected, Expected):
            return self._fitted_parts(value, made, expected, result)
        if not isinstance(made, torch.Tensor) or made.device.type != "cpu" or made.dtype != expected.dtype:
            raise _Unknown
        if tuple(made.shape) != expected.sizes or not _are_close(np.asarray(result), made.resolve_conj().numpy()):
            raise _Unknown
        memory = self._memory_of(made)
        viewed = self._viewed(expected)
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
            raise _Unknown
        parts = value if isinstance(value, list | tuple) else [value] * len(made)
        fitted = [self._fitted(*part) for part in zip(parts, made, expected, result, strict=True)]
        values, kinds = [part for part, _ in fitted], type(expected)(kind for _, kind in fitted)
        if isinstance(value, list | tuple):
            return type(value)(values), kinds
        if any(part is not value for part in values):
            raise _Unknown
        return value, kinds

    def _viewed(self, expected: Expected) -> Stand | None:
        """The array of which this is a view that no tensor can be."""
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
    if expected.size > _MOST_COMPARED:
        return True
    if expected.dtype.kind not in "fc":
        return bool(np.array_equal(expected, found))
    tolerance = 1e-2 if expected.dtype == np.float16 else 1e-4 if expected.dtype.name in ("float32", "complex64") else 1e-9
    return bool(np.allclose(expected, found, rtol=tolerance, atol=tolerance, equal_nan=True))


def _laid_out(value: Any, strides: tuple[int, ...]) -> Any:
    """The value in memory of its own, whose dimensions lie in the order of the strides."""
    order = tuple(sorted(range(len(strides)), key=lambda d: -strides[d]))
    if order == tuple(range(len(strides))):
        return Call("contiguous", (value,))
    back = tuple(order.index(d) for d in range(len(strides)))
    return Call("permute", (Call("contiguous", (Call("permute", (value, order)),)), back))


# ---- what the graph calls


def _tensors(result: Any) -> Any:
    if isinstance(result, tnp.ndarray):
        return result.tensor
    if isinstance(result, list | tuple):
        return type(result)(_tensors(item) for item in result)
    return result


def _arrays(tree: Any) -> Any:
    return _mapped(tree, lambda leaf: tnp.ndarray(leaf) if isinstance(leaf, torch.Tensor) else leaf)


@functools.cache
def _wrapped(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of torch._numpy on tensors."""

    def call(*args: Any, **keywords: Any) -> Any:
        return _tensors(function(*_arrays(args), **_arrays(keywords)))

    call.__name__ = call.__qualname__ = f"wrapped_{name}"
    return call


def _get_item(array: Any, index: Any) -> Any:
    return array[index]


def _set_item(array: Any, index: Any, value: Any) -> None:
    array[index] = value


# ---- arguments


def _is_dtype(value: Any) -> bool:
    return isinstance(value, np.dtype) or (
        isinstance(value, type) and (issubclass(value, np.generic) or value in (float, int, bool, complex))
    )


def _operand(leaf: Any) -> Any:
    """A number of NumPy's is an operand of its own dtype."""
    if isinstance(leaf, np.generic):
        return Call(torch.full, ((), leaf.item()), {"dtype": _TORCH_DTYPES[leaf.dtype]})
    return _plain(leaf)


def _plain(leaf: Any) -> Any:
    if isinstance(leaf, np.generic):
        return leaf.item()
    if _is_dtype(leaf):
        return np.dtype(leaf).name
    return leaf


def _by_tnp(name: str, function: Callable[..., Any], args: Any, keywords: Any, leaf: Callable[[Any], Any]) -> Call:
    return Call(_wrapped(name, function), _mapped(args, leaf), _mapped(keywords, leaf))


# ---- functions without a form of their own

_Lower = Callable[[_Question], Any]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool | np.generic)


def _without_output(lower: _Lower) -> _Lower:
    """out= is written with what the call gives without it."""

    def lowered(question: _Question) -> Any:
        out = question.keywords.get("out")
        if out is None:
            return lower(question)
        out = out[0] if isinstance(out, tuple) and len(out) == 1 else out
        if not isinstance(out, Stand):
            raise _Unknown
        question.keywords = {key: value for key, value in question.keywords.items() if key != "out"}
        return Call("copy_", (out, lower(question)))

    return lowered


def _function(name: str, function: Callable[..., Any], leaf: Callable[[Any], Any] = _plain) -> _Lower:
    return _without_output(lambda question: _by_tnp(name, function, question.args, question.keywords, leaf))


def _elementwise(name: str, direct: Callable[..., Any] | None = None, *, scalars: bool = True) -> _Lower:
    """A ufunc whose operands NumPy converts to the dtype in which it computes.

    direct: the operator of torch; scalars: whether it takes Python numbers, too.
    """
    call = direct or _wrapped(name, getattr(tnp, name))

    def lowered(question: _Question) -> Any:
        if question.keywords:
            return _by_tnp(name, getattr(tnp, name), question.args, question.keywords, _operand)
        dtype = _loop_dtype(question)
        return Call(call, tuple(_converted(arg, dtype, scalars) for arg in question.args))

    return _without_output(lowered)


def _loop_dtype(question: _Question) -> torch.dtype:
    """In which NumPy computes: that of the result; of a truth, that of all operands."""
    result = question.result
    if not hasattr(result, "dtype") or result.dtype not in _TORCH_DTYPES:
        raise _Unknown
    likes = [np.asarray(like) if isinstance(like, list | tuple) else like for like in question.real(question.args)]
    common = np.result_type(*likes)
    if result.dtype.kind == "b" or (common.kind == "c" and result.dtype.kind == "f"):
        for like in likes:  # NumPy compares with whole numbers that do not fit
            if isinstance(like, int) and common.kind in "iu" and not np.iinfo(common).min <= like <= np.iinfo(common).max:
                raise _Unknown
        return _TORCH_DTYPES[common]
    return _TORCH_DTYPES[result.dtype]


def _converted(leaf: Any, dtype: torch.dtype, scalars: bool) -> Any:
    if isinstance(leaf, Stand):
        return leaf if leaf.dtype == dtype else Call("to", (leaf, dtype))
    number = leaf.item() if isinstance(leaf, np.generic) else leaf
    if isinstance(number, bool | int | float | complex):
        return number if scalars else Call(torch.full, ((), number), {"dtype": dtype})
    if not isinstance(leaf, list | tuple):
        raise _Unknown
    return Call(torch.tensor, (_mapped(leaf, _literal),), {"dtype": dtype})


def _literal(leaf: Any) -> Any:
    if isinstance(leaf, Stand):
        raise _Unknown
    return leaf.item() if isinstance(leaf, np.generic) else leaf


def _swapped(lower: _Lower) -> _Lower:
    def lowered(question: _Question) -> Any:
        question.args = question.args[::-1]
        return lower(question)

    return lowered


def _in_place(lower: _Lower) -> _Lower:
    return lambda question: Call("copy_", (question.args[0], lower(question)))


# ---- the tables

_SAME_IN_TORCH = (  # of one operand
    *("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt"),
    *("square", "floor", "ceil", "trunc", "absolute", "negative", "reciprocal", "arcsin", "arccos", "arctan"),
    *("arcsinh", "arccosh", "arctanh", "deg2rad", "rad2deg", "positive", "isnan", "isinf", "isfinite", "signbit"),
    *("logical_not", "bitwise_not"),
)
_OTHERWISE_NAMED = {
    **{"rint": torch.round, "fabs": torch.abs, "radians": torch.deg2rad, "degrees": torch.rad2deg},
    **{"conjugate": torch.conj_physical, "invert": torch.bitwise_not},
    **{"add": torch.add, "subtract": torch.sub, "multiply": torch.mul, "divide": torch.div},
    **{"floor_divide": torch.floor_divide, "remainder": torch.remainder},
}
_OF_TENSORS = (  # operators of torch that take no Python numbers, or not on the left
    *("fmod", "maximum", "minimum", "fmax", "fmin", "arctan2", "hypot", "copysign", "logaddexp", "matmul", "gcd", "lcm"),
    *("bitwise_and", "bitwise_or", "bitwise_xor", "logical_and", "logical_or", "logical_xor"),
    *("greater", "greater_equal", "less", "less_equal", "equal", "not_equal"),
)


def _sign(tensor: torch.Tensor) -> torch.Tensor:
    return torch.where(tensor == tensor, torch.sign(tensor), tensor)


def _power(question: _Question) -> Any:
    """NumPy raises for a whole number to the power of a negative one; torch gives some number."""
    exponent = question.args[1]
    if question.result.dtype.kind not in "fc" and not (type(exponent) is int and exponent >= 0):
        raise _Unknown
    return _elementwise("power", torch.pow)(question)


def _shift(direct: Callable[..., Any]) -> "_Lower":
    """By a known number of bits: torch's operators mean nothing by more than there are."""

    def lowered(question: _Question) -> Any:
        array, bits = question.args
        if question.keywords or not isinstance(array, Stand) or not isinstance(bits, int) or array.dtype == torch.bool:
            raise _Unknown
        if not 0 <= bits < 8 * question.result.itemsize or _TORCH_DTYPES[question.result.dtype] != array.dtype:
            raise _Unknown
        return Call(direct, (array, bits))

    return lowered


def _elementwise_table() -> dict[str, "_Lower"]:
    table = {name: _elementwise(name, getattr(torch, name)) for name in _SAME_IN_TORCH}
    table |= {name: _elementwise(name, direct) for name, direct in _OTHERWISE_NAMED.items()}
    others = {"equal": torch.eq, "absolute": torch.abs}
    table |= {name: _elementwise(name, others.get(name, getattr(torch, name)), scalars=False) for name in _OF_TENSORS}
    table["power"] = _power
    table["left_shift"] = _shift(torch.bitwise_left_shift)
    table["right_shift"] = _shift(torch.bitwise_right_shift)
    table["sign"] = _elementwise("sign", _sign)
    return table


_FUNCTIONS = (
    *("sum", "prod", "mean", "var", "std", "max", "min", "amax", "amin", "ptp", "argmax", "argmin", "all", "any"),
    *("cumsum", "cumprod", "count_nonzero", "average"),
    *("sort", "argsort", "searchsorted", "round", "around", "clip", "take", "take_along_axis"),
    *("transpose", "swapaxes", "moveaxis", "rollaxis", "squeeze", "expand_dims", "broadcast_to"),
    *("concatenate", "stack", "vstack", "hstack", "dstack", "column_stack"),
    *("flip", "fliplr", "flipud", "roll", "rot90", "tile", "repeat", "diff", "meshgrid", "triu", "tril"),
    *("diagonal", "trace", "outer", "inner", "dot", "vdot", "kron", "cross", "tensordot", "einsum"),
    *("real", "imag", "angle", "isclose"),
    *("zeros_like", "ones_like", "full_like", "copy", "atleast_1d", "atleast_2d", "atleast_3d"),
    *("isreal", "iscomplex", "sinc", "nan_to_num", "cov", "corrcoef"),
)
_LINALG = ("inv", "pinv", "det", "slogdet", "norm", "solve", "cholesky", "eigvalsh", "matrix_power", "cond", "matrix_rank")
_FFT = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn")

_METHODS = (
    *("sum", "prod", "mean", "var", "std", "max", "min", "ptp", "argmax", "argmin", "all", "any", "cumsum", "cumprod"),
    *("argsort", "searchsorted", "round", "clip", "take", "transpose", "swapaxes", "squeeze"),
    *("repeat", "diagonal", "trace", "dot", "conj", "conjugate", "copy"),
)
_OPERATORS = {
    **{"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide"},
    **{"mod": "remainder", "pow": "power", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor"},
    **{"matmul": "matmul", "lshift": "left_shift", "rshift": "right_shift"},
}
_COMPARISONS = {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal"}
_UNARY_OPERATORS = {"neg": "negative", "pos": "positive", "abs": "absolute", "invert": "invert"}

_OF_DATA = (
    *("__bool__", "__int__", "__float__", "__complex__", "__index__", "__repr__", "__str__", "__format__"),
    *("__contains__", "item", "tolist", "tobytes", "dump", "dumps", "tofile", "nonzero"),
)


def _rows(question: _Question) -> tuple[Call, ...]:
    array = question.args[0]
    return tuple(Call(operator.getitem, (array, i)) for i in range(array.sizes[0]))


def _is_basic(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return all(
        part is None or part is Ellipsis or isinstance(part, slice) or (isinstance(part, int) and part is not True and part is not False)
        for part in parts
    )


def _get(question: _Question) -> Any:
    array, index = question.args
    index = _mapped(index, _plain)
    if not _is_basic(index):
        return Call(_wrapped("getitem", _get_item), (array, index))
    forward = _reversed_slices(index)
    if forward is None:
        raise _Unknown
    read = Call(operator.getitem, (array, forward[0] if isinstance(index, tuple) else forward[0][0]))
    return Call(torch.flip, (read, forward[1])) if forward[1] else read


def _set(question: _Question) -> Any:
    array, index, value = question.args
    index, value = _mapped(index, _plain), _mapped(value, _operand)
    same = isinstance(value, Stand) and value.dtype == array.dtype
    if _is_basic(index) and (same or (_is_number(value) and array.dtype.is_floating_point)):
        return Call(operator.setitem, (array, index, value))
    return Call(_wrapped("setitem", _set_item), (array, index, value))


def _as_type(question: _Question) -> Any:
    array, *rest = question.args
    others = {key: value for key, value in question.keywords.items() if key not in ("dtype", "copy")}
    if len(rest) > 1 or others:
        raise _Unknown
    dtype = _TORCH_DTYPES[question.result.dtype]
    if question.result is question.likes.get(array.index):
        return array
    return Call("clone", (array,)) if dtype == array.dtype else Call("to", (array, dtype))


def _where(question: _Question) -> Any:
    condition, *choices = question.args
    if len(choices) != 2 or not isinstance(condition, Stand) or condition.dtype != torch.bool or question.keywords:
        raise _Unknown
    dtype = _TORCH_DTYPES[question.result.dtype]
    return Call(torch.where, (condition, *(_converted(choice, dtype, scalars=False) for choice in choices)))


def _reshaped(question: _Question) -> Any:
    array, *sizes = question.args
    if question.keywords or not sizes:
        raise _Unknown
    whole = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], list | tuple) else sizes
    return Call("reshape", (array, tuple(_plain(size) for size in whole)))


def _flattened(question: _Question) -> Any:
    if len(question.args) != 1 or question.keywords:
        raise _Unknown
    return Call("reshape", (question.args[0], (-1,)))


def _diagonal_of(question: _Question) -> Any:
    array, *offset = question.args
    if question.keywords:
        raise _Unknown
    return Call(torch.diagonal if len(array.sizes) == 2 else torch.diag, (array, *offset))


def _of_rank(name: str) -> _Lower:
    """np.percentile() and its like; torch._numpy keeps a dimension without axis=."""
    function = getattr(tnp, name)

    def lowered(question: _Question) -> Any:
        array, *rest = question.args
        if not isinstance(array, Stand) or not array.dtype.is_floating_point:
            raise _Unknown
        if len(rest) > (name != "median") or question.keywords.get("axis") is not None:
            return _by_tnp(name, function, question.args, question.keywords, _plain)
        keywords = {key: value for key, value in question.keywords.items() if key != "axis"}
        if "keepdims" in keywords:
            raise _Unknown
        flat = Call("reshape", (array, (-1,)))
        return Call(_wrapped(name, function), (flat, *_mapped(rest, _plain)), {**_mapped(keywords, _plain), "axis": 0})

    return lowered


def _transform(name: str) -> _Lower:
    """A function of np.fft: torch.fft has it with dim= for axis=."""
    direct = getattr(torch.fft, name)

    def lowered(question: _Question) -> Any:
        array, *rest = question.args
        names = {"axis": "dim", "axes": "dim"}
        keywords = {names.get(key, key): value for key, value in _mapped(question.keywords, _plain).items()}
        if not isinstance(array, Stand) or "out" in keywords:
            raise _Unknown
        whole = not (array.dtype.is_floating_point or array.dtype.is_complex)
        operand = Call("to", (array, torch.float64)) if whole else array
        return Call(direct, (operand, *_mapped(rest, _plain)), keywords)

    return lowered


def _copied(question: _Question) -> Any:
    """np.array(), np.asarray() and their like of one array, or of a list."""
    given = question.args[0] if question.args else None
    result = question.result
    if isinstance(given, Stand):
        if result is question.likes[given.index]:
            return given
        dtype = _TORCH_DTYPES[result.dtype]
        if result.ndim != len(given.sizes):
            raise _Unknown
        return Call("clone", (given,)) if dtype == given.dtype else Call("to", (given, dtype))
    return _by_tnp("array", tnp.array, question.args, question.keywords, _operand)


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


def _filled(question: _Question) -> Any:
    array, value = question.args
    return Call("fill_", (array, _plain(value)))


def _copy_into(question: _Question) -> Any:
    target, value = question.args
    if question.keywords or not isinstance(value, Stand):
        raise _Unknown
    return Call("copy_", (target, value))


def _transposed(question: _Question) -> Any:
    array = question.args[0]
    return Call("permute", (array, tuple(range(len(array.sizes)))[::-1]))


def _viewed(question: _Question) -> Any:
    if len(question.args) != 1 or question.keywords:
        raise _Unknown
    array = question.args[0]
    return Call("view_as", (array, array))


def _made(question: _Question) -> Any:
    """An array of known numbers: small ones stand in the graph as they are."""
    result = question.result
    if type(result) is not np.ndarray or result.dtype not in _TORCH_DTYPES:
        raise _Unknown
    if any(isinstance(arg, VaryingInt | VaryingFloat) for arg in [*question.args, *question.keywords.values()]):
        return None
    keywords = {"dtype": _TORCH_DTYPES[result.dtype]}
    flat = result.reshape(-1)
    if result.size and (flat[0] == flat).all():
        return Call(torch.full, (result.shape, flat[0].item()), keywords)
    if result.size <= _MOST_LITERALS:
        return Call(torch.tensor, (result.tolist(),), keywords)
    return None


_MOST_LITERALS = 64


def _maker(name: str) -> _Lower:
    by_tnp = _function(name, getattr(tnp, name))

    def lowered(question: _Question) -> Any:
        if question.stands:
            return by_tnp(question)
        made = _made(question)
        return by_tnp(question) if made is None else made

    return lowered


_MAKERS = ("zeros", "ones", "full", "eye", "identity", "arange", "linspace", "tri", "logspace", "geomspace")


class _Table:
    """What is known of NumPy's callables."""

    def __init__(self) -> None:
        self.rows: dict[Any, _Lower] = {}
        self.of_data: set[Any] = set()
        self.of_types: set[Any] = set()
        elementwise = _elementwise_table()
        for name, lower in elementwise.items():
            self.rows[getattr(np, name)] = lower
        for name in _FUNCTIONS:
            self.rows[getattr(np, name)] = _function(name, getattr(tnp, name))
        for name in _LINALG:
            self.rows[getattr(np.linalg, name)] = _function(name, getattr(tnp.linalg, name))
        for name in _FFT:
            self.rows[getattr(np.fft, name)] = _transform(name)
        for name in ("percentile", "quantile", "median"):
            self.rows[getattr(np, name)] = _of_rank(name)
        self.rows |= {np.where: _where, np.reshape: _reshaped, np.ravel: _flattened, np.diag: _diagonal_of}
        for name in _MAKERS:
            self.rows[getattr(np, name)] = _maker(name)
        for function in (np.array, np.asarray, np.ascontiguousarray, np.asanyarray):
            self.rows[function] = _copied
        self.rows[np.empty] = self.rows[np.zeros]
        self.rows[np.empty_like] = self.rows[np.zeros_like]
        self.rows[np.copyto] = _copy_into
        for cls in (np.ndarray, np.generic, *(dtype.type for dtype in _TORCH_DTYPES)):
            self._add_class(cls, elementwise)
        self._add_array()
        self._add_types()

    def _add(self, cls: type, name: str, lower: _Lower) -> None:
        if name in vars(cls):
            self.rows[vars(cls)[name]] = lower

    def _add_class(self, cls: type, elementwise: dict[str, _Lower]) -> None:
        for name, of_numpy in _OPERATORS.items():
            lower = elementwise[of_numpy]
            self._add(cls, f"__{name}__", lower)
            self._add(cls, f"__r{name}__", _swapped(lower))
            self._add(cls, f"__i{name}__", _in_place(lower))
        for name, of_numpy in itertools.chain(_COMPARISONS.items(), _UNARY_OPERATORS.items()):
            self._add(cls, f"__{name}__", elementwise[of_numpy])
        for name in _METHODS:
            self._add(cls, name, _function(name, getattr(tnp.ndarray, name)))
        for name in ("real", "imag"):
            self._add(cls, name, _function(name, getattr(tnp, name)))
        self._add(cls, "T", _transposed)
        self._add(cls, "astype", _as_type)
        for name in _OF_DATA:
            if name in vars(cls):
                self.of_data.add(vars(cls)[name])
        for name in ("dtype", "ndim", "itemsize", "nbytes", "strides", "shape", "size"):
            if name in vars(cls):
                self.of_types.add(vars(cls)[name])

    def _add_array(self) -> None:
        array = np.ndarray
        self._add(array, "__getitem__", _get)
        self._add(array, "__setitem__", _set)
        self._add(array, "__iter__", _rows)
        self._add(array, "__copy__", lambda question: Call("clone", (question.args[0],)))
        self._add(array, "fill", _filled)
        self._add(array, "reshape", _reshaped)
        self._add(array, "ravel", _flattened)
        self._add(array, "flatten", _flattened)
        self._add(array, "view", _viewed)
        self._add(array, "sort", _in_place(_function("sort", tnp.sort)))

    def _add_types(self) -> None:
        self.of_types |= {np.shape, np.ndim, np.size, np.result_type, np.can_cast, np.iscomplexobj, np.isrealobj}
        self.of_types |= {np.isscalar, np.issubdtype, np.dtype, np.finfo, np.iinfo, np.promote_types, np.shares_memory}
        self.of_types -= {np.shares_memory}
        for name, member in vars(np.dtype).items():
            if not isinstance(member, str | type) and name not in ("__new__", "__setstate__", "__reduce__"):
                self.of_types.add(member)
        for dtype in _TORCH_DTYPES:
            self.of_types.add(dtype.type)


_table = functools.cache(_Table)


def answer(function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Answer | str | None:
    """What a call of NumPy's comes to; a text: the method that asks for data; None: it is carried out for real."""
    try:
        return _answer(function, args, keywords)
    except Exception:
        if _strict:
            raise
        return None


_strict = False
"""In tests: what goes wrong here is an error, not a call carried out for real."""


def _answer(function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Answer | str | None:
    table = _table()
    if not traces():
        return None
    if function in table.of_data:
        return function.__qualname__
    lower = table.rows.get(function)
    if lower is None and function not in table.of_types:
        return None
    for whole in (0, 1):  # the one is a subscript, the other a divisor
        try:
            question = _Question(function, args, keywords, whole)
            if lower is None:
                return _of_types(question, function)
            if question.result is NotImplemented:
                return Answer(NotImplemented, None)
            expected = _expected(question, function)
            return _Trial(question).adapted(lower(question), expected)
        except _Unknown:
            continue
    return None


def _expected(question: _Question, function: Any) -> Any:
    if function in (vars(np.ndarray)["__setitem__"], vars(np.ndarray)["fill"], vars(np.ndarray)["sort"], np.copyto):
        return ...
    if function is vars(np.ndarray)["__iter__"]:
        return tuple(question.expected(item) for item in question.result)
    return question.expected(question.result)


def _of_types(question: _Question, function: Any) -> Answer | None:
    """What types and sizes say, whatever the data."""
    if isinstance(function, type) and issubclass(function, np.generic):
        if len(question.args) == 1 and isinstance(question.args[0], Stand) and not question.keywords:
            array = question.args[0]
            dtype = _TORCH_DTYPES[np.dtype(function)]
            value = Call("clone", (array,)) if dtype == array.dtype else Call("to", (array, dtype))
            return Answer(value, question.expected(question.result))
        return None
    return Answer(question.result, None)
