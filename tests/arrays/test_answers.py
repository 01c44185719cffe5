"""What calls of NumPy's come to gives NumPy's values, types, layouts and memory, over kinds of arrays."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from gramme import _numpy
from gramme._numpy import Answer, Call, Stand, answer
from gramme._numpy._table import _COMPARED, _FFT, _OF_TENSORS, _OTHERWISE_NAMED, _REDUCTIONS, _SAME_IN_TORCH
from gramme._numpy._values import TORCH_DTYPES, Expected

A = np.random.default_rng(0).standard_normal((3, 4))
SQUARE = A @ A.T + 3 * np.eye(3)
SPECIAL = np.array([0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan, 1e-300])
WHOLE = np.array([1, -2, 3, 4])
ONE = (
    A,
    A.astype("f4"),
    SPECIAL,
    WHOLE,
    np.arange(5, dtype="u1"),
    np.array([True, False]),
    A.T,
    A + 1j * A,
    np.array(2.5),
)
OTHERS = ("rint", "fabs", "radians", "degrees", "conjugate", "invert")
TWO: tuple[tuple[Any, Any], ...] = (
    (A, A[0]),
    (A, 2.0),
    (2.0, A),
    (A.astype("f4"), 2.0),
    (A.astype("f4"), A[0]),
    (A.astype("f4"), np.float64(2)),
    (SPECIAL, SPECIAL[::-1].copy()),
    (WHOLE, 2),
    (2, WHOLE),
    (WHOLE, WHOLE),
    (WHOLE.astype("i1"), 3),
    (WHOLE, 2.5),
    (np.array([True, False]), np.array([True, True])),
    (np.array([True, False]), 1.5),
    (A, np.arange(4)),
    (A.T, A.T),
    (WHOLE, [1, 2, 3, 4]),
    (SPECIAL, 0.0),
)
INDICES = (
    *(0, (0, 0), slice(1, None), (slice(None), 1), (..., -1), None, (slice(None, None, 2),), [0, 2], (0, ...)),
    *((slice(None), [1, 0]), np.array([0, 1]), (np.array([0, 1]), 0), (np.array([0, 1]), slice(None), None)),
    *((..., slice(None, None, -1)), slice(None, None, -1), (None, ..., slice(None, None, -1), 0)),
)
CALLS: tuple[tuple[Any, ...], ...] = (
    *((np.reshape, A, (4, 3)), (np.reshape, A.T, (3, 4)), (np.ravel, A.T), (np.where, A > 0, A, 0.0)),
    *(
        (np.where, A > 0, 1, -1),
        (np.concatenate, [A, A.astype("f4")]),
        (np.stack, [A, A], -1),
        (np.vstack, [A[0], A[1]]),
    ),
    *((np.tile, A, (2, 1)), (np.repeat, A, 2), (np.meshgrid, A[0], A[1]), (np.outer, A[0], A[1]), (np.dot, A, A[0])),
    *((np.einsum, "ij,kj->ik", A, A), (np.percentile, A, 30), (np.quantile, A, [0.1, 0.5]), (np.median, A, 0)),
    *((np.clip, A, None, 1), (np.sort, A, 0), (np.argsort, A.T), (np.cumsum, A, 1), (np.diff, A), (np.triu, A)),
    *((np.linalg.inv, SQUARE), (np.linalg.det, SQUARE), (np.linalg.solve, SQUARE, A), (np.linalg.cholesky, SQUARE)),
    *((np.linalg.norm, A), (np.linalg.norm, A, None, 1), (np.zeros, (2, 3), "f4"), (np.arange, 0.0, 1.0, 0.1)),
    *((np.linspace, 0, 1, 200), (np.array, [A[0], A[1]]), (np.asarray, A), (np.ascontiguousarray, A.T), (np.diag, A)),
    *((np.ndarray.astype, A, "f4"), (np.ndarray.astype, A, float), (np.ndarray.copy, A.T), (np.full_like, A, 2.0)),
    *((np.take, A, [0, 1], 1), (np.searchsorted, np.sort(A[0]), A[1]), (np.roll, A, 1, 0), (np.round, A, 1)),
)


def stood_for(tree: Any, arrays: list[np.ndarray]) -> Any:
    if isinstance(tree, list | tuple):
        return type(tree)(stood_for(item, arrays) for item in tree)
    if not isinstance(tree, np.ndarray):
        return tree
    arrays.append(tree)
    at, strides = len(arrays) - 1, tuple(stride // tree.itemsize for stride in tree.strides)
    return Stand(at, at, TORCH_DTYPES[tree.dtype], tree.shape, strides, np.ndarray, tree.flags.writeable)


def carried_out(tree: Any, tensors: list[torch.Tensor]) -> Any:
    if isinstance(tree, Call):
        args = carried_out(tree.args, tensors)
        keywords = {name: carried_out(value, tensors) for name, value in tree.keywords.items()}
        function = getattr(args[0], tree.target) if isinstance(tree.target, str) else tree.target
        return function(*args[isinstance(tree.target, str) :], **keywords)
    if isinstance(tree, list | tuple):
        return type(tree)(carried_out(item, tensors) for item in tree)
    return tensors[tree.index] if isinstance(tree, Stand) else tree


def memory_of(tensor: torch.Tensor, tensors: list[torch.Tensor]) -> int:
    storage = tensor.untyped_storage().data_ptr()
    shared = [i for i, other in enumerate(tensors) if other.untyped_storage().data_ptr() == storage and tensor.numel()]
    return shared[0] if shared else -1


def check(expected: Any, found: Any, real: Any, tensors: list[torch.Tensor]) -> None:
    if isinstance(expected, list | tuple) and not isinstance(expected, Expected):
        assert len(expected) == len(found) == len(real)
        for parts in zip(expected, found, real, strict=True):
            check(*parts, tensors)
    elif isinstance(expected, Expected):
        memory = memory_of(found, tensors)
        assert expected.type is type(real)
        assert expected.agrees(found.dtype, tuple(found.shape), found.stride(), memory)
        exact = {"float16": 1e-2, "float32": 1e-4, "complex64": 1e-4}.get(str(real.dtype), 1e-9)
        assert np.allclose(found.numpy(), real, rtol=exact, atol=1e-6 if exact > 1e-9 else 1e-12, equal_nan=True)


def compare(function: Any, *args: Any, **keywords: Any) -> bool:
    """True if the call is captured; then it gives what NumPy gives."""
    arrays: list[np.ndarray] = []
    stands, named = stood_for(args, arrays), {key: stood_for(value, arrays) for key, value in keywords.items()}
    try:
        with np.errstate(all="ignore"):
            real = function(*args, **keywords)
    except (TypeError, ValueError):  # types that NumPy refuses
        return False
    found = answer(function, stands, named)
    if not isinstance(found, Answer):
        return False
    tensors = [torch.from_numpy(array) for array in arrays]
    check(found.expected, carried_out(found.value, tensors), real, tensors)
    return True


@pytest.fixture(autouse=True)
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_numpy, "_strict", True)


@pytest.mark.parametrize("name", [*_SAME_IN_TORCH, *OTHERS, "sign"])
def test_functions_of_one_operand(name: str) -> None:
    captured = [compare(getattr(np, name), operand) for operand in ONE]
    assert sum(captured) >= 2


BINARY = {*_OTHERWISE_NAMED, *_OF_TENSORS, *_COMPARED, "power"} - {
    "rint",
    "fabs",
    "radians",
    "degrees",
    "conjugate",
    "invert",
}


@pytest.mark.parametrize("name", sorted(BINARY - {"matmul"}))
def test_functions_of_two_operands(name: str) -> None:
    captured = [compare(getattr(np, name), *operands) for operands in TWO]
    assert sum(captured) >= 3


@pytest.mark.parametrize("name", sorted(_REDUCTIONS))
def test_reductions(name: str) -> None:
    function = getattr(np, name)
    for array in (A, A.astype("f4"), A.T, A[0], A > 0, WHOLE):
        compare(function, array)
        compare(function, array, axis=-1)
        compare(function, array, axis=0, keepdims=True)
    assert compare(function, A)
    assert compare(function, A, axis=0, keepdims=True)


@pytest.mark.parametrize("name", _FFT)
def test_transforms(name: str) -> None:
    assert compare(getattr(np.fft, name), A)
    assert compare(getattr(np.fft, name), A.astype("f4"))


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_subscripts(index: Any) -> None:
    assert compare(np.ndarray.__getitem__, A, index)


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call[0].__name__)
def test_other_functions(call: tuple[Any, ...]) -> None:
    assert compare(*call)


REDUCE, ACCUMULATE, OUTER, AT = (vars(np.ufunc)[name] for name in ("reduce", "accumulate", "outer", "at"))
DIVMOD = vars(np.ndarray)["__divmod__"]
MASK = A > 0
OF_UFUNCS: tuple[tuple[Any, ...], ...] = (
    *((REDUCE, np.add, A), (REDUCE, np.multiply, A, 1), (REDUCE, np.maximum, A, None), (REDUCE, np.logical_or, MASK)),
    *((ACCUMULATE, np.add, A), (ACCUMULATE, np.multiply, A, 1), (ACCUMULATE, np.maximum, A, -1)),
    *((ACCUMULATE, np.minimum, WHOLE), (OUTER, np.multiply, A[0], A[1]), (OUTER, np.subtract, A, WHOLE)),
    *((np.divmod, A, 0.5), (np.divmod, WHOLE, 3), (DIVMOD, A, A), (np.divmod, A.astype("f4"), 2)),
)
KEYWORDS: tuple[tuple[Any, Any, dict[str, Any]], ...] = (
    *((np.sum, A, {"where": MASK}), (np.prod, A, {"where": MASK, "axis": 0}), (np.any, MASK, {"where": MASK})),
    *((np.sum, A, {"initial": 2.0}), (np.max, A, {"initial": 0.0, "axis": 1}), (np.min, A, {"initial": -9})),
)
INTO: tuple[tuple[Any, tuple[Any, ...], dict[str, Any]], ...] = (
    (np.add, (A, 1, A.copy()), {}),
    (np.add, (A, 1), {"out": A.copy(), "where": MASK}),
    (np.divide, (A, A[0]), {"out": np.zeros((3, 4), "f4"), "where": MASK}),
    (np.sqrt, (A,), {"out": np.zeros((3, 4)), "where": MASK[0]}),
    (REDUCE, (np.add, A, 0), {"out": np.zeros(4)}),
    (np.copyto, (A.copy(), A[::-1].copy()), {"where": MASK}),
    (np.copyto, (A.copy(), 2), {}),
    (np.putmask, (A.copy(), MASK, 0.5), {}),
    (AT, (np.add, A.copy(), np.array([0, 2, 0]), 1.0), {}),
    (AT, (np.subtract, WHOLE.copy(), np.array([0, 3, 3]), WHOLE[:3].copy()), {}),
    (AT, (np.add, A.copy(), (np.array([0, 2, 0]), np.array([1, 1, 1])), A[:, 0].copy()), {}),
)


@pytest.mark.parametrize("call", OF_UFUNCS, ids=lambda call: f"{call[0].__name__}-{call[1]!s:.20}")
def test_methods_of_ufuncs(call: tuple[Any, ...]) -> None:
    assert compare(*call)


@pytest.mark.parametrize("call", KEYWORDS, ids=lambda call: "-".join([call[0].__name__, *call[2]]))
def test_reductions_of_some_elements(call: tuple[Any, Any, dict[str, Any]]) -> None:
    function, array, keywords = call
    assert compare(function, array, **keywords)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("call", INTO, ids=lambda call: "-".join([call[0].__name__, *call[2]]))
def test_what_is_written(call: tuple[Any, tuple[Any, ...], dict[str, Any]], exact: bool) -> None:
    """Each array has the same content as after NumPy's call; another one for exact: the same bits."""
    function, args, keywords = copy.deepcopy(call)
    arrays: list[np.ndarray] = []
    stands, named = stood_for(args, arrays), {key: stood_for(value, arrays) for key, value in keywords.items()}
    found = answer(function, stands, named, exact)
    assert isinstance(found, Answer)
    copies = [array.copy() for array in arrays]
    function(*args, **keywords)
    assert any(not np.array_equal(a, b) for a, b in zip(arrays, copies, strict=True))
    carried_out(found.value, [torch.from_numpy(array) for array in copies])
    for array, found_one in zip(arrays, copies, strict=True):
        np.testing.assert_allclose(found_one, array, rtol=0 if exact else 1e-6, strict=True)


