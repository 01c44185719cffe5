"""Rules for calls whose sizes vary, against fakes in a ShapeEnv and against the real calls at other sizes."""

import collections
import itertools
import operator
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from sampling import some

from graph.binding import testing
from graph.test_op_db import calls as op_calls
from graph.test_symbolic_metadata import CALLS, Number, at, records, tensors

SIZES = (1, 2, 3, 4, 5, 7, 8, 16, 35)
WITHOUT = {"add_mixed", "interpolate", "unfold", "transposed_in_place", "transposed"}
"""Calls that no rule answers."""


ones, ids = torch.ones, lambda *sizes: torch.zeros(*sizes, dtype=torch.long)
# fmt: off
MORE: dict[str, Callable[[int, int], tuple[Any, ...]]] = {
    "linear_bias": lambda a, b: (F.linear, ones(a, b, 8), ones(16, 8), ones(16)),
    "linear_of_transposed": lambda a, b: (F.linear, ones(b, a, 8).transpose(0, 1), ones(16, 8), ones(16)),
    "addmm": lambda a, b: (torch.addmm, ones(16), ones(a, b), ones(b, 16)),
    "baddbmm": lambda a, b: (torch.baddbmm, ones(a, 1, 3), ones(a, 2, b), ones(a, b, 3)),
    "matmul_batches": lambda a, b: (operator.matmul, ones(a, 2, b, 8), ones(2, 8, b)),
    "attention_inside": lambda a, b: (F.scaled_dot_product_attention, *(ones(a, b, 2, 8).transpose(1, 2),) * 3),
    "attention_sliced": lambda a, b: (F.scaled_dot_product_attention, *ones(a, b, 2, 24).transpose(1, 2).chunk(3, -1)),
    "attention_mask": lambda a, b: (F.scaled_dot_product_attention, *(ones(a, 2, b, 8),) * 3, ones(a, 1, b, b) > 0),
    "group_norm": lambda a, b: (F.group_norm, ones(a, 4, b), 2),
    "batch_norm": lambda a, b: (F.batch_norm, ones(a, 4, b), ones(4), ones(4), None, None, True),
    "rms_norm": lambda a, b: (F.rms_norm, ones(a, b, 8), (8,), ones(8)),
    "layer_norm_of_all": lambda a, b: (F.layer_norm, ones(3, b), (Number(b),), ones(b), ones(b)),
    "conv1d": lambda a, b: (torch.conv1d, ones(a, 4, b), ones(6, 2, 3), ones(6), 1, 1, 1, 2),
    "avg_pool": lambda a, b: (F.avg_pool2d, ones(2, 3, a, b), 3, 2, 1),
    "adaptive_pool": lambda a, b: (F.adaptive_avg_pool2d, ones(a, 3, b, 9), 1),
    "masked_fill": lambda a, b: ("masked_fill", ones(a, 1, b), ones(a, 4, 1) > 0, 2.0),
    "index_select": lambda a, b: (torch.index_select, ones(a, 9), 1, ids(b)),
    "cumsum": lambda a, b: ("cumsum", ones(a, b), -1),
    "tril": lambda a, b: (torch.tril, ones(a, b)),
    "clone_of_slice": lambda a, b: (torch.clone, ones(a, b, 9).transpose(0, 1)[..., :4]),
    "cast_of_permuted": lambda a, b: ("to", ones(a, 4, b).permute(2, 0, 1), torch.float64),
    "cast_to_same": lambda a, b: ("float", ones(a, 4, b).permute(2, 0, 1)),
    "dropout": lambda a, b: (F.dropout, ones(a, b).t(), 0.5, True),
    "no_dropout": lambda a, b: (F.dropout, ones(a, b), 0.5, False),
    "new_zeros": lambda a, b: ("new_zeros", ones(2), (Number(a), 1, Number(b))),
    "zeros_like": lambda a, b: (torch.zeros_like, ones(a, b).t()),
    "full": lambda a, b: (torch.full, (Number(a), Number(b)), 2.0),
    "arange_between": lambda a, b: (torch.arange, 1, Number(a), 2),
    "narrow": lambda a, b: ("narrow", ones(a, b), 0, 1, 3),
    "select": lambda a, b: ("select", ones(a, b), 0, -1),
    "unbind": lambda a, b: (torch.unbind, ones(a, 3, b), 1),
    "split_sizes": lambda a, b: (torch.split, ones(a, b, 9), [4, 5], -1),
    "chunk_of_known": lambda a, b: ("chunk", ones(a, b, 9), 2, -1),
    "unflatten": lambda a, b: ("unflatten", ones(a, b, 8), -1, (2, -1)),
    "view_as": lambda a, b: ("view_as", ones(a, b, 8), ones(a, b, 2, 4)),
    "expand_as": lambda a, b: ("expand_as", ones(a, 1, b), ones(a, 4, b)),
    "repeat_more": lambda a, b: ("repeat", ones(a, b), 2, 1, 3),
    "difference": lambda a, b: (torch.diff, ones(a, b)),
    "difference_after": lambda a, b: (torch.diff, ones(a, b), 1, -1, ones(a, 1)),
    "fill_part": lambda a, b: (operator.setitem, ones(a, b), (slice(None), slice(1, 3)), 2.0),
    "set_part": lambda a, b: (operator.setitem, ones(a, b), (Ellipsis, 0), ones(a)),
    "add_in_place": lambda a, b: (operator.iadd, ones(a, b), ones(b)),
    "copy_in_place": lambda a, b: ("copy_", ones(a, b).t(), ones(b, a)),
    "variance_of_all": lambda a, b: ("var", ones(a, b)),
    "argmax": lambda a, b: ("argmax", ones(a, b).t(), 1, True),
    "maximum_of_all": lambda a, b: (torch.max, ones(a, b)),
    "squeeze_all": lambda a, b: ("squeeze", ones(1, a, 1, b)),
    "stack_first": lambda a, b: (torch.stack, [ones(a, b), ones(a, b), ones(a, b)]),
    "of_permuted": lambda a, b: (torch.exp, ones(a, 4, b).permute(2, 0, 1)),
    "permuted_and_scalar": lambda a, b: (operator.mul, ones(a, 4, b).permute(2, 0, 1), 2.0),
    "permuted_and_row": lambda a, b: (operator.add, ones(a, 4, b).permute(2, 0, 1), ones(4)),
    "slices": lambda a, b: (operator.add, ones(a, b, 9)[..., :4], ones(a, b, 9)[..., 4:8]),
    "column_and_row": lambda a, b: (operator.mul, ones(a, 1), ones(1, b)),
    "channels_last": lambda a, b: (F.relu, ones(a, 3, b, 4).to(memory_format=torch.channels_last)),
    "joined_slices": lambda a, b: (torch.cat, [ones(a, 2, b, 8)[..., 4:], ones(a, 2, b, 8)[..., :4]], -1),
    "reshape_of_slice": lambda a, b: ("reshape", ones(a, b, 8)[..., :4], (-1, 4)),
    "reshape_of_permuted": lambda a, b: ("reshape", ones(a, b, 2, 4).transpose(1, 2), Number(a), 2, -1),
    "flatten_heads": lambda a, b: (torch.flatten, ones(a, b, 2, 4), -2),
    "steps": lambda a, b: (operator.getitem, ones(a, b), (slice(None, None, 2), slice(-3, None))),
    "contiguous_already": lambda a, b: ("contiguous", ones(a, b)),
    "detach": lambda a, b: ("detach", ones(a, b).t()),
    "attention_of_three": lambda a, b: (F.scaled_dot_product_attention, ones(2, a, 8), ones(2, b, 8), ones(2, b, 8)),
    "attention_of_two": lambda a, b: (F.scaled_dot_product_attention, ones(a, 8), ones(b, 8), ones(b, 6)),
    "causal_attention_of_three": lambda a, b: (F.scaled_dot_product_attention, *(ones(a, b, 8),) * 3, None, 0.0, True),
    "avg_pool_past_the_end": lambda a, b: (torch.avg_pool1d, ones(2, a, b), 3, 2, 1, True),
    "max_pool_of_rows": lambda a, b: (F.max_pool1d, ones(a, b), 2, 1, 1),
    "max_pool_past_the_end": lambda a, b: (F.max_pool2d, ones(2, 3, a, b), 2, 2, 0, 1, True),
    "max_pool_of_volumes": lambda a, b: (F.max_pool3d, ones(2, 3, a, b, 5), 2, 2),
    "avg_pool_of_volumes": lambda a, b: (F.avg_pool3d, ones(3, a, b, 5), 2, 3, 1, True),
    "adaptive_pool_of_rows": lambda a, b: (torch.adaptive_avg_pool1d, ones(2, a, b), 3),
    "adaptive_pool_to_sizes": lambda a, b: (F.adaptive_avg_pool2d, ones(2, 3, 9, 6), (Number(a), Number(b))),
    "linspace": lambda a, b: (torch.linspace, 0, 1, Number(a)),
    "linspace_to_a_size": lambda a, b: (torch.linspace, 0, Number(b), Number(a)),
    "logspace": lambda a, b: (torch.logspace, 0, 1, Number(a)),
    "of_numbers": lambda a, b: (torch.tensor, [Number(a), Number(b), 2]),
    "of_pairs": lambda a, b: (torch.as_tensor, [(Number(a), 1), (Number(b), 2)]),
    "of_a_number": lambda a, b: ("new_tensor", ones(2), Number(a)),
    "one_hot": lambda a, b: (F.one_hot, ids(a), Number(b)),
    "fill_diagonal": lambda a, b: ("fill_diagonal_", ones(a, b), 2.0),
    "fill_diagonal_of_cubes": lambda a, b: ("fill_diagonal_", ones(a, a, a), 2.0),
    "arange_down": lambda a, b: (torch.arange, Number(a), -1, -2),
    "arange_of_floats": lambda a, b: (torch.arange, 0.0, Number(a), 0.3),
    "arange_of_floats_down": lambda a, b: (torch.arange, Number(a), -0.5, -0.7),
    "tile_less": lambda a, b: (torch.tile, ones(a, 2, b), (3, 1)),
    "tile_more": lambda a, b: ("tile", ones(a, b), (Number(b), 1, 2)),
    "repeat_interleave": lambda a, b: (torch.repeat_interleave, ones(a, 3), Number(b), 0),
    "repeat_interleave_flat": lambda a, b: ("repeat_interleave", ones(a, b).t(), 2),
    "rows_and_axis": lambda a, b: (operator.getitem, ones(a), (ids(b), None)),
    "rows_of_indices": lambda a, b: (operator.getitem, ones(3, a, 4), (slice(None), ids(b, 2))),
    "rows_of_few": lambda a, b: (operator.getitem, ones(a, 1, 3), (ids(b).int(), Ellipsis)),
    "roll_by_a_size": lambda a, b: ("roll", ones(a, b), (Number(b), 1), (0, 1)),
    "contiguous_part": lambda a, b: ("contiguous", ones(a, b, 4)[:, :, :3]),
    "contiguous_rows": lambda a, b: ("contiguous", ones(a, 1, b)[:, :, 1:]),
}
# fmt: on


