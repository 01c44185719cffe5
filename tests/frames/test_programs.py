"""Every program run instruction by instruction, stopped and handed over everywhere, must look as plain Python does."""

import gc
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from frames import programs
from frames.support import native, observe, stepping

NAMES = sorted(programs.PROGRAMS)
# what has no exported helper, or cannot be awaited: CPython runs these frames from there on
HANDED_OVER = {"exception_group"} | ({"awaiting_what_cannot_be"} if sys.version_info < (3, 14) else set())
# Intrinsics, which 3.12 does not export: type parameters, and what turns StopIteration into RuntimeError.
if sys.version_info[:2] == (3, 12):
    HANDED_OVER |= {
        "asynchronous_block_without_exit",
        "asynchronous_loop_over_anything",
        "awaited_already",
        "delegation_of_exceptions",
        "generator_closed",
        "generator_raises",
        "generator_stops_by_hand",
        "names_in_the_scopes_of_a_class",
        "type_aliases",
        "type_parameters",
        "type_parameters_in_a_traceback",
        "unpack_iterator_raises",
    }


@pytest.fixture(params=NAMES)
def program(request: pytest.FixtureRequest) -> Any:
    return programs.PROGRAMS[request.param]


@pytest.fixture(autouse=True)
def no_collections() -> Iterator[None]:
    """While any thread collects, frames count as finalizers and are not stepped: resume points would be missing."""
    gc.disable()
    yield
    gc.enable()


def test_stepped(program: Any) -> None:
    expected = observe(program)
    entry = stepping(program)
    for _ in range(3):
        assert observe(entry) == expected
    counters = native.counters(entry)
    assert counters["steps"] > 0
    assert counters["plain"] == 0
    assert bool(counters["handovers"]) == (program.__name__ in HANDED_OVER)


def test_stepped_with_callees(program: Any) -> None:
    expected = observe(program)
    entry = stepping(program, into_callees=True)
    for _ in range(2):
        assert observe(entry) == expected


def test_written_back_at_every_visit(program: Any) -> None:
    expected = observe(program)
    entry = stepping(program, visit=lambda *stack: ())
    for _ in range(2):
        assert observe(entry) == expected
    assert native.counters(entry)["segments"] > 0


class StopAt:
    """A compiled graph that fails at its n-th call: the frame goes on in CPython from there."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __call__(self, *stack: Any) -> tuple[()]:
        self.n -= 1
        if self.n < 0:
            raise RuntimeError("this graph fails")
        return ()


def visits(program: Any, **options: Any) -> int:
    entry = stepping(program, visit=lambda *stack: (), **options)
    observe(entry)
    return native.counters(entry)["segments"]


def spread(count: int, soak: bool) -> list[int]:
    step = 1 if soak or count <= 40 else count // 40
    return list(range(0, count, step))


@pytest.mark.parametrize("into_callees", [False, True])
def test_handed_over_at_every_visit(program: Any, into_callees: bool, soak: bool) -> None:
    expected = observe(program)
    for n in spread(visits(program, into_callees=into_callees), soak):
        entry = stepping(program, visit=StopAt(n), into_callees=into_callees)
        assert observe(entry) == expected, f"handed over at visit {n}"
        assert native.counters(entry)["graph_errors"] >= 1


def test_handed_over_at_every_point(program: Any, soak: bool) -> None:
    expected = observe(program)
    entry = stepping(program)
    observe(entry)
    for n in spread(native.counters(entry)["captures"], soak):
        entry = stepping(program, hand_over_at=n)
        for _ in range(2):
            assert observe(entry) == expected, f"handed over at resume point {n}"
        counters = native.counters(entry)
        assert counters["handovers"] + counters["plain"] >= 1  # the first resume point is the function's start


def test_callbacks_of_the_collector_are_not_stepped(program: Any) -> None:
    """They come whenever objects are made: a run would not have the same resume points as the next."""

    def collected(phase: str, info: dict[str, int]) -> list[str]:
        return [phase, *info]

    gc.collect()  # finalizers of what other tests left would run while the program does
    expected = visits(program)
    threshold = gc.get_threshold()
    gc.callbacks.append(collected)
    gc.set_threshold(10)
    gc.enable()
    try:
        assert visits(program) == expected
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(collected)


def test_programs_use_every_instruction() -> None:
    """All that step() knows, and code of this version has, is run above."""
    version = f"{sys.version_info.major}{sys.version_info.minor}"
    table = Path(__file__).parents[2] / "src/cpython/opcodes" / f"{version}.def"
    of_version = set(re.findall(r"\b(?:SAME|PART)\((\w+)", table.read_text()))
    left = {name for name, properties, steps, _ in native.opcodes() if steps} & of_version
    code = [program.__code__ for program in programs.PROGRAMS.values()]
    while code:
        current = code.pop()
        left -= {row[2] for row in native.decode(current)}
        code += [constant for constant in current.co_consts if hasattr(constant, "co_code")]
    assert not left


def test_handled_exception_of_the_caller() -> None:
    """A function called while its caller handles an exception sees and keeps it."""

    def inner() -> Any:
        seen = sys.exc_info()[1]
        try:
            raise KeyError("inner")
        except KeyError as error:
            context = error.__context__
        return seen is context, sys.exc_info()[1] is seen

    def again() -> None:
        raise  # noqa: PLE0704

    entry, raising = stepping(inner), stepping(again)
    for _ in range(2):
        try:
            raise ValueError("outer")
        except ValueError as error:
            outer = error
            seen = entry()
            with pytest.raises(ValueError, match="outer") as caught:
                raising()
        assert seen == (True, True)
        assert caught.value is outer
