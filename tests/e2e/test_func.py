"""The transforms of torch.func in graphs: results, gradients and second gradients are eager's under every backend."""

from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from torch import nn
from torch._C._functorch import peek_interpreter_stack
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)
from torch.utils._pytree import tree_leaves

from e2e.front import GRAMME

pytestmark = pytest.mark.skipif(not GRAMME, reason="asks for gramme's graphs")

Make = Callable[[], tuple[Any, ...]]
CASES: dict[str, tuple[Callable[..., Any], Make]] = {}
OUTSIDE = torch.tensor([0.5, -1.0, 2.0])


def vector() -> torch.Tensor:
    return torch.tensor([0.3, -0.7, 1.1])


def rows() -> torch.Tensor:
    return torch.arange(12.0).reshape(4, 3) / 7


def case(*arguments: Callable[[], Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        CASES[function.__name__] = (function, lambda: tuple(make() for make in arguments))
        return function

    return add


# ---- grad


@case(vector)
def gradient(x: torch.Tensor) -> Any:
    return grad(lambda a: (a * OUTSIDE).sin().sum())(x)


@case(vector)
def second_gradient(x: torch.Tensor) -> Any:
    return grad(lambda a: grad(lambda b: b.exp().sin().sum())(a).pow(2).sum())(x)


@case(vector)
def third_gradient(x: torch.Tensor) -> Any:
    def sum_of_gradient(f: Callable[..., Any]) -> Callable[..., Any]:
        return lambda a: grad(f)(a).sum()

    return grad(sum_of_gradient(sum_of_gradient(lambda a: a.sin().sum())))(x)


@case(vector)
def with_aux(x: torch.Tensor) -> Any:
    return grad_and_value(lambda a, k: ((a * k).sum(), {"aux": a * 3, "same": a}), has_aux=True)(x, 2)


@case(vector, vector)
def several_arguments(x: torch.Tensor, y: torch.Tensor) -> Any:
    return grad(lambda a, b, c: (a.sin() * b * c).sum(), argnums=(0, 2))(x, y, x + y)


@case(vector, vector)
def trees(x: torch.Tensor, y: torch.Tensor) -> Any:
    def loss(tree: dict[str, Any], *, scale: torch.Tensor) -> torch.Tensor:
        return (tree["a"] * tree["b"][0] * scale).sum() + tree["b"][1].sum()

    return grad(loss)({"a": x, "b": [y, x * 2]}, scale=y)


@case(vector, vector)
def gradients_that_are_one_tensor(x: torch.Tensor, y: torch.Tensor) -> Any:
    first, second = grad(lambda a, b: (a + b).sum(), argnums=(0, 1))(x, y)
    return first + 1, second * 2, first is second


@case(vector, vector)
def an_argument_that_is_not_used(x: torch.Tensor, y: torch.Tensor) -> Any:
    return grad(lambda a, b: (a * a).sum(), argnums=(0, 1))(x, y)


@case(vector)
def a_constant_result(x: torch.Tensor) -> Any:
    return grad(lambda a: torch.ones(3).sum())(x)


@case(vector)
def writes_to_its_own(x: torch.Tensor) -> Any:
    def loss(a: torch.Tensor) -> torch.Tensor:
        made = torch.zeros(3)
        made[0] = a[0] * 2
        view = made[1:]
        view.mul_(a[1:]).add_(a[1:] * a[0])
        made += a.sin()
        return (made * made).sum() + view.sum()

    return grad(loss)(x)


@case(vector)
def writes_to_a_view(x: torch.Tensor) -> Any:
    def loss(a: torch.Tensor) -> torch.Tensor:
        made = torch.zeros(3)
        view = made[1:]
        view.add_(a[1:] * a[0])
        made.mul_(a)
        return (made * made).sum() + view.sum()

    return grad(loss)(x)


@case(vector)
def grad_mode_off_inside(x: torch.Tensor) -> Any:
    def loss(a: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            factor = a.exp()
        return (a * factor).sum()

    return grad(loss)(x)


@case(vector)
def grad_mode_off_outside(x: torch.Tensor) -> Any:
    with torch.no_grad():
        result = grad(lambda a: (a * a * OUTSIDE).sum())(x)
    return result, result.requires_grad, torch.is_grad_enabled()


@case(vector, vector)
def closed_over(x: torch.Tensor, y: torch.Tensor) -> Any:
    z = y * 2
    return grad(lambda a: (a * a * z).sum())(x) * z


@case(vector)
def operations_around(x: torch.Tensor) -> Any:
    y = x.exp()
    return grad(lambda a: (a * y).cos().sum())(y * 2).sin() + y


@case(vector)
def a_detached_part(x: torch.Tensor) -> Any:
    return grad(lambda a: (a * a.detach().sin()).sum())(x)


@case(vector)
def two_in_a_row(x: torch.Tensor) -> Any:
    def loss(a: torch.Tensor) -> torch.Tensor:
        return (a**3).sum()

    first = grad(loss)(x)
    return first + grad(loss)(first)


@case(vector)
def a_loop_of_steps(x: torch.Tensor) -> Any:
    for _ in range(4):
        x = x - 0.1 * grad(lambda a: a.pow(4).sum())(x)
    return x


# ---- vjp, jacrev


@case(vector)
def pulled_back(x: torch.Tensor) -> Any:
    out, pull = vjp(torch.sin, x)
    return out, pull(torch.ones(3)), pull(out)


@case(vector, vector)
def pulled_back_trees(x: torch.Tensor, y: torch.Tensor) -> Any:
    out, pull, aux = vjp(lambda a, b: ({"p": a * b, "q": a.sin()}, a + 1), x, y, has_aux=True)
    return out, pull({"p": x, "q": y}), aux


@case(vector)
def pulled_back_unchanged(x: torch.Tensor) -> Any:
    _, pull = vjp(lambda a: a + 1, x)
    cotangent = x.exp()
    (result,) = pull(cotangent)
    return result, cotangent


@case(vector)
def jacobian(x: torch.Tensor) -> Any:
    return jacrev(lambda a: a.sin() * a.sum())(x)


@case(vector)
def jacobian_in_chunks(x: torch.Tensor) -> Any:
    return jacrev(lambda a: a.sin() * a.sum(), chunk_size=2)(x)


@case(vector, vector)
def jacobians_of_trees(x: torch.Tensor, y: torch.Tensor) -> Any:
    return jacrev(lambda a, b: {"p": a * b, "q": a.sum()}, argnums=(0, 1))(x, y)


@case(rows)
def jacobian_of_each(x: torch.Tensor) -> Any:
    return vmap(jacrev(lambda a: a.sin() * a.prod()))(x)


@case(vector)
def hessian_by_reverse(x: torch.Tensor) -> Any:
    return jacrev(jacrev(lambda a: a.sin().prod()))(x)


# ---- with torch.vmap


@case(rows, rows)
def gradient_of_each(x: torch.Tensor, y: torch.Tensor) -> Any:
    return vmap(grad(lambda a, b: (a.sin() * b).sum()))(x, y)


@case(rows, vector)
def gradient_of_each_and_value(x: torch.Tensor, w: torch.Tensor) -> Any:
    return vmap(grad_and_value(lambda a, b: (a * b).exp().sum()), in_dims=(None, 0))(w, x)


@case(rows)
def gradient_of_all(x: torch.Tensor) -> Any:
    return grad(lambda a: vmap(lambda b: b.sin().prod())(a).sum())(x)


@case(rows)
def second_gradient_of_each(x: torch.Tensor) -> Any:
    return vmap(grad(lambda a: grad(lambda b: b.sin().prod())(a).sum()))(x)


@case(rows)
def written_in_each(x: torch.Tensor) -> Any:
    def loss(a: torch.Tensor) -> torch.Tensor:
        b = a * 1
        b[0] = a[1] * a[2]
        b.mul_(a)
        return b.sum()

    return vmap(grad(loss))(x)


# ---- jvp, jacfwd


@case(vector, vector)
def pushed_forward(x: torch.Tensor, t: torch.Tensor) -> Any:
    return jvp(lambda a: (a.sin() * a.sum(), {"k": a + 1}), (x,), (t,))


@case(vector, vector)
def pushed_forward_twice(x: torch.Tensor, t: torch.Tensor) -> Any:
    return jvp(lambda a: jvp(lambda b: b.sin() * b, (a,), (t,))[1], (x,), (t,))


@case(vector, vector)
def pushed_forward_unchanged(x: torch.Tensor, t: torch.Tensor) -> Any:
    out, tangent = jvp(lambda a: a, (x,), (t,))
    return out + 1, tangent * 2


@case(vector, vector)
def tangent_of_a_constant(x: torch.Tensor, t: torch.Tensor) -> Any:
    return jvp(lambda a: (a * 2, torch.ones(2)), (x,), (t,))


@case(vector, vector)
def tangent_of_a_gradient(x: torch.Tensor, t: torch.Tensor) -> Any:
    return jvp(grad(lambda a: a.sin().prod()), (x,), (t,))


@case(vector, vector)
def gradient_of_a_tangent(x: torch.Tensor, t: torch.Tensor) -> Any:
    return grad(lambda a: jvp(torch.sin, (a,), (t,))[1].sum())(x)


@case(vector)
def jacobian_forward(x: torch.Tensor) -> Any:
    return jacfwd(lambda a: a.sin() * a.sum())(x)


@case(vector)
def jacobian_forward_with_aux(x: torch.Tensor) -> Any:
    return jacfwd(lambda a: (a.sin() * a.sum(), a + 1), has_aux=True)(x)


@case(rows)
def jacobian_forward_of_each(x: torch.Tensor) -> Any:
    return vmap(jacfwd(lambda a: a.sin() * a.prod()))(x)


@case(vector)
def hessian_mixed(x: torch.Tensor) -> Any:
    return hessian(lambda a: a.sin().prod())(x)


@case(rows)
def hessian_of_each(x: torch.Tensor) -> Any:
    return vmap(jacrev(jacrev(lambda a: (a.sin() * a[0]).sum().exp())))(x)


@case(vector)
def hessian_by_forward(x: torch.Tensor) -> Any:
    return jacfwd(jacfwd(lambda a: a.sin().prod()))(x)


# ---- programs


def network() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def parameters() -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in network().named_parameters()}


NET = network()


def squared_error(params: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (functional_call(NET, params, (x,)) - y).square().mean()


def targets() -> torch.Tensor:
    return torch.linspace(-1, 1, 8).reshape(4, 2)


@case(parameters, rows, targets)
def gradients_of_each_sample(params: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> Any:
    return vmap(grad(squared_error), in_dims=(None, 0, 0))(params, x, y)


@case(parameters, rows, targets)
def learning_to_learn(params: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> Any:
    def outer(params: dict[str, torch.Tensor]) -> torch.Tensor:
        adapted = params
        for _ in range(2):
            step = grad(squared_error)(adapted, x, y)
            adapted = {name: p - 0.1 * step[name] for name, p in adapted.items()}
        return squared_error(adapted, x * 2, y)

    return grad_and_value(outer)(params)


@case(parameters, vector)
def jacobian_of_a_network(params: dict[str, torch.Tensor], x: torch.Tensor) -> Any:
    return jacrev(lambda p, a: functional_call(NET, p, (a,)), argnums=(0, 1))(params, x)


@case(parameters, vector)
def hessian_of_a_network(params: dict[str, torch.Tensor], x: torch.Tensor) -> Any:
    return hessian(lambda a: functional_call(NET, params, (a,)).square().sum())(x)


@case(parameters, rows)
def residual_of_an_equation(params: dict[str, torch.Tensor], points: torch.Tensor) -> Any:
    def u(params: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        return functional_call(NET, params, (x,)).sum()

    def residual(params: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        second = grad(lambda a: grad(u, argnums=1)(params, a)[0])
        return (second(x).sum(dim=0) + u(params, x)).square()

    def loss(params: dict[str, torch.Tensor]) -> torch.Tensor:
        return vmap(residual, in_dims=(None, 0))(params, points).mean()

    return grad_and_value(loss)(params)


def stacked() -> dict[str, torch.Tensor]:
    params, _ = stack_module_state([network() for _ in range(3)])  # type: ignore[arg-type]
    return {name: p.detach().clone() for name, p in params.items()}


@case(stacked, rows)
def ensemble(params: dict[str, torch.Tensor], x: torch.Tensor) -> Any:
    return vmap(lambda p, a: functional_call(NET, p, (a,)), in_dims=(0, None))(params, x)


@case(stacked, rows, targets)
def trained_ensemble(params: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> Any:
    return vmap(grad_and_value(squared_error), in_dims=(0, None, None))(params, x, y)


def fresh(make: Make, needs: bool) -> tuple[Any, ...]:
    arguments = make()
    if needs:
        for leaf in tree_leaves(arguments):
            leaf.requires_grad_()
    return arguments


def tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def differentiable(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tensors(tree) if leaf.requires_grad]


def gradients(outputs: list[torch.Tensor], inputs: list[torch.Tensor], create: bool) -> tuple[Any, ...]:
    total = torch.stack([(out * (out + 0.5)).sum() for out in outputs]).sum()
    return torch.autograd.grad(total, inputs, create_graph=create, allow_unused=True)


def everything(function: Callable[..., Any], make: Make, needs: bool, twice: bool) -> list[Any]:
    """What the function returns, its gradients and, if asked for, second gradients."""
    arguments = fresh(make, needs)
    result = function(*arguments)
    told = [leaf for leaf in tree_leaves(result)]
    found: list[Any] = [
        (leaf.detach().clone(), leaf.requires_grad) if isinstance(leaf, torch.Tensor) else leaf for leaf in told
    ]
    inputs = [leaf for leaf in tree_leaves(arguments) if leaf.requires_grad]
    outputs = differentiable(result)
    if not inputs or not outputs:
        return found
    first = gradients(outputs, inputs, create=twice)
    found += [g if g is None else g.detach() for g in first]
    again = [g for g in first if g is not None and g.requires_grad]
    if again:
        found += gradients(again, inputs, create=False)
    return found


def assert_same(found: list[Any], expected: list[Any]) -> None:
    assert len(found) == len(expected)
    for a, b in zip(tree_leaves(found), tree_leaves(expected), strict=True):
        if isinstance(b, torch.Tensor):
            assert a.shape == b.shape
            assert a.dtype == b.dtype
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
        else:
            assert a == b


@pytest.mark.sampled(120)
@pytest.mark.parametrize("needs", [False, True], ids=["plain", "grad"])
@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
@pytest.mark.parametrize("name", CASES)
def test_as_eager(name: str, backend: str, needs: bool) -> None:
    function, make = CASES[name]
    twice = backend != "aot_eager"  # which does not support it
    expected = everything(function, make, needs, twice)
    compiled = gramme.compile(function, backend=backend, fullgraph=True)
    for _ in range(2):
        assert_same(everything(compiled, make, needs, twice), expected)
    assert peek_interpreter_stack() is None
    assert forward_ad._current_level == -1


# ---- what ends the segment before the transform's call


def broken_inside(x: torch.Tensor) -> torch.Tensor:
    def loss(a: torch.Tensor) -> torch.Tensor:
        gramme.graph_break()
        return (a * a).sum()

    return grad(loss)(x * 2) + 1


def pulls_later(x: torch.Tensor) -> Any:
    return vjp(torch.sin, x * 2)


def breaks_before_pulling(x: torch.Tensor) -> Any:
    out, pull = vjp(lambda a: a.sin() * a, x * 2)
    gramme.graph_break()
    return out, pull(x)


KEPT: list[torch.Tensor] = []


def lets_out_a_wrapper(x: torch.Tensor) -> torch.Tensor:
    def loss(a: torch.Tensor) -> torch.Tensor:
        KEPT.append(a)
        return (a * a).sum()

    KEPT.clear()
    return grad(loss)(x)


def wrong_result(x: torch.Tensor) -> torch.Tensor:
    return grad(lambda a: a * 2)(x)


def in_inference_mode(x: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        return grad(lambda a: (a * a).sum())(x) * 2


def hessian_without_fakes(x: torch.Tensor) -> torch.Tensor:
    return vmap(hessian(lambda a: a.sin().prod()))(x)


def writes_where_it_must_not(x: torch.Tensor) -> torch.Tensor:
    def loss(a: torch.Tensor) -> torch.Tensor:
        made = torch.zeros(3)
        view = made[1:]
        made[0] = a[0] * 2
        view.add_(a[1:] * a[0])
        return made.sum()

    return grad(loss)(x)


def answer(function: Callable[..., Any], x: torch.Tensor) -> Any:
    try:
        return function(x)
    except RuntimeError as error:
        return str(error)


@pytest.mark.parametrize(
    "function",
    [
        broken_inside,
        breaks_before_pulling,
        lets_out_a_wrapper,
        wrong_result,
        in_inference_mode,
        hessian_without_fakes,
        writes_where_it_must_not,
    ],
)
def test_what_is_not_captured(function: Callable[..., Any]) -> None:
    x = rows() if function is hessian_without_fakes else vector()
    expected = answer(function, x)
    compiled = gramme.compile(function, backend="eager")
    for _ in range(2):
        found = answer(compiled, x)
        if isinstance(expected, str):
            assert found == expected
        else:
            assert_same(tree_leaves(found), tree_leaves(expected))
    assert peek_interpreter_stack() is None
    assert forward_ad._current_level == -1


def test_a_pullback_that_is_returned() -> None:
    x = vector()
    out, pull = gramme.compile(pulls_later, backend="eager")(x)
    expected, expected_pull = pulls_later(x)
    assert torch.equal(out, expected)
    assert torch.equal(pull(x)[0], expected_pull(x)[0])


class Zero(torch.autograd.Function):
    generate_vmap_rule = False

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x.sin()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None: ...

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * 0 + 5

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: torch.Tensor) -> Any:
        return x * 7, 0

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor) -> torch.Tensor:
        return tangent * 3


@pytest.mark.parametrize(
    "function",
    [
        lambda x: grad(lambda a: Zero.apply(a).sum())(x),
        lambda x: vmap(lambda a: Zero.apply(a))(x),
        lambda x: jvp(lambda a: Zero.apply(a), (x,), (x,)),
        lambda x: vmap(grad(lambda a: Zero.apply(a).sum()))(x.expand(2, 3)),
        lambda x: jacrev(lambda a: Zero.apply(a))(x),
    ],
)
def test_a_function_keeps_its_own_rule(function: Callable[..., Any]) -> None:
    x = vector()
    assert_same(tree_leaves(gramme.compile(function, backend="eager")(x)), tree_leaves(function(x)))


# ---- states


def picks(x: torch.Tensor, index: torch.Tensor) -> Any:
    x.add_(1)
    tangent = jvp(lambda a: a.gather(0, index) * a[0], (x,), (x,))[1]
    return tangent, grad(lambda a: a.gather(0, index).sum())(x)


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_a_graph_that_raises_inside(backend: str) -> None:
    compiled = gramme.compile(picks, backend=backend, fullgraph=True)
    good, bad = torch.tensor([0, 2]), torch.tensor([0, 9])
    assert_same(list(compiled(vector(), good)), list(picks(vector(), good)))
    x, y = vector(), vector()
    with pytest.raises(RuntimeError) as eager:
        picks(x, bad)
    with pytest.raises(RuntimeError) as captured:
        compiled(y, bad)
    assert str(captured.value) == str(eager.value)
    assert torch.equal(x, y)
    assert peek_interpreter_stack() is None
    assert not torch._C._functorch.get_inplace_requires_grad_allowed()
    assert torch._C._autograd._saved_tensors_hooks_get_disabled_error_message() is None
    with forward_ad.dual_level():  # there is none
        pass
    assert_same(list(compiled(vector(), good)), list(picks(vector(), good)))


def test_inside_hooks_of_saved_tensors() -> None:
    compiled = gramme.compile(gradient, backend="eager")
    x = vector()
    assert torch.equal(compiled(x), gradient(x))
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        with pytest.raises(RuntimeError) as eager:
            gradient(x)
        with pytest.raises(RuntimeError) as captured:
            compiled(x)
    assert str(captured.value) == str(eager.value)


def test_sizes_that_change() -> None:
    def loss(x: torch.Tensor) -> Any:
        return vmap(grad(lambda a: (a * a).sum() / a.shape[0]))(x), jacrev(torch.sin)(x[0])

    compiled = gramme.compile(loss, backend="eager")
    for n in (2, 3, 5, 3, 7, 1):
        x = torch.arange(2.0 * n).reshape(n, 2)
        assert_same(tree_leaves(compiled(x)), tree_leaves(loss(x)))


def test_numbers_that_change() -> None:
    def step(x: torch.Tensor, rate: float) -> torch.Tensor:
        return x - rate * grad(lambda a: (a**2 * rate).sum())(x)

    compiled = gramme.compile(step, backend="eager", fullgraph=True)
    for rate in (0.1, 0.2, 0.3, 0.4, 0.0):
        assert torch.allclose(compiled(vector(), rate), step(vector(), rate))


def test_a_transform_outside_changes_nothing() -> None:
    compiled = gramme.compile(gradient, backend="eager")
    x = rows()
    assert torch.equal(vmap(compiled)(x), vmap(gradient)(x))
    assert torch.equal(grad(lambda a: compiled(a).sum())(x[0]), grad(lambda a: gradient(a).sum())(x[0]))


def test_the_name_of_what_a_transform_gives() -> None:
    def named(a: torch.Tensor) -> torch.Tensor:
        return a.sum()

    def names(x: torch.Tensor) -> Any:
        return grad(named)(x), grad(named).__name__, jacrev(named).__name__

    assert gramme.compile(names, backend="eager")(vector())[1:] == names(vector())[1:]


def test_gradients_in_a_transform_are_inferred_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions of PyTorch in C are its own, whatever they are bound to."""
    asked: list[object] = []
    dispatch = FakeTensorMode.dispatch

    def noting(mode: FakeTensorMode, func: object, *rest: Any) -> Any:
        asked.append(func)
        return dispatch(mode, func, *rest)

    monkeypatch.setattr(FakeTensorMode, "dispatch", noting)
    function, x = hessian(lambda a: (a.sin() * a).sum()), torch.arange(7.0)
    for first in (True, False):
        asked.clear()
        torch.testing.assert_close(gramme.compile(function, backend="eager", fullgraph=True)(x), function(x))
        assert bool(asked) == first
        gramme.reset()
