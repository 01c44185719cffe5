"""What a program sees in the middle of a recorded backward: the gradients that are there when a node raises, or when a
hook runs, are eager's.
"""

import contextlib
import random
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
import torch.nn.functional as F
from sampling import SOAK
from torch import nn
from torch._dynamo import compiled_autograd
from torch.utils.checkpoint import checkpoint

from native.test_recorded_backward import Call, bits, is_recorded, leaf, recorded, total

pytestmark = pytest.mark.usefixtures("fresh")

Attack = Callable[[nn.Module, Any, torch.Tensor], None]  # gets the model, what it returned, and its input


class Plus(nn.Module):
    """The gradient of `shift` is there before the first node that saved something."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.scale, self.shift = (nn.Parameter(torch.randn(4)) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).tanh() * self.scale + self.shift


class Kept(nn.Module):
    """The second half has a checkpoint, whose argument the program can reach."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), Plus()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.between = self.first(x)
        return checkpoint(self.second, self.between, use_reentrant=False) + 1


class Exponent(nn.Module):
    """A formula saves the result of a checkpoint."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = checkpoint(lambda x: self.linear(x).exp(), x, use_reentrant=False)
        return y, y + 1


class Two(nn.Module):
    """The first result is an output, and is read inside."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Plus(), Plus()

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = self.first(x)
        return h, self.second(h)


class Shared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(self.a(self.b(self.a(x))))


