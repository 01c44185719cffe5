"""Programs with hooks of autograd beside eager Python: gradients, effects, order, output, exceptions; and beside the
graphs that PyTorch's front end has (hooks_matrix.txt, written by record_hooks.py)."""

import pathlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import gramme
import pytest
import torch
from torch import nn
from torch._dynamo import compiled_autograd

from e2e.front import GRAMME
from e2e.hook_programs import PROGRAMS, Box, run
from e2e.record_hooks import FRONTS, outcome

pytestmark = pytest.mark.skipif(not GRAMME, reason="counts graphs of gramme")

OURS = [front for front in FRONTS if not front.startswith("torch")]
COMPILERS = ("callable", "aot_eager")


def recorded() -> Iterator[tuple[str, str, dict[str, str]]]:
    """(mode, program, cells by front end) of each row."""
    mode = ""
    for line in pathlib.Path(__file__).with_name("hooks_matrix.txt").read_text().splitlines():
        cells = [line[34 + 17 * i : 51 + 17 * i].strip() for i in range(len(FRONTS))]
        if line[:34].strip().endswith("autograd"):
            mode = line[:34].strip()
        elif line:
            yield mode, line[:34].strip(), dict(zip(FRONTS, cells, strict=True))


ROWS = {(mode, name): cells for mode, name, cells in recorded()}

# docs/surface.md tells these. A compiled graph would read now what eager Python reads when the gradient comes.
MAY_CHANGE = {"an_attribute", "a_number_of_an_object", "a_global", "a_value_made_later", "module_as_a_hook"}
HANDLES = {"handle_kept_for_the_next_call", "removes_itself"}
RETAINED = {"retained_after_use", "retained_with_hooks"}  # PyTorch's front end breaks, or loses the gradient
OF_PACK = {"saved_and_halved"}  # PyTorch's one graph is the function that packs
GIVEN_OUT = {"its_own_tensor", "returned_with_its_hook"}  # the hook must be seen on the tensor outside
REFUSED = {"gives_another_shape", "gives_no_tensor", "written_after_the_hook", "returned_with_its_hook"}

DIFFERS = {
    ("plain autograd", "after_accumulation_of_parameters", "aot_eager"): "AOTAutograd gives gradients in its own order",
    ("plain autograd", "saved_and_counted", "aot_eager"): "hooks of saved tensors get what AOTAutograd saves",
    ("plain autograd", "saved_and_logged", "aot_eager"): "hooks of saved tensors get what AOTAutograd saves",
    ("plain autograd", "full_backward_hook_that_appends", "native"): "a gradient is no view",
    ("compiled autograd", "saved_and_counted", "aot_eager"): "hooks of saved tensors get what AOTAutograd saves",
    ("compiled autograd", "saved_and_logged", "aot_eager"): "hooks of saved tensors get what AOTAutograd saves",
}
# The backward of a graph that runs as it is does not know which backend ran it.
SAMPLE = ("a_value_made_later", "several_on_one", "counts_in_a_cell", "raises", "full_backward_hook")
# Compiled autograd itself: another text of the error, lists for tuples.
OF_COMPILED_AUTOGRAD = {"gives_another_shape", "gives_no_tensor", "hook_of_a_node"}


def graphs(cell: str) -> int:
    return sum(int(part) for part in cell.split()[0].split("+"))


