"""Hooks of saved tensors, and checkpoints, which are made of them: each tensor is told once, as eagerly."""

from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from torch.utils.checkpoint import checkpoint


def layer(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.sigmoid(x @ w).tanh() * 2


@pytest.fixture
def inputs() -> list[torch.Tensor]:
    return [torch.randn(3, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)]


@pytest.mark.parametrize("calls_before", [0, 2])
@pytest.mark.parametrize("backend", ["eager", "native"])
def test_hooks_see_what_eager_saves(inputs: list[torch.Tensor], backend: str, calls_before: int) -> None:
    compiled = gramme.compile(layer, backend=backend)
    for _ in range(calls_before):
        compiled(*inputs)

    def told(function: Callable[..., Any]) -> list[Any]:
        log: list[Any] = []

        def pack(t: torch.Tensor) -> torch.Tensor:
            log.append((type(t), t.tolist()))
            return t

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: log.append("back") or t):
            log.append(torch.autograd.grad(function(*inputs).sum(), inputs)[0].tolist())
        return log

    expected = told(layer)
    assert [told(compiled) for _ in range(3)] == [expected] * 3


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
def test_checkpoint_of_a_compiled_function(inputs: list[torch.Tensor], backend: str, early: bool) -> None:
    compiled = gramme.compile(layer, backend=backend)

    def gradients(function: Callable[..., Any]) -> list[Any]:
        result = checkpoint(function, *inputs, use_reentrant=False, early_stop=early)
        return [g.tolist() for g in torch.autograd.grad(result.sum(), inputs)]  # type: ignore[union-attr]

    assert [gradients(compiled) for _ in range(3)] == [gradients(layer)] * 3


class Counts(torch.nn.Module):
    """Makes an effect before, between and after its operations; a checkpoint computes it again up to the second."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[str] = []

    def forward(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        self.log.append("first")
        x = torch.sigmoid(x @ w)
        self.log.append("second")
        x = x.tanh()
        self.log.append("third")
        return x + 1


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("backend", ["eager", "native"])
def test_effects_while_a_checkpoint_computes_again(inputs: list[torch.Tensor], backend: str, early: bool) -> None:
    expected, found = Counts(), Counts()
    for module, call in ((expected, expected), (found, gramme.compile(found, backend=backend))):
        for _ in range(3):
            checkpoint(call, *inputs, use_reentrant=False, early_stop=early).sum().backward()  # type: ignore[union-attr]
            module.log.append("done")
    assert found.log == expected.log
    assert early == (expected.log.count("third") < expected.log.count("first"))


# ---- hooks entered inside


LOG: list[Any] = []


def noted(t: torch.Tensor) -> torch.Tensor:
    LOG.append(("pack", tuple(t.shape)))
    return t * 1


def restored(t: torch.Tensor) -> torch.Tensor:
    LOG.append(("unpack", tuple(t.shape)))
    return t


def logged(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = x * 2
    with torch.autograd.graph.saved_tensors_hooks(noted, restored):
        z = (y @ w).sin()
    LOG.append("left")
    return (z * y).sum()


def on_cpu(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = x * 2
    with torch.autograd.graph.save_on_cpu():
        z = (y @ w).sin()
    return (z * y).sum()


def in_half(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.half(), lambda t: t.float()):
        z = (x @ w).sin()
    return z.cos().sum()


def nested(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = x * 2
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        with torch.autograd.graph.saved_tensors_hooks(lambda t: (t, 1), lambda pair: pair[0]):
            z = (y @ w).sin()
        v = z.exp()
    return (v * y).sum()


def raising(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = x * 2
    try:
        with torch.autograd.graph.saved_tensors_hooks(noted, restored):
            z = (y @ w).sin()
            raise KeyError(3)
    except KeyError as error:
        LOG.append(str(error))
    return (z * y.exp()).sum()


def refused(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    with torch.autograd.graph.disable_saved_tensors_hooks("not here"):
        try:
            with torch.autograd.graph.saved_tensors_hooks(noted, restored):
                LOG.append("never")
        except RuntimeError as error:
            LOG.append(str(error))
        return (x @ w).sin().sum()


FORWARD = {logged: 5, on_cpu: 5, in_half: 4, nested: 6, raising: 6, refused: 3}
"""Operations of the program itself; hooks run in the order that autograd asks for them."""


@pytest.mark.parametrize("backend", ["eager", "native", "callable"])
@pytest.mark.parametrize("program", FORWARD)
def test_hooks_entered_inside(program: Callable[..., Any], backend: str) -> None:
    def call_graph(module: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        return module.forward

    def told(function: Callable[..., Any]) -> list[Any]:
        torch.manual_seed(0)
        leaves = [torch.randn(3, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)]
        LOG.clear()
        result = function(*leaves)
        before = list(LOG)
        result.backward()
        return [result.tolist(), before, list(LOG), [leaf.grad.tolist() for leaf in leaves if leaf.grad is not None]]

    expected = told(program)
    compiled = gramme.compile(program, backend=call_graph if backend == "callable" else backend)
    for _ in range(3):
        with gramme.meter() as meter:
            assert told(compiled) == expected
        assert meter.inside >= FORWARD[program]
