"""The public functions: forms of compile, disable, reset, statistics, explain, and what torch.compiler's own do."""

import asyncio
import inspect
from typing import Any

import gramme
import pytest
import torch

from e2e import front
from e2e.front import GRAMME, Compiled, Recorder

only_gramme = pytest.mark.skipif(not GRAMME, reason="gramme's own functions")


def ones() -> torch.Tensor:
    return torch.ones(3)


# Forms of compile.


def test_decorator_with_and_without_arguments() -> None:
    recorder = Recorder()

    @front.compile(backend=recorder)
    def f(x: torch.Tensor, k: int = 2) -> torch.Tensor:
        """Doc."""
        return x * k

    assert f(ones()).tolist() == [2, 2, 2]
    assert f(x=ones(), k=3).tolist() == [3, 3, 3]
    assert (f.__name__, f.__doc__) == ("f", "Doc.")
    assert recorder.graphs == [["operator.mul"]] * 2


def test_keyword_arguments_and_defaults_are_one_call() -> None:
    compiled = Compiled(lambda x, k=2, *, s=1: x * k + s)
    compiled(ones())
    before = compiled.captures
    for result in (compiled(ones(), 2), compiled(x=ones()), compiled(ones(), s=1, k=2)):
        assert result.tolist() == [3, 3, 3]
    assert compiled.captures == before


