"""Ints and floats that differ from call to call: results, writes and exceptions are eager's, captures stay few."""

import copy
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import gramme
import pytest
import torch
import torch.nn.functional as F

BACKENDS = ["eager", "native", "aot_eager"]
T = torch.tensor
X = torch.arange(8.0)
DATA = torch.arange(22.0).reshape(11, 2)
SEVEN = 7
STEPS = 0  # a global counter


@pytest.fixture(autouse=True)
def limits_are_no_failure() -> Iterator[None]:
    gramme.reset()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "gramme hit the recompile limit")
        yield
    gramme.reset()


def text(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{value.dtype} {tuple(value.shape)} {value.stride()} {value.requires_grad} {value.tolist()}"
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__}({', '.join(text(v) for v in value)})"
    return f"{type(value).__name__} {value!r}"


def outcome(f: Callable[..., Any], args: tuple[Any, ...]) -> str:
    args = copy.deepcopy(args)
    try:
        result = text(f(*args))
    except Exception as error:  # noqa: BLE001
        result = f"{type(error).__name__}: {error}"
    return result + " after " + text(args)


def same_as_eager(f: Callable[..., Any], calls: list[tuple[Any, ...]], backend: str) -> None:
    compiled = gramme.compile(f, backend=backend)
    for args in calls:
        assert outcome(compiled, args) == outcome(f, args), args


class Counting:
    """A backend that runs the graph as it is."""

    def __init__(self) -> None:
        self.graphs: list[torch.fx.GraphModule] = []

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        self.graphs.append(graph)
        return graph


# What depends on a number: (program, its arguments at each call). Each family has the program that failed, and others.
LENGTHS = [(n,) for n in (2, 3, 1, 6, 0, 6)]


def made_by_size(n: int) -> Any:
    return torch.zeros(n).shape[0], torch.ones(n, 2).reshape(-1).shape, torch.arange(n).numel()


def mean_of_slice(n: int) -> Any:
    part = X[:n]
    return part.sum() / part.numel()


def items_of_slice(n: int) -> Any:
    part = X[:n]
    return sum(part[i].item() for i in range(len(part)))


def branch_on_size(n: int) -> Any:
    return "long" if X[n:].size(0) > 4 else "short"


def made_like(n: int) -> Any:
    full = torch.full((n, 2), 1.5)
    return full.new_zeros(n).shape, torch.eye(n + 1).stride(), X.repeat(n).shape, X.expand(n, 8).stride()


def resized(n: int) -> Any:
    return X.narrow(0, 0, n).shape, X.unfold(0, n + 1, 1).shape, X.roll(n), torch.split(X, n + 1)[0].shape


def in_tuple_and_slice(n: int) -> Any:
    rows = DATA[1 : n + 1, :1]
    return rows.shape, rows.sum(), F.pad(X, (n, 0)).shape


def offset_of_item(n: int) -> Any:
    return X[n].storage_offset(), X[n], X.select(0, n) * 2


def minibatch(i: int, size: int = 3) -> Any:
    batch = DATA[i * size : (i + 1) * size]
    return (batch.sum(0) / len(batch)).tolist()


def masked(lengths: torch.Tensor) -> Any:
    mask = torch.arange(lengths.max().item())[None] < lengths[:, None]
    return mask.shape[1], (mask.float().mean() * mask.numel()).item()


def from_item(x: torch.Tensor) -> Any:
    return torch.arange(0.0, x.max().item()).shape[0]


def linspace(x: torch.Tensor) -> Any:
    steps = int(x.max().item())
    return torch.linspace(0, 1, steps).shape, torch.zeros(steps, 2).numel()


def step_of_arange(step: float) -> Any:
    return torch.arange(0.0, 10.0, step).shape[0]


