"""Sizes in containers, attributes and results, ints that are positions, writes in place, inputs that share memory."""

import torch
import torch.nn.functional as F
from torch import nn

from shapes import EVERY_SIZE, Keywords, program


@program(lambda t, n, m: (t(n, m), []))
def logged(x, log):
    log.append(x.shape[0] // 2)
    log.append(tuple(x.shape))
    log.extend([x.shape[1] * 2, x.shape])
    return x.sum(0)


@program(lambda t, n: (t(n, 2), {}), limit=EVERY_SIZE, why="a key is hashed: the size is fixed")
def keyed(x, table):
    table[x.shape[0]] = x.sum()
    table["size"] = x.shape[0]
    return len(table)


@program(lambda t, n, m: (t(n, m),), limit=EVERY_SIZE, why="a text spells the size: it is fixed")
def spelt(x):
    return x + 1, f"{x.shape[0]}x{x.shape[1]}", str(x.shape), "%d" % x.shape[0], repr(x.size(1))


@program(lambda t, n: (t(n),), limit=EVERY_SIZE, why="a text spells the size: it is fixed")
def printed(x):
    y = x * 2
    print("rows:", x.shape[0])
    return y + 1


@program(lambda t, n, m: (t(n, m),))
def shapes_returned(x):
    shape = x.shape
    return {"rows": shape[0], "shape": shape, "list": list(shape)}, shape[1:], shape + (3,), x.size(-1), shape[::-1]


class Steps(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps, self.rows, self.longest, self.last = 0, 0, 0, None
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x):
        self.steps += 1
        self.rows += x.shape[0]
        self.longest = max(self.longest, x.shape[0])
        self.last = x.shape
        self.total += x.sum(0)
        return self.total / self.rows if self.rows else x


@program(
    lambda t, n: (t(n, 3),), limit=7, why="longer than ever or not; numbers that are 0; any rows or none", fresh=True
)
def steps_counted():
    return Steps()


class Sizes:
    __slots__ = ("seen", "sum")

    def __init__(self):
        self.seen, self.sum = [], 0


@program(lambda t, n: (t(n), Sizes()))
def sizes_kept_in_slots(x, sizes):
    sizes.seen.append(x.shape[0])
    sizes.sum += x.shape[0] * 2
    return x * sizes.sum


@program(lambda t, n, m: (t(n, m), {3, 8}), limit=EVERY_SIZE, why="a member of a set is hashed: the size is fixed")
def sizes_in_sets(x, known):
    if x.shape[0] in known:
        return x + 1
    known.add(x.shape[0])
    return x - 1


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(600, 4))
        self.position = 0

    def forward(self, x):
        end = self.position + x.shape[0]
        self.keys[self.position : end] = x
        self.position = end % 300
        keys = self.keys[:end]
        return (x @ keys.t()).softmax(-1) @ keys, keys.sum(0) / end if end else None


@program(lambda t, n: (t(n, 4),), limit=6, why="position 0 and 1; an end of zero", fresh=True)
def decoded_into_a_cache():
    return Decoder()


@program(lambda t, n, m: (torch.zeros(2, 200, 3), t(2, n, 3), m), limit=4, why="the int 0")
def window_written(cache, x, position):
    end = position + x.shape[1]
    cache[:, position:end] = x
    return cache[:, :end].sum(1), end


class GrowingCache(nn.Module):
    def __init__(self):
        super().__init__()
        self.keys = torch.zeros(2, 0, 4)

    def forward(self, x):
        self.keys = torch.cat([self.keys, x], 1)
        return F.scaled_dot_product_attention(x, self.keys, self.keys)


@program(lambda t, n: (t(2, n % 9, 4),), limit=5, why="an empty cache, a cache of the size of what comes", fresh=True)
def growing_cache():
    return GrowingCache()


@program(lambda t, n: (t(n, 3),))
def halves_written(x):
    k = x.shape[0] // 2
    x[:k] += 1
    x[k:].zero_()
    x[:, 0] = x.shape[0]
    return x.sum()


