"""Hooks of autograd in the middle of a function, each program beside eager Python and PyTorch's front end.

A program takes a leaf, and a `Box` for what it keeps. It returns a loss, or a tuple of it and more. `Outcome` runs it
several times, with backward, and writes down what anybody could see.
"""

import contextlib
import functools
import io
import traceback
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks

from e2e.describe import describe, describe_copies

Program = Callable[[torch.Tensor, "Box"], Any]
PROGRAMS: dict[str, Program] = {}
FILE = __file__


class Box:
    """What programs keep between calls, made anew for each run of one."""

    def __init__(self) -> None:
        torch.manual_seed(3)
        self.log: list[Any] = []
        self.norms: dict[str, Any] = {}
        self.scale = 2.0
        self.calls = 0
        self.weight = nn.Parameter(torch.linspace(0.5, 1, 4))
        self.layer = nn.Linear(4, 4)
        self.net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
        self.mask = torch.tensor([1.0, 0.0, 1.0, 0.5])
        self.object = Callback(3.0)
        self.last: Any = None
        self.handle: Any = None

    def keep(self, grad: torch.Tensor) -> None:
        self.log.append(grad)

    def scaled(self, name: str, grad: torch.Tensor, *, by: float = 2.0) -> torch.Tensor:
        self.log.append((name, grad))
        return grad * by

    def plain(self, grad: torch.Tensor) -> torch.Tensor:
        return grad * 3

    def parameters(self) -> list[nn.Parameter]:
        return [self.weight, *self.layer.parameters(), *self.net.parameters()]


