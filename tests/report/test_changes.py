"""What a guard that failed says has changed, by kind and subject; and its hint, done: nothing is captured again."""

import functools
import re
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import gramme
import pytest
import torch
from gramme._words import in_words

BASE = Path(__file__).parents[2] / "src" / "base"
X = torch.linspace(-1, 1, 9).reshape(3, 3)
Y = X.exp()
WIDE = torch.ones(3, 4)
compiled = functools.partial(gramme.compile, backend="native", dynamic=False)


class Case(NamedTuple):
    """Calls that are captured twice, words of the hint, and the calls as the hint says."""

    kind: str
    subject: str
    broken: Callable[[], Any]
    hint: str
    mended: Callable[[], Any]


def sine(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + 1


def scaled(x: torch.Tensor, by: Any) -> torch.Tensor:
    return x * by if by != 1 else x


def multiplied(x: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
    return x * by


def total(parts: Any) -> torch.Tensor:
    y = torch.zeros(3, 3)
    for part in parts:
        y = y + part
    return y


def applied(x: torch.Tensor, function: Any) -> torch.Tensor:
    return function(x) + 1


def by_name(x: torch.Tensor, name: str) -> torch.Tensor:
    return x.sin() if name == "sin" else x.cos()


def values(x: torch.Tensor, state: dict[str, Any]) -> torch.Tensor:
    for each in state.values():
        x = x + each
    return x


def added(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x + y


def by_size(x: torch.Tensor) -> torch.Tensor:
    return x.sin() if x.shape[0] > 5 else x.cos()


def of_holder(x: torch.Tensor, holder: Any) -> torch.Tensor:
    return x * getattr(holder, "scale", 1.0)


def warned(x: torch.Tensor) -> torch.Tensor:
    warnings.warn("old", DeprecationWarning, stacklevel=1)
    return x.sin()


SCALE = 2.0


def by_global(x: torch.Tensor) -> torch.Tensor:
    return x.round(decimals=int(SCALE))


def in_two_globals(*scales: float) -> None:
    names = dict(globals())
    f = compiled(types.FunctionType(by_global.__code__, names))
    for names["SCALE"] in scales:
        f(X)


def each_alone(function: Any, *calls: tuple[Any, ...]) -> list[Any]:
    return [compiled(types.FunctionType(function.__code__, globals()))(*args) for args in calls]


def in_turn(function: Any, *calls: tuple[Any, ...], **how: Any) -> list[Any]:
    f = compiled(types.FunctionType(function.__code__, globals()), **how)
    return [f(*args) for args in calls]


def in_two_modes(first: Any, second: Any) -> None:
    first(X)
    with torch.no_grad():
        second(X)


def mode_changes() -> None:
    f = compiled(sine)
    in_two_modes(f, f)


def modes_apart() -> None:
    in_two_modes(compiled(lambda x: x.sin() + 1), compiled(lambda x: 1 + x.sin()))


def holder_with(before: dict[str, Any], after: dict[str, Any]) -> None:
    f = compiled(of_holder)
    holder = types.SimpleNamespace(**before)
    f(X, holder)
    holder.__dict__.clear()
    holder.__dict__.update(after)
    f(X, holder)


def half(x: torch.Tensor) -> torch.Tensor:
    return x / 2


def redefined(at_once: bool) -> None:
    def inner(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    f = compiled(lambda x: inner(x) + 1)
    if at_once:
        inner.__code__ = half.__code__
    f(X)
    inner.__code__ = half.__code__
    f(X)


def marked(before: bool) -> None:
    f = gramme.compile(sine, backend="native")
    x = torch.ones(4, 3)
    if before:
        torch._dynamo.mark_dynamic(x, 0)
    f(x)
    torch._dynamo.mark_dynamic(x, 0)
    f(x)


def filtered(before: bool) -> None:
    f = compiled(warned)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if before:
            warnings.simplefilter("always")
        with warnings.catch_warnings(record=True):
            f(X)
        warnings.simplefilter("always")
        with warnings.catch_warnings(record=True):
            f(X)


CASES = [
    Case(
        "Shape",
        "x",
        lambda: in_turn(sine, (WIDE,), (WIDE[:2],)),
        "dynamic=True",
        lambda: in_turn(sine, (WIDE,), (WIDE[:2],), dynamic=True),
    ),
    Case(
        "Size",
        "",
        lambda: in_turn(by_size, (torch.ones(4),), (torch.ones(7),), dynamic=True),
        "one side",
        lambda: in_turn(by_size, (torch.ones(6),), (torch.ones(7),), dynamic=True),
    ),
    Case(
        "Strides",
        "x",
        lambda: in_turn(sine, (X,), (X.T,)),
        "contiguous()",
        lambda: in_turn(sine, (X,), (X.T.contiguous(),)),
    ),
    Case(
        "RequiresGrad",
        "x",
        lambda: in_turn(sine, (X,), (X.clone().requires_grad_(),)),
        "for each mode",
        lambda: each_alone(sine, (X,), (X.clone().requires_grad_(),)),
    ),
    Case("Mode", "", mode_changes, "for each mode", modes_apart),
    Case(
        "TensorKind",
        "x",
        lambda: in_turn(sine, (X,), (X.double(),)),
        "kind of argument",
        lambda: each_alone(sine, (X,), (X.double(),)),
    ),
    Case(
        "Type",
        "parts",
        lambda: in_turn(total, ([X, Y],), ((X, Y),)),
        "kind of argument",
        lambda: in_turn(total, ([X, Y],), (list((X, Y)),)),
    ),
    Case(
        "Number",
        "by",
        lambda: in_turn(scaled, (X, 1), (X, 2)),
        "as a tensor",
        lambda: in_turn(multiplied, (X, torch.tensor(1)), (X, torch.tensor(2))),
    ),
    Case("Number", "SCALE", lambda: in_two_globals(1.0, 2.0), "as a tensor", lambda: in_two_globals(2.0, 2.0)),
    Case(
        "Value",
        "name",
        lambda: in_turn(by_name, (X, "sin"), (X, "cos")),
        "for each value",
        lambda: each_alone(by_name, (X, "sin"), (X, "cos")),
    ),
    Case(
        "Object",
        "function",
        lambda: in_turn(applied, (X, torch.sin), (X, torch.cos)),
        "the same object",
        lambda: in_turn(applied, (X, torch.sin), (Y, torch.sin)),
    ),
    Case(
        "Created",
        "holder.scale",
        lambda: holder_with({}, {"scale": 2.0}),
        "before the first call",
        lambda: holder_with({"scale": 2.0}, {"scale": 2.0}),
    ),
    Case(
        "Gone",
        "holder.scale",
        lambda: holder_with({"scale": 2.0}, {}),
        "before the first call",
        lambda: holder_with({"scale": 2.0}, {"scale": 2.0}),
    ),
    Case(
        "Container",
        "state",
        lambda: in_turn(values, (X, {"a": Y}), (X, {"a": Y, "b": Y})),
        "the same keys",
        lambda: in_turn(values, (X, {"a": Y}), (X, {"a": torch.ones(3, 3)})),
    ),
    Case(
        "Sharing",
        "x",
        lambda: in_turn(added, (X.clone(), Y), *[(Z, Z) for Z in [X.clone()]]),
        "share memory",
        lambda: in_turn(added, (X.clone(), Y), (Y.clone(), X)),
    ),
    Case("Definition", "inner", lambda: redefined(False), "before the first call", lambda: redefined(True)),
    Case("Mark", "x", lambda: marked(False), "before the first call", lambda: marked(True)),
    Case("Warning", "", lambda: filtered(False), "filters of warnings", lambda: filtered(True)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kind}-{case.subject}")
def test_a_hint_that_is_followed_takes_the_recompile_away(case: Case) -> None:
    with gramme.record() as before:
        case.broken()
    (change,) = [change for each in before.recorded.captures for change in each.changes]
    assert (change.kind, in_words(change.subject)) == (case.kind, case.subject), change
    assert case.hint in change.hint
    with gramme.record() as after:
        case.mended()
    assert [each.changes for each in after.recorded.captures if each.is_recompile] == []


def test_each_kind_has_a_program_or_says_nothing() -> None:
    rows = dict(re.findall(r'^MISMATCH\((\w+), "(.*)"\)$', (BASE / "mismatches.def").read_text(), re.MULTILINE))
    elsewhere = {
        "LoopEnd",  # another path, no change
        "Caller",  # only segments that return into a caller ask which it is
        "LoopPosition",  # only segments from the middle of a loop ask where its iterator stands
        "Unreadable",  # an object in between became one of another kind, which its own guard says first
    }
    assert {case.kind for case in CASES} | elsewhere == set(rows)
    assert all(hint.endswith(".") for name, hint in rows.items() if name != "LoopEnd")
