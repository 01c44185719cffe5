"""Random programs over tensors of classes with a `__torch_function__`, plain ones and writes, as eager has them."""

import random
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch

from subclasses.classes import LOG, Carrying, Child, Inheriting, Logged, Modest, Off, Tagged, Unwrapping, numbers
from subclasses.harness import described

CLASSES = (Carrying, Child, Inheriting, Logged, Modest, Off, Tagged, Unwrapping)
Step = Callable[[list[Any]], Any]

UNARY: tuple[Callable[[Any], Any], ...] = (
    lambda x: x.sin(),
    lambda x: -x,
    lambda x: x + 1,
    lambda x: 2 - x,
    lambda x: torch.relu(x),
    lambda x: torch.nn.functional.softmax(x, dim=-1),
    lambda x: x.reshape(-1).view(2, 2),
    lambda x: x.t(),
    lambda x: x.T.contiguous(),
    lambda x: x[0] + x[:, 1],
    lambda x: x[[1, 0]],
    lambda x: x.sum(dim=0),
    lambda x: x.max(dim=1).values,
    lambda x: torch.stack(x.unbind()),
    lambda x: x.detach() * 2,
    lambda x: x.clone(),
    lambda x: x.to(torch.float64),
    lambda x: x.view(x.shape[1], -1),
    lambda x: x * x.dim() if x.ndim == 2 else x,
    lambda x: torch.where(x > 1, x, -x),
    lambda x: x.as_subclass(torch.Tensor),
    lambda x: x.as_subclass(Inheriting),
    lambda x: x.as_subclass(Logged),
)
BINARY: tuple[Callable[[Any, Any], Any], ...] = (
    lambda x, y: x + y,
    lambda x, y: x * y,
    lambda x, y: torch.add(x, y, alpha=2),
    lambda x, y: torch.maximum(x, y),
    lambda x, y: x @ y,
    lambda x, y: torch.cat([x, y])[:2],
    lambda x, y: x - y.mean(),
    lambda x, y: torch.where(x < y, x, y),
)
WRITES: tuple[Callable[[Any, Any], Any], ...] = (
    lambda x, y: x.add_(1),
    lambda x, y: x.mul_(y),
    lambda x, y: x.copy_(y),
    lambda x, y: x[0].zero_(),
    lambda x, y: x.__setitem__(0, y[1]),
    lambda x, y: x.view(-1).add_(1),
)
ATTRIBUTES: tuple[Callable[[Any, Any], Any], ...] = (
    lambda x, y: setattr(x, "mark", 1),
    lambda x, y: setattr(x, "other", getattr(y, "mark", None)),
)


def steps(draw: random.Random) -> list[tuple[str, int, int, int]]:
    kinds = ["unary"] * 5 + ["binary"] * 4 + ["write"] * 2 + ["attribute"]
    tables = {"unary": UNARY, "binary": BINARY, "write": WRITES, "attribute": ATTRIBUTES}
    drawn = []
    for _ in range(draw.randint(2, 8)):
        kind = draw.choice(kinds)
        drawn.append((kind, draw.randrange(len(tables[kind])), draw.randrange(100), draw.randrange(100)))
    return drawn


def program(seed: int) -> tuple[Callable[..., Any], Callable[[], list[Any]]]:
    draw = random.Random(seed)
    drawn = steps(draw)
    classes = [draw.choice((torch.Tensor, *CLASSES)) for _ in range(3)]
    grads = [draw.random() < 0.3 for _ in classes]
    shared = draw.random() < 0.3
    without_handlers = draw.random() < 0.15

    def body(values: list[Any]) -> list[Any]:
        for kind, which, i, j in drawn:
            x, y = values[i % len(values)], values[j % len(values)]
            if kind == "unary":
                values.append(UNARY[which](x))
            elif kind == "binary":
                values.append(BINARY[which](x, y))
            elif kind == "write":
                WRITES[which](x, y)
            else:
                ATTRIBUTES[which](x, y)
        return values[3:]

    def function(*arguments: Any) -> Any:
        values = list(arguments)
        if without_handlers:
            with torch._C.DisableTorchFunctionSubclass():
                return body(values)
        return body(values)

    def arguments() -> list[Any]:
        made: list[Any] = []
        for cls, grad in zip(classes, grads, strict=True):
            tensor = numbers(2, 2).requires_grad_() * 1 if grad else numbers(2, 2)
            if shared and made:
                tensor = made[0].as_subclass(torch.Tensor)
            tensor = tensor if cls is torch.Tensor else tensor.as_subclass(cls)
            if isinstance(tensor, Tagged):
                tensor.tag = cls.__name__
            made.append(tensor)
        return made

    return function, arguments


def asked() -> list[str]:
    """All but the reset of hooks, which PyTorch makes when somebody first looks at a view that was written."""
    return [line for line in LOG if "__set__" not in line]


def outcome(function: Callable[..., Any], arguments: list[Any]) -> str:
    LOG.clear()
    try:
        results = function(*arguments)
        text = described(results)
        log = asked()
        same = [[a is b for a in results] for b in [*arguments, *results]]
        plain = [r.as_subclass(torch.Tensor) for r in results if isinstance(r, torch.Tensor) and r.requires_grad]
        leaves = {id(r.grad_fn): r for r in plain if r.grad_fn is not None}
        if leaves:
            sum(r.double().sum() for r in plain).backward()
        versions = [a._version for a in arguments]
    except Exception as error:
        return f"{type(error).__name__} {asked()}"
    return f"{text} {same} {described(arguments)} {log} {versions}"


@pytest.mark.sampled(120)
@pytest.mark.parametrize("seed", range(2000))
@pytest.mark.parametrize("backend", ["eager", "native"])
def test_as_eager(seed: int, backend: str) -> None:
    function, arguments = program(seed)
    compiled = gramme.compile(function, backend=backend)
    expected = outcome(function, arguments())
    for _ in range(2):
        assert outcome(compiled, arguments()) == expected
    LOG.clear()
