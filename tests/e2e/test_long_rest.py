"""A long *args tuple is used again from call to call, and holds only the items that segments look at."""

import gc
import sys
from typing import Any

import gramme
import torch


def looks_into_rest(*rest: Any) -> Any:
    if rest[3] == "all":
        return [item for item in rest if isinstance(item, int)]
    if rest[3] == "slice":
        return rest[5:8] + rest[-1:]
    if rest[3] == "keep":
        return rest
    if rest[3] == "swapped":
        rest = rest[::-1]
    return rest[0] * 2, len(rest), rest[-2]


def test_items_looked_at() -> None:
    compiled = gramme.compile(looks_into_rest, backend="eager")
    counted = object()
    references = sys.getrefcount(counted)
    kept = []
    for call in range(12):
        for mode in ("", "slice", "", "swapped", "all", "keep", "slice", ""):
            rest = [torch.full((2,), float(call)), call, 2.5, mode, *range(call, call + 16), counted, torch.ones(2)]
            found, expected = compiled(*rest), looks_into_rest(*rest)
            assert repr(found) == repr(expected)
            kept.append(found if mode == "keep" else None)
    assert [repr(k[1]) for k in kept if k] == [repr(call) for call in range(12)]
    del kept, rest, found, expected
    gc.collect()
    assert sys.getrefcount(counted) == references


def test_call_inside_a_call() -> None:
    """The inner call finds the tuple lent."""

    def total(again: Any, *rest: Any) -> Any:
        inner = again(total_compiled, *rest) if again else 0
        return rest[0] + rest[9] + inner

    total_compiled = gramme.compile(total, backend="eager")

    @gramme.disable
    def again(function: Any, *rest: Any) -> Any:
        return function(None, *(item + 1 for item in rest))

    for start in range(4):
        rest = [torch.tensor(float(i + start)) for i in range(12)]
        assert total_compiled(again, *rest) == total(again, *rest) == (rest[0] + rest[9]) * 2 + 2
