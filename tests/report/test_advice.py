"""The report's advice, followed in its order, leads to as few graphs and captures as torch.compile makes at best."""

from pathlib import Path
from typing import Any

import pytest
import torch

from .advised.follow import PROGRAMS, Program, Round, graphs_of_torch, loaded, program, rounds


@pytest.fixture(params=PROGRAMS, ids=lambda path: path.stem)
def given(request: pytest.FixtureRequest) -> Program:
    return program(request.param)


def eager(source: str, folder: Path) -> Any:
    return loaded(source, folder).calls(lambda f, **how: f)


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad")
def test_advice_that_is_followed_leads_to_the_ideal(given: Program, tmp_path: Path) -> None:
    found: list[Round] = rounds(given, tmp_path)
    last = found[-1]
    assert not last.todo, str(last)
    assert (last.graphs, last.captures, last.breaks) == (given.ideal, given.ideal, 0)
    assert last.graphs <= graphs_of_torch(last.source, tmp_path)  # more where a list grows
    assert len(found) > 1 or not given.edits
    torch.testing.assert_close(last.results, eager(given.source, tmp_path))


def test_there_are_twelve() -> None:
    assert len(PROGRAMS) == 12
