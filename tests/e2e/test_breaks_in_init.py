"""Breaks in __init__: the segment ends there, the instance made so far; what comes after goes on behind the call of the
class."""

import functools
import gc
import sys
import traceback
from abc import ABC
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gramme
import pytest
import torch
from torch import nn

from e2e import front

pytestmark = [
    pytest.mark.skipif(not front.GRAMME, reason="where gramme's segments end"),
    pytest.mark.usefixtures("untracked_modules"),
]
X = torch.linspace(-1, 1, 8).reshape(2, 4)
LOG: list[Any] = []


class Pair:
    def __init__(self, x: torch.Tensor, by: float, *more: float, plus: float = 0.0) -> None:
        self.first = x * by + sum(more)
        front.graph_break()
        self.second = self.first + plus
        self.by = by


class Child(Pair):
    def __init__(self, x: torch.Tensor) -> None:
        self.before = x + 1
        super().__init__(self.before, 2.0, plus=1.0)
        self.after = self.second * self.before


class Abstract(ABC):
    def __init__(self, x: torch.Tensor) -> None:
        self.x = x.exp()
        front.graph_break()
        self.y = self.x + 1


class Counted:
    made = 0

    def __init__(self, x: torch.Tensor) -> None:
        type(self).made += 1
        self.number = self.made
        front.graph_break()
        self.x = x * self.number


class Slots:
    __slots__ = ("x", "y")

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x + 2
        front.graph_break()
        self.y = self.x.relu()


class Words(dict):
    def __init__(self, x: torch.Tensor) -> None:
        super().__init__(a=x)
        front.graph_break()
        self["b"] = x + 1


class Failure(Exception):
    def __init__(self, x: torch.Tensor) -> None:
        super().__init__("failed")
        front.graph_break()
        self.x = x + 1


class Own:
    def __new__(cls, x: torch.Tensor) -> "Own":
        made = super().__new__(cls)
        made.new = x + 1
        return made

    def __init__(self, x: torch.Tensor) -> None:
        self.x = self.new * 2
        front.graph_break()
        self.y = self.x + x


class Rebound:
    def __init__(self, x: torch.Tensor) -> None:
        self.x = x + 1
        front.graph_break()
        self = Vector(x)  # what the class gives is the other one
        LOG.append(self.y.sum().item() > 0)


class InCell:
    def __init__(self, x: torch.Tensor) -> None:
        self.x = x + 1
        self.later = lambda: self.x * 2
        front.graph_break()
        self.y = self.later()


class Vector:
    def __init__(self, y: torch.Tensor) -> None:
        self.y = y


class Register:
    all: list[Any] = []

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x.cos()
        Register.all.append(self)
        front.graph_break()
        self.y = len(Register.all) * self.x


class Decorates:
    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        front.graph_break()
        self.name = function.__name__

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x) + len(self.name)


class Meta(type):
    def __call__(cls, *args: Any) -> Any:
        made = super().__call__(*args)
        made.by_meta = len(args)
        return made


class OfMeta(metaclass=Meta):
    def __init__(self, x: torch.Tensor) -> None:
        self.x = x + 1
        front.graph_break()
        self.y = self.x + 1


@dataclass
class Data:
    x: torch.Tensor
    n: int = 2
    log: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.y = self.x * self.n
        front.graph_break()
        self.log.append(self.y.shape)


def pair(x: torch.Tensor) -> Any:
    made = Pair(x.sin(), 2.0)
    return made.first + made.second * made.by


def inherited(x: torch.Tensor) -> Any:
    made = Child(x.abs())
    return made.before + made.first + made.after - made.second


def spread(x: torch.Tensor) -> Any:
    made = Pair(*[x, 3.0, 1.0, 2.0], **{"plus": 5.0})
    return made.first + made.second


def by_name(x: torch.Tensor) -> Any:
    made = Pair(by=2.0, x=x + 1, plus=1.0)
    return made.second * 2


def partial(x: torch.Tensor) -> Any:
    made = functools.partial(Pair, x, plus=2.0)(4.0)
    return made.second * made.first


def dropped(x: torch.Tensor) -> Any:
    Register(x + 1)
    front.graph_break()
    return Register.all.pop().y * 2


