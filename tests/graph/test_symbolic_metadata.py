"""Metadata of calls whose sizes vary: inferred once, right for all sizes that its guards allow.

Each call is inferred with symbols for some sizes. At other sizes the real call is made: where the guards hold, its
result has the sizes and strides that the expressions give; sizes of the call itself are always allowed.
"""

import itertools
import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from graph.binding import testing
from graph.test_op_db import calls as op_calls

SIZES = (1, 2, 3, 4, 5, 7, 8, 16, 35)
Make = Callable[..., tuple[Any, tuple[Any, ...]]]
CALLS: dict[str, Make] = {}
"""By name: a maker of a call from sizes; the first tensors' sizes say which they are."""


def call(make: Make) -> Make:
    CALLS[make.__name__] = make
    return make


class Number(int):
    """A size that the call gets as an int."""


# fmt: off
@call
def add(a, b): return torch.add, (torch.ones(a, b), torch.ones(a, b))
@call
def add_broadcast(a, b): return torch.add, (torch.ones(a, b), torch.ones(b))
@call
def add_transposed(a, b): return torch.add, (torch.ones(b, a).t(), torch.ones(a, b))
@call
def add_mixed(a, b): return torch.add, (torch.ones(a, b), torch.ones(b, a))
@call
def linear(a, b): return F.linear, (torch.ones(a, b, 8), torch.ones(16, 8))
@call
def matmul(a, b): return torch.matmul, (torch.ones(a, b), torch.ones(b, a))
@call
def bmm(a, b): return torch.bmm, (torch.ones(a, b, 3), torch.ones(a, 3, b))
@call
def view_inferred(a, b): return "view", (torch.ones(a, b, 8), -1, 4)
@call
def view_split(a, b): return "view", (torch.ones(a, b, 8), Number(a), Number(b), 2, 4)
@call
def view_merged(a, b): return "view", (torch.ones(a, b, 8), Number(a), -1)
@call
def reshape_of_transposed(a, b): return "reshape", (torch.ones(a, b, 4).transpose(0, 1), -1, 4)
@call
def flatten(a, b): return torch.flatten, (torch.ones(a, 3, b), 1)
@call
def transpose(a, b): return "transpose", (torch.ones(a, b, 2), 0, 1)
@call
def permute(a, b): return "permute", (torch.ones(a, b, 2), 2, 0, 1)
@call
def contiguous(a, b): return "contiguous", (torch.ones(a, b).t(),)
@call
def expand(a, b): return "expand", (torch.ones(a, 1), -1, Number(b))
@call
def unsqueeze(a, b): return "unsqueeze", (torch.ones(a, b), 1)
@call
def squeeze(a, b): return "squeeze", (torch.ones(a, 1, b),)
@call
def cat(a, b): return torch.cat, ([torch.ones(a, 2), torch.ones(b, 2)],)
@call
def stack(a, b): return torch.stack, ([torch.ones(a, b), torch.ones(a, b)], 1)
@call
def split(a, b): return torch.split, (torch.ones(a, b), 2)
@call
def chunk(a, b): return torch.chunk, (torch.ones(a, b), 2, 1)
@call
def unbind(a, b): return torch.unbind, (torch.ones(3, a, b),)
@call
def head(a, b): return operator.getitem, (torch.ones(a, b), slice(None, 3))
@call
def tail(a, b): return operator.getitem, (torch.ones(a, b), slice(-2, None))
@call
def until(a, b): return operator.getitem, (torch.ones(40, a), slice(None, Number(b)))
@call
def every_second(a, b): return operator.getitem, (torch.ones(a, b), (slice(None, None, 2), slice(1, None)))
@call
def last(a, b): return operator.getitem, (torch.ones(a, b), (slice(None), -1))
@call
def new_axis(a, b): return operator.getitem, (torch.ones(a, b), (None, slice(None), None))
@call
def by_mask_of_indices(a, b): return operator.getitem, (torch.ones(9, b), torch.zeros(a, dtype=torch.long))
@call
def total(a, b): return "sum", (torch.ones(a, b),)
@call
def mean(a, b): return "mean", (torch.ones(a, b), -1, True)
@call
def variance(a, b): return "var", (torch.ones(a, b), 0)
@call
def maximum(a, b): return torch.max, (torch.ones(a, b), 1)
@call
def softmax(a, b): return F.softmax, (torch.ones(a, b), -1)
@call
def layer_norm(a, b): return F.layer_norm, (torch.ones(a, b, 8), (8,))
@call
def embedding(a, b): return F.embedding, (torch.zeros(a, b, dtype=torch.long), torch.ones(10, 8))
@call
def conv(a, b): return F.conv2d, (torch.ones(2, 3, a, b), torch.ones(4, 3, 3, 3), None, 2, 1)
@call
def pool(a, b): return F.max_pool2d, (torch.ones(2, 3, a, b), 2)
@call
def interpolate(a, b): return F.interpolate, (torch.ones(1, 2, a, b), None, 2.0)
@call
def pad(a, b): return F.pad, (torch.ones(a, b), (1, 2))
@call
def attention(a, b): return F.scaled_dot_product_attention, (torch.ones(a, 2, b, 8),) * 3
@call
def zeros(a, b): return torch.zeros, (Number(a), Number(b))
@call
def arange(a, b): return torch.arange, (Number(a),)
@call
def triu(a, b): return torch.triu, (torch.ones(a, b), 1)
@call
def roll(a, b): return torch.roll, (torch.ones(a, b), 1, 0)
@call
def gather(a, b): return torch.gather, (torch.ones(a, 4), 1, torch.zeros(a, b, dtype=torch.long).clamp(max=3))
@call
def where(a, b): return torch.where, (torch.ones(a, b) > 0, torch.ones(b), torch.zeros(a, 1))
@call
def repeat(a, b): return "repeat", (torch.ones(a), Number(b), 2)
@call
def unfold(a, b): return "unfold", (torch.ones(a, b), 0, 2, 1)
@call
def in_place(a, b): return "mul_", (torch.ones(a, b), 2.0)
@call
def transposed_in_place(a, b): return "t_", (torch.ones(a, b),)
# fmt: on


