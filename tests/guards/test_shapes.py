"""Guards on sizes, strides and ints that vary: what is loaded, compared, computed and given back."""

import itertools
import random
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from gramme._C import testing

from guards.support import Path, TestGuards

shape: Any = testing.shape
Spec: Any = testing.Spec
a, b, c, d = (shape.symbol(k) for k in range(4))
X: Path = (("Local", "x"),)
Y: Path = (("Local", "y"),)
K: Path = (("Local", "k"),)
ALL = 2**64 - 1


def size(path: Path, dim: int) -> Path:
    return (*path, ("SizeOf", dim))


def stride(path: Path, dim: int) -> Path:
    return (*path, ("StrideOf", dim))


def offset(path: Path) -> Path:
    return (*path, ("OffsetOf",))


def is_int(path: Path) -> tuple[Path, str, type]:
    return (path, "Type", int)


def plan_of(
    *facts: tuple[Path, str, object],
    symbols: tuple[Path, ...] = (),
    properties: tuple[tuple[Path, Any], ...] = (),
    conditions: tuple[Any, ...] = (),
    numbers: tuple[Any, ...] = (),
    reads: tuple[Path, ...] = (),
    names: tuple[str, ...] = ("x", "y"),
) -> Any:
    shapes = {"symbols": symbols, "properties": properties, "conditions": conditions, "numbers": numbers}
    return TestGuards(list(names), list(facts), list(reads), {k: list(v) for k, v in shapes.items()})


def ints(*conditions: Any, numbers: tuple[Any, ...] = ()) -> Any:
    """A plan whose locals x and y are the symbols a and b."""
    return plan_of(is_int(X), is_int(Y), symbols=(X, Y), conditions=conditions, numbers=numbers)


def told(plan: Any, *values: object) -> Any:
    """What a check gives; explain() has nothing to say if and only if it holds."""
    found = plan.check(list(values))
    assert (found is None) == (plan.explain(list(values)) != "")
    return found


# ---- signatures


def strided(sizes: list[int], strides: list[int]) -> torch.Tensor:
    return torch.empty_strided(sizes, strides)


@pytest.mark.parametrize("dims", range(1, 8))
def test_every_subset_of_dimensions(dims: int) -> None:
    sizes = [2 + i % 2 for i in range(dims)]
    strides = [3 * i + 1 for i in range(dims)][::-1]
    example = strided(sizes, strides)
    others = []  # (dimension whose size is another, whose stride is another, tensor)
    for i in range(dims):
        larger, wider = list(sizes), list(strides)
        larger[i] += 3
        wider[i] += 2
        others.append((1 << i, 0, strided(larger, strides)))
        others.append((0, 1 << i, strided(sizes, wider)))
        others.append((1 << i, 1 << i, strided(larger, wider)))
    for which in range(1 << dims):
        for of_sizes, of_strides in ((which, 0), (0, which), (which, which), (which, ~which & ALL)):
            spec = Spec(example).with_varying(of_sizes, of_strides)
            assert spec.matches(example)
            for changed_size, changed_stride, other in others:
                same = not changed_size & ~of_sizes and not changed_stride & ~of_strides
                assert spec.matches(other) == same, (spec, other.shape, other.stride())
                assert (spec.explain(other) == "") == same
                if same:
                    assert Spec(other).with_varying(of_sizes, of_strides) == spec


@pytest.mark.parametrize("shape_", [(2, 3), (2,) * 6])
def test_all_else_is_compared(shape_: tuple[int, ...]) -> None:
    class Sub(torch.Tensor):
        pass

    example = torch.ones(shape_)
    spec = Spec(example).with_varying(ALL, ALL)
    assert spec.matches(torch.ones([7] * len(shape_)).transpose(0, 1))
    assert spec.matches(torch.ones([0] * len(shape_)))
    for other in (
        torch.ones(shape_[1:]),
        torch.ones((1, *shape_)),
        torch.ones(shape_, dtype=torch.float64),
        torch.ones(shape_, requires_grad=True),
        torch.ones(shape_).as_subclass(Sub),
        torch.ones(shape_, device="meta"),
        torch.ones(shape_, dtype=torch.complex64).conj().imag,
        example.to_sparse(),
        3,
    ):
        assert not spec.matches(other)
        assert spec.explain(other)


