"""Views made with grad mode off are leaves that need a gradient; backends that know of gradients only from inputs
compute with them as long as nothing records gradients."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import gramme
import pytest
import torch

Program = Callable[..., Any]
MODES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "grad": nullcontext,
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
}


class Backend:
    """Runs its graphs and cannot tell which node raised; raises before the node `stop`."""

    def __init__(self, stop: int | None = None) -> None:
        self.graphs: list[torch.fx.GraphModule] = []
        self.stop = stop

    def __call__(self, module: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        self.graphs.append(module)
        backend = self

        class Run(torch.fx.Interpreter):
            ran = 0

            def run_node(self, n: torch.fx.Node) -> Any:
                if n.op != "placeholder":
                    if self.ran == backend.stop:
                        raise RuntimeError("stopped")
                    self.ran += 1
                return super().run_node(n)

        return lambda *values: Run(module).run(*values)


def text(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().tolist(), value.requires_grad, value.is_leaf, value._is_view()
    return [text(item) for item in value] if isinstance(value, list | tuple) else value


def tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in tensors(item)]
    return [value] if isinstance(value, torch.Tensor) else []


def outcome(program: Program, mode: str, needs_grad: bool) -> Any:
    w = torch.nn.Parameter(torch.arange(4.0).view(2, 2), requires_grad=needs_grad)
    x = torch.arange(4.0).view(2, 2)
    with MODES[mode]():
        result = program(w, x)
    found = text(result)
    for root in tensors(result):
        if root.grad_fn is not None:
            root.sum().backward(retain_graph=True)
    return found, text(w), text(x), None if w.grad is None else w.grad.tolist()


def assert_same(program: Program, mode: str, *backends: Any) -> None:
    for backend in backends or ("aot_eager", Backend()):
        compiled = gramme.compile(program, backend=backend)
        for needs_grad in (True, False, True):
            assert outcome(compiled, mode, needs_grad) == outcome(program, mode, needs_grad), (backend, needs_grad)


VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "transposed": lambda w: w.transpose(0, 1),
    "row": lambda w: w[0],
    "slice": lambda w: w[:, :1],
    "flat": lambda w: w.view(-1),
    "expanded": lambda w: w.expand(2, 2, 2),
    "one_of_several": lambda w: w.unbind()[1],
    "view_of_a_view": lambda w: w.t()[1:].view(-1),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("view", VIEWS)
def test_one_graph(view: str, mode: str) -> None:
    def program(w: torch.Tensor, x: torch.Tensor) -> Any:
        with torch.no_grad():
            v = VIEWS[view](w)
            y = v.sum() + x * v.max()
        return y, (x * w).sum() + y.sum()

    backend = Backend()
    assert_same(program, mode, backend, "aot_eager")
    assert len(backend.graphs) <= 2  # the parameter needs a gradient, or needs none


def of_a_value(w: torch.Tensor, x: torch.Tensor) -> Any:
    h = w * 2
    with torch.no_grad():
        y = h[0].sum() + h.t().max()
    return y, (h * x).sum()


def base_written_later(w: torch.Tensor, x: torch.Tensor) -> Any:
    with torch.no_grad():
        v = w.t()
        before = v * 3
        w.mul_(2)
        after = v * 2
    return before, after, (x * w).sum()


def asked_about(w: torch.Tensor, x: torch.Tensor) -> Any:
    with torch.no_grad():
        v = w.t()
        y = v.detach() + x
    return v.requires_grad, v.is_leaf, y, (y * w).sum()


def copied_from(w: torch.Tensor, x: torch.Tensor) -> Any:
    with torch.no_grad():
        x.copy_(w.t())
    return (x * w).sum()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "program", [of_a_value, base_written_later, asked_about, copied_from], ids=lambda p: p.__name__
)
def test_other_uses(program: Program, mode: str) -> None:
    backend = Backend()
    assert_same(program, mode, backend, "aot_eager")
    assert len(backend.graphs) <= 2


# What must end the segment.


def computed_with_grad_mode_on(w: torch.Tensor, x: torch.Tensor) -> Any:
    with torch.no_grad():
        v = w.t()
        y = v.sum()
    torch.sin(x)
    return (v * 2).sum() + (x * w).sum() * y


def grad_mode_on_inside(w: torch.Tensor, x: torch.Tensor) -> Any:
    with torch.no_grad():
        v = w[0]
        torch.sin(x)
        with torch.enable_grad():
            return (v * w.sum()).sum()


def written(w: torch.Tensor, x: torch.Tensor) -> Any:
    with torch.no_grad():
        v = w.view(-1)
        torch.sin(x)
        v.add_(1)
    return v.detach() * 2, (x * w).sum()


def hooked(w: torch.Tensor, x: torch.Tensor) -> Any:
    with torch.no_grad():
        v = w.t()
        torch.sin(x)
        if v.requires_grad:
            v.register_hook(lambda gradient: gradient * 2)
    return (w * x).sum(), v


def given_out(w: torch.Tensor, x: torch.Tensor) -> Any:
    with torch.no_grad():
        v = w[:1]
        y = v.sum()
    return v, y


def made_by_a_factory(w: torch.Tensor, x: torch.Tensor) -> Any:
    torch.sin(x)
    with torch.no_grad():
        leaf = torch.zeros(2, requires_grad=True)
        y = leaf + x
    return leaf.requires_grad, y, w.sum()


@torch.compiler.allow_in_graph
def turns_grad_mode_on(v: torch.Tensor) -> torch.Tensor:
    with torch.enable_grad():
        return v * 2


def into_python(w: torch.Tensor, x: torch.Tensor) -> Any:
    with torch.no_grad():
        v = w.t()
        torch.sin(x)
        return turns_grad_mode_on(v)


def inside_vmap(w: torch.Tensor, x: torch.Tensor) -> Any:
    torch.sin(x)
    with torch.no_grad():
        return torch.vmap(lambda row: (w.t() * row).sum())(x)


ENDING = [
    grad_mode_on_inside,
    written,
    hooked,
    given_out,
    made_by_a_factory,
    into_python,
    inside_vmap,
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("program", ENDING, ids=lambda p: p.__name__)
def test_what_ends_the_segment(program: Program, mode: str) -> None:
    assert_same(program, mode)
    compiled = gramme.compile(program, backend=Backend())
    outcome(compiled, mode, needs_grad=True)
    assert gramme.statistics(compiled).segments > 1  # its own, or what was captured for another backend


def test_grad_mode_on_afterwards() -> None:
    for mode in MODES:
        assert_same(computed_with_grad_mode_on, mode)
    compiled = gramme.compile(computed_with_grad_mode_on, backend=Backend())
    outcome(compiled, "grad", needs_grad=True)
    assert gramme.statistics(compiled).segments > 1  # its own, or what was captured for another backend


# Graphs that run as they are give such views out.


def used_later(v: torch.Tensor, w: torch.Tensor, x: torch.Tensor) -> Any:
    return v.sum() + x.sum(), v


def written_later(v: torch.Tensor, w: torch.Tensor, x: torch.Tensor) -> Any:
    v.mul_(2)
    return v, w * x, v._version, w._version


def differentiated_later(v: torch.Tensor, w: torch.Tensor, x: torch.Tensor) -> Any:
    with torch.enable_grad():
        return (v * w.sum()).sum() + (w * x).sum()


def base_asked_for(v: torch.Tensor, w: torch.Tensor, x: torch.Tensor) -> Any:
    return v._base is w, v.requires_grad, v.grad_fn, v.detach() + 1


def base_written(v: torch.Tensor, w: torch.Tensor, x: torch.Tensor) -> Any:
    w.mul_(3)
    return v, v._version


LATER = [used_later, written_later, differentiated_later, base_asked_for, base_written]


def attempted(program: Program, mode: str, needs_grad: bool) -> Any:
    try:
        return outcome(program, mode, needs_grad)
    except RuntimeError as error:
        return str(error)


@pytest.mark.parametrize("backend", ["eager", "native", "recorded"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("later", LATER, ids=lambda p: p.__name__)
@pytest.mark.parametrize("view", VIEWS)
def test_across_a_break(view: str, later: Program, mode: str, backend: str) -> None:
    options: dict[str, Any] = {"backend": backend}
    if backend == "recorded":
        options = {"backend": "native", "options": {"recorded_backward": True}}

    def program(w: torch.Tensor, x: torch.Tensor) -> Any:
        with torch.no_grad():
            v = VIEWS[view](w)
            torch._dynamo.graph_break()
            return later(v, w, x)

    compiled = gramme.compile(program, **options)
    for needs_grad in (True, False, True, True):
        assert attempted(compiled, mode, needs_grad) == attempted(program, mode, needs_grad)


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_a_break_costs_one_graph(backend: str) -> None:
    w = torch.nn.Parameter(torch.ones(4, 3))

    def program(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            v = w.expand(2, 4, 3)
            torch._dynamo.graph_break()
            return (x * v).sum()

    compiled, x = gramme.compile(program, backend=backend), torch.ones(2, 4, 3)
    with gramme.meter() as m:
        compiled(x)
    assert (m.graphs, m.outside) == (2, 0)


# Graphs that raise.


@pytest.fixture(scope="module", autouse=True)
def operators() -> Iterator[None]:
    def refuses(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 20:
            raise ValueError("too much")
        return x.clone()

    made = torch.library.custom_op("gramme_leaf_views::refuses", refuses, mutates_args=())
    made.register_fake(lambda x: torch.empty_like(x))
    yield
    torch._library.custom_ops.OPDEFS.pop("gramme_leaf_views::refuses")._lib._destroy()


def writes_an_input(w: torch.Tensor, x: torch.Tensor) -> Any:
    x.add_(1)
    return torch.ops.gramme_leaf_views.refuses(x @ w.t()) + w[0]


def writes_the_parameter(w: torch.Tensor, x: torch.Tensor) -> Any:
    y = x @ w.t()
    w.add_(1)
    return torch.ops.gramme_leaf_views.refuses(y + w[0]) * 2


@pytest.mark.parametrize(("program", "operations"), [(writes_an_input, 6), (writes_the_parameter, 7)])
def test_an_operator_that_raises(program: Program, operations: int) -> None:
    backend = Backend()
    compiled = gramme.compile(program, backend=backend)
    for factor in (1.0, 10.0, 1.0):
        states = []
        for call in (compiled, program):
            w, x = torch.nn.Parameter(torch.ones(2, 2)), torch.ones(2, 2) * factor
            with torch.no_grad():
                try:
                    result = text(call(w, x))
                except ValueError as error:
                    result = str(error)
            states.append((result, text(w), text(x)))
        assert states[0] == states[1]
    assert sum(node.op.startswith("call") for node in backend.graphs[0].graph.nodes) == operations


@pytest.mark.parametrize("program", [writes_an_input, writes_the_parameter], ids=lambda p: p.__name__)
def test_a_backend_that_raises(program: Program) -> None:
    """The frame then runs plainly, or, where the parameter may have been written, nothing runs again."""
    for stop in range(6):
        w, x = torch.nn.Parameter(torch.ones(2, 2)), torch.ones(2, 2)
        before, once = w.detach().clone(), (w.detach().clone(), x.clone())
        with torch.no_grad():
            program(*once)
            with pytest.raises(RuntimeError, match="stopped"):
                gramme.compile(program, backend=Backend(stop))(w, x)
        assert torch.equal(w, once[0]) or (program is writes_the_parameter and torch.equal(w, before)), stop
        assert torch.equal(x, once[1]), stop
