"""Loops with a break in each turn: the segment after the break goes on into the next turn, up to the break there, with
the item that the loop's iterator is about to give. One segment serves all turns."""

import copy
import gc
import sys
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import gramme
import pytest
import torch
from torch import nn

from e2e import front
from e2e.against_eager import assert_same, outcome
from e2e.test_meter import measured

pytestmark = [
    pytest.mark.skipif(not front.GRAMME, reason="where gramme's segments end"),
    pytest.mark.usefixtures("untracked_modules"),
]
X = torch.linspace(-1, 1, 8).reshape(2, 4)
Program = Callable[..., Any]


def stop() -> None:
    front.graph_break()


class Layer(nn.Module):
    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x).relu()
        stop()
        return y + x


class Quiet(nn.Module):
    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).relu() + x


LAYERS = nn.ModuleList(Layer(i) for i in range(6))
QUIET = nn.ModuleList(Quiet(i) for i in range(6))
NAMED = nn.ModuleDict({f"layer {i}": Quiet(i) for i in range(6)})
ROW = nn.Sequential(*(Layer(i) for i in range(6)))
SHORT = nn.Sequential(Layer(0), Quiet(1))
LONG = nn.Sequential(Layer(0), Quiet(1), Quiet(2), Quiet(3))
PARTS = [X * i for i in range(1, 7)]

# ---- programs, with the graphs that a call runs


def module_list(x: torch.Tensor) -> Any:
    for layer in LAYERS:
        x = layer(x)
    return x.sum()


def sequential(x: torch.Tensor) -> Any:
    return ROW(x).sum()


def at_the_beginning(x: torch.Tensor) -> Any:
    for layer in QUIET:
        stop()
        x = layer(x)
    return x.sum()


def in_the_middle(x: torch.Tensor) -> Any:
    for layer in QUIET:
        x = layer(x)
        stop()
        x = x * 2
    return x.sum()


def at_the_end(x: torch.Tensor) -> Any:
    for layer in QUIET:
        x = layer(x)
        stop()
    return x.sum()


def over_list(x: torch.Tensor) -> Any:
    for part in list(PARTS):
        x = x + part
        stop()
        x = x * 2
    return x


def over_tuple(x: torch.Tensor) -> Any:
    for part in tuple(PARTS):
        x = x + part
        stop()
        x = x * 2
    return x


def over_reversed(x: torch.Tensor) -> Any:
    for part in reversed(PARTS):
        x = x + part
        stop()
        x = x * 2
    return x


def over_keys(x: torch.Tensor) -> Any:
    named = {i: part for i, part in enumerate(PARTS)}
    for key in named:
        x = x + named[key] * key
        stop()
        x = x * 2
    return x


def over_values(x: torch.Tensor) -> Any:
    for part in dict(enumerate(PARTS)).values():
        x = x + part
        stop()
        x = x * 2
    return x


def over_items(x: torch.Tensor) -> Any:
    for _, part in dict(enumerate(PARTS)).items():
        x = x + part
        stop()
        x = x * 2
    return x


def over_module_dict(x: torch.Tensor) -> Any:
    for layer in NAMED.values():
        x = layer(x)
        stop()
    return x


def over_range(x: torch.Tensor) -> Any:
    for i in range(3, 15, 2):
        x = x + i
        stop()
        x = x * 2
    return x


def over_enumerate(x: torch.Tensor) -> Any:
    for i, layer in enumerate(QUIET, 2):
        x = layer(x) * i
        stop()
    return x


def over_zip(x: torch.Tensor) -> Any:
    for i, layer, part in zip(range(6), QUIET, PARTS, strict=False):
        x = layer(x) * i + part
        stop()
    return x


def enumerated_zip(x: torch.Tensor) -> Any:
    for i, (layer, part) in enumerate(zip(QUIET, PARTS, strict=False)):
        x = layer(x) * i + part
        stop()
    return x


def nested(x: torch.Tensor) -> Any:
    for part in PARTS[:3]:
        for layer in QUIET:
            x = layer(x) + part
            stop()
        x = x * 2
    return x


def nested_outside(x: torch.Tensor) -> Any:
    for part in PARTS:
        for layer in QUIET:
            x = layer(x) + part
        stop()
    return x


def with_else(x: torch.Tensor) -> Any:
    for part in PARTS:
        x = x + part
        stop()
        if part is x:
            break
    else:
        x = x * 10
    return x


def left_early(x: torch.Tensor) -> Any:
    for i, part in enumerate(PARTS):
        x = x + part
        stop()
        if i == 3:
            break
        if i % 2:
            continue
        x = x * 2
    else:
        x = x * 10
    return x, i