SHAPES: list[tuple[Callable[..., Any], list[tuple[Any, ...]]]] = [
    *((f, LENGTHS) for f in (made_by_size, mean_of_slice, items_of_slice, branch_on_size, made_like, resized)),
    *((f, LENGTHS) for f in (in_tuple_and_slice, offset_of_item)),
    (minibatch, [(i,) for i in (0, 1, 2, 3, 4)]),
    (masked, [(T([1, 2]),), (T([3, 1]),), (T([2, 5]),), (T([4, 4]),)]),
    (from_item, [(T([2.0]),), (T([3.0]),), (T([5.0]),), (T([1.0]),)]),
    (linspace, [(T([2.0]),), (T([3.0]),), (T([5.0]),), (T([1.0]),)]),
    (step_of_arange, [(1.0,), (2.0,), (3.0,), (0.5,)]),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("f", "calls"), SHAPES, ids=lambda v: getattr(v, "__name__", ""))
def test_what_depends_on_a_number(f: Any, calls: Any, backend: str) -> None:
    same_as_eager(f, calls, backend)


class Cache(torch.nn.Module):
    k: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("k", torch.zeros(8, 2))
        self.pos = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.k[self.pos] = x
        self.pos += 1
        k = self.k[: self.pos]
        return k.sum(0) / k.size(0)


class Appending(Cache):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.k = torch.cat([self.k, x[None]])
        self.pos += 1
        return self.k[-self.pos :].mean(0) * self.k.size(0)


class Ring(Cache):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.k[self.pos % 3].copy_(x)
        self.pos += 1
        return self.k.sum(0) / min(self.pos, 3)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("cls", [Cache, Appending, Ring])
def test_caches(cls: type[Cache], backend: str) -> None:
    module, reference = cls(), cls()
    compiled = gramme.compile(module, backend=backend)
    for i in range(7):
        x = torch.full((2,), float(i))
        assert compiled(x).tolist() == reference(x).tolist()
    assert (module.pos, module.k.tolist()) == (reference.pos, reference.k.tolist())


