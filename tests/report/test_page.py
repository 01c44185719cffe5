"""The report of a run: what its page says, and that it says what happened."""

import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gramme
import pytest
import torch

from report import programs
from report.dom import Element, parse

X = torch.ones(3, 4)
SOURCE = Path(programs.__file__).read_text().splitlines()


def line_of(text: str) -> int:
    return next(i for i, line in enumerate(SOURCE, 1) if text in line)


def recorded(run: Callable[[], Any], folder: Path) -> Element:
    with gramme.record(folder / "run.html"):
        run()
    return parse((folder / "run.html").read_text())


def explained(function: Callable[..., Any], folder: Path, *args: Any) -> Element:
    gramme.explain(function)(*args).save(folder / "run.html")
    return parse((folder / "run.html").read_text())


def lines(page: Element, kind: str) -> set[str]:
    """The source of lines that something became of."""
    return {line.one("code").text.strip() for line in page.id("source").all("p", "ln", kind)}


def test_lines_are_shown_for_what_became_of_them(tmp_path: Path) -> None:
    page = explained(programs.outer, tmp_path, X)
    assert lines(page, "real") == {"time.monotonic()  # breaks"}
    captured = lines(page, "captured")
    assert {"y = middle(x)", "return y.cos()", "return helper(x * 2)", "y = x.sin()", "return y + 1"} <= captured
    assert not lines(page, "uncompiled")


def test_calls_stand_below_the_line_that_makes_them(tmp_path: Path) -> None:
    page = explained(programs.outer, tmp_path, X)
    nested = [f.all("summary")[0].all("b")[0].text for f in page.id("source").all("details", "fn")]
    assert nested == ["outer", "middle", "helper"]
    outermost = page.id("source").all("details", "fn")[0]
    assert "helper" in outermost.words
    assert not [f for f in outermost.all("details", "fn")[2].all("details", "fn")[1:]]


def test_operations_count_for_each_line_above_them(tmp_path: Path) -> None:
    page = explained(programs.outer, tmp_path, X)
    counts = {
        line.one("code").text.strip(): chip.text
        for line in page.id("source").all("p", "ln")
        for chip in line.all("em")
        if "operation" in chip.text and "real" not in chip.classes
    }
    (first,) = [line for line in page.id("source").all("p", "first") if "def outer" in line.text]
    assert any("took" in chip.attributes.get("title", "") and chip.text.endswith("s") for chip in first.all("em"))
    assert counts["y = x.sin()"] == "1 operation"
    assert counts["y = middle(x)"] == "3 operations"
    assert counts["return y.cos()"] == "1 operation"


def test_a_segment_shows_graph_guards_effects_and_how_it_ends(tmp_path: Path) -> None:
    net = programs.Net()
    page = explained(net, tmp_path, X)
    segment = page.one("details", "segment")
    assert "It ends where the function returns." in segment.words
    graph = segment.id("g1")
    rows = [row.one("code").text for row in graph.all("li", "call")]
    assert any(
        row.startswith("input_1: f32[3, 4]") or ": f32[3, 4] = torch.nn.functional.linear(" in row for row in rows
    )
    assert all(row.all("u")[0].text == "f32[3, 4]" for row in graph.all("li", "call") if "relu" in row.text)
    assert len(graph.all("li", "call")) == 4
    assert "self.seen" in segment.words
    assert "x: " in segment.one("details", "guarded").words or "'x'" in segment.one("details", "guarded").words


def test_edges_are_rows_that_come_before(tmp_path: Path) -> None:
    page = explained(programs.whole, tmp_path, X)
    rows = page.id("g1").all("li")
    names = [row.attributes["data-n"] for row in rows]
    for at, row in enumerate(rows):
        for given in map(int, row.attributes.get("data-i", "").split()):
            assert given < at
            assert names[given] in row.text


def test_the_backward_pass_is_shown(tmp_path: Path) -> None:
    net = programs.Net()
    page = explained(net, tmp_path, X)
    backward = page.id("b1")
    assert "aten.native_batch_norm_backward.default" in backward.text
    assert "aten.threshold_backward.default" in backward.text
    assert all(row.all("u") for row in backward.all("li", "call") if "getitem" in row.text)
    with torch.no_grad():
        assert not [e for e in explained(net, tmp_path, X).walk() if e.attributes.get("id") == "b1"]


def test_a_recompile_says_what_changed_and_who_called(tmp_path: Path) -> None:
    f = gramme.compile(programs.whole, backend="native")
    f(X)

    def run() -> None:
        f(torch.ones(7, 4))  # calls with seven

    page = recorded(run, tmp_path)
    row = page.one("tr", "recompile")
    assert "x: shape changed from [3, 4] to [7, 4]" in row.words
    assert "f(torch.ones(7, 4)) # calls with seven" in row.words
    assert f"in whole: {SOURCE[programs.whole.__code__.co_firstlineno - 1]}" in row.words


