"""Runs a program's calls eagerly and compiled, and compares all that can be seen after each call."""

import contextlib
import hashlib
import io
import itertools
import random
import re
import traceback
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.utils.flop_counter  # tells, once, that triton is missing
from e2e import front
from e2e.describe import describe, describe_copies
from e2e.models import eagerly

from documented import Between, Documented

HERE = str(Path(__file__).parent)
LIMIT = "gramme hit the recompile limit"
GRAD_FN = re.compile(r"\w+Backward\w*")


def observe(program: Documented, backend: str | None, own_state: bool = True) -> list[str]:
    """What each call did, as text; without a backend the function is called as it is.

    own_state: say versions of tensors, too, and which are views.
    """
    function = program.function
    if backend is not None:
        front.reset()
        function = front.compile(function, backend=backend)
    program.setup()
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)  # else a warning comes in the first of the runs only
    try:
        return _observe(program, function, own_state)
    finally:
        torch.set_warn_always(always)
        program.setup()


def _observe(program: Documented, function: Callable[..., Any], own_state: bool) -> list[str]:
    seen = []
    results: list[Any] = []
    raised = False
    for call in program.calls():
        if isinstance(call, Between):
            call.function()
            continue
        result, error = None, ""
        with (
            contextlib.redirect_stdout(io.StringIO()) as out,
            contextlib.redirect_stderr(io.StringIO()) as err,
            warnings.catch_warnings(record=True) as caught,
        ):
            warnings.simplefilter("always")
            try:
                result = function(*call)
            except Exception as exception:
                raised = True
                error = f"{exception!s}\n{describe_copies(error=exception)}\nframes {_frames(exception.__traceback__)}"
        # A write that a failing graph made is put back by one more: versions are compared up to the first exception.
        text = describe if own_state and not raised else describe_copies
        objects = text(result=result, args=list(call), state=program.state())
        results.append(result)
        seen.append(
            f"exception: {error}\nprinted: {out.getvalue()!r} {err.getvalue()!r}\nwarned: {_warned(caught)}\n"
            f"{GRAD_FN.sub('made', objects)}\nearlier results: {_same(results)}\n{_ambient()}"
        )
    return seen


def _frames(trace: types.TracebackType | None) -> list[tuple[str, int]]:
    """Name and line of each frame of the program's own file."""
    return [
        (frame.name, frame.lineno or 0)
        for frame in traceback.extract_tb(trace)
        if frame.filename.startswith(HERE) and frame.filename != __file__
    ]


def _warned(caught: list[warnings.WarningMessage]) -> list[str]:
    """The program's own warnings and gramme's, but that of the recompile limit."""
    return [
        f"{w.category.__name__}: {w.message}"
        for w in caught
        if (w.filename.startswith(HERE) and w.filename != __file__ or "gramme" in str(w.message))
        and not str(w.message).startswith(LIMIT)
    ]


def _ambient() -> str:
    """The process' modes, and where its random streams stand."""
    streams = (random.getstate(), np.random.get_state(), torch.get_rng_state().tolist())
    digests = [hashlib.md5(repr(stream).encode()).hexdigest() for stream in streams]
    return f"grad {torch.is_grad_enabled()} dtype {torch.get_default_dtype()} random {digests}"


def _same(results: list[Any]) -> list[int]:
    """Which of the earlier results the last one is."""
    last = results[-1]
    if isinstance(last, str | bytes | int | float | complex | tuple | frozenset):  # CPython may share these
        return []
    return [i for i, earlier in enumerate(results[:-1]) if earlier is last]


def difference(program: Documented, backend: str) -> str | None:
    """The first call and line where the compiled run differs from eager; None if it does not.

    Libraries may take another path when they are told that they are being compiled: the optimizers of torch do.
    """
    own_state = backend != "aot_eager"  # its graphs write no intermediate in place
    got = observe(program, backend, own_state)
    found = _first(observe(program, None, own_state), got)
    if found is None:
        return None
    with eagerly():
        return found if _first(observe(program, None, own_state), got) else None


def _first(expected: list[str], got: list[str]) -> str | None:
    for number, (want, have) in enumerate(zip(expected, got, strict=True), 1):
        for a, b in itertools.zip_longest(want.splitlines(), have.splitlines()):
            if a != b:
                return f"call {number}: eager {a!s} | got {b!s}"
    return None
