"""Views, indexing and layers whose sizes are computed at each call: recorded at one size, replayed at others."""

import random
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from native.same import difference, outcome, twin

native: Any = gramme._C.native
pytestmark = pytest.mark.usefixtures("one_thread")

SIZES = (4, 6, 2, 9, 1, 0, 4)  # recorded at the first


def tensor(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(sum(sizes)))


def copied(*tensors: Any) -> tuple[Any, ...]:
    """What the tape makes of hidden views, with sizes and strides that tell what those were."""
    return tuple(t * 1 for t in tensors)


# ---- programs: x is of n rows, 3 columns and 4 layers


def views(x: Any, n: Any) -> Any:
    return copied(
        x.view(n * 3, 4), x.view(-1, 2, 2), x.view(n, 12).transpose(0, 1), x.permute(2, 0, 1), x.unsqueeze(-2)
    )


def chains(x: Any, n: Any) -> Any:
    y = x.view(n, 3, 2, 2).transpose(1, 2)
    return copied(y.transpose(-1, 0).unsqueeze(1), y.permute(3, 2, 0, 1)[:, None, 1:], y)


def expansions(x: Any, n: Any) -> Any:
    row = x.sum(0, keepdim=True)
    return copied(row.expand(n, -1, 4), x.expand(2, n, 3, 4), x.sum().expand(n, 2), row.expand(n, 3, 4)[:, 1])


def copies(x: Any, n: Any) -> Any:
    y = x.transpose(0, 1)
    return copied(
        y.reshape(n * 3, 4), y.contiguous().view(-1), x.reshape(n, -1), y.reshape(3, n * 4).t(), x.contiguous()
    )


