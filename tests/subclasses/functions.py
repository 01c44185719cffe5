"""`__torch_function__` classes: what operators, functions and methods do to them."""

import torch
from torch.nn import functional as F

from subclasses import program
from subclasses.classes import (
    LOG,
    Answering,
    Carrying,
    Inheriting,
    Logged,
    Off,
    Tagged,
    Unwrapping,
    carrying,
    numbers,
    tagged,
)

CONVOLVE = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU()).requires_grad_(False)
for parameter in CONVOLVE.parameters():
    parameter.fill_(0.25)


@program(lambda: [(carrying(3, k=1),), (carrying(3, k=2),), (carrying(5, name="n"),)])
def attributes_carried(x):
    y = x.sin() + 1
    return y, y.meta, y.meta is x.meta


@program(lambda: [(carrying(1, 1, 4, 4, k=1),), (carrying(2, 1, 4, 4, k=1),)])
def through_modules(x):
    return CONVOLVE(x)


@program(lambda: [(numbers().as_subclass(Logged), numbers())] * 2, state=lambda: list(LOG), setup=LOG.clear)
def what_is_asked(x, y):
    z = torch.add(x, y) * x.shape[0]
    return z.mean(), torch.sum(y, dim=0), torch.mul(y, other=x)


@program(lambda: [(numbers(2, 2).as_subclass(Logged),)] * 2, state=lambda: list(LOG), setup=LOG.clear)
def operators(x):
    return x + 1, 2 * x, x @ x, -x, x < 1, x / 2, x - 1, abs(x), x // 2


@program(lambda: [(numbers(2, 2).as_subclass(Logged),)] * 2, state=lambda: list(LOG), setup=LOG.clear)
def operators_in_python(x):
    return 1 - x, 2 / x, x**2, 2**x, x == 1, x != x


@program(lambda: [(carrying(2, 3, k=1), torch.tensor([True, False])), (carrying(2, 3), torch.tensor([True, True]))])
def indexing(x, mask):
    return x[0], x[:, 1], x[..., None], x[0, 1], torch.where(mask[:, None], x, -x)


@program(lambda: [(carrying(2, 3, k=1),), (carrying(2, 3, k=2),)])
def assigned_items(x):
    x[0] = 5
    x[:, 0] += 1
    return x


@program(lambda: [(carrying(k=1), numbers()), (carrying(k=2), numbers())])
def in_place(x, y):
    z = x.add_(1).mul_(2)
    x += y
    y.add_(x)
    return z, z is x, y


@program(lambda: [(numbers(2, 3).as_subclass(Inheriting),), (numbers(3, 3).as_subclass(Inheriting),)])
def inherited_handler(x):
    top = x.max(dim=0)
    return x.cos().sum(), x.rows, type(top).__name__, top.values, top.indices, x.shape, x.T


@program(lambda: [(numbers().as_subclass(Off), numbers())] * 2)
def switched_off(x, y):
    return x.sin(), y + x, x[0], x.shape


@program(lambda: [(carrying(k=1), numbers()), (carrying(k=2), numbers())])
def with_plain_ones(x, y):
    return x + y, y + x, torch.stack([y, x]), torch.maximum(y, other=x)


@program(lambda: [(numbers().as_subclass(Answering),)] * 2)
def answered_otherwise(x):
    return torch.sum(x), x.sum(), x * 2, torch.mul(x, 2)


@program(lambda: [(numbers().as_subclass(Unwrapping),)] * 2)
def plain_results(x):
    return x + 1, x.clone(), x.to(torch.float64), x.mul_(2)


@program(lambda: [(carrying(2, 4, k=1),), (carrying(2, 4, k=2),)])
def functionals(x):
    return F.relu(x), F.softmax(x, dim=-1), F.linear(x, numbers(3, 4)), F.layer_norm(x, (4,)), F.pad(x, (1, 0))


@program(lambda: [(carrying(4, 2, k=1),), (carrying(6, 2, k=1),)])
def sequences(x):
    a, b = x.chunk(2)
    rows = x.unbind()
    return torch.cat([a, b]), rows[0], torch.stack(rows[:2]), x.split(2)


@program(lambda: [(carrying(2, 4, k=1),), (carrying(2, 4, k=2),)])
def chained(x):
    y = x.reshape(-1, 2).transpose(0, 1)
    y = y.contiguous().view(-1).clamp(min=1, max=3)
    y = y.softmax(0).log().exp()
    return y * y.meta["k"], y.mean().item() > 0


@program(lambda: [(tagged().requires_grad_(), numbers().requires_grad_())] * 2, backward=True)
def gradients(x, w):
    return (x * w).sin().sum(), x[1:] * 2


@program(lambda: [(numbers().as_subclass(Inheriting),)] * 2)
def with_handlers_off(x):
    with torch._C.DisableTorchFunctionSubclass():
        y = x + 1
        z = torch.sin(x)
    return y, z, y + x


@program(lambda: [(numbers().as_subclass(Logged), numbers())] * 2, state=lambda: list(LOG), setup=LOG.clear)
def asked_in_a_loop(x, y):
    for step in range(3):
        x = x * step + y
    return x


@program(lambda: [(tagged(tag="a"),), (tagged(tag="b"),)], state=lambda: Tagged.asked > 0)
def several_breaks(x):
    y = x * 2
    print(y.tag)
    z = y + 1
    return z, z.tag, isinstance(z, Tagged), isinstance(z, Carrying)
