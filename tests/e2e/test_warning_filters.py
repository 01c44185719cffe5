"""Operations warn under the filters that the program has set by then."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from e2e import front

X = torch.ones(2, 2)


def recorded(x: torch.Tensor) -> Any:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        y = F.softmax(x)
    return y, [str(w.message)[:18] for w in caught]


def ignored(x: torch.Tensor) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return F.softmax(x)


def an_error(x: torch.Tensor) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return F.softmax(x)
        except UserWarning as error:
            return str(error)[:18]


def shown_after_it(x: torch.Tensor) -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Implicit dimension")
        y = F.softmax(x)
    return F.log_softmax(y)


@pytest.mark.parametrize("program", [recorded, ignored, an_error, shown_after_it])
def test_filters_set_by_the_program(program: Callable[..., Any]) -> None:
    def observe(function: Callable[..., Any]) -> tuple[Any, list[str]]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = function(X)
        return result, [str(w.message)[:18] for w in caught]

    expected = observe(program)
    compiled = front.compile(program, backend="eager")
    for _ in range(3):
        assert repr(observe(compiled)) == repr(expected)


@pytest.mark.skipif(not front.GRAMME, reason="torch.compile warns while it compiles")
def test_one_graph_is_kept_whole() -> None:
    compiled = front.compile(ignored, backend="eager", fullgraph=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert torch.equal(compiled(X), ignored(X))
