"""Breaks in inlined callees: the segment ends at the instruction itself, with the frames of the callees made again, so
a break costs one instruction at any depth."""

import functools
import gc
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
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


def broken(x: torch.Tensor) -> torch.Tensor:
    y = x.sin() + 1
    front.graph_break()
    return y.cos() * x


def between(x: torch.Tensor) -> torch.Tensor:
    return broken(x * 2) - 1


def three_deep(x: torch.Tensor) -> torch.Tensor:
    return between(x.exp()).tanh()


def called_with_names(x: torch.Tensor) -> torch.Tensor:
    def scaled(x: torch.Tensor, *more: float, by: float, **others: float) -> torch.Tensor:
        total = x * by + sum(more)
        front.graph_break()
        return total / others["over"] + len(more)

    return scaled(x.abs(), 1.0, 2.0, by=3.0, over=4.0).neg()


def spread(x: torch.Tensor) -> torch.Tensor:
    def inner(a: torch.Tensor, b: torch.Tensor, *, c: float = 1.0, d: float = 2.0) -> torch.Tensor:
        total = a + b * c
        front.graph_break()
        return total * d

    return inner(*[x, x + 1], **{"d": 3.0}) - 1


def with_closures(x: torch.Tensor) -> torch.Tensor:
    count = 0

    def add(y: torch.Tensor) -> torch.Tensor:
        nonlocal count
        count += 1
        y = y + count
        front.graph_break()
        count += 10
        return y * count

    return add(x) + add(x * 2) * count


def written_on_both_sides(x: torch.Tensor) -> Any:
    items = [x]
    state = {"n": 1}

    def inner(y: torch.Tensor) -> torch.Tensor:
        items.append(y + 1)
        state["n"] += 1
        front.graph_break()
        items.append(y * state["n"])
        return items[-1].sum()

    total = inner(x.sin())
    return total + len(items), state, len(items)


class Vector:
    def __init__(self, x: torch.Tensor) -> None:
        self.x = x

    def __call__(self, by: float) -> torch.Tensor:
        grown = self.x * by
        front.graph_break()
        return grown + self.x

    def method(self, by: float) -> torch.Tensor:
        grown = self.x + by
        front.graph_break()
        return grown.relu()

    @classmethod
    def of_class(cls, x: torch.Tensor) -> torch.Tensor:
        y = x + len(cls.__name__)
        front.graph_break()
        return y * 2

    @staticmethod
    def of_none(x: torch.Tensor) -> torch.Tensor:
        y = x - 3
        front.graph_break()
        return y * 2


VECTOR = Vector(X + 5)


def callables(x: torch.Tensor) -> torch.Tensor:
    bound = VECTOR.method
    return VECTOR(2.0) + VECTOR.method(1.0) + bound(3.0) + Vector.of_class(x) + Vector.of_none(x) + x


def made_inside(x: torch.Tensor) -> torch.Tensor:
    vector = Vector(x + 1)
    return vector(2.0) + vector.method(3.0)


def handled_above(x: torch.Tensor) -> torch.Tensor:
    def fails(y: torch.Tensor) -> torch.Tensor:
        z = y * 2
        front.graph_break()
        LOG.append("raises")
        raise ValueError(f"{z.shape}")

    def passes_on(y: torch.Tensor) -> torch.Tensor:
        try:
            return fails(y + 1)
        finally:
            LOG.append("finally")

    try:
        return passes_on(x)
    except ValueError as error:
        return x.abs() + len(str(error))


def in_handler(x: torch.Tensor) -> torch.Tensor:
    try:
        raise KeyError("first")
    except KeyError:
        y = broken(x) + len(str(sys.exc_info()[1]))
    return y * 2


def recursive(x: torch.Tensor, depth: int = 5) -> torch.Tensor:
    if depth == 0:
        front.graph_break()
        return x + 1
    return recursive(x * 1.5, depth - 1) + depth