def symbols_of(tensor: torch.Tensor, a: int, b: int) -> dict[int, int]:
    return {dim: 0 if size == a else 1 for dim, size in enumerate(tensor.shape) if size in (a, b)}


def symbolic(sizes: Any, value: Any, a: int, b: int, known: dict[int, Any]) -> Any:
    if isinstance(value, torch.Tensor):
        if id(value) not in known:
            known[id(value)] = sizes.tensor(value, symbols_of(value, a, b))
        return known[id(value)]
    if isinstance(value, Number):
        return sizes.number(int(value), 0 if value == a else 1)
    if isinstance(value, tuple | list):
        return type(value)(symbolic(sizes, item, a, b, known) for item in value)
    if isinstance(value, slice):
        return slice(*(symbolic(sizes, part, a, b, known) for part in (value.start, value.stop, value.step)))
    return value


def plain(value: Any) -> Any:
    if isinstance(value, Number):
        return int(value)
    if isinstance(value, tuple | list):
        return type(value)(map(plain, value))
    if isinstance(value, slice):
        return slice(plain(value.start), plain(value.stop), plain(value.step))
    return value


def infer(target: Any, args: Any, a: int, b: int) -> Any:
    sizes = testing.Sizes()
    sizes.number(a, 0), sizes.number(b, 1)  # the symbols, in this order
    return sizes.infer(target, *symbolic(sizes, args, a, b, {}))


def at(text: Any, now: dict[str, int]) -> Any:
    """The value of an expression's text, or the number that stands there."""
    return eval(text, {"math": math}, now) if isinstance(text, str) else text  # noqa: S307


def records(result: Any) -> Iterator[Any]:
    if result["kind"] == "tensor":
        yield result["record"]
    for item in result["items"]:
        yield from records(item)


