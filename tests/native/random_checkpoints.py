"""Random models of checkpointed blocks, trained for some steps with unusual events: what each step leaves."""

import contextlib
import itertools
import random
from collections.abc import Callable
from typing import Any

import gramme
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


class Mlp(nn.Module):
    def __init__(self, p: float) -> None:
        super().__init__()
        self.a, self.b, self.norm, self.p = nn.Linear(8, 16), nn.Linear(16, 8), nn.LayerNorm(8), p

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + F.dropout(self.b(F.gelu(self.a(self.norm(x)))), self.p)


class Attention(nn.Module):
    def __init__(self, p: float) -> None:
        super().__init__()
        self.all, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.all(x).view(1, x.shape[0], 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        return x + self.out(F.scaled_dot_product_attention(q, k, v)[0].transpose(0, 1).reshape(x.shape))


class Shared(nn.Module):
    """A weight that is used twice, and a tensor from outside."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.a = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
        z = F.linear(self.a(x).relu(), self.a.weight)
        return z if y is None else z * y


class Two(nn.Module):
    def __init__(self, p: float) -> None:
        super().__init__()
        self.a = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = self.a(x)
        return h.sin(), h.exp()


class Counting(nn.Module):
    """A second forward writes again."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.a, self.norm = nn.Linear(8, 8), nn.BatchNorm1d(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.a(x)).relu()


class Writing(nn.Module):
    """A formula saves what is written afterwards, which a checkpoint does not notice."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.a = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.a(x).relu_().mul_(2).sigmoid()


class Nested(nn.Module):
    def __init__(self, p: float) -> None:
        super().__init__()
        self.inner, self.outer = Mlp(p), Mlp(p)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = checkpoint(self.inner, x, use_reentrant=False)
        return self.outer(inner)  # type: ignore[no-any-return]


KINDS: tuple[type[nn.Module], ...] = (Mlp, Attention, Shared, Two, Counting, Writing, Nested)
EVENTS = ("retain", "twice", "parameter", "input", "output", "some", "hook", "graph", "calls", "no_grad", "drop")


class Model(nn.Module):
    def __init__(self, drawn: random.Random) -> None:
        super().__init__()
        kinds = [drawn.choice(KINDS) for _ in range(drawn.randint(1, 3))]
        self.blocks = nn.ModuleList(kind(drawn.choice([0.0, 0.3])) for kind in kinds)
        self.options = {"use_reentrant": drawn.random() < 0.3, "preserve_rng_state": drawn.random() < 0.9}
        layers = [block.a for block in self.blocks if isinstance(block, Shared | Two | Writing)]
        if drawn.random() < 0.3:
            for layer in layers:
                layer.weight = layers[0].weight
        if drawn.random() < 0.2:
            for parameter in itertools.islice(self.parameters(), 0, None, 2):
                parameter.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.cos()
        for block in self.blocks:
            outside = isinstance(block, Shared) and not self.options["use_reentrant"]
            made: Any = checkpoint((lambda a, b=block: b(a, y)) if outside else block, x, **self.options)
            x = made[0] * made[1] if isinstance(made, tuple) else made
        return x


class Steps:
    """Steps of one model, eager or compiled, on the same data."""

    def __init__(self, seed: int) -> None:
        drawn = random.Random(seed)
        torch.manual_seed(seed)
        self.seed, self.model = seed, Model(drawn)
        self.dtype = drawn.choice([None, None, torch.bfloat16, torch.float16])
        self.start = {name: value.clone() for name, value in self.model.state_dict().items()}

    def run(self, call: Callable[..., Any]) -> list[Any]:
        self.model.load_state_dict(self.start)
        self.model.zero_grad()
        drawn, told = random.Random(self.seed + 1), list[Any]()
        data = torch.Generator().manual_seed(self.seed)
        for step in range(6):
            torch.manual_seed(step)
            x = torch.randn(4, 8, generator=data).requires_grad_(drawn.random() < 0.7)
            event = drawn.choice(["plain"] * 4 + list(EVENTS))
            if drawn.random() < 0.6:
                self.model.zero_grad()
            try:
                told += self._step(call, x, event)
            except RuntimeError as error:
                told.append(str(error).split("\n")[0][:60])
            told += [torch.rand(1), event, x.grad, *(p.grad for p in self.model.parameters()), *self.model.buffers()]
            told = [t.detach().clone() if isinstance(t, torch.Tensor) else t for t in told]
        return told

    def _step(self, call: Callable[..., Any], x: torch.Tensor, event: str) -> list[Any]:
        wanted = [p for p in self.model.parameters() if p.requires_grad]
        if event == "graph" and any(isinstance(block, Two) for block in self.model.blocks):
            event = "plain"  # a formula that saves its own result, which is read twice: last bits (design.md)
        cast = torch.autocast("cpu", dtype=self.dtype) if self.dtype else contextlib.nullcontext()
        with cast:
            if event == "no_grad":
                with torch.no_grad():
                    return [call(x)]
            y = call(x)
            told = [y.detach().clone()]
            total = y + call(x * 0.5) if event == "calls" else y
            loss = (total.float() * torch.arange(1.0, 33.0).view(4, 8).sin()).sum()
        if event == "drop":
            return told
        if event == "hook":
            y.register_hook(lambda g: g * 2)
        written = {"parameter": next(self.model.parameters()), "input": x, "output": y}
        if event in written:
            with torch.no_grad():
                written[event].mul_(1.1)
        if event == "some":
            return told + [*torch.autograd.grad(loss, wanted[:2], allow_unused=True)]
        if event == "graph":
            found = torch.autograd.grad(loss, wanted, create_graph=True, allow_unused=True)
            loss = sum(((g * g).sum() for g in found if g is not None), torch.zeros((), requires_grad=True) * 0)
        loss.backward(retain_graph=event == "retain")
        if event in ("retain", "twice"):
            loss.backward()
        return told


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a.nan_to_num(7e4), b.nan_to_num(7e4))
    return bool(a == b) if not isinstance(a, torch.Tensor) and not isinstance(b, torch.Tensor) else False


def difference(seed: int) -> str | None:
    """Where a compiled model's steps differ from eager's; None if nowhere."""
    steps = Steps(seed)
    compiled = gramme.compile(steps.model, backend="native", options={"recorded_backward": True})
    wanted, found = steps.run(steps.model), steps.run(compiled)
    if len(wanted) == len(found) and all(map(_same, wanted, found)):
        return None
    events = [[t for t in told if isinstance(t, str)] for told in (wanted, found)]
    blocks = [type(block).__name__ for block in steps.model.blocks]
    return f"{seed}: {blocks} {steps.dtype} {steps.model.options}: {events[0]} expected, {events[1]} found"
