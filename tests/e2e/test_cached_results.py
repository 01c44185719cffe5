"""What functools.lru_cache keeps is read where it is kept: one graph across calls of cached functions, and the counts,
the order of forgetting and the very objects that eager Python has."""

import enum
import functools
import importlib.util
import logging
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gramme
import pytest
import torch
import torch.utils.checkpoint

from e2e import einops_like
from e2e.describe import describe
from e2e.front import GRAMME

pytestmark = pytest.mark.skipif(not GRAMME, reason="PyTorch's front end traces the wrapped function anew")


class Counting:
    """A backend that counts its graphs."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, module: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        self.graphs += 1
        return module.forward


def x() -> torch.Tensor:
    return torch.arange(6.0).reshape(2, 3)


Made = tuple[Callable[[torch.Tensor], Any], list[Callable[[], object]], int]


def nothing() -> None:
    pass


# ---- programs: what makes the function, what happens before each pair of calls, how many graphs at most


def reordered(maxsize: int | None) -> Made:
    @functools.lru_cache(maxsize)
    def order(pattern: str, dims: int) -> tuple[int, ...]:
        assert "->" in pattern
        return tuple(range(dims))[::-1]

    def f(x: torch.Tensor) -> Any:
        y = x.sin().permute(order("a b -> b a", x.ndim)).cos()
        return y.permute(order("a b -> b a", y.ndim)) + 1, order("b a -> a b", 2) is order("b a -> a b", 2)

    def info() -> object:
        return order.cache_info()

    return f, [nothing, info, order.cache_clear, lambda: order("b a -> a b", 2)], 2


def forgets_in_order() -> Made:
    @functools.lru_cache(3)
    def h(n: int) -> tuple[int]:
        return (n,)

    def f(x: torch.Tensor) -> Any:
        return x * h(1)[0] + h(2)[0] * h(1)[0]

    def others() -> object:
        h(3), h(4)  # the one that was used last but one goes
        return h.cache_info(), h(1), h.cache_info()

    return f, [nothing, others, others, others], 3


def by_keyword() -> Made:
    @functools.cache
    def h(*args: Any, **keywords: Any) -> tuple[Any, ...]:
        return (*args, *keywords.items())

    def f(x: torch.Tensor) -> Any:
        same = h(a=1, b=2) is h(a=1, b=2), h(a=1, b=2) is h(b=2, a=1), h(1, a=2) is h(1, a=2.0)
        return x.sin() * len(h(a=1, b=2)), same, h(), tuple(h.cache_info())

    return f, [nothing, lambda: h(b=2, a=1), h.cache_clear], 2


def by_type() -> Made:
    @functools.lru_cache(typed=True)
    def h(n: Any, m: int = 0) -> str:
        return type(n).__name__ + str(m)

    @functools.lru_cache
    def loose(n: Any, m: int) -> str:
        return type(n).__name__ + str(m)

    def f(x: torch.Tensor) -> Any:
        found = (
            h(1),
            h(1.0),
            h(True),
            h(1, m=1),
            h(1.0, m=1),
            loose(1, 0),
            loose(True, 0),
            loose(1.0, 0),
            loose(-0.0, 0),
        )
        return x + len(found), found

    return f, [nothing, lambda: loose(0.0, 0), h.cache_clear, loose.cache_clear, lambda: loose(1.0, 0)], 3


class Colour(enum.Enum):
    RED = 1


def by_identity() -> Made:
    class Recipe:
        def __init__(self, dims: tuple[int, ...]) -> None:
            self.dims = dims

    @functools.lru_cache(16)
    def recipe(pattern: str, colour: Colour, kind: type) -> Recipe:
        return Recipe(tuple(reversed(range(len(pattern)))))

    @functools.lru_cache(16)
    def applied(made: Recipe, shape: tuple[int, ...]) -> list[int]:
        return [shape[d] for d in made.dims]

    def f(x: torch.Tensor) -> Any:
        made = recipe("ab", Colour.RED, int)
        return x.sin().reshape(applied(made, tuple(x.shape))), made is recipe("ab", Colour.RED, int)

    def info() -> object:
        return recipe.cache_info(), applied.cache_info()

    return f, [nothing, info, recipe.cache_clear, info, applied.cache_clear, info], 3


def changed_result() -> Made:
    @functools.cache
    def h(n: int) -> list[int]:
        return [n]

    def f(x: torch.Tensor) -> Any:
        h(2).append(len(h(2)))
        return x * sum(h(2)), h(2)

    return f, [nothing, lambda: h(2).append(5), h.cache_clear], 9


def of_a_tensor() -> Made:
    @functools.cache
    def h(n: int) -> torch.Tensor:
        return torch.full((3,), float(n))

    h(2)
    return (lambda x: (x * h(2), h(2) is h(2))), [nothing, lambda: h(2).add_(1), lambda: h.cache_clear()], 3


def of_no_number() -> Made:
    """A NaN equals nothing; in a key it is found by identity alone."""

    @functools.cache
    def h(n: float, m: int) -> int:
        return m

    def f(x: torch.Tensor) -> Any:
        return x + h(math.nan, 1) + h(math.nan, 2)

    return f, [nothing, lambda: h.cache_info()], 9


def raising() -> Made:
    @functools.cache
    def h(n: int) -> int:
        if n:
            raise ValueError(n)
        return n

    def f(x: torch.Tensor) -> Any:
        try:
            return x + h(1)
        except ValueError as error:
            return x - h(0), str(error)

    return f, [nothing, lambda: h.cache_info()], 9


def after_effects() -> Made:
    """What the function reads may be what the segment wrote and the world does not know yet."""
    state = {"scale": 1}

    @functools.cache
    def h(n: int) -> int:
        return n * state["scale"]

    def f(x: torch.Tensor) -> Any:
        state["scale"] = 5
        return x * h(2) + h(3)

    def change() -> object:
        state["scale"] = 1
        return h.cache_info()

    return f, [nothing, change, h.cache_clear], 9


def nested() -> Made:
    @functools.cache
    def inner(n: int) -> tuple[int, ...]:
        return (n, n)

    @functools.cache
    def outer(n: int) -> int:
        return sum(inner(n)) + sum(inner(n))

    def info() -> object:
        return inner.cache_info(), outer.cache_info()

    return (lambda x: x * outer(3) + outer(2)), [nothing, info, outer.cache_clear, info, inner.cache_clear, info], 9


def of_a_method() -> Made:
    class Counter:
        calls = 0

        @functools.lru_cache(4)
        def m(self, n: int) -> int:
            return n + 1

    one, other = Counter(), Counter()

    def f(x: torch.Tensor) -> Any:
        return x * one.m(1) + other.m(1) + one.m(1)

    return f, [nothing, Counter.m.cache_info, Counter.m.cache_clear], 9


def varying_number() -> Made:
    @functools.cache
    def h(n: int) -> int:
        return n * n

    lengths = iter(range(100))

    def f(x: torch.Tensor) -> Any:
        n = next(lengths)
        return x.sin() * h(n % 3)

    return f, [nothing, h.cache_info, h.cache_info, h.cache_info], 9


PROGRAMS: dict[str, Callable[[], Made]] = {
    "bounded": lambda: reordered(64),
    "unbounded": lambda: reordered(None),
    "of three": lambda: reordered(3),
    **{
        make.__name__: make
        for make in (
            forgets_in_order,
            by_keyword,
            by_type,
            by_identity,
            changed_result,
            of_a_tensor,
            of_no_number,
            raising,
            after_effects,
            nested,
            of_a_method,
            varying_number,
        )
    },
}


def outcomes(made: Made, wrap: Callable[[Any], Any]) -> list[str]:
    function, between, _ = made
    call, found = wrap(function), []
    for change in between:
        found.append(describe(result=change()))
        found += [describe(result=call(x())) for _ in range(2)]
    return found


@pytest.mark.parametrize("backend", ["eager", "native", "counting"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_eager(name: str, backend: str) -> None:
    counting = Counting()
    found = outcomes(
        PROGRAMS[name](), lambda f: gramme.compile(f, backend=counting if backend == "counting" else backend)
    )
    assert found == outcomes(PROGRAMS[name](), lambda f: f)
    assert counting.graphs <= PROGRAMS[name]()[2]


def test_counts_at_each_call() -> None:
    @functools.lru_cache(8)
    def h(n: int) -> int:
        return n

    counting = Counting()
    call = gramme.compile(lambda x: x * h(2) + h(2) * h(3), backend=counting)
    infos = []
    for _ in range(4):
        call(x())
        infos.append(tuple(h.cache_info()))
    assert infos == [(1, 2, 8, 2), (4, 2, 8, 2), (7, 2, 8, 2), (10, 2, 8, 2)]
    assert counting.graphs == 1


def test_a_graph_that_raises_counts_once() -> None:
    @functools.cache
    def h(n: int) -> int:
        return n

    def f(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return x[index] * h(2)

    call = gramme.compile(f, backend="native")
    call(x(), torch.tensor([0]))
    with pytest.raises(IndexError):
        call(x(), torch.tensor([7]))
    assert h.cache_info()[:2] == (0, 1)
    call(x(), torch.tensor([1]))
    assert h.cache_info()[:2] == (1, 1)


def test_of_an_installed_package(tmp_path: Path) -> None:
    """Sizes vary in a key, and lists come out that the cache would keep: traced, and nothing is counted."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    copied = shutil.copy(einops_like.__file__, folder / "einops_installed.py")
    spec = importlib.util.spec_from_file_location("einops_installed", copied)
    assert spec
    assert spec.loader
    package = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)

    def program(x: torch.Tensor) -> torch.Tensor:
        q = package.rearrange(x, "b t (h d) -> b h t d", h=2)
        return package.rearrange(q.softmax(-1), "b h t d -> b t (h d)") + 1

    def checkpointed(x: torch.Tensor) -> torch.Tensor:
        return torch.utils.checkpoint.checkpoint(program, x, use_reentrant=False)

    for function in (program, checkpointed):
        counting = Counting()
        call = gramme.compile(function, backend=counting)
        for n in (4, 4, 6, 8, 10):
            x = torch.randn(2, n, 4)
            assert torch.equal(call(x), function(x))
        assert counting.graphs == 2
    assert all(cache.cache_info().hits >= 0 for cache in package.CACHES)


