"""Constructs of libraries are captured whole wherever PyTorch's front end captures them, and give what eager gives."""

import logging
import warnings
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch

from e2e.construct_programs import NOT_WHOLE, NOT_WHOLE_BUT_THERE, PROGRAMS, argument
from e2e.nested_text import assert_alike

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")


def outcomes(program: Callable[..., Any]) -> list[Any]:
    torch.manual_seed(0)
    return [program(argument()) for _ in range(3)]


def is_whole(front: Callable[..., Any], name: str) -> bool:
    compiled = front(PROGRAMS[name], backend="eager", fullgraph=True)
    try:
        compiled(argument())
    except Exception:
        return False
    return True


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "group.clip"])  # its gradients stay clipped
def test_results_are_eagers(name: str, backend: str) -> None:
    compiled = gramme.compile(PROGRAMS[name], backend=backend, fullgraph=name not in NOT_WHOLE)
    assert_alike(outcomes(compiled), outcomes(PROGRAMS[name]), rtol=0, atol=0)


@pytest.mark.parametrize("name", sorted(NOT_WHOLE))
def test_what_is_not_whole(name: str) -> None:
    assert not is_whole(gramme.compile, name)


@pytest.mark.slow
def test_what_pytorchs_front_end_captures_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("torch"), "disabled", True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        there = {name for name in PROGRAMS if is_whole(torch.compile, name)}
    torch._dynamo.reset()
    assert there & NOT_WHOLE == NOT_WHOLE_BUT_THERE
