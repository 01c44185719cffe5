"""functools.cache and lru_cache: the wrapper counts its calls, keeps its results and forgets the oldest."""

import functools
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch

from e2e.describe import describe
from e2e.front import GRAMME, Compiled

pytestmark = pytest.mark.skipif(not GRAMME, reason="PyTorch's front end traces the wrapped function anew")

Caching = Callable[[Any], Any]
CACHES: dict[str, Caching] = {
    "cache": functools.cache,
    "lru_cache": functools.lru_cache,
    "typed": functools.lru_cache(maxsize=None, typed=True),
    "of one": functools.lru_cache(maxsize=1),
    "of none": functools.lru_cache(maxsize=0),
}


def x() -> torch.Tensor:
    return torch.ones(2)


def with_effects(caching: Caching) -> tuple[Callable[..., Any], list[Callable[[], object]]]:
    log: list[Any] = []

    @caching
    def h(n: Any, *, m: int = 0) -> list[Any]:
        log.append(n)
        return [n, m]

    def f(x: torch.Tensor) -> Any:
        a, b = h(3), h(3)
        h(3.0)
        h(3, m=1)
        return x + len(a), a is b, a is h(3), list(log), tuple(h.cache_info())

    return f, [lambda: None, h.cache_clear, lambda: h(5), lambda: h(3).append(1)]


def evicting(caching: Caching) -> tuple[Callable[..., Any], list[Callable[[], object]]]:
    @caching
    def h(n: int) -> tuple[int]:
        return (n,)

    def f(x: torch.Tensor) -> Any:
        return x, [h(i % 3) for i in range(5)], tuple(h.cache_info())

    return f, [lambda: None, lambda: h(0), h.cache_clear]


def of_a_method(caching: Caching) -> tuple[Callable[..., Any], list[Callable[[], object]]]:
    class Counting:
        def __init__(self) -> None:
            self.n = 0

        @caching
        def m(self, k: int) -> int:
            self.n += 1
            return self.n

    counting = Counting()

    def f(x: torch.Tensor) -> Any:
        return x, counting.m(1), counting.m(2), counting.m(1), counting.n

    return f, [lambda: None, Counting.m.cache_clear]  # type: ignore[attr-defined]


def of_a_tensor(caching: Caching) -> tuple[Callable[..., Any], list[Callable[[], object]]]:
    @caching
    def h(n: int) -> torch.Tensor:
        return torch.full((2,), float(n))

    return (lambda x: (x + h(1), h(1) is h(1))), [lambda: None, lambda: h(1).add_(1)]


def unhashable(caching: Caching) -> tuple[Callable[..., Any], list[Callable[[], object]]]:
    @caching
    def h(n: Any) -> int:
        return 1

    def f(x: torch.Tensor) -> Any:
        try:
            h([1])
        except TypeError as error:
            return x, str(error), tuple(h.cache_info())
        return x, h.cache_info().hits

    return f, [lambda: None]


@pytest.mark.parametrize("caching", CACHES)
@pytest.mark.parametrize("make", [with_effects, evicting, of_a_method, of_a_tensor, unhashable])
def test_as_eager(make: Callable[..., Any], caching: str) -> None:
    def outcomes(wrap: Callable[[Any], Any]) -> list[str]:
        function, changes = make(CACHES[caching])
        call, found = wrap(function), []
        for change in changes:
            change()
            found += [describe(result=call(x())) for _ in range(2)]
        return found

    assert outcomes(Compiled) == outcomes(lambda function: function)


def test_one_graph_takes_only_plain_functions() -> None:
    log: list[int] = []

    @functools.cache
    def plain(n: int) -> int:
        return n * 2

    @functools.cache
    def logging(n: int) -> int:
        log.append(n)
        return n

    assert Compiled(lambda x: x * plain(3), fullgraph=True)(x()).tolist() == [6.0, 6.0]
    with pytest.raises(gramme.CaptureError):
        Compiled(lambda x: x * logging(3), fullgraph=True)(x())
