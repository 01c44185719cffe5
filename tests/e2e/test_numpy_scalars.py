"""Scalars of NumPy, and its functions on numbers that are known: computed in the capture, with NumPy's bits."""

import warnings
from collections.abc import Callable
from typing import Any

import gramme
import numpy as np
import pytest
import torch

from e2e.front import GRAMME

pytestmark = pytest.mark.skipif(not GRAMME, reason="PyTorch's front end makes tensors of them")

X = torch.linspace(-1, 2, 6).view(2, 3)
N = torch.arange(6).view(2, 3)


def same(got: Any, want: Any) -> bool:
    if isinstance(want, torch.Tensor):
        return isinstance(got, torch.Tensor) and got.dtype == want.dtype and torch.equal(got, want)
    if isinstance(want, list | tuple):
        return type(got) is type(want) and len(got) == len(want) and all(map(same, got, want))
    return type(got) is type(want) and (repr(got) == repr(want))


SCALARS = [np.float64(2.5), np.float32(0.1), np.float16(0.1), np.int64(3), np.int32(-3), np.int8(3), np.uint8(3)]


@pytest.mark.parametrize("x", [X, N], ids=["float", "int"])
@pytest.mark.parametrize("s", SCALARS, ids=lambda s: type(s).__name__)
def test_operators_with_tensors(s: Any, x: torch.Tensor) -> None:
    def program(x: torch.Tensor, s: Any) -> Any:
        y = x + 1
        y = y * s
        return x + s, s + x, x - s, s - x, x * s, s * x, x / s, s / (x + 5), x < s, s <= x, x == s, y

    entry = gramme.compile(program, backend="eager", fullgraph=True)
    for _ in range(2):
        assert same(entry(x, s), program(x, s))
    other = type(s)(1)
    assert same(entry(x, other), program(x, other))
    assert same(entry(x, s), program(x, s))
    assert gramme.statistics(entry).captures == 2


@pytest.mark.parametrize("s", [*SCALARS, np.bool_(True)], ids=lambda s: type(s).__name__)
def test_operators_with_numbers(s: Any) -> None:
    def program(x: torch.Tensor, s: Any) -> Any:
        t = s + 1
        t += 2
        parts = s * 2, 2 * s, s / 3, s // 2, s % 2, s**2, s < 3, s == 3, 3 != s, s + True, s * 2.5, abs(s)
        taken = float(s), int(s), bool(s), round(float(s), 1), str(s), f"{s}", repr(s), s.item(), max(s, 2), min(3, s)
        return parts, taken, t, (x * 2 if s else x), isinstance(s, float), isinstance(s, np.generic), s is None

    entry = gramme.compile(program, backend="eager", fullgraph=True)
    for _ in range(2):
        assert same(entry(X, s), program(X, s))


def of_math(x: torch.Tensor) -> Any:
    return x * np.sqrt(2.0), x / np.log(x.shape[1]), x + np.exp(-0.5), x * float(np.sin(1)), x * np.power(2, 0.5)


def of_shapes(x: torch.Tensor) -> Any:
    count = np.prod(x.shape)
    half = int(np.ceil(x.shape[1] / 2))
    return (
        x.view(count),
        x.reshape(int(count)),
        x[:, :half],
        torch.zeros(count),
        list(range(np.int64(2))),
        x[np.int64(1)],
    )


def of_lists(x: torch.Tensor) -> Any:
    sizes = [1, 2, 3]
    return x * np.mean(sizes), x * np.max(sizes), x + np.sum(sizes), x.sum() * np.clip(5, 0, 2), np.isclose(1.0, 1.0)


def of_conversions(x: torch.Tensor) -> Any:
    return x * np.float32(0.1), x * np.float64(1), np.float32(1) / 3, np.int64(7), np.float64(x.shape[0]) * 2, x + np.pi


def in_arguments(x: torch.Tensor) -> Any:
    bound = np.sqrt(2.0)
    return (
        x.clamp(max=bound),
        torch.full((2,), bound),
        torch.mul(x, bound),
        torch.where(x > 0, x, bound),
        (x + 2).pow(bound),
    )


@pytest.mark.parametrize("program", [of_math, of_shapes, of_lists, of_conversions, in_arguments])
def test_functions(program: Callable[..., Any]) -> None:
    entry = gramme.compile(program, backend="eager", fullgraph=True)
    for _ in range(2):
        assert same(entry(X), program(X))
    assert gramme.statistics(entry).captures == 1
    wider = torch.linspace(-1, 2, 8).view(2, 4)
    assert same(entry(wider), program(wider))
    wide = torch.linspace(-1, 2, 10).view(2, 5)
    assert same(entry(wide), program(wide))