def test_one_signature_for_captures_at_two_sizes() -> None:
    small, large = torch.ones(2, 3), torch.ones(9, 5, 3)[1:, 2]
    assert Spec(small) != Spec(large)
    assert Spec(small).with_varying(1, 1) == Spec(large).with_varying(1, 1)
    assert Spec(small).with_varying(1, 0) != Spec(large).with_varying(1, 0)
    assert Spec(small).with_varying(1, 1) == Spec(small).with_varying(1 | 1 << 2, 1 | 1 << 63)  # there are two
    assert Spec(small).with_varying(0, 0) == Spec(small)
    assert Spec(small).with_varying(1, 0).with_varying(2, 1) == Spec(small).with_varying(3, 1)
    assert Spec(small).with_varying(1, 3).varying == (1, 3)
    learner = torch.ones(2, 3, requires_grad=True)
    varying = Spec(learner).with_varying(1, 1).without_autograd()
    assert varying == Spec(learner).without_autograd().with_varying(1, 1)
    assert varying == Spec(small).without_autograd().with_varying(1, 1)
    assert varying.matches(learner)
    assert varying.matches(large)
    assert not varying.matches(torch.ones(2, 4))


def test_more_dimensions_than_bits() -> None:
    many = torch.empty_strided([1] * 65, [1] * 65)
    assert Spec(many).with_varying(ALL, ALL) == Spec(many)
    most = torch.empty_strided([1] * 64, [1] * 64)
    assert Spec(most).with_varying(1 << 63, 0).matches(torch.empty_strided([1] * 63 + [2], [1] * 64))
    assert not Spec(most).with_varying(1 << 63, 0).matches(torch.empty_strided([1] * 62 + [2, 1], [1] * 64))


def test_signature_in_words() -> None:
    spec = Spec(torch.ones(2, 3)).with_varying(1, 2)
    assert repr(spec) == "Tensor float32[?, 3] strides [3, ?] cpu"
    assert spec.explain(torch.ones(5, 4)) == "shape changed from [?, 3] to [5, 4]"
    assert spec.explain(torch.ones(5, 6)[:, :3]) == "strides changed from [3, ?] to [6, 1]"
    assert spec.explain(torch.ones(5)) == "shape changed from [?, 3] to [5]"


# ---- numbers of tensors


@pytest.mark.parametrize("dims", range(1, 8))
def test_numbers_of_a_tensor(dims: int) -> None:
    """Inline and out of line, whatever varies."""
    sources = [make(X, i) for make in (size, stride) for i in range(dims)] + [offset(X)]
    numbers = tuple(shape.symbol(k) for k in range(len(sources)))
    example = torch.ones([2] * dims)
    plan = plan_of((X, "Tensor", (example, ALL, ALL)), symbols=tuple(sources), numbers=numbers, reads=(X,))
    rng = random.Random(dims)
    for _ in range(20):
        whole = torch.ones([rng.randint(2, 4) for _ in range(dims)])
        x = whole.permute(rng.sample(range(dims), dims))[tuple(slice(rng.randint(0, 1), None) for _ in range(dims))]
        assert told(plan, x, None) == [x, *x.shape, *x.stride(), x.storage_offset()]


def test_contiguous_strides_follow_sizes() -> None:
    plan = plan_of(
        (X, "Tensor", (torch.ones(2, 3, 4), 0b011, 0b001)),
        symbols=(size(X, 0), size(X, 1)),
        properties=((stride(X, 0), 4 * b),),
        numbers=(a * b * 4,),
    )
    assert plan.print()[1:] == ["L['x'].stride()[0] == 4*L['x'].size()[1]"]
    for n, m in itertools.product(range(2, 5), repeat=2):
        assert told(plan, torch.ones(n, m, 4), None) == [n * m * 4]
        x = torch.ones(m, n, 4).transpose(0, 1)
        assert plan.check([x, None]) is None
        sliced = torch.ones(n, m + 1, 4)[:, 1:]
        assert told(plan, sliced, None) is None
        assert plan.explain([sliced, None]) == (
            f"L['x'].stride()[0] is {4 * m + 4}, not {4 * m} = 4*L['x'].size()[1]: L['x'].size()[1] is {m}"
        )
        assert told(plan, torch.ones(n, m, 4), None) == [n * m * 4]