def slices(x: Any, n: Any) -> Any:
    return copied(x[: n - 1], x[1:], x[..., :2], x[:, None, 1], x[n // 2 :, ..., -1], x[:, -2:, ::3], x[...], x[:])


def slices_of_views(x: Any, n: Any) -> Any:
    y = x.view(n, 3, 4).transpose(0, 2)
    return copied(y[..., : n - 2], y[1, 2], y[None, 2:, :, -3:], y[0][1:][..., None])


def pieces(x: Any, n: Any) -> Any:
    return copied(x[..., 0][:, 1:], x.select(1, -1), x.view(n, 12)[:, 3:][:, :5])


def layers(x: Any, n: Any) -> Any:
    weight, bias = torch.linspace(-1, 1, 20).view(5, 4), torch.arange(5.0)
    y = F.linear(x, weight, bias)
    z = F.linear(x.transpose(0, 1), weight)
    flat = F.linear(x.view(n * 3, 4), weight, bias)
    return *copied(y, z, flat, F.linear(x[..., :4], weight), F.linear(x[0:1], weight, bias)), F.linear(x, weight)


def norms(x: Any, n: Any) -> Any:
    y = F.layer_norm(x, (4,))
    return copied(
        F.dropout(y, 0.5, False).float(), y.to(torch.float32).double(), F.softmax(y, 1), y.square().view(n, 12)
    )


def tables(x: Any, n: Any) -> Any:
    rows = x.argmax(-1)
    weight = torch.linspace(-1, 1, 20).view(5, 4)
    return copied(
        F.embedding(rows, weight),
        F.embedding(rows, weight, 0),
        x[rows[:, :1] * 0],
        x[rows * 0, rows.clamp(max=2)],
        x.mT,
    )


def attention(x: Any, n: Any) -> Any:
    y = x.view(n, 3, 2, 2).transpose(1, 2)
    z = F.scaled_dot_product_attention(y, y, y).transpose(1, 2).reshape(n, 3, 4).contiguous()
    mask = torch.ones(3, 3, dtype=torch.bool).tril()
    return z * 1, F.scaled_dot_product_attention(y, y, y, mask) * 1, (y @ y.transpose(-1, -2)) * 1


def written(x: Any, n: Any) -> Any:
    y = x.clone()
    y[1:].mul_(2)
    y.view(n, 12)[:, :3].add_(n)
    return y, y.transpose(0, 1).reshape(-1), y[:1]


PROGRAMS = [
    views, chains, expansions, copies, slices, slices_of_views, pieces, layers, norms, tables, attention, written,
]  # fmt: skip


@pytest.mark.parametrize("grad", [False, True], ids=["no_grad", "grad"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_all_sizes(program: Callable[..., Any], grad: bool) -> None:
    module = torch.fx.symbolic_trace(program)
    graph = native.from_graph_module(module)
    for n in SIZES:
        for x in (tensor(n, 3, 4), tensor(4, 3, n).transpose(0, 2), tensor(2 * n, 3, 4)[::2]):
            x = x.contiguous() if program in (views, chains, slices_of_views, pieces, layers, attention) else x
            x = x.requires_grad_(grad)
            with torch.set_grad_enabled(grad):
                wanted, found = outcome(module.forward, [twin(x), n]), outcome(graph, [twin(x), n])
            assert difference(wanted, found) is None, f"{n}: {difference(wanted, found)}\n{native.tape(graph)}"
    assert native.counters(graph)["stepwise"] == 0


@pytest.mark.parametrize("program", [views, chains, expansions, copies, slices, slices_of_views, layers, norms, tables])
def test_no_step_is_python(program: Callable[..., Any]) -> None:
    graph = native.from_graph_module(torch.fx.symbolic_trace(program))
    with torch.no_grad():
        graph(tensor(4, 3, 4), 4)
    assert "python" not in native.tape(graph), native.tape(graph)


def test_printed() -> None:
    graph = native.from_graph_module(
        torch.fx.symbolic_trace(lambda x, n: x.view(n, 2, 6).transpose(1, 2)[..., None, : n - 1] + 1)
    )
    with torch.no_grad():
        graph(tensor(4, 3, 4), 4)
    assert "= view(%0, view [s0, 2, 6], transpose 1 2, index [..., None, :s0 - 1])" in native.tape(graph)


@pytest.mark.parametrize("grad", [False, True], ids=["no_grad", "grad"])
def test_views_that_cannot_be(grad: bool) -> None:
    """Errors are eager's, and so is what comes after them."""
    programs: list[Callable[..., Any]] = [
        lambda x, n: x.view(n, 2, 6) * 1,
        lambda x, n: x.expand(n, 3, 4) * 1,
        lambda x, n: x[n] * 1,
        lambda x, n: x.transpose(0, 1)[0][n] * 1,
        lambda x, n: F.linear(x, x.new_ones(2, n)) * 1,
    ]
    for program in programs:
        module = torch.fx.symbolic_trace(program)
        graph = native.from_graph_module(module)
        for rows, n in ((4, 4), (5, 4), (4, 3), (1, 3), (9, 4), (2, 7), (4, 4)):
            x = tensor(rows, 3, 4).requires_grad_(grad)
            with torch.set_grad_enabled(grad):
                wanted, found = outcome(module.forward, [twin(x), n]), outcome(graph, [twin(x), n])
            assert difference(wanted, found) is None, f"{rows}, {n}: {difference(wanted, found)}\n{native.tape(graph)}"


def random_view(random: random.Random, t: torch.Tensor) -> Callable[[Any], Any]:
    """A view that every tensor of that rank has, whatever its sizes."""
    d, e = random.randrange(t.dim()), random.randrange(t.dim())
    start, stop, step = random.randint(-3, 3), random.choice([None, -1, 2, 5]), random.randint(1, 3)
    rest = tuple(range(t.dim()))
    order = random.sample(rest, t.dim())
    choices: list[Callable[[Any], Any]] = [
        lambda y: y.transpose(d, e - t.dim()),
        lambda y: y.unsqueeze(d),
        lambda y: y.permute(order),
        lambda y: y[..., start:stop:step],
        lambda y: y[(slice(None),) * d + (slice(start, stop, step), None)],
        lambda y: y.reshape(-1, 1),
        lambda y: y.contiguous(),
        lambda y: y.flatten()[None, start:, None],
    ]
    return random.choice(choices)


@pytest.mark.parametrize("seed", range(60))
def test_random_chains(seed: int) -> None:
    rng = random.Random(seed)
    example, steps = tensor(4, 3, 5), []
    for _ in range(rng.randint(2, 7)):
        steps.append(random_view(rng, example))
        example = steps[-1](example)

    def program(x: Any) -> Any:
        results = []
        for step in steps:
            x = step(x)
            results.append(x)
        return copied(*results)

    module = torch.fx.symbolic_trace(lambda x, n: (program(x), n))
    graph = native.from_graph_module(module)
    with torch.no_grad():
        for a in SIZES:
            for b in (3, 1, 0, 5):
                x = tensor(a, b, 5)
                wanted, found = outcome(module.forward, [twin(x), a]), outcome(graph, [twin(x), a])
                assert difference(wanted, found) is None, f"{a}, {b}: {difference(wanted, found)}\n{native.tape(graph)}"
    assert native.counters(graph)["recorded"] == 1


# What stays whole, since data makes its sizes, and gives what it got to operators inside.
GIVEN_BACK_INSIDE: dict[str, Callable[..., Any]] = {
    "hstack": lambda e: torch.hstack([e, e]),
    "dstack": lambda e: torch.dstack([e, e]),
    "block_diag": lambda e: torch.block_diag(e, e),
    "cartesian_prod": lambda e: torch.cartesian_prod(e, e),
    "hstack and more": lambda e: torch.hstack([e, torch.vstack([e, e]).sum(0)]),
}


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", GIVEN_BACK_INSIDE)
def test_what_parts_give_back_is_what_it_was(name: str, training: bool) -> None:
    def function(x: torch.Tensor) -> Any:
        chosen = x[x > 0]
        made = GIVEN_BACK_INSIDE[name](chosen)
        chosen.add_(1)
        return made, chosen, chosen * 2

    compiled = gramme.compile(function, backend="native", options={"recorded_backward": True} if training else None)
    with torch.set_grad_enabled(training):
        for seed in range(4):
            x = torch.randn(3, 3, generator=torch.Generator().manual_seed(seed)).requires_grad_(training)
            torch.testing.assert_close(compiled(x), function(x), rtol=0, atol=0)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out, self.norm = nn.Linear(8, 24), nn.Linear(8, 8, bias=False), nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        q, k, v = (t.view(batch, length, 2, 4).transpose(1, 2) for t in self.qkv(self.norm(x)).split(8, dim=2))
        y = F.scaled_dot_product_attention(q[..., :2], k[..., :2], v)
        return self.out(y.transpose(1, 2).reshape(batch, length, 8)) + x[:, -1:]


def test_a_segment_of_any_sizes_has_no_python() -> None:
    model = Block().eval()
    compiled = gramme.compile(model, backend="native", dynamic=True)
    with torch.no_grad():
        for batch, length in ((2, 5), (3, 7), (2, 1), (1, 5), (4, 2), (2, 5)):
            x = tensor(batch, length, 8)
            assert torch.equal(compiled(x), model(x))
        tape = gramme.explain(compiled)(tensor(2, 5, 8))
    assert all("python" not in segment.tape for segment in tape.segments)
