"""Views that autograd refuses: to be written, or to be used after their base was. The program sees it where it is."""

from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch

from e2e.front import GRAMME

pytestmark = pytest.mark.skipif(not GRAMME, reason="PyTorch's front end passes handlers by")

BACKENDS = ["eager", "native", pytest.param("aot_eager", marks=pytest.mark.slow)]
Log = list[Any]


class Manager:
    def __init__(self, log: Log) -> None:
        self.log = log

    def __enter__(self) -> None:
        self.log.append("entered")

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        self.log.append(kind and kind.__name__)


def base() -> torch.Tensor:
    return torch.arange(4.0).requires_grad_() * 1


def one_of_two() -> torch.Tensor:
    return base().split(2)[0]


def made_without_gradient() -> torch.Tensor:
    with torch.no_grad():
        return base()[:2]


def of_a_leaf() -> torch.Tensor:
    return torch.ones(4, requires_grad=True)[:2]


def stale() -> torch.Tensor:
    whole = base()
    part = whole.split(2)[0]
    whole.add_(1)
    return part


def of_inference() -> torch.Tensor:
    with torch.inference_mode():
        return torch.ones(2)


def plain() -> torch.Tensor:
    return torch.ones(2)


def with_gradient() -> torch.Tensor:
    return torch.ones(2, requires_grad=True) * 1


MAKERS = [one_of_two, made_without_gradient, of_a_leaf, stale, of_inference, plain, with_gradient]


def written(t: torch.Tensor, log: Log) -> Any:
    log.append("early")
    with Manager(log):
        t.mul_(2)
    log.append("late")
    return t


def caught(t: torch.Tensor, log: Log) -> Any:
    try:
        t.add_(1)
    except RuntimeError:
        log.append("caught")
        return t.detach() * 2
    return t * 3


def used_after_a_write(t: torch.Tensor, log: Log) -> Any:
    log.append(1)
    with Manager(log):
        y = t.view(1, -1)
    log.append("late")
    return y


def parts_written(t: torch.Tensor, log: Log) -> Any:
    try:
        for part in (t * 1).split(1):
            part.add_(0.5)
            log.append("late")
    except RuntimeError:
        log.append("caught")
    return t * 2


def parts_used(t: torch.Tensor, log: Log) -> Any:
    whole = t * 1
    first = whole.chunk(2)[0]
    whole.add_(1)
    try:
        return first * 2
    except RuntimeError:
        log.append("caught")
        return whole * 2


def parts_read(t: torch.Tensor, log: Log) -> Any:
    first, second = (t * 2).chunk(2)
    log.append("read")
    return first * second


PROGRAMS = [written, caught, used_after_a_write, parts_written, parts_used, parts_read]


def outcome(call: Any, make: Callable[[], torch.Tensor]) -> Any:
    log: Log = []
    t = make()
    try:
        result = call(t, log)
        found = ("returned", result.tolist(), result.requires_grad)
    except RuntimeError as error:
        text = str(error).replace("CompiledFunction", "Split")[:20]
        found = ("raised", text, False)
    return found, log, t.detach().tolist()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each.__name__)
def test_as_eager(program: Any, backend: str) -> None:
    """One compiled function for all: a segment for plain tensors does not serve a view that is refused."""
    if backend == "aot_eager" and program in (parts_written, parts_used):
        pytest.skip("AOTAutograd gives other views out of a graph, or fails")
    if backend == "aot_eager":
        makers = [make for make in MAKERS if make is not stale]  # fails in the compiler
    else:
        makers = MAKERS
    for order in (makers, makers[::-1], [plain, plain, one_of_two, with_gradient, of_a_leaf]):
        compiled = gramme.compile(program, backend=backend)
        for make in [each for each in order for _ in range(2)]:
            assert outcome(compiled, make) == outcome(program, make), make.__name__


def test_reading_parts_costs_nothing() -> None:
    compiled = gramme.compile(parts_read, backend="eager", fullgraph=True)
    assert outcome(compiled, with_gradient) == outcome(parts_read, with_gradient)