def test_equal_sizes_and_a_property_that_is_constant() -> None:
    plan = plan_of(
        (X, "Tensor", (torch.ones(2, 3), ALL, 0)),
        (Y, "Tensor", (torch.ones(2), ALL, 0)),
        symbols=(size(X, 0),),
        properties=((size(Y, 0), a), (size(X, 1), shape.expression(3))),
    )
    assert told(plan, torch.ones(5, 3), torch.ones(5)) == []
    assert told(plan, torch.ones(5, 3), torch.ones(6)) is None
    x = torch.ones(15).as_strided([5, 2], [3, 1])
    assert told(plan, x, torch.ones(5)) is None
    assert plan.explain([x, torch.ones(5)]) == "L['x'].size()[1] is 2, not 3 = 3"


def test_conditions_keep_their_place() -> None:
    plan = plan_of(
        (X, "Tensor", (torch.ones(2, 3), 1, 0)),
        is_int(K),
        symbols=(size(X, 0), K),
        conditions=((shape.at_most(a, 512), "model.py:88"), shape.equal((a * 2) % b, 0)),
        names=("x", "k"),
    )
    assert plan.print()[2:] == ["L['x'].size()[0] <= 512 (model.py:88)", "(2*L['x'].size()[0])%L['k'] == 0"]
    assert plan.statistics()["facts"] == 4
    assert told(plan, torch.ones(512, 3), 4) == []
    for x, k, why in (
        (600, 4, "L['x'].size()[0] <= 512 (model.py:88) does not hold: L['x'].size()[0] is 600"),
        (3, 4, "(2*L['x'].size()[0])%L['k'] == 0 does not hold: L['x'].size()[0] is 3, L['k'] is 4"),
        (3, 0, "(2*L['x'].size()[0])%L['k'] == 0 has no value: L['x'].size()[0] is 3, L['k'] is 0"),
        (3, 2**70, f"(2*L['x'].size()[0])%L['k'] == 0 has no value: L['x'].size()[0] is 3, L['k'] is {2**70}"),
    ):
        assert told(plan, torch.ones(x, 3), k) is None
        assert plan.explain([torch.ones(x, 3), k]) == why


def test_other_facts_come_first() -> None:
    plan = plan_of(
        (X, "Tensor", (torch.ones(2, 3), 1, 0)), symbols=(size(X, 0),), conditions=(shape.less(a, 9),), numbers=(a,)
    )
    parameter = torch.nn.Parameter(torch.ones(2, 3))
    for other in (None, 3, torch.ones(2), torch.ones(2, 3, 4), torch.ones(2, 3).double(), parameter):
        assert told(plan, other, None) is None
    assert told(plan, torch.ones(8, 3), None) == [8]


def test_conditions_that_a_backend_adds() -> None:
    plan = ints(shape.greater(a, 1), numbers=(a + b,))
    plan.require([(shape.at_most(a * b, 4096), ""), shape.not_equal(a, 7)])
    assert plan.statistics()["facts"] == 5
    assert told(plan, 64, 64) == [128]
    assert told(plan, 64, 65) is None
    assert told(plan, 7, 1) is None
    assert told(plan, 1, 2) is None


def test_a_description_must_be_complete() -> None:
    varying = (X, "Tensor", (torch.ones(2, 3), 1, 1))
    for bad in (
        {"symbols": (size(X, 0),)},
        {"symbols": (stride(X, 0),)},
        {"symbols": (size(X, 0), stride(X, 1))},
        {"symbols": (size(X, 0), stride(X, 0), size(X, 2))},
        {"symbols": (size(X, 0), stride(X, 0), size(Y, 0))},
        {"symbols": (size(X, 0), stride(X, 0), Y)},
        {"symbols": (size(X, 0), stride(X, 0)), "numbers": (c,)},
    ):
        with pytest.raises(testing.GraphError):
            plan_of(varying, (Y, "Present", None), **bad)  # type: ignore[arg-type]


# ---- ints, and what has no value


def test_int_leaves() -> None:
    plan = plan_of(is_int(X), (Y, "Narrow", int), symbols=(X, Y), numbers=(a, b))
    for x in (0, -1, 255, 257, 2**31, 2**63 - 1, -(2**63)):
        for y in (0, 1 - 2**30, 2**30 - 1):
            assert told(plan, x, y) == [x, y]
    for x, y in ((2**63, 0), (-(2**63) - 1, 0), (0, 2**30), (True, 0), (1.0, 0), (0, None)):
        assert told(plan, x, y) is None
    assert told(plan, 5, 6) == [5, 6]


def test_an_int_that_nothing_asks_for_may_be_any() -> None:
    plan = ints(shape.greater(a, 1), numbers=(a,))
    assert told(plan, 5, 2**80) == [5]
    assert told(plan, 2**80, 5) is None


