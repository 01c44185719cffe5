"""Linear layers under autograd are one node each, and nobody can tell by anything but the nodes' names."""

from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.checkpoint import checkpoint

from native.same import difference, nodes, outcome, twin

pytestmark = pytest.mark.usefixtures("fresh")

Call = Callable[..., Any]


def native(function: Call) -> Call:
    return gramme.compile(function, backend="native", options={"recorded_backward": False})


def fused(tensor: torch.Tensor) -> int:
    return nodes(tensor).count("LinearBackward")


def layer(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None) -> torch.Tensor:
    return F.linear(x, w, b).tanh()


def leaf(*sizes: int, dtype: torch.dtype = torch.float32, grad: bool = True) -> torch.Tensor:
    return torch.randn(*sizes, dtype=dtype).requires_grad_(grad)


def same(function: Call, *inputs: Any, calls: int = 3) -> Any:
    """Asserts that calls and their gradients are eager's to the bit; gives the last call's result."""
    compiled = native(function)
    for call in range(calls):
        mine, theirs = [twin(x) for x in inputs], [twin(x) for x in inputs]
        wanted, found = outcome(function, mine), outcome(compiled, theirs)
        assert difference(wanted, found) is None, f"call {call}: {difference(wanted, found)}"
    return compiled(*inputs)


# ---- values

LAYOUTS: dict[str, Call] = {
    "contiguous": lambda t: t,
    "transposed": lambda t: t.mT.contiguous().mT,
    "strided": lambda t: torch.stack([t, t], -1)[..., 0],
    "within": lambda t: torch.cat([t, t], -1)[..., : t.shape[-1]],
    "first": lambda t: torch.cat([t, t], 0)[: t.shape[0]],
}
SIZES = st.integers(1, 5) | st.sampled_from([0, 17])


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    lead=st.lists(SIZES, min_size=0, max_size=3),
    sizes=st.tuples(SIZES, SIZES),
    bias=st.booleans(),
    grads=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    layouts=st.tuples(st.sampled_from(sorted(LAYOUTS)), st.sampled_from(sorted(LAYOUTS))),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.bfloat16, torch.complex64]),
)
def test_gradients_are_those_of_eager(
    lead: list[int],
    sizes: tuple[int, int],
    bias: bool,
    grads: tuple[bool, bool, bool],
    layouts: tuple[str, str],
    dtype: torch.dtype,
) -> None:
    gramme.reset()
    columns, rows = sizes

    def made(layout: str, grad: bool, *shape: int) -> torch.Tensor:
        t = torch.randn(*shape, dtype=dtype)
        return (LAYOUTS[layout](t) if t.dim() > 1 else t).detach().requires_grad_(grad)

    x = made(layouts[0], grads[0], *lead, columns)
    w = made(layouts[1], grads[1], rows, columns)
    same(layer, x, w, made("contiguous", grads[2], rows) if bias else None)


@pytest.mark.parametrize("lead", [(3,), (1, 3), (2, 1, 3)], ids=str)
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
def test_one_node_each(lead: tuple[int, ...], bias: bool) -> None:
    x, w, b = leaf(*lead, 4), leaf(5, 4), leaf(5) if bias else None
    result = same(layer, x, w, b)
    assert nodes(result) == ["LinearBackward", "TanhBackward0"] + ["torch::autograd::AccumulateGrad"] * (2 + bias)


