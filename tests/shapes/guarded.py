"""Programs that would be wrong at some sizes if guards of one sort were left out."""

import torch

from shapes import program


@program(
    lambda t, n, m: (t(n, m) if n % 2 else t(m, n).t(),),
    limit=6,
    why="rows or columns lie together, each static and dynamic; sizes of 1",
)
def rows_or_columns_together(x):
    y = x.reshape(-1)
    y += 1
    return x, x.stride(), x.is_contiguous(), y.is_contiguous()


@program(
    lambda t, n, m: (t(n, m + n % 3)[:, :m],),
    limit=6,
    why="rows lie together or apart, each static and dynamic; sizes of 1",
)
def rows_apart(x):
    y = x.contiguous()
    y += 1
    return x, y, x.stride(), x.is_contiguous()


@program(lambda t, n, m: (t(n + 3, m)[n % 3 :],), limit=5, why="it begins at the front, near it, or further on")
def begun_further_on(x):
    k = x.storage_offset()
    return x * 2 if k > x.shape[1] else x - 1, k


@program(lambda t, n, m: (t(n, 4 * m)[:, :: 2 + n % 3],), limit=5, why="how far columns are apart; odd sizes")
def columns_apart(x):
    return x * 2 if x.stride(1) > 2 else x - 1, x.stride(1)


@program(lambda t, n, m: (t(n, m),), limit=5, why="all columns or some; one row")
def first_columns(x):
    y = x[:, : x.shape[1] - x.shape[0] % 2].contiguous()
    y += 1
    return x, y


@program(lambda t, n: (t(n),), limit=4, why="many or few")
def fraction_of_a_size(x):
    return x * 2 if x.shape[0] * 0.3 > 5.2 else x - 1


@program(lambda t, n: (t(n, 2), n % 9), limit=6, why="the ints 0 and 1; more than four or not")
def more_than_four(x, k):
    return x * k if k > 4 else x - k


@program(lambda t, n, m: (t(n, m),), limit=5, why="a multiple or not, for rows and columns")
def multiples(x):
    return x * 2 if x.shape[0] % 3 == 0 else x.sum(0), x.shape[1] // 2 > 6


@program(lambda t, n, m: (t(n, m), t(n if m % 2 else m, m)), limit=5, why="as many rows or not")
def as_many_rows(x, y):
    return x * 2 if x.shape[0] == y.shape[0] else y - 1


@program(lambda t, n, m: (t(n, m),), limit=5, why="a column of as many, or not")
def area_of_thirty(x):
    return x.sum(0) if x.shape[0] * x.shape[1] != 30 else x.sum(1)


@program(lambda t, n: (t(n, 3),), limit=4, why="seven or not")
def all_but_seven(x):
    return x + 1 if x.shape[0] != 7 else torch.zeros(3)
