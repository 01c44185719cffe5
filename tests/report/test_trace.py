"""TORCH_TRACE: the structured log has what PyTorch's front end writes, and tlparse makes its pages of it."""

import json
import logging
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gramme
import pytest
import torch

from report import programs
from report.trace import LOG, Entry, named, written

X = torch.ones(3, 4)
OF_CAPTURES = (
    "dynamo_start",
    "dynamo_output_graph",
    "dynamo_cpp_guards_str",
    "dynamo_graph_break_reason",
    "recompile_reasons",
    "compilation_metrics",
    "aot_forward_graph_fw_metadata",
    "aot_inference_graph",
    "aot_joint_graph",
    "aot_forward_graph",
    "aot_backward_graph",
)
FRONTS = (torch.compile, gramme.compile)


def broken(x: torch.Tensor, n: int) -> torch.Tensor:
    y = x.sin() * n
    torch._dynamo.graph_break()
    z = y.cos() + 1
    return z * 2


def run_broken(front: Callable[..., Any]) -> None:
    f = front(broken, backend="aot_eager")
    f(X, 2)
    f(X, 3)
    f(torch.ones(4, dtype=torch.float64), 3)


def run_training(front: Callable[..., Any]) -> None:
    layer = torch.nn.Linear(4, 4)
    f = front(lambda x: layer(x).relu(), backend="aot_eager")
    f(X).sum().backward()


def run_empty(front: Callable[..., Any]) -> None:
    front(lambda n: n + 1, backend="eager")(3)


def run_dynamic(front: Callable[..., Any]) -> None:
    f = front(lambda x: x * x.shape[0], backend="eager", dynamic=True)
    f(X)
    f(torch.ones(5, 4))


def by_frame(entries: list[Entry]) -> list[tuple[str, str]]:
    """The entries with their ids; frames are counted from the first one of the run."""
    found = named(entries, *OF_CAPTURES)
    frames = sorted({int(entry.at.split("/")[0]) for entry in found})
    ids = [(entry.at.split("/"), entry.name) for entry in found]
    return [(f"{frames.index(int(frame))}/{rest}", name) for (frame, rest), name in ids]


@pytest.mark.parametrize("run", [run_broken, run_training, run_dynamic])
def test_entries_are_those_of_torch_compile(run: Callable[[Any], None]) -> None:
    said = []
    for front in FRONTS:
        torch._dynamo.reset()
        with written() as entries:
            run(front)
        said.append(Counter(by_frame(entries)))
    assert said[0] == said[1]
    assert said[1]


def test_what_has_no_graph_has_its_entries() -> None:
    with written() as entries:
        run_empty(gramme.compile)
    assert [name for _, name in by_frame(entries)] == ["dynamo_start", "dynamo_cpp_guards_str", "compilation_metrics"]
    assert named(entries, "compilation_metrics")[0].about["graph_op_count"] == 0


def test_a_graph_is_written_with_shapes_and_an_input_per_tensor() -> None:
    with written() as entries:
        gramme.compile(lambda x: x.sin() + 1, backend="native")(X)
    (graph,) = named(entries, "dynamo_output_graph")
    assert 'L_x_: "f32[3, 4][4, 1]cpu"' in graph.payload
    assert list(graph.about["sizes"].values())[0] == [3, 4]
    metrics = named(entries, "compilation_metrics")[0].about
    assert (metrics["graph_op_count"], metrics["graph_input_count"], metrics["guard_count"] > 0) == (2, 1, True)


def test_a_body_that_two_calls_share_is_written() -> None:
    @torch.compiler.nested_compile_region
    def region(x: torch.Tensor) -> torch.Tensor:
        return x.sin()

    graphs: list[torch.fx.GraphModule] = []

    def backend(module: torch.fx.GraphModule, inputs: Any) -> Any:
        graphs.append(module)
        return module.forward

    with written() as entries:
        gramme.compile(lambda x: region(region(x)) + 1, backend=backend)(X)
    (graph,) = named(entries, "dynamo_output_graph")
    assert graph.payload.count("invoke_subgraph(") == 2
    assert graphs[0].print_readable(print_output=False).count("invoke_subgraph(") == 2


