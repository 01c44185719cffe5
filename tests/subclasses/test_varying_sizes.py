"""Sizes of wrappers vary: one capture for many of them, and eager's results at each."""

import random
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from e2e.front import GRAMME
from torch.utils._pytree import tree_map

from subclasses.classes import Two

pytestmark = pytest.mark.skipif(not GRAMME, reason="gramme's own")
SIZES = (3, 4, 6, 7, 9, 5, 2, 1, 8, 12, 13, 14, 4)


class Turned(torch.Tensor):
    """A matrix whose transpose is inside: no size of it stands where the inner one's does."""

    inside: torch.Tensor

    @staticmethod
    def __new__(cls, inside: torch.Tensor) -> "Turned":
        return torch.Tensor._make_wrapper_subclass(
            cls, inside.shape[::-1], dtype=inside.dtype, device=inside.device, requires_grad=inside.requires_grad
        )

    def __init__(self, inside: torch.Tensor) -> None:
        self.inside = inside

    def __repr__(self, **_: Any) -> str:
        return "Turned"  # PyTorch's logs print graphs' inputs

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["inside"], None

    @staticmethod
    def __tensor_unflatten__(parts: dict[str, torch.Tensor], context: None, size: Any, stride: Any) -> "Turned":
        return Turned(parts["inside"])

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = tree_map(lambda t: t.inside.t() if isinstance(t, Turned) else t, (args, kwargs or {}))
        made = function(*args, **kwargs)
        return tree_map(lambda t: Turned(t.t()) if isinstance(t, torch.Tensor) and t.dim() == 2 else t, made)


class Sized(torch.Tensor):
    """Its context holds a size."""

    @staticmethod
    def __new__(cls, inside: torch.Tensor, rows: int) -> "Sized":
        return torch.Tensor._make_wrapper_subclass(cls, inside.shape, dtype=inside.dtype, device=inside.device)

    def __init__(self, inside: torch.Tensor, rows: int) -> None:
        self.inside, self.rows = inside, rows

    def __repr__(self, **_: Any) -> str:
        return "Sized"

    def __tensor_flatten__(self) -> tuple[list[str], int]:
        return ["inside"], self.rows

    @staticmethod
    def __tensor_unflatten__(parts: dict[str, torch.Tensor], context: int, size: Any, stride: Any) -> "Sized":
        return Sized(parts["inside"], context)

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        rows = next(t.rows for t in args if isinstance(t, Sized))
        args, kwargs = tree_map(lambda t: t.inside if isinstance(t, Sized) else t, (args, kwargs or {}))
        made = function(*args, **kwargs)
        return tree_map(lambda t: Sized(t * rows, rows) if isinstance(t, torch.Tensor) else t, made)


def pair(rows: int) -> Two:
    return Two(torch.randn(rows, 4), torch.randn(rows, 4))


def asked(t: Any) -> Any:
    u = (t * 2).relu() + t.shape[0] * 10 + t.shape[1]
    return u, u.shape, u.numel()


def branching(t: Any) -> Any:
    u = t.sin()
    return (u + 1 if t.shape[0] > 5 else u * 2), u.shape


def made_inside(x: torch.Tensor) -> Any:
    t = (Two(x, x * 2) + 1).relu()
    return t, t.a + t.b, t.shape[0]


def parts(t: Any) -> Any:
    return t.a * t.b.shape[0], t + 1


def joined(t: Any) -> Any:
    return torch.cat([t, t * 2]), t.mean(0), t.t() @ t


def of_matrices(t: Any) -> Any:
    return t @ t.t(), t.t(), t + t.shape[1]


def written(t: Any) -> Any:
    t.mul_(t.shape[0])
    return t + 1


PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[int], Any], int]] = {  # and the most captures
    "asked": (asked, pair, 3),
    "branching": (branching, pair, 4),
    "made inside": (made_inside, lambda rows: torch.randn(rows, 4), 3),
    "parts": (parts, pair, 3),
    "joined": (joined, pair, 3),
    "written": (written, pair, 3),
    "turned, asked": (asked, lambda n: Turned(torch.randn(4, n)), 3),
    "turned, branching": (branching, lambda n: Turned(torch.randn(4, n)), 4),
    "turned, of matrices": (of_matrices, lambda n: Turned(torch.randn(4, n)), 3),
    "turned, square": (asked, lambda n: Turned(torch.randn(n, n)), 3),
    "turned, of square ones": (of_matrices, lambda n: Turned(torch.randn(n, n)), 3),
    "a size in the context": (asked, lambda n: Sized(torch.randn(n, 2), n), len(SIZES)),
    "another number in the context": (asked, lambda n: Sized(torch.randn(n, 2), 3), 3),
}


def flat(value: Any) -> Any:
    """Types, sizes and data to the bit."""
    if isinstance(value, (Two, Turned, Sized)):
        names, context = value.__tensor_flatten__()
        return type(value), value.shape, value.stride(), context, [flat(getattr(value, name)) for name in names]
    if isinstance(value, torch.Tensor):
        return type(value), value.shape, value.stride(), value.tolist()
    return type(value), [flat(item) for item in value] if isinstance(value, tuple) else value


def copied(value: Any) -> Any:
    names = value.__tensor_flatten__()[0] if type(value) is not torch.Tensor else []
    if not names:
        return value.clone()
    parts = {name: getattr(value, name).clone() for name in names}
    return type(value).__tensor_unflatten__(parts, value.__tensor_flatten__()[1], value.shape, value.stride())


@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_many_sizes(name: str, backend: str) -> None:
    program, make, most = PROGRAMS[name]
    compiled = gramme.compile(program, backend=backend, recompile_limit=64)
    for size in SIZES:
        given = make(size)
        mine, theirs = copied(given), copied(given)
        assert flat(compiled(mine)) == flat(program(theirs)), size
        assert flat(mine) == flat(theirs), size
    counts = gramme.statistics(compiled)
    assert counts.plain_runs == 0
    assert counts.captures <= most + (backend == "aot_eager")  # torch 2.15's sets one more size apart


@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
def test_gradients_at_many_sizes(backend: str) -> None:
    def loss(t: Any) -> Any:
        return (t.sin() * t.shape[0]).sum()

    compiled = gramme.compile(loss, backend=backend, recompile_limit=64)
    for size in SIZES:
        given = pair(size)
        mine, theirs = copied(given).requires_grad_(), copied(given).requires_grad_()
        compiled(mine).backward()
        loss(theirs).backward()
        assert flat(mine.grad) == flat(theirs.grad), size
    assert gramme.statistics(compiled).captures <= 3


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
def test_sizes_of_two_arguments_at_random(seed: int, backend: str) -> None:
    """Equal and different sizes in turns, also where eager refuses them."""
    rng = random.Random(seed)

    def program(t: Any, u: Any) -> Any:
        return t * u, (t + 1).sum(0) + u.shape[0]

    def outcome(function: Callable[..., Any], *args: Any) -> Any:
        try:
            return flat(function(*args))
        except RuntimeError as error:
            return str(error).partition("\n")[0]

    compiled = gramme.compile(program, backend=backend, recompile_limit=64)
    for _ in range(24):
        sizes = [rng.choice((1, 2, 3, 4, 5, 6)) for _ in range(2)]
        if rng.random() < 0.5:
            sizes[1] = sizes[0]
        t, u = map(pair, sizes)
        assert outcome(compiled, t, u) == outcome(program, t, u), sizes


def test_inner_tensors_of_sizes_of_their_own() -> None:
    """The two inside do not fit together: what eager gives or raises is given or raised."""

    def program(t: Any) -> Any:
        return (t * 2).a, (t * 2).b

    compiled = gramme.compile(program, backend="eager", recompile_limit=64)
    for sizes in [(3, 3), (4, 4), (5, 5), (5, 6), (7, 3), (6, 6), (2, 9)]:
        t = Two(torch.randn(sizes[0], 4), torch.randn(sizes[1], 4))
        assert flat(compiled(t)) == flat(program(t)), sizes