def no_break_in_the_body(x: torch.Tensor) -> Any:
    """The segment of a turn ends where the next begins: it is the same for all."""
    iterator = iter(PARTS)
    stop()
    for part in iterator:
        x = x + part
    return x


def one_break_in_a_row(x: torch.Tensor) -> Any:
    """After the break the short one has an item and the end, the long one several items: each is a segment."""
    return SHORT(LONG(x)).sum()


COUNTED: list[tuple[Program, int]] = [
    (module_list, 7),
    (sequential, 7),
    (at_the_beginning, 6),
    (in_the_middle, 7),
    (at_the_end, 7),
    (over_list, 7),
    (over_tuple, 7),
    (over_reversed, 7),
    (over_keys, 7),
    (over_values, 7),
    (over_items, 7),
    (over_module_dict, 6),
    (over_range, 7),
    (over_enumerate, 6),
    (over_zip, 6),
    (enumerated_zip, 6),
    (nested, 19),
    (nested_outside, 6),
    (with_else, 7),
    (left_early, 4),
    (no_break_in_the_body, 6),
    (one_break_in_a_row, 7),
]


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize(("program", "graphs"), COUNTED, ids=lambda it: getattr(it, "__name__", None))
def test_graphs(program: Program, graphs: int, backend: str) -> None:
    compiled = gramme.compile(program, backend=backend)
    expected = outcome(lambda: program(X))
    for _ in range(4):
        assert outcome(lambda: compiled(X)) == expected
    read = measured(compiled, X)
    print(program.__name__, read)
    assert (read.graphs, read.captures, read.outside, read.handovers, read.plain) == (graphs, 0, 0, 0, 0)


# ---- what is left of the iterator


def grows(x: torch.Tensor) -> Any:
    parts = PARTS[:2]
    for part in parts:
        x = x + part
        stop()
        if len(parts) < 5:
            parts.append(x)
    return x, parts


def grows_behind_the_item(x: torch.Tensor) -> Any:
    """What the segment has taken was there before it changed the list."""
    parts = PARTS[:2]
    for part in parts:
        if len(parts) < 5:
            parts.append(x * 2)
        x = x + part
        stop()
    return x, parts


def shrinks(x: torch.Tensor) -> Any:
    parts = list(PARTS)
    for part in parts:
        x = x + part
        stop()
        parts.pop()
    return x, parts


def shrinks_below_the_iterator(x: torch.Tensor) -> Any:
    """And grows again: an iterator that the segment made stands behind the end meanwhile."""
    parts = list(PARTS)
    iterator, backwards, given = iter(parts), reversed(parts), []
    for _ in range(4):
        x = x + next(iterator)
    x = x * next(backwards)
    del parts[2:]
    stop()
    given.append(next(backwards, None))
    parts.extend([x] * 3)
    given.extend(iterator)
    return x, given


def shrinks_backwards(x: torch.Tensor) -> Any:
    parts = list(PARTS)
    for part in reversed(parts):
        x = x + part
        del parts[2:]
        stop()
    return x, parts


def cleared(x: torch.Tensor) -> Any:
    parts = list(PARTS)
    for i, part in enumerate(parts):
        if i == 2:
            parts.clear()
        x = x + part
        stop()
    return x, parts, i


def replaced(x: torch.Tensor) -> Any:
    parts = list(PARTS)
    for i in range(len(parts)):
        for part in parts:
            parts[-1] = part + i
            stop()
            x = x + part
    return x, parts


def grown_when_exhausted(x: torch.Tensor) -> Any:
    parts = PARTS[:2]
    iterator = iter(parts)
    for part in iterator:
        x = x + part
        stop()
    parts.append(x)
    return x, list(iterator), iterator.__length_hint__(), sys.getrefcount(parts)


def values_replaced(x: torch.Tensor) -> Any:
    named = dict(enumerate(PARTS))
    for key in named:
        named[key] = named[key] * key
        x = x + named[key]
        stop()
        x = x * 2
    return x, named


def grown_dict(x: torch.Tensor) -> Any:
    named = dict(enumerate(PARTS))
    try:
        for key in named:
            x = x + named[key]
            stop()
            if key == 2:
                named[10] = x
    except RuntimeError as error:
        return x, str(error), named
    return None


def exchanged_key(x: torch.Tensor) -> Any:
    """Of the same size afterwards."""
    named = dict(enumerate(PARTS))
    seen = []
    try:
        for key in named:
            seen.append(key)
            stop()
            if key == 2:
                del named[0]
                named[10] = x
    except RuntimeError as error:
        return str(error), seen
    return seen