def test_a_weight_used_twice() -> None:
    def tied(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = F.linear(F.linear(x, w).relu(), w).sigmoid() + x
        return x.sum(-1)

    assert fused(same(tied, leaf(2, 3, 4), leaf(4, 4))) == 6


# ---- who looks at a result gets PyTorch's


def returned(x: torch.Tensor, w: torch.Tensor) -> Any:
    return F.linear(x, w)


def returned_view(x: torch.Tensor, w: torch.Tensor) -> Any:
    return F.linear(x, w).transpose(0, 1)


def written(x: torch.Tensor, w: torch.Tensor) -> Any:
    return F.linear(x, w).relu_() * 2


def view_written(x: torch.Tensor, w: torch.Tensor) -> Any:
    y = F.linear(x, w)
    y[0] *= 3
    return y * 2


def kept(x: torch.Tensor, w: torch.Tensor) -> Any:
    y = F.linear(x, w)
    y.retain_grad()
    return y * 2


def in_halves(x: torch.Tensor, w: torch.Tensor) -> Any:
    with torch.autocast("cpu", torch.bfloat16):
        return F.linear(x, w).tanh()


@pytest.mark.parametrize("function", [returned, returned_view, written, view_written, kept, in_halves])
def test_results_others_look_at(function: Call) -> None:
    for x in (leaf(2, 3, 4), leaf(3, 4)):
        assert fused(same(function, x, leaf(4, 4))) == 0


def test_under_a_profiler_and_anomaly_mode() -> None:
    compiled, inputs = native(layer), (leaf(2, 3, 4), leaf(5, 4), leaf(5))
    for _ in range(2):
        compiled(*inputs)
    with torch.profiler.profile() as seen:
        assert fused(compiled(*inputs)) == 0
    assert "aten::linear" in {event.name for event in seen.events()}
    with pytest.warns(UserWarning, match="Anomaly"), torch.autograd.detect_anomaly():
        assert fused(compiled(*inputs)) == 0
    assert fused(compiled(*inputs)) == 1


def test_saved_tensors_go_through_hooks_as_eager_saves_them() -> None:
    def packed(function: Call, inputs: list[torch.Tensor]) -> list[tuple[int, ...]]:
        log: list[tuple[int, ...]] = []

        def pack(t: torch.Tensor) -> torch.Tensor:
            log.append(tuple(t.shape))
            return t.clone()

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            function(*inputs).sum().backward()
        return log

    compiled, inputs = native(layer), [leaf(2, 3, 4), leaf(5, 4), leaf(5)]
    for _ in range(2):
        compiled(*inputs)
    assert packed(compiled, inputs) == packed(layer, inputs) != []


def test_checkpoint() -> None:
    def inner(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.linear(F.linear(x, w).tanh(), w).tanh()

    def outer(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return checkpoint(inner, x, w, use_reentrant=False)  # type: ignore[no-any-return]

    same(outer, leaf(2, 3, 4), leaf(4, 4))
    compiled = native(inner)
    inputs = [leaf(2, 3, 4), leaf(4, 4)]
    found = [
        torch.autograd.grad(checkpoint(f, *inputs, use_reentrant=False).sum(), inputs) for f in [inner] + [compiled] * 3
    ]
    for gradients in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], gradients, strict=True))


# ---- the backward pass


def both(check: Callable[[Call], Any]) -> None:
    """`check` says the same of the eager function and of the native one once it is recorded."""
    compiled = native(layer)
    recorded, replayed = (fused(compiled(leaf(2, 3, 4), leaf(5, 4), leaf(5))) for _ in range(2))
    assert (recorded, replayed) == (0, 1)
    torch.manual_seed(3)
    wanted = check(layer)
    torch.manual_seed(3)
    assert difference(wanted, check(compiled)) is None


def inputs_of(function: Call) -> tuple[list[torch.Tensor], torch.Tensor]:
    inputs = [leaf(2, 3, 4), leaf(5, 4), leaf(5)]
    return inputs, function(*inputs)


def values(tensors: Any) -> list[Any]:
    return [None if t is None else t.tolist() for t in tensors]


def test_gradients_of_gradients() -> None:
    """What several of them add up to is added up in another order."""
    compiled = native(layer)
    compiled(leaf(2, 3, 4), leaf(5, 4), leaf(5))
    torch.manual_seed(3)
    found = []
    inputs = [leaf(*sizes, dtype=torch.float64) for sizes in ((2, 3, 4), (5, 4), (5,))]
    for function in (layer, compiled, compiled):
        first = torch.autograd.grad(function(*inputs).sum(), inputs, create_graph=True)
        second = torch.autograd.grad(sum(g.square().sum() for g in first), inputs, create_graph=True)
        third = torch.autograd.grad(sum(g.sin().sum() for g in second), inputs)
        found.append([first, second, third])
    assert all(torch.equal(a, b) for a, b in zip(found[0][0], found[2][0], strict=True))
    torch.testing.assert_close(found[2], found[0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "engine's"])
