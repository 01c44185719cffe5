"""docs/surface.md: every name of PyTorch's settings and functions has a row, and what rows say is so."""

import inspect
import os
import re
import subprocess
import sys
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gramme
import pytest
import torch
import torch._dynamo as dynamo

from e2e.front import GRAMME, Compiled

pytestmark = pytest.mark.skipif(not GRAMME, reason="gramme's surface")

ROOT = Path(__file__).parents[2]
CONFIG = dynamo.config
VERDICTS = {"honoured", "PyTorch's", "no effect", "warned of", "refused"}


def tables() -> dict[str, dict[str, tuple[str, str]]]:
    """By heading: name to what the row says."""
    made: dict[str, dict[str, tuple[str, str]]] = {}
    for section in (ROOT / "docs/surface.md").read_text().split("\n## ")[1:]:
        rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \|$", section, re.MULTILINE)
        assert len({name for name, *_ in rows}) == len(rows)
        made[section.split("\n")[0]] = {name: (verdict, text) for name, verdict, text in rows}
    return made


def public(module: types.ModuleType) -> set[str]:
    """What a program can use of it: no modules, no helpers of its source."""
    of_typing = {
        "Any",
        "Callable",
        "TypeVar",
        "ParamSpec",
        "F",
        "FuncType",
        "CacheInfo",
        "NestedCompileRegionOptions",
    } | {"TYPE_CHECKING"}
    names = {name for name, value in vars(module).items() if not name.startswith("_") and not inspect.ismodule(value)}
    return names - of_typing | set(module.__all__)


@pytest.mark.parametrize(
    ("heading", "names"),
    [
        ("torch._dynamo.config", set(CONFIG._config)),  # type: ignore[attr-defined]
        ("torch.compiler.config", set(torch.compiler.config._config)),  # type: ignore[attr-defined]
        ("torch.compiler", public(torch.compiler)),
        ("torch._dynamo", public(dynamo)),
    ],
)
def test_every_name_has_a_row(heading: str, names: set[str]) -> None:
    rows = tables()[heading]
    assert names - set(rows) == set()
    assert {verdict for verdict, _ in rows.values()} <= VERDICTS


def test_named_tests_exist() -> None:
    sources = {path.name: path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    text = (ROOT / "docs/surface.md").read_text()
    for file, name in re.findall(r"`(test_\w+\.py)::(\w+)`", text):
        assert f"def {name}(" in sources[file], (file, name)
    for rows in tables().values():
        for name, (verdict, said) in rows.items():
            assert verdict != "honoured" or "::test_" in said, name


def test_settings_that_are_not_followed_are_the_tables() -> None:
    written = re.findall(r"^SETTING\((\w+),", (ROOT / "src/torch/2_13/torch_settings.def").read_text(), re.MULTILINE)
    rows = tables()["torch._dynamo.config"]
    assert set(written) == {name for name, (verdict, _) in rows.items() if verdict == "warned of"}


# ---- settings


def ones() -> torch.Tensor:
    return torch.ones(2)


def scaled(x: torch.Tensor, k: int = 1) -> torch.Tensor:
    return x * k


@pytest.fixture
def told() -> Iterator[list[str]]:
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield texts
        texts[:] = [str(warning.message) for warning in caught]


def test_unfollowed_settings_are_warned_of_once() -> None:
    """In a process of its own: each is told once a process."""
    program = """
import warnings, gramme, torch, torch._dynamo
other = {bool: lambda v: not v, str: lambda v: v + "x", set: lambda v: {int}, type(None): lambda v: "x"}
names = %r
config = torch._dynamo.config
f = gramme.compile(lambda x, k: x * k, backend="eager", dynamic=False)
with warnings.catch_warnings(record=True) as before:
    warnings.simplefilter("always")
    f(torch.ones(2), 0)
assert not before, [str(w.message) for w in before]
patches = {n: other[type(getattr(config, n))](getattr(config, n)) for n in names}
with config.patch(**patches):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        f(torch.ones(2), 1), f(torch.ones(2), 2)
texts = [str(w.message) for w in caught]
for name in names:
    assert sum(f".{name} = " in text for text in texts) == 1, (name, texts)
"""
    names = [
        name
        for name, row in tables()["torch._dynamo.config"].items()
        if row[0] == "warned of" and name in CONFIG._config
    ]
    subprocess.run([sys.executable, "-c", program % names], check=True, timeout=120)


def test_captures_can_be_disabled() -> None:
    compiled = Compiled(scaled)
    with CONFIG.patch(disable=True):
        assert compiled(ones()).tolist() == [1, 1]
    assert compiled.recorder.graphs == []
    compiled(ones())
    with CONFIG.patch(disable=True):
        assert compiled(ones()).tolist() == [1, 1]  # a hit
        assert compiled(ones(), 3).tolist() == [3, 3]
    assert len(compiled.recorder.graphs) == 1


@pytest.mark.parametrize("name", ["TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE"])
def test_the_environment_disables_captures(name: str) -> None:
    program = "import gramme, torch; f = gramme.compile(lambda x: x + 1, backend=exit); print(f(torch.ones(1)).item())"
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, name: "1"}, capture_output=True, check=True, timeout=120
    )
    assert done.stdout == b"2.0\n"


