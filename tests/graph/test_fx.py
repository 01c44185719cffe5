"""Graphs handed over as torch.fx: the same code as PyTorch's own front end gives, and sound for later edits."""

import copy
import operator
import pickle
from typing import Any

import pytest
import torch

from graph.binding import testing
from graph.dynamo_pairs import PAIRS, Pair, build, vector


def record(f: Any, args: tuple[Any, ...]) -> torch.fx.GraphModule:
    """The graph of PyTorch's own front end."""
    seen: list[torch.fx.GraphModule] = []

    def backend(gm: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        seen.append(gm)
        return gm.forward

    torch._dynamo.reset()
    torch.compile(f, backend=backend)(*args)
    assert len(seen) == 1
    return seen[0]


@pytest.mark.parametrize("p", PAIRS, ids=[p.name for p in PAIRS])
def test_code_is_dynamos(p: Pair) -> None:
    f, args = p.make()
    expected = record(f, args)
    gm = build(p, f).to_fx()
    gm.graph.lint()
    placeholders = [[(n.name, n.target, n.type) for n in g.graph.find_nodes(op="placeholder")] for g in (gm, expected)]
    assert placeholders[0] == placeholders[1]
    if p.name == "unused_items":  # which PyTorch keeps as they may have effects
        assert names(gm) == [n for n in names(expected) if n in names(gm)]
    else:
        assert gm.code == expected.code


def names(gm: torch.fx.GraphModule) -> list[str]:
    return [n.name for n in gm.graph.nodes]


def example() -> Any:
    g = testing.TestGraph()
    x = g.placeholder([("Local", "x")], torch.ones(2, 3))
    kept = g.call(operator.add, x, 1)
    dead = g.call(operator.add, x, 2)
    g.pure(dead)
    split = g.call(torch.split, kept, [1, 1], dim=0)
    a = g.call(operator.getitem, split, 0)
    b = g.call("mul", a, g.call(operator.add, kept, a))
    g.output([b, a])
    g.finish()
    return g


class TestGraphRoom:
    def test_print(self) -> None:
        assert example().print() == (
            "l_x_ = L['x']  # f32[2, 3]\n"
            "add = operator.add(l_x_, 1)  # f32[2, 3]\n"
            "split = torch.functional.split(add, [1, 1], dim=0)\n"
            "getitem = operator.getitem(split, 0)  # f32[1, 3]\n"
            "add_2 = operator.add(add, getitem)  # f32[2, 3]\n"
            "mul = getitem.mul(add_2)  # f32[2, 3]\n"
            "return (mul, getitem)\n"
        )

    def test_print_of_records(self) -> None:
        g = testing.TestGraph()
        x = g.placeholder([("Local", "x")], torch.ones(2, 3, dtype=torch.bfloat16, requires_grad=True))
        t = g.call("t", x)
        y = g.call("to", t, dtype=torch.int64)
        m = g.call(operator.gt, y, 1)
        n = g.placeholder([("Local", "n")], 3)
        f = g.call(operator.mul, n, 2.5)
        g.output([m, f])
        g.finish()
        assert g.print() == (
            "l_x_ = L['x']  # bf16[2, 3] grad\n"
            "l_n_ = L['n']  # int\n"
            "t = l_x_.t()  # bf16[3, 2] strides [1, 3] grad\n"
            "to = t.to(dtype=torch.int64)  # i64[3, 2] strides [1, 3]\n"
            "gt = operator.gt(to, 1)  # b8[3, 2] strides [1, 3]\n"
            "mul = operator.mul(l_n_, 2.5)  # float\n"
            "return (gt, mul)\n"
        )

    def test_dead_calls_and_inputs_go(self) -> None:
        g = testing.TestGraph()
        x, y = g.placeholder([("Local", "x")], vector()), g.placeholder([("Local", "y")], vector())
        g.pure(g.call("exp", g.call("log", y)))
        effect = g.call("add_", x, 1)
        g.pure(g.call("sin", effect))
        g.finish()
        assert names(g.to_fx()) == ["l_x_", "l_y_", "log", "add_", "output"]  # log was not marked as pure

    def test_verify(self) -> None:
        g = testing.TestGraph()
        x = g.placeholder([("Local", "x")], vector())
        g.output([g.call("exp", x)])
        g.finish()
        g.miscount(x)
        with pytest.raises(testing.GraphError, match="miscounted"):
            g.finish()


class TestToFx:
    def test_is_sound(self) -> None:
        gm = example().to_fx()
        gm.graph.lint()
        x = torch.rand(2, 3)
        y = x + 1
        a = y.split([1, 1])[0]
        expected = (a * (y + a), a)
        for module in (gm, copy.deepcopy(gm), pickle.loads(pickle.dumps(gm))):
            torch.testing.assert_close(module(x), expected)
        assert isinstance(gm, torch.fx.GraphModule)
        assert [n.op for n in gm.graph.nodes][-1] == "output"
        assert len(gm.graph.nodes) == 7

    def test_nothing_is_compiled_before_it_is_asked_for(self) -> None:
        gm = example().to_fx()
        assert "_code" not in gm.__dict__
        assert gm.code

    def test_tables_are_filled(self) -> None:
        gm = example().to_fx()
        graph = gm.graph
        assert [n.name for n in graph.find_nodes(op="call_function", target=operator.add)] == ["add", "add_2"]
        assert [n.name for n in graph.find_nodes(op="call_method")] == ["mul"]
        assert [n.name for n in graph.find_nodes(op="call_function", target=torch.split)] == ["split"]
        add = graph.find_nodes(op="call_function", target=operator.add)[0]
        assert {n.name for n in add.users} == {"split", "add_2"}
        assert [n.name for n in graph.find_nodes(op="call_method")[0].all_input_nodes] == ["getitem", "add_2"]
        assert type(add.kwargs) is type(torch.fx.Graph().call_function(operator.add).kwargs)

    def test_can_be_edited(self) -> None:
        gm = example().to_fx()
        graph = gm.graph
        add = graph.find_nodes(op="call_function", target=operator.add)[0]
        with graph.inserting_after(add):
            new = graph.call_function(operator.add, (add, 1))
            other = graph.call_function(operator.mul, (add, 1))
        assert new.name == "add_3"
        assert other.name == "mul_1"
        add.replace_all_uses_with(new, delete_user_cb=lambda user: user not in (new, other))
        graph.eliminate_dead_code()
        graph.lint()
        gm.recompile()
        assert not torch.equal(gm(torch.ones(2, 3))[1], torch.ones(1, 3) * 2)

    def test_inputs_keep_their_kinds(self) -> None:
        g = testing.TestGraph()
        p = g.placeholder([("Local", "p")], torch.nn.Parameter(torch.ones(2)))
        n = g.placeholder([("Local", "n")], 3)
        g.output([g.call(operator.mul, p, n)])
        g.finish()
        types_ = [node.type for node in g.to_fx().graph.find_nodes(op="placeholder")]
        assert types_ == [torch.nn.Parameter, int]

    def test_arguments_of_all_kinds(self) -> None:
        g = testing.TestGraph()
        x = g.placeholder([("Local", "x")], torch.ones(4, 4))
        i = g.placeholder([("Local", "i")], 2)
        a = g.call(operator.getitem, x, (slice(i, None, None), Ellipsis, None))
        b = g.call("view", x, torch.Size([2, 8]))
        c = g.call(torch.stack, (x, x), dim=0)
        d = g.call("to", x, torch.device("cpu"), torch.float64, memory_format=torch.contiguous_format)
        e = g.call(torch.full, (2, i), float("inf"), layout=torch.strided)
        g.output([a, b, c, d, e])
        g.finish()
        gm = g.to_fx()
        gm.graph.lint()
        x = torch.rand(4, 4)
        a, b, c, d, e = gm(x, 2)
        assert torch.equal(a, x[2:, ..., None])
        assert b.shape == (2, 8)
        assert torch.equal(c, torch.stack((x, x)))
        assert d.dtype is torch.float64
        assert torch.equal(e, torch.full((2, 2), float("inf")))


class TestCompile:
    def test_backend_gets_module_and_inputs(self) -> None:
        seen: list[Any] = []

        def backend(gm: torch.fx.GraphModule, inputs: list[Any]) -> Any:
            seen.append((gm, inputs, torch.is_grad_enabled()))
            return gm.forward

        with torch.no_grad():
            compiled = example().compile(backend)
        gm, inputs, grad = seen[0]
        assert isinstance(gm, torch.fx.GraphModule)
        assert isinstance(inputs, list)
        assert inputs[0].shape == (2, 3)
        assert not grad
        assert compiled(torch.ones(2, 3))[1].shape == (1, 3)

    def test_errors_of_the_backend_are_wrapped(self) -> None:
        def broken(gm: Any, inputs: Any) -> Any:
            raise ValueError("no such luck")

        with pytest.raises(
            torch._dynamo.exc.BackendCompilerFailed, match="backend='broken' raised:\nValueError: no such"
        ) as info:
            example().compile(broken)
        assert isinstance(info.value.__cause__, ValueError)
        assert info.value.inner_exception is info.value.__cause__
        frames = []
        traceback = info.value.__cause__.__traceback__
        while traceback:
            frames.append(traceback.tb_frame.f_code.co_name)
            traceback = traceback.tb_next
        assert frames[-1] == "broken"

    @pytest.mark.parametrize("error", [IndexError, KeyboardInterrupt, torch._dynamo.exc.ShortenTraceback])
    def test_some_errors_pass(self, error: type[BaseException]) -> None:
        def broken(gm: Any, inputs: Any) -> Any:
            if error is torch._dynamo.exc.ShortenTraceback:
                raise torch._dynamo.exc.ShortenTraceback(first_useful_frame=None)
            raise error

        with pytest.raises(error) as info:
            example().compile(broken)
        assert type(info.value) is error

    def test_result_must_be_callable(self) -> None:
        def silly(gm: Any, inputs: Any) -> Any:
            return 3

        with pytest.raises(TypeError, match="backend 'silly' returned a int, which is not callable"):
            example().compile(silly)

    def test_backends_of_pytorch(self) -> None:
        from torch._dynamo.backends.registry import lookup_backend

        x = torch.rand(2, 3)
        expected = example().to_fx()(x)
        for name in ("eager", "aot_eager"):
            torch.testing.assert_close(tuple(example().compile(lookup_backend(name))(x)), expected)

    def test_deep_python_runs_in_one_chunk(self) -> None:
        def deep(n: int) -> int:
            return 0 if n == 0 else 1 + deep(n - 1)

        def backend(gm: Any, inputs: Any) -> Any:
            assert deep(500) == 500
            return gm.forward

        assert callable(example().compile(backend))
