"""Runs a program eagerly and captured on equal arguments, and compares all that can be seen of the two runs."""

import contextlib
import difflib
import gc
import hashlib
import io
import random
import sys
import traceback
import types
import warnings
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from device import streams
from programs import Program, Tensors

from e2e.describe import describe, describe_copies
from e2e.front import GRAMME, Compiled

TESTS = str(Path(__file__).parents[1])
HERE = {str(Path(__file__).with_name(name)) for name in ("harness.py", "front.py", "describe.py")}
MISS_N = 6


@dataclass
class Outcome:
    """One run as text."""

    exception: str
    printed: str
    objects: str
    modes: str
    streams: str
    warned: str

    def __str__(self) -> str:
        return "".join(f"{name}:\n{text}\n" for name, text in vars(self).items())


def user_frames(trace: types.TracebackType | None) -> list[tuple[str, int]]:
    """Function name and line of each frame of the test's own code in a traceback."""
    return [
        (frame.name, frame.lineno or 0)
        for frame in traceback.extract_tb(trace)
        if frame.filename.startswith(TESTS) and frame.filename not in HERE
    ]


def _modes() -> str:
    return (
        f"grad {torch.is_grad_enabled()} inference {torch.is_inference_mode_enabled()} "
        f"autocast {torch.is_autocast_enabled('cpu')} {torch.get_autocast_dtype('cpu')} "
        f"cache {torch.is_autocast_cache_enabled()} dtype {torch.get_default_dtype()} "
        f"device {torch.get_default_device()} function modes {torch._C._len_torch_function_stack()} "
        f"deterministic {torch.are_deterministic_algorithms_enabled()} "
        f"{torch.is_deterministic_algorithms_warn_only_enabled()}"
    )


