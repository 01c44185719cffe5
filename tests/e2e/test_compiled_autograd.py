"""PyTorch's compiled autograd with gramme as its compiler: the backward is one graph, with eager's gradients."""

import warnings
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from torch import nn
from torch._dynamo import compiled_autograd

from e2e.front import GRAMME

pytestmark = pytest.mark.skipif(not GRAMME, reason="asks for gramme's graphs")


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, k: float) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.k = k
        return x.sin() * k

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        return g * ctx.saved_tensors[0].cos() * ctx.k, None


def plain(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return layer(x).sin().sum()


def with_a_hook(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    y = layer(x)
    y.register_hook(lambda g: g * 2)
    return (y * y).sum()


def with_a_function(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return Scaled.apply(layer(x), 0.5).sum()


def with_views(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    left, right = layer(x).chunk(2, -1)
    return (left * right.relu()).mean()


def gradients(
    loss: Callable[[nn.Module, torch.Tensor], torch.Tensor], rows: list[int], graphs: list[Any] | None
) -> Any:
    torch.manual_seed(0)
    layer = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        assert graphs is not None
        graphs.append(graph)
        return graph.forward

    def compiler(graph: torch.fx.GraphModule) -> Any:
        return gramme.compile(graph, backend=backend, fullgraph=True)

    for count in rows:
        value = loss(layer, torch.randn(count, 6))
        if graphs is None:
            value.backward()
        else:
            with compiled_autograd._enable(compiler):
                value.backward()
    return [parameter.grad for parameter in layer.parameters()]


@pytest.mark.parametrize("loss", [plain, with_a_hook, with_a_function, with_views])
def test_backward_is_one_graph(loss: Callable[..., Any]) -> None:
    torch._dynamo.reset()
    graphs: list[Any] = []
    rows = [5, 5, 5]
    found = gradients(loss, rows, graphs)
    torch.testing.assert_close(found, gradients(loss, rows, None), rtol=0, atol=0)
    assert 1 <= len(graphs) <= 2  # the first adds nothing to a gradient


def test_sizes_that_vary() -> None:
    torch._dynamo.reset()
    graphs: list[Any] = []
    rows = [5, 7, 3, 6, 9]
    found = gradients(plain, rows, graphs)
    torch.testing.assert_close(found, gradients(plain, rows, None), rtol=0, atol=0)
    assert len(graphs) <= len(rows)


# ---- torch._dynamo.config.compiled_autograd


class Step:
    """Steps of training, the backward within the compiled function."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.layer = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))
        self.seen: list[Any] = []
        self.layer[0].weight.register_hook(lambda g: g * 2)
        self.layer[2].bias.register_post_accumulate_grad_hook(lambda p: self.seen.append(p.grad.clone()))

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        y.register_hook(lambda g: g + 1)
        loss = (y * y).sum()
        loss.backward()
        return loss.detach()

    def run(self, call: Callable[[torch.Tensor], torch.Tensor]) -> Any:
        losses = [call(torch.linspace(-1, 1, 6 * n).view(n, 6)) for n in (3, 3, 5)]
        return losses, [parameter.grad for parameter in self.layer.parameters()], self.seen


def counting() -> tuple[Callable[..., Any], list[bool]]:
    """A backend, and of each graph whether it is of a backward pass."""
    passes: list[bool] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        passes.append(any("detach" in str(node.target) for node in graph.graph.nodes) or compiling_backward())
        return graph.forward

    return backend, passes


def compiling_backward() -> bool:
    return bool(compiled_autograd.in_compiled_autograd_region)


@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager", "callable"])
def test_setting(backend: str) -> None:
    torch._dynamo.reset()
    called, passes = counting()
    step, plainly = Step(), Step()
    with torch._dynamo.config.patch(compiled_autograd=True):
        compiled = gramme.compile(step, backend=called if backend == "callable" else backend)
    counters = torch._dynamo.utils.counters["compiled_autograd"]
    captured = counters["captures"]
    torch.testing.assert_close(step.run(compiled), plainly.run(plainly), rtol=0, atol=0)
    assert counters["captures"] > captured
    assert not compiled_autograd.compiled_autograd_enabled
    assert any(passes) == (backend == "callable")


def test_setting_beside_pytorch() -> None:
    """As many backward passes are captured, none of them outside of the compiled function."""
    captured, graphs = [], []
    for front in (torch.compile, gramme.compile):
        torch._dynamo.reset()
        backend, passes = counting()
        step = Step()
        with torch._dynamo.config.patch(compiled_autograd=True):
            compiled = front(step, backend=backend)
        before = torch._dynamo.utils.counters["compiled_autograd"]["captures"]
        step.run(compiled)
        x = torch.ones(3, 6, requires_grad=True)
        step.layer(x).sum().backward()
        captured.append(torch._dynamo.utils.counters["compiled_autograd"]["captures"] - before)
        graphs.append(sum(passes))
    assert captured[0] == captured[1] > 0
    assert graphs[1] <= graphs[0]


def test_the_setting_is_of_what_is_compiled_under_it() -> None:
    step = Step()
    before = torch._dynamo.utils.counters["compiled_autograd"]["captures"]
    compiled = gramme.compile(step, backend="eager")
    with torch._dynamo.config.patch(compiled_autograd=True):
        compiled(torch.ones(2, 6))
    assert torch._dynamo.utils.counters["compiled_autograd"]["captures"] == before


@pytest.mark.parametrize("fullgraph", [False, True])
def test_exceptions_leave_compiled_autograd(fullgraph: bool) -> None:
    """A hook raises, or the program does."""
    torch._dynamo.reset()  # compiled autograd keeps what was compiled of equal passes, whoever did

    def step(x: torch.Tensor, log: list[Any]) -> None:
        y = x.sin()
        y.register_hook(refuse)
        try:
            y.sum().backward()
        finally:
            log.append("left")
        raise LookupError

    def refuse(gradient: torch.Tensor) -> None:
        if gradient.dim() == 1:
            raise ValueError("no such gradient")

    override = {"fullgraph": fullgraph}
    with torch._dynamo.config.patch(compiled_autograd=True, compiled_autograd_kwargs_override=override):
        compiled = gramme.compile(step, backend="eager")
        for shape, error in (((3,), ValueError), ((2, 2), LookupError), ((3,), ValueError)):
            log: list[Any] = []
            with pytest.raises(error) as caught:
                compiled(torch.ones(shape, requires_grad=True), log)
            assert not isinstance(caught.value, gramme.errors.CaptureError)
            assert log == ["left"]
            assert not compiled_autograd.compiled_autograd_enabled
    with (
        torch._dynamo.config.patch(compiled_autograd=True, compiled_autograd_kwargs_override={"mode": "x"}),
        pytest.raises(AssertionError, match="Only `fullgraph` kwarg override"),
    ):
        gramme.compile(step, backend="eager")(torch.ones(3), [])


@pytest.mark.parametrize("dynamic", [None, False])
def test_more_shapes_than_captures_are_allowed(dynamic: bool | None) -> None:
    def step(x: torch.Tensor) -> None:
        (x.sin() * x).sum().backward()

    torch._dynamo.reset()
    with torch._dynamo.config.patch(compiled_autograd=True, recompile_limit=3):
        compiled = gramme.compile(step, backend="eager", dynamic=dynamic)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for n in range(2, 14):
                x, y = (torch.linspace(-1, 1, n, requires_grad=True) for _ in range(2))
                compiled(x)
                step(y)
                torch.testing.assert_close(x.grad, y.grad)


@pytest.mark.slow
def test_inductor() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(2)))
    model[1].register_full_backward_hook(lambda module, to_inputs, of_outputs: (to_inputs[0] * 2,))
    x = torch.linspace(-1, 1, 16).view(2, 8)

    def step(x: torch.Tensor) -> None:
        model(x).sum().backward()

    def gradients_of(call: Callable[..., Any]) -> list[Any]:
        model.zero_grad()
        call(x)
        return [parameter.grad for parameter in model.parameters()]

    wanted = gradients_of(step)
    with torch._dynamo.config.patch(compiled_autograd=True, use_graph_deduplication=True):
        torch.testing.assert_close(gradients_of(gramme.compile(step, backend="inductor")), wanted)