def comprehension(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([broken(x + i) for i in range(3)]).sum(0)


def default_arguments(x: torch.Tensor) -> torch.Tensor:
    def inner(a: torch.Tensor, b: float = 2.0, /, c: float = 3.0, *, d: float = 4.0) -> torch.Tensor:
        y = a * b
        front.graph_break()
        return y + c * d

    return inner(x) + inner(x, 5.0) + inner(x, c=1.0) + inner(x, 1.0, 1.0, d=1.0)


def decorated(x: torch.Tensor) -> torch.Tensor:
    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            LOG.append("in")
            result = function(*args, **kwargs) + 1
            LOG.append("out")
            return result

        return wrapper

    @wrap
    @wrap
    def inner(x: torch.Tensor, k: int) -> torch.Tensor:
        y = x * k
        front.graph_break()
        return y.cos()

    return inner(x.exp(), k=3).sum(0)


class Curious:
    """Each special method breaks in its middle."""

    def __init__(self, x: torch.Tensor) -> None:
        self.__dict__.update(x=x, said=[])

    def breaks(self, name: str) -> torch.Tensor:
        self.said.append(name)
        y = self.x + len(self.said)
        front.graph_break()
        return y * 2

    @property
    def doubled(self) -> torch.Tensor:
        y = self.x * 2
        front.graph_break()
        return y + 1

    @doubled.setter
    def doubled(self, value: torch.Tensor) -> None:
        y = value + 1
        front.graph_break()
        self.x = y

    def __getattr__(self, name: str) -> torch.Tensor:
        if name.startswith("_"):
            raise AttributeError(name)
        return self.breaks(name)

    def __setattr__(self, name: str, value: Any) -> None:
        self.said.append(name)
        front.graph_break()
        object.__setattr__(self, name, value)

    def __getitem__(self, key: int) -> torch.Tensor:
        return self.breaks("item") * key

    def __setitem__(self, key: str, value: torch.Tensor) -> None:
        self.__dict__[key] = self.breaks("set") + value

    def __delitem__(self, key: str) -> None:
        self.breaks("del")
        del self.__dict__[key]

    def __add__(self, other: Any) -> Any:
        return self.breaks("add") + other

    def __radd__(self, other: Any) -> Any:
        return self.breaks("radd") - other

    def __sub__(self, other: Any) -> Any:
        self.breaks("sub")
        return NotImplemented

    def __rsub__(self, other: Any) -> Any:
        self.breaks("rsub")
        return self.x

    def __imul__(self, other: float) -> "Curious":
        self.__dict__["x"] = self.breaks("imul") * other
        return self

    def __neg__(self) -> torch.Tensor:
        return -self.breaks("neg")

    def __lt__(self, other: Any) -> Any:
        return self.breaks("lt").sum() < other

    def __eq__(self, other: object) -> Any:
        self.breaks("eq")
        return NotImplemented

    def __contains__(self, item: Any) -> bool:
        self.breaks("contains")
        return len(self.said) > item

    def __bool__(self) -> bool:
        self.breaks("bool")
        return True

    def __len__(self) -> int:
        self.breaks("len")
        return 3

    def __iter__(self) -> Any:
        self.breaks("iter")
        return iter([self.x, self.x * 2])

    def __enter__(self) -> torch.Tensor:
        return self.breaks("enter")

    def __exit__(self, *error: object) -> bool:
        self.said.append(error[0].__name__ if isinstance(error[0], type) else None)
        self.breaks("exit")
        return True


def attributes(x: torch.Tensor) -> Any:
    c = Curious(x)
    y = c.doubled + c.missing
    c.doubled = y
    c.other = x
    return c.doubled, c.other, c.said


def items(x: torch.Tensor) -> Any:
    c = Curious(x)
    y = c[3]
    c["k"] = y
    z = c.k + 1
    del c["k"]
    return z, c.said, c.k


def operators(x: torch.Tensor) -> Any:
    c = Curious(x)
    y = c + x, x + (2 + c), -c
    c *= 2.0
    return y, c.x, c < 1e9, c == c, c == 3, c.said


class Other(Curious):
    pass


def reflected(x: torch.Tensor) -> Any:
    c, d = Curious(x), Other(x * 3)
    try:
        y = c - 1
    except TypeError as error:
        y = str(error)
    return c - d, d - c, y, c.said, d.said


def truths(x: torch.Tensor) -> Any:
    c = Curious(x)
    y = x + 1
    if c:
        y = y * 2
    while not c:
        y = y * 5
    if 0 in c:
        y = y + 1
    return (y if 1000 not in c else -y), [z + 1 for z in c], len(c), c.said


def managed(x: torch.Tensor) -> Any:
    c = Curious(x)
    with c as y:
        z = y * 2
        front.graph_break()
        z = z + 1
    with c as y:
        z = z + y
        raise ValueError
    return z, c.said


def partials(x: torch.Tensor) -> Any:
    def inner(a: torch.Tensor, b: float, *rest: float, c: float = 1.0) -> torch.Tensor:
        y = a * b
        front.graph_break()
        return y + c + len(rest)

    f = functools.partial(inner, x, c=2.0)
    return f(3.0), f(3.0, 4.0), f(3.0, c=5.0), functools.partial(f, 7.0)()


class Keyed:
    def __init__(self, key: int) -> None:
        self.key = key

    def __hash__(self) -> int:
        LOG.append("hash")
        front.graph_break()
        return self.key

    def __eq__(self, other: object) -> bool:
        LOG.append("eq")
        front.graph_break()
        return isinstance(other, Keyed) and self.key == other.key


def keys(x: torch.Tensor) -> Any:
    table = {Keyed(1): x + 1, Keyed(2): x + 2}
    table[Keyed(3)] = x * 3
    del table[Keyed(2)]
    return table[Keyed(1)] + table[Keyed(3)], Keyed(1) in table, [Keyed(4)] == [Keyed(4)], len(table)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(4, 4), nn.LayerNorm(4)

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        hidden = self.norm(self.linear(x)) * scale
        front.graph_break()
        LOG.append("block")
        return x + hidden.relu()


class Model(nn.Module):
    def __init__(self, blocks: int = 3) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(blocks))
        self.head = nn.Sequential(nn.Linear(4, 4), nn.Sequential(Block(), nn.Tanh()), nn.Linear(4, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x, scale=1.5)
        return self.head(x).softmax(-1)


def hooked() -> nn.Module:
    model = Model(2)
    model.blocks[0].register_forward_hook(lambda module, args, result: LOG.append("hook") or result + 1)
    model.blocks[1].register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    return model


FUNCTIONS = [
    between, three_deep, called_with_names, spread, with_closures, written_on_both_sides, callables, made_inside,
    handled_above, in_handler, recursive, comprehension, default_arguments, decorated, attributes,
    items, operators, reflected, truths, managed, partials, keys,
]  # fmt: skip
MAKERS: dict[str, Callable[[], Any]] = {f.__name__: functools.partial(lambda f: f, f) for f in FUNCTIONS}
MAKERS |= {"block": Block, "model": Model, "hooked": hooked}


def same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


@pytest.mark.parametrize("name", MAKERS)
def test_equals_eager(name: str) -> None:
    torch.manual_seed(0)
    function = MAKERS[name]()
    LOG.clear()
    expected = function(X)
    said = list(LOG)
    compiled = front.compile(function, backend="eager")
    for _ in range(3):
        LOG.clear()
        assert same(compiled(X), expected)
        assert said == LOG
    with gramme.meter() as meter:
        compiled(X)
    assert (meter.outside, meter.captures, meter.plain) == (0, 0, 0), str(meter)


def graphs_and_steps(function: Callable[..., Any], *args: Any) -> tuple[int, int]:
    compiled = front.compile(function, backend="eager")
    for _ in range(2):
        compiled(*args)
    with gramme.meter() as meter:
        compiled(*args)
    assert meter.captures == 0
    return meter.graphs, meter.steps


def test_a_break_is_one_instruction_at_any_depth() -> None:
    def at_depth(depth: int) -> Callable[..., Any]:
        function = broken
        for _ in range(depth):
            function = (lambda inner: lambda x: inner(x * 2) + 1)(function)
        return function

    for depth in (0, 1, 4, 8):
        assert graphs_and_steps(at_depth(depth), X) == (2, 1), depth


def test_graphs_are_as_many_as_breaks_and_one() -> None:
    torch.manual_seed(0)
    for function in (Model(), Model(12), hooked(), decorated, three_deep):
        graphs, steps = graphs_and_steps(function, X)
        assert graphs <= steps + 1, function


def test_frames_are_where_they_are_eagerly() -> None:
    def seen() -> list[Any]:
        frame, found = sys._getframe(1), []
        while frame.f_code is not outer.__code__.replace() and frame.f_code.co_filename == __file__:
            found.append((frame.f_code.co_qualname, frame.f_lineno, sorted(frame.f_locals)))
            if frame.f_code is outer.__code__:
                break
            frame = frame.f_back
        return found

    def inner(x: torch.Tensor, k: int) -> Any:
        y = x * k
        z = gramme.disable(seen)()
        return y, z

    def middle(x: torch.Tensor) -> Any:
        before = x + 1
        result = inner(before, k=2)
        return result

    def outer(x: torch.Tensor) -> Any:
        doubled = x * 2
        return middle(doubled)

    expected = outer(X)
    compiled = front.compile(outer, backend="eager")
    for _ in range(2):
        result = compiled(X)
        assert torch.equal(result[0], expected[0])
        assert result[1] == expected[1]


def test_tracebacks_name_every_frame() -> None:
    def inner(x: torch.Tensor) -> Any:
        y = x + 1
        front.graph_break()
        raise ValueError(y.sum().item())

    def middle(x: torch.Tensor) -> Any:
        return inner(x * 2)

    def outer(x: torch.Tensor) -> Any:
        z = middle(x)
        return z

    def places(function: Callable[..., Any]) -> list[Any]:
        with pytest.raises(ValueError, match=".") as caught:
            function(X)
        entries = traceback.extract_tb(caught.value.__traceback__)
        return [(e.name, e.lineno, e.colno) for e in entries if e.name in ("inner", "middle", "outer")]

    expected = places(outer)
    compiled = front.compile(outer, backend="eager")
    assert [places(compiled) for _ in range(3)] == [expected] * 3


def test_the_recompile_limit_of_a_callee_with_several_callers() -> None:
    """What failed is told of segments that other callers left, too."""

    def inner(x: torch.Tensor, name: str) -> torch.Tensor:
        y = x + 1
        front.graph_break()
        return y * len(name) if name != "no" else y

    def few(x: torch.Tensor, name: str) -> torch.Tensor:
        return inner(x, name) - 1

    def many(x: torch.Tensor, name: str) -> torch.Tensor:
        a, b, c, d, e, f, g, h = (x * i for i in range(8))
        return inner(h, name) + a + b + c + d + e + f + g

    def function(x: torch.Tensor, name: str, which: bool) -> torch.Tensor:
        return many(x, name) if which else few(x, name)

    compiled = front.compile(function, backend="eager")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for i in range(30):
            assert torch.equal(compiled(X, "n" * i, i % 3 > 0), function(X, "n" * i, i % 3 > 0))
    assert any("recompile limit" in str(w.message) for w in caught)


def test_exceptions_from_before_get_their_tracebacks() -> None:
    saved = ValueError("saved")

    def raised(x: torch.Tensor) -> Any:
        try:
            raise saved
        except ValueError:
            y = x + 1
            front.graph_break()
            return y, sys.exc_info()[1]

    def kept(x: torch.Tensor) -> Any:
        error = gramme.disable(ValueError)("made")
        try:
            if x.shape:
                raise error
        except ValueError:
            pass
        return x + 1, error

    def below(x: torch.Tensor) -> Any:
        def inner(y: torch.Tensor) -> torch.Tensor:
            raise saved

        try:
            return inner(x * 2), saved
        except ValueError:
            return x + 1, saved

    def places(function: Callable[..., Any]) -> list[Any]:
        saved.__traceback__ = None
        _, error = function(X)
        return [(entry.name, entry.lineno) for entry in traceback.extract_tb(error.__traceback__)]

    for function in (raised, kept, below):
        expected = places(function)
        assert expected
        compiled = front.compile(function, backend="eager")
        assert [places(compiled) for _ in range(3)] == [expected] * 3, function


def test_arguments_die_when_they_do_eagerly() -> None:
    def inner(x: torch.Tensor) -> torch.Tensor:
        x = x.sin()
        front.graph_break()
        LOG.append(sum(1 for o in gc.get_objects() if type(o) is torch.Tensor and o.shape == (3, 1, 7)))
        return x

    def outer(x: torch.Tensor) -> torch.Tensor:
        return inner(x.reshape(3, 1, 7) + 1).sum()

    x = torch.ones(21)
    LOG.clear()
    compiled = front.compile(outer, backend="eager")
    for _ in range(3):
        compiled(x)
    gc.collect()
    assert LOG == [1] * 3  # as eagerly, unless PyTorch's evaluator is installed, by which callers keep arguments


def test_recursion_limit_is_reached_where_it_is_eagerly() -> None:
    def down(x: torch.Tensor, depth: int) -> torch.Tensor:
        if depth == 0:
            front.graph_break()
            return x
        return down(x, depth - 1) + 1

    compiled = front.compile(down, backend="eager")
    for depth in (50, 100, 200):
        assert torch.equal(compiled(X, depth), down(X, depth))
    with pytest.raises(RecursionError):
        compiled(X, 100_000)


def test_deep_chains_on_a_small_stack() -> None:
    """Frames are made one in another on the thread's stack, here one of 256 KB."""
    results: list[Any] = []

    def down(x: torch.Tensor, depth: int) -> torch.Tensor:
        if depth == 0:
            front.graph_break()
            return x + 1
        return down(x * 1.5, depth - 1) + depth

    compiled = front.compile(down, backend="eager")

    def call() -> None:
        results.extend(torch.equal(compiled(X, depth), down(X, depth)) for depth in (20, 40, 80, 40))

    before = threading.stack_size(256 << 10)
    try:
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert results == [True] * 4


def test_levels_that_a_segment_went_down_are_no_more_than_eagerly(no_hook: None) -> None:
    levels: list[int] = []

    def forever() -> None:
        levels.append(1)
        forever()

    def function(x: torch.Tensor) -> Any:
        levels.clear()
        front.graph_break()
        try:
            forever()
        except RecursionError:
            return x + len(levels)

    expected = function(X)
    compiled = front.compile(function, backend="eager")
    for _ in range(3):
        assert torch.allclose(compiled(X), expected, atol=3)


def test_tracing_switched_on_inside() -> None:
    events: list[str] = []

    def trace(frame: Any, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename == __file__:
            events.append(f"{frame.f_code.co_name} {event} {frame.f_lineno - frame.f_code.co_firstlineno}")
        return trace

    def inner(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        sys.settrace(trace)
        y = helper(y)
        sys.settrace(None)
        return y

    def helper(y: torch.Tensor) -> torch.Tensor:
        return y * 2

    def outer(x: torch.Tensor) -> torch.Tensor:
        return inner(x * 3) - 1

    before = sys.gettrace()
    compiled = front.compile(outer, backend="eager")
    try:
        expected = outer(X)
        eagerly, events[:] = list(events), []
        for _ in range(2):
            assert torch.equal(compiled(X), expected)
            assert events == eagerly
            events.clear()
    finally:
        sys.settrace(before)


def test_nothing_is_kept() -> None:
    function = MAKERS["written_on_both_sides"]()
    compiled = front.compile(function, backend="eager")

    def count() -> int:
        for _ in range(3):
            compiled(X)
        gc.collect()
        return len(gc.get_objects())

    count()
    first = count()
    assert abs(count() - first) <= 2
