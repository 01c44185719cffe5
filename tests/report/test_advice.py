"""The report's advice, followed in its order, leads to as few graphs and captures as torch.compile makes at best."""

from pathlib import Path
from typing import Any

import pytest
import torch

from .advised.follow import PROGRAMS, Program, Round, graphs_of_torch, loaded, program, recorded, rounds


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


def test_nothing_is_advised_about_sizes_0_and_1(tmp_path: Path) -> None:
    source = """
import torch

def double(x):
    return torch.cat([x, x]).sum(0)

def calls(compile):
    f = compile(double)
    return [f(torch.ones(n, 3)) for n in (1, 4, 4)]
"""
    found = recorded(source, tmp_path)
    assert found.captures == 2
    assert not found.todo


def test_a_break_in_a_library_is_the_line_that_called_it(tmp_path: Path) -> None:
    source = """
import glob
import torch

def scaled(x):
    y = x.sin()
    by = len(glob.glob("*"))
    return y * by

def calls(compile):
    f = compile(scaled)
    return [f(torch.ones(3)) for _ in range(3)]
"""
    first, *others = recorded(source, tmp_path).todo
    assert (first.kind, first.code) == ("break", 'by = len(glob.glob("*"))')
    assert "move the call out of the compiled function" in first.hint
    assert all("behind a break" in each.hint for each in others)


def test_there_are_twelve() -> None:
    assert len(PROGRAMS) == 12