def as_data(x: torch.Tensor, s: Any) -> Any:
    return x + 1, torch.tensor(s), torch.as_tensor(s), torch.tensor([s])


def as_data_of_another(x: torch.Tensor, s: Any) -> Any:
    return x + 1, x.new_tensor(s)


def by_truth(x: torch.Tensor, s: Any) -> Any:
    return x + 1, x & s if x.dtype == torch.bool else x + s


def with_containers(x: torch.Tensor, s: Any) -> Any:
    return x + 1, {s: 1}, s in (1, 2.5, 3), [1, 2] * int(s)


@pytest.mark.parametrize("program", [as_data, as_data_of_another, by_truth, with_containers])
@pytest.mark.parametrize("s", [*SCALARS, np.bool_(True)], ids=lambda s: type(s).__name__)
def test_where_it_may_break(program: Callable[..., Any], s: Any) -> None:
    entry = gramme.compile(program, backend="eager")
    for _ in range(2):
        assert same(entry(X, s), program(X, s))


def test_identity() -> None:
    """After the break the two variables are looked at one by one."""

    def program(x: torch.Tensor, s: Any) -> Any:
        t = s
        gramme.graph_break()
        return x + 1, s is t, id(s) == id(t), s in [t], s is np.float64(1)

    entry = gramme.compile(program, backend="eager")
    for s in (np.float64(1.5), np.float64("nan"), np.float64(1.5)):
        assert same(entry(X, s), program(X, s))


def test_ufuncs_are_told_apart() -> None:
    table = {"f": np.sqrt}

    def program(x: torch.Tensor) -> Any:
        return x * table["f"](4.0)

    entry = gramme.compile(program, backend="eager", fullgraph=True)
    assert same(entry(X), program(X))
    table["f"] = np.square
    assert same(entry(X), program(X))


def test_warnings_are_given_at_each_call() -> None:
    def program(x: torch.Tensor, at: float) -> Any:
        return x + 1, np.log(at)

    entry = gramme.compile(program, backend="eager")
    for _ in range(3):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            assert same(entry(X, 0.0), program(X, 0.0))
        assert len(seen) == 2


def test_data_of_arrays_is_read_for_real() -> None:
    def program(x: torch.Tensor) -> Any:
        return x * torch.from_numpy(np.abs([1.0, -2.0, 4.0])), np.maximum([1, 2], 2).tolist()

    entry = gramme.compile(program, backend="eager")
    for _ in range(2):
        assert same(entry(X), program(X))


def test_no_leaks() -> None:
    import gc
    import weakref

    def program(x: torch.Tensor, s: Any) -> Any:
        return x * s, s + 1

    entry = gramme.compile(program, backend="eager")
    entry(X, np.float64(2))
    gone = weakref.ref(program)
    del program, entry
    gramme.reset()
    gc.collect()
    assert gone() is None


IMAGE = torch.ones(1, 2, 4, 4)
TO_PYTHON: dict[str, Callable[[Any], Any]] = {
    "split": lambda n: X.split(n),
    "torch.split": lambda n: torch.split(X, n),
    "split by sizes": lambda n: X.split([n - 1, n - 1]),
    "norm": lambda n: torch.norm(X, dim=n - 1),
    "tensordot": lambda n: torch.tensordot(X, X, n),
    "unravel_index": lambda n: torch.unravel_index(N, (n, n)),
    "adaptive_avg_pool2d": lambda n: torch.nn.functional.adaptive_avg_pool2d(IMAGE, n),
    "max_unpool2d": lambda n: torch.nn.functional.max_unpool2d(
        IMAGE, torch.zeros(1, 2, 4, 4, dtype=torch.int64), 2, output_size=(n * 4, n * 4)
    ),
    "an operator": lambda n: torch.ops.aten.max_pool2d(IMAGE, n),
    "in C": lambda n: torch.nn.functional.max_pool2d(IMAGE, n),
    "method in C": lambda n: X.chunk(n),
}


@pytest.mark.parametrize("number", [np.int64(2), np.int32(2), np.float64(2)], ids=lambda n: type(n).__name__)
@pytest.mark.parametrize("name", TO_PYTHON)
def test_functions_in_python_may_ask_what_a_number_is(name: str, number: Any) -> None:
    def outcome(function: Callable[[Any], Any]) -> Any:
        try:
            return function(number)
        except (TypeError, RuntimeError) as error:
            return type(error).__name__, str(error)

    program = TO_PYTHON[name]
    compiled = gramme.compile(lambda n: program(n), backend="eager")
    for _ in range(2):
        assert same(outcome(compiled), outcome(program))
