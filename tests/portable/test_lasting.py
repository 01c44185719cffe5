"""What is there as long as its module."""

import functools
import operator
from typing import Any

import pytest
import torch
from gramme import _C

lasts = _C.testing.testing_portable.lasts  # type: ignore[attr-defined]


class Kept:
    attribute = 1

    def method(self) -> None: ...

    @staticmethod
    def static() -> None: ...

    class Inner: ...


def function(x: Any) -> Any:
    return x


def wrapper(inner: Any) -> Any:
    def around() -> Any:
        return inner

    return around


LASTING = [
    None,
    1,
    2.5,
    "a",
    b"a",
    (1, ("a", None)),
    frozenset({1, "a"}),
    int,
    dict.get,
    len,
    operator,
    torch,
    torch.sin,
    torch.float32,
    torch.Tensor,
    torch.Tensor.__add__,
    torch._C._get_tracing_state,
    torch.nn.functional.relu,
    torch.nn.functional.max_pool2d,
    torch.nn.Linear,
    torch.nn.Linear.forward,
    type(torch._VF),
    Kept,
    Kept.Inner,
    Kept.method,
    Kept.static,
    vars(Kept)["static"],
    function,
    function.__code__,
    wrapper(function),
    wrapper((1, Kept)),
    lambda: 1,
]


@pytest.mark.parametrize("index", range(len(LASTING)))
def test_lasts_as_long_as_its_module(index: int) -> None:
    assert lasts(LASTING[index])


def of_a_call() -> list[Any]:
    class Local:
        def method(self) -> None: ...

    def defaults(local: Any = Local) -> None: ...

    marked = wrapper(function)
    marked.of = Local()
    return [
        Local,
        defaults,
        Local(),
        [],
        {},
        torch.ones(1),
        torch.nn.Linear(1, 1),
        wrapper(Local),
        wrapper(torch.ones(1)),
        wrapper([1]),
        marked,
        functools.partial(function),
        Local().method,
        [].append,
        (1, [2]),
        frozenset({Local}),
        type(torch)("torch"),
    ]


@pytest.mark.parametrize("index", range(len(of_a_call())))
def test_does_not(index: int) -> None:
    assert not lasts(of_a_call()[index])
