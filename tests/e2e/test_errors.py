"""Exceptions: results, state, message and traceback as eagerly; errors of our own name file, line, reason and hint."""

import inspect
import os
import sys
import sysconfig
import time
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from programs import Program, programs

from e2e import front
from e2e.front import GRAMME, Compiled, Recorder
from e2e.harness import assert_same, check_references, observe

only_gramme = pytest.mark.skipif(not GRAMME, reason="says what gramme's own errors look like")
each_program = pytest.mark.parametrize("program", programs("errors"), ids=lambda p: p.name)


@each_program
@pytest.mark.parametrize("fullgraph", [False, True])
def test_same_as_eager(program: Program, fullgraph: bool) -> None:
    compiled = Compiled(program.function, fullgraph=fullgraph)
    for seed, n in ((0, 4), (1, 4), (2, 6)):
        eager = observe(program.function, program, seed, n)
        assert_same(eager, observe(compiled, program, seed, n), f"{program.name}, fullgraph={fullgraph}, n={n}")


@each_program
def test_references(program: Program) -> None:
    compiled = Compiled(program.function)
    observe(compiled, program)
    check_references(program, compiled)


def test_a_failed_call_spoils_no_later_one() -> None:
    def f(x: torch.Tensor, table: dict[str, int], key: str) -> torch.Tensor:
        return x * table[key]

    compiled = Compiled(f)
    x = torch.ones(3)
    assert torch.equal(compiled(x, {"a": 2}, "a"), x * 2)
    with pytest.raises(KeyError, match="b"):
        compiled(x, {"a": 2}, "b")
    before = compiled.captures
    assert torch.equal(compiled(x, {"a": 2}, "a"), x * 2)
    assert compiled.captures == before


def test_exceptions_of_another_kind_pass() -> None:
    def f(x: torch.Tensor) -> None:
        x.add_(1)
        raise KeyboardInterrupt("stop")

    x = torch.zeros(2)
    with pytest.raises(KeyboardInterrupt, match="stop"):
        front.compile(f, backend="eager")(x)
    assert x.tolist() == [1, 1]


def test_argument_errors_are_the_functions_own() -> None:
    def f(a: torch.Tensor, b: int, *, c: int = 1) -> torch.Tensor:
        return a * b + c

    compiled = front.compile(f, backend="eager")
    for args, kwargs in (((), {}), ((torch.ones(1),), {"d": 1}), ((1, 2, 3), {}), ((1, 2), {"a": 3})):
        with pytest.raises(TypeError) as eager:
            f(*args, **kwargs)  # type: ignore[arg-type]
        with pytest.raises(TypeError) as captured:
            compiled(*args, **kwargs)
        assert str(captured.value) == str(eager.value)


# What cannot be captured, under fullgraph.


