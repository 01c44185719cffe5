"""Hooks on tensors that the graph makes, whatever object they are: registered in the graph where it runs as it is. And
views of parameters that live across a break with grad mode off."""

import functools
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from torch import nn

from e2e.describe import describe
from e2e.front import GRAMME

pytestmark = pytest.mark.skipif(not GRAMME, reason="counts segments of gramme")


class Model(nn.Module):
    """Registers a hook in the middle and goes on computing with the tensor."""

    def __init__(self, hook: Callable[["Model"], Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 2)
        self.saved: list[Any] = []
        self.hook = hook
        self.scale = 2.0

    def save(self, grad: torch.Tensor) -> None:
        self.saved.append(grad)

    def scaled(self, name: str, grad: torch.Tensor, *, by: float = 2.0) -> torch.Tensor:
        self.saved.append((name, grad))
        return grad * by

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x).tanh()
        y.register_hook(self.hook(self))
        return self.second(y * 3).sum()


class Callback:
    def __init__(self, by: float) -> None:
        self.by, self.calls = by, 0

    def __call__(self, grad: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return grad * self.by


TRIPLE = Callback(3.0)


def negated(grad: torch.Tensor) -> torch.Tensor:
    return -grad


class Holding(Model):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x).tanh()
        y.register_hook(lambda grad: self.saved.append(grad * self.scale))
        z = y * 3
        z.register_hook(lambda grad, by=4.0: grad * by)
        return self.second(z).sum()


class ChangedLater(Model):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        by = 2.0
        y = self.first(x).tanh()
        y.register_hook(lambda grad: grad * by)
        z = self.second(y * 3).sum()
        by = 5.0
        return z


class NewAtEachCall(Model):
    def forward(self, x: torch.Tensor) -> Any:
        seen: list[Any] = []
        y = self.first(x).tanh()
        y.register_hook(seen.append)
        y.register_hook(lambda grad: seen.append(grad + 1))
        return self.second(y * 3).sum(), seen


MODELS: dict[str, Callable[[], Model]] = {
    "a bound method": lambda: Model(lambda m: m.save),
    "a partial": lambda: Model(lambda m: functools.partial(m.scaled, "y")),
    "a partial with keywords": lambda: Model(lambda m: functools.partial(Model.scaled, m, "y", by=0.5)),
    "an object": lambda: Model(lambda m: TRIPLE),
    "a function": lambda: Model(lambda m: negated),
    "a C function": lambda: Model(lambda m: torch.neg),
    "a lambda over self": lambda: Holding(lambda m: None),
}


def trained(model: Model, call: Any, rounds: int = 4) -> list[str]:
    found = []
    for n in range(rounds):
        model.saved.clear()
        model.zero_grad()
        result = call(torch.full((2, 3), 1.0 + n))
        loss = result[0] if isinstance(result, tuple) else result
        loss.backward()
        gradients = [p.grad for p in model.parameters()]
        found.append(describe(result=[loss.detach(), gradients, model.saved, result[1:] if result is not loss else ()]))
    return found


@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
@pytest.mark.parametrize("name", MODELS)
def test_as_eager(name: str, backend: str) -> None:
    model, same = MODELS[name](), MODELS[name]()
    call = gramme.compile(model, backend=backend)
    assert trained(model, call) == trained(same, same)
    if backend != "aot_eager":
        assert gramme.statistics(call).captures == 1


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("kind", [ChangedLater, NewAtEachCall])
def test_what_is_another_object_later(kind: type[Model], backend: str) -> None:
    model, same = kind(lambda m: None), kind(lambda m: None)
    call = gramme.compile(model, backend=backend)
    assert trained(model, call, 12) == trained(same, same, 12)


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_an_object_for_each_call(backend: str) -> None:
    def f(x: torch.Tensor, hook: Any) -> torch.Tensor:
        y = x.sin()
        y.register_hook(hook)
        return (y * 2).sum()

    call = gramme.compile(f, backend=backend)
    for n in range(12):
        hooks = [Callback(float(n)), Callback(float(n))]
        inputs = [torch.ones(2, requires_grad=True) for _ in hooks]
        for function, t, hook in zip((call, f), inputs, hooks, strict=True):
            function(t, hook).backward()
        assert torch.equal(inputs[0].grad, inputs[1].grad)
        assert [hook.calls for hook in hooks] == [1, 1]
    statistics = gramme.statistics(call)
    assert statistics.captures < 8
    assert statistics.plain_runs == 0


# ---- views of parameters, with grad mode off


class WithAView(nn.Module):
    def __init__(self, view: Callable[[torch.Tensor], torch.Tensor], use: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.c = nn.Parameter(torch.arange(4.0).reshape(1, 4))
        self.view, self.use = view, use

    def forward(self, x: torch.Tensor) -> Any:
        c = self.view(self.c)
        gramme.graph_break()
        y = self.use(c, x)
        return y, y.requires_grad, c.requires_grad, c.is_leaf


VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "reshape": lambda c: c.reshape(c.shape),
    "slice": lambda c: c[:, 1:],
    "expand": lambda c: c.expand(3, 4),
}
USES: dict[str, Callable[..., torch.Tensor]] = {
    "read": lambda c, x: (c.unsqueeze(0) + x[..., : c.shape[-1]]).sin(),
    "viewed": lambda c, x: c.unsqueeze(0).expand(x.shape[0], -1, -1),
    "beside a write": lambda c, x: x.add_(c.sum()) * 2,
    "copied and written": lambda c, x: c.clone().add_(1) * x[..., : c.shape[-1]],
    "with gradients": lambda c, x: torch.enable_grad()(lambda: (c * 2).sum())(),
}


@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("view", VIEWS)
def test_views_of_parameters(view: str, use: str, backend: str) -> None:
    model, same = WithAView(VIEWS[view], USES[use]), WithAView(VIEWS[view], USES[use])
    call = gramme.compile(model, backend=backend)

    def outcome(f: Any) -> str:
        x = torch.ones(2, 1, 4)
        result = f(x)
        # The node of a compiled graph has a name of its own.
        shown = (result[0].detach(), *result[1:]) if backend == "aot_eager" else result
        return describe(result=[shown, x.tolist()])

    with torch.no_grad():
        for _ in range(3):
            assert outcome(call) == outcome(same)
    assert outcome(call) == outcome(same)
    if use in ("read", "viewed"):
        assert gramme.statistics(call).plain_runs == 0


def test_graphs_around_a_view_of_a_parameter() -> None:
    model = WithAView(VIEWS["reshape"], USES["read"])
    with torch.no_grad():
        explained = str(gramme.explain(model)(torch.ones(2, 1, 4)))
    assert "came to need a gradient" not in explained
