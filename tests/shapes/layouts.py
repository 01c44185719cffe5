"""Broadcasts, views, slices, joins and splits of tensors of varying sizes."""

import torch
import torch.nn.functional as F

from shapes import program


@program(lambda t, n: (t(n),), high=512)
def affine(x):
    return x * 2 + 1


@program(lambda t, n, m: (t(n, m), t(m)))
def rows_against_a_row(x, y):
    return torch.where(x > y, x, y) / (y.abs() + 1)


@program(lambda t, n, m: (t(n), t(m)), backward=True)
def outer(x, y):
    return x[:, None] * y[None] + (x.shape[0] - y.shape[0])


@program(lambda t, n, m: (t(n, m),), backward=True)
def one_number_spread(x):
    y = x.sum()
    return y.expand(x.shape[0], 1) * x, y.expand(3, 1, x.shape[1]) + 1


@program(
    lambda t, n, m: (t(n, m), t(1 if n % 3 == 0 else n, m)),
    limit=4,
    why="one row for all, or a row for each",
    backward=True,
)
def one_row_or_all(x, y):
    return x * y + y.mean(0)


@program(
    lambda t, n, m: (t(n, 2), t(n if n % 2 else m, 2)),
    limit=5,
    why="equal sizes, or an exception; equal ones may be a guard of the first dynamic capture",
)
def sum_that_may_not_fit(x, y):
    return x + y


@program(lambda t, n, m: (t(2 * n, m),))
def halves_added(x):
    return x.view(2, -1, x.shape[1]).sum(0)