@program(lambda t, n: (t(n, n),))
def diagonal_written(x):
    i = torch.arange(x.shape[0])
    x[i, i] = 0
    x.fill_diagonal_(2) if x.shape[0] else None
    return x.sum(), x.diagonal()


@program(lambda t, n: (torch.zeros(30, 2), t(n, 2)), limit=5, why="rows that fit, one for all, an exception", high=64)
def copied_into_a_buffer(buffer, x):
    buffer[: x.shape[0]].copy_(x)
    buffer[-x.shape[0] :] *= 2
    return buffer


@program(lambda t, n, m: (t(n, m), t(n, m), torch.empty(2 * n, m)))
def written_to_out(x, y, out):
    torch.add(x, y, out=out[: x.shape[0]])
    torch.mul(x, y, out=out[x.shape[0] :])
    return out.sum(0)


@program(lambda t, n, m: (t(n, m),), limit=5, why="an input of another shape afterwards may end the segment twice")
def transposed_in_place(x):
    y = x.clone().unsqueeze_(0).squeeze_(0)
    x.t_()
    return x.shape, y.t_().stride(), x + 1


@program(lambda t, n: (lambda a, b: (a, a if n % 2 else b))(t(n, 2), t(n, 2)), limit=4, why="one tensor or two")
def maybe_the_same_twice(x, y):
    y.add_(1)
    return x * y, x is y


@program(lambda t, n, m: (lambda base: (base[:n], base[n:], base))(t(2 * n, m)))
def views_of_one_base(a, b, base):
    a.add_(1)
    b.mul_(a)
    return base.sum(), a.storage_offset(), b.storage_offset() - base.stride(0) * a.shape[0]


@program(lambda t, n, m: (lambda base: (base[:n], base[m : m + n]))(t(n + m)), limit=5, why="they overlap or not")
def views_that_may_overlap(a, b):
    a.mul_(2)
    b.add_(1)
    return a + b


@program(lambda t, n, m: (t(n, m),))
def input_returned(x):
    return x, x[: x.shape[0] // 2], x.view(-1), x.detach()


@program(lambda t, n, m: (t(n, m), Keywords(other=t(n, m), scale=n)), limit=4, why="the int 1")
def numbers_and_sizes(x, *, other, scale):
    if scale != x.shape[0]:
        raise ValueError("they are equal")
    return x * scale + other / (x.shape[0] + 1), scale * x.shape[1]


@program(lambda t, n: (t(n, 2), n % 5), limit=7, why="five numbers, 0 and 1 among them, or fewer")
def list_multiplied(x, times):
    sizes = [x.shape[0]] * times
    return sizes, torch.cat([x] * (times + 1)), sum(sizes)


@program(lambda t, n, m: ([t(k, 3) for k in (n, m, n + m)],))
def list_of_tensors(tensors):
    joined = torch.cat(tensors)
    sizes = [len(t) for t in tensors]
    tensors.append(joined.mean(0, keepdim=True))
    return joined.split(sizes), sizes


@program(lambda t, n, m: ({"x": t(n, 3), "mask": t(n, m) > 0},))
def dict_of_tensors(batch):
    batch["count"] = batch["mask"].sum(1)
    batch["size"] = batch["x"].size(0) * batch["mask"].size(1)
    return {k: v[: len(v) // 2] for k, v in batch.items() if k != "size"}


class Largest(nn.Module):
    def __init__(self):
        super().__init__()
        self.mask = torch.tril(torch.ones(4, 4))

    def forward(self, x):
        n = x.shape[0]
        if n > self.mask.shape[0]:
            self.mask = torch.tril(torch.ones(2 * n, 2 * n))
        return self.mask[:n, :n] @ x


@program(lambda t, n: (t(n, 3),), limit=6, why="the mask grows or not, from static and from dynamic", fresh=True)
def mask_that_grows():
    return Largest()


def counter():
    calls, rows = 0, []

    def call(x):
        nonlocal calls
        calls += 1
        rows.append(x.shape[0])
        del rows[:-2]
        return x * calls + rows[0]

    return call


@program(
    lambda t, n: (t(n),), limit=7, why="numbers in a cell and a list, 1 among them; a list of one or two", fresh=True
)
def calls_counted_in_a_cell():
    return counter()