class Lower(nn.Module):
    """The backward casts the weights' gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = layers()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return self.layers(x)


def layers() -> nn.Module:
    return nn.Sequential(*(nn.Linear(4, 4) for _ in range(3)))


def write(tensor: torch.Tensor) -> None:
    with torch.no_grad():
        tensor.mul_(1.5)


def backward(value: Any, **how: Any) -> None:
    total(value).backward(**how)


def writes(name: str, **how: Any) -> Attack:
    def attack(model: nn.Module, value: Any, x: torch.Tensor) -> None:
        write(model.get_parameter(name))
        backward(value, **how)

    return attack


def writes_the_input(model: nn.Module, value: Any, x: torch.Tensor) -> None:
    write(x)
    backward(value)


def writes_between(model: Any, value: Any, x: torch.Tensor) -> None:
    write(model.between)
    backward(value)


def writes_an_output(model: nn.Module, value: Any, x: torch.Tensor) -> None:
    write(value[0])
    backward(value)


def twice(model: nn.Module, value: Any, x: torch.Tensor) -> None:
    loss = total(value)
    loss.backward()
    loss.backward()


def writes_after_the_first(name: str) -> Attack:
    def attack(model: nn.Module, value: Any, x: torch.Tensor) -> None:
        loss = total(value)
        loss.backward(retain_graph=True)
        write(model.get_parameter(name))
        loss.backward()

    return attack


def fails_twice(name: str) -> Attack:
    def attack(model: nn.Module, value: Any, x: torch.Tensor) -> None:
        loss = total(value)
        write(model.get_parameter(name))
        with pytest.raises(RuntimeError, match="modified by an inplace"):
            loss.backward()
        loss.backward()

    return attack


def asks_for(name: str | None, *wanted: str, **how: Any) -> Attack:
    """For gradients of some parameters, after a write to one."""

    def attack(model: nn.Module, value: Any, x: torch.Tensor) -> None:
        if name:
            write(model.get_parameter(name))
        backward(value, inputs=[model.get_parameter(of) for of in wanted], **how)

    return attack


def write_and_look(model: nn.Module, value: Any, x: torch.Tensor) -> None:
    write(value[0])
    hooks_look(model, value, x)


def one_output(which: int, name: str) -> Attack:
    def attack(model: nn.Module, value: Any, x: torch.Tensor) -> None:
        write(model.get_parameter(name))
        backward(value[which])

    return attack


def hook_raises(name: str, after: bool = False) -> Attack:
    def fail(_: torch.Tensor) -> None:
        raise ValueError("here")

    def attack(model: nn.Module, value: Any, x: torch.Tensor) -> None:
        of = model.get_parameter(name)
        handle = of.register_post_accumulate_grad_hook(fail) if after else of.register_hook(fail)
        try:
            backward(value)
        finally:
            handle.remove()

    return attack


def hook_writes(name: str, written: str) -> Attack:
    def attack(model: nn.Module, value: Any, x: torch.Tensor) -> None:
        handle = model.get_parameter(name).register_post_accumulate_grad_hook(
            lambda _: write(model.get_parameter(written))
        )
        try:
            backward(value)
        finally:
            handle.remove()

    return attack


def hooks_look(model: nn.Module, value: Any, x: torch.Tensor) -> None:
    seen: list[Any] = []

    def present() -> list[str]:
        return [name for name, p in model.named_parameters() if p.grad is not None]

    handles = [
        p.register_hook(lambda _, name=name: seen.append((name, present()))) for name, p in model.named_parameters()
    ]
    backward(value)
    for handle in handles:
        handle.remove()
    raise ValueError(seen)


ATTACKS: dict[str, tuple[Callable[[], nn.Module], Attack]] = {
    "a weight": (layers, writes("1.weight")),
    "the last weight": (layers, writes("2.weight")),
    "the input": (layers, writes_the_input),
    "twice": (layers, twice),
    "a weight after a backward": (layers, writes_after_the_first("1.weight")),
    "a failure twice": (layers, fails_twice("1.weight")),
    "a graph of gradients": (layers, writes("1.weight", create_graph=True)),
    "what no wanted gradient needs": (layers, asks_for("1.weight", "2.weight")),
    "what comes after wanted gradients": (layers, asks_for("1.weight", "2.weight", "1.bias")),
    "what a wanted gradient needs": (layers, asks_for("1.weight", "2.weight", "0.bias")),
    "a graph of wanted gradients": (layers, asks_for(None, "2.weight", "1.bias", create_graph=True)),
    "a graph of a wanted gradient": (Plus, asks_for(None, "linear.bias", create_graph=True)),
    "a hook raises": (layers, hook_raises("1.weight")),
    "a hook raises afterwards": (layers, hook_raises("1.weight", after=True)),
    "a hook writes what is needed": (layers, hook_writes("2.weight", "1.weight")),
    "a hook writes what is done": (layers, hook_writes("1.weight", "2.weight")),
    "hooks look": (layers, hooks_look),
    "a scale": (Plus, writes("scale")),
    "what the scale's formula reads": (Plus, writes_the_input),
    "twice where the first nodes save nothing": (Plus, twice),
    "a checkpoint's argument": (Kept, writes_between),
    "a parameter in a checkpoint": (Kept, writes("second.scale")),
    "the input before a checkpoint": (Kept, writes_the_input),
    "twice with a checkpoint": (Kept, twice),
    "hooks look at a checkpoint": (Kept, hooks_look),
    "a checkpoint's result": (Exponent, writes_an_output),
    "a checkpoint's result for a graph": (Exponent, lambda *of: (write(of[1][0]), backward(of[1], create_graph=True))),
    "hooks look after a write to a checkpoint's result": (Exponent, write_and_look),
    "a hook writes in a checkpoint": (Kept, hook_writes("second.scale", "second.linear.weight")),
    "the first half": (Two, writes("first.scale")),
    "the second half": (Two, writes("second.scale")),
    "an output": (Two, writes_an_output),
    "twice with two outputs": (Two, twice),
    "the second half of the first output": (Two, one_output(0, "second.scale")),
    "the first half of the first output": (Two, one_output(0, "first.scale")),
    "hooks look at two outputs": (Two, hooks_look),
    "a shared weight": (Shared, writes("a.weight")),
    "the other shared weight": (Shared, writes("b.weight")),
    "twice with shared weights": (Shared, twice),
    "hooks look at shared weights": (Shared, hooks_look),
    "a weight under autocast": (Lower, writes("layers.1.weight")),
    "a bias under autocast": (Lower, writes("layers.1.bias")),
    "the input under autocast": (Lower, writes_the_input),
    "twice under autocast": (Lower, twice),
    "hooks look under autocast": (Lower, hooks_look),
}


def told(model: nn.Module, function: Call, attack: Attack, warm: int) -> Any:
    """Error and gradients after an attack, and gradients of a step after it."""

    def gradients() -> Any:
        return bits([p.grad for p in model.parameters()])

    inputs = iter(torch.randn(warm + 2, 2, 4))
    for _ in range(warm):
        model.zero_grad()
        backward(function(next(inputs)))
    model.zero_grad()
    error = None
    try:
        x = next(inputs)
        attack(model, function(x), x)
    except (RuntimeError, ValueError) as raised:
        error = type(raised), str(raised)
    found = gradients()
    model.zero_grad()
    backward(function(next(inputs)))
    return error, found, gradients()


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("warm", [0, 1, 2, 4])
@pytest.mark.parametrize("name", ATTACKS)
def test_a_backward_that_ends_midway(name: str, warm: int) -> None:
    make, attack = ATTACKS[name]
    found = []
    for wrap in (lambda model: model, recorded):
        torch.manual_seed(0)
        model = make()
        found.append(told(model, wrap(model), attack, warm))
    assert found[0] == found[1]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("recording", [True, False])
@pytest.mark.parametrize("written", ["", "w", "x", "wx"])
@pytest.mark.parametrize("wanted", ["b", "w", "x", "wxb"])
def test_a_linear_layer_checks_all_that_it_saved(wanted: str, written: str, recording: bool, bias: bool) -> None:
    """Its one node checks as eager's: whatever gradients are wanted, and in the same order."""
    found = []
    for native in (False, True):
        told: list[Any] = []
        torch.manual_seed(0)
        leaves = {
            name: leaf(*sizes) for name, sizes in (("w", (4, 4)), ("x", (2, 3, 4)), ("b", (4,))) if bias or name != "b"
        }

        def call() -> torch.Tensor:
            return F.linear(leaves["x"], leaves["w"], leaves.get("b")).tanh()

        function = gramme.compile(call, backend="native", options={"recorded_backward": recording}) if native else call
        asked = [leaves[name] for name in wanted if name in leaves] or [leaves["w"]]
        for _ in range(4):
            value = function().sum()
            for name in written:
                write(leaves[name])
            for _ in range(2):
                try:
                    value.backward(inputs=asked)
                except RuntimeError as error:
                    told.append(str(error))
            told.append(bits([of.grad for of in leaves.values()]))
        found.append(told)
    assert found[0] == found[1]