@pytest.mark.parametrize("lengths", [(4, 4, 4, 4), (4, 6, 8, 10)], ids=["one length", "lengths"])
def test_like_einops(lengths: tuple[int, ...]) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        q = einops_like.rearrange(x, "b t (h d) -> b h t d", h=2)
        y = einops_like.rearrange(q.softmax(-1), "b h t d -> b t (h d)")
        return einops_like.rearrange(y, "b t d -> t b d") + 1

    for cache in einops_like.CACHES:
        cache.cache_clear()
    counting = Counting()
    call, infos = gramme.compile(program, backend=counting), []
    inputs = [torch.randn(2, n, 4) for n in lengths]
    found = [call(t) for t in inputs]
    infos.append([tuple(cache.cache_info()) for cache in einops_like.CACHES])
    for cache in einops_like.CACHES:
        cache.cache_clear()
    assert all(torch.equal(have, program(t)) for have, t in zip(found, inputs, strict=True))
    infos.append([tuple(cache.cache_info()) for cache in einops_like.CACHES])
    assert infos[0] == infos[1]
    if len(set(lengths)) == 1:
        assert counting.graphs == 1


@pytest.mark.parametrize("maxsize", [None, 128])
def test_a_cache_that_is_emptied_before_each_call(maxsize: int | None) -> None:
    """It settles: the call of the cached function is made for real, and what is around it is captured."""

    @functools.lru_cache(maxsize)
    def table(n: int) -> tuple[int, ...]:
        return tuple(range(n))

    def program(x: torch.Tensor) -> torch.Tensor:
        y = x.sin() * sum(table(3))
        return y.cos() + sum(table(3)) + sum(table(4))

    def run(function: Callable[[torch.Tensor], torch.Tensor], emptied: bool) -> object:
        if emptied:
            table.cache_clear()
        return function(x()).tolist(), table.cache_info()

    compiled = gramme.compile(program, backend="eager")
    patterns = [True] * 12 + [False, True, False, False, True]
    table.cache_clear()
    expected = [run(program, emptied) for emptied in patterns]
    table.cache_clear()
    assert [run(compiled, emptied) for emptied in patterns] == expected
    settled = gramme.statistics(compiled)
    assert settled.plain_runs == 0
    assert settled.captures <= 10
    for _ in range(4):
        run(compiled, emptied=True)
    assert gramme.statistics(compiled).captures == settled.captures