EXTREMES = (-(2**63), -(2**63) + 1, -(2**32), -1, 0, 1, 2**31, 2**32, 2**62, 2**63 - 1)


def test_no_value_is_a_miss() -> None:
    cases: list[tuple[Any, Callable[[int, int], int]]] = [
        (a + b, lambda x, y: x + y),
        (a - b, lambda x, y: x - y),
        (a * b, lambda x, y: x * y),
        (a // b, lambda x, y: x // y),
        (a % b, lambda x, y: x % y),
    ]
    for expression, compute in cases:
        number = ints(numbers=(expression,))
        condition = ints(shape.at_least(shape.maximum(expression, a), a))
        for x, y in itertools.product(EXTREMES, repeat=2):
            try:
                value = compute(x, y)
            except ZeroDivisionError:
                value = 2**64
            fits = -(2**63) <= value < 2**63
            assert told(number, x, y) == ([value] if fits else None)
            assert told(condition, x, y) == ([] if fits else None)


def test_types_of_numbers() -> None:
    plan = ints(numbers=(shape.less(a, b), shape.expression(7), a, shape.expression(True), a / b))
    less, seven, same, true, quotient = told(plan, 3, 4)
    assert less is True
    assert true is True
    assert type(seven) is int
    assert (seven, same, quotient) == (7, 3, 0.75)
    assert told(plan, 4, 3)[0] is False


def test_numbers_without_symbols() -> None:
    plan = plan_of((X, "Present", None), numbers=(shape.expression(7),), reads=(X,))
    for x in (1, 2):
        assert told(plan, x, None) == [x, 7]
    never = plan_of((X, "Present", None), conditions=(shape.expression(False),))
    assert told(never, 1, None) is None


def test_after_a_miss_the_last_numbers_still_hold() -> None:
    plan = ints(shape.less(a, b), numbers=(a * 1000, b * 1000))
    for x, y in ((1, 2), (2, 1), (1, 2), (3, 3), (1, 2), (5, 6), (6, 5), (5, 6), (1, 2), (2**62, 1), (1, 2)):
        assert told(plan, x, y) == ([x * 1000, y * 1000] if x < y else None)


def test_nothing_leaks() -> None:
    x, y = torch.ones(300, 3), torch.ones(3, 3)
    plan = plan_of(
        (X, "Tensor", (x, 1, 0)),
        symbols=(size(X, 0),),
        conditions=(shape.greater(a, 256),),
        numbers=(a, a * a, shape.less(a, 900)),
        reads=(X,),
    )
    tensors = [torch.ones(300 + i, 3) for i in range(3)]

    def blocks() -> int:
        for t in tensors:
            assert plan.check([t, None]) is not None
            assert plan.check([y, None]) is None
        for t in tensors * 100:
            plan.check([t, None])
            plan.check([y, None])
        return sys.getallocatedblocks()

    before, references = blocks(), [sys.getrefcount(t) for t in (*tensors, y, True)]
    assert all(abs(blocks() - before) < 20 for _ in range(3))
    assert [sys.getrefcount(t) for t in (*tensors, y)] == references[:-1]
    assert abs(sys.getrefcount(True) - references[-1]) < 50


# ---- memory


def overlapping_plan(kind: str) -> Any:
    varying = (torch.ones(2), 1, 0)
    return plan_of(
        (X, "Tensor", varying),
        (Y, "Tensor", varying),
        (X, kind, Y),
        symbols=(size(X, 0), size(Y, 0)),
        numbers=(a, b),
        reads=(X, Y),
    )


@pytest.mark.parametrize("kind", ["NoOverlap", "Apart"])
@pytest.mark.parametrize("seed", range(3))
def test_views_that_overlap_at_some_sizes(kind: str, seed: int) -> None:
    rng = random.Random(seed)
    plan, base = overlapping_plan(kind), torch.zeros(12)
    starts = (0, 5)
    calls = [(m, n) for m in range(12) for n in range(7)] * 2
    rng.shuffle(calls)
    for m, n in calls:
        x, y = base[starts[0] : starts[0] + m], base[starts[1] : starts[1] + n]
        apart = m <= 5 or n == 0
        assert told(plan, x, y) == ([x, y, m, n] if apart else None)


def test_steady_and_varying_tensors_apart() -> None:
    """The steady ones are known by their addresses, the others by their extents."""
    paths: list[Path] = [(("Local", name),) for name in "abcd"]
    examples: list[Any] = [torch.ones(2), (torch.ones(2), 1, 0), torch.ones(3), (torch.ones(2, 2), 0b11, 0b11)]
    plan = plan_of(
        *((p, "Tensor", e) for p, e in zip(paths, examples, strict=True)),
        *((p, "Apart", q) for p, q in itertools.pairwise(paths)),
        symbols=(size(paths[1], 0), *(make(paths[3], i) for make in (size, stride) for i in (0, 1))),
        names=tuple("abcd"),
    )
    base, rng = torch.zeros(24), random.Random(0)
    seen = set()
    for _ in range(3000):
        lengths = (2, rng.randint(0, 5), 3)
        views: list[Any] = [base[o : o + n] for n in lengths for o in [rng.choice((0, 4, 8, 12))]]
        sizes, strides = [rng.randint(0, 3), rng.randint(1, 2)], [rng.randint(1, 3), 1]
        views.append(base.as_strided(sizes, strides, rng.choice((0, 4, 8, 12))))
        spans = []
        for view in views:
            begin = view.storage_offset()
            reach = sum((n - 1) * s for n, s in zip(view.shape, view.stride(), strict=True)) + 1
            spans.append(range(begin, begin + reach) if view.numel() else range(0))
        apart = all(not set(p) & set(q) for p, q in itertools.combinations(spans, 2))
        seen.add(apart)
        assert (plan.check(views) is not None) == apart
        assert (plan.explain(views) == "") == apart
    assert seen == {True, False}


# ---- bound and walked


def test_a_varying_tensor_in_a_bound_part() -> None:
    """Words that hold say nothing of sizes: they are loaded at every check, also where nothing else has changed."""
    item, count = (*X, ("Value", "t")), (*X, ("Value", "n"))
    t = torch.ones(2, 3)
    plan = plan_of(
        (X, "Keys", ("t", "n")),
        (item, "Tensor", (t, 1, 0)),
        is_int(count),
        symbols=(size(item, 0), count),
        conditions=(shape.equal(a, b),),
        numbers=(a,),
        reads=(item,),
    )
    x = {"t": t, "n": 2}
    for n in (2, 7, 7, 2, 300, 5):
        t.resize_(n, 3)  # in place: no word differs
        assert told(plan, x, None) == (None if n != x["n"] else [t, n])
        x["n"] = n
        for _ in range(3):
            assert told(plan, x, None) == [t, n]
    rebinds = plan.statistics()["rebinds"]
    for n in range(1, 50):
        t.resize_(n, 3)
        assert told(plan, x, None) == (None if n != 5 else [t, 5])
    assert plan.statistics()["rebinds"] == rebinds
    for n in range(1, 200):  # another dict at every call: walked
        assert told(plan, {"t": torch.ones(n, 3), "n": n}, None)[1:] == [n]
        assert told(plan, {"t": torch.ones(n, 3), "n": n + 1}, None) is None


# ---- random descriptions against Python


class Described:
    """A random description that holds for its example, and what Python says of other calls."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.dims = (rng.randint(1, 3), rng.randint(1, 7))
        self.places: list[Path] = [(*X, ("Item", i)) for i in range(3)] if rng.random() < 0.5 else [X, Y, K]
        self.in_list = len(self.places[0]) > 1
        self.example = self.call(0)
        self.masks = [[rng.getrandbits(n) for _ in range(2)] for n in self.dims]
        varying: list[Path] = []
        for i, masks in enumerate(self.masks):
            for make, mask in zip((size, stride), masks, strict=True):
                varying += [make(self.places[i], k) for k in range(self.dims[i]) if mask >> k & 1]
        rng.shuffle(varying)
        self.symbols = varying[: rng.randint(0, len(varying))]
        for more in (self.places[2], offset(self.places[0])):
            if rng.random() < 0.7:
                self.symbols.append(more)
        rest = [source for source in varying if source not in self.symbols]
        self.properties = [(source, self.equal_to(self.read(source, self.example))) for source in rest]
        self.conditions = [self.condition() for _ in range(rng.randint(0, 4))]
        self.numbers = [e for _ in range(rng.randint(0, 3)) if (e := self.term(2)).expressed]

    def call(self, spread: int) -> list[Any]:
        rng, tensors = self.rng, []
        for n in self.dims:
            sizes = [2 + rng.randint(0, spread) for _ in range(n)]
            t = torch.empty(sizes[:]).transpose(0, rng.randint(0, min(spread, n - 1)))
            tensors.append(t[rng.randint(0, min(spread, 1)) :])
        return [*tensors, 4 + rng.randint(-spread, spread)]

    def read(self, source: Path, call: list[Any]) -> int:
        kind, index = source[-1][0], source[-1][-1]
        if source in self.places:
            return int(call[2])
        x = call[self.places.index(source[:-1])]
        return int({"SizeOf": x.size, "StrideOf": x.stride}[kind](index) if kind != "OffsetOf" else x.storage_offset())

    def values(self, call: list[Any]) -> dict[str, int]:
        return {f"s{k}": self.read(source, call) for k, source in enumerate(self.symbols)}

    def leaf(self) -> Any:
        if self.symbols and self.rng.random() < 0.7:
            return shape.symbol(self.rng.randrange(len(self.symbols)))
        return shape.expression(self.rng.randint(-3, 7))

    def term(self, depth: int) -> Any:
        if depth == 0:
            return self.leaf()
        p, q = self.term(depth - 1), self.term(depth - 1)
        makes = [p.__add__, p.__sub__, p.__mul__, p.__floordiv__, p.__mod__]
        makes += [lambda q: shape.minimum(p, q), lambda q: shape.maximum(p, q)]
        made = self.rng.choice(makes)(q)
        return made if made.expressed else p

    def condition(self) -> Any:
        compare = self.rng.choice([shape.less, shape.at_most, shape.equal, shape.not_equal])
        made = compare(self.term(2), self.term(1))
        holds = evaluated(made, self.values(self.example))
        return made if holds or holds is None else shape.negation(made)

    def equal_to(self, value: int) -> Any:
        """An expression with that value for the example."""
        term = self.term(1)
        now = evaluated(term, self.values(self.example))
        return shape.expression(value) if now is None else term + (value - now)

    def plan(self) -> Any:
        facts = [
            (place, "Tensor", (example, *masks))
            for place, example, masks in zip(self.places, self.example[:2], self.masks, strict=False)
        ]
        if self.in_list:
            facts.append((X, "Length", 3))
        facts.append((self.places[2], *self.rng.choice([("Type", int), ("Narrow", int)])))
        self.rng.shuffle(facts)
        return plan_of(
            *facts,
            symbols=tuple(self.symbols),
            properties=tuple(self.properties),
            conditions=tuple(self.conditions),
            numbers=tuple(self.numbers),
            reads=tuple(self.places),
            names=("x", "y", "k"),
        )

    def wanted(self, call: list[Any]) -> list[Any] | None:
        for now, then, masks in zip(call[:2], self.example[:2], self.masks, strict=True):
            for numbers, old, mask in zip((now.shape, now.stride()), (then.shape, then.stride()), masks, strict=True):
                if any(m != n and not mask >> k & 1 for k, (m, n) in enumerate(zip(numbers, old, strict=True))):
                    return None
        values = self.values(call)
        if any(evaluated(e, values) != self.read(source, call) for source, e in self.properties):
            return None
        if not all(evaluated(e, values) for e in self.conditions):
            return None
        numbers = [evaluated(e, values) for e in self.numbers]
        return None if None in numbers else [*call, *numbers]


def evaluated(expression: Any, values: dict[str, int]) -> Any:
    try:
        return eval(repr(expression), dict(values))
    except ZeroDivisionError:
        return None


def same_objects(found: list[Any] | None, wanted: list[Any] | None) -> bool:
    if found is None or wanted is None:
        return found is wanted
    return [*map(id, found[:3])] == [*map(id, wanted[:3])] and found[3:] == wanted[3:]


@pytest.mark.parametrize("seed", range(10))
def test_random_descriptions(seed: int) -> None:
    hits = misses = 0
    for i in range(100):
        described = Described(100 * seed + i)
        plan = described.plan()
        holder: list[Any] = [None] * 3
        calls = [described.call(described.rng.choice((0, 0, 1, 3))) for _ in range(8)]
        for call in [described.example, *calls, *calls[::-1], described.example]:
            holder[:] = call
            given = [holder if described.rng.random() < 0.8 else list(call)] * 3 if described.in_list else call
            wanted = described.wanted(call)
            if described.rng.random() < 0.1:
                plan.unbind()
            assert same_objects(plan.check(given), wanted), (described.__dict__, call)
            assert (plan.explain(given) == "") == (wanted is not None)
            hits, misses = hits + (wanted is not None), misses + (wanted is None)
    assert min(hits, misses) > 100
