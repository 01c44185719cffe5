"""Wrong arguments are named, and what belongs to the surface of the package is there."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gramme
import pytest
import torch
from gramme import _repro
from gramme.pipeline import split
from torch import nn


def f(x: torch.Tensor) -> torch.Tensor:
    return x + 1


WRONG: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "negative limit": ({"recompile_limit": -1}, ValueError, "recompile_limit: expected 0 or more, got -1"),
    "limit that is a flag": ({"recompile_limit": True}, TypeError, "recompile_limit: expected an int, got bool"),
    "word for fullgraph": ({"fullgraph": "yes"}, TypeError, "fullgraph: expected a bool, got 'yes'"),
    "number for fullgraph": ({"fullgraph": 2}, TypeError, "fullgraph: expected a bool, got 2"),
    "word for disable": ({"disable": "no"}, TypeError, "disable: expected a bool, got 'no'"),
    "word for dynamic": ({"dynamic": "yes"}, TypeError, "dynamic: expected a bool or None, got str"),
    "list of options": ({"options": ["trace"]}, TypeError, "options: expected a dict, got list"),
    "pairs of options": ({"options": [("a", 1)], "backend": "inductor"}, TypeError, "options: expected a dict"),
    "number for the backend": ({"backend": 3}, TypeError, "backend: expected a name or a callable, got int"),
    "name nearly native": ({"backend": "nativ"}, RuntimeError, "did you mean 'native'"),
    "name nearly inductor": ({"backend": "inductr"}, RuntimeError, "did you mean 'inductor'"),
    "name like none": ({"backend": "qqqqqq"}, RuntimeError, "'qqqqqq', see `gramme.list_backends\\(\\)` for"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_options(name: str) -> None:
    options, kind, text = WRONG[name]
    with pytest.raises(kind, match=text):
        gramme.compile(f, **({"backend": "eager"} | options))
    with pytest.raises(kind, match=text):
        gramme.compile(**({"backend": "eager"} | options))(f)


def test_flags_that_torch_compile_takes() -> None:
    assert gramme.compile(f, backend="eager", fullgraph=1)(torch.ones(1)).tolist() == [2]  # type: ignore[arg-type]
    assert gramme.compile(f, backend="eager", fullgraph=None)(torch.ones(1)).tolist() == [2]  # type: ignore[arg-type]
    assert gramme.compile(f, backend="eager", recompile_limit=0)(torch.ones(1)).tolist() == [2]


@pytest.mark.parametrize("wrong", [3, None, "f"])
def test_disable_of_what_is_no_function(wrong: Any) -> None:
    with pytest.raises(TypeError, match=f"function: expected a callable, got {type(wrong).__name__}"):
        gramme.disable(wrong)


def test_split_of_something_else() -> None:
    model: Any = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
    x: Any = torch.ones(3, 2)
    with pytest.raises(TypeError, match="example_args: expected a tuple of arguments, got Tensor"):
        split(model, x, stages=2)
    with pytest.raises(TypeError, match="example_args: expected a tuple of arguments, got dict"):
        split(model, {"input": x}, stages=2)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"model: expected a torch.nn.Module, got function"):
        split(f, (x,), stages=2)  # type: ignore[arg-type]
    made = split(model, [x], stages=2)  # type: ignore[arg-type]
    assert torch.equal(made(x), model(x))


def test_plans_are_drawn_as_svg(tmp_path: Path) -> None:
    plan = split(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), (torch.ones(3, 2),), stages=2).plan
    for name in ("plan.png", "plan.PDF", "plan.svg.png"):
        with pytest.raises(ValueError, match=f"path: plans are drawn as SVG.*{name}"):
            plan.save(tmp_path / name)
        assert not (tmp_path / name).exists()
    for name in ("plan.svg", "plan.SVG", "plan"):
        plan.save(str(tmp_path / name))
        assert (tmp_path / name).read_text().startswith("<svg")


def run(program: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_surface_of_the_package() -> None:
    told = run("import gramme; print(gramme.__version__, gramme.pipeline.split.__name__, hasattr(gramme, 'missing'))")
    assert told.split() == ["0.1.0", "split", "False"]
    assert {"eager", "native", "inductor", "cudagraphs"} <= set(gramme.list_backends())
    assert gramme.list_backends() == sorted(set(gramme.list_backends()) | set(torch.compiler.list_backends()))
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert f'version = "{gramme.__version__}"' in project


def test_statistics_where_compiling_is_switched_off() -> None:
    program = """
