"""Passes and backends that others wrote for PyTorch's front end read gramme's graphs, and give the same on both."""

import importlib.util
import sys
import types
from collections import Counter
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from torch import nn
from torch._dynamo.backends.debugging import ExplainWithBackend
from torch.ao.quantization import get_default_qconfig_mapping
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx
from torch.fx.passes.shape_prop import ShapeProp
from torch.fx.passes.utils.source_matcher_utils import get_source_partitions


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.rest = nn.Sequential(nn.ReLU(), nn.Linear(8, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.rest(self.first(x)).softmax(-1)


FRONTS = (torch.compile, gramme.compile)
X = torch.linspace(-1, 1, 12).reshape(3, 4)


def made() -> Net:
    torch.manual_seed(3)
    return Net()


def on_both(backend: Callable[[torch.fx.GraphModule, list[Any]], Any]) -> tuple[Any, Any]:
    """What the backend makes of each front end's graph; the program's result is eager's."""
    outcomes = []
    for front in FRONTS:
        torch._dynamo.reset()
        net = made()

        def look(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
            outcomes.append(backend(module, inputs))
            return module.forward

        assert torch.equal(front(net, backend=look)(X), net(X))
    assert len(outcomes) == 2
    return outcomes[0], outcomes[1]


@pytest.mark.filterwarnings("ignore")
def test_a_quantizers_pass() -> None:
    """It finds layers by what nodes say of their source, observes, and replaces them by quantized operators."""

    def quantize(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        found = get_source_partitions(module.graph, [nn.Linear, nn.ReLU, "softmax"])
        layers = {str(kind): [[n.name for n in part.nodes] for part in parts] for kind, parts in found.items()}
        with torch.no_grad():
            observed = prepare_fx(module, get_default_qconfig_mapping("x86"), tuple(inputs))
            observed(*inputs)
            converted = convert_fx(observed)
            return layers, [str(node.target) for node in converted.graph.nodes], converted(*inputs)[0]

    theirs, ours = on_both(quantize)
    assert ours[0] == theirs[0]
    assert [len(parts) for parts in ours[0].values()] == [2, 1, 1]
    assert sorted(ours[1]) == sorted(theirs[1])
    assert sum("quantized" in target or "quantize_per" in target for target in ours[1]) >= 3
    assert torch.equal(ours[2], theirs[2])
    assert torch.allclose(ours[2], made()(X), atol=0.05)


def test_a_profiler_by_modules() -> None:
    def profile(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        spent: Counter[str] = Counter()

        class Counting(torch.fx.Interpreter):
            def run_node(self, node: torch.fx.Node) -> Any:
                for path, kind in node.meta.get("nn_module_stack", {}).values():
                    spent[f"{path} {kind.__name__}"] += 1
                return super().run_node(node)

        Counting(module).run(*inputs)
        return spent

    theirs, ours = on_both(profile)
    assert ours == theirs
    assert ours["L['self'].rest.1 Linear"] >= 1


class Dot:
    """What FX's drawer uses of pydot, which is not among what is installed."""

    def __init__(self, *names: str, **attributes: Any) -> None:
        self.names, self.attributes, self.parts = names, attributes, []

    def add(self, part: Any) -> None:
        self.parts.append(part)

    add_node = add_edge = add_subgraph = add


def drawer(monkeypatch: pytest.MonkeyPatch) -> Any:
    pydot = types.ModuleType("pydot")
    pydot.Dot = pydot.Node = pydot.Edge = pydot.Cluster = Dot  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pydot", pydot)
    spec = importlib.util.find_spec("torch.fx.passes.graph_drawer")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.FxGraphDrawer


def test_shapes_and_drawings(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = drawer(monkeypatch)

    def drawn(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        ShapeProp(module).propagate(*inputs)
        graph = draw(module, "net").get_dot_graph()
        shapes = [tuple(node.meta["tensor_meta"].shape) for node in module.graph.nodes if node.op.startswith("call")]
        labels = [part.attributes.get("label", "") for part in graph.parts if len(part.names) == 1]
        return shapes, [label.count("|") for label in labels], len(graph.parts)

    theirs, ours = on_both(drawn)
    assert ours == theirs
    assert ours[0][-1] == (3, 2)


def broken(x: torch.Tensor, net: nn.Module) -> torch.Tensor:
    y = net(x)
    torch._dynamo.graph_break()
    return y + 1


def test_the_backend_that_explains() -> None:
    outputs = []
    for front in FRONTS:
        torch._dynamo.reset()
        explaining = ExplainWithBackend("eager")
        assert torch.equal(front(broken, backend=explaining)(X, net := made()), broken(X, net))
        outputs.append(explaining.output())
    theirs, ours = outputs
    for name in ("graph_count", "graph_break_count", "op_count"):
        assert getattr(ours, name) == getattr(theirs, name)
    assert [len(each.graph.nodes) for each in ours.graphs] == [len(each.graph.nodes) for each in theirs.graphs]
    assert [reason.user_stack[-1].name for reason in ours.break_reasons] == ["broken"]
    assert "graph_break() was called" in str(ours)


@pytest.mark.parametrize("name", ["aot_eager_decomp_partition", "aot_eager_default_partitioner", "pre_dispatch_eager"])
def test_debugging_backends_of_pytorch(name: str) -> None:
    gradients = []
    for front in FRONTS:
        torch._dynamo.reset()
        net, x = made(), X.clone().requires_grad_()
        result = front(net, backend=name)(x)
        result[:, 0].sum().backward()
        gradients.append([result, x.grad, *(parameter.grad for parameter in net.parameters())])
    for theirs, ours in zip(*gradients, strict=True):
        assert torch.equal(ours, theirs)