def asked_in_the_body(x: torch.Tensor) -> Any:
    said = []
    iterator = iter(PARTS)
    for part in iterator:
        x = x + part
        stop()
        x = x * 2
        said.append(iterator.__length_hint__())
    return x, said


def taken_in_the_body(x: torch.Tensor) -> Any:
    iterator = iter(PARTS)
    for part in iterator:
        x = x + part
        stop()
        x = x * next(iterator, 3)
    return x


@front.disable
def state(iterator: Any) -> Any:
    """As pickle would have it."""
    _, args, *where = iterator.__reduce__()
    return [state(part) if hasattr(part, "__next__") else part for part in args], where


def used_afterwards(x: torch.Tensor) -> Any:
    iterators = iter(PARTS), iter(tuple(PARTS)), reversed(PARTS), iter(range(5)), iter(dict(enumerate(PARTS)))
    views = iter(dict(enumerate(PARTS)).values()), iter(dict(enumerate(PARTS)).items()), enumerate(PARTS, 7)
    left = []
    for iterator in iterators + views:
        for i, item in enumerate(iterator):
            x = x + i
            stop()
            if i == 2:
                break
        left.append((state(iterator), state(copy.copy(iterator)), list(iterator), state(iterator), item))
    return x, left


def zipped_with_itself(x: torch.Tensor) -> Any:
    iterator = iter(PARTS)
    for first, second in zip(iterator, iterator, strict=False):
        x = x + first
        stop()
        x = x * second
    return x


def uneven(x: torch.Tensor) -> Any:
    first, second = iter(PARTS), iter(range(4))
    for part, i in zip(first, second, strict=False):
        x = x + part * i
        stop()
    return x, len(list(first)), list(second)


def strict(x: torch.Tensor) -> Any:
    try:
        for part, i in zip(PARTS, range(4), strict=True):
            x = x + part * i
            stop()
    except ValueError as error:
        return x, str(error)
    return None


def beyond_words(x: torch.Tensor) -> Any:
    numbers = []
    for i, _ in enumerate(PARTS, sys.maxsize - 2):
        stop()
        numbers.append(i)
    for i in range(2**70, 2**70 + 4):
        stop()
        numbers.append(i)
    for i in range(sys.maxsize - 5, sys.maxsize, 2):
        stop()
        numbers.append(i)
    return numbers


def raises_in_the_body(x: torch.Tensor) -> Any:
    iterator = iter(PARTS)
    try:
        for i, part in enumerate(iterator):
            x = x + part
            stop()
            if i == 3:
                raise ValueError(str(i))
    except ValueError as error:
        return x, str(error), len(list(iterator))
    return None


def raises_in_the_next_turn(x: torch.Tensor) -> Any:
    iterator = iter(PARTS)
    try:
        for i, part in enumerate(iterator):
            if i == 3:
                raise ValueError(str(i))
            x = x + part
            stop()
    except ValueError as error:
        return x, str(error), len(list(iterator))
    return None


def leaves_with_an_exception(x: torch.Tensor) -> Any:
    iterator = iter(PARTS)
    for i, part in enumerate(iterator):
        x = x + part
        stop()
        x = x.reshape(3 if i == 2 else 8)
        x = x.reshape(2, 4)
    return x


def names_and_functions(x: torch.Tensor) -> Any:
    for name, function in {"sin": torch.sin, "cos": torch.cos, "exp": torch.exp, "tanh": torch.tanh}.items():
        x = function(x) + getattr(x, name)()
        stop()
    return x


def different_shapes(x: torch.Tensor) -> Any:
    total = x.sum()
    for part in [torch.ones(i) for i in range(1, 12)]:
        total = total + part.sum() * part.shape[0]
        stop()
    return total


def inner_of_others(x: torch.Tensor) -> Any:
    """Chained, mapped and made by a generator: their iterators are advanced for real."""
    from itertools import chain, islice

    for part in chain(PARTS[:2], PARTS[3:]):
        x = x + part
        stop()
    for part in map(torch.sin, PARTS):
        x = x + part
        stop()
    for part in (part * 2 for part in PARTS):
        x = x + part
        stop()
    for part in islice(PARTS, 1, 4):
        x = x + part
        stop()
    return x


def other_containers(x: torch.Tensor) -> Any:
    class Parts(list[Any]):
        def __iter__(self) -> Iterator[Any]:
            return list.__iter__(self)

    for part in Parts(PARTS):
        x = x + part
        stop()
    for key in OrderedDict(enumerate(PARTS)):
        x = x + key
        stop()
    for key, part in defaultdict(list, enumerate(PARTS)).items():
        x = x + key * part
        stop()
    for i in dict.__iter__(OrderedDict.fromkeys([3, 1, 2])):
        x = x + i
        stop()
    for i in [1, 2, 3], {4, 5}, "ab", b"cd":  # type: ignore[misc]
        for item in i:
            stop()
            x = x + (item if isinstance(item, int) else 1)
    return x