def test_the_backward_stays_recorded_after_an_error() -> None:
    model, x = layers(), torch.randn(2, 4)
    compiled = recorded(model)
    for _ in range(3):
        backward(compiled(x))
    value = compiled(x)
    write(model.get_parameter("1.weight"))
    with pytest.raises(RuntimeError, match=r"modified by an inplace"):
        backward(value)
    assert is_recorded(compiled(x))


@pytest.mark.parametrize("fresh_gradients", [True, False])
@pytest.mark.parametrize("warm", [0, 1, 2, 4])
@pytest.mark.parametrize("make", [layers, Plus, Kept, Two, Shared], ids=lambda make: make.__name__)
def test_compiled_autograd_from_some_call_on(make: Callable[[], nn.Module], warm: int, fresh_gradients: bool) -> None:
    """It gives leaves their gradients itself, after all nodes."""
    found = []
    for wrap in (lambda model: model, recorded):
        torch.manual_seed(0)
        model = make()
        function = wrap(model)
        told = []
        for step in range(warm + 2):
            if fresh_gradients:
                model.zero_grad()
            value = function(torch.randn(2, 4))
            with compiled_autograd._enable(lambda graph: graph) if step >= warm else contextlib.nullcontext():
                backward(value)
            told.append(bits([p.grad for p in model.parameters()]))
        found.append(told)
    assert found[0] == found[1]


def test_backwards_in_one_pass_of_which_one_fails() -> None:
    """The gradients of the later call are there, those of the earlier are not."""
    found = []
    for wrap in (lambda model: model, recorded):
        torch.manual_seed(0)
        early, late = layers(), layers()
        first, second = wrap(early), wrap(late)
        for _ in range(3):
            backward(second(first(torch.randn(2, 4))))
        early.zero_grad()
        late.zero_grad()
        value = second(first(torch.randn(2, 4)))
        write(early.get_parameter("2.weight"))
        with pytest.raises(RuntimeError, match="modified by an inplace"):
            backward(value)
        found.append(bits([p.grad for p in (*early.parameters(), *late.parameters())]))
    assert found[0] == found[1]
    assert [gradient is None for gradient in found[0]] == [True] * 6 + [False] * 6


class Chain(nn.Module):
    """A random chain of layers, some of them in a checkpoint, some of whose results are outputs."""

    def __init__(self, choose: random.Random) -> None:
        super().__init__()
        kinds = [lambda: nn.Linear(4, 4), Plus, lambda: nn.LayerNorm(4), Shared, nn.Tanh]
        self.parts = nn.ModuleList([nn.Linear(4, 4)])
        self.parts.extend(choose.choice(kinds)() for _ in range(choose.randint(2, 6)))
        self.kept = {i for i in range(len(self.parts)) if choose.random() < 0.2}
        self.shown = {i for i in range(len(self.parts) - 1) if choose.random() < 0.3}

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        results = []
        for i, part in enumerate(self.parts):
            x = checkpoint(part, x, use_reentrant=False) if i in self.kept else part(x)
            if i in self.shown:
                results.append(x)
        return *results, x


def random_attack(model: nn.Module, choose: random.Random) -> Attack:
    names = [name for name, _ in model.named_parameters()]
    one, other = choose.choice(names), choose.choice(names)
    return choose.choice([
        writes(one), writes_the_input, writes_an_output, twice, writes_after_the_first(one), hook_raises(one),
        hook_raises(one, True), hook_writes(one, other), hooks_look, asks_for(one, other), one_output(0, one),
        writes(one, create_graph=True), asks_for(one, other, create_graph=True),
        asks_for(None, one, other, create_graph=True),
    ])  # fmt: skip


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("seed", range(3000 if SOAK else 40))
def test_random_chains(seed: int) -> None:
    found = []
    for wrap in (lambda model: model, recorded):
        torch.manual_seed(seed)
        choose = random.Random(seed)
        model = Chain(choose)
        warm, attack = choose.randrange(5), random_attack(model, choose)
        found.append(told(model, wrap(model), attack, warm))
    assert found[0] == found[1]
