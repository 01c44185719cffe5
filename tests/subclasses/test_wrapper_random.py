"""Random programs over wrappers, plain tensors and what they wrap, with writes and views, as eager has them."""

import random
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch

from subclasses.classes import Two, numbers
from subclasses.harness import described
from subclasses.wrapper_classes import Counting, Quiet, Slotted

UNARY: tuple[Callable[[Any], Any], ...] = (
    lambda x: x.sin(),
    lambda x: -x,
    lambda x: x + 1,
    lambda x: 2 - x,
    lambda x: torch.relu(x),
    lambda x: torch.nn.functional.softmax(x, dim=-1),
    lambda x: x.reshape(-1).view(2, 2),
    lambda x: x.t(),
    lambda x: x[0] + x[:, 1],
    lambda x: x.sum(dim=0),
    lambda x: torch.stack(x.unbind()),
    lambda x: x.detach() * 2,
    lambda x: x.clone(),
    lambda x: x * x.dim() if x.ndim == 2 else x,
    lambda x: x * 2,
    lambda x: x.a if isinstance(x, Two) else x,
    lambda x: x.b.detach() if isinstance(x, Two) else x,
    lambda x: x.grid.float() if isinstance(x, Quiet) else x,
    lambda x: x.held if isinstance(x, Slotted) else x,
    lambda x: Slotted(x, "k") if type(x) is torch.Tensor else x,
    lambda x: Two(x, x + 1) if type(x) is torch.Tensor else x,
    lambda x: x.plain() if isinstance(x, Quiet) else x,
)
BINARY: tuple[Callable[[Any, Any], Any], ...] = (
    lambda x, y: x + y,
    lambda x, y: x * y,
    lambda x, y: torch.add(x, y, alpha=2),
    lambda x, y: x @ y,
    lambda x, y: torch.cat([x, y])[:2],
    lambda x, y: torch.where(x < y, x, y),
    lambda x, y: Two(x, y) if type(x) is type(y) is torch.Tensor and x.shape == y.shape else x,
)
WRITES: tuple[Callable[[Any, Any], Any], ...] = (
    lambda x, y: x.add_(1),
    lambda x, y: x.mul_(2),
    lambda x, y: x.copy_(y),
    lambda x, y: x[0].zero_(),
    lambda x, y: x.view(-1).add_(1),
    lambda x, y: x.a.mul_(2) if isinstance(x, Two) else None,
    lambda x, y: x.detach().add_(1),
    lambda x, y: setattr(x, "a", y) if isinstance(x, Two) and type(y) is torch.Tensor else None,
)
CLASSES = ("plain", "plain", "two", "quiet", "slotted", "counting")


def made(kind: str, tensor: torch.Tensor) -> Any:
    with torch.no_grad():
        match kind:
            case "two":
                return Two(tensor, tensor + 1)
            case "quiet":
                return Quiet.of(tensor)
            case "slotted":
                return Slotted(tensor, "m")
            case "counting":
                return Counting(tensor, tensor * 2)
    return tensor


def program(seed: int) -> tuple[Callable[..., Any], Callable[..., list[Any]]]:
    draw = random.Random(seed)
    tables = {"unary": UNARY, "binary": BINARY, "write": WRITES}
    kinds = ["unary"] * 5 + ["binary"] * 3 + ["write"] * 2
    drawn = [
        (table := draw.choice(kinds), draw.randrange(len(tables[table])), draw.randrange(100), draw.randrange(100))
        for _ in range(draw.randint(2, 7))
    ]
    classes = [draw.choice(CLASSES) for _ in range(3)]
    grads = [draw.random() < 0.25 for _ in classes]
    shared = draw.random() < 0.3

    def function(*arguments: Any) -> Any:
        values = list(arguments)
        for kind, which, i, j in drawn:
            x, y = values[i % len(values)], values[j % len(values)]
            if kind == "unary":
                values.append(UNARY[which](x))
            elif kind == "binary":
                values.append(BINARY[which](x, y))
            else:
                WRITES[which](x, y)
        return values[3:]

    def arguments(rows: int = 2) -> list[Any]:
        all_made: list[Any] = []
        memory = numbers(rows, rows)
        for cls, grad in zip(classes, grads, strict=True):
            tensor = made(cls, memory if shared else numbers(rows, rows))
            all_made.append(tensor.requires_grad_() if grad and tensor.is_floating_point() else tensor)
        return all_made

    return function, arguments


def outcome(function: Callable[..., Any], arguments: list[Any]) -> str:
    try:
        results = function(*arguments)
        text = described(results)
        same = [[a is b for a in results] for b in [*arguments, *results]]
        learning = [r for r in results if isinstance(r, torch.Tensor) and r.requires_grad and r.grad_fn is not None]
        if learning:
            sum(r.sum() for r in learning).sum().backward()
        versions = [a._version for a in arguments]
    except Exception as error:
        return type(error).__name__
    return f"{text} {same} {described(arguments)} {versions}"


@pytest.mark.sampled(40)
@pytest.mark.parametrize("seed", range(2000))
@pytest.mark.parametrize("backend", ["eager", "native"])
def test_as_eager(seed: int, backend: str) -> None:
    function, arguments = program(seed)
    compiled = gramme.compile(function, backend=backend)
    expected = outcome(function, arguments())
    for _ in range(2):
        assert outcome(compiled, arguments()) == expected


@pytest.mark.sampled(40)
@pytest.mark.parametrize("seed", range(2000))
@pytest.mark.parametrize("backend", ["eager", "native"])
def test_as_eager_at_many_sizes(seed: int, backend: str) -> None:
    function, arguments = program(seed)
    compiled = gramme.compile(function, backend=backend)
    for rows in (2, 3, 4, 3, 2, 5, 1, 6):
        assert outcome(compiled, arguments(rows)) == outcome(function, arguments(rows)), rows
