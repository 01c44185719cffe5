"""A frame evaluation hook that Dynamo puts over gramme's goes when Dynamo is done with it, and so does gramme's.

test_other_hooks.py runs these tests in a process of their own: once a call with fullgraph=True raised, PyTorch's front
end leaves its hook in for good."""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from e2e import evaluation_hook, front

X = torch.arange(3.0)

needs_slots = pytest.mark.skipif(sys.version_info < (3, 12), reason="no hook stays in while a generator waits")


@pytest.fixture(autouse=True)
def no_hook_is_left(no_hook: None) -> Iterator[None]:
    yield
    (lambda: None)()  # gramme's hook goes with the next frame if it was put back
    assert evaluation_hook.current() is None


def steps(x: torch.Tensor, n: int) -> Iterator[torch.Tensor]:
    for _ in range(n):
        yield x
        x = x * 2


def breaking(x: torch.Tensor, seen: list[int | None]) -> torch.Tensor:
    y = x + 1
    seen.append(evaluation_hook.current())
    return y * 2


def below(x: torch.Tensor, seen: list[int | None]) -> torch.Tensor:
    return breaking(x, seen) + 1


def raising(x: torch.Tensor, seen: list[int | None]) -> torch.Tensor:
    y = below(x, seen)
    raise ValueError(y.sum().item())


def between(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """What Dynamo compiles: a break, then the function that gramme compiled."""

    def f(x: torch.Tensor, seen: list[int | None]) -> torch.Tensor:
        x = x + 1
        torch._dynamo.graph_break()
        return function(x, seen) * 2

    return f


def of_dynamo(function: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(function, backend="eager")


EXPECTED = between(below)(X, [])


@needs_slots
def test_a_generator_waits_while_dynamo_runs_a_break() -> None:
    compiled = of_dynamo(between(front.compile(below, backend="eager")))
    made = front.compile(steps, backend="eager")(X, 4)
    found = [next(made)]
    ours, seen = evaluation_hook.current(), []
    assert ours is not None
    for _ in range(3):
        torch.testing.assert_close(compiled(X, seen), EXPECTED, rtol=0, atol=0)
        assert evaluation_hook.current() == ours
        found.append(next(made))
    assert len(seen) == 3
    torch.testing.assert_close([*found, *made], list(steps(X, 4)), rtol=0, atol=0)


@needs_slots
def test_a_generator_ends_while_dynamo_runs() -> None:
    made = front.compile(steps, backend="eager")(X, 1)
    next(made)

    @torch._dynamo.disable
    def ending() -> None:
        assert list(made) == []

    def f(x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        ending()
        return x * 2

    torch.testing.assert_close(of_dynamo(f)(X), (X + 1) * 2, rtol=0, atol=0)


@needs_slots
def test_a_generator_begins_while_dynamo_runs_and_ends_later() -> None:
    begun: list[Iterator[torch.Tensor]] = []

    @torch._dynamo.disable
    def beginning(x: torch.Tensor) -> torch.Tensor:
        begun.append(front.compile(steps, backend="eager")(x, 3))
        return next(begun[-1])

    def f(x: torch.Tensor) -> torch.Tensor:
        return beginning(x + 1) * 2

    outer = front.compile(steps, backend="eager")(X, 2)
    next(outer)
    torch.testing.assert_close(of_dynamo(f)(X), (X + 1) * 2, rtol=0, atol=0)
    assert len(list(begun[0])) == 2
    assert len(list(outer)) == 1


def test_dynamo_below_gramme_and_above_it() -> None:
    compiled = of_dynamo(between(front.compile(below, backend="eager")))
    seen: list[int | None] = []

    def top(x: torch.Tensor) -> torch.Tensor:
        return compiled(x - 1, seen) - 1

    whole = front.compile(top, backend="eager")
    for _ in range(3):
        torch.testing.assert_close(whole(X + 1), EXPECTED - 1, rtol=0, atol=0)
    assert len(seen) == 3


def test_an_exception_passes_both() -> None:
    compiled = of_dynamo(between(front.compile(raising, backend="eager")))
    seen: list[int | None] = []
    number = below(X + 1, []).sum().item()

    def top(x: torch.Tensor) -> torch.Tensor:
        return compiled(x - 1, seen)

    whole = front.compile(top, backend="eager")
    for _ in range(3):
        with pytest.raises(ValueError, match=str(number)):
            whole(X + 1)
        (lambda: None)()
        assert evaluation_hook.current() is None


@needs_slots
def test_deep_recursion_after_dynamo_ran_while_a_generator_waited() -> None:
    def deep(left: int) -> int:
        return 1 + deep(left - 1) if left else 0

    compiled = of_dynamo(between(front.compile(below, backend="eager")))
    for _ in range(2):
        made = front.compile(steps, backend="eager")(X, 2)
        next(made)
        compiled(X, [])
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(30_000)
        try:
            assert deep(25_000) == 25_000
        finally:
            sys.setrecursionlimit(limit)
        assert len(list(made)) == 1