def reads_the_clock(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    time.perf_counter()
    return y


def branches(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        return x + 1
    return x - 1


def breaks(x: torch.Tensor) -> torch.Tensor:
    front.graph_break()
    return x


def in_a_callee(x: torch.Tensor) -> torch.Tensor:
    return reads_the_clock(x.sin())


UNCAPTURABLE = [
    (reads_the_clock, reads_the_clock, 2),
    (branches, branches, 1),
    (breaks, breaks, 1),
    (in_a_callee, reads_the_clock, 2),
]


@only_gramme
@pytest.mark.parametrize(("function", "where", "line"), UNCAPTURABLE, ids=lambda v: getattr(v, "__name__", str(v)))
def test_fullgraph_names_the_line(function: Callable[..., Any], where: Callable[..., Any], line: int) -> None:
    import gramme

    lines, start = inspect.getsourcelines(where)
    with pytest.raises(gramme.CaptureError) as caught:
        front.compile(function, fullgraph=True, backend="eager")(torch.ones(2))
    error = caught.value
    assert error.file == __file__
    assert error.line == start + line
    assert error.source_line.strip() == lines[line].strip()
    assert error.reason
    assert error.hint
    for part in (error.file, str(error.line), error.source_line.strip(), error.reason, error.hint):
        assert part in str(error)


class ReadsTheClock(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        time.perf_counter()
        return x


def from_a_package(source: str, name: str) -> Any:
    """What the source defines under the name, as if it came from an installed package."""
    namespace: dict[str, Any] = {}
    file = os.path.join(sysconfig.get_path("purelib"), "a_package.py")
    exec(compile(source, file, "exec"), namespace)
    return namespace[name]


def sleeps(x: torch.Tensor) -> torch.Tensor:
    return torch.vmap(time.sleep)(x)


apply_twice = from_a_package("def apply_twice(f, x):\n    return f(f(x))\n", "apply_twice")
package_sleeps = from_a_package(
    "import time, torch\ndef g(x):\n    x = x + 1\n    return torch.vmap(time.sleep)(x)\n", "g"
)
PACKAGE_FILE = apply_twice.__code__.co_filename


def through_a_package(x: torch.Tensor) -> torch.Tensor:
    return apply_twice(reads_the_clock, x)  # type: ignore[no-any-return]


MODULE_SOURCE = """\
import time, torch
class M(torch.nn.Module):
    def forward(self, x):
        x = x + 1
        return torch.vmap(time.sleep)(x)
"""

# Compiled, the file of the line that is named and its function, and functions that the calls shown go through.
INNERMOST: dict[str, tuple[Callable[[], Any], str, str, list[str]]] = {
    "module": (ReadsTheClock, __file__, "ReadsTheClock.forward", []),
    "modules": (lambda: torch.nn.Sequential(torch.nn.ReLU(), ReadsTheClock()), __file__, "ReadsTheClock.forward", []),
    "through torch": (lambda: sleeps, __file__, "sleeps", ["in sleeps"]),
    "through a package": (
        lambda: through_a_package,
        __file__,
        "reads_the_clock",
        ["in through_a_package", "in apply_twice"],
    ),
    "only a package": (lambda: package_sleeps, PACKAGE_FILE, "g", ["in g"]),
    "mapped": (
        lambda: torch.vmap(reads_the_clock),
        __file__,
        "reads_the_clock",
        ["in vmap_impl", "in reads_the_clock"],
    ),
}


@only_gramme
@pytest.mark.parametrize("case", INNERMOST)
def test_fullgraph_names_the_programs_innermost_line(case: str) -> None:
    import gramme

    make, file, function, calls = INNERMOST[case]
    with pytest.raises(gramme.CaptureError) as caught:
        front.compile(make(), fullgraph=True, backend="eager")(torch.ones(2))
    error = caught.value
    assert (error.file, error.function) == (file, function)
    places = [error.stack.index(call) for call in calls]
    assert places == sorted(places)
    assert "torch/nn/modules" not in error.stack
    assert error.stack.rstrip() in str(error) or len(calls) < 2


@only_gramme
def test_fullgraph_error_of_a_module_in_a_package() -> None:
    """Its file, not that of torch.nn.Module, whose __call__ is where the capture begins."""
    import gramme

    with pytest.raises(gramme.CaptureError) as caught:
        front.compile(from_a_package(MODULE_SOURCE, "M")(), fullgraph=True, backend="eager")(torch.ones(2))
    assert (caught.value.file, caught.value.line) == (PACKAGE_FILE, 5)


@only_gramme
def test_fullgraph_error_leaves_no_effect() -> None:
    import gramme

    def f(x: torch.Tensor, log: list[int]) -> torch.Tensor:
        log.append(1)
        x.add_(1)
        front.graph_break()
        return x

    x, log = torch.zeros(2), []  # type: ignore[var-annotated]
    with pytest.raises(gramme.CaptureError):
        front.compile(f, fullgraph=True, backend="eager")(x, log)
    assert (x.tolist(), log) == ([0, 0], [])


# Bad input.


def plus_one(x: torch.Tensor) -> torch.Tensor:
    return x + 1


BAD = {
    "not callable": (lambda: front.compile(3), "callable"),
    "unknown backend": (lambda: front.compile(plus_one, backend="no_such_backend"), "no_such_backend"),
    "backend of a wrong type": (lambda: front.compile(plus_one, backend=7), "backend"),
    "unknown option": (
        lambda: front.compile(plus_one, backend="eager", options={"no_such_option": 1}),
        "no_such_option",
    ),
    "unknown mode": (lambda: front.compile(plus_one, backend="eager", mode="no_such_mode"), "no_such_mode"),
    "dynamic of a wrong type": (lambda: front.compile(plus_one, backend="eager", dynamic="yes"), "dynamic"),
    "limit of a wrong type": (lambda: front.compile(plus_one, backend="eager", recompile_limit="x"), "recompile_limit"),
}


@only_gramme
@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named(case: str) -> None:
    make, named = BAD[case]
    with pytest.raises((TypeError, ValueError, RuntimeError), match=named):
        make()(torch.ones(2))


@only_gramme
def test_unknown_argument() -> None:
    with pytest.raises(TypeError, match="no_such_argument"):
        front.compile(plus_one, no_such_argument=1)


def raising_backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
    raise ArithmeticError("the backend broke")


def mute_backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
    return "not a function"


def test_backend_that_raises() -> None:
    compiled = front.compile(plus_one, backend=raising_backend)
    with pytest.raises(Exception, match="the backend broke") as caught:
        compiled(torch.ones(2))
    assert "raising_backend" in str(caught.value)


def test_backend_that_returns_no_function() -> None:
    compiled = front.compile(plus_one, backend=mute_backend)
    with pytest.raises(Exception, match="call") as caught:
        compiled(torch.ones(2))
    assert "mute_backend" in str(caught.value)


def test_compiled_graph_that_raises_alone() -> None:
    """What eager does not raise comes out after a plain run: the state is not half written."""

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            raise ArithmeticError("only the compiled graph")

        return run

    def f(x: torch.Tensor, log: list[str]) -> torch.Tensor:
        log.append("effect")
        return x + 1

    log: list[str] = []
    with pytest.raises(gramme.BackendError) as caught:
        front.compile(f, backend=backend)(torch.ones(2), log)
    assert isinstance(caught.value.__cause__, ArithmeticError)
    assert log == ["effect"]


# Observers.


def traced(x: torch.Tensor, log: list[Any]) -> torch.Tensor:
    for i in range(3):
        x = x + i
        log.append(i)
    return helper(x)


def helper(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def events(install: Callable[[Any], None], call: Callable[..., Any]) -> tuple[list[tuple[str, str, int]], Any]:
    seen: list[tuple[str, str, int]] = []

    def note(frame: Any, event: str, arg: Any) -> Any:
        if frame.f_code in (traced.__code__, helper.__code__) and not event.startswith("c_"):
            seen.append((event, frame.f_code.co_name, frame.f_lineno))
        return note

    log: list[Any] = []
    install(note)
    try:
        result = call(torch.ones(2), log)
    finally:
        install(None)
    return seen, (result.tolist(), log)


@pytest.mark.parametrize("install", [sys.settrace, sys.setprofile], ids=["settrace", "setprofile"])
@pytest.mark.parametrize("warm", [False, True])
def test_traced_and_profiled_functions_run_plainly(install: Callable[[Any], None], warm: bool) -> None:
    compiled = Compiled(traced)
    if warm:
        compiled(torch.ones(2), [])
    before = compiled.captures
    expected = events(install, traced)
    assert expected[0]
    if GRAMME:
        assert events(install, compiled.call) == expected
        assert compiled.captures == before
        import gramme

        assert gramme.statistics(compiled.call).plain_runs >= 1
    else:
        assert events(install, compiled.call)[1] == expected[1]
    assert compiled(torch.ones(2), []).tolist() == [8, 8]


def test_recorder_is_given_the_graph_once() -> None:
    recorder = Recorder()
    compiled = front.compile(plus_one, backend=recorder)
    for _ in range(3):
        compiled(torch.ones(2))
    assert recorder.graphs == [["operator.add"]]
