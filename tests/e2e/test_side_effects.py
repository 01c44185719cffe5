"""The programs on side effects as a table: what is not captured says why, families known to go wrong have variants.

And what of their effects no description of objects shows.
"""

import collections
import contextvars
import gc
import traceback
import types
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from programs import programs

from e2e.front import Compiled

ROWS = [p for p in programs() if p.category.startswith("fx_")]


def test_what_is_not_captured_says_why() -> None:
    assert [p.name for p in ROWS if not p.one_graph and not p.why] == []


def test_nearly_all_are_captured() -> None:
    refused = [p.name for p in ROWS if p.why]
    assert len(refused) <= 0.055 * len(ROWS), f"{len(refused)} of {len(ROWS)}: {refused}"


def test_known_families_have_three_variants() -> None:
    variants = collections.Counter(p.known for p in ROWS if p.known)
    assert [family for family, count in variants.items() if count < 3] == []


# ---- what a kept exception holds


class Kept:
    error: BaseException


def keep_an_exception(x: torch.Tensor, kept: Kept) -> torch.Tensor:
    y = x + 1

    def inner(code: int) -> None:
        local = [code, y]
        try:
            raise KeyError(local[0])
        except KeyError as error:
            raise ValueError("text") from error

    def outer() -> None:
        inner(5)

    try:
        outer()
    except ValueError as error:
        kept.error = error
    return y * 2


def frames_of(trace: types.TracebackType | None) -> list[tuple[str, int, list[str]]]:
    """Function, line and variables of each frame, the outermost of them the program's own."""
    found = []
    for frame, line in traceback.walk_tb(trace):
        found.append((frame.f_code.co_name, line, sorted(frame.f_locals)))
    return found


def test_a_kept_exception_tells_where_it_was_raised() -> None:
    compiled = Compiled(keep_an_exception, fullgraph=True)
    x, eager, captured = torch.ones(2), Kept(), Kept()
    keep_an_exception(x, eager)
    for _ in range(2):  # captured, and a hit
        compiled(x, captured)
        assert frames_of(captured.error.__traceback__) == frames_of(eager.error.__traceback__)
        cause, expected = captured.error.__cause__, eager.error.__cause__
        assert cause is not None
        assert expected is not None
        assert frames_of(cause.__traceback__) == frames_of(expected.__traceback__)
        assert traceback.format_exception(captured.error) == traceback.format_exception(eager.error)
        innermost = collections.deque(traceback.walk_tb(captured.error.__traceback__), 1)[0][0]
        assert torch.equal(innermost.f_locals["local"][1], x + 1)


# ---- what guards notice of objects that were there before

LEVEL: contextvars.ContextVar[int] = contextvars.ContextVar("level", default=0)


def put_back(x: torch.Tensor, token: contextvars.Token[int]) -> torch.Tensor:
    y = x + LEVEL.get()
    LEVEL.reset(token)
    return y + LEVEL.get()


def test_a_token_is_good_once() -> None:
    compiled = Compiled(put_back)
    LEVEL.set(1)
    for held in (1, 1):
        token = LEVEL.set(5)
        assert compiled(torch.zeros(1), token).item() == 5 + held
        assert LEVEL.get() == held
    for used in (token, contextvars.copy_context().run(LEVEL.set, 3)):
        with pytest.raises((RuntimeError, ValueError)):
            compiled(torch.zeros(1), used)
    assert LEVEL.get() == 1


def take_two(x: torch.Tensor, it: Iterator[int]) -> tuple[Any, ...]:
    return next(it, None), next(it, None), x + 1


def test_an_iterator_goes_on_from_call_to_call() -> None:
    compiled = Compiled(take_two, fullgraph=True)
    row = [1, 2, 3]
    eager, captured, x = iter(row), iter(row), torch.ones(1)
    for _ in range(3):
        assert compiled(x, captured)[:2] == take_two(x, eager)[:2]
    row.append(4)  # they are at their end for good
    assert compiled(x, captured)[:2] == (None, None)
    assert compiled(x, iter(row))[:2] == (1, 2)


class Key:
    def __init__(self, name: str) -> None:
        self.name = name

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and self.name == other.name


def add_up(x: torch.Tensor, table: dict[Key, int]) -> tuple[int | None, torch.Tensor]:
    table[Key("a")] = table.get(Key("a"), 0) + 1
    return table.pop(Key("b"), None), x + len(table)


def test_a_key_that_changed_is_not_where_it_is_looked_for() -> None:
    compiled = Compiled(add_up, fullgraph=True)
    x = torch.zeros(1)

    def make(stored: str) -> dict[Key, int]:
        """A key named "a" in the place of another name."""
        key = Key(stored)
        table = {key: 1, Key("b"): 2}
        key.name = "a"
        return table

    for stored in ("a", "a", "z", "a", "z"):
        eager, captured = make(stored), make(stored)
        assert compiled(x, captured)[0] == add_up(x, eager)[0]
        assert list(captured.values()) == list(eager.values()) == ([2] if stored == "a" else [1, 1])


# ---- generators that outlive the call


def make_a_generator(x: torch.Tensor, log: list[Any]) -> Any:
    def steps(scale: int) -> Any:
        try:
            for i in range(3):
                got = yield x * i * scale
                log.append(got)
        except KeyError as error:
            log.append(error.args)
            yield "caught"
        finally:
            log.append("finally")

    generator = steps(2)
    next(generator)
    generator.send("first")
    return generator


def test_a_generator_goes_on_where_it_was() -> None:
    compiled = Compiled(make_a_generator, fullgraph=True)
    x = torch.ones(2)
    for _ in range(2):
        log: list[Any] = []
        generator = compiled(x, log)
        assert generator.gi_frame.f_locals["i"] == 1
        assert generator.__name__ == "steps"
        assert torch.equal(generator.send("second"), x * 4)
        assert generator.throw(KeyError("thrown")) == "caught"
        assert next(generator, "over") == "over"
        assert log == ["first", "second", ("thrown",), "finally"]


def test_a_generator_that_dies_runs_its_finally_block() -> None:
    compiled = Compiled(make_a_generator, fullgraph=True)
    for _ in range(2):
        log: list[Any] = []
        generator = compiled(torch.ones(2), log)
        assert log == ["first"]
        del generator
        assert log == ["first", "finally"]


def test_generators_made_again_are_freed() -> None:
    compiled = Compiled(make_a_generator, fullgraph=True)
    compiled(torch.ones(2), [])
    gc.collect()
    before = sum(isinstance(o, types.GeneratorType) for o in gc.get_objects())
    for _ in range(5):
        compiled(torch.ones(2), [])
    gc.collect()
    assert sum(isinstance(o, types.GeneratorType) for o in gc.get_objects()) == before