@program(lambda t, n, m: (t(n, m, 12),), backward=True)
def heads(x):
    b, t, d = x.shape
    y = x.view(b, t, 4, d // 4).transpose(1, 2)
    return y, y.reshape(b * 4, t, d // 4).flatten(1)


@program(lambda t, n, m: (t(6 * n, m),))
def unflattened(x):
    y = x.unflatten(0, (-1, 6)).permute(2, 0, 1)
    return y.reshape(x.shape[1], -1), y.flatten(0, 1)


@program(lambda t, n, m: (t(2, n, m, 3),), high=64)
def windows_of_four(x):
    b, h, w, c = x.shape
    x = F.pad(x, (0, 0, 0, -w % 4, 0, -h % 4))
    high, wide = x.shape[1] // 4, x.shape[2] // 4
    y = x.roll((-2, -2), (1, 2)).view(b, high, 4, wide, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)
    y = y - y.mean(1, keepdim=True)
    y = y.view(b, high, wide, 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(b, high * 4, wide * 4, c)
    return y[:, :h, :w].contiguous()


@program(lambda t, n, m: (t(n, 1, m),))
def one_dim_moved(x):
    y = x.squeeze(1).unsqueeze(0).expand(3, -1, -1)
    return y, y.reshape(-1, x.shape[2])


@program(lambda t, n, m: (t(n, m),), limit=5, why="a size of one, in each place, gives another rank")
def all_ones_squeezed(x):
    y = x.squeeze()
    return y + y.dim()


@program(lambda t, n, m: (t(n, 2, 1, 3, m, 2, 2),), high=64)
def seven_dims(x):
    y = x.permute(4, 0, 6, 1, 2, 5, 3)
    return y.flatten(2), y[..., None].sum((0, 1)), x.stride(), x.shape[4] * x.shape[0]


@program(lambda t, n, m: (t(3, n, m),))
def rows_of_the_last_dim(x):
    return x.view(x.numel() // x.shape[-1], x.shape[-1]) * 2


@program(lambda t, n, m: (t.ints(1000, n, 2 * m).int(),))
def words_viewed_wider(x):
    y = x.view(torch.int64)
    return y, y.shape[1] * y.element_size() == x.shape[1] * x.element_size(), y.view(torch.uint8).shape


@program(lambda t, n, m: (t(n, m),))
def halves_swapped(x):
    k = x.shape[0] // 2
    return torch.cat([x[k:], x[:k]]), x[: x.shape[0] // 2].sum(0), x[-k:]


@program(
    lambda t, n, m: (t(n, m),), limit=4, why="a last column must be there; a size under three clamps", backward=True
)
def slices_with_steps(x):
    return x[::2], x[1::3], x[-3:], x[:, -1], x[2:-1, ::2], x[::2].shape[0] + x[1::3].shape[0]


@program(lambda t, n, m: (t(22, m), n % 9), limit=5, why="the number 0, the last part, and parts past the end")
def minibatches(x, i):
    batch = x[i * 3 : (i + 1) * 3]
    return batch.sum(0) / len(batch) if len(batch) else batch, batch.shape[0]


@program(lambda t, n, m: (t(n, m),))
def thirds_in_a_loop(x):
    k, parts = x.shape[0] // 3, []
    for i in range(3):
        parts.append(x[i * k : (i + 1) * k] * (i + 1))
    return parts, torch.cat(parts).shape


@program(lambda t, n, m: (t(n + m, 3), n // 2, m), limit=4, why="the ints 0 and 1")
def narrowed(x, start, length):
    y = x.narrow(0, start, length)
    return y * 2, y.shape[0] == length, x.shape[0] - start - length


@program(lambda t, n: (t(n, 3),))
def last_row_twice(x):
    return x[x.shape[0] - 1] + x[-1], x.select(0, x.size(0) // 2)


@program(lambda t, n, m: (t(n, m),), backward=True)
def rows_shifted(x):
    return torch.cat([x[1:], x[:1]]), torch.cat([x, x.flip(0), x[:2]], dim=0), torch.cat([x, x * 2], dim=1)


@program(lambda t, n, m: (t(n, m),))
def rows_interleaved(x):
    y = torch.stack([x, x.flip(0)], dim=1)
    return y.flatten(0, 1), y.unbind(1)[1], torch.stack((x.sum(0), x.mean(0)))


@program(lambda t, n, m: (t(3 * n, m),), backward=True)
def three_parts(x):
    a, b, c = x.split(x.shape[0] // 3)
    return a * b + c


@program(lambda t, n, m: (t(n, m),), limit=5, why="odd widths cannot be multiplied; a width of one is one chunk")
def two_chunks(x):
    a, b = x.chunk(2, dim=1)
    return a * b, b.shape[1]


@program(lambda t, n, m, k: (t(5, n + m + k), n, m), limit=5, why="ints of 0 and 1", backward=True)
def parts_of_given_sizes(x, a, b):
    q, k, v = x.split([a, b, x.shape[1] - a - b], dim=1)
    return q.sum(1) * k.sum(1), v, (q.shape[1], k.shape[1], v.shape[1])


@program(lambda t, n, m: (t(n, 3, m),))
def unbound(x):
    q, k, v = x.unbind(1)
    return (q * k).sum(-1, keepdim=True) * v


@program(lambda t, n, m: (t(n, m),), limit=5, why="the first parts may have one row more")
def uneven_parts(x):
    a, b, c = torch.tensor_split(x, 3)
    return a.sum(0), b + 1, c, a.shape[0] - c.shape[0]


@program(lambda t, n, m: (t(n, m).t(),))
def transposed_input(x):
    return x + 1, x.contiguous(), x.t() @ x, x.is_contiguous(), x.stride()


@program(lambda t, n, m: (t(1, m).expand(n, m),))
def expanded_input(x):
    return x + 1, x.sum(0), x.stride(0), x.reshape(-1), x.contiguous()


@program(lambda t, n, m: (t(n, 3, m, 5).to(memory_format=torch.channels_last),), limit=4, why="sizes of 1")
def channels_last_input(x):
    y = x * 2
    return y, y.is_contiguous(memory_format=torch.channels_last), x.is_contiguous(), x.stride(), y.mean((2, 3))


@program(lambda t, n, m: (t(n + 1, 2 * m)[1:, ::2],))
def every_second_column(x):
    return x.t(), x @ x.t(), x.storage_offset(), x.stride(), torch.as_strided(x, (x.shape[0],), (x.stride(0),))


@program(lambda t, n: (t(), t(n)))
def number_in_a_tensor(s, x):
    return s * x + s, s.shape, x.max() > s if x.shape[0] else s, s.expand(x.shape[0], 2)


@program(lambda t, n, m: (t(0, n), t(m, 0)))
def always_empty(x, y):
    return y @ x, x.sum(0), torch.cat([x, x]), x.reshape(-1).shape, y.mean()


@program(lambda t, n, m: (t(n, m), t(n, m).t()), limit=4, why="a sum of unlike strides takes those of either")
def strides_of_a_sum(x, y):
    z = x + y.t()
    return z, z.stride(), (y + 1).stride(), torch.empty_like(y).stride()


@program(lambda t, n: (t(n, 4, 3) if n % 2 else t(n, 4),), limit=5, why="two ranks")
def of_any_rank(x):
    return x.flatten(1).sum(1), x.movedim(0, -1), x.dim() * x.shape[0]
