"""torch.vmap: how it maps, and what its function may do."""

from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import nn

from programs import program

CATEGORY = "functorch"

matrix = lambda t: (t(t.n, 3),)  # noqa: E731
two = lambda t: (t(t.n, 3), t(t.n, 3))  # noqa: E731


@program(CATEGORY, two)
def mapped_over_two_arguments(x, y):
    return torch.vmap(torch.dot)(x, y)


@program(CATEGORY, lambda t: (t(t.n, 3), t(3), t(2, t.n)))
def in_dims_of_each_argument(x, y, z):
    def f(a, b, c):
        return a * b + c.sum()

    return torch.vmap(f, in_dims=(0, None, 1))(x, y, z), torch.vmap(f, in_dims=(-2, None, -1))(x, y, z)


@program(CATEGORY, lambda t: ({"x": t(t.n, 3), "y": [t(3), t(2, t.n)]},))
def in_dims_of_a_nested_argument(values):
    def f(values):
        return values["x"] @ values["y"][0] + values["y"][1]

    return torch.vmap(f, in_dims=({"x": 0, "y": [None, 1]},))(values)


@program(CATEGORY, two)
def out_dims(x, y):
    def f(a, b):
        return a * b, a.sum(), [b, a.new_zeros(2)]

    return torch.vmap(f, out_dims=(1, 0, [-1, 0]))(x, y)


@program(CATEGORY, matrix)
def nothing_mapped_in_the_output(x):
    shared = x.mean()
    return torch.vmap(lambda row: (row.sum(), shared, torch.ones(2)), out_dims=(0, None, 0))(x)


@program(CATEGORY, lambda t: (t(t.n, 3), t(5, 3)))
def nested(x, y):
    pairs = torch.vmap(torch.vmap(torch.dot, in_dims=(None, 0)), in_dims=(0, None))(x, y)
    inner_mapped = torch.vmap(
        lambda row: torch.vmap(lambda a, b: a * b + row.sum(), in_dims=(0, 0), out_dims=0)(row, row)
    )
    return pairs, inner_mapped(x)


@program(CATEGORY, lambda t: (t(3 * t.n, 2),))
def in_chunks(x):
    return torch.vmap(lambda row: row.softmax(0), chunk_size=4)(x), torch.func.vmap(torch.sum, chunk_size=1)(x)


@program(CATEGORY, lambda t: (t(t.n, 3), t(3, grad=True)), backward=True)
def gradients_through_it(x, w):
    return torch.vmap(lambda row: (row * w).tanh().sum())(x)


@program(CATEGORY, lambda t: (t(t.n, 3, grad=True), t(t.n, grad=True)), backward=True)
def gradients_of_what_is_mapped(x, y):
    return torch.vmap(lambda a, b: (a * b).exp(), in_dims=0, out_dims=1)(x, y)


@program(CATEGORY, lambda t: (t.module(lambda: nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.LayerNorm(4))), t(t.n, 3)))
def of_a_module(module, x):
    return torch.vmap(module)(x)


@program(CATEGORY, lambda t: ([t.module(lambda: nn.Linear(3, 2)) for _ in range(3)], t(t.n, 3)))
def ensemble(modules, x):
    weights = torch.stack([m.weight for m in modules])
    biases = torch.stack([m.bias for m in modules])
    return torch.vmap(F.linear, in_dims=(None, 0, 0))(x, weights, biases)


@program(CATEGORY, lambda t: (t(t.n, 3), t(3), []))
def closure_and_side_effects(x, scale, log):
    seen = {"calls": 0}

    def f(row):
        seen["calls"] += 1
        log.append(tuple(row.shape))
        return row * scale

    return torch.vmap(f)(x), torch.vmap(f, in_dims=1)(x.repeat(1, 1)[:3]), seen


@program(CATEGORY, two)
def in_place_on_what_is_mapped(x, y):
    def f(a, b):
        a.mul_(2)
        a[0] += b[1]
        return a

    result = torch.vmap(f)(x, y)
    return result, x


@program(CATEGORY, two)
def in_place_through_a_view(x, y):
    z = x.clone()
    mapped = torch.vmap(lambda a, b: a.t().add_(b).t(), in_dims=(1, 1), out_dims=1)(z, y)
    z.add_(1)
    return mapped, z


@program(CATEGORY, matrix)
def the_same_tensor_comes_out(x):
    same = torch.vmap(lambda row: row)(x)
    first, second = torch.vmap(lambda row: (row * 2,) * 2)(x)
    nested = torch.vmap(torch.vmap(lambda item: item.contiguous()))(x)
    moved = torch.vmap(lambda row: row, out_dims=1)(x)
    same.add_(1)
    return same is x, first is second, nested is x, moved is x, same, nested


@program(CATEGORY, matrix)
def shapes_and_kinds_inside(x):
    seen = []

    def f(row):
        seen.append(
            (row.shape, row.dim(), row.numel(), len(row), row.dtype, row.device, row.requires_grad, row.stride())
        )
        seen.append((row.is_contiguous(), row.is_leaf, type(row), isinstance(row, torch.Tensor), row.layout))
        return row.view(-1, 1).transpose(0, 1).expand(2, -1), [item * 2 for item in row]

    return torch.vmap(f)(x), seen


