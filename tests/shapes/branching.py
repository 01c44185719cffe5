"""Branches on sizes, loops over them, exceptions at some of them."""

import torch
from torch import nn

from shapes import EVERY_SIZE, program

LOOP = "two captures with unrolled loops, then what is before, in and after the loop, each static and dynamic"


@program(lambda t, n: (t(n, 3),), limit=4, why="even or odd")
def even_or_odd(x):
    if x.shape[0] % 2 == 0:
        return x.view(2, -1, 3).sum(0)
    return x * 3


@program(lambda t, n: (t(n, 3),), limit=4, why="within or without")
def between_bounds(x):
    return x + 1 if 4 < x.shape[0] <= 20 else x - 1


@program(lambda t, n: (t(n, 3),), limit=7, why="five ranges of sizes, one of them zero", high=512)
def ranges_chained(x):
    n = x.shape[0]
    if n == 0:
        return x
    elif n < 5:
        y = x.sin()
    elif n == 17 or n == 18:
        y = x.cos()
    elif n >= 30:
        y = x.tan()
    else:
        y = x.exp()
    return y[: n // 2]


@program(lambda t, n, m: (t(n, 2), t(n if m % 2 else m, 2)), limit=5, why="equal or not, and which is larger")
def shapes_compared(x, y):
    if x.shape == y.shape:
        return x * y
    if x.shape[0] < y.shape[0]:
        return x + y[: x.shape[0]]
    return x[: y.shape[0]] - y


@program(lambda t, n: (t(n, 4),), limit=4, why="seven or not")
def compared_with_a_shape(x):
    return x + 1 if x.shape == torch.Size([7, 4]) or x.size() == (8, 4) else x.flip(0), x.shape != (7, 4)


@program(lambda t, n, m: (t(n, m),), limit=4, why="which is larger")
def sorted_sizes(x):
    small, large = sorted(x.shape)
    return x.reshape(small, large), large - small


@program(lambda t, n: (t(n),), limit=10, why="one for each power of two up to 127")
def folded_in_halves(x):
    while len(x) > 1:
        half = len(x) // 2
        x = x[:half] + x[half : 2 * half]
    return x


@program(lambda t, n, m: (t(n, m),), limit=6, why="a case for one row, one column, or others")
def matched(x):
    match x.shape:
        case (1, columns):
            return x * columns
        case (rows, 1):
            return x + rows
        case (rows, columns):
            return x[: rows // 2, : columns // 2]


@program(lambda t, n: (t(n, 3),), limit=4, why="the assertion holds or not", high=64)
def asserted(x):
    assert x.shape[0] <= 30, "too many rows"
    return x.softmax(0)


@program(lambda t, n, m: (t(n, m), t(m, n)), limit=6, why="a way into each handler, and one past them")
def exceptions_caught(x, y):
    try:
        if x.shape[0] > 25:
            raise KeyError(x.shape[0] - x.shape[0])
        return x[3] + y[3, 0]
    except IndexError:
        return x.sum() * 2
    except KeyError as error:
        return x.sum() - error.args[0]
    finally:
        x.mul_(2)


@program(lambda t, n: (t(n, 3),), limit=4, why="four rows are there or not")
def fourth_row(x):
    return x[3] * x.shape[0]


@program(lambda t, n, m: (t(n, m), n // 4), limit=5, why="which int is smaller; the ints 0 and 1")
def branches_on_numbers(x, k):
    if k * 2 > x.shape[1]:
        return x[k:] * k
    return x[:, k:] + k


@program(lambda t, n: (t(n, 3),), limit=9, why=LOOP, high=40)
def rows_one_by_one(x):
    total = x.sum()
    for i in range(x.shape[0] // 4):
        total = total * 0.5 + x[i].sin().sum() * x[-i].cos().mean()
    return total * 2


@program(lambda t, n: (t(n, 3),), limit=9, why=LOOP, high=40, backward=True)
def every_eighth_row(x):
    parts = []
    for i in range(0, x.shape[0], 8):
        parts.append(x[i : i + 8].softmax(0).sum(1))
    return torch.cat(parts) if parts else x


@program(lambda t, n: (t(n % 7, 2),), limit=9, why=LOOP)
def rows_iterated(x):
    state = torch.zeros(2)
    for row in x:
        state = (state + row).tanh()
    return state


@program(lambda t, n: (t(n, 3),), limit=7, why="the comprehension has none to three rows")
def rows_in_a_comprehension(x):
    rows = [x[i] * i for i in range(x.shape[0] % 4)]
    return torch.stack(rows) if rows else x.sum(0)


@program(lambda t, n: (t(n, 3),))
def layers_with_shifts(x):
    for i in range(4):
        x = x + x.roll(x.shape[0] // (i + 2), 0)
    return x


@program(lambda t, n: (t(n, 3),), limit=4, why="the loop ends at the third row or before")
def loop_with_an_end(x):
    for i in (0, 1, 2, 3):
        if i >= x.shape[0] or i == 3:
            break
        x = x * (i + 1)
    return x, i


class Depths(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            if x.shape[0] > 8 * (i + 1):
                x = layer(x)
        return x


@program(lambda t, n: (t(n, 4),), limit=6, why="none to three layers", fresh=True, backward=True)
def depth_by_size():
    return Depths()


@program(lambda t, n: (t(n, 3),), limit=EVERY_SIZE, why="a recursion over the size has no other end", high=40)
def recursive(x):
    return x.sum(0) if len(x) < 2 else recursive(x[: len(x) - 9]) + x[-1]
