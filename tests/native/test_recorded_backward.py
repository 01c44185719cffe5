"""A recorded backward: nobody can tell it from the engine's by anything but the nodes' names."""

import gc
import itertools
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
import torch.nn.functional as F
from e2e.test_leaks import reads_memory, resident
from sampling import SOAK
from torch import nn
from torch.utils.checkpoint import checkpoint

from native import random_training
from native.same import graphs, nodes, recorded_nodes, twin

pytestmark = pytest.mark.usefixtures("fresh")

Call = Callable[..., Any]


def recorded(function: Call) -> Call:
    return gramme.compile(function, backend="native", options={"recorded_backward": True})


def leaf(*sizes: int, grad: bool = True) -> torch.Tensor:
    return torch.randn(*sizes).requires_grad_(grad)


def is_recorded(value: Any) -> bool:
    outputs = value if isinstance(value, (tuple, list)) else [value]
    return any(recorded_nodes(x) for x in outputs if isinstance(x, torch.Tensor) and x.requires_grad)


def reasons() -> list[str]:
    """Why backwards of compiled graphs are the engine's."""
    lines = [line for graph in graphs() for line in gramme._C.native.tape(graph).splitlines()]
    return [line for line in lines if line.startswith(("not recorded: ", "stopped: "))]


def bits(tensors: Any) -> Any:
    return [None if t is None else (t.detach().numpy().tobytes(), t.stride(), t.shape) for t in tensors]


def total(value: Any) -> torch.Tensor:
    outputs = value if isinstance(value, (tuple, list)) else [value]
    return sum((o * torch.arange(1.0, o.numel() + 1).view(o.shape).sin()).sum() for o in outputs if o.requires_grad)


def steps(module: nn.Module, function: Call, inputs: list[torch.Tensor], loss: Call, count: int = 5) -> list[Any]:
    """Loss, outputs, gradients and buffers of each step of an optimizer."""
    optimizer = torch.optim.SGD(module.parameters(), 0.1, momentum=0.9)
    told = []
    for step in range(count):
        torch.manual_seed(step)
        optimizer.zero_grad()
        outputs = function(*inputs)
        value = loss(outputs)
        value.backward()
        grads = [p.grad for p in module.parameters()]
        told.append((value.item(), bits(grads), bits(module.buffers()), torch.random.get_rng_state().sum().item()))
        optimizer.step()
    return told


def same_training(
    make: Callable[[], nn.Module], *inputs: torch.Tensor, loss: Call = total, wanted: bool = True
) -> None:
    """Asserts that five steps have eager's bits, and that the last was recorded, or was not."""
    torch.manual_seed(0)
    theirs = make()
    torch.manual_seed(0)
    mine = make()
    compiled = recorded(mine)
    for step, (a, b) in enumerate(
        zip(steps(theirs, theirs, list(inputs), loss), steps(mine, compiled, list(inputs), loss), strict=True)
    ):
        assert a == b, step
    assert is_recorded(compiled(*inputs)) is wanted


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(16, 16) / 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(torch.tanh(x @ self.w) @ self.w) @ self.w


class Two(nn.Module):
    """An output that is read inside, too."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = self.a(x)
        return h, self.b(h).tanh() + h.sin()


class Attention(nn.Module):
    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(8, 8) for _ in range(3))
        self.norm, self.dropout = nn.LayerNorm(8), dropout

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = [f(self.norm(x)).view(2, 5, 2, 4).transpose(1, 2) for f in (self.q, self.k, self.v)]
        y = F.scaled_dot_product_attention(*heads).transpose(1, 2).reshape(2, 5, 8)
        return x + F.dropout(y, self.dropout, self.training)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4), nn.Softmax(-1))


# ---- training programs


@pytest.mark.parametrize(
    ("make", "sizes"),
    [
        (mlp, (3, 8)),
        (Tied, (4, 16)),
        (Two, (3, 8)),
        (Attention, (2, 5, 8)),
        (lambda: Attention(0.3), (2, 5, 8)),
        (lambda: nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 2)), (5, 8)),
        (
            lambda: nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3)),
            (2, 1, 8, 8),
        ),
        (lambda: nn.Sequential(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.SiLU(), nn.AvgPool2d(2)), (2, 1, 8, 8)),
    ],
    ids=["mlp", "tied", "two", "attention", "attention dropout", "dropout", "convnet", "groups"],
)
def test_training(make: Callable[[], nn.Module], sizes: tuple[int, ...]) -> None:
    same_training(make, torch.randn(*sizes))


def test_embedding_and_cross_entropy() -> None:
    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(11, 8)
            self.mix = nn.Linear(8, 8)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            logits = F.linear(F.silu(self.mix(self.words(ids))), self.words.weight)
            return F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())

    same_training(Words, torch.randint(0, 11, (2, 6)), loss=lambda x: x)


@pytest.mark.parametrize("outer", [False, True])
def test_a_parameter_used_inside_and_outside(outer: bool) -> None:
    model, x = Tied(), torch.randn(8, 16)
    compiled = recorded(model)

    def gradient(function: Call) -> Any:
        model.w.grad = None
        before = model.w.square().sum() * 0.1 if outer else 0
        (function(x).sum() + (model.w.square().sum() * 0.1 if outer else 0) + before).backward()
        return bits([model.w.grad])

    wanted = gradient(model)
    for _ in range(4):
        assert gradient(compiled) == wanted
    assert is_recorded(compiled(x))


def test_hooks_on_an_output_that_is_read_inside() -> None:
    model, x = Two(), torch.randn(3, 8)
    compiled = recorded(model)

    def told(function: Call) -> Any:
        seen: list[Any] = []
        h, y = function(x)
        h.register_hook(lambda g: seen.append(bits([g])) or g * 3)
        h.retain_grad()
        model.zero_grad()
        (h.sum() * 2 + y.sum()).backward()
        return seen, bits([h.grad, *(p.grad for p in model.parameters())])

    wanted = told(model)
    for _ in range(4):
        assert told(compiled) == wanted
    assert is_recorded(compiled(x))


COMPOSITES: dict[str, Call] = {
    "split": lambda x, w: torch.cat([p * (i + 1.0) for i, p in enumerate(x.split([1, 3], 1))], 1),
    "tensor_split": lambda x, w: x.tensor_split(3)[1] @ w,
    "hsplit": lambda x, w: x.hsplit([1, 3])[1].exp(),
    "diff": lambda x, w: torch.diff(x @ w, dim=1).tanh(),
    "min": lambda x, w: torch.min(x, w[:1]) * torch.max(x.exp(), w[0]),
    "math attention": lambda x, w: F.scaled_dot_product_attention(x, w, w, torch.ones(3, 4).tril()),
    "grouped attention": lambda x, w: F.scaled_dot_product_attention(
        x.expand(1, 4, 3, 4), w.expand(1, 2, 4, 4), w.expand(1, 2, 4, 4), enable_gqa=True
    ),
    "prelu": lambda x, w: F.prelu(x, w[0, :1]),
    "upsample": lambda x, w: F.interpolate(x[None, None] @ w, scale_factor=2.0, mode="bilinear"),
    "resize": lambda x, w: F.interpolate(x[None], size=7, mode="linear"),
    "pad": lambda x, w: F.pad(x @ w, (1, 1), mode="circular") if x.dim() > 2 else F.pad(x[None] @ w, (1, 1), "reflect"),
    "bilinear": lambda x, w: F.bilinear(x, x, w.expand(2, 4, 4)),
    "weight norm": lambda x, w: x @ torch._weight_norm(w, w[0].exp().view(1, 4), 1),
    "frobenius": lambda x, w: (x @ w).norm(dim=(0, 1), p="fro"),
    "fft": lambda x, w: torch.fft.irfft(torch.fft.rfft(x @ w) * 2),
    "multi_dot": lambda x, w: torch.linalg.multi_dot([x, w, w]),
    "triplet": lambda x, w: F.triplet_margin_loss(x, w[:3], w[1:]),
    "margin": lambda x, w: F.margin_ranking_loss(x[0], w[0], w[1]),
    "conv": lambda x, w: F.conv1d(x[None], w[:3, :3, None].expand(3, 3, 3), padding="same"),
    "stacks": lambda x, w: torch.dstack([x, x @ w]).sum(2) + torch.column_stack([x, x])[:, :1],
    "cross": lambda x, w: torch.cross(x, (x @ w).sin(), 0),
    "trapezoid": lambda x, w: torch.trapezoid(x @ w, dx=0.5),
    "std_mean": lambda x, w: sum(torch.std_mean(x @ w, 1)),
    "grid": lambda x, w: F.grid_sample(
        x[None, None], torch.tanh(w[None, :, :2, None].expand(1, 4, 2, 2).transpose(2, 3)), align_corners=False
    ),
}


def check_four_calls(function: Call) -> None:
    """Asserts that outputs and gradients have eager's bits, and that the call is recorded in the end."""
    compiled = recorded(function)
    x, w = leaf(3, 4), leaf(4, 4)

    def told(function: Call) -> Any:
        x.grad = w.grad = None
        y = function(x, w)
        total(y).backward()
        return bits([y, x.grad, w.grad])

    wanted = told(function)
    for _ in range(4):
        assert told(compiled) == wanted
    assert is_recorded(compiled(x, w)), reasons()


