"""A tensor that autograd saved was changed before the backward: the message is eager's, and names what it saved."""

from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
import torch.nn.functional as F

Program = Callable[[torch.Tensor, torch.Tensor], Any]


def linear(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.linear(x, w).tanh()


def with_bias(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.linear(x, w, w[:, 0])


def transposed(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x @ w.t()


def permuted(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return (x.transpose(0, 1).contiguous().transpose(0, 1) @ w.t()).exp()


def viewed(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return (x @ w.t()).view(2, -1).exp()


def both(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = (x @ w.t()).exp()
    return y, y * y


PROGRAMS: list[Program] = [linear, with_bias, transposed, permuted, viewed, both]
CHANGES: dict[str, Callable[[torch.Tensor, torch.Tensor, torch.Tensor], object]] = {
    "weight": lambda x, w, y: w.add_(1),
    "view of the weight": lambda x, w, y: w.t().mul_(2),
    "input": lambda x, w, y: x.mul_(2),
    "result": lambda x, w, y: y.detach().mul_(2),
    "nothing": lambda x, w, y: None,
}


def outcome(function: Program, change: str, sizes: tuple[int, ...], frozen: str) -> Any:
    torch.manual_seed(0)
    x, w = torch.randn(*sizes, requires_grad=frozen != "input"), torch.randn(5, 3, requires_grad=frozen != "weight")
    results = function(x, w)
    results = results if isinstance(results, tuple) else (results,)
    with torch.no_grad():
        CHANGES[change](x, w, results[0])
    try:
        sum(result.sum() for result in results).backward()
    except RuntimeError as error:
        return str(error)
    return [None if t.grad is None else t.grad.sum().item() for t in (x, w)]


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("sizes", [(4, 3), (2, 2, 3)])
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_message(program: Program, sizes: tuple[int, ...], recorded: bool) -> None:
    compiled = gramme.compile(program, backend="native", options={"recorded_backward": recorded})
    for frozen in ("", "input", "weight"):
        for _ in range(2):
            outcome(compiled, "nothing", sizes, frozen)
        for change in CHANGES:
            found, expected = (outcome(each, change, sizes, frozen) for each in (compiled, program))
            assert found == expected, (frozen, change)
