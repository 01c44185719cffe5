"""What users hear of captures: TORCH_LOGS artifacts, torch._dynamo.utils.counters, compile times."""

import io
import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import gramme
import pytest
import torch
import torch._dynamo
from torch._dynamo.utils import compile_times, counters


@contextmanager
def logs(**artifacts: bool) -> Iterator[io.StringIO]:
    """What the artifacts write while they are on."""
    torch._logging.set_logs(**artifacts)
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logger = logging.getLogger("torch._dynamo")
    logger.addHandler(handler)
    try:
        yield stream
    finally:
        logger.removeHandler(handler)
        torch._logging.set_logs()


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return gramme.compile(function, backend=lambda graph, inputs: graph.forward, **options)


def line_of(function: Callable[..., Any], offset: int) -> str:
    return f"{__file__}:{function.__code__.co_firstlineno + offset}"


def plain(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + 1


def helper(x: torch.Tensor) -> torch.Tensor:
    print(end="")
    return x * 2


def breaks(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    return helper(y) * 3


def inner(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    return y + 1


def outer(x: torch.Tensor) -> torch.Tensor:
    y = inner(x)
    if y.shape[0] > 1:
        y = y.cos() * y
    return y


class TestLogs:
    def test_nothing_unless_asked(self) -> None:
        with logs() as stream:
            function = compiled(breaks)
            function(torch.ones(2))
            function(torch.ones(3))
        assert stream.getvalue() == ""

    def test_dynamic(self) -> None:
        def limited(x: torch.Tensor) -> torch.Tensor:
            return x + 1 if x.shape[0] <= 512 else x

        stream = io.StringIO()
        handler = logging.StreamHandler(stream)
        logger = logging.getLogger("torch.fx.experimental.symbolic_shapes")
        torch._logging.set_logs(dynamic=logging.INFO)
        logger.addHandler(handler)
        try:
            function = compiled(limited)
            function(torch.ones(4))
            function(torch.ones(5))
        finally:
            logger.removeHandler(handler)
            torch._logging.set_logs()
        text = stream.getvalue()
        assert "create_symbol s77 = x.shape[0], 2 <= s77 <= 512 (" in text
        assert (
            f"eval x.shape[0] <= 512: return x + 1 if x.shape[0] <= 512 else x, {line_of(limited, 1)} [guard added]"
            in text
        )

    @pytest.mark.parametrize("artifact", ["trace_source", "trace_call", "bytecode"])
    def test_what_is_captured(self, artifact: str) -> None:
        """Lines, calls and instructions: places and sources of each, as PyTorch's front end tells them."""
        patterns = {
            "trace_source": r"TRACE starts_line (\S+:\d+) in (\w+).*\n +(.*)",
            "trace_call": r"TRACE FX call (\w+) from (\S+:\d+) in (\w+).*\n +(.*)",
            "bytecode": r"ORIGINAL BYTECODE (\w+) (\S+) line (\d+)",
        }
        told = []
        for front in (lambda f: torch.compile(f, backend="eager"), compiled):
            torch._dynamo.reset()
            with logs(**{artifact: True}) as stream:
                front(outer)(torch.ones(2))
            told.append([tuple(row) for row in re.findall(patterns[artifact], stream.getvalue())])
        assert told[0]
        assert told[1] == told[0]

    def test_lines_are_told_only_while_the_log_is_on(self) -> None:
        function = compiled(outer)
        with logs(trace_source=True) as stream:
            function(torch.ones(2))
        first = stream.getvalue()
        assert f"{line_of(inner, 1)} in inner (inner) (inline depth: 1)" in first
        with logs(trace_source=True) as stream:
            function(torch.ones(2))
        assert stream.getvalue() == ""

    def test_a_recompile_names_the_line(self) -> None:
        def limited(x: torch.Tensor) -> torch.Tensor:
            return x + 1 if x.shape[0] <= 512 else x

        function = compiled(limited, dynamic=True)
        function(torch.ones(4))
        with logs(recompiles=True) as stream:
            function(torch.ones(513))
        assert "L['x'].size()[0] <= 512" in stream.getvalue()
        assert line_of(limited, 1) in stream.getvalue()

    def test_graph_code(self) -> None:
        with logs(graph_code=True) as stream:
            compiled(plain)(torch.ones(2, 3))
        text = stream.getvalue()
        assert "TRACED GRAPH\n ===== __compiled_fn_" in text
        assert f"# File: {line_of(plain, 1)} in plain, code: return x.sin() + 1" in text
        assert "l_x_.sin()" in text
        assert "f32[2, 3][3, 1]cpu" in re.sub("\x1b\\[\\d*m", "", text)

    def test_graph(self) -> None:
        pytest.importorskip("tabulate")
        with logs(graph=True) as stream:
            compiled(plain)(torch.ones(2))
        rows = [line.split()[:2] for line in stream.getvalue().splitlines()]
        assert ["placeholder", "l_x_"] in rows
        assert ["call_method", "sin"] in rows

    def test_graph_sizes(self) -> None:
        with logs(graph_sizes=True) as stream:
            compiled(plain)(torch.ones(2, 3))
        lines = stream.getvalue().splitlines()
        assert lines[0] == "TRACED GRAPH TENSOR SIZES"
        assert lines[2:] == ["l_x_: (2, 3)", "sin: (2, 3)", "add: (2, 3)", ""]

    def test_a_log_changes_nothing_for_the_backend(self) -> None:
        kept: list[list[set[str]]] = []

        def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
            kept.append([set(node.meta) for node in graph.graph.nodes])
            return graph.forward

        gramme.compile(plain, backend=backend)(torch.ones(2))
        gramme.reset()
        with logs(graph=True, graph_code=True, graph_sizes=True):
            gramme.compile(plain, backend=backend)(torch.ones(2))
        assert kept[0] == kept[1]

    def test_guards(self) -> None:
        with logs(guards=True) as stream:
            compiled(lambda x, n: x * n)(torch.ones(2), 7)
        text = stream.getvalue()
        assert text.startswith("GUARDS of ")
        assert "- L['n'] == 7\n" in text

    def test_recompiles_say_what_failed(self) -> None:
        class State:
            p = 0.0

        state = State()
        state.p = 0.1

        def f(x: torch.Tensor, flag: str, state: State) -> torch.Tensor:
            return x + 1 if flag == "a" else x * state.p

        function = compiled(f)
        with logs(recompiles=True) as stream:
            function(torch.ones(2), "b", state)
            assert stream.getvalue() == ""
            function(torch.ones(2), "a", state)
            first = stream.getvalue()
            state.p = 0.2
            function(torch.ones(2), "b", state)
            function(torch.ones(3), "b", state)
        assert f"Recompiling function {f.__qualname__} in {line_of(f, 0)}" in first
        assert "- 0: L['flag'] changed from 'b' to 'a'" in first
        messages = stream.getvalue().split("Recompiling")[2:]
        assert "L['flag'] changed from 'a' to 'b'" in messages[0]
        assert "L['state'].p changed from 0.1 to 0.2" in messages[0]
        assert re.search(r"L\['x'\].*2.*3", messages[1])

    def test_hits_are_no_recompiles(self) -> None:
        function = compiled(plain)
        with logs(recompiles=True) as stream:
            for _ in range(3):
                function(torch.ones(2))
        assert stream.getvalue() == ""

    def test_graph_breaks(self) -> None:
        with logs(graph_breaks=True) as stream:
            compiled(breaks)(torch.ones(2))
        text = stream.getvalue()
        assert f"Graph break in user code at {line_of(helper, 1)}\n" in text
        assert "Graph Break Reason: " in text
        assert "print" in text
        trace = text[text.index("User code traceback:") :]
        frames = [line.strip() for line in trace.splitlines() if line.startswith("  File")]
        assert f'File "{__file__}", line {breaks.__code__.co_firstlineno + 2}, in breaks' in frames
        assert f'File "{__file__}", line {helper.__code__.co_firstlineno + 1}, in helper' in frames
        assert any(frame.endswith("in test_graph_breaks") for frame in frames)
        assert "    return helper(y) * 3\n" in trace

    def test_fullgraph_raises_and_logs_no_break(self) -> None:
        with logs(graph_breaks=True) as stream, pytest.raises(gramme.CaptureError):
            compiled(lambda x: (x + 1, gramme.graph_break()), fullgraph=True)(torch.ones(2))
        assert stream.getvalue() == ""

    def test_a_failing_handler_disturbs_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Failing(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                raise ValueError("a handler of the user")

        told: list[Any] = []
        monkeypatch.setattr(sys, "unraisablehook", told.append)
        handler = Failing()
        logging.getLogger("torch._dynamo").addHandler(handler)
        try:
            with logs(graph_code=True, guards=True, recompiles=True):
                function = compiled(plain)
                results = [function(torch.ones(n)) for n in (2, 3)]
        finally:
            logging.getLogger("torch._dynamo").removeHandler(handler)
        assert all(torch.equal(r, plain(torch.ones(n))) for r, n in zip(results, (2, 3), strict=True))
        assert [type(error.exc_value) for error in told] == [ValueError] * 5

    def test_environment_variable(self) -> None:
        program = "import torch, gramme\ngramme.compile(lambda x: x.cos(), backend='eager')(torch.ones(2))\n"
        run = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "TORCH_LOGS": "graph_sizes,guards"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert "cos: (2,)" in run.stderr
        assert "GUARDS of <lambda>" in run.stderr


class TestCounters:
    def test_one_graph(self) -> None:
        counters.clear()
        function = compiled(plain)
        function(torch.ones(2))
        function(torch.ones(2))
        assert counters["frames"] == {"total": 1, "ok": 1}
        assert counters["stats"] == {"calls_captured": 2, "unique_graphs": 1}
        assert not counters["graph_break"]

    def test_as_pytorch_counts(self) -> None:
        def f(x: torch.Tensor) -> torch.Tensor:
            y = x + 1
            torch._dynamo.graph_break()
            return (y * 2).sin()

        counted = []
        for compile in (torch.compile, gramme.compile):
            torch._dynamo.reset()
            counters.clear()
            compile(f, backend="eager")(torch.ones(2))
            counted.append((dict(counters["frames"]), dict(counters["stats"]), sum(counters["graph_break"].values())))
        assert counted[0] == counted[1]

    def test_reasons_of_breaks(self) -> None:
        counters.clear()
        compiled(breaks)(torch.ones(2))
        (reason,) = (r for r in counters["graph_break"] if "print" in r)
        assert counters["graph_break"][reason] == 1

    def test_recapture_counts_again(self) -> None:
        counters.clear()
        function = compiled(plain)
        function(torch.ones(2))
        function(torch.ones(3))
        assert counters["stats"]["unique_graphs"] == 2

    def test_compile_times(self) -> None:
        torch._dynamo.utils.compilation_time_metrics.clear()
        compiled(plain)(torch.ones(2))
        headers, values = compile_times(repr="csv")
        times = dict(zip(headers, map(float, values), strict=True))
        assert 0 < times["OutputGraph.call_user_compiler"] < times["_compile.compile_inner"]


def asks_for_a_break(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    gramme.graph_break()
    return y * 3


def test_lines_have_the_ids_of_their_captures() -> None:
    """PyTorch's formatter writes the compile id under which a line is logged."""
    found: list[tuple[str, str]] = []

    class Ids(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            kind = record.name.rpartition("__")[2]
            found.append((kind, str(torch._guards.CompileContext.current_compile_id())))

    handler = Ids()
    logger = logging.getLogger("torch._dynamo")
    with logs(guards=True, graph_breaks=True, recompiles=True, graph_code=True):
        logger.addHandler(handler)
        f = compiled(asks_for_a_break, dynamic=False)
        f(torch.ones(2))
        f(torch.ones(3))
        logger.removeHandler(handler)
    frames = list(dict.fromkeys(at.split("/")[0] for _, at in found))
    ids = {(kind, f"{frames.index(at.split('/')[0])}/{at.split('/')[1]}") for kind, at in found}
    both = {(kind, f"{frame}/{number}") for kind in ("guards", "graph_code") for frame in (0, 1) for number in (0, 1)}
    assert ids == both | {
        ("graph_breaks", "0/0"),
        ("graph_breaks", "0/1"),
        ("recompiles", "0/1"),
        ("recompiles", "1/1"),
    }
