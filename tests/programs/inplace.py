"""In-place methods, out= arguments, augmented assignment and aliasing."""

import torch

from programs import program


@program("inplace", lambda t: (t(), t()))
def methods(x, y):
    x.add_(y).mul_(2)
    x.clamp_(-1, 1)
    y.copy_(x)
    y.neg_()
    z = x.relu_()
    return z is x, x + y


@program("inplace", lambda t: (t(), t()))
def augmented(x, y):
    before = x
    x += y
    x *= 2
    y = y - 1
    y -= x
    n = 3
    n += 1
    return before is x, y, n


@program("inplace", lambda t: (t(), t(), torch.empty(0)))
def out_arguments(x, y, empty):
    target = torch.zeros_like(x)
    result = torch.add(x, y, out=target)
    torch.mul(x, 2, out=y)
    return result is target, target, y


@program("inplace", lambda t: (t(), torch.zeros(t.n)))
def out_argument_is_an_input(x, target):
    torch.sin(x, out=target)
    torch.cat([x[:2], x[2:]], out=target[:])
    return target + 1


@program("inplace", lambda t: (lambda x: (x, x))(t()))
def same_argument_twice(x, y):
    x.add_(1)
    return x is y, y * 2


@program("inplace", lambda t: (lambda x: (x, x[1:]))(t()))
def argument_and_its_view(x, view):
    x.mul_(2)
    view.add_(1)
    return x.sum(), view * 2


@program("inplace")
def order_of_reads_and_writes(x):
    a = x * 2
    x.add_(1)
    b = x * 2
    x[0] = 100
    return a, b, x.clone()


@program("inplace", lambda t: ({"w": t(), "b": t()}, 0.1))
def parameter_update(params, rate):
    with torch.no_grad():
        for p in params.values():
            p.sub_(p.sign() * rate)
    return sum(p.sum() for p in params.values())


@program("inplace", lambda t: (t(), []))
def buffers_in_a_list(x, out):
    buffer = torch.zeros(3, *x.shape)
    for i, row in enumerate(buffer):
        row.copy_(x + i)
        out.append(row)
    return buffer


class Running:
    def __init__(self, t):
        self.mean = t()
        self.count = torch.tensor(0)
        self.steps = 0


@program("inplace", lambda t: (t(), Running(t)))
def running_statistics(x, stats):
    stats.mean.lerp_(x, 0.1)
    stats.count += 1
    stats.steps += 1
    stats.last = x.clone()
    return (x - stats.mean) / stats.count


@program("inplace", lambda t: (t(),))
def fresh_tensors_written(x):
    acc = torch.zeros_like(x)
    for i in range(4):
        acc += x * i
    acc[0] = 0
    view = acc[1:]
    view.mul_(10)
    return acc, view


# Breaks: requires_grad_() that changes the flag.
@program("inplace", lambda t: (t(grad=True),), one_graph=False)
def metadata_changed(x):
    y = x.detach()
    y.requires_grad_()
    z = torch.ones(2, 3)
    z.t_()
    w = torch.ones(2)
    w.unsqueeze_(0)
    return y.requires_grad, z, w, x.requires_grad


@program("inplace", lambda t: (t(), t()))
def set_attributes_on_tensors(x, y):
    x.tag = "mine"
    z = x + y
    z.note = [1]
    return z, x.tag, hasattr(y, "tag")
