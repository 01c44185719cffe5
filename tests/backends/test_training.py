"""Training through captured graphs: bitwise eager's with backend "eager", close to it with PyTorch's compilers."""

from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from backends.support import ALL, QUICK, check

Loss = Callable[[Any, int], torch.Tensor]


def convolutions() -> tuple[nn.Module, Loss]:
    convolve = (nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.Conv2d(8, 8, 3, bias=False))
    layers = [convolve[0], nn.BatchNorm2d(8), nn.ReLU(), convolve[1], nn.BatchNorm2d(8)]
    images = torch.randn(5, 4, 3, 10, 10)
    model = nn.Sequential(*layers, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))
    return model, lambda model, step: F.cross_entropy(model(images[step]), torch.arange(4))


def gpt2() -> tuple[nn.Module, Loss]:
    transformers = pytest.importorskip("transformers")
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 2, "vocab_size": 50, "bos_token_id": 0, "eos_token_id": 0}
    config = transformers.GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, **sizes)
    words = torch.randint(0, 50, (5, 2, 8))

    def loss(model: Any, step: int) -> torch.Tensor:
        logits = model(input_ids=words[step], use_cache=False).logits
        return F.cross_entropy(logits.view(-1, 50), words[step].view(-1))

    return transformers.GPT2LMHeadModel(config), loss


def train(
    make: Callable[[], tuple[nn.Module, Loss]], backend: str | None
) -> tuple[list[float], dict[str, torch.Tensor]]:
    torch.manual_seed(0)
    model, loss = make()
    model.train()
    compiled = model if backend is None else gramme.compile(model, backend=backend, fullgraph=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for step in range(5):
        optimizer.zero_grad()
        value = loss(compiled, step)
        value.backward()
        optimizer.step()
        losses.append(value.item())
    if backend is not None:
        assert gramme.statistics(compiled).captures == 1
    return losses, {name: value.clone() for name, value in model.state_dict().items()}


@pytest.mark.parametrize("backend", ALL)
@pytest.mark.parametrize("make", [convolutions, gpt2])
def test_five_steps(make: Callable[[], tuple[nn.Module, Loss]], backend: str) -> None:
    (losses, state), (expected_losses, expected) = train(make, backend), train(make, None)
    if backend == "eager":
        assert losses == expected_losses
        assert all(torch.equal(state[name], expected[name]) for name in expected)
    torch.testing.assert_close(losses, expected_losses, rtol=1e-4, atol=1e-5)
    for name, value in expected.items():  # AdamW turns the rounding of a gradient that is zero into a step
        torch.testing.assert_close(state[name], value, rtol=1e-3, atol=5e-3, msg=name)


def leaf(*shape: int) -> torch.Tensor:
    return torch.linspace(-1, 2, torch.Size(shape).numel()).view(shape).requires_grad_()


def shared_by_graphs(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = (x @ w).relu()
    torch._dynamo.graph_break()
    z = (y @ w.t()).tanh()
    torch._dynamo.graph_break()
    return z * w.sum()


def leaf_written_under_no_grad(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        w.mul_(0.5)
    return (x @ w).sum()


def detached(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x @ w
    return y.detach() * 2, y + y.detach(), y.data


def part_under_no_grad(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    with torch.no_grad():
        scale = w.abs().amax()
    return (x @ w) / scale, scale


def grad_enabled_inside(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    with torch.no_grad():
        before = x @ w
        torch._dynamo.graph_break()
        with torch.enable_grad():
            inside = (x @ w).sin()
        after = x * 2
    return before, inside, after


def grad_required_inside(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = torch.ones(4).requires_grad_()
    return (x @ w) * y.sum()


def output_written(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = x @ w
    y[0].mul_(2)
    y.add_(1)
    return y


def unused_and_integer(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (x @ w).argmax(1), x.sum() * 2


def checkpointed(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return checkpoint(lambda x: (x @ w).relu().sin(), x, use_reentrant=False) * 2


CASES = [
    shared_by_graphs,
    leaf_written_under_no_grad,
    detached,
    grad_enabled_inside,
    checkpointed,
    part_under_no_grad,
    grad_required_inside,
    output_written,
    unused_and_integer,
]


@pytest.mark.parametrize("backend", QUICK)
@pytest.mark.parametrize("function", CASES)
def test_gradients(function: Any, backend: str) -> None:
    check(function, lambda: (leaf(3, 4), leaf(4, 4)), backend)


@pytest.mark.slow
@pytest.mark.parametrize("function", CASES[:5])
def test_gradients_with_inductor(function: Any) -> None:
    check(function, lambda: (leaf(3, 4), leaf(4, 4)), "inductor")


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_inputs_that_are_no_leaves(backend: str) -> None:
    compiled = gramme.compile(lambda x, y: (x * y).sin(), backend=backend)
    gradients = []
    for f in (compiled, lambda x, y: (x * y).sin()):
        x = leaf(4)
        f(x * 2, x.exp()).sum().backward()
        gradients.append(x.grad)
    assert torch.equal(*gradients)


def test_double_backward_with_eager() -> None:
    compiled = gramme.compile(lambda x: (x**3).sin(), backend="eager")
    x = leaf(4)
    (first,) = torch.autograd.grad(compiled(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    y = leaf(4)
    (g,) = torch.autograd.grad((y**3).sin().sum(), y, create_graph=True)
    assert torch.equal(second, torch.autograd.grad(g.sum(), y)[0])


def test_double_backward_is_refused_by_aot_autograd() -> None:
    x = leaf(4)
    result = gramme.compile(lambda x: (x**3).sin(), backend="aot_eager")(x)
    (first,) = torch.autograd.grad(result.sum(), x, create_graph=True)
    with pytest.raises(RuntimeError):
        torch.autograd.grad(first.sum(), x)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_modes_of_the_caller(mode: Any, backend: str) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    compiled = gramme.compile(model, backend=backend)
    x = torch.ones(2, 4)
    for _ in range(2):
        with mode():
            result = compiled(x)
            assert torch.equal(result, model(x))
        assert not result.requires_grad
        assert result.is_inference() == (mode is torch.inference_mode)
        assert compiled(x).requires_grad


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_mode_left_changed(backend: str) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        torch.set_grad_enabled(False)
        return y

    compiled = gramme.compile(f, backend=backend)
    for _ in range(2):
        try:
            result = compiled(leaf(2))
            assert not torch.is_grad_enabled()
        finally:
            torch.set_grad_enabled(True)
        assert result.requires_grad


@torch.inference_mode()
def all_under_inference(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x * 2, x.detach() + 1


def part_under_inference(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    with torch.inference_mode():
        y = x.detach() * 2
    return y, x * 3


@pytest.mark.parametrize("backend", QUICK)
@pytest.mark.parametrize("function", [all_under_inference, part_under_inference])
def test_inference_mode_inside(function: Any, backend: str) -> None:
    compiled = gramme.compile(function, backend=backend, fullgraph=True)
    for _ in range(2):
        for actual, expected in zip(compiled(leaf(3)), function(leaf(3)), strict=True):
            assert torch.equal(actual, expected)
            assert actual.is_inference() == expected.is_inference()
            assert actual.requires_grad == expected.requires_grad


@pytest.mark.parametrize("backend", QUICK)
def test_autocast_around_a_break(backend: str) -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x
            torch._dynamo.graph_break()
            z = x @ x
        return y, z, x @ x

    check(f, lambda: (leaf(4, 4),), backend)