LOG: list[int] = []
SCALE = 2


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("reads", ["nothing", "a list", "a global", "a mode"])
def test_a_miss_behind_an_effect(reads: str, backend: str) -> None:
    """What reads nothing that the segment changed is called in the capture; the rest is called for real."""

    @functools.lru_cache(None)
    def cached(n: int) -> int:
        if reads == "a list":
            return n * len(LOG)
        if reads == "a global":
            return n * SCALE
        return n * (2 if reads == "a mode" and torch.is_grad_enabled() else 3)

    def program(x: torch.Tensor) -> torch.Tensor:
        global SCALE  # noqa: PLW0603
        LOG.append(1)
        if reads == "a global":
            SCALE += 1
        with torch.no_grad():
            y = x.sin() * cached(3)
        return y.cos()

    def run(function: Callable[[torch.Tensor], torch.Tensor]) -> object:
        global SCALE  # noqa: PLW0603
        SCALE = 2
        LOG.clear()
        cached.cache_clear()
        return [function(x()).tolist() for _ in range(3)], cached.cache_info(), LOG[:], SCALE

    compiled = gramme.compile(program, backend=backend)
    assert run(compiled) == run(program)
    if reads == "nothing":
        counted = Counting()
        run(gramme.compile(program, backend=counted))
        assert counted.graphs == 1