class Varied:
    """A call some of whose sizes are symbols: those that have one of these values, wherever they stand."""

    def __init__(self, target: Any, args: Any, kwargs: Any, values: tuple[int, ...]) -> None:
        self.target, self.args, self.kwargs, self.values = target, args, kwargs, values
        self.inputs: dict[int, Any] = {}
        self.sizes = testing.Sizes()
        for k, value in enumerate(values):
            self.sizes.number(value, k)
        self.symbolic = self.replaced(args, self.input), self.replaced(kwargs, self.input)

    def input(self, tensor: Any) -> Any:
        if isinstance(tensor, Number):
            return self.sizes.number(int(tensor), self.values.index(tensor)) if tensor in self.values else int(tensor)
        if id(tensor) not in self.inputs:
            symbols = {d: self.values.index(size) for d, size in enumerate(tensor.shape) if size in self.values}
            self.inputs[id(tensor)] = self.sizes.tensor(tensor, symbols)
        return self.inputs[id(tensor)]

    def replaced(self, value: Any, replace: Any) -> Any:
        if isinstance(value, torch.Tensor | Number):
            return replace(value)
        if isinstance(value, dict):
            return {name: self.replaced(item, replace) for name, item in value.items()}
        if isinstance(value, slice):
            return slice(*(self.replaced(part, replace) for part in (value.start, value.stop, value.step)))
        if type(value) in (list, tuple):
            return type(value)(self.replaced(item, replace) for item in value)
        return value

    def rule(self) -> Any:
        args, kwargs = self.symbolic
        return self.sizes.rule(self.target, *args, **kwargs)

    def fill(self) -> Any:
        args, kwargs = self.symbolic
        return self.sizes.fill(self.target, *args, **kwargs)

    def now(self, sizes: tuple[int, ...]) -> dict[str, int]:
        """Strides that are symbols of their own are large where sizes are others than they were."""
        hints = self.sizes.hints()
        far = 1 if sizes == self.values else 10_000
        return {f"s{k}": sizes[k] if k < len(sizes) else far * hint for k, hint in enumerate(hints)}

    def real(self, now: dict[str, int], made: dict[int, torch.Tensor]) -> Any:
        def make(value: Any) -> Any:
            if isinstance(value, Number):
                return now[f"s{self.values.index(value)}"] if value in self.values else int(value)
            if id(value) not in made:
                record = self.inputs[id(value)].record
                shape, stride = (tuple(at(size, now) for size in record[key]) for key in ("shape", "stride"))
                tensor = torch.empty_strided(shape, stride, dtype=value.dtype)
                for size, step in zip(shape, stride, strict=True):
                    if step > 1000 * size:
                        break
                else:
                    tensor.zero_()
                made[id(value)] = tensor.requires_grad_() if value.requires_grad else tensor
            return made[id(value)]

        args, kwargs = self.replaced(self.args, make), self.replaced(self.kwargs, make)
        if isinstance(self.target, str):
            return getattr(args[0], self.target)(*args[1:], **kwargs)
        return self.target(*args, **kwargs)


