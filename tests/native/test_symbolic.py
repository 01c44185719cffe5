"""Tapes recorded at one size and replayed at others: programs whose sizes are inputs."""

import operator
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gramme
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from native.same import difference, outcome, twin

native: Any = gramme._C.native

SIZES = (4, 6, 2, 9, 1, 0)  # recorded at the first


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()
    torch.set_num_threads(threads)


def tensor(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(sum(sizes)))


# ---- programs: x is of n rows and 4 columns


def call(known: Any, function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """A node for a function that torch.fx does not see; `known` is one that it does."""
    return known.tracer.create_proxy("call_function", function, arguments, keywords)


def views(x: Any, n: Any) -> Any:
    return x.view(n, 2, 2), x.view(n * 2, 2).transpose(0, 1), x.reshape(-1, n + n), x.flatten().view(4 * n)


def expands(x: Any, n: Any) -> Any:
    return x.sum(0).expand(n, 4) + x, x[:, :1].expand(n, n + 3)


def makes(x: Any, n: Any) -> Any:
    row = call(n, torch.arange, n, dtype=torch.float32)
    made = call(n, torch.zeros, n, 2), call(n, torch.full, (2, n), 1.5), call(n, torch.full, (3,), n)
    return row[:, None] * x, x.new_ones(n + 1), call(n, torch.arange, 1, n + 1), made


def losses(x: Any, n: Any) -> Any:
    y = call(n, torch.ones, n, 4) * x
    target = call(n, torch.zeros, n, 4)
    return F.mse_loss(y, target), y.tanh(), F.smooth_l1_loss(target, y), target + 1, y.sigmoid()


def splits(x: Any, n: Any) -> Any:
    a, b = torch.cat([x, x * 2]).split([n, n])
    return a * b, x.split(n)[0]


def slices(x: Any, n: Any) -> Any:
    return x[: n - 1], x[n // 2 :], x[:, : n // 3] * 2, x[n - 1]


def arithmetic(x: Any, n: Any) -> Any:
    half = n // 2
    rest = n - half * 2
    least = call(n, min, n, 5), call(n, torch.sym_max, n, half)
    return x.narrow(0, 0, half), -n, (n + 3) % 5, 7 - n, rest, least, x.repeat(1, half + 1), n * n - 1


def operands(x: Any, n: Any) -> Any:
    return x * n, n - x, x / (n + 1), torch.add(x, x, alpha=n), x.long() // (n + 1), x.clamp(max=n), x + n * 2


def joins(x: Any, n: Any) -> Any:
    return torch.cat([x, x]).view(2, n, 4).sum(0), F.pad(x, (0, n, 1, 0)), torch.stack([x, x], 1).reshape(n, 8)


def true_quotients(x: Any, n: Any) -> Any:
    return x * (n / 2), x * n**2, x.sum() + (n + 1) ** 0.5


def the_same_number_twice(x: Any, n: Any) -> Any:
    y = torch.cat([x, x])
    rows = y.size(0)
    return (
        x.view(n + n, 2),
        x.reshape(2 * n, 2),
        n - n,
        n + 0,
        y.view(rows * 2 + rows * 2),
        y.view(rows * 4),
        rows - rows,
    )


def sizes_of_tensors(x: Any, n: Any) -> Any:
    y = torch.cat([x, x])
    rows = y.size(0)
    return y.view(rows * 4), rows, y.shape[0] + n, y.numel(), x.view(x.size(-1), -1), y.size()


def does_nothing_for_one(x: Any, n: Any) -> Any:
    return x.expand(n, 4), x.reshape(n, 4).contiguous(), x.t().contiguous(), x.squeeze(0), x.view(n, 4, 1).squeeze(2)


def pieces(x: Any, n: Any) -> Any:
    return x.chunk(3)[0], x.chunk(2, 1), x.t().unbind(0)[1], torch.cat(x.split(2)), x.tensor_split(2)


def writes(x: Any, n: Any) -> Any:
    y = x.clone()
    call(n, operator.setitem, y, slice(None, n // 2), 0)
    y.view(n * 4).add_(n)
    y.mul_(2)
    return y


def literals(x: Any, n: Any) -> Any:
    return x + call(n, torch.tensor, [n, 1, 2, n]), call(n, torch.tensor, n), x.new_tensor([n])


def layers(x: Any, n: Any) -> Any:
    y = F.layer_norm(F.relu(x), (4,)).view(n, 2, 2)
    return F.softmax(y @ y.transpose(1, 2), -1), F.dropout(x, 0.5, True), F.interpolate(y, size=n + 1)


def asks_for_whole_numbers(x: Any, n: Any) -> Any:
    row, square = call(n, torch.linspace, 0, 1, n), call(n, torch.eye, n)
    return x.cumsum(n - n), row, square.diagonal(n - n), x.topk(n - n + 1, 1)[0], x.sum(n - n)


def attends(x: Any, n: Any) -> Any:
    weight, bias = torch.full((12, 4), 0.1), torch.zeros(12)
    out, _ = F.multi_head_attention_forward(
        x, x, x, 4, 2, weight, bias, None, None, False, 0.0, weight[:4], bias[:4], need_weights=False
    )
    return out.view(n, 4)


def modes(x: Any, n: Any) -> Any:
    call(n, torch._C._set_grad_enabled, False)
    y = x.view(2, n * 2) * 2
    call(n, torch._C._set_grad_enabled, True)
    return y, x.view(n * 4) * 3


PROGRAMS = [
    views,
    expands,
    makes,
    losses,
    splits,
    slices,
    arithmetic,
    operands,
    joins,
    true_quotients,
    the_same_number_twice,
    sizes_of_tensors,
    does_nothing_for_one,
    pieces,
    writes,
    literals,
    layers,
    asks_for_whole_numbers,
    attends,
    modes,
]


def module_of(program: Callable[..., Any]) -> torch.fx.GraphModule:
    return torch.fx.symbolic_trace(program)


@pytest.mark.parametrize("grad", [False, True], ids=["no_grad", "grad"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_one_recording_for_all_sizes(program: Callable[..., Any], grad: bool) -> None:
    module = module_of(program)
    graph = native.from_graph_module(module)
    for seed, n in enumerate((*SIZES, SIZES[0])):
        x = tensor(n, 4).requires_grad_(grad and program is not writes)
        with torch.set_grad_enabled(grad):
            wanted = outcome(module.forward, [twin(x), n], seed=seed)
            found = outcome(graph, [twin(x), n], seed=seed)
        assert difference(wanted, found) is None, f"{n}: {difference(wanted, found)}\n{native.tape(graph)}"
        assert native.counters(graph)["recorded"] == 1
    assert native.counters(graph)["stepwise"] == 0


GOLDEN: list[tuple[Callable[..., Any], str]] = [
    (
        lambda x, n: (x.view(n * 2, 2), n - 1),
        """
inputs %0 to %0, 0 constants, 1 temporaries
%1 = aten::view(%0, [2*s0, 2]) direct
return %1, s0 - 1
""",
    ),
    (
        lambda x, n: (x * n).sum((0, 1)).expand((n + 1) // 2 * 3),
        """
inputs %0 to %0, 0 constants, 3 temporaries
%1 = aten::mul.Tensor(%0, s0) boxed direct
%2 = aten::sum.dim_IntList(%1, [0, 1], False, None) direct; frees %1
%3 = aten::expand(%2, [3*((s0 + 1)//2)], False) direct; frees %2
return %3
""",
    ),
    (
        lambda x, n: x.new_zeros(x.size(1) - n),
        """
inputs %0 to %0, 0 constants, 1 temporaries
s1 = size(%0, 1)
%1 = aten::new_zeros(%0, [s1 - s0], None, None, None, False) direct
return %1
""",
    ),
]


@pytest.mark.parametrize(("program", "expected"), GOLDEN)
def test_printed(program: Callable[..., Any], expected: str) -> None:
    graph = native.from_graph_module(module_of(program))
    with torch.no_grad():
        graph(tensor(3, 4), 3)
    assert native.tape(graph).strip() == expected.strip()


def test_other_kinds_of_tensors_are_recorded_anew() -> None:
    module = module_of(views)
    graph = native.from_graph_module(module)
    kinds = [tensor(4, 4), tensor(4, 4).double(), tensor(4, 4).requires_grad_(), nn.Parameter(tensor(4, 4))]
    for count, x in enumerate(kinds, 1):
        for _ in range(2):
            assert difference(outcome(module, [x, 4]), outcome(graph, [x, 4])) is None
        assert native.counters(graph)["recorded"] == count


def test_other_ranks_and_shared_tensors_are_recorded_anew() -> None:
    module = module_of(lambda x, y, n: (x.add_(n), y.reshape(n, -1)))
    graph = native.from_graph_module(module)
    x = tensor(4, 4)
    for recorded, (a, b) in enumerate([(x, x), (tensor(4, 2), tensor(2, 4)), (tensor(8), tensor(2, 4))], 1):
        inputs = [[twin(a), twin(b), 4] if a is not b else [t := twin(a), t, 4] for _ in range(2)]
        assert difference(outcome(module, inputs[0]), outcome(graph, inputs[1])) is None
        assert native.counters(graph)["recorded"] == recorded


@pytest.mark.parametrize("other", [2**70, 2.0, True, None], ids=str)
def test_what_is_no_size_is_not_taken_for_one(other: Any) -> None:
    module = module_of(lambda x, n: (x, n))
    graph = native.from_graph_module(module)
    for n in (3, other, 4, other):
        x = tensor(3)
        result, number = graph(x, n)
        assert result is x
        assert type(number) is type(n)
        assert number == n


def test_numbers_beyond_64_bits() -> None:
    """Python's numbers do not end: what a tape cannot compute runs step by step, before anything was written."""
    graph = native.from_graph_module(module_of(lambda x, n: (x.add_(1), n * n, -n, (n + 1) * 2)))
    for n in (3, 2**40, 5, 2**62, -(2**63), 2**63 - 1, 2**63, 4):
        x = torch.zeros(3)
        result, *numbers = graph(x, n)
        assert result is x
        assert torch.equal(x, torch.ones(3))
        assert numbers == [n * n, -n, (n + 1) * 2]


@pytest.mark.parametrize("constant", [2**63 - 1, -(2**63) + 1, -(2**63)])
def test_constants_at_the_end_of_64_bits(constant: int) -> None:
    graph = native.from_graph_module(module_of(lambda x, n: (x, n + constant, n - constant, n * constant)))
    for n in (0, 1, -1, 3, 2**62, 0):
        assert list(graph(tensor(3), n)[1:]) == [n + constant, n - constant, n * constant]


def test_an_operator_that_refuses_a_size() -> None:
    module = module_of(lambda x, n: (x.mul_(2), x.view(n, 4)))
    graph = native.from_graph_module(module)
    graph(tensor(4, 4), 4)
    x, y = tensor(4, 4), tensor(4, 4)
    errors = []
    for run, argument in ((module.forward, x), (graph, y)):
        with pytest.raises(RuntimeError) as caught:
            run(argument, 5)
        errors.append(str(caught.value))
    assert errors[0] == errors[1]
    assert torch.equal(x, y)
    assert difference(outcome(module, [x, 4]), outcome(graph, [y, 4])) is None


# ---- as torch.compile hands them over


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x):
        return self.second(F.relu(self.first(x))) * x.shape[0]


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, 2, width // 2).permute(2, 0, 3, 1, 4)
        mask = torch.ones(length, length, dtype=torch.bool).tril()
        weights = (q @ k.transpose(-1, -2) / (width // 2) ** 0.5).masked_fill(~mask, float("-inf")).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(11, 8), nn.Parameter(torch.randn(32, 8))
        self.blocks = nn.ModuleList(nn.ModuleList([nn.LayerNorm(8), Attention(), nn.LayerNorm(8), Mlp()]) for _ in "ab")

    def forward(self, ids):
        x = self.words(ids) + self.places[: ids.shape[1]]
        for before, attention, after, mlp in self.blocks:
            x = x + attention(before(x))
            x = x + F.gelu(mlp(after(x)))
        return x.mean(1)


class Collected:
    """gramme_native, with the graphs it made."""

    def __init__(self) -> None:
        self.graphs: list[Any] = []

    def __call__(self, module: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        self.graphs.append(gramme.gramme_native(module, example_inputs))
        return self.graphs[-1]


def rows(batch: int, length: int) -> torch.Tensor:
    return tensor(batch, length, 8)


def words(batch: int, length: int) -> torch.Tensor:
    return torch.arange(batch * length).view(batch, length) % 11


MODELS: list[tuple[type[nn.Module], Callable[[int, int], torch.Tensor]]] = [
    (Mlp, rows),
    (Attention, rows),
    (Transformer, words),
]
LENGTHS = ((2, 5), (3, 7), (2, 16), (5, 2), (4, 9))


@pytest.mark.parametrize("grad", [False, True], ids=["no_grad", "grad"])
@pytest.mark.parametrize(("model", "inputs"), MODELS, ids=["mlp", "attention", "transformer"])
class TestModels:
    def test_lengths(self, model: Any, inputs: Any, grad: bool) -> None:
        torch.manual_seed(0)
        eager, backend = model(), Collected()
        parameters = list(eager.parameters())
        compiled = torch.compile(eager, dynamic=True, backend=backend)
        for batch, length in LENGTHS:
            x = inputs(batch, length)
            with torch.set_grad_enabled(grad):
                wanted = outcome(eager, [x], leaves=parameters)
                found = outcome(compiled, [x], leaves=parameters)
            assert difference(wanted, found) is None, difference(wanted, found)
        assert [native.counters(graph)["recorded"] for graph in backend.graphs] == [1]
        assert re.search(r"\[[^\]]*\bs\d", native.tape(backend.graphs[0])) or model is Mlp

    def test_threads(self, model: Any, inputs: Any, grad: bool) -> None:
        torch.manual_seed(0)
        eager, backend = model(), Collected()
        compiled = torch.compile(eager, dynamic=True, backend=backend)
        with torch.set_grad_enabled(grad):
            compiled(inputs(*LENGTHS[0]))

        def work(i: int) -> bool:
            torch.set_num_threads(1)
            x = inputs(*LENGTHS[i % len(LENGTHS)])
            with torch.set_grad_enabled(grad):
                return torch.equal(compiled(x), eager(x))

        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(work, range(100)))
        assert [native.counters(graph)["recorded"] for graph in backend.graphs] == [1]
