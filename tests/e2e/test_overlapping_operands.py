"""Kernels refuse to write what an operand shares a part of: the program's handler gets the exception, as eagerly."""

from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch


# fmt: off
def adds(x): x[1:].add_(x[:-1])
def assigns(x): x[1:] = x[:-1]
def out_argument(x): torch.add(x[1:], 1, out=x[:-1])
def multiplies_more(x): x[1:].addcmul_(x[:-1], x[:-1])
def interpolates(x): x[1:].lerp_(x[:-1], 0.5)
def clamps(x): x[1:].clamp_(max=x[:-1])
def many(x): torch._foreach_add_([x[1:]], [x[:-1]])
def made_inside(x): y = x * 2; y[1:].add_(y[:-1])
def beyond_the_storage(x): x.as_strided((8,), (1,)).add_(1)
def allowed(x): x[:2].add_(x[2:]); x[1:].add_(x[1:])
def allowed_columns(x): y = x.reshape(2, 2); y[:, :1].add_(y[:, 1:])
# fmt: on

PROGRAMS = [
    *(adds, assigns, out_argument, multiplies_more, interpolates, clamps, many, made_inside),
    *(beyond_the_storage, allowed, allowed_columns),
]


@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
@pytest.mark.parametrize("write", PROGRAMS, ids=lambda write: write.__name__)
def test_the_handler_gets_it(write: Callable[[torch.Tensor], None], backend: str) -> None:
    if write is beyond_the_storage and backend == "aot_eager":
        pytest.skip("AOTAutograd's own operator refuses it in words of its own")

    def program(x: torch.Tensor, log: list[str]) -> str:
        log.append("before")
        try:
            write(x)
            log.append("behind")
        except RuntimeError as error:
            return str(error)
        finally:
            log.append("finally")
        return "written"

    def run(call: Callable[..., Any]) -> tuple[Any, ...]:
        x, log = torch.arange(4.0), []
        return call(x, log), x.tolist(), log

    compiled = gramme.compile(program, backend=backend)
    for _ in range(3):
        assert run(compiled) == run(program)


@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
def test_operands_that_come_to_overlap(backend: str) -> None:
    def program(a: torch.Tensor, b: torch.Tensor) -> str:
        try:
            a.add_(b)
        except RuntimeError:
            return "refused"
        return "written"

    def run(call: Callable[..., Any], how: int) -> tuple[Any, ...]:
        x = torch.arange(6.0)
        pairs = [(x[:3], x[3:]), (x[:3], x[1:4]), (x[:3], x[:3]), (x[::2], x[1::2]), (torch.ones(3), torch.ones(3))]
        return call(*pairs[how]), x.tolist()

    for order in ((0, 1, 2, 3, 4), (2, 1, 0, 4, 3), (4, 1, 2, 3, 0), (3, 1, 2, 0, 4)):
        compiled = gramme.compile(program, backend=backend)
        for how in (*order, *order):
            assert run(compiled, how) == run(program, how)


def test_as_strided_of_a_smaller_storage() -> None:
    def program(x: torch.Tensor, y: torch.Tensor, log: list[str]) -> str:
        try:
            y.add_(1)
            z = x.as_strided((6,), (1,))
            log.append("behind")
        except RuntimeError:
            return "refused"
        return str(z.sum().item())

    compiled = gramme.compile(program, backend="eager")
    for size in (8, 4, 8):
        results = []
        for call in (program, compiled):
            y, log = torch.zeros(1), []
            results.append((call(torch.ones(size)[:4], y, log), y.tolist(), log))
        assert results[0] == results[1]