def comprehended(x: torch.Tensor) -> Any:
    def breaking(part: torch.Tensor) -> torch.Tensor:
        y = part + 1
        stop()
        return y * 2

    return [breaking(part) for part in PARTS], {i: breaking(part) for i, part in enumerate(PARTS)}


def attributes(x: torch.Tensor) -> Any:
    class Data:
        def __init__(self) -> None:
            self.iterator = iter(PARTS)

        def step(self, x: torch.Tensor) -> torch.Tensor:
            stop()
            return x + next(self.iterator)

    data = Data()
    for _ in range(4):
        x = data.step(x)
    return x, len(list(data.iterator))


def with_the_name_of_the_exhausted(x: torch.Tensor) -> Any:
    iterator = iter(PARTS[:3])
    for _ in range(2):
        for part in iterator:
            x = x + part
            stop()
        x = x * 2
    return x, next(iterator, None)


LEFT: list[Program] = [
    grows,
    grows_behind_the_item,
    shrinks,
    shrinks_below_the_iterator,
    shrinks_backwards,
    cleared,
    replaced,
    grown_when_exhausted,
    values_replaced,
    grown_dict,
    exchanged_key,
    asked_in_the_body,
    taken_in_the_body,
    used_afterwards,
    zipped_with_itself,
    uneven,
    strict,
    beyond_words,
    raises_in_the_body,
    raises_in_the_next_turn,
    leaves_with_an_exception,
    names_and_functions,
    different_shapes,
    inner_of_others,
    other_containers,
    comprehended,
    attributes,
    with_the_name_of_the_exhausted,
]


@pytest.mark.parametrize("program", LEFT, ids=lambda it: it.__name__)
def test_equal(program: Program) -> None:
    assert_same(program, lambda: (X,), lambda: (X * 2,), backends=("eager", "native"))


# ---- iterators and containers that the caller has


def given(x: torch.Tensor, iterator: Any, other: list[Any]) -> Any:
    for part in iterator:
        x = x + part
        stop()
        other.append(x)
    return x, list(iterator)


def test_iterators_of_the_caller() -> None:
    def shared() -> Any:
        parts = PARTS[:3]
        return X, iter(parts), parts[:3]

    def of_what_grows() -> Any:
        parts = PARTS[:3]
        limited = zip(parts, range(9), strict=False)
        return X, (part for part, _ in limited), parts

    def same() -> Any:
        class Limited(list[Any]):
            def append(self, item: Any) -> None:
                if len(self) < 8:
                    super().append(item)

        parts = Limited(PARTS[:3])
        return X, iter(parts), parts

    kinds: list[Callable[[], Any]] = [
        lambda: (X, iter(tuple(PARTS)), []),
        shared,
        lambda: (X, iter(PARTS[:2]), []),
        lambda: (X, reversed(PARTS[:4]), []),
        lambda: (X, iter(range(5)), []),
        lambda: (X, iter(dict(enumerate(PARTS)).values()), []),
        lambda: (X, iter([]), []),
        of_what_grows,
        same,
    ]
    assert_same(given, *kinds, backends=("eager", "native"))


def grows_while(x: torch.Tensor, parts: list[Any], iterator: Any, other: list[Any]) -> Any:
    for part in iterator:
        x = x + part
        stop()
        if len(parts) < 7:
            other.append(x * 0.5)
            parts.append(x)
    return x, len(parts), len(other)


def test_what_is_written_may_be_what_is_gone_through() -> None:
    """At first the list that grows is another one than that of the iterator."""

    def apart() -> Any:
        return X, PARTS[:2], iter(PARTS[:5]), []

    def together() -> Any:
        parts = PARTS[:2]
        return X, parts, iter(parts), []

    def the_other() -> Any:
        parts, other = PARTS[:2], PARTS[:3]
        return X, parts, iter(other), other

    assert_same(grows_while, apart, together, the_other, apart, backends=("eager", "native"))


def two_loops(x: torch.Tensor, outer: Any, inner: Any) -> Any:
    turns = 0
    for part in outer:
        x = x + part
        for other in inner:
            x = x * other
            stop()
            turns += 1
            if turns % 3 == 0:
                break
    return x, turns


