"""What explain advises, done: the break is gone, the result is the same."""

import copy
import decimal
import math
import os
import re
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import gramme
import numpy as np
import pytest
import torch
from torch.utils.checkpoint import checkpoint

X = torch.linspace(-1, 1, 6)
LOCK = threading.Lock()
BASE = Path(__file__).parents[2] / "src" / "base"


class Case(NamedTuple):
    """A program that breaks, words of the hint, and the program as the hint says."""

    broken: Callable[..., Any]
    hint: str
    mended: Callable[..., Any]


def item(x: torch.Tensor) -> torch.Tensor:
    return x * x.sum().item()


def item_kept(x: torch.Tensor) -> torch.Tensor:
    return x * x.sum()


def branch(x: torch.Tensor) -> torch.Tensor:
    return x.sin() if x.sum() > 0 else x.cos()


def branch_where(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x.sum() > 0, x.sin(), x.cos())


def branch_cond(x: torch.Tensor) -> torch.Tensor:
    return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))


def clock(x: torch.Tensor) -> torch.Tensor:
    began = time.perf_counter()
    y = x.sin() + 1
    return y * (time.perf_counter() >= began)


def clock_outside(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + 1


def array(x: torch.Tensor) -> torch.Tensor:
    return x + torch.from_numpy(np.unique(x.numpy()))[0]


def array_of_torch(x: torch.Tensor) -> torch.Tensor:
    return x + x.sort().values[0]


def called(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    gramme.graph_break()
    return y + 1


def not_called(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + 1


@gramme.disable
def disabled_half(x: torch.Tensor) -> torch.Tensor:
    return x / 2


def half(x: torch.Tensor) -> torch.Tensor:
    return x / 2


def disabled(x: torch.Tensor) -> torch.Tensor:
    return disabled_half(x.sin()) + 1


def not_disabled(x: torch.Tensor) -> torch.Tensor:
    return half(x.sin()) + 1


def as_list(x: torch.Tensor) -> torch.Tensor:
    return x * len(x.tolist())


def as_length(x: torch.Tensor) -> torch.Tensor:
    return x * len(x)


def locked(x: torch.Tensor) -> torch.Tensor:
    with LOCK:
        return x.sin() + 1


def unlocked(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + 1


def nonzero(x: torch.Tensor) -> torch.Tensor:
    return x.sin()[(x > 0).nonzero().squeeze(-1)].sum()


def masked(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x > 0, x.sin(), 0).sum()


def truncated(x: torch.Tensor) -> torch.Tensor:
    return x * int(x.abs().max() + 2)


def truncated_tensor(x: torch.Tensor) -> torch.Tensor:
    return x * (x.abs().max() + 2).trunc()


def prints(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    print(end="")
    return y + 1


def deprecated(x: torch.Tensor) -> torch.Tensor:
    return torch.range(0, 5) + x


def not_deprecated(x: torch.Tensor) -> torch.Tensor:
    return torch.arange(0, 6.0) + x


def copied(x: torch.Tensor) -> torch.Tensor:
    return copy.deepcopy(x) + 1


def cloned(x: torch.Tensor) -> torch.Tensor:
    return x.clone() + 1


def storage(x: torch.Tensor) -> torch.Tensor:
    return x * len(x.untyped_storage())


def bytes_of_all(x: torch.Tensor) -> torch.Tensor:
    return x * (x.numel() * x.element_size())


def of_math(x: torch.Tensor) -> torch.Tensor:
    return x * math.sqrt(float(x.abs().sum()))


def of_torch(x: torch.Tensor) -> torch.Tensor:
    return x * x.abs().sum().sqrt()


def largest(x: torch.Tensor) -> torch.Tensor:
    return x * max(x.sum(), x.mean())


def largest_by_torch(x: torch.Tensor) -> torch.Tensor:
    return x * torch.maximum(x.sum(), x.mean())


def opened(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    open(os.devnull).close()
    return y + 1


def texted(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    return y + (len(f"{y.mean():.2f}") > 0)


def seeded(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    return x + torch.rand(6)


def seeded_before(x: torch.Tensor) -> torch.Tensor:
    return x + torch.rand(6)


def substituted(x: torch.Tensor) -> torch.Tensor:
    return x * len(re.sub("a", lambda found: "bb", "aa"))


FACTOR = len("bbbb")


def substituted_before(x: torch.Tensor) -> torch.Tensor:
    return x * FACTOR


def decimal_factor(x: torch.Tensor) -> torch.Tensor:
    return x * float(decimal.Decimal("1.5"))


def python_factor(x: torch.Tensor) -> torch.Tensor:
    return x * 1.5


def cast_by_class(x: torch.Tensor) -> torch.Tensor:
    return torch.ones(6, dtype=torch.float64).type(type(x)) * x.sum()


def cast_by_dtype(x: torch.Tensor) -> torch.Tensor:
    return torch.ones(6, dtype=torch.float64).to(x.dtype) * x.sum()


def namespace_of_class(x: torch.Tensor) -> torch.Tensor:
    class Scales:
        low = 0.5

    return x * Scales.__dict__["low"]


def attribute_of_class(x: torch.Tensor) -> torch.Tensor:
    class Scales:
        low = 0.5

    return x * Scales.low


def except_star(x: torch.Tensor) -> torch.Tensor:
    try:
        y = x.sin()
        raise ValueError
    except* ValueError:
        y = x.cos()
    return y


def except_plain(x: torch.Tensor) -> torch.Tensor:
    try:
        y = x.sin()
        raise ValueError
    except ValueError:
        y = x.cos()
    return y


def into_empty(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty(0)
    torch.add(x, 1, out=y)
    return y


def new_value(x: torch.Tensor) -> torch.Tensor:
    return torch.add(x, 1)


def resized(x: torch.Tensor) -> torch.Tensor:
    return x.clone().resize_(3)


def sliced(x: torch.Tensor) -> torch.Tensor:
    return x[:3].clone()


def gradient_first(x: torch.Tensor) -> torch.Tensor:
    y = x.detach().clone()
    y.requires_grad_()
    z = y.view(2, 3).sum()
    return z.detach()


def operation_first(x: torch.Tensor) -> torch.Tensor:
    y = x.detach().clone()
    z = y.sum()
    y.requires_grad_()
    return z


class Key:
    def __init__(self, name: str) -> None:
        self.name = name

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and other.name == self.name


KEYS, IS_KNOWN = {Key("a"), Key("b")}, True


def found_in_set(x: torch.Tensor) -> torch.Tensor:
    return x * (Key("a") in KEYS)


def found_before(x: torch.Tensor) -> torch.Tensor:
    return x * IS_KNOWN


def large_constant(x: torch.Tensor) -> torch.Tensor:
    return x * ((1 << 10_000_000) > 0)


def flag_before(x: torch.Tensor) -> torch.Tensor:
    return x * IS_KNOWN


SEEN: list[int] = []


def notes(x: torch.Tensor) -> torch.Tensor:
    SEEN.append(1)
    return x.sin()


def noted_inside(x: torch.Tensor) -> torch.Tensor:
    return checkpoint(notes, x, use_reentrant=False)


def noted_behind(x: torch.Tensor) -> torch.Tensor:
    y = checkpoint(torch.sin, x, use_reentrant=False)
    SEEN.append(1)
    return y


def negative(x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] > 5:
        raise ValueError("too many")
    return x.sin()


def raised_inside(x: torch.Tensor) -> torch.Tensor:
    try:
        return checkpoint(negative, x, use_reentrant=False)
    except ValueError:
        return x + 1


def asked_before(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if x.shape[0] > 5 else checkpoint(negative, x, use_reentrant=False)


def powers_by_recursion(x: torch.Tensor, left: int = 700) -> torch.Tensor:
    return powers_by_recursion(x, left - 1) + 1 if left else x


def powers_in_a_loop(x: torch.Tensor) -> torch.Tensor:
    for _ in range(700):
        x = x + 1
    return x


class Bare(torch.Tensor):
    """A wrapper that does not say what it wraps."""

    plain: torch.Tensor

    @staticmethod
    def __new__(cls, plain: torch.Tensor) -> Any:
        made = torch.Tensor._make_wrapper_subclass(cls, plain.shape, dtype=plain.dtype)
        made.plain = plain
        return made

    @classmethod
    def __torch_dispatch__(cls, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return operator(*[a.plain if isinstance(a, Bare) else a for a in args], **(kwargs or {}))


WRAPPED = Bare(X)


def with_wrapper(x: torch.Tensor) -> torch.Tensor:
    return x + (WRAPPED + 1)


def with_plain(x: torch.Tensor) -> torch.Tensor:
    return x + (WRAPPED.plain + 1)


def keyed_by_objects(x: torch.Tensor) -> torch.Tensor:
    return x * {(Key("a"), 1): 2.0}[Key("a"), 1]


def keyed_by_names(x: torch.Tensor) -> torch.Tensor:
    return x * {("a", 1): 2.0}["a", 1]


CASES = [
    Case(keyed_by_objects, "use builtin keys", keyed_by_names),
    Case(large_constant, "Compute what needs no tensors before", flag_before),
    Case(noted_inside, "make the change after the call", noted_behind),
    Case(raised_inside, "Check what it raises for before", asked_before),
    Case(powers_by_recursion, "by a loop", powers_in_a_loop),
    Case(with_wrapper, "Convert it to a plain tensor", with_plain),
    Case(cast_by_class, "Pass plain numbers", cast_by_dtype),
    Case(namespace_of_class, "Read it before", attribute_of_class),
    Case(except_star, "Move the statement out", except_plain),
    Case(into_empty, "Return the new value", new_value),
    Case(resized, "Return the new value", sliced),
    Case(gradient_first, "Do this operation first", operation_first),
    Case(found_in_set, "Pass it as an argument", found_before),
    Case(of_math, "Keep the value in a tensor", of_torch),
    Case(largest, "torch.maximum", largest_by_torch),
    Case(opened, "Read and write files outside", not_called),
    Case(texted, "text outside of the compiled function", not_called),
    Case(seeded, "Set the seed before", seeded_before),
    Case(substituted, "move the call out", substituted_before),
    Case(decimal_factor, "Use Python code or PyTorch operations", python_factor),
    Case(item, "Keep the value in a tensor", item_kept),
    Case(branch, "torch.where", branch_where),
    Case(branch, "torch.cond", branch_cond),
    Case(clock, "Measure time around the call", clock_outside),
    Case(array, "Use the function of torch", array_of_torch),
    Case(called, "Remove the call", not_called),
    Case(disabled, "Remove the mark", not_disabled),
    Case(as_list, "Keep the values in a tensor", as_length),
    Case(locked, "Take the lock around the call", unlocked),
    Case(nonzero, "mask by torch.where", masked),
    Case(truncated, "Keep the value in a tensor", truncated_tensor),
    Case(prints, "Remove it", unlocked),
    Case(deprecated, "Follow the warning", not_deprecated),
    Case(copied, "move the call out", cloned),
    Case(storage, "PyTorch operations", bytes_of_all),
]


@pytest.mark.filterwarnings("ignore:torch.range is deprecated", "ignore:TypedStorage")
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.broken.__name__}-{case.mended.__name__}")
def test_a_hint_that_is_followed_takes_the_break_away(case: Case) -> None:
    told = gramme.explain(case.broken)(X)
    assert any(case.hint in each.hint for each in told.segments), [each.hint for each in told.segments]
    assert gramme.explain(case.mended)(X).graph_break_count == 0
    torch.manual_seed(0)
    expected = case.mended(X)
    torch.testing.assert_close(expected, case.broken(X))
    torch.manual_seed(0)
    torch.testing.assert_close(gramme.compile(case.mended, backend="native")(X), expected)


def stepped(f: Any, calls: list[tuple[Any, ...]]) -> int:
    for args in calls:
        f(*args)
    return gramme.statistics(f).captures


def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
    return x * by if by != 1 else x


def scaled_by_tensor(x: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
    return x * by


def test_a_recompile_whose_hint_is_followed_is_gone() -> None:
    sizes = [(torch.ones(n),) for n in (3, 4, 5)]
    fixed = gramme.compile(not_called, backend="native", dynamic=False)
    assert stepped(fixed, sizes) == 3
    assert stepped(gramme.compile(not_called, backend="native", dynamic=True), sizes) == 1
    numbers = [(X, 0.5), (X, 0.25), (X, 0.125)]
    assert stepped(gramme.compile(scaled, backend="native", dynamic=False), numbers) == 2
    tensors = [(x, torch.tensor(by)) for x, by in numbers]
    assert stepped(gramme.compile(scaled_by_tensor, backend="native", dynamic=False), tensors) == 1


def test_the_words_of_a_recompile_name_what_to_do(tmp_path: Any) -> None:
    f = gramme.compile(not_called, backend="native", dynamic=False, recompile_limit=1)
    f(X)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        f(torch.ones(3))
    assert "dynamic=True" in str(said[0].message)


def test_reasons_that_a_setting_takes_away() -> None:
    with torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        for broken in (item, truncated, nonzero):
            assert gramme.explain(broken)(X).graph_break_count == 0


def by_count(x: torch.Tensor) -> torch.Tensor:
    n = x.nonzero().shape[0]
    return x + 1 if n > 3 else x - 1


def by_stated_count(x: torch.Tensor) -> torch.Tensor:
    n = x.nonzero().shape[0]
    torch._check(n > 3)
    return x + 1 if n > 3 else x - 1


def counted(x: torch.Tensor) -> torch.Tensor:
    return x + sum(range((x > 0).nonzero().shape[0]))


def stated(x: torch.Tensor) -> torch.Tensor:
    n = (x > 0).nonzero().shape[0]
    torch._check(n == 3)
    return x + sum(range(n))


@pytest.mark.parametrize(("broken", "mended"), [(by_count, by_stated_count), (counted, stated)])
def test_numbers_of_data_that_are_stated(broken: Callable[..., Any], mended: Callable[..., Any]) -> None:
    with torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        (found,) = gramme.explain(broken)(X).break_reasons
        assert "torch._check" in found.hint
        assert gramme.explain(mended)(X).graph_break_count == 0
    torch.testing.assert_close(gramme.compile(mended, backend="native")(X), broken(X))


def test_lazy_modules_are_captured_from_the_second_call_on() -> None:
    lazy = torch.nn.LazyLinear(2)
    (found,) = gramme.explain(lambda x: lazy(x))(X).break_reasons
    assert "from the second call on" in found.hint
    assert gramme.explain(lambda x: lazy(x))(X).graph_break_count == 0


def test_printing_after_the_graph(capsys: pytest.CaptureFixture[str]) -> None:
    def prints_sum(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        print("sum", y.sum() * 0)
        return y + 1

    with torch._dynamo.config.patch(reorderable_logging_functions={print}):
        assert gramme.explain(prints_sum)(X).graph_break_count == 0
    assert capsys.readouterr().out.startswith("sum tensor(")


def test_an_iterator_from_outside_is_a_list() -> None:
    def total(tensors: Any) -> Any:
        y = torch.zeros(6)
        for x in tensors:
            y = y + x.sin()
        return y

    (found,) = gramme.explain(total)(iter([X, X])).break_reasons
    assert "pass a list" in found.hint
    assert gramme.explain(total)([X, X]).graph_break_count == 0


def test_each_reason_says_what_to_do() -> None:
    rows = re.findall(r'^REASON\((\w+), "(.+)", "(.*)"\)$', (BASE / "reasons.def").read_text(), re.MULTILINE)
    assert len(rows) > 25
    for name, text, hint in rows:
        assert hint.endswith("."), name
        assert text[0].islower() or text.startswith("C "), name
        assert not text.endswith("."), name


# No program, or none whose break is gone when the hint is followed.
WITHOUT_PROGRAM = {
    "OperatorFailed": "the program's own error: what is correct does not raise",
    "OperatorMayRaise": "writes to inputs are put back where nobody else can see them",
    "StateChanged": "another thread changes what is captured",
    "BodyUnsupported": "forms of operators that raise torch's own error under every front end",
    "ReplayUnsupported": "values that segments cannot make again: only together with another break",
    "GeneratorRoot": "coroutines that are driven by hand",
    "UnbackedCondition": "test_numbers_of_data_that_are_stated",
    "UnbackedNumber": "test_numbers_of_data_that_are_stated",
    "Uninitialized": "test_lazy_modules_are_captured_from_the_second_call_on",
    "IteratorLive": "test_an_iterator_from_outside_is_a_list",
}


def test_each_reason_has_a_program() -> None:
    names = set(re.findall(r"^REASON\((\w+)", (BASE / "reasons.def").read_text(), re.MULTILINE))
    told = {segment.kind for case in CASES for segment in gramme.explain(case.broken)(X).segments} - {""}
    assert names - told <= WITHOUT_PROGRAM.keys(), names - told
