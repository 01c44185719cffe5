"""Operators of PyTorch's own table, one of their Python numbers changing from call to call: inductor against eager.

Where torch.compile(backend="inductor") differs from eager too, it is inductor that differs.
"""

import os
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import gramme
import pytest
import torch
import torch.utils._pytree as pytree
from native.test_op_db import EXCEPTIONS, name_of

from e2e.test_op_db_numbers import SOAK, UNDEFINED, Place, places_of, values_of

SEED = int(os.environ.get("GRAMME_SEED", "14"))
SHARE = 40  # entries looked at
# How inductor differs from eager under torch.compile, too.
INDUCTORS = {
    "as_strided_scatter": "an offset out of bounds is another exception",
    "logspace": "a negative base is refused",
    **dict.fromkeys((f"mvlgamma.mvlgamma_p_{p}" for p in (1, 3, 5)), "p < 1 is not refused"),
    "nn.functional.unfold": "a negative padding is not refused",
    "select_scatter": "an index out of range is another exception",
}


def results(call: Callable[..., Any], tensors: list[torch.Tensor], n: Any) -> Any:
    """What a call gives and what it leaves in its arguments, or what it raises: compilers add lines to the text."""
    torch.manual_seed(0)
    made = [t.detach().clone(memory_format=torch.preserve_format) if t.layout == torch.strided else t for t in tensors]
    try:
        given = call(*made, n)
    except Exception as error:
        return "raised", type(error).__name__, str(error).partition("\n")[0]
    return "returned", given, made


def difference(expected: Any, actual: Any) -> str | None:
    left, shape = pytree.tree_flatten(expected)
    right, other = pytree.tree_flatten(actual)
    if shape != other or left[0] != right[0]:
        return f"{expected} expected, {actual} found"
    for one, two in zip(left, right, strict=True):
        if isinstance(one, torch.Tensor) and isinstance(two, torch.Tensor):
            try:
                torch.testing.assert_close(two, one, equal_nan=True)
            except AssertionError as error:
                return str(error).replace("\n", " ")
        elif type(one) is not type(two) or repr(one) != repr(two):
            return f"{one!r} expected, {two!r} found"
    return None


def differences_at(found: Place, compiled: Callable[..., Any]) -> dict[Any, str]:
    """By the number with which the call differs from eager's."""
    differences: dict[Any, str] = {}
    for n in (*values_of(found.number), found.number):
        expected = results(found.call, found.tensors, n)
        what = difference(expected, results(compiled, found.tensors, n))
        if what and not difference(expected, results(found.call, found.tensors, n)):
            differences[n] = what
    return differences


class Differences(NamedTuple):
    ours: list[str]
    inductors: list[str]


def differences_of(found: Place) -> Differences:
    ours = differences_at(found, gramme.compile(found.call, backend="inductor"))
    gramme.reset()
    theirs = {}
    if ours:
        torch._dynamo.reset()
        theirs = differences_at(found, torch.compile(found.call, backend="inductor", dynamic=False))
    sorted_by: tuple[list[str], list[str]] = [], []
    for n, what in ours.items():
        sorted_by[n in theirs].append(f"{found.name} = {n!r}: {what}")
    return Differences(*sorted_by)


def one_of_each(entry: Any) -> list[Place]:
    """Of the places that differ only in the sample, the first."""
    found: dict[str, Place] = {}
    for place in places_of(entry):
        found.setdefault(place.name.partition("(")[2], place)
    return list(found.values())


def chosen_entries(seed: int) -> Iterator[tuple[str, list[Place]]]:
    from torch.testing._internal.common_methods_invocations import op_db

    left_out = {*EXCEPTIONS, *UNDEFINED}
    entries = [entry for entry in op_db if name_of(entry) not in left_out]
    random.Random(seed).shuffle(entries)
    count = 0
    for entry in entries:
        places = one_of_each(entry)
        if places and count < SHARE:
            count += 1
            yield name_of(entry), places


@pytest.mark.slow
@pytest.mark.skipif(not SOAK, reason="each compilation takes seconds")
@pytest.mark.timeout(7200)
def test_changing_numbers_under_inductor() -> None:
    print(f"GRAMME_SEED={SEED}")
    options = {"fallback_random": True, "compile_threads": 1}
    ours, inductors, count = [], [], 0
    with warnings.catch_warnings(), torch._inductor.config.patch(options):
        warnings.simplefilter("ignore")
        for name, places in chosen_entries(SEED):
            for found in places:
                count += 1
                differences = differences_of(found)
                ours += differences.ours
                inductors += [f"{text} ({INDUCTORS.get(name, 'not listed')})" for text in differences.inductors]
    print(f"{count} places of {SHARE} operators; differences of inductor's own:", *inductors, sep="\n")
    assert not ours, "\n".join(ours[:40])