def counted(x: torch.Tensor) -> Any:
    both = [Counted(x), Counted(x + 1)]
    Counted.made = 0
    return [(each.number, each.x * 2) for each in both]


def slots(x: torch.Tensor) -> Any:
    return Slots(x * 2).y + Slots(x * 3).x


def dict_subclass(x: torch.Tensor) -> Any:
    return {name: value * 2 for name, value in Words(x + 1).items()}


def exception(x: torch.Tensor) -> Any:
    try:
        raise Failure(x * 2)
    except Failure as failure:
        return failure.x + 1, failure.args


def own_new(x: torch.Tensor) -> Any:
    return Own(x * 2).y + 1


def rebound(x: torch.Tensor) -> Any:
    return Rebound(x + 1).x * 2


def in_cell(x: torch.Tensor) -> Any:
    made = InCell(x + 1)
    return made.y * 2, made.later()


def abstract(x: torch.Tensor) -> Any:
    return Abstract(x + 1).y * 2


def decorated(x: torch.Tensor) -> Any:
    @Decorates
    def grown(y: torch.Tensor) -> torch.Tensor:
        return y * 2

    return grown(x + 1) * 2


def of_meta(x: torch.Tensor) -> Any:
    made = OfMeta(x * 2)
    return made.y * made.by_meta


def data(x: torch.Tensor) -> Any:
    made = Data(x + 1)
    return made.y * 2, made.log, made.n


def module(x: torch.Tensor) -> Any:
    class Scale(nn.Module):
        def __init__(self, by: float) -> None:
            super().__init__()
            self.by = by + 1
            front.graph_break()
            self.half = self.by / 2

        def forward(self, y: torch.Tensor) -> torch.Tensor:
            return y * self.by + self.half

    return Scale(3.0)(x) + 1


def in_a_loop(x: torch.Tensor) -> Any:
    total = x
    for i in range(3):
        total = total + Pair(total, i + 1.0).second
    return total


def in_a_comprehension(x: torch.Tensor) -> Any:
    return sum([Pair(x, n).second for n in (1.0, 2.0)]).tanh()


def kept_and_read(x: torch.Tensor) -> Any:
    LOG.append(Pair(x + 1, 2.0))
    return LOG[-1].second + LOG.pop().first


