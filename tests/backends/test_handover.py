"""What compilers of PyTorch's find around a captured graph, and what their results are wrapped in."""

import copy
from typing import Any

import gramme
import pytest
import torch
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
from torch._guards import CompileContext, TracingContext

X = torch.arange(4.0)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("scale", torch.ones(4))
        self.shift = torch.ones(4)
        self.table = [torch.ones(4)]

    def forward(self, x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return self.linear(x) * self.scale + self.shift + self.table[0] + other


class Look:
    """A compiler that notes what it finds: a plain one, and one that runs AOTAutograd and so finds everything."""

    def __init__(self, aot: bool) -> None:
        self.aot = aot
        self.found: dict[str, Any] = {}

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        compiled: Any = graph.forward
        if self.aot:
            compiled = aot_autograd(fw_compiler=lambda g, i: make_boxed_func(g.forward))(graph, inputs)
        context = TracingContext.try_get()
        nodes = graph.graph.find_nodes(op="placeholder")
        self.found = {
            "context": context,
            "compile_id": CompileContext.current_compile_id(),
            "sources": {n.target: n._dynamo_source.name for n in nodes if getattr(n, "_dynamo_source", None)},
            "static": {n.target for n in nodes if n.meta.get("tensor_dict")},
            "examples": {n.name: tuple(n.meta["example_value"].shape) for n in nodes if "tensor_dict" in n.meta},
            "attributes": [key for key in vars(graph) if key in ("_param_name_to_source", "_source_to_user_stacks")],
            "meta": set(graph.meta),
        }
        return compiled


def test_sources_and_static_inputs() -> None:
    look = Look(aot=True)
    net = Net()
    gramme.compile(net.forward, backend=look)(X, X + 1)
    assert look.found["sources"] == {
        "L_x_": "L['x']",
        "L_other_": "L['other']",
        "L_self_modules_linear_parameters_weight_": "L['self']._modules['linear']._parameters['weight']",
        "L_self_modules_linear_parameters_bias_": "L['self']._modules['linear']._parameters['bias']",
        "L_self_buffers_scale_": "L['self']._buffers['scale']",
        "L_self_shift": "L['self'].shift",
        "L_self_table_0_": "L['self'].table[0]",
    }
    assert look.found["static"] == set(look.found["sources"]) - {"L_x_", "L_other_"}
    assert look.found["attributes"] == ["_param_name_to_source", "_source_to_user_stacks"]
    assert look.found["meta"] == {"dynamo_flat_name_to_original_fqn", "dynamo_compile_id", "backend_id"}
    assert set(look.found["examples"].values()) == {(4,), (4, 4)}


def test_sources_equal_torch_dynamos() -> None:
    def f(
        x: torch.Tensor, pair: tuple[torch.Tensor, ...], *rest: torch.Tensor, k: torch.Tensor = X, **more: Any
    ) -> Any:
        return x + pair[1] + rest[0] + k + more["m"]["deep"][0]

    found = []
    for front in (torch.compile, gramme.compile):
        look = Look(aot=True)
        front(f, backend=look)(X, (X + 1, X + 2), X + 3, k=X + 4, m={"deep": [X]})
        found.append({k: look.found["sources"][k] for k in sorted(look.found["sources"])})
    assert found[0] == found[1]


def test_compilers_that_do_not_look_pay_nothing() -> None:
    found: list[Any] = []

    def compiler(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        found.extend([TracingContext.try_get(), CompileContext.current_compile_id()])
        return graph.forward

    gramme.compile(lambda x: x + 1, backend=compiler)(X)
    context, compile_id = found
    assert context.__dict__["_fake_mode"] is None
    assert str(compile_id).endswith("/0")
    assert TracingContext.try_get() is None


def test_plain_compilers_find_what_they_look_for() -> None:
    look = Look(aot=False)
    gramme.compile(lambda x: x + 1, backend=look)(X)
    assert look.found["examples"] == {"l_x_": (4,)}
    assert look.found["meta"] == {"dynamo_flat_name_to_original_fqn", "dynamo_compile_id", "backend_id"}


def test_a_compiler_that_runs_aot_autograd_itself() -> None:
    look = Look(aot=True)
    net = Net()
    twin = copy.deepcopy(net)
    compiled = gramme.compile(net, backend=look)
    for x in (X, X * 2):
        result, expected = compiled(x, X), twin(x, X)
        torch.testing.assert_close(result, expected)
        result.sum().backward()
        expected.sum().backward()
    for p, q in zip(net.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad)
    shapes = look.found["context"].fake_mode.shape_env
    assert not shapes.guards
    assert not shapes.var_to_range


@pytest.mark.parametrize("backend", ["aot_eager", Look(aot=True)], ids=["named", "callable"])
def test_ints_that_change_are_symbols_and_floats_constants(backend: Any) -> None:
    compiled = gramme.compile(lambda x, k: x * k + k, backend=backend)
    for k in (2, 3, 4, 2.5, 3.5, 4.5, 2):
        assert torch.equal(compiled(X, k), X * k + k)
    assert gramme.statistics(compiled).captures == 5  # 2, any int, 2.5, 3.5, 4.5


def test_numbers_that_change_stay_inputs_of_graphs_run_as_they_are() -> None:
    compiled = gramme.compile(lambda x, k: x * k, backend=Look(aot=False))
    for k in range(2, 20):
        assert torch.equal(compiled(X, k), X * k)
    assert gramme.statistics(compiled).captures <= 3


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_number_just_computed(backend: str) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x * x.sum().item()

    compiled = gramme.compile(f, backend=backend)
    for x in (X, X + 1, X * 3):
        assert torch.equal(compiled(x), f(x))


def test_the_captured_graph_can_only_be_asked_during_the_call() -> None:
    kept = []

    class Keeps(gramme._handover.Backend):
        def __call__(self, graph: Any, inputs: Any, captured: Any) -> Any:
            kept.append(captured)
            return super().__call__(graph, inputs, captured)

    backend = Keeps(lambda graph, inputs: graph.forward, "keeps", of_torch=False)
    gramme._compile.compiled_form(lambda x: x + 1, gramme._options.Options(backend, False, 8))(X)
    captured = kept[0]  # of a segment that is gone, too
    for ask in (captured.sources, captured.examples, captured.symbols, lambda: captured.has_numbers):
        with pytest.raises(RuntimeError, match="has returned"):
            ask()


def test_inputs_are_not_kept_alive_by_weak_references() -> None:
    net = Net()
    gramme.compile(net, backend="aot_eager")(X, X)
    torch.utils.swap_tensors(net.linear.weight, nn.Parameter(torch.zeros(4, 4)))
    assert not net.linear.weight.any()


@pytest.mark.slow
def test_frozen_parameters() -> None:
    net, y = Net().eval(), X + 1
    with torch.no_grad(), torch._inductor.config.patch(freezing=True):
        compiled = gramme.compile(net.forward)
        for x in (X, X * 2):
            torch.testing.assert_close(compiled(x, y), net(x, y))
        assert gramme.statistics(compiled).captures == 1
        net.linear.weight = nn.Parameter(torch.zeros(4, 4))
        torch.testing.assert_close(compiled(X, y), net(X, y))
        assert gramme.statistics(compiled).captures == 2


@pytest.mark.slow
def test_options_reach_inductor() -> None:
    compiled = gramme.compile(lambda x: (x + 1).sin(), options={"epilogue_fusion": False})
    assert torch.allclose(compiled(X), (X + 1).sin())
    assert torch.allclose(gramme.compile(lambda x: x.cos() * 2, mode="max-autotune-no-cudagraphs")(X), X.cos() * 2)


def _leaf(view: str) -> torch.Tensor:
    whole = torch.arange(4.0)
    views = {"view": lambda: whole.view(2, 2), "slice": lambda: whole[1:], "whole": lambda: whole}
    return views[view]().requires_grad_()


@pytest.mark.parametrize("view", ["view", "slice", "whole"])
def test_a_leaf_that_is_a_view_and_has_a_gradient(view: str) -> None:
    leaf = _leaf(view)
    leaf.grad = torch.ones_like(leaf)
    result = gramme.compile(lambda w: w * 2, backend="aot_eager")(leaf)
    result.sum().backward()
    assert torch.equal(result, leaf * 2)
    assert torch.equal(leaf.grad, torch.full_like(leaf, 3.0))


def test_a_leaf_whose_gradient_is_a_view() -> None:
    leaf = _leaf("whole")
    leaf.grad = torch.ones(2, 4)[1]
    assert torch.equal(gramme.compile(lambda w: w * 2, backend="aot_eager")(leaf), leaf * 2)


def test_a_module_over_one_flat_tensor() -> None:
    module = nn.Linear(2, 2, bias=False)
    module.weight.data = torch.arange(6.0)[:4].view(2, 2)
    module(torch.ones(2)).sum().backward()
    assert torch.equal(gramme.compile(module, backend="aot_eager")(torch.ones(2)), module(torch.ones(2)))