def test_a_recompile_is_an_error() -> None:
    compiled = Compiled(scaled)
    with CONFIG.patch(error_on_recompile=True):
        compiled(ones())
        compiled(ones())
        with pytest.raises(dynamo.exc.RecompileError, match=r"(?s)scaled.*L\['k'\] changed from 1 to 2"):
            compiled(ones(), 2)
    assert compiled(ones(), 2).tolist() == [2, 2]


@pytest.mark.parametrize(
    "limits", [{"recompile_limit": 2}, {"cache_size_limit": 2}, {"accumulated_recompile_limit": 2}]
)
def test_the_recompile_limit_is_read_at_captures(limits: dict[str, int], told: list[str]) -> None:
    compiled = Compiled(scaled, dynamic=False)
    with CONFIG.patch(**limits):
        for k in range(5):
            assert compiled(ones(), k).tolist() == [k, k]
    assert len(compiled.recorder.graphs) == 2


@pytest.mark.parametrize("name", ["fail_on_recompile_limit_hit", "fail_on_cache_limit_hit"])
def test_the_recompile_limit_is_an_error(name: str) -> None:
    compiled = Compiled(scaled, dynamic=False)
    with CONFIG.patch(recompile_limit=1, **{name: True}):
        compiled(ones())
        for kind in (dynamo.exc.FailOnRecompileLimitHit, RuntimeError):
            with pytest.raises(kind, match="recompile limit"):
                compiled(ones(), 2)
        assert compiled(ones()).tolist() == [1, 1]


def test_settings_that_exclude_each_other() -> None:
    with CONFIG.patch(suppress_errors=True, fail_on_recompile_limit_hit=True):
        with pytest.raises(RuntimeError, match="exclude each other"):
            gramme.compile(scaled)


def test_allow_rnn() -> None:
    for allowed in (False, True):
        compiled = Compiled(torch.nn.LSTM(2, 2))
        with CONFIG.patch(allow_rnn=allowed):
            compiled(torch.ones(1, 1, 2))[0].sum().backward()
        assert ("torch.lstm" in compiled.recorder.ops) == allowed


def test_only_compliant_operators() -> None:
    with torch.library._scoped_library("gramme_surface", "DEF") as lib:
        lib.define("plus(Tensor x) -> Tensor")
        lib.impl("plus", lambda x: x + 1, "CompositeImplicitAutograd")
        plus = torch.ops.gramme_surface.plus.default
        compiled = Compiled(lambda x: plus(x * 2), fullgraph=True)
        with CONFIG.patch(only_allow_pt2_compliant_ops=True):
            with pytest.raises(gramme.CaptureError, match="pt2_compliant_tag"):
                compiled(ones())
            assert Compiled(lambda x: torch.ops.aten.sin(x), fullgraph=True)(ones()).shape == (2,)
        assert compiled(ones()).tolist() == [3, 3]


def test_ints_are_constants() -> None:
    compiled = Compiled(scaled)
    with CONFIG.patch(specialize_int=True):
        for k in (2, 3, 4):
            compiled(ones(), k)
    assert len(compiled.recorder.graphs) == 3