class Callback:
    def __init__(self, by: float) -> None:
        self.by, self.calls = by, 0

    def __call__(self, grad: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return grad * self.by


class Stateless:
    def __call__(self, grad: torch.Tensor) -> torch.Tensor:
        return grad.clamp(-0.5, 0.5)


STATELESS = Stateless()
FACTOR = 2.0
LOG: list[Any] = []


def program(function: Program) -> Program:
    PROGRAMS[function.__name__] = function
    return function


def times(other: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    return grad * other


def triple(grad: torch.Tensor) -> torch.Tensor:
    return grad * 3


# ---- what a hook closes over


@program
def forward_value(x, box):
    y = x.sin()
    z = y.exp()
    y.register_hook(lambda g: g * z)
    return (y * z).sum()


@program
def its_own_tensor(x, box):
    y = x.sin()
    y.register_hook(lambda g: g * y)
    return (y * 2).sum()


@program
def an_input(x, box):
    y = x.sin()
    y.register_hook(lambda g: g * x)
    return (y * 2).sum()


@program
def a_buffer(x, box):
    y = x.sin()
    mask = box.mask
    y.register_hook(lambda g: g * mask)
    return (y * 2).sum()


@program
def an_attribute(x, box):
    y = x.sin()
    y.register_hook(lambda g: g * box.mask)
    return (y * 2).sum()


@program
def a_number_of_an_object(x, box):
    y = x.sin()
    y.register_hook(lambda g: g * box.scale)
    return (y * 2).sum()


@program
def a_constant(x, box):
    by = 4.0
    y = x.sin()
    y.register_hook(lambda g: g * by)
    return (y * 2).sum()


@program
def a_default(x, box):
    y = x.sin()
    y.register_hook(lambda g, by=4.0: g * by)
    return (y * 2).sum()


@program
def a_global(x, box):
    y = x.sin()
    y.register_hook(lambda g: g * FACTOR)
    return (y * 2).sum()


@program
def a_value_without_gradient(x, box):
    y = x.sin()
    z = y.detach().abs() + 1
    y.register_hook(lambda g: g / z)
    return (y * 2).sum()


@program
def a_tuple_of_values(x, box):
    y = x.sin()
    both = (y.detach() + 1, y.detach() * 2)
    y.register_hook(lambda g: g * both[0] - both[1])
    return (y * 2).sum()


@program
def a_value_made_later(x, box):
    z = x
    y = x.sin()
    y.register_hook(lambda g: g * z)
    z = y.cos()
    return (y * z).sum()


@program
def a_value_that_is_written_later(x, box):
    y = x.sin()
    z = y.detach().clone()
    y.register_hook(lambda g: g * z)
    z.add_(1)
    return (y * 2).sum()


@program
def a_value_that_is_returned(x, box):
    y = x.sin()
    z = y.detach().exp()
    y.register_hook(lambda g: g * z)
    return (y * 2).sum(), z


@program
def branches_on_the_gradient(x, box):
    y = x.sin()
    y.register_hook(lambda g: g * 0.5 if g.norm() > 1 else g)
    return (y * 2).sum()


@program
def clips_by_its_norm(x, box):
    y = x.sin()

    def clip(grad):
        norm = grad.norm()
        return grad * torch.clamp(1.0 / (norm + 1e-6), max=1.0)

    y.register_hook(clip)
    return (y * 2).sum()


# ---- what object a hook is


@program
def partial_over_a_value(x, box):
    y = x.sin()
    y.register_hook(functools.partial(times, y.detach().exp()))
    return (y * 2).sum()


@program
def partial_over_constants(x, box):
    y = x.sin()
    y.register_hook(functools.partial(torch.mul, 3.0) if box is None else functools.partial(torch.clamp, max=1.5))
    return (y * 2).sum()


@program
def partial_of_a_method(x, box):
    y = x.sin()
    y.register_hook(functools.partial(box.scaled, "y", by=0.5))
    return (y * 2).sum()


@program
def bound_method(x, box):
    y = x.sin()
    y.register_hook(box.keep)
    return (y * 2).sum()


@program
def bound_method_without_effect(x, box):
    y = x.sin()
    y.register_hook(box.plain)
    return (y * 2).sum()


@program
def object_with_state(x, box):
    y = x.sin()
    y.register_hook(box.object)
    return (y * 2).sum(), box.object.calls


@program
def object_without_state(x, box):
    y = x.sin()
    y.register_hook(STATELESS)
    return (y * 2).sum()


@program
def module_as_a_hook(x, box):
    y = x.sin()
    y.register_hook(nn.Identity())
    return (y * 2).sum()


@program
def function_of_torch(x, box):
    y = x.sin()
    y.register_hook(torch.tanh)
    return (y * 2).sum()


@program
def method_of_a_list(x, box):
    seen = []
    y = x.sin()
    y.register_hook(seen.append)
    return (y * 2).sum(), seen


# ---- what a hook does besides


@program
def appends(x, box):
    y = x.sin()
    y.register_hook(lambda g: box.log.append(g))
    return (y * 2).sum()


@program
def counts(x, box):
    y = x.sin()

    def count(grad):
        box.calls += 1

    y.register_hook(count)
    return (y * 2).sum()


@program
def counts_in_a_cell(x, box):
    calls = 0
    y = x.sin()

    def count(grad):
        nonlocal calls
        calls += 1
        return grad * calls

    y.register_hook(count)
    return (y * 2).sum(), lambda: calls


@program
def prints(x, box):
    y = x.sin()
    y.register_hook(lambda g: print("gradient", g.sum().item()))
    return (y * 2).sum()


@program
def reads_numbers(x, box):
    y = x.sin()
    y.register_hook(lambda g: box.norms.__setitem__("y", g.norm().item()))
    return (y * 2).sum()


@program
def sets_an_attribute(x, box):
    y = x.sin()

    def keep(grad):
        box.last = grad.detach()

    y.register_hook(keep)
    return (y * 2).sum()


@program
def over_layers(x, box):
    y = x
    for i, layer in enumerate(box.net):
        y = layer(y)
        y.register_hook(lambda g, i=i: box.log.append((i, g)))
    return (y * 2).sum()


@program
def keeps_a_value_in_a_list(x, box):
    y = x.sin()
    z = y.exp()
    y.register_hook(lambda g: LOG.append((g, z.detach())))
    return (y * z).sum()


# ---- several, removed, with writes and views


@program
def several_on_one(x, box):
    y = x.sin()
    z = y * 2
    y.register_hook(triple)
    y.register_hook(lambda g: g + 1)
    y.register_hook(lambda g: box.log.append(g))
    return (y * z).sum()


@program
def several_pure_on_one(x, box):
    y = x.sin()
    z = y * 2
    y.register_hook(triple)
    y.register_hook(lambda g: g + 1)
    return (y * z).sum()


@program
def removed_in_the_function(x, box):
    y = x.sin()
    handle = y.register_hook(triple)
    z = y * 2
    handle.remove()
    return (y * z).sum()


@program
def one_of_two_removed(x, box):
    y = x.sin()
    first = y.register_hook(triple)
    y.register_hook(lambda g: g + 1)
    first.remove()
    y.register_hook(lambda g: g * 5)
    return (y * 2).sum()


@program
def as_a_context(x, box):
    y = x.sin()
    with y.register_hook(triple):
        z = y * 2
    return z.sum()


@program
def handle_given_out(x, box):
    y = x.sin()
    handle = y.register_hook(triple)
    return (y * 2).sum(), handle


@program
def handle_kept_for_the_next_call(x, box):
    y = x.sin()
    if box.handle is not None:
        box.handle.remove()
    box.handle = y.register_hook(lambda g: box.log.append(g))
    return (y * 2).sum()


@program
def removes_itself(x, box):
    y = x.sin()

    def once(grad):
        box.log.append(grad)
        handle.remove()

    handle = y.register_hook(once)
    return (y * 2).sum()


@program
def written_after_the_hook(x, box):
    y = x.sin()
    y.register_hook(triple)
    y.mul_(3)
    return y.cos().sum()


@program
def on_a_view(x, box):
    y = x.sin()
    z = y[1:]
    z.register_hook(triple)
    return z.cos().sum() + y.sum()


@program
def on_parts(x, box):
    left, right = x.sin().chunk(2)
    left.register_hook(triple)
    right.register_hook(lambda g: g + 1)
    return (left * right).sum()


@program
def returned_with_its_hook(x, box):
    y = x.sin()
    y.register_hook(triple)
    return (y * 2).sum(), y


@program
def in_a_callee(x, box):
    def watch(t, name):
        t.register_hook(lambda g: box.log.append((name, g)))
        return t

    y = watch(x.sin(), "y")
    z = watch(y * 2, "z")
    return (y * z).sum()


@program
def on_what_needs_no_gradient(x, box):
    y = x.detach().sin()
    try:
        y.register_hook(triple)
    except RuntimeError as error:
        return (x * y).sum(), str(error)


# ---- inputs, parameters, after accumulation


@program
def on_an_input(x, box):
    x.register_hook(lambda g: g * 2)
    return x.sin().sum()


@program
def on_an_input_with_a_value(x, box):
    y = x.sin()
    z = y.detach() + 1
    handle = x.register_hook(lambda g: g * z)
    return (y * 2).sum(), handle


@program
def after_accumulation(x, box):
    x.register_post_accumulate_grad_hook(lambda t: box.log.append(t.grad.clone()))
    return (x.sin() * 2).sum()


@program
def after_accumulation_of_parameters(x, box):
    handles = [
        p.register_post_accumulate_grad_hook(lambda t, i=i: box.log.append((i, t.grad.clone())))
        for i, p in enumerate(box.layer.parameters())
    ]
    box.handle = handles
    return box.layer(x).sum(), len(handles)


@program
def after_accumulation_removed(x, box):
    handle = x.register_post_accumulate_grad_hook(lambda t: box.log.append(t.grad))
    y = x.sin()
    handle.remove()
    return (y * 2).sum()


@program
def after_accumulation_of_a_value(x, box):
    y = x.sin()
    try:
        y.register_post_accumulate_grad_hook(box.keep)
    except RuntimeError as error:
        return (y * 2).sum(), str(error)


# ---- kept gradients


@program
def retained_and_returned(x, box):
    y = x.sin()
    y.retain_grad()
    return (y * 2).sum(), y


@program
def retained_after_use(x, box):
    y = x.sin()
    z = y * 2
    y.retain_grad()
    return (z * y).sum(), y


@program
def retained_and_forgotten(x, box):
    y = x.sin()
    y.retain_grad()
    return (y * 2).sum()


@program
def retained_with_hooks(x, box):
    y = x.sin()
    y.register_hook(triple)
    y.retain_grad()
    y.register_hook(lambda g: g + 1)
    box.last = y
    return (y * 2).sum(), y.retains_grad


# ---- hooks that raise


@program
def raises(x, box):
    y = x.sin()

    def refuse(grad):
        raise ValueError("no gradient wanted")

    y.register_hook(refuse)
    return (y * 2).sum()


@program
def raises_from_another(x, box):
    y = x.sin()

    def refuse(grad):
        try:
            box.norms["missing"]
        except KeyError as error:
            raise RuntimeError("nothing known of y") from error

    y.register_hook(refuse)
    return (y * 2).sum()


@program
def gives_another_shape(x, box):
    y = x.sin()
    y.register_hook(lambda g: g[:1])
    return (y * 2).sum()


@program
def gives_no_tensor(x, box):
    y = x.sin()
    y.register_hook(lambda g: 3)
    return (y * 2).sum()


# ---- saved tensors


@program
def saved_and_counted(x, box):
    def pack(t):
        box.calls += 1
        return t

    with saved_tensors_hooks(pack, lambda t: t):
        y = x.sin() * x
    return y.sum(), box.calls


@program
def saved_and_halved(x, box):
    with saved_tensors_hooks(lambda t: t * 0.5, lambda t: t * 2):
        y = x.sin() * x
    return y.sum()


@program
def saved_on_the_cpu(x, box):
    with save_on_cpu():
        y = x.sin() * x.exp()
    return y.sum()


@program
def saved_and_logged(x, box):
    def unpack(t):
        box.log.append("unpacked")
        return t

    with saved_tensors_hooks(lambda t: t, unpack):
        y = x.sin() * x
    return (y * y).sum()


# ---- modules and nodes


@program
def full_backward_hook(x, box):
    if box.handle is None:
        box.handle = box.net[1].register_full_backward_hook(lambda m, i, o: (i[0] * 2,))
    return box.net(x).sum()


@program
def full_backward_pre_hook(x, box):
    if box.handle is None:
        box.handle = box.net[1].register_full_backward_pre_hook(lambda m, o: (o[0] * 2,))
    return box.net(x).sum()


def _watch(module, to_inputs, of_outputs):
    LOG.append((type(module).__name__, to_inputs, of_outputs))


@program
def full_backward_hook_that_appends(x, box):
    if box.handle is None:
        box.handle = box.net.register_full_backward_hook(_watch)
    return box.net(x).sum()


@program
def hook_of_a_node(x, box):
    y = x.sin()
    y.grad_fn.register_hook(lambda i, o: box.log.append(o))
    return (y * 2).sum()


# ---- running


def cleaned(error: BaseException) -> Any:
    """Type, text and the program's own entries of the traceback, with what it came from."""
    entries = [f"{e.name}: {e.line}" for e in traceback.extract_tb(error.__traceback__) if e.filename == FILE]
    cause = error.__cause__ or error.__context__
    return type(error).__name__, str(error).split("\n")[0], entries[1:], cause and cleaned(cause)


def run(function: Any, box: Box, round_number: int, own_state: bool = True) -> str:
    """One call with its backward, as text; of tensors versions and the like, too, if own_state."""
    x = (torch.linspace(-1, 2, 4) * (1 + round_number / 4)).requires_grad_()
    LOG.clear()
    printed = io.StringIO()
    error = None
    loss: Any = ()
    with contextlib.redirect_stdout(printed):
        try:
            result = function(x, box)
            loss = result[0] if isinstance(result, tuple) else result
            loss.backward()
        except Exception as raised:  # what is raised is compared
            error = cleaned(raised)
    more = [
        m() if callable(m) and not isinstance(m, torch.Tensor) else m
        for m in (result[1:] if error is None and isinstance(result, tuple) else ())
    ]
    of_more = [m.grad if isinstance(m, torch.Tensor) and not m.is_leaf else None for m in more]
    kept = box.last.grad if isinstance(box.last, torch.Tensor) and not box.last.is_leaf else None
    grads = [p.grad for p in box.parameters()]
    more = [
        m.detach() if isinstance(m, torch.Tensor) else type(m).__name__ if hasattr(m, "remove") else m for m in more
    ]
    shown = [loss.detach() if isinstance(loss, torch.Tensor) else None, x.grad, more, of_more, kept, grads]
    state = [list(box.log), dict(box.norms), box.calls, box.object.calls, list(LOG), printed.getvalue(), error]
    box.log.clear()
    for p in box.parameters():
        p.grad = None
    return (describe if own_state else describe_copies)(shown=shown, state=state)
