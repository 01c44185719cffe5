"""What ends a segment before an operation: each row of the table alone, the order of rows, programs that meet them."""

from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from gramme import _C
from subclasses.classes import One
from torch.utils._pytree import tree_map_only

capturing = _C.testing.testing_capture  # type: ignore[attr-defined]
ROWS = capturing.refusals()
STAGES = range(4)


def first(stage: int, facts: Any) -> str | None:
    return capturing.first_refusal(stage, list(facts))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[1])
def test_a_row(row: tuple[int, str, list[str], list[str], str, str]) -> None:
    stage, name, facts, others, *_ = row
    assert facts
    assert first(stage, facts) == name
    for fact in facts:  # each is needed: without it another row holds, or none
        assert first(stage, set(facts) - {fact}) != name
    for fact in others:
        assert first(stage, [*facts, fact]) != name
    assert all(first(other, facts) != name for other in STAGES if other != stage)


def test_the_first_of_two_rows_is_told() -> None:
    for i, (stage, name, facts, others, *_) in enumerate(ROWS):
        for later, _, more, *_ in ROWS[i + 1 :]:
            if later == stage and not set(others) & set(more):
                assert first(stage, {*facts, *more}) == name


def test_nothing_is_refused_without_facts() -> None:
    assert [first(stage, []) for stage in STAGES] == [None] * 4
    assert [first(stage, ["Breaks", "RunsPython", "RunsClass", "LateSeed"]) for stage in STAGES] == [None] * 4


class Refusing(One):
    """A wrapper that has no negation."""

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.ops.aten.neg.default:
            raise RuntimeError("no negation")
        return function(*tree_map_only(Refusing, lambda each: each.inside, args), **(kwargs or {}))


@torch.library.custom_op("gramme_refusals::twice", mutates_args=())
def without_fake(x: torch.Tensor) -> torch.Tensor:
    return x * 2


WRAPPER = Refusing(torch.arange(4.0))
seen: list[int] = []


def a_class_that_raises(x: torch.Tensor) -> torch.Tensor:
    try:
        return WRAPPER.neg()
    except RuntimeError:
        return x + 1


def data(x: torch.Tensor) -> torch.Tensor:
    return x.nonzero()


def inference_tensors(x: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        y = torch.ones(4)
    try:
        y.add_(x)
    except RuntimeError:
        return y + x
    return y


def an_operator_without_a_fake(x: torch.Tensor) -> torch.Tensor:
    return without_fake(x) + 1


def a_cast_inside(x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        inverse = torch.linalg.pinv(x.view(2, 2))
    return (inverse.to(torch.float32) * 2 if inverse.dtype == torch.float32 else inverse).view(-1)


def a_warning(x: torch.Tensor) -> torch.Tensor:
    return torch.range(0, 3) + x


def a_state(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    torch.use_deterministic_algorithms(True)
    z = y * 2
    torch.use_deterministic_algorithms(False)
    return z


def a_seed(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(1)
    return x + torch.rand(4)


def hooks_of_saved_tensors(x: torch.Tensor) -> torch.Tensor:
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        seen.append(1)
        return x * 2


def a_class_after_effects(x: torch.Tensor) -> torch.Tensor:
    seen.append(1)
    return WRAPPER * 2 + x


PROGRAMS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], str]] = {
    "ClassRaises": (a_class_that_raises, "Refusing.__torch_dispatch__, in which RuntimeError: no negation"),
    "CastsInside": (
        a_cast_inside,
        "an operator in whose kernel autocast casts, so that it gives another dtype than PyTorch infers",
    ),
    "DataDependent": (data, "DynamicOutputShapeException: aten.nonzero.default"),
    "RaisesOnInference": (inference_tensors, "Inplace update to inference tensor outside InferenceMode"),
    "NotInferred": (an_operator_without_a_fake, "There was no fake impl registered"),
    "Warns": (a_warning, "an operation that warns"),
    "AfterState": (a_state, "an operation after torch.use_deterministic_algorithms"),
    "AfterSeed": (a_seed, "a random operation after torch.manual_seed"),
    "HeardByHooks": (hooks_of_saved_tensors, "an operation of which hooks of saved tensors hear"),
    "ClassAfterEffects": (
        a_class_after_effects,
        "an operation of a class, which may look at what the program has written",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore")
def test_a_program(name: str) -> None:
    program, text = PROGRAMS[name]
    fixed = next(row[5] for row in ROWS if row[1] == name)
    x = torch.arange(4.0)
    seen.clear()
    wanted = program(x)
    effects = list(seen)
    compiled = gramme.compile(program, backend="eager")
    for _ in range(2):
        seen.clear()
        assert torch.equal(compiled(x), wanted)
        assert seen == effects
    assert text in str(gramme.captured(compiled))
    assert text.startswith(fixed)