def test_two_iterators_may_be_one() -> None:
    def one() -> Any:
        iterator = iter(PARTS)
        return X, iterator, iterator

    def two() -> Any:
        return X, iter(PARTS), iter(PARTS)

    assert_same(two_loops, two, one, two, backends=("eager",))
    assert_same(two_loops, one, two, one, backends=("eager",))


# ---- long loops


def long_list(x: torch.Tensor, parts: list[Any]) -> Any:
    for part in parts:
        x = x + part
        stop()
    return x


def long_enumerate(x: torch.Tensor, parts: list[Any]) -> Any:
    for i, part in enumerate(parts):
        x = x + part * i
        stop()
        x = x - i
    return x


def long_range(x: torch.Tensor, parts: list[Any]) -> Any:
    for i in range(len(parts)):
        x = x + i
        stop()
        x = x - i * 2
    return x


def without_breaks(x: torch.Tensor, parts: list[Any]) -> Any:
    iterator = iter(parts)
    for part in iterator:
        x = x + part
        if x is part:
            x = x * 2
        stop() if x.dim() == 3 else None
    return x


@pytest.mark.parametrize("program", [long_list, long_enumerate, long_range])
def test_long_loops(program: Program) -> None:
    parts = [torch.full((2,), float(i)) for i in range(1000)]
    compiled = gramme.compile(program, backend="eager")
    with gramme.meter() as m:
        result = compiled(X[0, :2], parts)
    assert torch.equal(result, program(X[0, :2], parts))
    assert m.read().captures <= 8
    read = measured(compiled, X[0, :2], parts)
    assert (read.captures, read.outside) == (0, 0)
    assert read.graphs <= 1002


def loop_over_data(data: Any, x: torch.Tensor) -> Any:
    for part in data:
        x = x + part
        x = x.sin()
    return x


@pytest.mark.parametrize("make", [iter, enumerate, reversed, lambda data: iter(tuple(data))])
def test_a_loop_over_data_is_one_segment(make: Callable[[Any], Any]) -> None:
    """A body without a break ends where the next turn begins, and serves all turns."""

    def program(data: Any, x: torch.Tensor) -> Any:
        for part in data:
            x = x + (part[1] if isinstance(part, tuple) else part)
            x = x.sin()
        return x

    data = [torch.full((2,), float(i)) for i in range(100)]
    compiled = gramme.compile(program, backend="eager")
    with gramme.meter() as m:
        result = compiled(make(data), X[0, :2])
    assert torch.equal(result, program(make(data), X[0, :2]))
    assert (m.read().captures, m.read().graphs) in ((3, 100), (4, 100))
    for size in (99, 1, 2, 0):
        assert torch.equal(compiled(make(data[:size]), X[0, :2]), program(make(data[:size]), X[0, :2]))


def specialised(x: torch.Tensor) -> Any:
    for i in range(40):
        x = x + i
        stop()
        x = x.reshape(4, 2) if i % 2 else x.reshape(2, 4)
        x = x * [0.5, 0.25, 2.0, 3.0, 1.5][i % 5]
    return x


def test_items_that_segments_are_bound_to(recwarn: pytest.WarningsRecorder) -> None:
    """The limit of captures for a place is reached no earlier than where segments end in front of the next turn."""
    compiled = gramme.compile(specialised, backend="eager")
    assert torch.equal(compiled(X), specialised(X))
    assert len(recwarn) <= 1


# ---- memory


class Finalized:
    def __init__(self, log: list[Any], name: str) -> None:
        self.log, self.name = log, name

    def __del__(self) -> None:
        self.log.append(self.name)


def finalized(x: torch.Tensor) -> Any:
    log: list[Any] = []
    for held in [Finalized(log, "a"), Finalized(log, "b")]:
        x = x + len(held.name)
        stop()
        log.append(held.name + "!")
        del held
    log.append("after")
    return x, log


def test_objects_die_with_the_list() -> None:
    assert_same(finalized, lambda: (X,), backends=("eager",))


def test_nothing_leaks() -> None:
    programs = [over_items, over_enumerate, over_zip, over_range, over_reversed, used_afterwards, uneven]
    parts = [torch.ones(1) for _ in range(3)]
    compiled = [gramme.compile(program, backend="eager") for program in programs]
    loop = gramme.compile(long_list, backend="eager")

    def call() -> None:
        for each in compiled:
            each(X)
        loop(X, parts)

    for _ in range(4):
        call()
    gc.collect()
    before = len(gc.get_objects()), sys.getrefcount(parts), sys.getrefcount(parts[0])
    for _ in range(20):
        call()
    gc.collect()
    after = len(gc.get_objects()), sys.getrefcount(parts), sys.getrefcount(parts[0])
    assert after[1:] == before[1:]
    assert after[0] - before[0] < 20
