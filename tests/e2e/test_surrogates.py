"""Names and texts that have no UTF-8."""

import builtins
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

from e2e.against_eager import assert_same

LONE = "\udcff x"


class Empty:
    pass


def missing_of_object(t: torch.Tensor, name: str) -> Any:
    return object.__getattribute__(Empty(), name)


@pytest.mark.parametrize(
    "ask",
    [
        lambda t, name: getattr(t, name),
        lambda t, name: getattr(Empty(), name),
        lambda t, name: hasattr(Empty(), name),
        lambda t, name: setattr(Empty(), name, 1),
        lambda t, name: delattr(Empty(), name),
        lambda t, name: getattr(builtins, name),
        missing_of_object,
        lambda t, name: [1].index(name),
        lambda t, name: (lambda a: a)(**{name: 1}),
        lambda t, name: int(name),
        lambda t, name: ValueError(name),
        lambda t, name: name % 3,
    ],
)
def test_a_lone_surrogate(ask: Callable[[torch.Tensor, str], Any]) -> None:
    def program(t: torch.Tensor, name: str) -> Any:
        t = t + 1
        try:
            return t, ascii(ask(t, name))
        except (AttributeError, NameError, TypeError, ValueError) as error:
            return t, ascii(error)

    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # of a frame that gramme gave up
        assert_same(program, lambda: (torch.ones(2), LONE), backends=("eager",))
