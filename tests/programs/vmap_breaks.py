"""What cannot be in a graph inside torch.vmap: the whole call runs for real, and nothing of it before."""

import torch
from e2e.front import graph_break

from programs import program

CATEGORY = "vmap_breaks"

matrix = lambda t: (t(t.n, 3),)  # noqa: E731
two = lambda t: (t(t.n, 3), t(t.n, 3))  # noqa: E731


@program(CATEGORY, matrix, why="the random operation raises")
def random_refused(x):
    try:
        return torch.vmap(lambda row: row + torch.rand(3))(x)
    except RuntimeError as error:
        return "random" in str(error), x + 1


@program(CATEGORY, matrix, why="a break inside")
def break_inside(x):
    y = x * 2

    def f(row):
        a = row.sin()
        graph_break()
        return a + 1

    return torch.vmap(f)(y).sum(0)


@program(CATEGORY, matrix, why="reads the data")
def branch_inside(x):
    def f(row):
        return row if row.sum() > 0 else -row

    y = x.exp()
    try:
        return torch.vmap(f)(y)
    except RuntimeError as error:
        return "data-dependent" in str(error), y + 1


@program(CATEGORY, matrix, why="reads the data")
def item_inside(x):
    try:
        return torch.vmap(lambda row: row * row[0].item())(x)
    except RuntimeError as error:
        return "item" in str(error), x + 1


@program(CATEGORY, two, why="in-place arithmetic that vmap refuses")
def in_place_on_a_captured_tensor(x, y):
    total = torch.zeros(3)

    def f(row):
        total.add_(row)
        return row

    try:
        torch.vmap(f)(x)
    except RuntimeError as error:
        return "inplace" in str(error), y + total


@program(CATEGORY, lambda t: (t(t.n, 3), t(3, grad=True), t(t.n, 3)), why="a gradient comes in by a write")
def gradient_by_a_write_inside(x, w, y):
    z = x.clone()
    torch.vmap(lambda row: row.mul_(w))(z)
    return z.requires_grad, z + y


@program(CATEGORY, lambda t: (t(t.n, 3), []), why="a mapped tensor outlives the map")
def kept_beyond_it(x, log):
    kept = []

    def f(row):
        kept.append(row * 2)
        return row + 1

    y = torch.vmap(f)(x)
    log.append(len(kept))
    return y, kept[0].shape


@program(CATEGORY, matrix, why="torch.func.grad is not captured")
def with_grad_inside(x):
    def loss(row):
        return (row**2).sum()

    return torch.vmap(torch.func.grad(loss))(x * 1)
