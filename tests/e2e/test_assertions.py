"""Assertions on the data of tensors in one graph: where they hold nothing is noticed, where not, eager's exception."""

import traceback
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch

from e2e.assertion_programs import (
    KEPT,
    LOG,
    PROGRAMS,
    WITH_BREAKS,
    Refused,
    between_lasting_writes,
    loops_before_it_raises,
    of_each,
    told,
    untold,
)
from e2e.nested_text import assert_alike

Program = Callable[[torch.Tensor], Any]

INPUTS = [[1.0, 2.0, 3.0], [-1.0, -2.0, -3.0], [float("nan"), 1.0, 2.0], [0.0, 0.0, 0.0], [50.0, 60.0, 70.0]]


def outcome(program: Program, data: list[float]) -> Any:
    LOG.clear()
    torch.manual_seed(0)
    x = torch.tensor(data)
    try:
        result = program(x)
    except Exception as error:
        calls = [(entry.name, entry.lineno) for entry in traceback.extract_tb(error.__traceback__)]
        result = type(error), str(error), [call for call in calls if call[0] != "outcome"]
    return str(result), str(x), str(KEPT), list(LOG), torch.get_rng_state()


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_outcomes_are_eagers(program: Program, backend: str, fullgraph: bool) -> None:
    """Where the program handles exceptions, or a number is out of data, it is one graph only if that is asked for."""
    if fullgraph and program in (between_lasting_writes, loops_before_it_raises):
        pytest.skip("it cannot be one graph")
    compiled = gramme.compile(program, backend=backend, fullgraph=fullgraph)
    for data in INPUTS + INPUTS:
        assert_alike(outcome(compiled, data), outcome(program, data), rtol=0, atol=0)
    if fullgraph or program not in WITH_BREAKS:
        assert gramme.statistics(compiled).segments == 1


def test_several_elements_are_refused() -> None:
    compiled = gramme.compile(of_each, backend="eager", fullgraph=True)
    with pytest.raises(gramme.CaptureError, match="on a tensor.s value"):
        compiled(torch.ones(3))


def test_a_branch_that_may_return_is_none() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            if len(LOG) > 3:
                return x
            raise Refused
        return x * 2

    compiled = gramme.compile(program, backend="eager", fullgraph=True)
    with pytest.raises(gramme.CaptureError, match="data-dependent branching"):
        compiled(torch.ones(3))


def test_text_is_pytorchs() -> None:
    shown: list[str] = []

    def show(module: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        shown.append(module.code)
        return module.forward

    for program in (told, untold):
        for front in (torch.compile, gramme.compile):
            front(program, backend=show, fullgraph=True)(torch.ones(3))  # type: ignore[operator]
        theirs, mine = shown[-2:]
        assert [line for line in theirs.splitlines() if "_assert" in line] == [
            line for line in mine.splitlines() if "_assert" in line
        ]
