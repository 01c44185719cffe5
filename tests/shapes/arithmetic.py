"""Python arithmetic on sizes, questions about tensors, tensors made of sizes."""

import functools
import math

import torch
import torch.nn.functional as F

from shapes import EVERY_SIZE, Keywords, program


@program(lambda t, n: (t(n, 2),), limit=EVERY_SIZE, why="a floor of a square root has no expression")
def roots_of_sizes(x):
    k = math.floor(x.shape[0] ** 0.5)
    return x[: k * k].reshape(k, k, 2), k, math.isqrt(x.shape[0])


@program(lambda t, n: (t(n, 2),))
def rounded_sizes(x):
    n = x.shape[0]
    return x[: int(n * 0.75)], x[: math.ceil(n / 3)], x[: round(n * 0.5)], int(n / 4), math.floor(n / 7)


@program(lambda t, n, m: (t(n, m),))
def whole_numbers(x):
    n, m = x.shape
    quotient, rest = divmod(n, 4)
    return x * (n // 3) + n % 5, (quotient, rest, n**2, -n, n - m, +m, n * m, 7 // (n + 1), 100 % (m + 1))


@program(lambda t, n, m: (t(n, m),), limit=6, why="which is smaller, and the sign of a difference, may be guards")
def bounds_of_sizes(x):
    n, m = x.shape
    return x[: min(n, m), : max(n, m, 3)], abs(n - 7), min(n, 5, m), max(x.shape), x[: abs(n - m)]


@program(lambda t, n, m: (t(n, m),), limit=EVERY_SIZE, why="bits of a size have no expression")
def bits_of_sizes(x):
    n, m = x.shape
    padded = 1 << (n - 1).bit_length() if n > 1 else 1
    return F.pad(x, (0, 0, 0, padded - n)), n & 3, n | 1, n ^ m, n << 1, n >> 1, ~n


@program(lambda t, n: (t(n, 3),), backward=True)
def scaled_by_roots(x):
    n = x.shape[0]
    return x / math.sqrt(n + 1), x * (n + 1) ** -0.5, x.sum(0) / max(n, 1), x * (1.0 / (n + 2))


@program(lambda t, n: (t(n, 3),), limit=4, why="a division by zero raises")
def divided_by_a_size(x):
    return x * (1 / x.shape[0])


@program(lambda t, n, m: (t(2, n, m),))
def questions(x):
    shape = x.shape
    numbers = (sum(shape), math.prod(shape), x.numel(), len(x[0]), x.dim(), x.nbytes, x.element_size(), shape.numel())
    return x + 1, numbers, x.stride(), x.transpose(1, 2).is_contiguous(), x[:, 1:].storage_offset(), x.numel() == 0


@program(lambda t, n, m: (t(n, m),), limit=EVERY_SIZE, why="a common divisor has no expression")
def common_divisors(x):
    n, m = x.shape
    k = max(math.gcd(n, m), 1)
    return x.reshape(k, -1), k, math.lcm(n, m)


@program(lambda t, n: (t(n),))
def sizes_as_floats(x):
    n = x.shape[0]
    return x * (float(n) * 0.5), x + n / 3, n / 4 + 0.5, n * 1.5, -n / 2


@program(lambda t, n: (t(n),), limit=4, why="zero or not")
def truth_of_sizes(x):
    n = x.shape[0]
    return bool(n), (not n), x.sum() if n else x, n or "none", n and x + n, len(x) > 0 and x.numel() > 0


@program(lambda t, n, m: (t(n, m),))
def tensors_like(x):
    n, m = x.shape
    ones = torch.ones(x.shape[::-1])
    return torch.zeros(x.shape), x.new_full((n, m + 1), 3.0), ones @ x, torch.empty(n, 0), torch.full_like(x, 2)


@program(lambda t, n, m: (t(n, m),))
def tensors_of_sizes(x):
    n, m = x.shape
    grid = torch.meshgrid(torch.arange(n), torch.arange(m), indexing="ij")
    return torch.arange(n), torch.eye(n, m), torch.linspace(0, 1, n), grid[0] * m + grid[1], torch.full((m,), n)


@program(lambda t, n, m: (t(n, m),))
def ranges_of_sizes(x):
    n, m = x.shape
    return torch.arange(n - 1, -1, -1), torch.arange(0, 2 * n, 2), torch.arange(n, n + m), torch.arange(0.0, n / 2, 0.5)


@program(lambda t, n: (t(n),))
def sizes_in_tensors(x):
    n = x.shape[0]
    return torch.tensor(n), torch.tensor([n, n + 1, 2]), x.new_tensor(n / 2), torch.as_tensor(x.shape), x.sum() + n


@program(lambda t, n, m: (t.ints(m, n), t(n, m)), low=1)
def one_hot_rows(index, x):
    hot = F.one_hot(index, x.shape[1])
    return (hot * x).sum(1), hot.shape


@program(lambda t, n, m: (t.ints(m, n), t(n, 3), m), limit=4, why="the int 1", backward=True)
def scattered(index, x, buckets):
    y = torch.zeros(buckets, x.shape[1]).index_add(0, index, x)
    counts = torch.zeros(buckets, dtype=torch.long).scatter_add(0, index, torch.ones_like(index))
    return y / counts[:, None].clamp(min=1)


@program(lambda t, n, m: (t(n, m),), limit=5, why="no size may be under five for the first five")
def best_five(x):
    k = min(5, x.shape[1])
    values, index = x.topk(k, dim=1)
    return values, index, x.sort(0).values, k


@program(lambda t, n, m: (t(n, m), t(n, m)))
def sizes_in_pairs(x, y):
    same = all(a == b for a, b in zip(x.shape, y.shape, strict=True))
    sizes = list(map(lambda s: s + 1, x.shape))
    return torch.zeros(sizes), same, [i * s for i, s in enumerate(x.shape)], functools.reduce(lambda a, b: a * b, sizes)


@program(lambda t, n, m: (t(n, m, 2),))
def sizes_unpacked(x):
    rows, *rest = x.shape
    *front, last = x.size()
    return x.reshape(-1, *rest), x.new_zeros(*front, last + 1), rows, rest, [*x.shape, *rest], torch.Size([rows, 3])


@program(lambda t, n: (t.ints(9, n), t(n)))
def kinds_of_numbers(i, x):
    n = x.shape[0]
    return i * n, i * (n / 2), x.long() + n, (i + 0.5).dtype, i // 2 == n, x.double() * n, (x > 0) * n, i.half() / 3


@program(lambda t, n: (t(n, 2),), limit=4, why="more than ten rows, or not")
def dtype_by_size(x):
    return x.to(torch.float64 if x.shape[0] > 10 else torch.float16).sum(0), x.bfloat16()


@program(lambda t, n, m: (t(n, m), Keywords(groups=2)))
def of_keywords(x, *, groups=4, size=None):
    if size is None:
        size = x.shape[0] // groups
    return x[: size * groups].reshape(groups, size, x.shape[1]).sum(1), size


@program(lambda t, n, m: (t(n, m), n % 7), limit=4, why="the ints 0 and 1", backward=True)
def repeated(x, times):
    return x.repeat(times, 2), x.repeat_interleave(times, 0), x.expand(times, -1, -1), x.tile((1, times)), times * 2


@program(lambda t, n, m: (t(n * m, 3), n), limit=5, why="the ints 0 and 1; a view that does not fit raises")
def rows_of_a_given_number(x, k):
    return x.view(k, -1), x.shape[0] // k, x.roll(k, 0), x.reshape(-1, k)


@program(lambda t, n: (t(20, 2), n), limit=5, why="indices within and outside, and the int 0")
def indexed_by_an_int(x, i):
    return x[i] + x[-i], x[: i + 1], x[i:], i


@program(lambda t, n, m: (t(n, m),))
def sizes_in_a_closure(x):
    n = x.shape[0]

    def scaled(y, by=x.shape[1]):
        return y * n + by

    return scaled(x), scaled(x[: n // 2], 2), (lambda k: torch.zeros(n, k))(3)


@program(lambda t, n: (t(n, 2),), limit=8, why="the number of parts is a branch, at most six of them")
def parts_of_a_generator(x):
    def parts(size):
        start = 0
        while start < x.shape[0] and start < 6 * size:
            yield x[start : start + size]
            start += size

    return [part.sum(0) for part in parts(7)]
