"""What was captured with two objects is called with one in both places: what is done to it shows there, too."""

import collections
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from torch import nn


class OwnList(list[Any]):
    pass


class OwnDict(dict[str, int]):
    pass


class OwnSet(set[int]):
    pass


def tensor() -> torch.Tensor:
    return torch.full((2, 3), 2.0)


def leaf() -> torch.Tensor:
    return tensor().requires_grad_()


def with_grad() -> torch.Tensor:
    made = leaf()
    made.grad = torch.full((2, 3), 3.0)
    return made


# fmt: off
def sets_requires_grad(a, b): a.requires_grad_(); return b.requires_grad, (b * 2).requires_grad
def clears_requires_grad(a, b): a.requires_grad = False; return (b * 2).requires_grad
def transposes(a, b): a.t_(); return b.shape
def unsqueezes(a, b): a.unsqueeze_(0); return b.dim(), b.stride()
def assigns_data(a, b): a.data = torch.full((2, 3), 5.0); return b * 2
def scales_data(a, b):
    for p in (a, b): p.data = p.data * 0.5
def scales_grads(a, b):
    for p in (a, b): p.grad = p.grad * 0.5
    return a.grad, b.grad
def sums_grads(a, b):
    for p in (a, b): p.grad = torch.ones(2, 3) if p.grad is None else p.grad + 1
    return a.grad
def drops_grad(a, b): a.grad = None; return b.grad is None
def counts(a, b): a["a"] += 1; return b["a"], len(b)
def appends(a, b): a.append(1); return len(b), b[-1]
def stores(a, b): a["z"] = 1; return "z" in b, list(b)
def adds(a, b): a.add(5); return 5 in b
# fmt: on


CASES: list[tuple[Callable[..., Any], Callable[[], Any]]] = [
    *((f, tensor) for f in (sets_requires_grad, transposes, unsqueezes, assigns_data, scales_data)),
    *((f, leaf) for f in (clears_requires_grad, sums_grads, scales_data)),
    *((f, with_grad) for f in (scales_grads, sums_grads, drops_grad)),
    *((counts, lambda: collections.Counter("ab")), (stores, lambda: collections.Counter("ab"))),
    *((appends, lambda: OwnList([0])), (stores, lambda: OwnDict(a=1)), (adds, lambda: OwnSet([1]))),
]


def state(value: Any) -> str:
    return f"{value} {getattr(value, 'grad', None)} {getattr(value, 'requires_grad', None)}"


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize(("function", "make"), CASES, ids=lambda case: case.__name__)
def test_one_object_in_two_places(function: Callable[..., Any], make: Callable[[], Any], backend: str) -> None:
    compiled = gramme.compile(function, backend=backend)

    def run(call: Callable[..., Any], same: bool) -> list[str]:
        a = make()
        b = a if same else make()
        return [str(call(a, b)), state(a), state(b)]

    for same in (False, True, False, True):
        assert run(compiled, same) == run(function, same)


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_a_parameter_is_reached_in_two_ways(backend: str) -> None:
    def step(optimizer: torch.optim.Optimizer, p: torch.Tensor) -> torch.Tensor:
        p.grad = torch.ones(2)
        optimizer.step()
        return p.detach() * 1

    compiled = gramme.compile(step, backend=backend)
    for same in (False, True, False, True):
        results = []
        for call in (step, compiled):
            held = nn.Parameter(torch.ones(2))
            p = held if same else nn.Parameter(torch.ones(2))
            results.append((call(torch.optim.SGD([held], lr=0.5), p).tolist(), held.tolist()))
        assert results[0] == results[1]


def counted() -> int:
    return 1


@pytest.mark.parametrize("through_argument", [True, False])
def test_a_function_is_a_global_and_an_argument(through_argument: bool) -> None:
    def program(a: Any, x: torch.Tensor) -> torch.Tensor:
        written, read = (a, counted) if through_argument else (counted, a)
        written.k = 5
        return x + read.k  # type: ignore[no-any-return]

    compiled = gramme.compile(program, backend="eager")
    for same in (False, True, False, True):
        results = []
        for call in (program, compiled):
            other = lambda: 1  # noqa: E731
            other.k = counted.k = 0  # type: ignore[attr-defined]
            results.append(call(counted if same else other, torch.ones(1)).tolist())
        assert results[0] == results[1]


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_weights_that_become_tied(backend: str) -> None:
    def loss(model: nn.Sequential, x: torch.Tensor) -> torch.Tensor:
        model[0].weight.requires_grad_(True)
        return model[1](x).sum()  # type: ignore[no-any-return]

    compiled = gramme.compile(loss, backend=backend)
    for tied in (False, True, False):
        gradients = []
        for call in (loss, compiled):
            model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)).requires_grad_(False)
            if tied:
                model[1].weight = model[0].weight
            out = call(model, torch.ones(1, 2))
            if out.requires_grad:
                out.backward()
            gradients.append([None if p.grad is None else p.grad.tolist() for p in model.parameters()])
        assert gradients[0] == gradients[1]


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_a_view_from_outside_goes_by_its_base(backend: str) -> None:
    def toggle(a: torch.Tensor, b: torch.Tensor) -> tuple[bool, bool]:
        a.requires_grad_()
        return b.requires_grad, (b * 2).requires_grad

    compiled = gramme.compile(toggle, backend=backend)
    for view in (False, True, False, True):
        results = []
        for call in (toggle, compiled):
            a = torch.ones(4)
            results.append(call(a, a[:2] if view else torch.ones(2)))
        assert results[0] == results[1]


def test_parameters_toggled_one_after_the_other_are_one_segment() -> None:
    def freeze(model: nn.Module) -> None:
        for p in model.parameters():
            p.requires_grad_(False)

    compiled = gramme.compile(freeze, backend="eager", fullgraph=True)
    for tied in (False, False, True):
        model = nn.Sequential(*(nn.Linear(2, 2) for _ in range(3)))
        if tied:
            model[1].weight = model[0].weight
        compiled(model)
        assert not any(p.requires_grad for p in model.parameters())
    assert gramme.statistics(compiled).captures <= 2