def test_a_break_says_where_and_why() -> None:
    with written() as entries:
        gramme.compile(programs.outer, backend="eager")(X)
    (reason,) = named(entries, "dynamo_graph_break_reason")
    line = programs.helper.__code__.co_firstlineno + 2
    assert f"Graph break in user code at {programs.__file__}:{line}\n" in reason.payload
    frames = [text for text in reason.payload.splitlines() if text.startswith("  File")]
    assert [text.rpartition(" in ")[2] for text in frames][-3:] == ["outer", "middle", "helper"]
    metrics = next(e for e in named(entries, "compilation_metrics") if e.at.endswith("_1"))
    assert "time.monotonic" in metrics.about["restart_reasons"][0]
    assert reason.at + "_1" == metrics.at


def test_a_recompile_names_the_capture_that_did_not_serve() -> None:
    f = gramme.compile(lambda x: x + 1, backend="eager", dynamic=False)
    with written() as entries:
        f(X)
        f(torch.ones(2, 4))
    first, second = (entry.at for entry in named(entries, "dynamo_start"))
    (reasons,) = named(entries, "recompile_reasons")
    assert reasons.at == second == first.replace("/0", "/1")
    assert reasons.payload == f"{first}: x: shape changed from [3, 4] to [2, 4]"


def test_the_stack_leads_to_the_call() -> None:
    def caller() -> torch.Tensor:
        return compiled(X)  # type: ignore[no-any-return]

    compiled = gramme.compile(programs.outer, backend="eager")
    with written() as entries:
        caller()
    starts = [entry.about["stack"] for entry in named(entries, "dynamo_start")]
    assert [frame["name"] for frame in starts[0]][-2:] == ["caller", "outer"]
    assert starts[0][-1]["line"] == programs.outer.__code__.co_firstlineno


def test_a_module_begins_at_its_forward() -> None:
    net = programs.Net().eval()
    with written() as entries:
        gramme.compile(net, backend="eager")(X)
    own = named(entries, "dynamo_start")[0].about["stack"][-1]
    assert (own["name"], own["line"]) == ("forward", programs.Net.forward.__code__.co_firstlineno)
    assert named(entries, "compilation_metrics")[0].about["co_filename"] == programs.__file__


def refused(f: Callable[..., Any]) -> None:
    with pytest.raises(gramme.CaptureError):
        gramme.compile(f, backend="eager", fullgraph=True)(X)


def test_a_refused_capture_is_a_failure() -> None:
    with written() as entries:
        refused(programs.outer)
    (metrics,) = named(entries, "compilation_metrics")
    assert metrics.about["fail_type"] == "CaptureError"
    assert "time.monotonic" in metrics.about["fail_reason"]
    assert "CaptureError" in named(entries, "dynamo_error")[0].payload


def test_a_failing_backend_is_a_failure() -> None:
    def failing(module: Any, inputs: Any) -> Any:
        raise RuntimeError("no such thing")

    with written() as entries, pytest.raises(torch._dynamo.exc.BackendCompilerFailed):
        gramme.compile(programs.whole, backend=failing)(X)
    (metrics,) = named(entries, "compilation_metrics")
    assert metrics.about["fail_type"] == "BackendCompilerFailed"
    assert metrics.about["graph_op_count"] > 0


def test_the_limit_is_a_failure() -> None:
    f = gramme.compile(lambda x, flag: x + 1 if flag else x, backend="eager", dynamic=False, recompile_limit=2)
    with written() as entries:
        f(torch.ones(2), True)
        f(torch.ones(3), True)
        with pytest.warns(RuntimeWarning, match="recompile limit"):
            f(torch.ones(4), True)
    failures = [e.about["fail_type"] for e in named(entries, "compilation_metrics")]
    assert failures == [None, None, "RecompileLimitExceeded"]


def test_a_recording_hears_what_the_log_hears(tmp_path: Path) -> None:
    with written() as entries, gramme.record(tmp_path / "run.html") as recording:
        gramme.compile(programs.outer, backend="eager")(X)
    ids = [c.segment.compile_id for c in recording.recorded.captures if c.segment is not None]
    assert ids == [entry.at for entry in named(entries, "dynamo_start")]