@pytest.mark.parametrize("name", ["ignore_logging_functions", "ignore_logger_methods", "reorderable_logging_functions"])
def test_ignored_functions(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        print("here")
        return x + 1

    compiled = Compiled(f, fullgraph=True)
    with CONFIG.patch(**{name: {print}}):
        assert compiled(ones()).tolist() == [2, 2]
    assert capsys.readouterr().out == ("" if "ignore" in name else "here\n")


def test_verbose_is_of_logs() -> None:
    with CONFIG.patch(verbose=True):
        assert Compiled(scaled)(ones()).tolist() == [1, 1]


# ---- functions


def test_disable_of_one_function() -> None:
    @torch.compiler.disable(recursive=False)
    def plain(x: torch.Tensor) -> torch.Tensor:
        assert not torch.compiler.is_compiling()
        return x + 1

    compiled = Compiled(lambda x: plain(x * 2) - 1)
    assert compiled(ones()).tolist() == [2, 2]
    assert compiled.recorder.ops == ["operator.mul", "operator.sub"]


@torch.compiler.assume_constant_result
def three() -> int:
    return 3


def test_constant_result() -> None:
    compiled = Compiled(lambda x: x + three(), fullgraph=True)
    assert compiled(ones()).tolist() == [4, 4]


def test_questions() -> None:
    compiled = Compiled(lambda x: (x + 1, torch.compiler.is_exporting(), dynamo.is_compiling()), fullgraph=True)
    assert compiled(ones())[1:] == (False, True)


def test_default_backend() -> None:
    seen: list[Any] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        seen.append(graph)
        return graph.forward

    before = torch.compiler.get_default_backend()
    torch.compiler.set_default_backend(backend)
    try:
        assert gramme.compile(scaled)(ones()).tolist() == [1, 1]
    finally:
        torch.compiler.set_default_backend(before)
    assert len(seen) == 1


def test_wrap_numpy() -> None:
    doubled = torch.compiler.wrap_numpy(lambda x: x * 2)
    assert Compiled(doubled)(ones()).tolist() == [2, 2]


def double(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * 2


def printing(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    print("between")
    return y + 1


def broken(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    dynamo.graph_break()
    return y + 1


def counting() -> tuple[Any, list[Any]]:
    graphs: list[Any] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        graphs.append(graph)
        return graph.forward

    return backend, graphs


def test_functions_that_stay_pytorchs() -> None:
    with gramme.install():
        assert dynamo.export(torch.compile(double, backend="eager"))(ones()).graph_module is not None


@pytest.mark.parametrize("by_name", [False, True])
def test_optimize(by_name: bool, capsys: pytest.CaptureFixture[str]) -> None:
    with gramme.install():
        backend, graphs = counting()
        compiled = (dynamo.optimize(backend=backend, dynamic=False) if by_name else dynamo.optimize(backend))(printing)
        assert torch.equal(compiled(ones()), printing(ones()))
        captures = gramme.statistics(compiled).captures
        assert captures > 0
        assert torch.equal(compiled(ones()), printing(ones()))
        assert len(graphs) == 2
        assert gramme.statistics(compiled).captures == captures
        assert dynamo.optimize("eager", disable=True)(double) is double
        module = dynamo.optimize("eager")(torch.nn.Linear(3, 2))
        assert module(torch.ones(2, 3)).shape == (2, 2)
        assert isinstance(module, dynamo.OptimizedModule)
        with pytest.raises(RuntimeError, match="context manager"), dynamo.optimize("eager"):
            pass
    assert capsys.readouterr().out == "between\n" * 4
    with pytest.raises(TypeError):  # PyTorch's own again
        gramme.statistics(dynamo.optimize("eager")(double))


def test_optimize_assert() -> None:
    with gramme.install():
        backend, graphs = counting()
        compiled = dynamo.optimize_assert(backend)(double)
        assert torch.equal(compiled(ones()), double(ones()))
        assert len(graphs) == 1
        assert gramme.statistics(compiled).captures == 1
        with pytest.raises(gramme.CaptureError, match="graph_break"):
            dynamo.optimize_assert(backend)(broken)(ones())


def test_what_pytorch_calls_itself_stays() -> None:
    """torch.cond outside of a compiled function is compiled by torch.compile, and that calls optimize."""
    with gramme.install():
        found = torch.cond(torch.tensor(True), lambda x: x.sin(), lambda x: x.cos(), (ones(),))
        assert torch.equal(found, ones().sin())


def test_run() -> None:
    with gramme.install():
        compiled = torch.compile(double, backend="eager")
        assert torch.equal(dynamo.run(compiled)(ones()), double(ones()))
        assert gramme.statistics(compiled).captures == 0
        compiled(ones())
        assert torch.equal(dynamo.run(compiled)(ones()), double(ones()))
        assert torch.equal(dynamo.run(compiled)(ones().double()), double(ones().double()))
        assert gramme.statistics(compiled).captures == 1
        assert gramme.statistics(compiled).hits == 1


def test_explain_of_dynamo(capsys: pytest.CaptureFixture[str]) -> None:
    with gramme.install():
        whole = dynamo.explain(torch.compile(double, backend="eager"))(ones())
        broken = dynamo.explain(printing)(ones())
        with pytest.warns(FutureWarning, match="deprecated"):
            assert dynamo.explain(double, ones()).op_count == 2
    assert (whole.graph_count, whole.graph_break_count, whole.op_count, whole.break_reasons) == (1, 0, 2, [])
    assert (broken.graph_count, broken.graph_break_count, broken.op_count) == (2, 1, 2)
    assert "print" in broken.break_reasons[0].reason
    assert broken.break_reasons[0].user_stack[-1].name == "printing"
    assert [len(ops) for ops in broken.ops_per_graph] == [1, 1]
    assert len(broken.graphs) == 2
    assert broken.out_guards
    lines = str(broken).splitlines()
    assert lines[:4] == ["Graph Count: 2", "Graph Break Count: 1", "Op Count: 2", "Break Reasons:"]


@pytest.mark.parametrize("reset", [dynamo.reset, lambda: dynamo.reset(), torch.compiler.reset])
def test_reset_of_dynamo(reset: Any) -> None:
    """With gramme.install() and without; a name that was taken from torch._dynamo before gramme was imported stays."""
    compiled = gramme.compile(double, backend="eager")
    compiled(ones())
    reset()
    assert gramme.statistics(compiled).segments == 0
    with gramme.install():
        compiled = torch.compile(double, backend="eager")
        compiled(ones())
        reset()
        assert gramme.statistics(compiled).segments == 0
    compiled(ones())
    dynamo.reset()
    assert gramme.statistics(compiled).segments == 0


def test_reset_of_a_module_that_is_imported_later() -> None:
    program = """
import sys, torch, gramme
assert "torch._dynamo" not in sys.modules
compiled = gramme.compile(torch.sin, backend="eager")
compiled(torch.ones(2))
assert gramme.statistics(compiled).segments == 1
import torch._dynamo
torch._dynamo.reset()
assert gramme.statistics(compiled).segments == 0
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_isolated_recompiles() -> None:
    """Captures of one function count for each of its compiled forms, as they do anyway."""
    first, second = (
        gramme.compile(scaled, backend="eager", dynamic=False, recompile_limit=2, isolate_recompiles=True)
        for _ in range(2)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for compiled in (first, second):
            for k in (1, 2):
                assert compiled(ones(), k).tolist() == [k, k]
    assert [gramme.statistics(compiled).captures for compiled in (first, second)] == [2, 2]


def test_names_are_put_at_the_import_of_dynamo() -> None:
    program = """
import sys, torch, gramme
with gramme.install():
    assert "torch._dynamo" not in sys.modules
    import torch._dynamo
    compiled = torch._dynamo.optimize("eager")(torch.sin)
    assert gramme.statistics(compiled).captures == 0
assert torch._dynamo.optimize.__module__ == "torch._dynamo.eval_frame"
assert not hasattr(torch._dynamo.optimize, "__wrapped__")
with gramme.install():
    assert hasattr(torch._dynamo.optimize, "__wrapped__")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("ask", [dynamo.skip_frame, dynamo.step_unsupported, dynamo.graph_break])
def test_breaks_asked_for(ask: Any) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        ask()
        return y * 2

    compiled = Compiled(f)
    assert compiled(ones()).tolist() == [4, 4]
    assert compiled.recorder.graphs == [["operator.add"], ["operator.mul"]]


def test_disallowed_functions() -> None:
    dynamo.disallow_in_graph(torch.sinh)
    try:
        compiled = Compiled(lambda x: torch.sinh(x * 2) - 1)
        assert torch.equal(compiled(ones()), torch.sinh(ones() * 2) - 1)
    finally:
        dynamo.allow_in_graph(torch.sinh)
    assert compiled.recorder.ops == ["operator.mul", "operator.sub"]


def breaks_within(x: torch.Tensor) -> torch.Tensor:
    with dynamo.error_on_graph_break(True):
        y = x + 1
        dynamo.graph_break()
    return y * 2


def breaks_around(x: torch.Tensor) -> torch.Tensor:
    dynamo.graph_break()
    with dynamo.error_on_graph_break(True):
        y = x + 1
    dynamo.graph_break()
    return y * 2


@dynamo.error_on_graph_break(True)
def breaks(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    dynamo.graph_break()
    return y * 2


def test_breaks_are_errors_where_asked() -> None:
    for _ in range(2):
        for function in (breaks_within, lambda x: breaks(x) + 1):
            with pytest.raises(dynamo.exc.Unsupported, match=r"graph_break\(\) was called"):
                Compiled(function)(ones())
        assert Compiled(breaks_around)(ones()).tolist() == [4, 4]
    assert breaks_within(ones()).tolist() == [4, 4]


def test_a_whole_graph_needs_no_such_region() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        with dynamo.error_on_graph_break(False):
            y = x + 1
        return y * 2

    assert Compiled(f, fullgraph=True)(ones()).tolist() == [4, 4]


def test_static_addresses() -> None:
    x = ones()
    dynamo.mark_static_address(x)
    assert Compiled(scaled)(x).tolist() == [1, 1]
    assert x._dynamo_static_input_type == "unguarded"  # type: ignore[attr-defined]


@dynamo.nonstrict_trace
def whole(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def test_nonstrict_functions() -> None:
    assert Compiled(lambda x: whole(x) * 2, fullgraph=True)(ones()).tolist() == [4, 4]


def test_callbacks() -> None:
    events: list[str] = []
    handler = dynamo.callback_handler
    start = handler.register_start_callback(lambda args: events.append("start"))
    end = handler.register_end_callback(lambda args: events.append("end"))
    try:
        compiled = Compiled(scaled)
        compiled(ones())
        compiled(ones())
        with pytest.raises(gramme.CaptureError):
            Compiled(breaks, fullgraph=True)(ones())
    finally:
        handler.remove_start_callback(start)
        handler.remove_end_callback(end)
    assert events == ["start", "end"] * 2


def test_comptime_is_warned_of() -> None:
    program = """
import torch, gramme, warnings
from torch._dynamo.comptime import comptime
def f(x):
    comptime(lambda context: exit(1))
    comptime.print_graph()
    return x + 1
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    gramme.compile(f, backend="eager")(torch.ones(2))
assert sum("comptime" in str(w.message) for w in caught) == 1
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


# ---- compiled objects


class Scaled(torch.nn.Module):
    def forward(self, x: torch.Tensor, k: int = 2) -> torch.Tensor:
        return x * k


def test_what_programs_look_for() -> None:
    function, module = gramme.compile(scaled, backend="eager"), gramme.compile(Scaled(), backend="eager")
    assert function._torchdynamo_orig_callable is function.__wrapped__ is scaled
    assert function.__code__ is scaled.__code__
    assert inspect.signature(function) == inspect.signature(scaled)
    assert inspect.signature(module) == inspect.signature(Scaled().forward)
    assert function.get_compiler_config() is module.get_compiler_config() is None
    assert gramme.compile(scaled, options={"max_autotune": True}).get_compiler_config()["max_autotune"] is True
    assert module.dynamo_ctx(scaled)(ones(), 3).tolist() == [3, 3]
    for compiled in (function, module):
        with pytest.raises(NotImplementedError, match="aot_compile"):
            compiled.aot_compile(((ones(),), {}))


def test_tracers_go_through() -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    function, module = gramme.compile(scaled, backend="eager"), gramme.compile(Scaled(), backend="eager")
    assert torch.export.export(module, (ones(),)).module()(ones()).tolist() == [2, 2]
    assert make_fx(lambda x: function(x, 3))(ones())(ones()).tolist() == [3, 3]
    assert torch.jit.trace(lambda x: function(x, 3), ones())(ones()).tolist() == [3, 3]
    assert torch.fx.symbolic_trace(lambda x: function(x, 3))(ones()).tolist() == [3, 3]
