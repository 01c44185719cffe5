"""Writes of what a tensor's type cannot hold raise as in eager, also where a graph made functional would convert."""

from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch

Program = Callable[[torch.Tensor], Any]
LOG: list[str] = []
BOOL, INT, FLOAT = torch.tensor([True, False]), torch.tensor([3, 4]), torch.tensor([0.5, 1.5])


# Refused by the operators; PyTorch's front end under aot_eager gives values for most.
def whole_number_into_bool(t: torch.Tensor) -> Any:
    return t.mul_(1)


def fraction_into_integers(t: torch.Tensor) -> Any:
    t *= 1.5
    return t


def tensor_into_integers(t: torch.Tensor) -> Any:
    return t.mul_(FLOAT)


def complex_into_floats(t: torch.Tensor) -> Any:
    return t.add_(torch.ones(2, dtype=torch.complex64))


def out_of_integers(t: torch.Tensor) -> Any:
    return torch.mul(FLOAT, 2, out=t[0])


def logit_of_integers(t: torch.Tensor) -> Any:
    return t.logit_()


def filled_with_complex(t: torch.Tensor) -> Any:
    return t.masked_fill_(BOOL, 1j)


# Allowed: these operators convert.
def copied(t: torch.Tensor) -> Any:
    return t.copy_(FLOAT)


def assigned(t: torch.Tensor) -> Any:
    t[0] = 2.5
    return t


def cleared(t: torch.Tensor) -> Any:
    return t.zero_()


def compared(t: torch.Tensor) -> Any:
    return torch.gt(FLOAT, 1, out=t[0])


PROGRAMS: list[tuple[Program, torch.Tensor]] = [
    (whole_number_into_bool, BOOL),
    (fraction_into_integers, INT),
    (fraction_into_integers, BOOL),
    (tensor_into_integers, INT),
    (complex_into_floats, FLOAT),
    (out_of_integers, INT),
    (logit_of_integers, INT),
    (filled_with_complex, FLOAT),
    (copied, INT),
    (copied, BOOL),
    (assigned, INT),
    (assigned, BOOL),
    (cleared, BOOL),
    (compared, INT),
]


def outcome(program: Program, start: torch.Tensor, rows: int) -> Any:
    """Of a write to the rows of a new tensor: what it gives or raises, what is written, what was said."""
    LOG.clear()
    written = start.repeat(rows, 1)
    try:
        given: Any = program(written).tolist()
    except RuntimeError as error:
        given = str(error)
    return given, written.tolist(), list(LOG)


@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize(("program", "start"), PROGRAMS, ids=lambda value: getattr(value, "__name__", None))
def test_outcome_is_eagers(program: Program, start: torch.Tensor, dynamic: bool | None, backend: str) -> None:
    def whole(t: torch.Tensor) -> Any:
        LOG.append("before")
        program(t)
        LOG.append("behind")
        return t + 1

    def handled(t: torch.Tensor) -> Any:
        try:
            program(t)
        except RuntimeError:
            LOG.append("handled")
        return t + 1

    for each in (whole, handled):
        compiled = gramme.compile(each, backend=backend, dynamic=dynamic)
        for rows in (3, 3, 5):
            assert outcome(compiled, start, rows) == outcome(each, start, rows)
