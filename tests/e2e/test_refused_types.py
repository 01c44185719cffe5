"""Operators whose kernels refuse the types of their arguments, which metadata does not show.

The exception comes where it comes eagerly, behind effects and writes, too.
"""

from collections.abc import Callable

import gramme
import pytest
import torch
import torch.nn.functional as F

DOUBLE, COMPLEX, LONG = torch.float64, torch.complex64, torch.int64

REFUSED: dict[str, Callable[[], object]] = {
    "mm of two types": lambda: torch.ones(2, 2) @ torch.ones(2, 2, dtype=DOUBLE),
    "linear of two types": lambda: F.linear(torch.ones(1, 2), torch.ones(1, 2, dtype=DOUBLE)),
    "softmax of ints": lambda: F.softmax(torch.arange(3), -1),
    "gelu of ints": lambda: F.gelu(torch.arange(3)),
    "float & int": lambda: torch.ones(2) & torch.arange(2),
    "std of ints": lambda: torch.std(torch.arange(3)),
    "complex < 1": lambda: torch.ones(2, dtype=COMPLEX) < 1,
    "clamp of complex": lambda: torch.ones(2, dtype=COMPLEX).clamp(0, 1),
    "max of nothing": lambda: torch.max(torch.ones(0), 0),
    "amax of nothing": lambda: torch.amax(torch.ones(0, 2), 0),
    "a mask of floats": lambda: torch.ones(2).masked_fill_(torch.ones(2), 1.0),
    "max_pool of bools": lambda: F.max_pool2d(torch.ones(1, 1, 2, 2).bool(), 2),
    "topk of bools": lambda: torch.topk(torch.ones(2).bool(), 1),
}
TAKEN: dict[str, Callable[[], object]] = {
    "ints": lambda: (torch.arange(3) * 2 + 1).sum(),
    "masks": lambda: torch.ones(2).masked_fill(torch.tensor([True, False]), 0.0),
    "complex": lambda: torch.ones(2, dtype=COMPLEX) * 2,
    "mixed": lambda: torch.ones(2) + torch.arange(2),
    "bools": lambda: (torch.ones(2) > 0) & (torch.ones(2) < 2),
}


@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
@pytest.mark.parametrize("name", [*REFUSED, *TAKEN])
def test_behind_an_effect_and_a_write(name: str, backend: str) -> None:
    operate = {**REFUSED, **TAKEN}[name]

    def handled(z: torch.Tensor, log: list[str]) -> None:
        z.add_(1)
        log.append("before")
        try:
            operate()
        except (RuntimeError, IndexError, NotImplementedError) as error:
            log.append(type(error).__name__)
        log.append("behind")
        z.add_(1)

    def left(z: torch.Tensor, log: list[str]) -> None:
        z.add_(1)
        log.append("before")
        operate()
        log.append("behind")
        z.add_(1)

    def run(program: Callable[..., None]) -> tuple[str, float, list[str]]:
        z, log = torch.zeros(1), list[str]()
        try:
            program(z, log)
        except (RuntimeError, IndexError, NotImplementedError) as error:
            return str(error), z.item(), log
        return "", z.item(), log

    for program in (handled, left):
        compiled = gramme.compile(program, backend=backend)
        for _ in range(2):
            assert run(compiled) == run(program)


@pytest.mark.parametrize("name", TAKEN)
def test_what_kernels_take_stays_in_one_graph(name: str) -> None:
    def program(z: torch.Tensor, log: list[str]) -> object:
        z.add_(1)
        log.append("before")
        return TAKEN[name]()

    compiled = gramme.compile(program, backend="eager", fullgraph=True)
    assert str(compiled(torch.zeros(1), [])) == str(program(torch.zeros(1), []))


def test_the_shape_changes_behind_a_gradient() -> None:
    def program(a: torch.Tensor) -> None:
        a.grad = torch.ones(2)
        a.unsqueeze_(1)

    a, b = torch.zeros(2), torch.zeros(2)
    gramme.compile(program, backend="eager")(a)
    program(b)
    assert a.shape == b.shape
    assert a.grad is not None
    assert a.grad.shape == b.grad.shape  # type: ignore[union-attr]