def _seed(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


def _streams() -> str:
    """Where the process' random streams stand."""
    states = {"python": random.getstate(), "numpy": np.random.get_state(), "torch": [s.tolist() for s in streams()]}
    return "\n".join(f"{k} {hashlib.md5(repr(v).encode()).hexdigest()}" for k, v in states.items())


def _warned(caught: list[warnings.WarningMessage]) -> str:
    """The warnings that the program's own lines issued."""
    own = [w for w in caught if w.filename.startswith(TESTS) and w.filename not in HERE]
    own = [w for w in own if not _is_grammes(w)]
    return "\n".join(f"{w.category.__name__} {w.message} {Path(w.filename).name}:{w.lineno}" for w in own)


def _is_grammes(warning: warnings.WarningMessage) -> bool:
    return str(warning.message).startswith("gramme ")


def _refuse_plain_runs(caught: list[warnings.WarningMessage], program: Program) -> None:
    """A program that runs uncompiled is right for the wrong reason."""
    for warning in caught:
        if _is_grammes(warning) and "uncompiled" in str(warning.message):
            pytest.fail(f"{program.name}: {warning.message}", pytrace=False)


@contextlib.contextmanager
def restored_modes() -> Iterator[None]:
    grad, dtype = torch.is_grad_enabled(), torch.get_default_dtype()
    deterministic = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    try:
        yield
    finally:
        torch.set_grad_enabled(grad)
        torch.set_default_dtype(dtype)
        torch.use_deterministic_algorithms(deterministic[0], warn_only=deterministic[1])


def observe(
    call: Callable[..., Any], program: Program, seed: int = 0, n: int = 4, steps: int = 3, plain: bool = False
) -> Outcome:
    """Run `call` on new arguments of the program and write down what came of it; `plain`: it may warn of plain runs."""
    program.setup()
    try:
        return _observe(call, program, seed, n, steps, plain or bool(program.plain))
    finally:
        program.setup()


def _observe(call: Callable[..., Any], program: Program, seed: int, n: int, steps: int, plain: bool) -> Outcome:
    tensors = Tensors(seed, n, steps)
    args, kwargs = program.make_args(tensors), program.make_kwargs(tensors)
    _seed(seed)
    result: Any = None
    raised = ""
    with (
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(io.StringIO()),
        restored_modes(),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("ignore")  # what programs put there too: found again before those of libraries
        warnings.simplefilter("always")
        try:
            result = call(*args, **kwargs)
        except Exception as error:
            raised = describe(error=error) + f"\nframes {user_frames(error.__traceback__)}"
            chained = error.__cause__ or error.__context__
            if chained is not None:
                raised += f"\nchained frames {user_frames(chained.__traceback__)}"
        modes, streams = _modes(), _streams()
    if not plain:
        _refuse_plain_runs(caught, program)
    if program.backward:
        roots = [r for r in _tensors(result) if r.requires_grad]
        if roots:
            sum((r.sum() for r in roots), torch.zeros(())).backward()
    # A tensor that a failing graph had written is put back by one more write: programs that fail do not count writes.
    text = describe_copies if program.category == "errors" else describe
    objects = text(args=list(args), kwargs=kwargs, state=program.state(), result=result)
    return Outcome(raised, out.getvalue(), objects, modes, streams, _warned(caught))


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [t for item in value for t in _tensors(item)]
    return []


def assert_same(eager: Outcome, captured: Outcome, what: str) -> None:
    left, right = str(eager), str(captured)
    if left != right:
        diff = difflib.unified_diff(left.splitlines(), right.splitlines(), "eager", "captured", lineterm="", n=4)
        pytest.fail(f"{what}: the runs differ\n" + "\n".join(diff), pytrace=False)


def check(program: Program, *, fullgraph: bool) -> Compiled:
    """Capture, hit and miss: each equal to eager; the counters say which of the three it was."""
    compiled = Compiled(program.function, fullgraph=fullgraph)
    assert_same(observe(program.function, program), observe(compiled, program), f"{program.name}, captured")
    first, hits = compiled.captures, compiled.hits
    seed = 1
    if not program.one_graph:  # other data may take another way, and Python numbers made by it are captured one by one
        seed = 0
        for _ in range(3):
            observe(compiled, program)
        first, hits = compiled.captures, compiled.hits
    assert_same(observe(program.function, program, seed), observe(compiled, program, seed), f"{program.name}, again")
    if program.hits:
        assert compiled.captures == first, f"{program.name}: equal arguments were captured again"
        assert hits is None or compiled.hits > hits or program.plain, f"{program.name}: the second call was no hit"
    again = compiled.captures
    eager = observe(program.function, program, 2, MISS_N)
    assert_same(eager, observe(compiled, program, 2, MISS_N), f"{program.name}, other shapes")
    if program.hits and program.misses and program.one_graph and compiled.recorder.graphs:
        assert compiled.captures > again, f"{program.name}: other shapes were answered without a capture"
    if program.plain and compiled.plain_runs is not None and compiled.handovers is not None:
        assert compiled.plain_runs + compiled.handovers > 0, f"{program.name} runs plainly no more"
    return compiled


def _reachable(value: Any, found: list[Any] | None = None) -> list[Any]:
    """Argument objects whose references are counted, each once."""
    found = [] if found is None else found
    if isinstance(value, list | tuple | dict | set | torch.Tensor) or hasattr(value, "__dict__"):
        if any(value is f for f in found) or isinstance(value, type | types.FunctionType | types.ModuleType):
            return found
        if not isinstance(value, tuple):
            found.append(value)
        inside = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple | set) else ()
        for item in inside:
            _reachable(item, found)
        for item in list(getattr(value, "__dict__", {}).values()):
            _reachable(item, found)
    return found


def _references(call: Callable[..., Any], program: Program, collect: bool = False) -> tuple[list[int], list[bool]]:
    """How the run changes the count of each argument object, and which of them outlive the caller."""
    program.setup()
    tensors = Tensors(3)
    args, kwargs = program.make_args(tensors), program.make_kwargs(tensors)
    objects = _reachable([*args, kwargs])
    before = [sys.getrefcount(o) for o in objects]
    quiet = io.StringIO()
    with restored_modes(), contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
        with contextlib.suppress(Exception):
            call(*args, **kwargs)
    if collect:
        gc.collect()
    changes = [sys.getrefcount(o) - b for o, b in zip(objects, before, strict=True)]
    watchers = [weakref.ref(o) for o in objects if type(o).__weakrefoffset__]
    del args, kwargs, objects
    program.setup()
    return changes, [w() is not None for w in watchers]


def check_references(program: Program, compiled: Callable[..., Any]) -> None:
    """A hit leaves reference counts, lifetimes and the number of objects as eager does."""
    compiled = getattr(compiled, "call", compiled)  # no frame between, which a traceback would keep
    eager, captured = _references(program.function, program), _references(compiled, program)
    if captured[0] != eager[0]:  # eager leaves classes made inside as garbage, which keep what their methods close over
        eager, captured = _references(program.function, program, True), _references(compiled, program, True)
    assert captured[0] == eager[0], f"{program.name}: changes of reference counts {captured[0]}, eagerly {eager[0]}"
    assert captured[1] == eager[1], f"{program.name}: arguments alive {captured[1]}, eagerly {eager[1]}"

    def grown(call: Callable[..., Any], times: int = 6) -> int:
        gc.collect()
        before = len(gc.get_objects())
        for _ in range(times):
            _references(call, program)
        gc.collect()
        return len(gc.get_objects()) - before

    grown(compiled, 1)
    growth = grown(compiled)
    if growth <= 5:
        return
    grown(program.function, 1)
    of_eager = max(grown(program.function), 0)  # what a library keeps
    if any(growth <= of_eager for growth in (grown(compiled) for _ in range(150))):
        return  # guards remember up to 128 objects of a place
    raise AssertionError(f"{program.name}: {growth} objects more after six hits, {of_eager} eagerly")


def golden_ops(category: str) -> dict[str, list[str] | None]:
    """What Dynamo records for the programs of a category: operations, or None where it refuses the program."""
    found: dict[str, list[str] | None] = {}
    name = ""
    path = Path(__file__).with_name("golden") / f"dynamo_ops_{category}.txt"
    for line in path.read_text().splitlines():
        if line.startswith("#") or not line.strip():
            continue
        if not line.startswith(" "):
            name = line.rstrip(":")
            found[name] = []
        elif line.startswith("    refused"):
            found[name] = None
        elif (ops := found[name]) is not None:
            for word in line.partition("#")[0].split():
                op, _, times = word.partition("*")
                ops += [op] * int(times or 1)
    return found


def golden_breaks() -> dict[str, int]:
    """How many operations Dynamo runs in graphs in one warm call of each program of category "breaks".

    Zero where what it runs is not what the program says.
    """
    lines = Path(__file__).with_name("golden").joinpath("dynamo_breaks.txt").read_text().splitlines()
    return {
        name: 0 if "wrong" in rest else int(ran)
        for name, ran, *rest in (line.split() for line in lines if line and line[0] != "#")
    }


__all__ = [
    "GRAMME",
    "Compiled",
    "Outcome",
    "assert_same",
    "check",
    "check_references",
    "golden_breaks",
    "golden_ops",
    "observe",
]