def described(outcome: Any, now: dict[str, int]) -> list[Any]:
    return [
        (
            tuple(at(size, now) for size in record["shape"]),
            tuple(at(stride, now) for stride in record["stride"]),
            at(record["offset"], now),
            record["dtype"],
        )
        for record in records(outcome["result"])
    ]


def holds(outcome: Any, now: dict[str, int]) -> bool:
    return all(at(guard, now) for guard in outcome["guards"])


COPIED_BY_FAKES = {"dropout"}
"""What Python's decompositions copy and operators do not."""


def name_of(target: Any) -> str:
    return target if isinstance(target, str) else getattr(target, "__name__", "")


def aliases(result: Any) -> list[Any]:
    return [result["same_as"], result["view_of"], *map(aliases, result["items"])]


def difference(call: Varied, points: list[tuple[int, ...]], in_place: bool = False) -> str | None:
    """None if there is no rule."""
    ruled = call.rule()
    if ruled is None:
        return None
    if not holds(ruled, call.now(call.values)):
        return f"refuses the sizes it was found with: {ruled['guards']}"
    filled = call.fill()
    compared = not filled["error"]
    if (
        compared
        and name_of(call.target) not in COPIED_BY_FAKES
        and aliases(ruled["result"]) != aliases(filled["result"])
    ):
        return f"other aliases than {aliases(filled['result'])}"
    if compared and not set(ruled["mutations"]) <= set(filled["mutations"]):
        return f"writes {list(ruled['mutations'])}, not {list(filled['mutations'])}"
    for point in points:
        now = call.now(point)
        try:
            allowed = compared and holds(filled, now)
        except ZeroDivisionError:
            continue
        if not holds(ruled, now):
            if allowed and all(size > 1 for size in point):
                return f"{ruled['guards']} refuse {now}, {filled['guards']} do not"
            continue
        if allowed and described(ruled, now) != described(filled, now):
            return f"{described(ruled, now)} for {described(filled, now)} of fakes at {now}"
        made: dict[int, torch.Tensor] = {}
        try:
            results = list(tensors(call.real(now, made)))
        except Exception as error:
            if "ZeroDivisionError" in str(error):
                continue  # by what it holds
            return f"{error!r} at {now} under {ruled['guards']}"
        real = [(tuple(t.shape), t.stride(), t.storage_offset(), t.dtype) for t in results]
        if real != described(ruled, now):
            return f"{described(ruled, now)} for {real} at {now} under {ruled['guards']}"
    return ""