# What raises with some numbers: (operation, good values, a bad one).
RAISES: dict[str, tuple[Callable[[Any], Any], list[Any], Any]] = {
    "t[i]": (lambda a: torch.arange(3.0)[a], [0, 1, 2], 9),
    "select": (lambda a: torch.arange(3.0).select(0, a), [0, 1, 2], 9),
    "narrow": (lambda a: torch.arange(3.0).narrow(0, a, 1), [0, 1, 2], 9),
    "fill_": (lambda a: torch.zeros(2, dtype=torch.uint8).fill_(a), [0, 1, 2], 999),
    "fill_ with a float": (lambda a: torch.zeros(2).fill_(a), [0.0, 1.0, 2.0], 1e300),
    "full": (lambda a: torch.full((2,), a, dtype=torch.int8), [0, 1, 2], 999),
    "uint8 + a": (lambda a: torch.zeros(2, dtype=torch.uint8) + a, [0, 1, 2], 2**70),
    "alpha": (lambda a: torch.add(torch.ones(2), torch.ones(2), alpha=a), [0.0, 1.0, 2.0], 1e300),
    "alpha by position": (
        lambda a: torch.zeros(2, dtype=torch.int8).add(a, torch.ones(2, dtype=torch.int8)),
        [1, 2, 3],
        999,
    ),
    "clamp": (lambda a: torch.ones(2).clamp(max=a), [0.0, 1.0, 2.0], 1e300),
    "masked_fill": (lambda a: torch.zeros(2, dtype=torch.int8).masked_fill(T([True, False]), a), [0, 1, 2], 999),
    "setitem": (lambda a: torch.zeros(2, dtype=torch.int16).__setitem__(0, a), [0, 1, 2], 2**20),
    "normal_": (lambda a: torch.zeros(2).normal_(0.0, a), [0.0, 0.0, 0.0], -1.0),
    "bernoulli_": (lambda a: torch.zeros(2).bernoulli_(a), [0.0, 1.0, 0.0], -1.0),
    "dropout": (lambda a: F.dropout(torch.ones(2), a), [0.0, 1.0, 0.0], -1.0),
    "int ** a": (lambda a: T([1, 2]) ** a, [1, 2, 3], -1),
    "int // a": (lambda a: T([1, 2]) // a, [1, 2, 3], 0),
    "int % a": (lambda a: T([1, 2]) % a, [1, 2, 3], 0),
    "fmod": (lambda a: torch.fmod(T([1, 2]), a), [1, 2, 3], 0),
    "rounded": (lambda a: torch.div(T([1, 2]), a, rounding_mode="floor"), [1, 2, 3], 0),
    "arange": (lambda a: torch.arange(0, 3, a), [1, 2, 3], 0),
    "roll": (lambda a: torch.arange(3).roll(a), [1, 2, 3], 2**70),
    "10. ** a": (lambda a: torch.ones(2) * (10.0**a), [1.0, 2.0, 3.0], 1e9),
    "a ** 3": (lambda a: torch.ones(2) * (a**3), [1.0, 2.0, 3.0], 1e200),
    "a * a": (lambda a: torch.ones(2) * (a * a), [1, 2, 3], 2**600),
    "a * a of 40 bits": (lambda a: torch.ones(2, dtype=torch.int64) * (a * a), [1, 2, 3], 2**40),
    "a * 2**70": (lambda a: torch.ones(2) * (a * 2**70), [0, 0, 0], 1),
    "a + 2**2000": (lambda a: torch.ones(2) * (a - 2**2000 if a > 2 else a), [0.0, 1.0, 2.0], 3.0),
    "7 % a": (lambda a: torch.ones(2) * (7 % a), [1, 2, 3], 0),
    "7 / a": (lambda a: torch.ones(2) * (7 / a), [1.0, 2.0, 3.0], 0.0),
    "1 << a": (lambda a: torch.ones(2) * (1 << a), [1, 2, 3], -1),
    "float(a)": (lambda a: torch.ones(2) * float(a), [1, 2, 3], 2**2000),
    "one_hot": (lambda a: F.one_hot(T([0, 1]), a), [2, 3, 4], 1),
}


# With a constant, too, metadata does not tell that these raise.
UNTOLD = {"fill_", "fill_ with a float", "full", "alpha", "clamp", "masked_fill", "bernoulli_", "int ** a"}
UNTOLD |= {"one_hot"}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", RAISES)
def test_what_raises_with_a_number_does_so_once(name: str, backend: str) -> None:
    operation, good, bad = RAISES[name]

    def f(x: torch.Tensor, a: Any) -> Any:
        if name not in UNTOLD:
            x.add_(1)
        return operation(a)

    compiled = gramme.compile(f, backend=backend)
    x = torch.zeros(1)
    values = [*good, bad, good[0], bad]
    for calls, a in enumerate(values, 1):
        assert outcome(lambda a: compiled(x, a), (a,)) == outcome(operation, (a,)), a  # noqa: B023
        assert x.item() == (0 if name in UNTOLD else calls), a


@pytest.mark.parametrize("backend", BACKENDS)
def test_identity_of_numbers(backend: str) -> None:
    def f(a: Any, b: Any, x: torch.Tensor) -> Any:
        return a is b, a is not b, x + a

    def constant(a: Any, b: Any, x: torch.Tensor) -> Any:
        return a is SEVEN, (a + b) is b, x + a

    def listed(a: Any, b: Any, x: torch.Tensor) -> Any:
        return a in [b], any(a is c for c in (b, 5)), x * b

    a, b, one = 1000, int("1000"), torch.ones(2)
    pairs = [(a, a), (a, b), (b, b), (5, 5), (7, 7), (a, a), (a, b), (7, 0), (0, 7)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for program in (f, constant, listed):
            compiled = gramme.compile(program, backend=backend)
            for p, q in pairs:
                assert text(compiled(p, q, one)) == text(program(p, q, one)), (program, p, q)


# What stays an input of the graph.


def scaled(x: torch.Tensor, a: Any) -> Any:
    y = torch.addcmul((x * a - a / 2).clamp(-a, a + 1), x, x, value=a * a)
    return y.lerp(x, a), y.masked_fill(y > a, a), (x == a) | (a < x), x % (a + 1), x.sub(x, alpha=-a)


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("values", [[0.5, 1.5, -2.5, 0.0, 7.0, 1e6], [1, 2, 3, -5, 0, 10**6]], ids=["floats", "ints"])
def test_arithmetic_has_two_captures(values: list[Any], backend: str) -> None:
    x = torch.linspace(-2, 3, 6)
    compiled = gramme.compile(scaled, backend=backend)
    for a in values:
        assert outcome(compiled, (x, a)) == outcome(scaled, (x, a))
    assert gramme.statistics(compiled).captures == 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_numbers_beyond_the_guard(backend: str) -> None:
    def f(x: torch.Tensor, i: torch.Tensor, a: Any) -> Any:
        return x + a, i * a, x > a, x.clamp(max=a * 2), (x.half() * a).dtype

    x, i = torch.ones(2), torch.ones(2, dtype=torch.int32)
    same_as_eager(f, [(x, i, a) for a in (1, 2, 3, 2**29, 2**30, 2**31, 2**62, 2**63, 2**70, -(2**30), 4)], backend)
    same_as_eager(f, [(x, i, a) for a in (1.0, 2.0, 3e9, 1e38, 1e39, 1e300, float("inf"), float("nan"), 5.0)], backend)


@pytest.mark.parametrize("many", [50, 200])
def test_many_numbers_are_specialised_at_once(many: int) -> None:
    """As constants, and as inputs of the graph first: two or three runs of the capture, not one a number."""

    def f(x: torch.Tensor, numbers: list[int]) -> Any:
        y = x
        for n in numbers:
            y = y + n
        return {n: i for i, n in enumerate(numbers)}, y

    counting = Counting()
    compiled = gramme.compile(f, backend=counting)
    for first in range(3):
        numbers = list(range(first, first + many))
        assert text(compiled(X, numbers)) == text(f(X, numbers))
    assert len(counting.graphs) == 3
    assert not [n for n in counting.graphs[-1].graph.nodes if n.op == "placeholder" and n.target != "L_x_"]


def test_specialised_after_use() -> None:
    def f(x: torch.Tensor, a: int, b: float) -> Any:
        y = x * a + b
        c = a + b
        return (y, "big") if c > 3 else (y - c, "small")

    for backend in BACKENDS:
        same_as_eager(f, [(X, a, b) for a, b in ((1, 1.0), (2, 1.0), (2, 2.0), (3, 0.5), (1, 1.0), (0, 0.0))], backend)


# What only grows.


def appends(x: torch.Tensor, log: list[Any]) -> Any:
    for i in range(3):
        x = torch.sin(x) + i
    log.append(x.mean())
    return x


def extends(x: torch.Tensor, log: list[Any]) -> Any:
    log.extend([x.sum(), 1])
    log += (x.mean(),)
    return x * 2


def appends_and_reads(x: torch.Tensor, log: list[Any]) -> Any:
    log.append(x.sum())
    return x * len(log), log[-1], log[0] + 1


def replaces(x: torch.Tensor, log: list[Any]) -> Any:
    log.append(x.sum())
    log[:] = log[-2:]
    return len(log), x + 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", [appends, extends, appends_and_reads, replaces])
def test_growing_list(f: Any, backend: str) -> None:
    compiled = gramme.compile(f, backend=backend)
    log: list[Any] = []
    expected: list[Any] = []
    for i in range(12):
        x = torch.ones(4) * i
        assert text(compiled(x, log)) == text(f(x, expected))
        assert text(log) == text(expected)
    if f in (appends, extends):
        assert gramme.statistics(compiled).captures == 1


def test_one_list_under_two_names() -> None:
    def f(a: list[Any], b: list[Any], x: torch.Tensor) -> Any:
        a.append(x)
        return len(b), x + 1

    compiled = gramme.compile(f, backend="native")
    one: list[Any] = []
    two: list[Any] = []
    for a, b in ((one, two), (one, one), (one, two), (two, one)):
        c, d = list(a), list(b)
        if a is b:
            d = c
        assert text(compiled(a, b, X)) == text(f(c, d, X))
        assert len(a) == len(c)


def counter_in_a_cell(backend: Any) -> Callable[[torch.Tensor], Any]:
    k = 0

    def f(x: torch.Tensor) -> Any:
        nonlocal k
        k += 1
        return x + k, k

    return gramme.compile(f, backend=backend) if backend else f


def global_counter(backend: Any) -> Callable[[torch.Tensor], Any]:
    global STEPS
    STEPS = 0

    def f(x: torch.Tensor) -> Any:
        global STEPS
        STEPS += 1
        return x * STEPS, STEPS

    return gramme.compile(f, backend=backend) if backend else f


def counter_in_an_attribute(backend: Any) -> Callable[[torch.Tensor], Any]:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.steps, self.total = 0, 0.0

        def forward(self, x: torch.Tensor) -> Any:
            self.steps += 1
            self.total = self.total * 0.5 + self.steps
            return x * self.steps - self.total, self.steps, self.total

    return gramme.compile(Model(), backend=backend) if backend else Model()


def counter_in_a_dict(backend: Any) -> Callable[[torch.Tensor], Any]:
    state = {"step": 0}

    def f(x: torch.Tensor) -> Any:
        state["step"] += 1
        return x - state["step"], dict(state)

    return gramme.compile(f, backend=backend) if backend else f


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("make", [counter_in_a_cell, global_counter, counter_in_an_attribute, counter_in_a_dict])
def test_counters(make: Any, backend: str) -> None:
    calls = 40 if backend != "aot_eager" else 12
    f = make(None)
    expected = [text(f(X)) for _ in range(calls)]
    compiled = make(backend)
    assert [text(compiled(X)) for _ in range(calls)] == expected
    if backend != "aot_eager":  # PyTorch's backends want numbers to be constants
        assert gramme.statistics(compiled).captures <= 3


def test_a_counter_that_leaves_the_guard() -> None:
    def f(x: torch.Tensor, box: list[int]) -> Any:
        box[0] += 1
        return x + box[0]

    compiled = gramme.compile(f, backend="native")
    box, expected = [0], [0]
    for start in (0, 1, 2, 2**30 - 3, 2**30 - 2, 2**30 - 1, 2**30, 2**62, 2**63 - 2, 5):
        box[0] = expected[0] = start
        assert text(compiled(X, box)) == text(f(X, expected))
        assert box == expected


def test_optimizer_with_a_schedule() -> None:
    """The learning rate is another number at each step."""
    captures = []
    for compiled in (False, True):
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 2)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        step = gramme.compile(optimizer.step, backend="native") if compiled else optimizer.step
        for i in range(10):
            optimizer.zero_grad()
            model(torch.full((3, 4), float(i))).pow(2).sum().backward()
            step()
            schedule.step()
        captures.append([p.detach().clone() for p in model.parameters()])
    for eager, captured in zip(*captures, strict=True):
        torch.testing.assert_close(captured, eager)


@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
def test_a_quotient_is_added_as_the_operator_rounds(backend: str) -> None:
    def program(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, value: Any) -> Any:
        return torch.addcdiv(a, b, c, value=value), a.addcdiv(b, c, value=3.14), torch.addcdiv(a, b, c)

    generator = torch.Generator().manual_seed(0)
    given = [torch.randn(5, 5, generator=generator) for _ in range(3)]
    compiled = gramme.compile(program, backend=backend)
    for value in (1.0, 3.14, 2.7, 0.1, 3):
        torch.testing.assert_close(compiled(*given, value), program(*given, value), rtol=0, atol=0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_divisor_that_varies_keeps_its_sign(backend: str) -> None:
    def program(x: torch.Tensor, d: float) -> Any:
        return x * (1 / d), 2.0 / (d * 2)

    calls = [(X, d) for d in (2.0, 3.0, 5.0, 1e-3, -4.0, -0.5, 1e-20, 0.0, -0.0, float("inf"), float("nan"), 7.0)]
    same_as_eager(program, calls, backend)
    if backend == "aot_eager":
        return  # there it is known
    entry = gramme.compile(program, backend=backend, isolate_recompiles=True)
    for d in (2.0, 3.0, 5.0, 1e-3, 1e6):
        entry(X, d)
    assert gramme.statistics(entry).captures == 2


# ---- floats that are compared, and floats that are needed


def branches(x, s):
    if s > 5:
        x = x * s
    if s != 0.0 and 2 <= s < 1e6:
        x = x + s
    return max(s, 1.0) * x


SIDES = [2.5, 3.5, 4.5, 6.0, 7.0, 5.0, 0.0, -0.0, -3.0, 2.0, 2.25, 1e6, 2e6, float("nan"), float("inf"), 1e300, 5]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("first", [2.5, 6.0, 0.0])
def test_a_float_that_is_compared_stays_on_its_side(first: float, backend: str) -> None:
    same_as_eager(branches, [(X, first), *((X, s) for s in SIDES)], backend)


def test_each_side_of_a_comparison_is_captured_once() -> None:
    compiled = gramme.compile(lambda x, s: x * s if s > 5 else x + s, backend="eager")
    captures = []
    for s in (1.5, 2.5, 3.5, 6.0, 7.0, 4.0, 100.5, -8.0):
        compiled(X, s)
        captures.append(gramme.statistics(compiled).captures)
    assert captures == [1, 2, 2, 3, 3, 3, 3, 3]


MADE_OF_FLOATS: dict[str, Callable[..., Any]] = {
    "where": lambda x, s: torch.where(x > s, x, s),
    "full_like": lambda x, s: torch.full_like(x, s),
    "new_full": lambda x, s: x.new_full((x.shape[0], 2), s),
    "full": lambda x, s: torch.full((x.shape[0],), s) + torch.full((), s),
    "linspace": lambda x, s: torch.linspace(0.5, s, 5),
    "addmm": lambda x, s: torch.addmm(x, DATA[:8].t(), DATA[:8, :1].expand(-1, 8), alpha=s, beta=0.5),
    "leaky_relu": lambda x, s: F.leaky_relu(x - 4, s),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", MADE_OF_FLOATS)
def test_what_takes_any_float(name: str, backend: str) -> None:
    compiled = gramme.compile(MADE_OF_FLOATS[name], backend=backend)
    for s in (0.5, 1.5, -2.5, 2.0**20, 0.0, 1e-300, float("inf"), 1e300, float("nan")):
        expected, found = (outcome(f, (X, s)) for f in (MADE_OF_FLOATS[name], compiled))
        assert expected == found
    if backend == "eager":
        assert gramme.statistics(compiled).captures <= 6


def up_to(x):
    return torch.arange(0.0, x.max().item()).shape[0]


def test_a_float_just_computed_is_needed_in_two_captures_only() -> None:
    compiled = gramme.compile(up_to, backend="eager", recompile_limit=50)
    captures = []
    for n in (2.0, 9.0, 5.0, 11.0, 3.0, 9.0, 30.0, 2.0):
        assert compiled(T([n])) == up_to(T([n]))
        captures.append(gramme.statistics(compiled).captures)
    assert captures[3:] == [captures[3]] * 5


def test_at_the_recompile_limit_a_float_is_left_open() -> None:
    compiled = gramme.compile(lambda x, p: F.dropout(x * p, p, training=False) + 1, backend="eager", recompile_limit=4)
    for p in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7):
        assert torch.equal(compiled(X, p), X * p + 1)
    assert gramme.statistics(compiled).plain_runs == 0


ARITHMETIC: dict[str, Callable[[torch.Tensor, int], Any]] = {
    "a power": lambda x, n: x * (0.9**n),
    "roots and quotients": lambda x, n: x * math.sqrt(1 - 0.9**n) / (1 - 0.99**n),
    "of a size": lambda x, n: x * (0.9 ** x.shape[0]),
    "an inverse": lambda x, n: x / (1.5 - 0.5**n) + 1 / n,
    "powers of math": lambda x, n: x * math.pow(n, -0.5) + math.pow(0.5, n),
    "filled": lambda x, n: torch.full((3,), 0.9**n) + x[:3],
    "the larger one": lambda x, n: x * max(0.1, 1.0 / (n + 1)) * float(n),
    "compared": lambda x, n: x + 1 if 0.9**n > 0.5 else x - 1,
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_of_an_int_that_varies(name: str, backend: str) -> None:
    program = ARITHMETIC[name]
    compiled = gramme.compile(program, backend=backend)
    for n in (2, 3, 5, 7, 0, 1, -1, 9):
        found: list[Any] = []
        for call in (program, compiled):
            try:
                found.append(call(torch.arange(float(abs(n) + 4)), n))
            except Exception as error:
                found.append(f"{type(error).__name__}: {error}")
        got, want = found[1], found[0]
        same = torch.allclose(got, want, equal_nan=True) if isinstance(want, torch.Tensor) else got == want
        assert same, n