@pytest.mark.parametrize("name", COMPOSITES)
def test_composites(name: str) -> None:
    check_four_calls(COMPOSITES[name])


def test_reasons_are_told() -> None:
    compiled = recorded(lambda x: torch.cdist(x, x * 2).sum())
    compiled(leaf(3, 4)).backward()
    assert reasons() == ["not recorded: aten::cdist: a composite that is not known"]


# ---- in-place writes inside


IN_PLACE: dict[str, Call] = {
    "div": lambda x, w: (x @ w).div_((w * w).sum()),
    "twice": lambda x, w: (x @ w).mul_(x).mul_(x).add_(1),
    "normed": lambda x, w: (x @ w).softmax(-1).topk(2)[0].div_(x.exp().sum(-1, keepdim=True)),
    "sigmoid": lambda x, w: (x @ w).mul_(2).clamp_min_(-0.5).sigmoid_(),
    "read before": lambda x, w: _read_before(x @ w),
    "viewed after": lambda x, w: (x @ w).sin().div_(x.exp()).view(2, 6).mul(3).t(),
}


def _viewed_between(x: torch.Tensor) -> torch.Tensor:
    y = x.sin().mul_(2)
    z = y.view(12)
    return y.add_(1) * z.view(3, 4)


def _read_before(x: torch.Tensor) -> torch.Tensor:
    y = x.exp()
    z = y.sin()
    return x.mul_(z) * z


@pytest.mark.parametrize("name", IN_PLACE)
def test_writes_to_temporaries(name: str) -> None:
    check_four_calls(IN_PLACE[name])


def test_a_write_to_what_has_views() -> None:
    compiled, x = recorded(_viewed_between), leaf(3, 4)
    for _ in range(4):
        wanted = torch.autograd.grad(_viewed_between(x).sum(), x)
        assert bits(torch.autograd.grad(compiled(x).sum(), x)) == bits(wanted)


@pytest.mark.parametrize("warm", [0, 1, 3])
def test_a_write_to_what_a_formula_saved(warm: int) -> None:
    def wrong(x: torch.Tensor) -> torch.Tensor:
        y = (x * 2).exp()
        return y.mul_(3)  # exp saved y

    def right(x: torch.Tensor) -> torch.Tensor:
        y = (x * 2).sin()
        return y.mul_(3)

    def without_gradients(x: torch.Tensor) -> torch.Tensor:
        y = (x * 2).sin()
        with torch.no_grad():
            y.mul_(3)
        return y

    for function in (wrong, right, without_gradients):
        compiled = recorded(function)

        def told(function: Call) -> Any:
            x = torch.arange(3.0).requires_grad_()
            y = function(x)
            try:
                y.sum().backward()
            except RuntimeError as error:
                return bits([y]), str(error)
            return bits([y, x.grad])

        for _ in range(warm + 1):
            assert told(compiled) == told(function)