@pytest.mark.parametrize("front", OURS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_eager(name: str, front: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = outcome(name, front, compiles_backward=False)
    assert ("differs" in found) == (("plain autograd", name, front) in DIFFERS), found
    # A recorded backward's node has another type, which this program asks for.
    once_more = name == "hook_of_a_node" and front == "native"
    assert graphs(found) <= graphs(ROWS["plain autograd", name][front]) + once_more


@pytest.mark.parametrize("front", COMPILERS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_under_compiled_autograd(name: str, front: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = outcome(name, front, compiles_backward=True)
    known = name in OF_COMPILED_AUTOGRAD or ("compiled autograd", name, front) in DIFFERS
    assert ("differs" in found) == known, found
    assert graphs(found) <= graphs(ROWS["compiled autograd", name][front])


@pytest.mark.parametrize("front", ["eager", "native"])
@pytest.mark.parametrize("name", SAMPLE)
def test_graphs_that_run_as_they_are_under_compiled_autograd(name: str, front: str) -> None:
    found = outcome(name, front, compiles_backward=True)
    assert "differs" not in found
    assert graphs(found) <= graphs(ROWS["compiled autograd", name][front])


@pytest.mark.parametrize("front", OURS)
@pytest.mark.parametrize("mode", ["plain autograd", "compiled autograd"])
def test_one_graph_where_pytorch_has_one(mode: str, front: str) -> None:
    of_torch = "torch aot_eager" if front == "aot_eager" else "torch callable"
    more = {
        name
        for (of, name), cells in ROWS.items()
        if of == mode and cells[of_torch] == "1" and cells[front].split()[0] != "1"
    }
    if front not in COMPILERS:
        assert not more - OF_PACK - {"handle_kept_for_the_next_call"}
    else:
        known = MAY_CHANGE | REFUSED if mode.startswith("plain") else GIVEN_OUT
        assert more <= known | HANDLES | RETAINED | OF_PACK


@pytest.mark.slow
@pytest.mark.parametrize("name", ["forward_value", "clips_by_its_norm", "bound_method_without_effect"])
def test_inductor(name: str) -> None:
    call = gramme.compile(PROGRAMS[name], backend="inductor", fullgraph=True)
    for n in range(2):
        x, box = (torch.linspace(-1, 2, 4) + n).requires_grad_(), Box()
        same = x.detach().clone().requires_grad_()
        call(x, box).backward()
        PROGRAMS[name](same, box).backward()
        torch.testing.assert_close(x.grad, same.grad)


def gradient(call: Callable[..., Any], *args: Any, before: Callable[..., Any] = lambda *a: None) -> Any:
    x = torch.linspace(-1, 2, 4).requires_grad_()
    result = call(x, *args)
    loss, *more = result if isinstance(result, tuple) else (result,)
    before(*args, *more)
    loss.backward()
    return x.grad


def reads_an_argument(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    y.register_hook(lambda g: g * (mask + 1))
    return (y * 2).sum()


def reads_a_view_of_an_argument(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    part = mask[None].expand(3, 4)[1]
    y.register_hook(lambda g: g * part)
    return (y * 2).sum()


def reads_a_result(x: torch.Tensor, mask: torch.Tensor) -> Any:
    y = x.sin()
    z = y.detach().exp()
    y.register_hook(lambda g: g * z)
    return (y * 2).sum(), z[1:]


WRITES = {
    reads_an_argument: lambda mask: mask.add_(1),
    reads_a_view_of_an_argument: lambda mask: mask.mul_(3),
    reads_a_result: lambda mask, z: z.zero_(),
}


@pytest.mark.parametrize("program", WRITES)
@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
def test_what_a_hook_reads_is_written_before_backward(program: Callable[..., Any], backend: str) -> None:
    call = gramme.compile(program, backend=backend, fullgraph=True)
    for _ in range(2):
        masks = [torch.ones(4), torch.ones(4)]
        assert torch.equal(gradient(call, masks[0]), gradient(program, masks[1]))
        if backend == "aot_eager":
            with pytest.raises(RuntimeError, match="which a hook reads, was written in place|modified by an inplace"):
                gradient(call, masks[0], before=WRITES[program])
        else:
            wanted = gradient(program, masks[1], before=WRITES[program])
            assert torch.equal(gradient(call, masks[0], before=WRITES[program]), wanted)


outside = torch.ones(4)


def test_a_global_tensor_is_another_one_by_then() -> None:
    global outside

    def reads(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        y.register_hook(lambda g: g * outside)
        return (y * 2).sum()

    def rebind() -> None:
        global outside
        outside = torch.full((4,), 5.0)

    call = gramme.compile(reads, backend="aot_eager")
    assert torch.equal(gradient(call), gradient(reads))
    before = outside
    with pytest.raises(RuntimeError, match="outside"):
        gradient(call, before=rebind)
    outside = before


@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
def test_hooks_that_ask_what_only_the_tensor_tells(backend: str) -> None:
    asked: dict[str, Callable[[torch.Tensor], Any]] = {
        "strides": lambda g: g * 2 if g.is_contiguous() else g * 3,
        "a stride": lambda g: g * g.stride(0),
        "needs": lambda g: g * 2 if g.requires_grad else g * 3,
        "leaf": lambda g: g * 2 if g.is_leaf else g * 3,
        "mode": lambda g: g * 2 if torch.is_grad_enabled() else g * 3,
        "history": lambda g: g * 2 if g.grad_fn is None else g * 3,
        "version": lambda g: g * (g._version + 1),
        "sizes": lambda g: g * g.shape[0] * g.dim() * g.numel(),
    }
    for hook in asked.values():

        def program(x: torch.Tensor, hook: Any = hook) -> torch.Tensor:
            y = x.sin()[None].expand(3, 4)
            y.register_hook(hook)
            return (y.t() * 2).sum()

        call = gramme.compile(program, backend=backend)
        assert torch.equal(gradient(call), gradient(program))


@pytest.mark.parametrize("forward_inside", [False, True])
@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
def test_two_outstanding_backwards(backend: str, forward_inside: bool) -> None:
    def program(x: torch.Tensor, seen: list[Any], by: float) -> torch.Tensor:
        y = x.sin()
        z = y.detach() * by

        def hook(g: torch.Tensor) -> torch.Tensor:
            seen.append(float(by))
            return g * z

        y.register_hook(hook)
        return (y * 2).sum()

    def outcome_of(call: Callable[..., Any], inside: bool) -> Any:
        seen: list[Any] = []
        leaves = [torch.linspace(-1, 2, 4).requires_grad_() for _ in range(3)]

        def forward() -> list[Any]:
            return [call(x, seen, float(i + 1)) for i, x in enumerate(leaves)]

        losses = [] if inside else forward()
        with compiled_autograd._enable(lambda graph: graph):
            losses = losses or forward()
            for loss in reversed(losses):
                loss.backward()
        return seen, [x.grad for x in leaves]

    torch._dynamo.reset()
    call = gramme.compile(program, backend=backend)
    for _ in range(2):
        torch.testing.assert_close(outcome_of(call, forward_inside), outcome_of(program, forward_inside))


def test_backward_state_is_the_graphs_last_input() -> None:
    found: list[Any] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        found.append(([n.name for n in graph.graph.nodes if n.op == "placeholder"], [type(v).__name__ for v in inputs]))
        return graph.forward

    call = gramme.compile(PROGRAMS["appends"], backend=backend, fullgraph=True)
    with compiled_autograd._enable(lambda graph: graph):
        gradient(call, Box())
    assert found[0][0][-1] == "dynamo_backward_state"
    assert found[0][1][-1] == "BackwardState"
    with pytest.raises(gramme.errors.CaptureError):
        gradient(call, Box())  # without compiled autograd the hook's effect is no part of a graph


def test_layers_of_the_native_executor_under_compiled_autograd() -> None:
    torch._dynamo.reset()
    model = nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 3), nn.Linear(3, 4))
    call = gramme.compile(model, backend="native")
    for n in range(3):
        x = torch.full((2 + n, 3), 0.5)
        wanted = torch.autograd.grad(model(x).sum(), list(model.parameters()))
        model.zero_grad()
        with compiled_autograd._enable(lambda graph: graph):
            call(x).sum().backward()
        torch.testing.assert_close([p.grad for p in model.parameters()], list(wanted))


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_nothing_is_kept_by_a_hook_that_is_gone(backend: str) -> None:
    import gc
    import weakref

    call = gramme.compile(PROGRAMS["a_value_without_gradient"], backend=backend)
    for _ in range(3):
        x = torch.linspace(-1, 2, 4).requires_grad_()
        loss = call(x, Box())
        alive = weakref.ref(x)
        del loss, x
        gc.collect()
        assert alive() is None
    assert run(call, Box(), 0) == run(PROGRAMS["a_value_without_gradient"], Box(), 0)
