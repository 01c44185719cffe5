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
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)

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


FALLBACKS = {
    "no kernel for fakes": lambda: UnsupportedOperatorException(torch.ops.aten.item.default),
    "data": lambda: DataDependentOutputException(torch.ops.aten.item.default),
    "sizes": lambda: DynamicOutputShapeException(torch.ops.aten.nonzero.default),
    "a tensor that no fake is like": lambda: UnsupportedFakeTensorException("sparse"),
    "SkipFrame": lambda: torch._dynamo.exc.SkipFrame("not mine"),
    "an index": lambda: IndexError("no such dimension"),
    "anything": lambda: ArithmeticError("it cannot be done"),
}


def kinds_raised(front: Any, make: Any, function: Any = double, **options: Any) -> set[type[BaseException]] | str:
    """What a call raises where the backend does, of kinds that programs catch."""

    def refuses(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        raise make()

    torch._dynamo.reset()
    try:
        assert torch.equal(front(function, backend=refuses, **options)(X), function(X))
    except (RuntimeError, IndexError) as error:
        known = (BackendCompilerFailed, torch._dynamo.exc.Unsupported, IndexError, RuntimeError)
        return {kind for kind in known if isinstance(error, kind)} - {RuntimeError}
    return "ran plainly"


@pytest.mark.parametrize("suppress", [False, True])
@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("name", FALLBACKS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_a_backend_may_raise_is_as_under_pytorchs_front_end(name: str, fullgraph: bool, suppress: bool) -> None:
    with torch._dynamo.config.patch(suppress_errors=suppress):
        theirs = kinds_raised(torch.compile, FALLBACKS[name], fullgraph=fullgraph)
        assert kinds_raised(gramme.compile, FALLBACKS[name], fullgraph=fullgraph) == theirs


@torch.compiler.allow_in_graph
def allowed(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def test_no_fallback_from_what_the_program_allowed() -> None:
    for front in (torch.compile, gramme.compile):
        assert kinds_raised(front, FALLBACKS["data"], lambda x: allowed(x) * 2) == {BackendCompilerFailed}


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


# ---- graphs that fail when they run


def raising(kind: type[Exception] = ArithmeticError, calls: int = 0) -> Any:
    """A backend whose graphs run and then raise, from the call after the first `calls` on."""

    def raises(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        seen = []

        def run(*arguments: Any) -> Any:
            seen.append(1)
            result = graph.forward(*arguments)
            if len(seen) > calls:
                raise kind("a defect")
            return result

        return run

    return raises


def one_too_many(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
    return lambda *arguments: (*graph.forward(*arguments), 1)


COUNT: list[int] = []


def counted(x: torch.Tensor) -> torch.Tensor:
    COUNT.append(1)
    return x * 2


def counted_in_a_try(x: torch.Tensor) -> torch.Tensor:
    COUNT.append(1)
    try:
        return x * 2
    except (ArithmeticError, RuntimeError):
        return x * 3
    finally:
        COUNT.append(2)


def counted_in_a_with(x: torch.Tensor) -> torch.Tensor:
    COUNT.append(1)
    with torch.no_grad():
        return x * 2


def counted_in_the_middle(x: torch.Tensor) -> torch.Tensor:
    COUNT.append(1)
    gramme.graph_break()
    return x * 2


PLAIN = [counted, counted_in_a_try, counted_in_a_with, counted_in_the_middle]


@pytest.mark.parametrize("calls", [0, 2])
@pytest.mark.parametrize("program", PLAIN, ids=lambda p: p.__name__)
def test_a_backends_own_exception_is_raised_after_the_effects(program: Any, calls: int) -> None:
    compiled = gramme.compile(program, backend=raising(calls=calls))
    for call in range(calls + 2):
        COUNT.clear()
        program(X)
        expected = list(COUNT)
        COUNT.clear()
        if call < calls:
            assert torch.equal(compiled(X), X * 2)
        else:
            with pytest.raises(gramme.BackendError, match="backend 'raises'.*ArithmeticError.*a defect") as caught:
                compiled(X)
            assert isinstance(caught.value.__cause__, ArithmeticError)
            assert "took place" in caught.value.__notes__[0]
        assert expected == COUNT


def test_suppressed_it_is_a_warning() -> None:
    compiled = gramme.compile(counted, backend=raising())
    with torch._dynamo.config.patch(suppress_errors=True), pytest.warns(RuntimeWarning, match="'raises'.*a defect"):
        assert torch.equal(compiled(X), X * 2)


def written(x: torch.Tensor) -> torch.Tensor:
    return x.add_(1) * 2


def written_in_a_try(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    try:
        return x * 2
    except ArithmeticError:
        return x * 3


def written_in_the_middle(x: torch.Tensor) -> torch.Tensor:
    gramme.graph_break()
    x.add_(1)
    return x * 2


@pytest.mark.parametrize("program", [written, written_in_a_try, written_in_the_middle], ids=lambda p: p.__name__)
def test_after_a_write_nothing_runs_again(program: Any) -> None:
    compiled, x = gramme.compile(program, backend=raising(calls=1)), torch.zeros(1)
    assert compiled(x).item() == 2
    for done in (2.0, 3.0):
        with pytest.raises(ArithmeticError, match="a defect") as caught:
            compiled(x)
        assert x.item() == done
        assert program.__name__ in [frame.name for frame in caught.traceback]


@pytest.mark.parametrize("program", [*PLAIN, written, written_in_the_middle], ids=lambda p: p.__name__)
def test_a_wrong_number_of_outputs(program: Any) -> None:
    compiled, x = gramme.compile(program, backend=one_too_many), torch.zeros(1)
    for call in (1, 2):
        with pytest.raises(gramme.BackendError, match="backend 'one_too_many'.*gave 2 outputs, .* has 1"):
            compiled(x)
        assert x.item() == (call if program.__name__.startswith("written") else 0)


def test_an_exception_that_the_program_handles_is_the_programs() -> None:
    def program(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        try:
            return x[i] * 2
        except IndexError:
            return x

    for backend in ("eager", "native", "aot_eager", raising(calls=10)):
        compiled = gramme.compile(program, backend=backend)
        for i in (0, 1, 9, 2, 9):
            assert torch.equal(compiled(X, torch.tensor([i])), program(X, torch.tensor([i])))


def test_modes_and_random_numbers_are_put_back() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            y = torch.rand(2)
        return x[:2] + y

    compiled = gramme.compile(program, backend=raising())
    torch.manual_seed(3)
    program(X)
    expected = torch.rand(1)
    torch.manual_seed(3)
    with pytest.raises(gramme.BackendError):
        compiled(X)
    assert torch.is_grad_enabled()
    assert torch.equal(torch.rand(1), expected)


@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
def test_modes_that_a_failing_graph_entered_are_left(backend: str) -> None:
    def program(x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, bool]:
        try:
            with torch.autocast("cpu", torch.bfloat16), torch.inference_mode():
                y = x[i]
        except IndexError:
            y = x * 2
        return y, torch.is_autocast_enabled("cpu")

    compiled = gramme.compile(program, backend=backend)
    for i in (1, 9, 1, 9):
        assert compiled(X, torch.tensor([i]))[1] is False
        assert not torch.is_autocast_enabled("cpu")
