"""Calls a program eagerly and compiled with equal arguments of many sizes, and compares all that can be seen."""

import contextlib
import io
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gramme
import pytest
import torch
from gramme import _C
from gramme._compile import entry_of

from shapes import Program
from shapes.compare import Comparison

BACKENDS = ("eager", "native", "aot_eager")
TOLERANCES = {"inductor": 1e-4}
DECOMPOSED = {  # AOTAutograd puts other operators in place of theirs, which give other last bits
    "networks.recurrent_cell": 1e-5,
    "networks.resized": 1e-5,
}
MOST_CAPTURES = 512
SHOWN_SEGMENTS = 12
HERE = str(Path(__file__).parent)
OWN = {__file__, str(Path(__file__).with_name("compare.py"))}

Sizes = tuple[int, ...]


@dataclass
class Run:
    """What one call did."""

    result: Any
    error: BaseException | None
    printed: str
    arguments: Any
    random: torch.Tensor

    @property
    def raised(self) -> list[Any]:
        """The exception's type, text and lines of the programs."""
        if self.error is None:
            return []
        frames = traceback.extract_tb(self.error.__traceback__)
        lines = [(f.name, f.lineno) for f in frames if f.filename.startswith(HERE) and f.filename not in OWN]
        return [type(self.error).__name__, str(self.error), lines]


@dataclass
class Fuzzed:
    """What all calls came to.

    Attributes:
        captures: made in all.
        failure: what differed first; empty if nothing did.
        unexplained: calls that ran plainly though eager raised nothing.

    """

    captures: int = 0
    failure: str = ""
    unexplained: int = 0
    sizes: list[Sizes] = field(default_factory=list)


def observe(call: Callable[..., Any], program: Program, seed: int, sizes: Sizes, *, backward: bool = True) -> Run:
    args, kwargs = program.arguments(seed, sizes)
    torch.manual_seed(seed)
    result, error = None, None
    with contextlib.redirect_stdout(io.StringIO()) as out, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = call(*args, **kwargs)
        except Exception as raised:
            error = raised
        stream = torch.get_rng_state()
        if program.backward and backward:
            _backward(result)
    return Run(result, error, out.getvalue(), [args, kwargs], stream)


def _backward(result: Any) -> None:
    loss = [t.square().sum() for t in _tensors(result) if t.requires_grad]
    if loss:
        torch.stack(loss).sum().backward()


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for item in value for t in _tensors(item)] if isinstance(value, list | tuple) else []


def difference(eager: Run, compiled: Run, states: tuple[Any, Any], tolerance: float) -> str | None:
    if eager.raised != compiled.raised:
        return f"exception: {eager.raised} | {compiled.raised}"
    if eager.printed != compiled.printed:
        return f"printed: {eager.printed!r} | {compiled.printed!r}"
    compared = Comparison(tolerance)
    return (
        compared.difference(eager.arguments, compiled.arguments, "arguments")
        or compared.difference(eager.result, compiled.result)
        or compared.difference(*states, "state")
        or (None if torch.equal(eager.random, compiled.random) else "the random stream stands elsewhere")
    )


def fuzz(program: Program, backend: str, calls: list[Sizes], dynamic: bool | None = None) -> Fuzzed:
    """All calls, one after another, until one differs."""
    gramme.reset()
    eager, original = program.callable(), program.callable()
    compiled = gramme.compile(original, backend=backend, dynamic=dynamic, recompile_limit=MOST_CAPTURES)
    fuzzed = Fuzzed()
    tolerance = _tolerance(program, backend)
    states = (eager, original) if program.fresh else (None, None)
    for seed, sizes in enumerate(calls):
        fuzzed.sizes.append(sizes)
        expected = observe(eager, program, seed, sizes)
        plain = gramme.statistics(compiled).plain_runs
        found = difference(expected, observe(compiled, program, seed, sizes), states, tolerance)
        statistics = gramme.statistics(compiled)
        fuzzed.captures = statistics.captures
        fuzzed.unexplained += statistics.plain_runs - plain if expected.error is None else 0
        if found is not None:
            fuzzed.failure = f"{found}\n{story(program, backend, fuzzed.sizes, compiled)}"
            break
    return fuzzed


def _tolerance(program: Program, backend: str) -> float:
    return DECOMPOSED.get(program.name, 0.0) if backend == "aot_eager" else TOLERANCES.get(backend, 0.0)


def story(program: Program, backend: str, sizes: list[Sizes], compiled: Any) -> str:
    """The sizes so far, and the segments with their guards."""
    rows = sorted(_C.segments(entry_of(compiled)), key=lambda row: row["number"])
    lines = [f"{program.name}, {backend}, sizes so far: {' '.join(map(str, sizes))}"]
    for row in rows[:SHOWN_SEGMENTS]:
        lines.append(f"  segment {row['number']} ran {row['runs']} times, ends: {row['exit']} {row['reason']}")
        lines += [f"    {guard}" for guard in row["guards"]]
    if len(rows) > SHOWN_SEGMENTS:
        lines.append(f"  and {len(rows) - SHOWN_SEGMENTS} more segments")
    return "\n".join(lines)


def check(program: Program, backend: str, calls: list[Sizes], dynamic: bool | None = None) -> int:
    """Fails at the first call that is not eager's; gives the number of captures."""
    fuzzed = fuzz(program, backend, calls, dynamic)
    if fuzzed.failure:
        pytest.fail(fuzzed.failure, pytrace=False)
    if not program.plain:
        assert not fuzzed.unexplained, f"{program.name}: {fuzzed.unexplained} calls ran plainly"
    return fuzzed.captures


def check_late_backward(program: Program, backend: str, calls: list[Sizes]) -> None:
    """All forwards, then the backwards, the last one first: gradients equal eager's."""
    gramme.reset()
    eager, original = program.callable(), program.callable()
    compiled = gramme.compile(original, backend=backend, recompile_limit=MOST_CAPTURES)
    runs = [
        tuple(observe(call, program, seed, sizes, backward=False) for call in (eager, compiled))
        for seed, sizes in enumerate(calls)
    ]
    for expected, found in reversed(runs):
        for run in (expected, found):
            _backward(run.result)
        states = (eager, original) if program.fresh else (None, None)
        differs = difference(expected, found, states, _tolerance(program, backend))
        assert differs is None, f"{differs}\n{story(program, backend, calls, compiled)}"
