"""What a segment holds, object by object: how each can be found again, or why not."""

import collections
import enum
import gc
import types
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from gramme import _C
from gramme._compile import entry_of

portable = _C.testing.testing_portable  # type: ignore[attr-defined]

Row = tuple[str, str, str, str, Any]


class Scale:
    def __init__(self, by: float) -> None:
        self.by = by

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self.times(x)

    def times(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.by

    @staticmethod
    def static(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    @property
    def doubled(self) -> float:
        return self.by * 2


class Mode(enum.Enum):
    ADD = 1


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    def around(*args: Any) -> Any:
        return function(*args)

    return around


@decorated
def behind_a_decorator(x: torch.Tensor) -> torch.Tensor:
    return x - 1


def helper(x: torch.Tensor) -> torch.Tensor:
    return x.relu()


def inventory(function: Callable[..., Any], *args: Any) -> list[Row]:
    """Of the only segment of one call."""
    compiled = gramme.compile(function, backend="native")
    compiled(*args)
    [rows] = portable.inventory(entry_of(compiled))
    return rows


def texts(rows: list[Row], place: str | None = None) -> set[str]:
    return {text for where, _, text, _, _ in rows if place in (None, where)}


def reasons(rows: list[Row]) -> set[str]:
    return {reason for _, _, _, reason, _ in rows if reason} - {"Artifact"}


def test_functions_of_modules_are_found_by_name() -> None:
    rows = inventory(lambda x: behind_a_decorator(helper(x)) + Scale.static(x), torch.ones(2))
    here = f"{__name__}:"
    assert {here + "helper", here + "Scale.static.<function>"} <= texts(rows)
    assert here + "behind_a_decorator.<cell 0>" in texts(rows)
    assert reasons(rows) == set()


def test_classes_enumerations_and_functions_of_c() -> None:
    def program(scale: Scale, x: torch.Tensor, mode: Mode) -> Any:
        return scale(x) * scale.doubled if mode is Mode.ADD else torch.sin(x), len([x])

    rows = inventory(program, Scale(2.0), torch.ones(2), Mode.ADD)
    assert {f"{__name__}:Scale", f"{__name__}:Mode.ADD", f"{__name__}:Scale.doubled.<accessor 0>"} <= texts(rows)
    assert reasons(rows) == set()


def test_operators_of_a_graph_are_found_by_name() -> None:
    rows = inventory(lambda x: torch.ops.aten.add.Tensor(torch.sin(x), x), torch.ones(2))
    assert {"torch:sin", "torch:ops.aten.add.Tensor"} <= texts(rows, "GraphTarget")


def test_what_only_the_call_leads_to_is_read_from_it() -> None:
    def make(by: float) -> Any:
        class Local:
            def times(self, x: torch.Tensor) -> torch.Tensor:
                return x * by

        return Local()

    rows = inventory(lambda local, x: local.times(x), make(2.0), torch.ones(2))
    assert "the type of L['local']" in texts(rows)
    [found] = {(kind, text) for _, kind, text, _, held in rows if getattr(held, "__name__", "") == "times"}
    assert found == ("from the call", "Local.times")
    assert reasons(rows) == set()


def test_bound_functions_of_c_are_found_by_what_they_are_bound_to() -> None:
    rows = inventory(lambda x: (x + 1, iter({1: x})), torch.ones(2))
    assert reasons(rows) == set()


def test_code_is_found_through_its_function() -> None:
    def program(x: torch.Tensor) -> Any:
        def inner(y: torch.Tensor) -> torch.Tensor:
            return y + x

        return inner

    rows = inventory(program, torch.ones(2))
    [code] = {text for _, _, text, _, held in rows if isinstance(held, types.CodeType) and held.co_name == "inner"}
    place, _, index = code.rpartition(".")
    assert place.endswith(".<constant 3>") or "<code>" in place
    assert index.startswith("<constant")


def other(t: Any) -> Any:
    return t


@pytest.mark.parametrize(
    ("reason", "program"),
    [
        ("HashOrder", lambda x, words={"one", "two"}: (x, words | {"three"})),  # noqa: B006
        ("Constant", lambda x, t=(1, "a"): (x, t is other((1, "a")))),
        ("Constant", lambda x, t=tuple([1, "a"]): (x, t is other((1, "a")))),
        ("Opaque", lambda x: (x, collections.Counter("aab").most_common(1))),
    ],
)
def test_what_is_not_portable_says_why(reason: str, program: Callable[..., Any]) -> None:
    assert reasons(inventory(program, torch.ones(2))) == {reason}
    assert reason in portable.reasons()


def test_explain_says_what_is_not_portable() -> None:
    kept = gramme.explain(lambda x: x + 1)(torch.ones(2))
    assert [segment.unportable for segment in kept.segments] == [[]]
    words = {"one", "two"}
    lost = gramme.explain(lambda x: (x + 1, words | {"three"}))(torch.ones(2))
    [whys] = [segment.unportable for segment in lost.segments]
    assert [why.partition(":")[0] for why in whys] == ["Order a set", "ReplayObject a set"]


def test_nothing_that_the_collector_sees_is_left_out() -> None:
    def program(scale: Scale, x: torch.Tensor, rows: dict[str, Any], kept: list[Any]) -> Any:
        rows["new"] = collections.OrderedDict(a=x)
        kept.append(lambda: x)
        return scale(x), {1, 2} | {3}, Mode.ADD, torch.float64

    compiled = gramme.compile(program, backend="native")
    compiled(Scale(2.0), torch.ones(2), {}, [])
    entry = entry_of(compiled)
    [rows] = portable.inventory(entry)
    held = {id(row[4]) for row in rows}
    backend = gc.get_referents(entry)
    [guards] = [o for o in backend if type(o).__name__ == "Guards"]  # shared by segments of equal code
    backend = [o for o in backend if o is not guards] + gc.get_referents(guards)
    seen = [o for o in backend if id(o) not in held and o not in (program, program.__code__, entry.__dict__)]
    apart = [o for o in seen if type(o).__name__ == "KeptGraph"]  # described for itself, or left behind
    assert len(apart) == 1
    assert [type(o).__name__ for o in seen if not callable(o) and o not in apart] == []
    assert len(held) > 20
