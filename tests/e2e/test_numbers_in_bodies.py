"""Numbers in closures of functions that operators take, changed between calls.

PyTorch's operators take tensors and ints for operands, and some of them no floats.
"""

from collections.abc import Callable, Iterator
from typing import Any

import gramme
import pytest
import torch
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention
from torch.utils.checkpoint import checkpoint

Program = Callable[[Any], Any]

BIAS = torch.arange(64.0).reshape(8, 8) / 64
Q = torch.arange(64.0).reshape(1, 2, 8, 4) / 64
X = torch.arange(4.0)
HELD: list[Any] = [0]
VALUES: dict[str, list[Any]] = {
    "float": [0.5, 1.0, 1.5, 2.0, 0.25],
    "int": [1, 2, 3, 4, 7],
    "bool": [True, False, True],
    "int or float": [1, 2.0, 3, 1.5, True],
    "tensor": [torch.tensor(1.0), torch.tensor(2.0), torch.tensor(3.5)],
    "tensor or float": [1.5, torch.tensor(2.0), 3.5, 4.5],
}


def run_graph(module: torch.fx.GraphModule, inputs: Any) -> Any:
    return module


BACKENDS: dict[str, Any] = {"native": "native", "eager": "eager", "a callable": run_graph}


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    gramme.reset()
    torch._dynamo.reset()
    yield
    gramme.reset()


def attention(score: Any = None, mask: BlockMask | None = None) -> Any:
    return flex_attention(Q, Q.cos(), Q, score_mod=score, block_mask=mask)


def by_hand(score: Any = lambda s, b, h, i, j: s, mask: Any = None) -> torch.Tensor:
    """The attention, without the operator: called for real it compiles itself."""
    b, h, i, j = torch.meshgrid(torch.arange(1), torch.arange(2), torch.arange(8), torch.arange(8), indexing="ij")
    scores = score(Q @ Q.cos().transpose(-1, -2) / 2, b, h, i, j)
    if mask is not None:
        scores = scores.masked_fill(~mask(b, h, i, j), float("-inf"))
    return torch.softmax(scores, -1).nan_to_num() @ Q


def as_block(mask: Any) -> BlockMask:
    return create_block_mask(mask, None, None, 8, 8, device="cpu")


def while_doubling(i: Any, x: torch.Tensor, k: Any) -> Any:
    """What the loop does, without the operator."""
    while i < 3:
        i, x = i + 1, x * k
    return i, x


def scanned(k: Any) -> Any:
    carry, rows = torch.zeros(()), []
    for y in X:
        carry, row = carry * k + y, carry + y + k
        rows.append(row)
    return carry, torch.stack(rows)


# Programs, and what they do in plain Python where calling them for real takes torch.compile.
SCORES: dict[str, Callable[[Any], Any]] = {
    "scaled": lambda k: lambda s, b, h, i, j: s * k,
    "with a bias": lambda k: lambda s, b, h, i, j: s * k + BIAS[i, j],
    "of distances": lambda k: lambda s, b, h, i, j: s + (i - j) * k,
    "used twice": lambda k: lambda s, b, h, i, j: s * k + k * 2,
    "decides": lambda k: lambda s, b, h, i, j: s * 2 if k > 1 else s * k,
    "compared": lambda k: lambda s, b, h, i, j: torch.where(i - j > k, s, -10.0),
    "computed outside": lambda k: lambda s, b, h, i, j, a=k * 0.5 + 1: s * a,
    "computed inside": lambda k: lambda s, b, h, i, j: s * (k * 0.5 + 1),
}
CONTROL: dict[str, tuple[Program, Program]] = {
    "cond": (
        lambda k: torch.cond(X.sum() > 0, lambda x: x * k, lambda x: x + k, (X,)),
        lambda k: X * k,
    ),
    "cond of computed": (
        lambda k: torch.cond(X.sum() < 0, lambda x: x * k, lambda x: x - (k * 0.5 + 1), (X,)),
        lambda k: X - (k * 0.5 + 1),
    ),
    "while_loop": (
        lambda k: while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * k), (torch.tensor(0), X)),
        lambda k: while_doubling(torch.tensor(0), X, k),
    ),
    "condition of a while_loop": (
        lambda k: while_loop(lambda i, x: i < k, lambda i, x: (i + 1, x * 2), (torch.tensor(0), X)),
        lambda k: (lambda n: (torch.tensor(n), X * 2**n))(max(0, -int(-float(k) // 1))),
    ),
    "scan": (
        lambda k: scan(lambda c, y: (c * k + y, c + y + k), torch.zeros(()), X),
        scanned,
    ),
    "map": (
        lambda k: torch_map(lambda y: y * k + 1, X),
        lambda k: X * k + 1,
    ),
    "checkpoint": (
        lambda k: checkpoint(lambda y: (y * k).sin() * k, X, use_reentrant=False),
        lambda k: (X * k).sin() * k,
    ),
}


def check(program: Program, plain: Program, values: list[Any], backend: Any) -> None:
    as_argument = gramme.compile(program, backend=backend)
    in_a_cell = gramme.compile(lambda: program(HELD[0]), backend=backend)
    for value in values:
        HELD[0] = value
        wanted = plain(value)
        torch.testing.assert_close(as_argument(value), wanted)
        torch.testing.assert_close(in_a_cell(), wanted)


def is_decided_by_data(name: str, kind: str) -> bool:
    return name == "decides" and "tensor" in kind


SCORED = [(name, kind) for name in SCORES for kind in VALUES if not is_decided_by_data(name, kind)]


@pytest.mark.sampled(60)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("name", "kind"), SCORED)
def test_flex_attention(name: str, kind: str, backend: str) -> None:
    score = SCORES[name]
    check(lambda k: attention(score(k)), lambda k: by_hand(score(k)), VALUES[kind], BACKENDS[backend])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["float", "int", "int or float"])
def test_masks(kind: str, backend: str) -> None:
    def near(k: Any) -> Any:
        return lambda b, h, i, j: i - j >= k * 0.5 - 1

    check(lambda k: attention(mask=as_block(near(k))), lambda k: by_hand(mask=near(k)), VALUES[kind], BACKENDS[backend])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("name", CONTROL)
def test_control_flow(name: str, kind: str, backend: str) -> None:
    program, plain = CONTROL[name]
    check(program, plain, VALUES[kind], BACKENDS[backend])


@pytest.mark.parametrize("backend", BACKENDS)
def test_masks_come_and_go(backend: str) -> None:
    """While the scale of a score changes."""

    def causal(b: Any, h: Any, i: Any, j: Any) -> Any:
        return i >= j

    scale = [0.5]

    def score(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        return s * scale[0] + BIAS[i, j]

    mask = as_block(causal)
    compiled = gramme.compile(lambda block_mask: attention(score, block_mask), backend=BACKENDS[backend])
    for value, masked in ((0.5, False), (1.0, True), (1.5, False), (2.0, True), (0.5, False)):
        scale[0] = value
        wanted = by_hand(score, causal if masked else None)
        torch.testing.assert_close(compiled(mask if masked else None), wanted)


@pytest.mark.parametrize("backend", ["native", "eager"])
@pytest.mark.parametrize("name", CONTROL)
def test_floats_stay_numbers_where_they_may_be_operands(name: str, backend: str) -> None:
    """One graph serves all values under gramme's own executors."""
    program, plain = CONTROL[name]
    compiled = gramme.compile(program, backend=backend)
    for value in (0.5, 1.5):
        compiled(value)
    with gramme.meter() as meter:
        for value in (2.5, 0.25):
            torch.testing.assert_close(compiled(value), plain(value))
    assert meter.captures == 0