@program(CATEGORY, lambda t: (t(t.n, 3), torch.zeros(t.n, dtype=torch.long)))
def indexed_inside(x, index):
    return torch.vmap(lambda row, i: row.index_select(0, i.unsqueeze(0)).squeeze(0))(x, index), torch.vmap(
        lambda row: torch.where(row > 0, row, -row)
    )(x)


@program(CATEGORY, matrix)
def random_different(x):
    return torch.vmap(lambda row: F.dropout(row, 0.5) + torch.randn(3), randomness="different")(x)


@program(CATEGORY, matrix)
def random_same(x):
    return torch.vmap(lambda row: row + torch.rand(3), randomness="same")(x)


@program(CATEGORY, matrix)
def own_exception_inside(x):
    def f(row):
        if row.shape[0] > 2:
            raise KeyError("no such row")
        return row

    try:
        torch.vmap(f)(x)
    except KeyError as error:
        caught = error.args
    return caught, torch.vmap(torch.sum)(x)


@program(CATEGORY, lambda t: (t(t.n, 3), t(5)))
def sizes_that_do_not_fit(x, y):
    try:
        return torch.vmap(torch.add)(x, y)
    except ValueError as error:
        return str(error), x + 1


@program(CATEGORY, matrix, plain="it raises")
def argument_errors(x):
    messages = []
    for make in (
        lambda: torch.vmap(torch.sum, in_dims=[0])(x),
        lambda: torch.vmap(torch.sum, in_dims=4)(x),
        lambda: torch.vmap(torch.sum, randomness="none"),
        lambda: torch.vmap(torch.sum, chunk_size=0),
        lambda: torch.vmap(lambda row: 1)(x),
        lambda: torch.vmap(lambda row: row, out_dims=(0, 0))(x),
        lambda: torch.vmap(torch.sum)(3),
        lambda: torch.vmap(torch.sum)(),
    ):
        try:
            make()
        except ValueError as error:
            messages.append(str(error).splitlines()[0])
    return messages, x + 1


@program(CATEGORY, matrix)
def keyword_arguments(x):
    def f(row, *, scale=1.0, names=()):
        return {name: row * scale for name in names} | {"sum": row.sum()}

    return torch.vmap(f)(x, scale=x, names=("a", "b")), torch.vmap(lambda row: f(row, scale=2.0))(x)


@program(CATEGORY, lambda t: (OrderedDict(a=t(t.n, 2), b=t(t.n)),))
def mapped_dict_in_and_out(values):
    return torch.vmap(lambda v: OrderedDict((k, x * 2) for k, x in v.items()))(values)


_mapped_before = torch.vmap(lambda row, other: row @ other, in_dims=(0, None))


@program(CATEGORY, lambda t: (t(t.n, 3), t(3)))
def made_before(x, y):
    return _mapped_before(x, y)


@program(CATEGORY, matrix)
def what_it_returns_is_named(x):
    def doubled(row):
        """Twice."""
        return row * 2

    mapped = torch.vmap(doubled)
    return mapped.__name__, mapped.__doc__, mapped.__wrapped__ is doubled, mapped(x)


def halved(row: torch.Tensor) -> torch.Tensor:
    return row / 2


def thirds(row):
    return row / 3


def remade(scale):
    def scaled(row: torch.Tensor) -> torch.Tensor:
        return row * scale

    return scaled


@program(CATEGORY, lambda t: (t(t.n, 3), remade(3)), hits=False)
def of_functions_made_before(x, scaled):
    mapped = torch.vmap(halved)
    return mapped(x), torch.vmap(thirds)(x), torch.vmap(scaled)(x), mapped.__annotations__ is halved.__annotations__


@program(CATEGORY, matrix)
def modes_inside(x):
    def f(row):
        with torch.no_grad():
            a = row * 2
        with torch.autocast("cpu", dtype=torch.bfloat16):
            b = row.unsqueeze(0) @ row.unsqueeze(1)
        return a, b, torch.is_grad_enabled()

    def first_two(row):
        return f(row)[:2]

    return torch.vmap(first_two)(x)


@program(CATEGORY, lambda t: (t(t.n, 3), t(3)))
def in_place_on_a_tensor_outside(x, total):
    def f(row):
        total.add_(1)
        return row + total

    return torch.vmap(f)(x), total


@program(CATEGORY, matrix)
def empty(x):
    return torch.vmap(lambda row: row * 2)(x[:0]), torch.vmap(lambda item: item + 1, in_dims=1)(x[:0])


@program(CATEGORY, lambda t: (t(t.n, 3), t(t.n, 3).requires_grad_()))
def loops_and_maps(x, y):
    for scale in (1, 2):
        x = torch.vmap(lambda a, b, scale=scale: a * b.detach() * scale)(x, y)
    return x


@program(CATEGORY, lambda t: (t(t.n, 6),))
def scan_of_pairs(x):
    combine = torch.vmap(lambda left, right: {"a": left["a"] * right["a"], "b": left["a"] * right["b"] + right["b"]})
    state = combine({"a": x[:, 0], "b": x[:, 1]}, {"a": x[:, 2], "b": x[:, 3]})
    return combine(state, {"a": x[:, 4], "b": x[:, 5]})