@pytest.mark.parametrize("warm", [1, 4])
def test_hooks_of_outputs_without_a_gradient(warm: int) -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        least, where = (x @ w).topk(2)
        return (x @ w).tanh(), (x * 2).sin(), *torch.std_mean(x * w[:3], 1), least

    compiled, x, w = recorded(function), leaf(3, 4), leaf(4, 4)

    def told(function: Call, chosen: tuple[int, ...]) -> Any:
        outputs = function(x, w)
        seen: list[Any] = []
        for i, output in enumerate(outputs):
            output.register_hook(lambda g, i=i: seen.append((i, None if g is None else bits([g]))))
            output.retain_grad()
        total([outputs[i] for i in chosen]).backward()
        return seen, [None if o.grad is None else bits([o.grad]) for o in outputs]

    for _ in range(warm):
        total(compiled(x, w)).backward()
    for chosen in ((0,), (1,), (2,), (3,), (0, 1), (2, 3, 4), (0, 1, 2, 3, 4)):
        for _ in range(3):
            assert told(compiled, chosen) == told(function, chosen)
    assert is_recorded(compiled(x, w)), reasons()


def _branches(a: torch.Tensor, b: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    shown = a.sin()
    return shown, b.cos(), shown * (a * w) + b, shown.exp() @ w


def _shown_late(a: torch.Tensor, b: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    first, second = (a @ w).chunk(2, 1)
    shown = second * 2
    return first.sin(), shown, (shown + first).exp(), b * 1


@pytest.mark.parametrize("function", [_branches, _shown_late])
def test_hooks_of_what_the_loss_does_not_reach(function: Call) -> None:
    """Of outputs, read inside or not, and of inputs that something made."""
    compiled, leaves = recorded(function), [leaf(4, 4) for _ in range(3)]

    def told(function: Call, roots: tuple[int, ...], targets: tuple[int, ...] | None) -> Any:
        seen: list[Any] = []
        inputs = [x * 1 for x in leaves]
        outputs = function(*inputs)
        for i, tensor in enumerate([*inputs, *outputs]):
            tensor.register_hook(lambda g, i=i: seen.append((i, None if g is None else bits([g]))))
        loss = total([outputs[i] for i in roots])
        if targets is None:
            loss.backward()
            return seen
        found = torch.autograd.grad(loss, [leaves[i] for i in targets], allow_unused=True)
        return seen, bits(found)

    for roots in ((0, 1, 2, 3), (0,), (1,), (2,), (3,), (0, 1), (1, 3), (0, 2, 3)):
        for targets in (None, (0,), (1,), (2,), (0, 2)):
            wanted = told(function, roots, targets)
            for _ in range(3):
                assert told(compiled, roots, targets) == wanted, (roots, targets)
            if len(roots) == 4 and targets is None:
                assert is_recorded(compiled(*(x * 1 for x in leaves))), reasons()


# ---- which gradients


@pytest.mark.parametrize("wanted", [(0,), (1,), (0, 1), (1, 0)])
def test_gradients_into_some_outputs(wanted: tuple[int, ...]) -> None:
    model, x = Two(), leaf(3, 8)
    compiled = recorded(model)
    total(compiled(x)).backward()
    total(compiled(x)).backward()

    def told(function: Call) -> Any:
        model.zero_grad()
        x.grad = None
        outputs = function(x)
        total([outputs[i] for i in wanted]).backward()
        return bits([x.grad, *(p.grad for p in model.parameters())])

    expected = told(model)
    for _ in range(3):
        assert told(compiled) == expected
    assert is_recorded(compiled(x))


def test_gradients_of_some_inputs() -> None:
    model, x = Two(), leaf(3, 8)
    compiled = recorded(model)
    parameters = list(model.parameters())
    for chosen in ([x], parameters[:1], [parameters[3], x], [*parameters, x]):

        def told(function: Call, chosen: Any = chosen) -> Any:
            outputs = function(x)
            return bits(torch.autograd.grad(total(outputs), chosen)), bits(
                torch.autograd.grad(total(function(x)), [*outputs, x], allow_unused=True)
            )

        wanted = told(model)
        for _ in range(3):
            assert told(compiled) == wanted
    assert is_recorded(compiled(x))


ONE_AFTER_ANOTHER: dict[str, Call] = {
    "sum": lambda x, w: x.exp() + w.exp(),  # the node that both share saves nothing
    "product": lambda x, w: x.exp() * w.exp(),
    "matrices": lambda x, w: (x @ w).tanh(),
    "outputs": lambda x, w: (x.sin() + 1, (w * x).exp()),
    "bias": lambda x, w: (x.tanh() @ x + w) * 2,
}


@pytest.mark.parametrize("warm", [(), ((0, 1),), ((0, 1), (0, 1)), ((0,), (0,)), ((1,), (1,))])
@pytest.mark.parametrize("name", ONE_AFTER_ANOTHER)
def test_gradients_of_one_input_after_another(name: str, warm: tuple[tuple[int, ...], ...]) -> None:
    """Each of autograd's nodes that is come to needs what it saved, unchanged, and loses it: no other one does."""
    function = ONE_AFTER_ANOTHER[name]

    def told(function: Call, masks: Any, written: str = "", keep: bool = False, made: bool = False) -> Any:
        torch.manual_seed(3)
        x, w = leaf(3, 3), leaf(3, 3)
        given = [x * 1, w * 1] if made else [x, w]
        value = function(*given)
        root = total(value)
        with torch.no_grad():
            if written:
                {"x": given[0], "w": given[1], "out": value[0].detach()}[written].add_(1)
        found: list[Any] = []
        for mask in masks:
            try:
                chosen = [given[i] for i in mask]
                found.append(bits(torch.autograd.grad(root, chosen, retain_graph=keep, allow_unused=True)))
            except RuntimeError as error:
                found.append(str(error))
        return found

    for masks in itertools.permutations([(0,), (1,), (0, 1)], 2):
        for written, keep in itertools.product(("", "x", "w", "out"), (False, True)):
            rest = (written, keep, keep == (len(warm) > 1))
            compiled = recorded(function)
            for mask in warm:
                told(compiled, [mask], "", False, rest[-1])
            assert told(compiled, masks, *rest) == told(function, masks, *rest), (masks, rest)


def test_a_backward_that_begins_behind_what_was_freed() -> None:
    """Of what was given to the forward only the form is needed, which is all that is left."""
    function = lambda x, w, v: x.exp() + w + v  # noqa: E731
    compiled = recorded(function)
    leaves = [leaf(3, 3) for _ in range(3)]
    for _ in range(3):
        total(compiled(*leaves)).backward()
    value = compiled(*leaves)
    for chosen in (leaves[:1], leaves[1:2], leaves[1:], leaves[2:]):
        wanted = torch.autograd.grad(total(function(*leaves)), chosen)
        assert bits(torch.autograd.grad(total(value), chosen)) == bits(wanted)
    (again,) = torch.autograd.grad(total(value), leaves[1], create_graph=True)
    assert bits([again]) == bits(torch.autograd.grad(total(function(*leaves)), leaves[1]))
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(total(value), leaves[0])


BEHIND_WHAT_WAS_FREED: dict[str, Call] = {
    "a place in a storage": lambda x, w: _used_twice(torch.as_strided(x, (2, 2), (1, 2), 0), w),
    "pivots": lambda x, w: _used_twice(torch.lu_unpack(x[:4].view(2, 2), _PIVOTS)[1], w),
    "indices": lambda x, w: _used_twice(x[:4].view(2, 2).gather(0, _PIVOTS[None].long() - 1), w),
}
_PIVOTS = torch.tensor([1, 2], dtype=torch.int32)


def _used_twice(value: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Two outputs lead to the value, so it has a piece of its own; what was saved is the first one's."""
    return value * 1, w * (1 + value.sum())


@pytest.mark.parametrize("name", BEHIND_WHAT_WAS_FREED)
def test_pieces_behind_what_was_freed(name: str) -> None:
    """Their forward runs again on the inputs, where it depends on more than their form."""
    function = BEHIND_WHAT_WAS_FREED[name]
    compiled = recorded(function)
    for step in range(4):
        told = []
        for each in (function, compiled):
            torch.manual_seed(step)
            x, w = torch.randn(20)[5:15].detach().requires_grad_(), leaf(3)
            outputs = each(x, w)
            sum(o.double().sum() for o in outputs).backward()  # type: ignore[union-attr]
            told.append(bits([*outputs, x.grad, w.grad]))
        assert told[0] == told[1], step
    assert is_recorded(outputs)


def test_gradients_of_outputs() -> None:
    model, x = Two(), leaf(3, 8)
    compiled = recorded(model)

    def told(function: Call) -> Any:
        h, y = function(x)
        return bits(torch.autograd.grad(total([h, y]), [h, y, x]))

    wanted = told(model)
    for _ in range(4):
        assert told(compiled) == wanted


def test_frozen_parameters() -> None:
    def make() -> nn.Module:
        made = mlp()
        made[0].requires_grad_(False)
        return made

    same_training_of_some(make)


def same_training_of_some(make: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    model, x = make(), torch.randn(3, 8)
    compiled = recorded(model)

    def told(function: Call) -> Any:
        model.zero_grad()
        total(function(x)).backward()
        return bits(p.grad for p in model.parameters())

    wanted = told(model)
    for _ in range(4):
        assert told(compiled) == wanted
    assert is_recorded(compiled(x))


def test_gradients_of_other_layouts() -> None:
    function = lambda x, w: (x @ w).relu().reshape(-1, 2).mul(2)  # noqa: E731
    compiled, x, w = recorded(function), leaf(4, 3), leaf(3, 4)
    for given in (torch.ones(()).expand(8, 2), torch.randn(2, 8).t(), torch.randn(8, 2), torch.randn(16, 4)[::2, ::2]):
        for _ in range(3):
            wanted = torch.autograd.grad(function(x, w), [x, w], given)
            assert bits(torch.autograd.grad(compiled(x, w), [x, w], given)) == bits(wanted)
    assert is_recorded(compiled(x, w))


# ---- several backwards


@pytest.mark.parametrize("warm", [0, 1, 2, 3])
def test_two_backwards(warm: int) -> None:
    function = lambda x, w: (x @ w).tanh() @ w  # noqa: E731
    compiled, x, w = recorded(function), leaf(3, 4), leaf(4, 4)
    for _ in range(warm):
        compiled(x, w).sum().backward()

    def told(function: Call) -> Any:
        x.grad = w.grad = None
        y = function(x, w)
        y.sum().backward(retain_graph=True)
        first = bits([x.grad, w.grad])
        y.sum().backward()
        with pytest.raises(RuntimeError) as failed:
            y.sum().backward()
        return first, bits([x.grad, w.grad]), str(failed.value)

    assert told(compiled) == told(function)


def test_a_second_backward_where_nothing_is_saved() -> None:
    function = lambda x, y: (x + y).t() + 1  # noqa: E731
    compiled, x, y = recorded(function), leaf(3, 4), leaf(3, 4)
    for _ in range(4):
        z = compiled(x, y)
        z.sum().backward()
        z.sum().backward()
    assert bits([x.grad, y.grad]) == bits([torch.full((3, 4), 8.0)] * 2)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_backwards_of_outputs_that_share_no_node(order: tuple[int, int]) -> None:
    """What one of them frees the other one may need."""

    def function(x: torch.Tensor, v: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        shared = x.exp()
        return (shared * v).tanh(), shared @ w

    compiled, x, v, w = recorded(function), leaf(4, 4, grad=False), leaf(4, 4), leaf(4, 4)

    def told(function: Call) -> Any:
        v.grad = w.grad = None
        outputs = function(x, v, w)
        for i in order:
            total(outputs[i]).backward()
        with pytest.raises(RuntimeError, match="second time"):
            total(outputs[0]).backward()
        return bits([v.grad, w.grad])

    wanted = told(function)
    for _ in range(4):
        assert told(compiled) == wanted
    assert is_recorded(compiled(x, v, w))


def test_gradients_that_formulas_write_by_views() -> None:
    function = lambda a, tau: torch.linalg.householder_product(a, tau)  # noqa: E731
    compiled, a, tau = recorded(function), leaf(3, 2), leaf(2)

    def told(function: Call) -> Any:
        a.grad = tau.grad = None
        total(function(a, tau)).backward()
        return bits([a.grad, tau.grad])

    wanted = told(function)
    for _ in range(4):
        assert told(compiled) == wanted
    assert is_recorded(compiled(a, tau))


@pytest.mark.parametrize("warm", [0, 1, 2, 3])
def test_higher_derivatives(warm: int) -> None:
    model, x = Two(), leaf(3, 8)
    compiled = recorded(model)
    for _ in range(warm):
        total(compiled(x)).backward()

    def told(function: Call) -> Any:
        model.zero_grad()
        x.grad = None
        (g,) = torch.autograd.grad(total(function(x)), x, create_graph=True)
        (g.square().sum() + total(function(x))).backward()
        return [x.grad, *(p.grad for p in model.parameters())]

    for _ in range(3):
        for a, b in zip(told(compiled), told(model), strict=True):
            torch.testing.assert_close(a, b)


def test_existing_gradients_are_added_to() -> None:
    model, x = mlp(), torch.randn(3, 8)
    compiled = recorded(model)

    def told(function: Call) -> Any:
        model.zero_grad()
        for _ in range(4):
            total(function(x)).backward()
        return bits(p.grad for p in model.parameters())

    assert told(compiled) == told(model) == told(compiled)


# ---- in-place writes between forward and backward


@pytest.mark.parametrize("warm", [0, 1, 2, 3])
@pytest.mark.parametrize("which", ["w", "x", "y"])
def test_writes_after_the_forward(which: str, warm: int) -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (x.exp() @ w).tanh()

    compiled = recorded(function)

    def told(function: Call, changes: bool) -> str | None:
        x, w = leaf(3, 4), leaf(4, 4)
        y = function(x * 1, w)
        with torch.no_grad():
            if changes:
                {"w": w, "x": x, "y": y.detach()}[which].add_(1)
        try:
            y.sum().backward()
        except RuntimeError as error:
            return str(error)
        return None

    for _ in range(warm):
        told(compiled, False)
    assert told(compiled, True) == told(function, True)
    assert told(compiled, False) is None


def test_another_backward_after_a_write_to_what_is_not_saved() -> None:
    """It is written down with the data of now, and carried out on those of then."""

    def function(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        made = (x @ w + b).tanh()
        return made.sin(), made * x

    compiled, x, w = recorded(function), leaf(4, 4), leaf(4, 4)

    def told(function: Call, roots: tuple[int, ...]) -> Any:
        b = torch.full((4,), 0.5).requires_grad_()
        x.grad = w.grad = None
        outputs = function(x, w, b)
        with torch.no_grad():
            b.mul_(3)
        total([outputs[i] for i in roots]).backward()
        return bits([x.grad, w.grad, b.grad])

    for _ in range(3):
        assert told(compiled, (0, 1)) == told(function, (0, 1))
    for roots in ((0,), (1,)):
        assert told(compiled, roots) == told(function, roots)
    assert is_recorded(compiled(x, w, leaf(4)))


def test_an_output_that_is_not_saved_may_be_written() -> None:
    function = lambda x, w: (x @ w) + 1  # noqa: E731
    compiled, x, w = recorded(function), leaf(3, 4), leaf(4, 4)

    def told(function: Call) -> Any:
        x.grad = w.grad = None
        y = function(x, w)
        y.mul_(2)
        y[0].zero_()
        y.sum().backward()
        return bits([y, x.grad, w.grad])

    wanted = told(function)
    for _ in range(4):
        assert told(compiled) == wanted


# ---- what other code may hear of


def test_hooks_of_parameters() -> None:
    model, x = mlp(), torch.randn(3, 8)
    compiled = recorded(model)

    def told(function: Call) -> Any:
        model.zero_grad()
        seen: list[Any] = []
        handles = []
        for i, p in enumerate(model.parameters()):
            handles.append(p.register_hook(lambda g, i=i: seen.append((i, bits([g])))))
            handles.append(p.register_post_accumulate_grad_hook(lambda p, i=i: seen.append((i, bits([p.grad])))))
        total(function(x)).backward()
        for handle in handles:
            handle.remove()
        return seen

    wanted = told(model)
    for _ in range(3):
        total(compiled(x)).backward()
    for _ in range(3):
        assert told(compiled) == wanted


def test_hooks_added_after_the_forward() -> None:
    model, x = mlp(), torch.randn(3, 8)
    compiled = recorded(model)

    def told(function: Call) -> Any:
        model.zero_grad()
        seen: list[Any] = []
        value = total(function(x))
        handles = [
            p.register_hook(lambda g, i=i: seen.append((i, bits([g])))) for i, p in enumerate(model.parameters())
        ]
        value.backward()
        for handle in handles:
            handle.remove()
        return seen

    wanted = told(model)
    for _ in range(4):
        assert told(compiled) == wanted


def test_saved_tensor_hooks_hear_of_each() -> None:
    model, x = mlp(), torch.randn(3, 8)
    compiled = recorded(model)

    def told(function: Call) -> Any:
        model.zero_grad()
        packed: list[Any] = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(bits([t])) or t, lambda t: t):
            value = total(function(x))
        value.backward()
        return packed, bits(p.grad for p in model.parameters())

    for _ in range(3):
        total(compiled(x)).backward()
    assert told(compiled)[1] == told(model)[1]
    assert len(told(compiled)[0]) == len(told(model)[0])


def test_hooks_of_saved_tensors_during_a_new_backward() -> None:
    model, x = Two(), leaf(3, 8)
    compiled = recorded(model)
    for _ in range(3):
        total(compiled(x)).backward()
    packed: list[Any] = []
    h, y = compiled(x)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        found = torch.autograd.grad(h, x, torch.ones(3, 8))
    assert bits(found) == bits(torch.autograd.grad(model(x)[0], x, torch.ones(3, 8)))
    assert not packed


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints(reentrant: bool) -> None:
    model, x = Attention(0.2), leaf(2, 5, 8)
    compiled = recorded(model)

    def told(function: Call) -> Any:
        model.zero_grad()
        x.grad = None
        torch.manual_seed(3)
        total(checkpoint(function, x, use_reentrant=reentrant)).backward()
        return bits([x.grad, *(p.grad for p in model.parameters())])

    wanted = told(model)
    for _ in range(4):
        assert told(compiled) == wanted


def test_anomaly_mode_at_the_backward_names_the_formula() -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (x * w).sqrt().sum()

    compiled, x = recorded(function), torch.ones(3)

    def told(function: Call) -> str:
        w = torch.zeros(3, requires_grad=True)
        value = function(x, w)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with torch.autograd.detect_anomaly(), pytest.raises(RuntimeError) as failed:
                (value * 0).backward()
        return str(failed.value)

    wanted = told(function)
    for _ in range(3):
        compiled(x, leaf(3)).backward()
    assert told(compiled) == wanted


def test_modes_during_the_backward() -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Names(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.names: list[str] = []

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.names.append(function.name())
            return function(*args, **(kwargs or {}))

    model, x = mlp(), leaf(3, 8)
    compiled = recorded(model)

    def told(function: Call) -> Any:
        value = function(x).sum()
        with Names() as mode:
            found = torch.autograd.grad(value, [x, *model.parameters()])
        return bits(found), sorted(name for name in mode.names if "detach" not in name)

    wanted = told(model)
    for _ in range(3):
        total(compiled(x)).backward()
    assert told(compiled) == wanted


def test_profiler_during_the_backward() -> None:
    model, x = mlp(), leaf(3, 8)
    compiled = recorded(model)
    for _ in range(3):
        total(compiled(x)).backward()
    value = total(compiled(x))
    wanted = torch.autograd.grad(total(model(x)), [x, *model.parameters()])
    with torch.profiler.profile() as profile:
        found = torch.autograd.grad(value, [x, *model.parameters()])
    assert bits(found) == bits(wanted)
    assert any(event.name == "aten::mm" for event in profile.events())


def test_forwards_without_a_backward() -> None:
    model, x = mlp(), torch.randn(3, 8)
    compiled = recorded(model)
    for _ in range(20):
        with torch.no_grad():
            assert not compiled(x).requires_grad
        assert bits([compiled(x)]) == bits([model(x)])
    outputs = [compiled(x) for _ in range(20)]  # one of them waits for its backward
    for output in outputs:
        model.zero_grad()
        total(output).backward()
        found = bits(p.grad for p in model.parameters())
        model.zero_grad()
        total(model(x)).backward()
        assert found == bits(p.grad for p in model.parameters())
    assert is_recorded(compiled(x))


# ---- what is left to the engine


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x * 2)[x > 0],
        lambda x: x.view(-1),
        lambda x: (x.exp(), x.exp().detach()),
        lambda x: x.cumprod(0),
        lambda x: x.exp().chunk(2),
    ],
    ids=["mask", "view", "detached", "data", "chunks"],
)
def test_other_programs(function: Call) -> None:
    compiled = recorded(function)

    def told(function: Call, x: torch.Tensor) -> Any:
        given = twin(x)
        outputs = function(given)
        total(outputs).backward()
        return bits([*(outputs if isinstance(outputs, (tuple, list)) else [outputs]), given.grad])

    for _ in range(4):
        x = leaf(4, 3)
        assert told(compiled, x) == told(function, x)


def test_data_decides_in_a_formula() -> None:
    function = lambda x: (x * 1).prod(0)  # noqa: E731
    compiled = recorded(function)
    for zeros in (0, 0, 1, 2, 0):
        x = torch.randn(4, 3)
        x[:zeros] = 0
        x.requires_grad_()
        wanted = torch.autograd.grad(function(x).sum(), x)
        assert bits(torch.autograd.grad(compiled(x).sum(), x)) == bits(wanted)


# ---- memory and threads


def test_memory_is_freed_by_the_backward() -> None:
    class Sizes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for each in self.layers:
                x = each(x).tanh()
            return x.sum()

    model, x = Sizes(), leaf(8, 64)
    compiled = recorded(model)
    for _ in range(3):
        compiled(x).backward()
    given = torch.randn(8, 64)
    compiled(given).backward()
    compiled(given).backward()
    alive = weakref.ref(given)
    value = compiled(given)
    del given
    assert is_recorded(value)
    assert alive() is not None
    value.backward()
    assert alive() is None


def test_a_node_may_outlive_everything() -> None:
    model, x = mlp(), leaf(3, 8)
    compiled = recorded(model)
    for _ in range(3):
        total(compiled(x)).backward()
    wanted = torch.autograd.grad(total(model(x)), x)
    value = total(compiled(x))
    del compiled
    gramme.reset()
    gc.collect()
    assert bits(torch.autograd.grad(value, x)) == bits(wanted)


def test_nothing_is_left_of_a_model() -> None:
    model, x = mlp(), leaf(3, 8)
    compiled = recorded(model)
    for _ in range(5):
        total(compiled(x)).backward()
    alive = [weakref.ref(p) for p in model.parameters()]
    model.zero_grad()
    del model, compiled
    gramme.reset()
    gc.collect()
    assert not any(ref() is not None for ref in alive)


def test_threads() -> None:
    model = Two()
    compiled = recorded(model)
    inputs = [leaf(3, 8) for _ in range(4)]
    wanted = [bits(torch.autograd.grad(total(model(x)), [x, *model.parameters()])) for x in inputs]
    wrong: list[int] = []

    def run(i: int) -> None:
        for _ in range(60):
            value = total(compiled(inputs[i]))
            if bits(torch.autograd.grad(value, [inputs[i], *model.parameters()])) != wanted[i]:
                wrong.append(i)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_threads_on_one_node() -> None:
    model, x = mlp(), leaf(3, 8)
    compiled = recorded(model)
    for warm in range(4):
        value = total(compiled(x))
        wanted = bits(torch.autograd.grad(total(model(x)), [x]))
        found: list[Any] = []
        threads = [
            threading.Thread(target=lambda: found.append(bits(torch.autograd.grad(value, [x], retain_graph=True))))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [wanted] * 4, warm
        total(compiled(x)).backward()


# ---- modules that keep something, or choose their kernels


class Normed(nn.Module):
    """Batch norm, with running statistics and a count of steps."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4)
        self.last = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(F.relu(self.norm(self.conv(x))).mean((2, 3)))


class Recurrent(nn.Module):
    def __init__(self, kind: Call = nn.LSTM, **options: Any) -> None:
        super().__init__()
        self.first = nn.Linear(4, 6)
        self.cells = kind(6, 5, **options)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.cells(self.first(x))[0]


class Experts(nn.Module):
    """A mixture: each token's experts by weight, all experts computed."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(8, 4)
        self.up, self.down = nn.Parameter(torch.randn(4, 8, 16) / 4), nn.Parameter(torch.randn(4, 16, 8) / 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, chosen = self.router(x).softmax(-1).topk(2)
        mask = torch.zeros(len(x), 4).scatter(1, chosen, weights)
        made = torch.bmm(F.silu(torch.bmm(x.expand(4, *x.shape), self.up)), self.down)
        return x + (made * mask.t()[:, :, None]).sum(0)


class Average(nn.Module):
    """A buffer that is written, then read by a formula."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        with torch.no_grad():
            self.mean.mul_(0.9).add_(y.mean(0), alpha=0.1)
        return y - self.mean


class Scaled(Average):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.mean.mul_(0.5).add_(1)
        return self.linear(x) * self.mean


@pytest.mark.parametrize(
    ("make", "sizes"),
    [
        (Normed, (3, 2, 6, 6)),
        (lambda: Normed().eval(), (3, 2, 6, 6)),
        (lambda: nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.BatchNorm1d(6, affine=False)), (5, 4)),
        (
            lambda: nn.Sequential(nn.Conv2d(2, 4, 3), nn.InstanceNorm2d(4, affine=True), nn.Upsample(scale_factor=2)),
            (2, 2, 6, 6),
        ),
        (lambda: nn.Sequential(nn.ConvTranspose2d(2, 4, 3), nn.AdaptiveAvgPool2d(2)), (2, 2, 6, 6)),
        (Recurrent, (3, 2, 4)),
        (lambda: Recurrent(num_layers=2, bidirectional=True, batch_first=True), (3, 2, 4)),
        (lambda: Recurrent(nn.RNN), (3, 2, 4)),
        (lambda: nn.TransformerEncoderLayer(8, 2, 16, 0.1, batch_first=True), (2, 5, 8)),
        (Experts, (6, 8)),
    ],
    ids=["norm", "norm eval", "norms", "instance", "transposed", "lstm", "lstms", "rnn", "encoder", "experts"],
)
def test_modules(make: Callable[[], nn.Module], sizes: tuple[int, ...]) -> None:
    same_training(make, torch.randn(*sizes))


def test_lstm_of_operators() -> None:
    with torch.backends.mkldnn.flags(enabled=False):
        same_training(Recurrent, torch.randn(3, 2, 4))


def test_written_buffers() -> None:
    same_training(Average, torch.randn(5, 4))
    same_training(Scaled, torch.randn(5, 4), wanted=False)


def test_what_stays_the_engines() -> None:
    same_training(lambda: Recurrent(nn.GRU), torch.randn(3, 2, 4), wanted=False)  # writes to pieces of a tensor


def test_what_a_forward_writes_is_written_once() -> None:
    """A backward that runs the forward again leaves running statistics alone."""
    model, x = Normed(), leaf(3, 2, 6, 6)
    compiled = recorded(model)
    for _ in range(3):
        total(compiled(x)).backward()

    def told(function: Call) -> Any:
        model.norm.reset_running_stats()
        first, second = function(x), function(x * 2)
        before = bits(model.buffers())
        (g,) = torch.autograd.grad(total(first), x, create_graph=True)
        total(second).backward()
        return before, bits(model.buffers()), bits([g])

    wanted = told(model)
    assert is_recorded(compiled(x))
    assert told(compiled) == wanted


# ---- gradients that come to rest


def test_grad_is_added_to_in_place() -> None:
    model, x = mlp(), torch.randn(3, 8)
    compiled = recorded(model)
    for _ in range(4):
        total(compiled(x)).backward()
    held = [p.grad for p in model.parameters()]
    versions = [g._version for g in held]
    total(compiled(x)).backward()
    assert all(p.grad is g for p, g in zip(model.parameters(), held, strict=True))
    assert [g._version for g in held] == [v + 1 for v in versions]


def test_two_calls_in_one_backward() -> None:
    model, x = mlp(), torch.randn(3, 8)
    compiled = recorded(model)

    def told(function: Call) -> Any:
        found = []
        model.zero_grad()
        for _ in range(2):
            (total(function(x)) + total(function(x * 2)) * 3).backward()
            found.append(bits(p.grad for p in model.parameters()))
        return found

    wanted = told(model)
    for _ in range(4):
        assert told(compiled) == wanted
    assert is_recorded(compiled(x))


def test_edges_are_there_after_a_backward() -> None:
    model, x = mlp(), torch.randn(3, 8)
    compiled = recorded(model)
    for _ in range(4):
        y = compiled(x)
        before = nodes(y)
        total(y).backward()
        assert nodes(y) == before
    assert is_recorded(y)
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(total(y), list(model.parameters()))


def test_hooks_of_a_node_see_all_gradients() -> None:
    model, x = mlp(), torch.randn(3, 8)
    compiled = recorded(model)
    for _ in range(4):
        total(compiled(x)).backward()
    seen: list[Any] = []
    y = compiled(x)
    y.grad_fn.register_hook(lambda inputs, outputs: seen.extend(inputs))
    model.zero_grad()
    total(y).backward()
    assert sorted(bits(g for g in seen if g is not None)) == sorted(bits(p.grad for p in model.parameters()))


def test_a_hook_that_raises_in_the_middle() -> None:
    model, x = Two(), leaf(3, 8)
    compiled = recorded(model)
    for _ in range(4):
        total(compiled(x)).backward()

    def told(function: Call) -> Any:
        model.zero_grad()
        x.grad = None
        h, y = function(x)

        def fail(gradient: torch.Tensor) -> None:
            raise ValueError("here")

        handle = h.register_hook(fail)
        with pytest.raises(ValueError, match="here"):
            total([h, y]).backward()
        handle.remove()
        first = bits([x.grad, *(p.grad for p in model.parameters())])
        with pytest.raises(RuntimeError, match="second time"):
            total([h, y]).backward()
        total(function(x)).backward()
        return first, bits([x.grad, *(p.grad for p in model.parameters())])

    assert told(compiled) == told(model)


# ---- many programs, many steps


@pytest.mark.parametrize("seed", range(60))
def test_random_programs(seed: int) -> None:
    assert random_training.difference(seed) is None


READ_AFTERWARDS: list[Callable[[torch.Tensor, torch.Tensor], Any]] = [
    lambda s, w: s @ w,
    lambda s, w: w * s,
    lambda s, w: torch.minimum(w, s),
]


@pytest.mark.parametrize("read", READ_AFTERWARDS)
def test_an_output_without_a_gradient_that_is_written_before_the_backward(read: Call) -> None:
    def program(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        shown = x.softmax(-1)
        return shown, read(shown, w)

    compiled = recorded(program)
    x, theirs = leaf(4, 4, grad=False), leaf(4, 4)
    mine = theirs.detach().clone().requires_grad_()
    for step in range(5):
        told = []
        for function, w in ((program, theirs), (compiled, mine)):
            w.grad = None
            shown, out = function(x, w)
            if step == 3:
                shown.add_(1)
                with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                    total(out).backward()
            else:
                total(out).backward()
            told.append(bits([w.grad]))
        assert told[0] == told[1], step
        assert (told[0] == [None]) == (step == 3)
    assert is_recorded(compiled(x, mine))


WRITES_WHAT_IT_READS: list[Callable[[torch.Tensor], Any]] = [
    lambda y: y.mul_(y),
    lambda y: y.div_(y),
    lambda y: y.mul_(y.t()),
    lambda y: y.mul_(y[0]),
    lambda y: y.addcmul_(y, y.sin()),
]


@pytest.mark.parametrize("write", WRITES_WHAT_IT_READS)
def test_a_write_over_what_its_own_formula_saved(write: Call) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        write(y)
        return y.exp()

    compiled = recorded(program)
    for step in range(4):
        told, given = [], torch.rand(3, 3) + 1
        for function in (program, compiled):
            x = given.clone().requires_grad_()
            try:
                total(function(x)).backward()
                told.append((bits([x.grad]), ""))
            except RuntimeError as error:
                told.append((None, str(error)[:40]))
        assert told[0] == told[1], step


@pytest.mark.slow
def test_many_random_programs() -> None:
    for seed in range(1000, 21000 if SOAK else 1300):
        assert random_training.difference(seed) is None
        if seed % 50 == 0:
            gramme.reset()


@reads_memory
def test_nothing_leaks() -> None:
    model, x = Normed(), torch.randn(3, 2, 6, 6)
    compiled = recorded(model)

    def step() -> None:
        model.zero_grad()
        total(compiled(x)).backward()

    def grown() -> tuple[int, int]:
        before, objects = resident(), len(gc.get_objects())
        for _ in range(500):
            step()
        gc.collect()
        return resident() - before, len(gc.get_objects()) - objects

    rounds = [grown() for _ in range(3)]  # the first ones warm up
    assert rounds[-1][0] <= 200_000
    assert rounds[-1][1] <= 20


@pytest.mark.parametrize("view", ["t", "first", "flat", "expanded"])
def test_views_of_parameters_made_without_gradient(view: str) -> None:
    """As spectral norms have them: such a view says that it needs a gradient, and has no edge."""
    views = {
        "t": torch.t,
        "first": lambda w: w[0],
        "flat": lambda w: w.view(-1),
        "expanded": lambda w: w.expand(2, 3, 3),
    }

    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            scale = views[view](w).abs().sum()
        return (x @ w / scale).sin()

    def outcome(call: Any) -> Any:
        torch.manual_seed(0)
        x, w = torch.randn(3, 3), torch.randn(3, 3, requires_grad=True)
        for _ in range(4):
            result = call(x, w)
            result.sum().backward()
        return result, w.grad

    compiled = gramme.compile(function, backend="native", options={"recorded_backward": True})
    assert all(map(torch.equal, outcome(compiled), outcome(function)))


@pytest.mark.parametrize("penalty", ["alone", "added"])
@pytest.mark.parametrize("wanted", ["parameter", "input"])
@pytest.mark.parametrize("square", [True, False])
def test_gradients_of_gradients_from_some_call_on(penalty: str, wanted: str, square: bool) -> None:
    """The nodes of one forward are not gone through twice."""

    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = ((x @ w).sin() @ w).sum()
        return y.square() if square else y

    def outcome(call: Any) -> list[torch.Tensor]:
        torch.manual_seed(0)
        x, w = torch.randn(3, 3, requires_grad=True), torch.randn(3, 3, requires_grad=True)
        found = []
        for i in range(5):
            w.grad = None
            loss = call(x, w)
            if i >= 2:
                (made,) = torch.autograd.grad(loss, w if wanted == "parameter" else x, create_graph=True)
                loss = made.square().sum() + (loss if penalty == "added" else 0)
            loss.backward()
            found.append(w.grad)
        return found

    compiled = gramme.compile(function, backend="native", options={"recorded_backward": True})
    for got, expected in zip(outcome(compiled), outcome(function), strict=True):
        torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("same", [(0, 1, 0, 0, 1, 0), (1, 0, 1, 0, 0), (1, 1, 0, 1, 0), (0, 0, 0, 1, 0)])
def test_inputs_that_are_one_tensor_at_some_calls(same: tuple[int, ...]) -> None:
    """The call that is recorded may have one gradient for two inputs."""

    def product(w: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        return (w * u.sin() + u).sum()

    def view(w: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        return (w.t() @ u).square().sum()

    for program in (product, view):
        compiled = recorded(program)
        for each in same:
            found = []
            for call in (program, compiled):
                torch.manual_seed(0)
                w = leaf(3, 3)
                u = w if each else leaf(3, 3)
                call(w, u).backward()
                found.append(bits([w.grad, u.grad]))
            assert found[0] == found[1]


@pytest.mark.parametrize("roots", ["both", "leaf first", "view", "sums"])
def test_a_leaf_that_a_pass_begins_at(roots: str) -> None:
    def product(w: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        return w * u

    compiled = recorded(product)
    for _ in range(4):
        found = []
        for call in (product, compiled):
            torch.manual_seed(0)
            w, u = leaf(3), leaf(3)
            p = call(w, u)
            begin = {"both": [p, w], "leaf first": [u, p], "view": [p, w.view(3)], "sums": [p.sum(), w.sum()]}[roots]
            torch.autograd.backward(begin, [torch.ones_like(each) for each in begin])
            found.append(bits([w.grad, u.grad]))
        assert found[0] == found[1]