PROGRAMS = {
    f.__name__: f
    for f in (
        *(pair, inherited, spread, by_name, partial, dropped, counted, slots, dict_subclass, exception, own_new),
        *(rebound, in_cell, abstract, decorated, of_meta, data, module, in_a_loop, in_a_comprehension, kept_and_read),
    )
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
def test_equals_eager(name: str, backend: str) -> None:
    program = PROGRAMS[name]
    expected = describe(program(X))
    log = [*LOG]
    LOG.clear()
    compiled = front.compile(program, backend=backend)
    for _ in range(3):
        assert describe(compiled(X)) == expected
        assert log == LOG
        LOG.clear()
    assert not gramme.statistics(compiled).plain_runs


def describe(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, tuple | list):
        return [describe(each) for each in value]
    if isinstance(value, dict):
        return {name: describe(each) for name, each in value.items()}
    return value


@pytest.mark.parametrize(
    ("name", "graphs"), [("pair", 2), ("inherited", 2), ("spread", 2), ("by_name", 2), ("slots", 3), ("abstract", 2)]
)
def test_graphs_are_as_many_as_breaks_and_one(name: str, graphs: int) -> None:
    compiled = front.compile(PROGRAMS[name], backend="eager")
    for _ in range(3):
        compiled(X)
    statistics = gramme.statistics(compiled)
    assert statistics.segments == graphs
    assert statistics.captures == graphs


class Seen:
    def __init__(self, x: torch.Tensor, log: list[Any]) -> None:
        self.x = x + 1
        frame: Any = sys._getframe()
        log.append([(f.f_code.co_name, f.f_lineno) for f in (frame, frame.f_back)])
        log.append(sorted(frame.f_locals))
        log.append(sys.getrefcount(self))
        self.y = self.x * 2


def test_frames_are_where_they_are_eagerly() -> None:
    def program(x: torch.Tensor, log: list[Any]) -> torch.Tensor:
        y = x * 2
        seen = Seen(y, log)
        return seen.y + 1

    eager: list[Any] = []
    expected = program(X, eager)
    compiled = front.compile(program, backend="eager")
    for _ in range(3):
        log: list[Any] = []
        assert torch.equal(compiled(X, log), expected)
        assert log == eager


class Returns:
    def __init__(self, x: torch.Tensor, result: Any) -> None:
        self.x = x + 1
        front.graph_break()
        self.y = self.x * 2
        return result


def gives_something(x: torch.Tensor, result: Any) -> Any:
    try:
        return Returns(x * 2, result).y + 1
    except TypeError as error:
        return str(error), [(f.name, f.lineno) for f in traceback.extract_tb(error.__traceback__)]


def test_what_init_gives_has_to_be_none() -> None:
    compiled = front.compile(gives_something, backend="eager")
    for result in (None, 5, None, "text", X):
        expected = describe(gives_something(X, result))
        for _ in range(2):
            assert describe(compiled(X, result)) == expected


class Raises:
    def __init__(self, x: torch.Tensor, log: list[Any]) -> None:
        self.x = x + 1
        front.graph_break()
        log.append(self.x.shape)
        raise ValueError(f"of {len(log)}")


def test_an_exception_leaves_no_instance() -> None:
    def program(x: torch.Tensor, log: list[Any]) -> Any:
        made = None
        try:
            made = Raises(x * 2, log)
        except ValueError as error:
            frames = [(f.name, f.lineno) for f in traceback.extract_tb(error.__traceback__)]
            return made, str(error), frames, x + 1
        return made

    eager: list[Any] = []
    expected = describe(program(X, eager))
    compiled = front.compile(program, backend="eager")
    for _ in range(3):
        log: list[Any] = []
        assert describe(compiled(X, log)) == expected
        assert log == eager


def test_one_init_called_by_a_class_and_as_a_function() -> None:
    def made(x: torch.Tensor) -> torch.Tensor:
        return Pair(x, 2.0).second + 1

    def initialised(x: torch.Tensor, it: Any) -> torch.Tensor:
        nothing = Pair.__init__(it, x, 2.0)
        return it.second + 1 if nothing is None else x

    both = front.compile(lambda x, it: (made(x), initialised(x, it)), backend="eager")
    for _ in range(3):
        it = Pair.__new__(Pair)
        first, second = both(X, it)
        assert torch.equal(first, made(X))
        assert torch.equal(second, made(X))
        assert torch.equal(it.first, X * 2)


def test_recursion_limit_is_reached_where_it_is_eagerly(no_hook: None) -> None:
    """From 3.13 on CPython counts a level of its own for each construction that it has specialised. 3.12 also limits
    entries into its evaluator from C, of which frames that gramme runs make fewer."""

    class Nested:
        def __init__(self, x: torch.Tensor, left: int, log: list[Any]) -> None:
            self.x = x + left
            log.append(left)
            front.graph_break()
            self.inner = Nested(self.x, left - 1, log) if left else None

    class Unspecialised(Nested):
        def __init__(self, x: torch.Tensor, left: int, log: list[Any]) -> None:
            self.x = x + left
            log.append(left)
            front.graph_break()
            self.inner = type.__call__(Unspecialised, self.x, left - 1, log) if left else None

    def depth(call: Callable[..., Any]) -> int:
        log: list[Any] = []
        with pytest.raises(RecursionError):
            call(X, 5_000, log)
        return len(log)

    def program(x: torch.Tensor, left: int, log: list[Any]) -> Any:
        return Nested(x, left, log)

    compiled = front.compile(program, backend="eager")
    least = depth(program)
    limit = sys.getrecursionlimit()
    most = depth(Unspecialised) if sys.version_info >= (3, 13) else limit if sys.version_info >= (3, 12) else least
    found = {depth(compiled) for _ in range(3)}
    assert all(least - 1 <= each <= most + 1 for each in found), (found, least, most, limit)


def test_nothing_is_kept() -> None:
    compiled = front.compile(inherited, backend="eager")
    for _ in range(3):
        compiled(X)
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(20):
        compiled(X)
    gc.collect()
    assert len(gc.get_objects()) <= before + 2
    assert not [each for each in gc.get_objects() if type(each) is Child]