def test_advice_names_the_line_how_often_and_what_to_do(tmp_path: Path) -> None:
    f = gramme.compile(programs.outer, backend="native")
    page = recorded(lambda: [f(X) for _ in range(12)], tmp_path)
    (advice,) = page.id("todo").all("li", "break")
    assert f"programs.py:{line_of('# breaks')} breaks the graph 12 times" in advice.words
    assert "time.monotonic" in advice.words
    assert "in Python 12×" in page.id("source").one("p", "ln", "real").words
    assert "Measure time around the call" in advice.one("p", "hint").text


def test_the_dearest_comes_first(tmp_path: Path) -> None:
    def slow(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        end = torch.zeros(())
        while end < 20_000:
            end += 1
        return graph.forward

    outer = gramme.compile(programs.outer, backend="native")
    whole = gramme.compile(programs.whole, backend=slow)
    gramme.compile(programs.long, backend="native")(X)  # what a process's first capture loads is no part of it
    page = recorded(lambda: (outer(X), whole(X), whole(torch.ones(7, 4))), tmp_path)
    kinds = [
        next(iter(item.classes)) for item in page.id("todo").one("ol", "advice").children if isinstance(item, Element)
    ]
    assert kinds.index("compile") < kinds.index("recompile") < kinds.index("break")


def test_nothing_to_do_is_said(tmp_path: Path) -> None:
    f = gramme.compile(programs.scaled, backend="native")
    assert "Nothing" in recorded(lambda: [f(X, 2.0) for _ in range(3)], tmp_path).id("todo").words


def test_the_recompile_limit_is_told(tmp_path: Path) -> None:
    f = gramme.compile(programs.scaled, backend="native", recompile_limit=1, dynamic=False)

    def run() -> None:
        f(X, 2.0)
        with pytest.warns(RuntimeWarning, match="recompile limit"):
            f(X, 3.0)
        f(X, 4.0)

    page = recorded(run, tmp_path)
    assert "by changed from 2.0 to 3.0" in page.id("todo").one("li", "limit").words
    assert "return x * by" in lines(page, "uncompiled")
    assert "uncompiled 2×" in page.id("source").words


def test_what_was_captured_before_is_there(tmp_path: Path) -> None:
    f = gramme.compile(programs.whole, backend="native")
    f(X)
    page = recorded(lambda: [f(X) for _ in range(5)], tmp_path)
    assert "5 runs" in page.one("details", "segment").words
    assert "whole" in page.one("details", "segment").words
    assert not page.all("tr", "capture")


def test_other_threads_are_recorded(tmp_path: Path) -> None:
    f = gramme.compile(programs.whole, backend="native")

    def run() -> None:
        thread = threading.Thread(target=lambda: [f(X) for _ in range(4)])
        thread.start()
        thread.join()

    assert "4 runs" in recorded(run, tmp_path).one("details", "segment").words


@pytest.mark.parametrize("name", ["outer", "whole", "long"])
def test_a_recording_changes_neither_results_nor_captures(name: str) -> None:
    function = getattr(programs, name)
    plain = gramme.compile(function, backend="native", isolate_recompiles=True)
    watched = gramme.compile(function, backend="native", isolate_recompiles=True)
    for x in (X, X, torch.ones(7, 4)):
        expected = plain(x)
        with gramme.record():
            assert torch.equal(watched(x), expected)
    assert repr(gramme.statistics(watched)) == repr(gramme.statistics(plain))


def test_a_recording_keeps_nothing_of_the_program() -> None:
    net = programs.Net()
    found = weakref.ref(net)
    with gramme.record() as recording:
        f = gramme.compile(net, backend="native")
        f(X).sum().backward()
        del f, net
        gc.collect()
        assert found() is None
    gc.collect()
    assert recording is not None


def test_segments_that_are_gone_are_shown(tmp_path: Path) -> None:
    def run() -> None:
        f = gramme.compile(programs.whole, backend="native")
        f(X)
        gramme.reset()

    page = recorded(run, tmp_path)
    assert "gelu" in page.id("g1").text
    assert "1 run of" in page.one("details", "segment").words


def test_one_recording_at_a_time() -> None:
    with gramme.record(), pytest.raises(ValueError, match="under way"), gramme.record():
        pass
    with gramme.record():
        pass


def test_explain_in_a_recording_is_part_of_it(tmp_path: Path) -> None:
    with gramme.record(tmp_path / "run.html"):
        told = gramme.explain(programs.whole)(X)
    with pytest.raises(RuntimeError, match="recording"):
        told.save(tmp_path / "own.html")
    assert "whole" in parse((tmp_path / "run.html").read_text()).one("details", "segment").words


def test_save_waits_for_the_end(tmp_path: Path) -> None:
    with gramme.record() as recording, pytest.raises(RuntimeError, match="not ended"):
        recording.save(tmp_path / "run.html")
    recording.save(tmp_path / "run.html")
    with pytest.raises(FileNotFoundError, match="no folder"):
        gramme.record(tmp_path / "nowhere" / "run.html")


def test_an_exception_leaves_the_block_and_the_page_is_written(tmp_path: Path) -> None:
    f = gramme.compile(programs.whole, backend="native")

    def run() -> None:
        f(X)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        recorded(run, tmp_path)
    assert parse((tmp_path / "run.html").read_text()).all("details", "segment")


def test_the_page_names_the_program_safely(tmp_path: Path) -> None:
    def markup(x: torch.Tensor) -> torch.Tensor:
        return x + len("</script><script>alert(1)</script>&amp;")

    page = explained(markup, tmp_path, X)
    assert '"</script><script>alert(1)</script>&amp;"' in page.id("source").text
    assert len(page.all("script")) == 2


def test_the_environment_records_a_program(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(
        "import gramme, torch\n"
        "@gramme.compile(backend='native')\n"
        "def f(x):\n    print('step')\n    return x + 1\n"
        "for _ in range(3):\n    f(torch.ones(2))\n"
    )
    for extra, name in (({}, "run.html"), ({"RANK": "1"}, "run.rank1.html")):
        environment = os.environ | {"GRAMME_REPORT": str(tmp_path / "run.html")} | extra
        subprocess.run([sys.executable, program], check=True, env=environment, capture_output=True)
        page = parse((tmp_path / name).read_text())
        assert page.one("h1").text == "train.py"
        assert "print('step')" in lines(page, "real")
        assert "breaks the graph 3 times" in page.id("todo").words


@pytest.mark.slow
def test_a_million_runs_make_a_small_page(tmp_path: Path) -> None:
    f = gramme.compile(programs.scaled, backend="native")
    page = recorded(lambda: [f(X, 2.0) for _ in range(700_000)], tmp_path)
    assert "700,000 runs" in page.one("details", "segment").words
    assert (tmp_path / "run.html").stat().st_size < 200_000


PROGRAM = """
import sys, torch
@torch.compile(backend="eager")
def f(x):
    print("step")
    return x + 1
for i in range(3):
    f(torch.ones(2 + i))
print(sys.argv[1:], __name__)
"""


def run_module(*arguments: Any, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gramme", *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | environment)


def test_a_program_runs_with_gramme_behind_torch_compile(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    done = run_module("--report", tmp_path / "run.html", program, "--epochs", 2)
    assert done.stdout.splitlines() == ["step"] * 3 + ["['--epochs', '2'] __main__"]
    assert "breaks the graph 3 times" in parse((tmp_path / "run.html").read_text()).id("todo").words


def test_a_program_is_explained(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    done = run_module("explain", program, "--epochs", 2)
    assert done.stdout.splitlines()[-1] == "['--epochs', '2'] __main__"
    line = PROGRAM.splitlines().index('    print("step")') + 1
    assert f"train.py:{line} breaks the graph 3 times" in done.stderr
    assert "-> Remove it, or add print" in done.stderr
    assert "x: shape changed from [2] to [3]" in done.stderr


def test_gramme_disable_leaves_programs_alone(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    done = run_module("explain", program, GRAMME_DISABLE="1")
    assert done.stdout.splitlines()[:3] == ["step"] * 3
    assert "0 captures" in done.stderr


def test_explain_begins_at_the_programs_lines() -> None:
    told = gramme.explain(programs.Net())(X)
    (segment,) = told.segments
    assert segment.function == "Module._wrapped_call_impl"
    assert segment.begins is not None
    assert (segment.begins.name, segment.begins.lineno) == (
        "Net.forward",
        line_of("def forward(self, x: torch.Tensor)"),
    )
    assert f"\n  Net.forward:{segment.begins.lineno}: " in str(told)


def test_breaks_that_are_alike_are_told_once() -> None:
    class Layers(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.ModuleList(torch.nn.Linear(4 + i, 5 + i) for i in range(5))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                x = programs.helper(layer(x))
            return x

    told = gramme.explain(Layers(), dynamic=False)(X)
    assert told.graph_break_count == 5
    heads = [line for line in str(told).splitlines() if line.startswith("break ")]
    assert len(heads) < 5
    assert any(" times): " in head for head in heads)
    assert "___stack" not in str(told)


def test_a_recording_inside_of_a_compiled_function(tmp_path: Path) -> None:
    def run(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        with gramme.record(tmp_path / "run.html"):
            y = programs.helper(y)
        return y * 2

    compiled = gramme.compile(run, backend="native")
    for _ in range(2):
        assert torch.equal(compiled(X), (X.sin().sin() + 1) * 2)
        assert parse((tmp_path / "run.html").read_text()).id("source")
