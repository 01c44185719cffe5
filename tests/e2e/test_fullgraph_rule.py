"""fullgraph=True has one rule, whatever the program writes to and whoever traces it: torch.compile's."""

import cProfile
import io
import logging
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from typing import Any

import gramme
import pytest
import torch
import torch._dynamo

Around = Callable[[], AbstractContextManager[Any]]


class Forwarding(io.TextIOBase):
    """As ipykernel's."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def write(self, text: str) -> int:
        self.written.append(text)
        return len(text)


class Subclass(io.StringIO):
    pass


class Upper(io.StringIO):
    def write(self, text: str) -> int:
        return super().write(text.upper())


@contextmanager
def traced(install: Callable[[Any], None], function: Any) -> Iterator[None]:
    install(function)
    try:
        yield
    finally:
        install(None)


def follows(*_: Any) -> Any:
    return follows


def closed() -> Any:
    return redirect_stdout(io.TextIOWrapper(io.BytesIO(), write_through=True))


AROUND: dict[str, Around] = {
    "as it is": nullcontext,
    "file": closed,
    "StringIO": lambda: redirect_stdout(io.StringIO()),
    "forwarding": lambda: redirect_stdout(Forwarding()),
    "subclass": lambda: redirect_stdout(Subclass()),
    "own write": lambda: redirect_stdout(Upper()),
    "no stdout": lambda: redirect_stdout(None),
    "settrace of calls": lambda: traced(sys.settrace, lambda *_: None),
    "settrace": lambda: traced(sys.settrace, follows),
    "setprofile": lambda: traced(sys.setprofile, follows),
    "cProfile": cProfile.Profile,
    "profiler": lambda: torch.profiler.profile(with_stack=True),
}


def prints(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    print("hello", 3, end="!")
    return y * 2


def reads(x: torch.Tensor) -> torch.Tensor:
    return x + x.sum().item()


def breaks(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2


def decides(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if x.sum() > 0 else x


def computes(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * 2 + 1


def warns(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    warnings.warn("hello", stacklevel=1)
    return y * 2


def lists(x: torch.Tensor) -> torch.Tensor:
    a, b = x.int().tolist()
    return x * a + b


PROGRAMS = [prints, reads, breaks, decides, computes, warns, lists]
REFUSED = [prints, breaks, decides, warns]


def answers(compiled: Callable[..., Any], around: Around, refusal: type[Exception]) -> list[Any]:
    found: list[Any] = []
    with around():
        for _ in range(2):
            try:
                found.append(compiled(torch.ones(2)))
            except refusal:
                found.append("refused")
    return [item if isinstance(item, str) else item.tolist() for item in found]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("around", AROUND)
def test_what_is_refused(around: str, program: Callable[..., Any]) -> None:
    gramme.reset()
    torch.compiler.reset()
    theirs = torch.compile(program, backend="eager", fullgraph=True)
    wanted = answers(theirs, AROUND[around], torch._dynamo.exc.Unsupported)
    refused = program in REFUSED
    assert (wanted == ["refused"] * 2) == refused
    ours = gramme.compile(program, backend="eager", fullgraph=True)
    assert answers(ours, AROUND[around], gramme.CaptureError) == wanted
    assert gramme.statistics(ours).segments == (not refused)


@pytest.fixture
def heard() -> Iterator[list[warnings.WarningMessage]]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield found


@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize("program", PROGRAMS)
def test_explain_agrees(program: Callable[..., Any]) -> None:
    """Of each form of compile it tells the breaks that there are."""
    refused, x = program in REFUSED, torch.ones(2)
    told = gramme.explain(program)(x)
    compiled = gramme.compile(program, backend="eager")
    assert compiled(x).tolist() == program(x).tolist()
    assert gramme.statistics(compiled).segments == len(told.segments)
    assert (told.graph_break_count > 0) == (refused or program in (reads, lists))
    whole = gramme.explain(program, fullgraph=True)
    if refused:
        with pytest.raises(gramme.CaptureError):
            whole(x)
    else:
        assert whole(x).graph_break_count == 0


def test_a_warning_that_nobody_hears_is_no_effect(heard: list[warnings.WarningMessage]) -> None:
    """Until somebody does: the filters are asked at each call."""
    compiled, x = gramme.compile(warns, backend="eager", fullgraph=True), torch.ones(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert compiled(x).tolist() == [4, 4]
    with pytest.raises(gramme.CaptureError):
        compiled(x)
    assert gramme.compile(warns, backend="eager")(x).tolist() == [4, 4]
    assert [str(each.message) for each in heard] == ["hello"]


def test_numbers_that_torch_refuses_to_read() -> None:
    """They have no effect."""

    def f(x: torch.Tensor) -> torch.Tensor:
        a, b = x.tolist()
        return x * a + b

    compiled = gramme.compile(f, backend="eager", fullgraph=True)
    for x in (torch.tensor([2.0, 3.0]), torch.tensor([0.5, -1.0])):
        assert torch.equal(compiled(x), f(x))
    assert gramme.statistics(compiled).segments == 1


def test_tracers_go_on_behind_a_captured_call() -> None:
    compiled = gramme.compile(computes, backend="eager", fullgraph=True)
    lines: list[str] = []

    def trace(frame: Any, event: str, _: Any) -> Any:
        lines.append(frame.f_code.co_name)
        return trace

    def around() -> Any:
        y = compiled(torch.ones(2))
        return y, sys.gettrace()

    sys.settrace(trace)
    try:
        _, seen = around()
    finally:
        sys.settrace(None)
    assert seen is trace
    assert set(lines) == {"around"}
    assert lines.count("around") == 4  # the call, two lines, the return


def test_a_tracer_is_told_of_once() -> None:
    program = """
import sys, torch, gramme
f = gramme.compile(lambda x: x + 1, backend="eager")
for _ in range(3):
    sys.settrace(lambda *a: None)
    f(torch.ones(1))
    sys.settrace(None)
assert gramme.statistics(f).plain_runs == 3
f(torch.ones(1))
assert gramme.statistics(f).captures == 1
"""
    done = subprocess.run([sys.executable, "-c", program], env=os.environ, capture_output=True, text=True, check=True)
    assert done.stderr.count("a trace or profile function is set (by a debugger, coverage") == 1


def test_a_dispatch_mode_is_told_of_once() -> None:
    program = """
import torch, gramme
from torch.utils.flop_counter import FlopCounterMode
f = gramme.compile(lambda x: x @ x, backend="eager")
for _ in range(3):
    with FlopCounterMode(display=False) as mode:
        f(torch.ones(2, 2))
assert mode.get_total_flops() == 16
assert gramme.statistics(f).captures == 0
"""
    done = subprocess.run([sys.executable, "-c", program], env=os.environ, capture_output=True, text=True, check=True)
    assert done.stderr.count("a torch dispatch mode is entered around a compiled function") == 1


def test_printing_may_be_moved(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        print("moved")
        return x + 1

    with torch._dynamo.config.patch(reorderable_logging_functions={print}):
        assert gramme.compile(f, backend="eager", fullgraph=True)(torch.ones(1)).tolist() == [2]
    assert capsys.readouterr().out == "moved\n"


def test_a_logger_that_writes_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        logging.getLogger("mine").error("here")
        return x + 1

    with pytest.raises(gramme.CaptureError):
        gramme.compile(f, backend="eager", fullgraph=True)(torch.ones(1))
    assert gramme.compile(f, backend="eager")(torch.ones(1)).tolist() == [2]
    assert [record.message for record in caplog.records if record.name == "mine"] == ["here"]
