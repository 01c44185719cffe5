"""`torch.autograd.Function` over subclasses: the class of what backward sees, and what the results are to autograd."""

from typing import Any

import torch

from subclasses import program
from subclasses.classes import Carrying, Inheriting, Logged, Off, carrying, numbers, two

SEEN: list[str] = []


def kind(value: Any) -> str:
    return type(value).__name__ + str(sorted(getattr(value, "meta", {})))


class Noting(torch.autograd.Function):
    """Notes in backward the classes of what was saved and of the gradients."""

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, y = ctx.saved_tensors
        SEEN.append(f"{kind(x)} {kind(y)} {kind(grad)}")
        return grad * y, grad * x


class SavingItsResult(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        result = (x + y).exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (result,) = ctx.saved_tensors
        SEEN.append(f"{kind(result)} {result.grad_fn is not None}")
        return grad * result, None


class Keeping(torch.autograd.Function):
    """Attributes of the context."""

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.y, ctx.sum = y, x + y
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        SEEN.append(f"{kind(ctx.y)} {kind(ctx.sum)}")
        return grad * ctx.y.sum().item(), None


class Both(torch.autograd.Function):
    """One memory, with and without the class."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        plain = x * 3
        ctx.save_for_backward(plain)
        return plain, plain.as_subclass(Inheriting)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        SEEN.append(kind(ctx.saved_tensors[0]))
        return grads[0] + grads[1] * 2


class Returning(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        return x, y, x + y

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0] * 2, grads[1]


class Marking(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        rounded, product = (x + y).round(), x * y
        ctx.mark_non_differentiable(rounded)
        return product, rounded

    @staticmethod
    def backward(ctx: Any, grad: Any, _: Any) -> Any:
        return grad * 5, None


class Writing(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.mark_dirty(x)
        return x.add_(y)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 2, grad


class Apart(torch.autograd.Function):
    @staticmethod
    def forward(x: Any, y: Any) -> Any:
        return x * y

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        SEEN.append(" ".join(map(kind, ctx.saved_tensors)))
        return grad * 4, None


def seen() -> list[str]:
    return list(SEEN)


def mixed(cls: type) -> Any:
    """A plain leaf and a tensor of the class, twice."""
    return lambda: [(numbers().requires_grad_(), numbers().as_subclass(cls))] * 2


def noted(calls: Any) -> Any:
    return program(calls, state=seen, setup=SEEN.clear, backward=True)


@noted(mixed(Inheriting))
def saved_for_backward(x, y):
    return Noting.apply(x, y)


@noted(lambda: [(numbers().requires_grad_(), carrying(4, k=1))] * 2)
def saved_with_attributes(x, y):
    return Noting.apply(x, y) + 1


@noted(lambda: [(numbers().requires_grad_().as_subclass(Inheriting), numbers())] * 2)
def saved_with_a_gradient(x, y):
    return Noting.apply(x * 2, y)


@noted(mixed(Off))
def saved_of_one_that_is_not_asked(x, y):
    return Noting.apply(x, y)


@noted(mixed(Inheriting))
def a_result_saved(x, y):
    return SavingItsResult.apply(x, y)


@noted(lambda: [(numbers().requires_grad_(), carrying(4, k=1))] * 2)
def a_result_with_attributes(x, y):
    z = SavingItsResult.apply(x, y)
    return z, z * 2


@noted(mixed(Carrying))
def kept_in_the_context(x, y):
    return Keeping.apply(x, y)


@noted(lambda: [(numbers().requires_grad_(),)] * 2)
def with_and_without_the_class(x):
    return Both.apply(x)


@noted(mixed(Inheriting))
def arguments_returned(x, y):
    return Returning.apply(x, y)


@program(mixed(Logged), backward=False)
def arguments_returned_without_gradients(x, y):
    with torch.no_grad():
        return Returning.apply(x, y)


@program(lambda: [(numbers(), numbers().as_subclass(Inheriting))] * 2)
def nothing_to_differentiate(x, y):
    return Returning.apply(x, y), Marking.apply(x, y)


@noted(mixed(Inheriting))
def not_differentiable(x, y):
    product, rounded = Marking.apply(x, y)
    return product, rounded.detach() * product


@noted(lambda: [(numbers().requires_grad_().as_subclass(Inheriting), numbers())] * 2)
def marked_dirty(x, y):
    z = x * 1
    return Writing.apply(z, y)


@noted(mixed(Inheriting))
def with_a_setup(x, y):
    return Apart.apply(x, y)


@noted(mixed(Inheriting))
def used_afterwards(x, y):
    z = SavingItsResult.apply(x, y)
    w = SavingItsResult.apply(z, y)
    return z, w, (z + w).sin()


@program(mixed(Inheriting))
def written_afterwards(x, y):
    z = SavingItsResult.apply(x, y)
    z += 1
    return z


@program(mixed(Inheriting))
def its_view_is_written(x, y):
    z = SavingItsResult.apply(x, y)
    z[1:].mul_(2)
    return z


@program(mixed(Inheriting), backward=True)
def what_is_not_differentiable_is_written(x, y):
    product, rounded = Marking.apply(x, y)
    rounded.add_(1)
    return product, rounded.detach() + product, rounded.detach()


@program(mixed(Inheriting))
def no_longer_differentiated(x, y):
    z = SavingItsResult.apply(x, y)
    w = z.detach()
    w.add_(1)
    return z, w, z.requires_grad, w.requires_grad


@program(lambda: [(two(3, grad=True), two(3)), (two(3), two(3, grad=True))])
def wrappers_returned(x, y):
    return Returning.apply(x, y)


@noted(lambda: [(two(3, grad=True), two(3))] * 2)
def wrappers_saved(x, y):
    return Noting.apply(x, y)


@noted(lambda: [(two(3, grad=True), two(3))] * 2)
def wrappers_not_differentiable(x, y):
    return Marking.apply(x, y)[0]


@program(lambda: [(two(3, grad=True), two(3))] * 2)
def wrappers_written(x, y):
    return Writing.apply(x * 1, y)
