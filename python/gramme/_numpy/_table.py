"""The table of NumPy's callables with their translations."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from gramme._numpy._calls import Lower, converted, function_of, in_place, output_of, plain, swapped, ufunc
from gramme._numpy._forms import (
    as_type,
    copied,
    copy_into,
    diagonal_of,
    filled,
    flattened,
    maker,
    of_rank,
    reshaped,
    transform,
    transposed,
    viewed,
    where,
)
from gramme._numpy._items import get_item, rows, set_item
from gramme._numpy._question import Question
from gramme._numpy._ufuncs import REDUCED, accumulated, at, both, is_mask, masked, outer, reduced
from gramme._numpy._values import TORCH_DTYPES, Call, Stand, UnknownCallError
from gramme._torch.names import torch_numpy as tnp
from gramme._torch.names import torch_numpy_array

_SAME_IN_TORCH = (  # of one operand
    *("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt"),
    *("square", "floor", "ceil", "trunc", "absolute", "negative", "reciprocal", "arcsin", "arccos", "arctan"),
    *("arcsinh", "arccosh", "arctanh", "deg2rad", "rad2deg", "positive", "isnan", "isinf", "isfinite", "signbit"),
    *("logical_not", "bitwise_not"),
)
_OTHERWISE_NAMED: dict[str, Any] = {
    "rint": torch.round,
    "fabs": torch.abs,
    "radians": torch.deg2rad,
    "degrees": torch.rad2deg,
    "conjugate": torch.conj_physical,
    "invert": torch.bitwise_not,
    "add": torch.add,
    "subtract": torch.sub,
    "multiply": torch.mul,
    "divide": torch.div,
    "floor_divide": torch.floor_divide,
    "remainder": torch.remainder,
}
_OF_TENSORS = (  # operators of torch that take no Python numbers, or not on the left
    *(
        "fmod",
        "maximum",
        "minimum",
        "fmax",
        "fmin",
        "arctan2",
        "hypot",
        "copysign",
        "logaddexp",
        "matmul",
        "gcd",
        "lcm",
    ),
    *("bitwise_and", "bitwise_or", "bitwise_xor", "logical_and", "logical_or", "logical_xor"),
)
_COMPARED = ("greater", "greater_equal", "less", "less_equal", "equal", "not_equal")


_REDUCTIONS: dict[str, Any] = {
    **{name: getattr(torch, name) for name in ("sum", "mean", "prod", "var", "std", "argmax", "argmin", "any", "all")},
    "max": torch.amax,
    "min": torch.amin,
    "amax": torch.amax,
    "amin": torch.amin,
}


def _sign(tensor: torch.Tensor) -> torch.Tensor:
    return torch.where(tensor == tensor, torch.sign(tensor), tensor)


def _power(question: Question) -> Any:
    """Powers: NumPy raises for an int with a negative int exponent; torch returns some number."""
    exponent = question.args[1]
    if question.result.dtype.kind not in "fc" and not (type(exponent) is int and exponent >= 0):
        raise UnknownCallError
    return ufunc("power", torch.pow)(question)


def _magnitude(tensor: torch.Tensor) -> torch.Tensor:
    real, imag = torch.view_as_real(tensor).unbind(-1)
    return torch.hypot(real, imag)


def _absolute(lower: Lower) -> Lower:
    """Absolute values; of complex numbers from their parts, in a third of the time of torch.abs."""

    def lowered(question: Question) -> Any:
        array = question.args[0]
        if question.keywords or not isinstance(array, Stand) or not array.dtype.is_complex:
            return lower(question)
        return Call(_magnitude, (array,))

    return lowered


def _shift(direct: Callable[..., Any]) -> "Lower":
    """Shifts by a known number of bits: in torch, shifts by more bits than the dtype has are undefined."""

    def lowered(question: Question) -> Any:
        array, bits = question.args
        if question.keywords or not isinstance(array, Stand) or not isinstance(bits, int) or array.dtype == torch.bool:
            raise UnknownCallError
        if not 0 <= bits < 8 * question.result.itemsize or TORCH_DTYPES[question.result.dtype] != array.dtype:
            raise UnknownCallError
        return Call(direct, (array, bits))

    return lowered


def _is_whole(array: Stand) -> bool:
    return not array.dtype.is_floating_point and not array.dtype.is_complex


_NEUTRAL = {"sum": 0, "prod": 1, "any": False, "all": True}
_JOINED: dict[str, Any] = {"sum": torch.add, "prod": torch.mul, "max": torch.maximum, "min": torch.minimum}


def _reduction(name: str) -> Lower:
    """Reductions over all elements, or along known axes."""
    direct = _REDUCTIONS[name]
    by_name = function_of(name, getattr(tnp, name))

    def lowered(question: Question) -> Any:
        names = {"axis": "dim", "keepdims": "keepdim", "ddof": "correction"}
        array, *axes = question.args
        given = dict(question.keywords) | ({"axis": axes[0]} if len(axes) == 1 else {})
        array, joined = _restricted(name, array, given)
        if name in ("mean", "var", "std") and isinstance(array, Stand) and _is_whole(array):
            array = Call("to", (array, torch.float64))
        known = name in ("var", "std") or "ddof" not in given
        if len(axes) > 1 or not isinstance(array, Stand | Call) or not given.keys() <= names.keys() or not known:
            return unrestricted(question)
        if name in ("var", "std"):
            given.setdefault("ddof", 0)
        elif given.get("axis") is None:
            return unrestricted(question) if given.keys() - {"axis"} else joined(Call(direct, (array,)))
        return joined(Call(direct, (array,), {names[key]: plain(value) for key, value in given.items()}))

    def unrestricted(question: Question) -> Any:
        if question.keywords.keys() & {"where", "initial"}:
            raise UnknownCallError
        return by_name(question)

    return lowered


def _restricted(name: str, array: Any, given: dict[str, Any]) -> tuple[Any, Callable[[Call], Call]]:
    """Applies where= and initial= of a reduction; both are removed from `given`."""
    mask, initial = given.pop("where", True), given.pop("initial", None)
    if mask is True and initial is None:
        return array, lambda value: value
    if not isinstance(array, Stand):
        raise UnknownCallError
    dtype = array.dtype
    if mask is not True:
        if name not in _NEUTRAL or not is_mask(mask):
            raise UnknownCallError
        array = Call(torch.where, (mask, array, converted(_NEUTRAL[name], array.dtype, scalars=False)))
    if initial is None:
        return array, lambda value: value
    if name not in _JOINED or not isinstance(initial, int | float):
        raise UnknownCallError
    first = Call(torch.full, ((), plain(initial)), {"dtype": dtype})
    return array, lambda value: Call(_JOINED[name], (value, first))


def _elementwise_table() -> dict[str, "Lower"]:
    table = {name: ufunc(name, getattr(torch, name)) for name in _SAME_IN_TORCH}
    table |= {name: ufunc(name, direct) for name, direct in _OTHERWISE_NAMED.items()}
    table |= {name: ufunc(name, getattr(torch, name), scalars=False) for name in _OF_TENSORS}
    compared = {name: torch.eq if name == "equal" else getattr(torch, name) for name in _COMPARED}
    table |= {name: ufunc(name, direct, scalars=False, right=True) for name, direct in compared.items()}
    table["power"] = _power
    table["left_shift"] = _shift(torch.bitwise_left_shift)
    table["right_shift"] = _shift(torch.bitwise_right_shift)
    table["sign"] = ufunc("sign", _sign)
    table["absolute"] = _absolute(table["absolute"])
    return table


_FUNCTIONS = (
    *("ptp", "cumsum", "cumprod", "count_nonzero", "average"),
    *("sort", "argsort", "searchsorted", "round", "around", "clip", "take", "take_along_axis"),
    *("transpose", "swapaxes", "moveaxis", "rollaxis", "squeeze", "expand_dims", "broadcast_to"),
    *("concatenate", "stack", "vstack", "hstack", "dstack", "column_stack"),
    *("flip", "fliplr", "flipud", "roll", "rot90", "tile", "repeat", "diff", "meshgrid", "triu", "tril"),
    *("diagonal", "trace", "outer", "inner", "dot", "vdot", "kron", "cross", "tensordot", "einsum"),
    *("real", "imag", "angle", "isclose"),
    *("zeros_like", "ones_like", "full_like", "copy", "atleast_1d", "atleast_2d", "atleast_3d"),
    *("isreal", "iscomplex", "sinc", "nan_to_num", "cov", "corrcoef"),
)
_LINALG = (
    "inv",
    "pinv",
    "det",
    "slogdet",
    "norm",
    "solve",
    "cholesky",
    "eigvalsh",
    "matrix_power",
    "cond",
    "matrix_rank",
)
_FFT = (
    "fft",
    "ifft",
    "rfft",
    "irfft",
    "hfft",
    "ihfft",
    "fft2",
    "ifft2",
    "rfft2",
    "irfft2",
    "fftn",
    "ifftn",
    "rfftn",
    "irfftn",
)

_METHODS = (
    *("ptp", "cumsum", "cumprod"),
    *("argsort", "searchsorted", "round", "clip", "take", "transpose", "swapaxes", "squeeze"),
    *("repeat", "diagonal", "trace", "dot", "conj", "conjugate", "copy"),
)
_OPERATORS = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pow": "power",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "matmul": "matmul",
    "lshift": "left_shift",
    "rshift": "right_shift",
}
_COMPARISONS = {
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "eq": "equal",
    "ne": "not_equal",
}
_UNARY_OPERATORS = {"neg": "negative", "pos": "positive", "abs": "absolute", "invert": "invert"}

_OF_DATA = (
    *("__bool__", "__int__", "__float__", "__complex__", "__index__", "__repr__", "__str__", "__format__"),
    *("__contains__", "item", "tolist", "tobytes", "dump", "dumps", "tofile", "nonzero"),
)


_MAKERS = ("zeros", "ones", "full", "eye", "identity", "arange", "linspace", "tri", "logspace", "geomspace")


class Table:
    """The known callables of NumPy."""

    def __init__(self) -> None:
        self.rows: dict[Any, Lower] = {}
        self.of_data: set[Any] = set()
        self.of_types: set[Any] = set()
        self._writers: dict[Any, int] = {np.copyto: 0, np.putmask: 0, vars(np.ufunc)["at"]: 1}
        elementwise = _elementwise_table()
        for name, lower in elementwise.items():
            self.rows[getattr(np, name)] = lower
        for name in _FUNCTIONS:
            self.rows[getattr(np, name)] = function_of(name, getattr(tnp, name))
        for name in _REDUCTIONS:
            self.rows[getattr(np, name)] = _reduction(name)
        for name in _LINALG:
            self.rows[getattr(np.linalg, name)] = function_of(name, getattr(tnp.linalg, name))
        for name in _FFT:
            self.rows[getattr(np.fft, name)] = transform(name)
        for name in ("percentile", "quantile", "median"):
            self.rows[getattr(np, name)] = of_rank(name)
        self.rows |= {np.where: where, np.reshape: reshaped, np.ravel: flattened, np.diag: diagonal_of}
        for name in _MAKERS:
            self.rows[getattr(np, name)] = maker(name)
        for function in (np.array, np.asarray, np.ascontiguousarray, np.asanyarray):
            self.rows[function] = copied
        self.rows[np.empty] = self.rows[np.zeros]
        self.rows[np.empty_like] = self.rows[np.zeros_like]
        self.rows[np.copyto] = copy_into
        self.rows[np.putmask] = masked
        self.rows[np.divmod] = both(elementwise["floor_divide"], elementwise["remainder"])
        for cls in (np.ndarray, np.generic, *(dtype.type for dtype in TORCH_DTYPES)):
            self._add_class(cls, elementwise)
        self._add_array()
        self._add_methods_of_ufuncs()
        self._add_types()

    def written(self, function: Any, question: Question) -> int | None:
        """The index of the array that the call writes."""
        place = self._writers.get(function)
        target = output_of(question) if place is None else question.args[place]
        if target is not None and not isinstance(target, Stand):
            raise UnknownCallError
        return target.index if target is not None else None

    def gives_nothing(self, function: Any) -> bool:
        return function in self._writers and not getattr(function, "__name__", "").startswith("__i")

    def _add(self, cls: type, name: str, lower: Lower) -> None:
        if name in vars(cls):
            self.rows[vars(cls)[name]] = lower

    def _add_class(self, cls: type, elementwise: dict[str, Lower]) -> None:
        for name, of_numpy in _OPERATORS.items():
            lower = elementwise[of_numpy]
            self._add(cls, f"__{name}__", lower)
            self._add(cls, f"__r{name}__", swapped(lower))
            self._add(cls, f"__i{name}__", in_place(lower))
            if f"__i{name}__" in vars(cls):
                self._writers[vars(cls)[f"__i{name}__"]] = 0
        division = both(elementwise["floor_divide"], elementwise["remainder"])
        self._add(cls, "__divmod__", division)
        self._add(cls, "__rdivmod__", swapped(division))
        for name, of_numpy in itertools.chain(_COMPARISONS.items(), _UNARY_OPERATORS.items()):
            self._add(cls, f"__{name}__", elementwise[of_numpy])
        for name in _METHODS:
            self._add(cls, name, function_of(name, getattr(torch_numpy_array, name)))
        for name in _REDUCTIONS:
            self._add(cls, name, _reduction(name))
        for name in ("real", "imag"):
            self._add(cls, name, function_of(name, getattr(tnp, name)))
        self._add(cls, "T", transposed)
        self._add(cls, "astype", as_type)
        for name in _OF_DATA:
            if name in vars(cls):
                self.of_data.add(vars(cls)[name])
        for name in ("dtype", "ndim", "itemsize", "nbytes", "strides", "shape", "size"):
            if name in vars(cls):
                self.of_types.add(vars(cls)[name])

    def _add_array(self) -> None:
        array = np.ndarray
        self._add(array, "__getitem__", get_item)
        self._add(array, "__setitem__", set_item)
        self._add(array, "__iter__", rows)
        self._add(array, "__copy__", lambda question: Call("clone", (question.args[0],)))
        self._add(array, "fill", filled)
        self._add(array, "reshape", reshaped)
        self._add(array, "ravel", flattened)
        self._add(array, "flatten", flattened)
        self._add(array, "view", viewed)
        self._add(array, "sort", in_place(self.rows[np.sort]))
        for name in ("__setitem__", "fill", "sort"):
            self._writers[vars(array)[name]] = 0

    def _add_methods_of_ufuncs(self) -> None:
        reductions = {name: self.rows[getattr(np, name)] for name in REDUCED.values()}
        lowers = {"reduce": reduced(reductions), "accumulate": accumulated, "outer": outer, "at": at}
        for name, lower in lowers.items():
            self._add(np.ufunc, name, lower)

    def _add_types(self) -> None:
        self.of_types |= {np.shape, np.ndim, np.size, np.result_type, np.can_cast, np.iscomplexobj, np.isrealobj}
        self.of_types |= {np.isscalar, np.issubdtype, np.dtype, np.promote_types}
        for name, member in vars(np.dtype).items():
            if not isinstance(member, str | type) and name not in ("__new__", "__setstate__", "__reduce__"):
                self.of_types.add(member)
        for dtype in TORCH_DTYPES:
            self.of_types.add(dtype.type)