# ---- functions that do something the first time


def saying(maxsize: int | None, said: list[str]) -> Callable[[torch.Tensor, str], torch.Tensor]:
    @functools.lru_cache(maxsize)
    def say(text: str) -> None:
        said.append(text)
        print(text)

    def program(x: torch.Tensor, text: str) -> torch.Tensor:
        y = x.sin()
        say(text)
        return y.cos()

    program.clear = say.cache_clear  # type: ignore[attr-defined]
    program.info = say.cache_info  # type: ignore[attr-defined]
    return program


@pytest.mark.parametrize(
    ("maxsize", "texts"), [(None, "aaaabbaab"), (1, "abababaab"), (None, "aa-a-a-aa-a"), (1, "a-a-aa")]
)
def test_what_is_said_once(maxsize: int | None, texts: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In the order of eager's, whether the cache has it, has lost it or was emptied ("-")."""

    def run(wrap: Callable[[Any], Any]) -> list[Any]:
        said: list[str] = []
        program: Any = saying(maxsize, said)
        call, found = wrap(program), []
        for text in texts:
            if text == "-":
                program.clear()
                continue
            found.append((call(x(), text).tolist(), list(said), program.info(), capsys.readouterr().out))
        return found

    expected = run(lambda f: f)
    for backend in ("eager", "native"):
        assert run(lambda f: gramme.compile(f, backend=backend)) == expected  # noqa: B023


def test_what_is_said_once_breaks_no_later_graph(capsys: pytest.CaptureFixture[str]) -> None:
    counting = Counting()
    call = gramme.compile(saying(None, []), backend=counting)
    graphs = []
    for _ in range(4):
        call(x(), "once")
        graphs.append(counting.graphs)
    assert graphs == [2, 3, 3, 3]  # in two parts, then as one
    assert capsys.readouterr().out == "once\n"


PACKAGE = """
import functools, logging, torch
logger = logging.getLogger("said_once")

@functools.lru_cache(None)
def warning_once(self, text):
    self.warning(text)

logging.Logger.said_once_warning = warning_once

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.kind = None
    def loss(self, y):
        if self.kind is None:
            logger.said_once_warning(f"kind={self.kind} is not known")
        return y.square().sum()
    def forward(self, x):
        return self.loss(self.layer(x).tanh())
"""


def test_a_librarys_logger_warns_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "warns_once.py").write_text(PACKAGE)
    spec = importlib.util.spec_from_file_location("warns_once", folder / "warns_once.py")
    assert spec
    assert spec.loader
    package: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)
    try:
        model, counting = package.Model(), Counting()
        call, graphs = gramme.compile(model, backend=counting), []
        for _ in range(4):
            t = torch.randn(2, 4)
            assert torch.equal(call(t), model.layer(t).tanh().square().sum())
            graphs.append(counting.graphs)
        assert graphs == [2, 3, 3, 3]
        assert [record.getMessage() for record in caplog.records] == ["kind=None is not known"]
        package.logger = logging.getLogger("another")
        for _ in range(3):
            call(torch.randn(2, 4))
        assert [record.name for record in caplog.records] == ["said_once", "another"]
        package.warning_once.cache_clear()
        for _ in range(3):
            call(torch.randn(2, 4))
        assert [record.name for record in caplog.records] == ["said_once", "another", "another"]
        assert gramme.statistics(call).plain_runs == 0
    finally:
        del package.logging.Logger.said_once_warning