class Model:
    kind = 2

    def __init__(self) -> None:
        self.weight = ones() * 3

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight

    @front.compile(backend="eager")
    def decorated(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.weight

    @classmethod
    def of_class(cls, x: torch.Tensor) -> torch.Tensor:
        return x * cls.kind

    @staticmethod
    def alone(x: torch.Tensor) -> torch.Tensor:
        return x - 1

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self.forward(x) + 1


@pytest.mark.parametrize("fullgraph", [False, True])
def test_methods(fullgraph: bool) -> None:
    model = Model()

    def compile(f: Any) -> Any:
        return front.compile(f, backend="eager", fullgraph=fullgraph)

    assert compile(model.forward)(ones()).tolist() == [3, 3, 3]
    assert compile(Model.forward)(model, ones()).tolist() == [3, 3, 3]
    assert compile(Model.of_class)(ones()).tolist() == [2, 2, 2]
    assert compile(Model.alone)(ones()).tolist() == [0, 0, 0]
    assert model.decorated(ones()).tolist() == [4, 4, 4]
    model.weight = ones()
    assert model.decorated(ones()).tolist() == [2, 2, 2]


def test_callable_object() -> None:
    assert front.compile(Model(), backend="eager")(ones()).tolist() == [4, 4, 4]


def test_two_compiled_forms_share_nothing() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    first, second = Compiled(f), Compiled(f)
    first(ones())
    assert second.recorder.graphs == []
    second(ones())
    assert first.recorder.graphs == second.recorder.graphs == [["operator.add"]]


def test_compiled_calls_compiled() -> None:
    inner = front.compile(lambda x: x * 2, backend="eager")
    outer = Compiled(lambda x: inner(x) + 1)
    for _ in range(2):
        assert outer(ones()).tolist() == [3, 3, 3]


def test_recursion_through_the_compiled_function() -> None:
    recorder = Recorder()

    @front.compile(backend=recorder)
    def f(x: torch.Tensor, n: int) -> torch.Tensor:
        return x if n == 0 else f(x + 1, n - 1) * 2

    assert f(ones(), 3).tolist() == [32, 32, 32]
    assert f(ones(), 3).tolist() == [32, 32, 32]


def test_disable_argument() -> None:
    recorder = Recorder()
    compiled = front.compile(lambda x: x + 1, backend=recorder, disable=True)
    assert compiled(ones()).tolist() == [2, 2, 2]
    assert recorder.graphs == []


def test_generator_function_as_root() -> None:
    def f(x: torch.Tensor) -> Any:
        for i in range(3):
            yield x + i

    compiled = front.compile(f, backend="eager")
    for _ in range(2):
        assert [y[0].item() for y in compiled(ones())] == [1, 2, 3]


async def coroutine(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def test_coroutine_function_as_root() -> None:
    running = front.compile(coroutine, backend="eager")(ones())
    with pytest.raises(StopIteration) as stop:
        running.send(None)
    assert stop.value.value.tolist() == [2, 2, 2]


@pytest.mark.skipif(not GRAMME, reason="torch.compile hides what the function is")
def test_inspect_tells_functions_apart() -> None:
    async def numbers() -> Any:
        yield 1

    def generator() -> Any:
        yield 1

    for function in (coroutine, numbers, generator, ones):
        compiled = front.compile(function, backend="eager")
        for ask in (inspect.iscoroutinefunction, inspect.isasyncgenfunction, inspect.isgeneratorfunction):
            assert ask(compiled) == ask(function)
        assert asyncio.iscoroutinefunction(compiled) == asyncio.iscoroutinefunction(function)
        assert inspect.signature(compiled) == inspect.signature(function)
    assert asyncio.run(front.compile(coroutine, backend="eager")(ones())).tolist() == [2, 2, 2]


def test_c_function_and_class_as_root() -> None:
    assert front.compile(torch.sin, backend="eager")(ones()).tolist() == torch.sin(ones()).tolist()
    if GRAMME:
        assert front.compile(dict, backend="eager")(a=1) == {"a": 1}


# What the graph is given.


def test_backend_gets_a_graph_module_and_inputs() -> None:
    seen: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        seen.append((graph, list(inputs)))
        return graph.forward

    def f(x: torch.Tensor, table: dict[str, torch.Tensor]) -> torch.Tensor:
        return x + table["w"]

    front.compile(f, backend=backend)(ones(), {"w": ones(), "unused": ones()})
    (graph, inputs), *more = seen
    assert not more
    assert isinstance(graph, torch.fx.GraphModule)
    assert len(inputs) == 2
    assert all(isinstance(i, torch.Tensor) for i in inputs)
    placeholders = [n.target for n in graph.graph.nodes if n.op == "placeholder"]
    assert placeholders == ["L_x_", "L_table_w_"]
    graph.graph.lint()


# torch.compiler's own.


def test_is_compiling_is_true_inside() -> None:
    def f(x: torch.Tensor) -> Any:
        return x + (10 if torch.compiler.is_compiling() else 1), torch.compiler.is_dynamo_compiling()

    compiled = Compiled(f, fullgraph=True)
    for _ in range(2):
        y, dynamo = compiled(ones())
        assert y.tolist() == [11, 11, 11]
        assert dynamo is True
    assert not torch.compiler.is_compiling()


@pytest.mark.parametrize("disable", [torch.compiler.disable, front.disable], ids=["torch", "own"])
def test_disable(disable: Any) -> None:
    calls: list[bool] = []

    @disable
    def plain(x: torch.Tensor) -> torch.Tensor:
        calls.append(torch.compiler.is_compiling())
        return x * 2

    compiled = Compiled(lambda x: plain(x + 1) - 1)
    for n in (1, 2):
        assert compiled(ones()).tolist() == [3, 3, 3]
        assert calls == [False] * n
    assert compiled.recorder.ops == ["operator.add", "operator.sub"]


@pytest.mark.parametrize("disable", [torch.compiler.disable, front.disable], ids=["torch", "own"])
def test_compile_around_disable_wins(disable: Any) -> None:
    recorder = Recorder()

    @disable
    def plain(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    assert front.compile(plain, backend=recorder)(ones()).tolist() == [2, 2, 2]
    assert recorder.graphs == [["operator.mul"]]


def kept_whole(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + 1


def test_allow_in_graph() -> None:
    torch.compiler.allow_in_graph(kept_whole)
    compiled = Compiled(lambda x: kept_whole(x * 2), fullgraph=True)
    assert torch.equal(compiled(ones()), kept_whole(ones() * 2))
    assert compiled.recorder.ops == ["operator.mul", "e2e.test_api.kept_whole"]


def test_graph_break_outside_does_nothing() -> None:
    assert front.graph_break() is None


# gramme's own.


def three_parts(x: torch.Tensor) -> torch.Tensor:
    x = x + 1
    print("first")
    x = x * 2
    if x.sum() > 0:
        x = x - 3
    return x


@only_gramme
def test_explain(capsys: pytest.CaptureFixture[str]) -> None:
    import gramme

    explained = gramme.explain(three_parts)(ones())
    assert capsys.readouterr().out == "first\n"
    assert explained.op_count >= 4
    assert explained.graph_count == sum(s.graph is not None for s in explained.segments)
    assert explained.graph_break_count == len(explained.break_reasons) == 2
    ours = [s for s in explained.segments if s.function == "three_parts"]  # print() may call a write() in Python
    assert [s.exit for s in ours].count("return") == 1
    assert {s.exit for s in explained.segments} <= {"return", "concrete", "handover"}
    start = three_parts.__code__.co_firstlineno
    assert {s.line - start for s in explained.segments if s.exit == "concrete"} == {2, 4}
    assert all(s.reason for s in explained.segments if s.exit == "concrete")
    assert any("x" in guard for guard in explained.segments[0].guards)
    assert explained.segments[0].graph is None or isinstance(explained.segments[0].graph, torch.fx.GraphModule)
    assert "print" in str(explained)


@only_gramme
def test_explain_of_one_graph() -> None:
    import gramme

    explained = gramme.explain(lambda x: (x + 1).cos())(ones())
    assert (explained.graph_count, explained.op_count, explained.graph_break_count) == (1, 2, 0)
    (segment,) = explained.segments
    assert segment.exit == "return"
    assert isinstance(segment.graph, torch.fx.GraphModule)


@only_gramme
def test_statistics() -> None:
    import gramme

    compiled = gramme.compile(lambda x, k: x * k, backend="eager")
    for _ in range(3):
        compiled(ones(), 2)
    counted = gramme.statistics(compiled)
    assert (counted.captures, counted.hits, counted.segments, counted.plain_runs) == (1, 2, 1, 0)
    compiled(ones(), ones())
    assert gramme.statistics(compiled).captures == 2


@only_gramme
def test_statistics_of_a_plain_function() -> None:
    import gramme

    with pytest.raises(TypeError):
        gramme.statistics(ones)


@only_gramme
def test_guards_are_bound_again_after_they_were_dropped() -> None:
    """Only the bound form of a plan holds addresses; the portable description alone gives it back."""
    settings = {"scale": 2.0, "shift": [1, 2]}
    compiled = front.compile(lambda x, s: x * s["scale"] + s["shift"][1], backend="eager")
    expected = compiled(ones(), settings)
    for _ in range(3):
        gramme._C.unbind(compiled)
        assert torch.equal(compiled(ones(), settings), expected)
    assert gramme.statistics(compiled).captures == 1
    gramme._C.unbind(compiled)
    settings["shift"][1] = 5
    assert torch.equal(compiled(ones(), settings), ones() * 2 + 5)
    assert gramme.statistics(compiled).captures > 1


# Compiling in the middle of a captured function.


def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@only_gramme
def test_compile_in_captured_code_is_captured_through() -> None:
    def f(x: torch.Tensor, keep: list[Any]) -> torch.Tensor:
        inner = gramme.compile(doubled, backend="eager", fullgraph=True)
        local = gramme.compile(lambda y: y + x, backend="eager")
        keep.append(inner)
        return local(inner(x)), inner is keep[-1], callable(inner)  # type: ignore[return-value]

    compiled = Compiled(f, fullgraph=True)
    keep: list[Any] = []
    for _ in range(2):
        result, same, is_callable = compiled(ones(), keep)
        assert (result.tolist(), same, is_callable) == ([3, 3, 3], True, True)
    assert compiled.recorder.graphs[0] == ["operator.mul", "operator.add"]
    assert keep[0] is not keep[1]
    for made in keep:
        assert made.__wrapped__ is doubled
        assert made(ones()).tolist() == [2, 2, 2]
    first, second = map(gramme.statistics, keep)
    assert (first.captures, second.captures, second.shared) == (1, 0, 1)


@only_gramme
def test_compile_in_captured_code_runs_for_real() -> None:
    """What is no function or has wrong options, and what asks for more than a call."""

    def wrong(x: torch.Tensor) -> Any:
        try:
            gramme.compile(doubled, backend="no_such_backend")
        except RuntimeError as error:
            return "no_such_backend" in str(error), x + 1

    def module(x: torch.Tensor) -> Any:
        inner = gramme.compile(torch.nn.ReLU(), backend="eager")
        return inner(x) + 1, type(inner).__name__

    def asked(x: torch.Tensor) -> Any:
        inner = gramme.compile(doubled, backend="eager")
        return inner.__name__, inner.__wrapped__ is doubled, inner(x)

    def disabled(x: torch.Tensor) -> Any:
        return gramme.compile(doubled, disable=True) is doubled, x

    def decorated(x: torch.Tensor) -> Any:
        @gramme.compile(backend="eager")
        def inner(y: torch.Tensor) -> torch.Tensor:
            return y + 1

        return inner(x)

    for f in (wrong, module, asked, disabled, decorated):
        compiled = Compiled(f)
        for _ in range(2):
            assert str(compiled(ones())) == str(f(ones()))
