"""Hooks of modules registered, replaced and removed between calls, on modules at every place of the tree."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import gramme
import pytest
import torch
from torch import nn
from torch.nn.modules import module as module_hooks

LOG: list[str] = []


def after(module: nn.Module, args: Any, result: Any) -> Any:
    LOG.append("after")
    return result + 1


def after_with_keywords(module: nn.Module, args: Any, kwargs: Any, result: Any) -> Any:
    LOG.append("after with keywords")
    return result + 2


def before(module: nn.Module, args: Any) -> Any:
    LOG.append("before")
    return (args[0] * 2,)


def before_with_keywords(module: nn.Module, args: Any, kwargs: Any) -> Any:
    LOG.append("before with keywords")
    return (args[0] * 3,), kwargs


def backward(module: nn.Module, to_inputs: Any, of_outputs: Any) -> Any:
    LOG.append("backward")
    return tuple(None if g is None else g * 2 for g in to_inputs)


def before_backward(module: nn.Module, of_outputs: Any) -> Any:
    LOG.append("before backward")
    return tuple(g * 3 for g in of_outputs)


def after_all(module: nn.Module, args: Any, result: Any) -> Any:
    LOG.append("after any")
    return result + 10 if isinstance(module, nn.Tanh) else None


def before_all(module: nn.Module, args: Any) -> Any:
    LOG.append("before any")
    return (args[0] * 5,) if isinstance(module, nn.Tanh) else None


class InDict:
    """A hook put in a module's dict by hand."""

    def __init__(self, hooks: dict[int, Any], hook: Any) -> None:
        self.hooks = hooks
        hooks[12345] = hook

    def remove(self) -> None:
        del self.hooks[12345]


class AsAttribute:
    """An attribute of a module given another value."""

    def __init__(self, owner: Any, name: str, value: Any) -> None:
        self.owner, self.name, self.own = owner, name, owner.__dict__.get(name)
        setattr(owner, name, value)

    def remove(self) -> None:
        delattr(self.owner, self.name) if self.own is None else setattr(self.owner, self.name, self.own)


KINDS: dict[str, Callable[[Any], Any]] = {
    "forward": lambda m: m.register_forward_hook(after),
    "forward with kwargs": lambda m: m.register_forward_hook(after_with_keywords, with_kwargs=True),
    "forward first": lambda m: m.register_forward_hook(after, prepend=True),
    "forward always": lambda m: m.register_forward_hook(after, always_call=True),
    "pre": lambda m: m.register_forward_pre_hook(before),
    "pre with kwargs": lambda m: m.register_forward_pre_hook(before_with_keywords, with_kwargs=True),
    "backward": lambda m: m.register_full_backward_hook(backward),
    "backward pre": lambda m: m.register_full_backward_pre_hook(before_backward),
    "global forward": lambda m: module_hooks.register_module_forward_hook(after_all),
    "global pre": lambda m: module_hooks.register_module_forward_pre_hook(before_all),
    "in the dict": lambda m: InDict(m._forward_hooks, after),
    "another dict": lambda m: AsAttribute(m, "_forward_hooks", OrderedDict({7: after})),
    "forward itself": lambda m: AsAttribute(m, "forward", lambda x: x * 100),
    "forward of the class": lambda m: AsAttribute(type(m), "forward", lambda self, x: x * 100),
}
AGAIN = ("forward", "pre", "backward")  # may be registered twice


class Child(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.leaf = nn.Tanh()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.leaf(x) + 1


class Root(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.child = Child()
        self.items = nn.ModuleList([nn.Linear(3, 3)])
        self.plain = [nn.ReLU()]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for item in self.items:
            x = item(self.child(x))
        return self.plain[0](x)


PLACES: dict[str, Callable[[Any], Any]] = {
    "root": lambda root: root,
    "child": lambda root: root.child,
    "grandchild": lambda root: root.child.leaf,
    "item": lambda root: root.items[0],
    "item of a list": lambda root: root.plain[0],
}


@pytest.fixture(autouse=True)
def no_global_hooks() -> Iterator[None]:
    yield
    module_hooks._global_forward_hooks.clear()
    module_hooks._global_forward_pre_hooks.clear()


def history(prepare: Callable[[Any], Any], kind: str, place: str) -> list[Any]:
    """What calls give and log while hooks come and go."""
    torch.manual_seed(0)
    root = Root()
    call, found = prepare(root), []

    def step() -> None:
        LOG.clear()
        root.zero_grad()
        x = torch.linspace(-1, 1, 6).reshape(2, 3).requires_grad_()
        result = call(x)
        result.sum().backward()
        gradients = [None if t.grad is None else t.grad.tolist() for t in (x, *root.parameters())]
        found.append((result.tolist(), gradients, list(LOG)))

    register, module = KINDS[kind], PLACES[place](root)
    step()
    for _ in range(2):
        handle = register(module)
        step()
        step()
        second = register(module) if kind in AGAIN else None
        step()
        handle.remove()
        step()
        if second:
            second.remove()
        step()
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", PLACES)
def test_as_eager(kind: str, place: str) -> None:
    expected = history(lambda root: root, kind, place)
    assert history(lambda root: gramme.compile(lambda x: root(x), backend="eager"), kind, place) == expected


@pytest.mark.parametrize("kind", ["forward", "pre", "backward", "in the dict"])
@pytest.mark.parametrize("backend", ["native", "aot_eager"])
def test_other_backends(kind: str, backend: str) -> None:
    expected = history(lambda root: root, kind, "grandchild")
    assert history(lambda root: gramme.compile(lambda x: root(x), backend=backend), kind, "grandchild") == expected


def compiled_child(root: Any) -> Any:
    root.child = gramme.compile(root.child, backend="eager")
    return root


def compiled_inside(root: Any) -> Any:
    return gramme.compile(compiled_child(root), backend="eager")


def compiled_in_place(root: Any) -> Any:
    with gramme.install():
        root.compile(backend="eager")
    return root


OF_MODULES = [kind for kind in KINDS if not kind.startswith(("global", "forward itself", "forward of"))]


@pytest.mark.parametrize("kind", OF_MODULES)
@pytest.mark.parametrize("place", ["child", "grandchild"])
@pytest.mark.parametrize("prepare", [compiled_child, compiled_inside, compiled_in_place])
def test_of_a_compiled_module(kind: str, place: str, prepare: Callable[[Any], Any]) -> None:
    """`child` is then the compiled module: its hooks run around the call of the module that it was made of."""
    assert history(prepare, kind, place) == history(lambda root: root, kind, place)


@pytest.mark.parametrize("kind", ["forward", "pre", "backward", "backward pre"])
def test_on_the_compiled_module_itself(kind: str) -> None:
    def steps(call: Any) -> list[Any]:
        found = []
        handle = None
        for turn in range(5):
            if turn in (1, 4):
                handle = KINDS[kind](call)
            if turn == 3:
                handle.remove()
            LOG.clear()
            x = torch.ones(2, 3, requires_grad=True)
            call(x).sum().backward()
            assert x.grad is not None
            found.append((x.grad.tolist(), list(LOG)))
        return found

    expected = steps(nn.Sequential(nn.Tanh(), nn.Sigmoid()))
    assert steps(gramme.compile(nn.Sequential(nn.Tanh(), nn.Sigmoid()), backend="eager")) == expected
