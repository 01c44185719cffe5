"""A backend that fails is named, its graph is kept, and torch._dynamo's settings for it hold."""

import ast
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import gramme
import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed

X = torch.arange(4.0)


def double(x: torch.Tensor, bias: torch.Tensor = X) -> torch.Tensor:
    return (x * 2 + bias).reshape(2, 2)


def broken(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
    raise ArithmeticError("it cannot be done")


def failure(backend: Any = broken) -> BackendCompilerFailed:
    with pytest.raises(BackendCompilerFailed, match="it cannot be done") as caught:
        gramme.compile(double, backend=backend)(X)
    return caught.value


def test_the_error_is_torch_dynamos_and_keeps_the_cause() -> None:
    error = failure()
    assert "backend='broken'" in str(error)
    assert isinstance(error.__cause__, ArithmeticError)
    assert error.inner_exception is error.__cause__


def test_the_graph_is_saved_as_a_program() -> None:
    path = Path(re.search(r"The graph is in (\S+)", str(failure()))[1])
    text = path.read_text()
    module = ast.parse(text)
    assert any(isinstance(item, ast.ClassDef) and item.name == "GraphModule" for item in module.body)
    assert "reshape" in text
    assert "it cannot be done" in text


def test_the_saved_graph_runs() -> None:
    def fails(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        torch._functorch.aot_autograd.aot_module_simplified(graph, inputs, fw_compiler=lambda g, i: g.forward)
        raise ArithmeticError("it cannot be done")

    fails.__name__ = "eager"  # the file names the backend it is to be tried with
    path = re.search(r"The graph is in (\S+)", str(failure(fails)))[1]
    subprocess.run([sys.executable, path], check=True)


def test_suppress_errors_runs_plainly() -> None:
    compiled = gramme.compile(double, backend=broken)
    with torch._dynamo.config.patch(suppress_errors=True), pytest.warns(RuntimeWarning, match="it cannot be done"):
        assert torch.equal(compiled(X), double(X))


def test_suppress_errors_does_not_hide_a_missing_whole_graph() -> None:
    compiled = gramme.compile(double, backend=broken, fullgraph=True)
    with torch._dynamo.config.patch(suppress_errors=True), pytest.raises(BackendCompilerFailed):
        compiled(X)


def test_a_backend_that_asks_to_be_skipped() -> None:
    def skips(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        raise torch._dynamo.exc.SkipFrame("not mine")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(gramme.compile(double, backend=skips)(X), double(X))


def one_off(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
    return lambda *inputs: [output + 1 for output in graph.forward(*inputs)]


@pytest.mark.parametrize("backend", ["aot_eager", "eager_noexcept"])
def test_verify_correctness_accepts(backend: str) -> None:
    with torch._dynamo.config.patch(verify_correctness=True):
        assert torch.equal(gramme.compile(double, backend=backend)(X), double(X))


def test_verify_correctness_refuses() -> None:
    with torch._dynamo.config.patch(verify_correctness=True):
        with pytest.raises(BackendCompilerFailed, match="incorrect results of backend one_off"):
            gramme.compile(double, backend=one_off)(X)
    assert torch.equal(gramme.compile(double, backend=one_off)(X), double(X) + 1)
