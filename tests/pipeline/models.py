"""Layers and models that the tests of pipelines share."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from gramme.torchgpipe.microbatch import Batch
from gramme.torchgpipe.skip import Namespace, pop, skippable, stash
from gramme.torchgpipe.skip.tracker import SkipTracker, use_skip_tracker
from torch import Tensor, nn

CPU = torch.device("cpu")


def cpus(n: int) -> list[str]:
    return ["cpu"] * n


def workers() -> list[str]:
    """The names of the worker threads there are; threads of others (of RPC, of compilers) come and go as they like."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("gramme-stage")]


class Call(nn.Module):
    """A layer of a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def stasher(*names: str, of: Callable[[Tensor], Tensor] = torch.tanh) -> nn.Module:
    """Stashes `of` of its input under each name, gives its input doubled."""

    @skippable(stash=names)
    class Stasher(nn.Module):
        def forward(self, input):
            for name in names:
                yield stash(name, of(input))
            return input * 2

    return Stasher()


def popper(*names: str) -> nn.Module:
    """Adds what it pops to its input."""

    @skippable(pop=names)
    class Popper(nn.Module):
        def forward(self, input):
            for name in names:
                skip = yield pop(name)
                if skip is not None:
                    input = input + skip
            return input

    return Popper()


@skippable(stash=["skip"])
class Down(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, input):
        x = torch.relu(self.norm(self.linear(input)))
        yield stash("skip", x)
        return x * 0.5


@skippable(pop=["skip"])
class Up(nn.Module):
    def __init__(self, width: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.linear = nn.Linear(2 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, input):
        skip = yield pop("skip")
        return self.dropout(torch.tanh(self.linear(torch.cat([input, skip], 1))))


def unet(depth: int, width: int = 6, dropout: float = 0.0) -> nn.Sequential:
    """`depth` nested skips: down_0 .. down_n, middle, up_n .. up_0, out."""
    spaces = [Namespace() for _ in range(depth)]
    layers: list[tuple[str, nn.Module]] = [(f"down_{i}", Down(width).isolate(ns)) for i, ns in enumerate(spaces)]
    layers.append(("middle", nn.Sequential(nn.Linear(width, width), nn.Dropout(dropout), nn.Tanh())))
    layers += [(f"up_{i}", Up(width, dropout).isolate(ns)) for i, ns in reversed(list(enumerate(spaces)))]
    layers.append(("out", nn.Linear(width, 3)))
    return nn.Sequential(OrderedDict(layers))


def gradients(module: nn.Module) -> list[Tensor | None]:
    return [None if p.grad is None else p.grad.clone() for p in module.parameters()]


def run_uncut(model: nn.Sequential, x: Tensor, chunks: int, loss: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """Micro-batch by micro-batch: forward in order, backward in the opposite order. Gives output and loss."""
    outputs = []
    for chunk in x.chunk(chunks):
        with use_skip_tracker(SkipTracker()):
            outputs.append(model(chunk))
    leaves = [output.detach().requires_grad_() for output in outputs]
    total = loss(torch.cat(leaves))
    total.backward()
    for output, leaf in reversed(list(zip(outputs, leaves, strict=True))):
        output.backward(leaf.grad)
    return torch.cat(leaves).detach(), total.detach()


def same(a: Tensor | None, b: Tensor | None) -> bool:
    """Equal to the bit."""
    if a is None or b is None:
        return a is b
    return a.shape == b.shape and bool((a == b).all() | (a.isnan() & b.isnan()).all())


def node_names(tensor: Tensor) -> list[str]:
    """The class names of all nodes below a tensor."""
    names, seen, todo = [], set(), [tensor.grad_fn]
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        names.append(type(node).__name__)
        todo += [below for below, _ in node.next_functions]
    return names


def atomic(value: float = 1.0, *, grad: bool = True) -> Batch:
    return Batch(torch.tensor([value], requires_grad=grad))