def subsets(values: list[int], most: int) -> Iterator[tuple[int, ...]]:
    for count in range(1, most + 1):
        yield from itertools.combinations(values, count)


def points(values: tuple[int, ...], most: int) -> list[tuple[int, ...]]:
    """Some sizes for each, small and large, and all of them one."""
    choice = random.Random(0)
    every = list(itertools.product((*SIZES, values[0] + 1), repeat=len(values)))
    return [(1,) * len(values), *choice.sample(every, min(most, len(every)))]


def made(name: str, a: int, b: int) -> tuple[Any, Any]:
    if name in CALLS:
        return CALLS[name](a, b)
    target, *args = MORE[name](a, b)
    return target, tuple(args)


@pytest.mark.parametrize("name", [*CALLS, *MORE])
@torch.no_grad()
@pytest.mark.filterwarnings("ignore")
def test_as_fakes_and_as_real_calls(name: str, soak: bool) -> None:
    found = {}
    for values in ((5, 7), (13, 11), (5,), (7,)) if soak else ((5, 7), (7,)):
        target, args = made(name, *(values if len(values) == 2 else (5, 7)))
        found[values] = difference(Varied(target, args, {}, values), points(values, 100 if soak else 12))
    assert not any(found.values()), found
    assert (found[5, 7] is None) == (name in WITHOUT), "has a rule or not"


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.filterwarnings("ignore")
def test_op_db(soak: bool) -> None:
    """With each subset of up to three of the sizes that occur in a sample."""
    pytest.importorskip("expecttest")
    from torch.testing._internal.common_methods_invocations import op_db

    wrong: dict[str, str] = {}
    answered = collections.Counter[str]()
    for op in some(op_db, 200, "symbolic rules"):
        for target, in_place, args, kwargs in op_calls(op, 12 if soak else 2):
            leaves = list(tensors([args, list(kwargs.values())]))
            if any(0 in leaf.shape for leaf in leaves):
                continue
            values = sorted({size for leaf in leaves for size in leaf.shape if size > 1})
            for subset in subsets(values, 3 if soak else 1):
                if in_place and any(leaf.requires_grad for leaf in leaves):
                    continue
                found = difference(Varied(target, args, kwargs, subset), points(subset, 30 if soak else 4))
                if found is None:
                    break
                answered[op.name] += 1
                if found:
                    wrong[f"{op.name} {subset} {[tuple(leaf.shape) for leaf in leaves]}"] = found
    assert not wrong, "\n".join(f"{where}: {what}" for where, what in wrong.items())
    assert len(answered) > (90 if soak else 20), answered