def test_explain_tells_the_ids_of_the_log() -> None:
    with written() as entries:
        told = gramme.explain(programs.outer)(X)
    ids = [segment.compile_id for segment in told.segments if not segment.goes_on]
    assert ids == [entry.at for entry in named(entries, "dynamo_start")]


def test_times_nest() -> None:
    with written() as entries:
        gramme.compile(programs.whole, backend="aot_eager")(X)
    events = [json.loads(entry.payload) for entry in named(entries, "chromium_event")]
    at = {(event["name"], event["ph"]): event["ts"] for event in events}
    order = [("dynamo", "B"), ("bytecode_tracing", "E"), ("create_aot_dispatcher_function", "B"), ("dynamo", "E")]
    assert [at[key] for key in order] == sorted(at[key] for key in order)


def test_a_log_that_fails_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)

    class Broken(logging.Handler):
        def emit(self, record: Any) -> None:
            raise ValueError("disk full")

    handler = Broken()
    LOG.addHandler(handler)
    try:
        y = gramme.compile(programs.whole, backend="native")(X)
    finally:
        LOG.removeHandler(handler)
    assert torch.equal(y, programs.whole(X))
    assert {str(each.exc_value) for each in told} == {"disk full"}


PROGRAM = """
import gramme, torch

def net(x, n):
    y = x.sin() * n
    print(end="")
    return y.cos()

f = gramme.compile(net, backend="aot_eager")
f(torch.ones(3), 2)
f(torch.ones(3), 2.5)
import sys
print("gramme._trace" in sys.modules)
"""


def run(folder: Path, **environment: str) -> str:
    script = folder / "program.py"
    script.write_text(PROGRAM)
    known = {key: value for key, value in os.environ.items() if key != "TORCH_TRACE"}
    done = subprocess.run(
        [sys.executable, script], env=known | environment, capture_output=True, text=True, check=True, timeout=300
    )
    return done.stdout.strip()


def test_nobody_looks_while_nothing_is_written(tmp_path: Path) -> None:
    assert run(tmp_path) == "False"


@pytest.mark.skipif(
    shutil.which("tlparse", path=str(Path(sys.executable).parent)) is None, reason="tlparse is not installed"
)
def test_pages_of_tlparse(tmp_path: Path) -> None:
    assert run(tmp_path, TORCH_TRACE=str(tmp_path / "trace")) == "True"
    (log,) = (tmp_path / "trace").iterdir()
    tool = Path(sys.executable).with_name("tlparse")
    pages = tmp_path / "pages"
    subprocess.run([tool, log, "-o", pages, "--no-browser", "--strict-compile-id"], check=True, timeout=60)
    index = (pages / "index.html").read_text()
    for name, count in {"dynamo_output_graph": 3, "aot_inference_graph": 3, "recompile_reasons": 1}.items():
        assert len(list(pages.glob(f"*/{name}_*"))) == count, name
    assert "program.py:4 in net" in index
    assert all(f"[{each}]</a>" in index for each in ("0/0", "0/0_1", "1/0", "0/1_1"))
    assert "status-missing" not in index.split("<details>")[1]
    failures = (pages / "failures_and_restarts.html").read_text()
    assert failures.count("RestartAnalysis") == 2
    assert "print" in failures
    assert "f32[3]" in next(pages.glob("*/dynamo_output_graph_*")).read_text()


def test_a_segment_taken_from_another_entry_is_told_under_its_capture() -> None:
    layers = [torch.nn.Linear(4, 4) for _ in range(3)]
    entries = [gramme.compile(layer, backend="eager") for layer in layers]
    with written() as first:
        entries[0](X)
    with written() as rest:
        for entry in entries[1:]:
            entry(X)
    (captured,) = named(first, "compilation_metrics")
    shared = [entry for entry in rest if entry.about.get("name") == "gramme_segment_shared"]
    assert [entry.at for entry in shared] == [captured.at] * 2
    assert not named(rest, *OF_CAPTURES)
    assert f"{__file__}:" in shared[0].payload