import torch, gramme
f = gramme.compile(lambda x: x + 1, backend="eager")
m = gramme.compile(torch.nn.Linear(2, 2), backend="native")
f(torch.ones(2)), m(torch.ones(2))
print(gramme.statistics(f))
assert vars(gramme.statistics(f)) == vars(gramme.statistics(m))
try:
    gramme.statistics(3)
except TypeError as error:
    print(error)
"""
    zeros = (
        "Statistics(hits=0, captures=0, shared=0, segments=0, plain_runs=0, steps=0, handovers=0, graph_errors=0, "
        "recorded_backwards=0)"
    )
    assert run(program, TORCHDYNAMO_DISABLE="1").splitlines() == [
        zeros,
        "compiled: expected what gramme.compile returned, got int",
    ]


def test_saved_graphs_do_not_pile_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    _repro._folder_of.cache_clear()
    for i in range(30):
        old = tmp_path / f"gramme_failed_{i}"
        old.mkdir()
        os.utime(old, (i, i))
    other = tmp_path / "other"
    other.mkdir()
    graph = torch.fx.symbolic_trace(nn.ReLU())
    paths = [_repro.save_graph(graph, "mine", ValueError("no")) for _ in range(25)]
    _repro._folder_of.cache_clear()
    folder = Path(paths[-1]).parent
    assert {Path(path).parent for path in paths} == {folder}
    assert sorted(tmp_path.iterdir()) == sorted(
        [other, folder, *(tmp_path / f"gramme_failed_{i}" for i in range(21, 30))]
    )
    assert sorted(folder.iterdir()) == sorted(map(Path, paths[-10:]))


# ---- PyTorch's other front ends on compiled objects


class Model(nn.Module):
    def __init__(self, compile: Callable[..., Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inner = compile(nn.Sequential(nn.Linear(2, 2), nn.Tanh()))
        self.function = compile(f)

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(self.inner(x)) * 2


def front(compiled: Any) -> Any:
    return gramme.compile(compiled, backend="eager")


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("outer", [False, True])
def test_export(outer: bool, strict: bool) -> None:
    x = torch.ones(3, 2)
    model: Any = front(Model(lambda m: m)) if outer else Model(front)
    exported = torch.export.export(model, (x,), strict=strict)
    calls = [node.target for node in exported.graph.nodes if node.op == "call_function"]
    aten: Any = torch.ops.aten
    assert calls == [aten.linear.default, aten.tanh.default, aten.add.Tensor, aten.mul.Tensor]
    assert torch.equal(exported.module()(x), Model(lambda m: m)(x))
    assert torch.equal(model(x), Model(lambda m: m)(x))


def test_torch_compile_of_compiled_objects() -> None:
    x = torch.ones(3, 2)
    assert torch.equal(torch.compile(Model(front), backend="eager", fullgraph=True)(x), Model(lambda m: m)(x))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_script() -> None:
    """As of PyTorch's own: the function's source is that of what was compiled."""
    for compile in (front, lambda compiled: torch.compile(compiled, backend="eager")):
        scripted: Any = torch.jit.script(compile(f))
        assert "torch.add" in scripted.code
        assert scripted(torch.ones(1)).tolist() == [2]
        with pytest.raises(ValueError, match="Unknown type annotation"):
            torch.jit.script(compile(nn.ReLU()))