def tensors(result: Any) -> Iterator[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        yield result
    elif isinstance(result, tuple | list):
        for item in result:
            yield from tensors(item)


def real(make: Make, a: int, b: int) -> Any:
    target, args = make(a, b)
    args = plain(args)
    return getattr(args[0], target)(*args[1:]) if isinstance(target, str) else target(*args)


def check(name: str, outcome: Any, a: int, b: int) -> bool:
    """Whether the guards hold; then the real call must do what was inferred."""
    now = {"s0": a, "s1": b}
    try:
        if not all(at(guard, now) for guard in outcome["guards"]):
            return False
    except ZeroDivisionError:
        return False
    where = f"{name} at {a}, {b}, inferred with guards {outcome['guards']}"
    try:
        results = list(tensors(real(CALLS[name], a, b)))
    except Exception:
        results = None
    assert outcome["error"] == (results is None), f"{where}: {outcome['message']}"
    if results is None:
        return True
    found = list(records(outcome["result"]))
    assert len(found) == len(results), where
    for record, tensor in zip(found, results, strict=True):
        assert tuple(at(size, now) for size in record["shape"]) == tuple(tensor.shape), where
        assert tuple(at(stride, now) for stride in record["stride"]) == tensor.stride(), where
        assert at(record["offset"], now) == tensor.storage_offset(), where
    return True


FEW = {"add_mixed": 0, "split": 8}
"""Calls that do something else at most other sizes: two columns each, so the number of pieces is known."""


@pytest.mark.parametrize("name", CALLS)
@torch.no_grad()
def test_right_at_all_sizes_allowed(name: str) -> None:
    for a, b in ((5, 7), (13, 11)):
        outcome = infer(*CALLS[name](a, b), a, b)
        assert check(name, outcome, a, b), f"the guards refuse the sizes they were found with: {outcome['guards']}"
        allowed = [check(name, outcome, *other) for other in itertools.product((*SIZES, a, a + 1), SIZES)]
        assert sum(allowed) >= FEW.get(name, 45), f"{name}: {outcome['guards']}"


def test_found_once_for_several_sizes() -> None:
    sizes = testing.Sizes()
    x = sizes.tensor(torch.ones(5, 7), {0: 0})
    before = testing.infer_statistics()
    sizes.infer(torch.sinh, x)
    other = testing.Sizes()
    other.infer(torch.sinh, other.tensor(torch.ones(9, 7), {0: 0}))
    after = testing.infer_statistics()
    assert (after[0] - before[0], after[1] - before[1]) == (1, 1)


def test_what_it_takes_for_granted_is_a_guard() -> None:
    sizes = testing.Sizes()
    outcome = sizes.infer(torch.cosh, sizes.tensor(torch.ones(5, 7), {0: 0}))
    allowed = [size for size in (0, 2, 9) if all(at(guard, {"s0": size}) for guard in outcome["guards"])]
    assert allowed == [2, 9]


def test_found_again_where_guards_do_not_hold() -> None:
    outcomes = []
    for length in (9, 2):
        sizes = testing.Sizes()
        rows = sizes.tensor(torch.ones(length, 7), {0: 0})
        outcomes.append(sizes.infer(operator.getitem, rows, slice(None, 3)))
    assert [outcome["result"]["record"]["shape"] for outcome in outcomes] == [(3, 7), ("s0", 7)]
    assert all(outcome["guards"] for outcome in outcomes)


def test_what_has_no_form() -> None:
    sizes = testing.Sizes()
    outcome = sizes.infer(torch.nonzero, sizes.tensor(torch.ones(5, 7), {0: 0}))
    assert outcome["error"]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore")
def test_op_db_at_its_sizes(soak: bool) -> None:
    """With each size above 1 of the first tensor a symbol, the guards hold and the answer is that for numbers."""
    pytest.importorskip("expecttest")
    from torch.testing._internal.common_methods_invocations import op_db

    found: dict[str, str] = {}
    compared = refused = 0
    for op in op_db[:: 1 if soak else 8]:
        for target, _, args, kwargs in op_calls(op, 2 if soak else 1):
            x = args[0]
            if not isinstance(x, torch.Tensor) or 0 in x.shape or not x.is_contiguous() or x.storage_offset():
                continue
            expected = testing.infer(target, *args, **kwargs)
            sizes = testing.Sizes()
            varying = [dim for dim, size in enumerate(x.shape) if size > 1]
            outcome = sizes.infer(
                target, sizes.tensor(x, {dim: k for k, dim in enumerate(varying)}), *args[1:], **kwargs
            )
            if outcome["error"] or expected["error"]:
                refused += 1
                continue
            compared += 1
            now = {f"s{k}": x.shape[dim] for k, dim in enumerate(varying)}
            if not all(at(guard, now) for guard in outcome["guards"]):
                found[op.name] = f"guards {outcome['guards']} at {now}"
            for wanted, record in zip(records(expected["result"]), records(outcome["result"]), strict=True):
                given = tuple(at(size, now) for size in record["shape"]), tuple(at(s, now) for s in record["stride"])
                if given != (wanted["shape"], wanted["stride"]):
                    found[op.name] = f"{given} for {wanted['shape']}, {wanted['stride']}"
    assert compared > (800 if soak else 60), (compared, refused)
    assert found == {}