def test_sums_of_second_derivatives_associate_as_in_eager(recorded: bool, bias: bool) -> None:
    """Recorded backwards give all calls eager's bits; a node for a linear layer learns of it in the first such pass."""
    torch.manual_seed(0)
    x = torch.randn(16, 8)
    weights = [leaf(*sizes) for sizes in ((32, 8), (32,), (1, 32), (1,))]

    def loss(w: list[torch.Tensor]) -> torch.Tensor:
        hidden = F.linear(x, w[0], w[1] if bias else None).tanh()
        return F.linear(hidden, w[2], w[3] if bias else None).square().sum()

    def by_gradients(loss: Call, steps: int = 2) -> list[torch.Tensor]:
        w = weights
        for _ in range(steps):
            found = torch.autograd.grad(loss(w), w, create_graph=True, allow_unused=True)
            w = [each if g is None else each - 0.01 * g for each, g in zip(w, found, strict=True)]
        return [g for g in torch.autograd.grad(loss(w), weights, allow_unused=True) if g is not None]

    expected = by_gradients(loss)
    compiled = gramme.compile(loss, backend="native", options={"recorded_backward": recorded})
    found = [all(map(torch.equal, by_gradients(compiled), expected)) for _ in range(6)]
    assert found.count(False) <= (0 if recorded else 1), found


def test_some_gradients_only() -> None:
    def check(function: Call) -> Any:
        inputs, result = inputs_of(function)
        return [values(torch.autograd.grad(result.sum(), t, retain_graph=True)) for t in inputs]

    both(check)


def test_backward_twice() -> None:
    def check(function: Call) -> Any:
        inputs, result = inputs_of(function)
        loss = result.sum()
        loss.backward(retain_graph=True)
        loss.backward()
        with pytest.raises(RuntimeError, match="backward through the graph a second time") as caught:
            loss.backward()
        return values(t.grad for t in inputs) + [str(caught.value)]

    both(check)


@pytest.mark.parametrize("changed", [0, 1])
def test_what_was_saved_was_written_to(changed: int) -> None:
    def check(function: Call) -> Any:
        inputs, result = inputs_of(function)
        with torch.no_grad():
            inputs[changed].add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            result.sum().backward()
        return values(t.grad for t in inputs)

    both(check)


def test_batched_gradients() -> None:
    def check(function: Call) -> Any:
        inputs, result = inputs_of(function)
        return values(torch.autograd.grad(result, inputs, torch.randn(4, *result.shape), is_grads_batched=True))

    both(check)


def test_forward_mode() -> None:
    def check(function: Call) -> Any:
        inputs = [leaf(2, 3, 4), leaf(5, 4), leaf(5)]
        with torch.autograd.forward_ad.dual_level():
            dual = [torch.autograd.forward_ad.make_dual(t, torch.randn_like(t)) for t in inputs]
            return values(torch.autograd.forward_ad.unpack_dual(function(*dual)))

    both(check)


def test_order_of_hooks() -> None:
    names = ["x", "w", "b"]

    def check(function: Call) -> Any:
        log: list[str] = []
        inputs = [leaf(2, 3, 4), leaf(5, 4), leaf(5)]
        for name, t in zip(names, inputs, strict=True):
            t.register_hook(lambda g, name=name: log.append(f"gradient of {name}"))
            t.register_post_accumulate_grad_hook(lambda t, name=name: log.append(f"{name} has it"))
        function(*inputs).sum().backward()
        return log

    both(check)


def test_order_of_hooks_of_layers() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(m for _ in range(3) for m in (torch.nn.Linear(4, 4), torch.nn.Tanh())))
    log: list[str] = []
    for name, parameter in model.named_parameters():
        parameter.register_post_accumulate_grad_hook(lambda p, name=name: log.append(name))

    def order(call: Call) -> list[str]:
        log.clear()
        call(torch.ones(2, 3, 4, requires_grad=True)).sum().backward()
        return list(log)

    compiled = native(model)
    wanted = order(model)
    assert [order(compiled) for _ in range(3)] == [wanted] * 3


def test_compiled_autograd() -> None:
    from torch._dynamo import compiled_autograd

    graphs: list[Any] = []

    def compiler(graph: Any) -> Any:
        graphs.append(graph)
        return graph

    def check(function: Call) -> Any:
        inputs, result = inputs_of(function)
        with compiled_autograd._enable(compiler):
            result.sum().backward()
        return values(t.grad for t in inputs)

    both(check)
    assert len(graphs) == 2