def test_elements_of_no_value_have_no_answer() -> None:
    """Without out= those that where= leaves out are whatever the memory held."""
    assert not compare(np.add, A, 1.0, where=MASK)


@pytest.mark.parametrize("call", [call for call in CALLS if call[0] not in (np.asarray, np.diag)])
def test_exact_calls_have_the_bits_of_numpy(call: tuple[Any, ...]) -> None:
    function, *args = call
    arrays: list[np.ndarray] = []
    found = answer(function, stood_for(tuple(args), arrays), {}, True)
    assert isinstance(found, Answer) or not arrays
    if isinstance(found, Answer):
        made, real = carried_out(found.value, [torch.from_numpy(array) for array in arrays]), function(*args)
        for ours, theirs in zip([made] if hasattr(made, "numpy") else made, [real] if hasattr(made, "numpy") else real):
            np.testing.assert_array_equal(ours.numpy(), theirs, strict=type(theirs) is np.ndarray)


def test_what_raises_or_depends_on_data_has_no_answer() -> None:
    assert not compare(np.add, A, np.ones(3))
    assert not compare(np.power, WHOLE, WHOLE)
    assert not compare(np.allclose, A, A)
    assert not compare(np.linalg.slogdet, SQUARE)  # a named tuple
    assert answer(np.ndarray.item, (stood_for(A, []),), {}) == "ndarray.item"
    assert answer(np.nonzero, (stood_for(A, []),), {}) is None
