"""Programs from torch's pages on creating tensors, dtypes, random numbers and sampling."""

import torch

from documented import Between, documented
from documented.once import told_before


@documented(
    "torch.arange: a 1-D tensor of size ceil((end - start) / step); dtype inferred as int64 when all are integers",
    calls=lambda: [
        (0, 5, 1),
        (0, 5.0, 1),
        (1, 2.5, 0.5),
        (5, 0, -2),
        (0, 7, 3),
        (3, 3, 1),
        (0, 5, -1),
        (0, 4, 0),
        (0, 9, 2),
    ],
)
def arange_spans(start, end, step):
    row = torch.arange(start, end, step)
    half = row.shape[0] // 2
    return row, row.dtype, row[half:], [len(row), row.numel() * 2]


@documented(
    "torch.arange: end may be the value of a tensor; torch.Tensor.item returns a standard Python number",
    calls=lambda: [
        (torch.tensor([1.0, 3.0]),),
        (torch.tensor([2.0, 6.0]),),
        (torch.tensor([0.5, 2.5]),),
        (torch.tensor([0.0, 0.0]),),
    ],
)
def positions_up_to_the_maximum(lengths):
    steps = torch.arange(0.0, lengths.max().item())
    mask = steps[None, :] < lengths[:, None]
    return mask, mask.shape[1], steps.sum() / max(steps.shape[0], 1)


@documented(
    "torch.linspace, torch.logspace: steps points evenly spaced from start to end, inclusive; steps=1 gives start",
    calls=lambda: [(0, 1, 5), (0, 1, 3), (-2.0, 2.0, 4), (3, 10, 1), (3, 10, 0), (3, 10, -1), (0, 1, 6)],
)
def spaced(start, end, steps):
    even = torch.linspace(start, end, steps)
    logs = torch.logspace(start / 10, end / 10, steps=steps)
    return even, logs, even.diff(), list(even.shape)


@documented(
    "torch.full: dtype is inferred from fill_value (bool, int64, default float, complex)",
    calls=lambda: [
        ((2,), 1),
        ((2,), 1.0),
        ((2,), True),
        ((3,), 2),
        ((1, 2), 2j),
        ((2,), float("nan")),
        ((), 7),
        ((0, 3), 7),
    ],
)
def full_of_a_value(size, value):
    whole = torch.full(size, value)
    return whole, str(whole.dtype), whole + 1, whole.dim()


@documented(
    "torch.zeros: size may be a sequence of ints or a variable number of arguments; negative dimension raises",
    calls=lambda: [([], 1), ([], 2), ([], 3), ([], -1), ([], 4), ([], 0)],
)
def zeros_after_a_note(notes, n):
    notes.append(n)
    block = torch.zeros(n, n + 1)
    block[0, -1] = n
    notes.append(tuple(block.shape))
    return block, notes


@documented(
    "torch.zeros: the same list is kept by the caller; one entry a call, also when the size is refused",
    calls=lambda: (lambda log, x: [(log, x, 2), (log, x, 3), (log, x, -3), (log, x, 5), (log, x, -1), (log, x, 2)])(
        [], torch.ones(2)
    ),
)
def buffer_of_size(log, x, n):
    log.append(n)
    x.add_(n)
    return torch.cat([x, torch.zeros(n)])


@documented(
    "torch.eye, torch.tril_indices: n rows and optionally m columns; the lower triangle below an offset",
    calls=lambda: [(2, 2, 0), (3, 3, 0), (3, 4, 1), (3, 4, -1), (4, 2, 0), (1, 1, -1)],
)
def triangles(rows, columns, offset):
    square = torch.eye(rows, columns)
    where = torch.tril_indices(rows, columns, offset)
    square[where[0], where[1]] += 10
    return square, where.shape[1], torch.ones(rows, columns).triu(offset)


@documented(
    "torch.nn.functional.one_hot: num_classes must be greater than the largest class value; -1 infers it",
    calls=lambda: (
        lambda count: [
            (torch.tensor([0, 2]), 3, count),
            (torch.tensor([0, 2]), 4, count),
            (torch.tensor([0, 4]), -1, count),
            (torch.tensor([0, 7]), 5, count),
            (torch.tensor([1]), -1, count),
            (torch.tensor([-1]), 5, count),
            (torch.tensor([3]), 4, count),
        ]
    )(torch.zeros(())),
)
def one_hot_of_labels(labels, classes, count):
    count += len(labels)
    return torch.nn.functional.one_hot(labels, classes).float() * count


@documented(
    "torch.tensor: infers the dtype of data; always copies",
    calls=lambda: [
        ([1, 2],),
        ([1, 2.5],),
        ([True, False],),
        ([],),
        ([[1], [2]],),
        ([1, 2j],),
        ([1, [2]],),
        (3,),
        ("a",),
    ],
)
def tensor_of_data(data):
    made = torch.tensor(data)
    if isinstance(data, list) and data:
        data[0] = 5
    return made, made.dtype, made.shape, data


@documented(
    "torch.as_tensor, torch.from_numpy: share memory with the ndarray; modifications are reflected in both",
    calls=lambda: (lambda a, b: [(a, 1.0), (a, 2.0), (b, 3), (b, 300), (a, 4.0)])(
        torch.arange(4.0).numpy(), torch.arange(4, dtype=torch.uint8).numpy()
    ),
)
def tensor_over_an_array(array, value):
    shared = torch.from_numpy(array)
    shared[1] = value
    array[2] += 1
    copied = torch.tensor(array)
    copied[0] = 99
    again = torch.as_tensor(array)
    return (
        array.tolist(),
        shared.tolist(),
        copied,
        again.data_ptr() == shared.data_ptr(),
        (shared + 1).numpy().sum().item(),
    )


@documented(
    "torch.Tensor.numpy: the returned ndarray and the tensor share the same storage; tensors that require grad raise",
    calls=lambda: (lambda x: [(x, 1.0), (x, 2.5), (torch.ones(2, requires_grad=True), 1.0), (x, -1.0)])(torch.zeros(3)),
)
def array_under_a_tensor(x, value):
    x = x * 1 if x.requires_grad else x
    array = x.numpy()
    x.add_(value)
    array *= 2
    return x.sum() + float(array[0]), array.shape, array.dtype.name


@documented(
    "torch.set_default_dtype: the default dtype of new tensors and of the type inferred from Python floats",
    calls=lambda: [
        (2,),
        (3,),
        Between(lambda: torch.set_default_dtype(torch.float64)),
        (2,),
        (4,),
        Between(lambda: torch.set_default_dtype(torch.float32)),
        (2,),
        Between(lambda: torch.set_default_dtype(torch.bfloat16)),
        (2,),
        Between(lambda: torch.set_default_dtype(torch.float32)),
        (5,),
    ],
    setup=lambda: torch.set_default_dtype(torch.float32),
    state=lambda: str(torch.get_default_dtype()),
)
def of_default_dtype(n):
    return (
        torch.ones(n),
        torch.tensor(0.5),
        torch.arange(n) / 3,
        torch.get_default_dtype(),
        torch.ones(n, dtype=torch.int32) * 1.5,
    )


@documented(
    "torch.set_default_device: later creation functions allocate there; 'with torch.device(...)' does it for a block",
    calls=lambda: [
        (2,),
        Between(lambda: torch.set_default_device("meta")),
        (2,),
        (3,),
        Between(lambda: torch.set_default_device(None)),
        (3,),
        (2,),
    ],
    setup=lambda: torch.set_default_device(None),
)
def on_default_device(n):
    outside = torch.ones(n)
    with torch.device("meta"):
        inside = torch.zeros(n, n)
    return str(outside.device), str(inside.device), inside.shape, outside.is_meta


@documented(
    "torch.manual_seed, torch.rand: the same seed yields the same numbers; a call continues the stream",
    calls=lambda: [(3, None), (3, 7), (2, None), (4, 7), (4, 8), (0, None), (3, None), (3, -5)],
)
def random_with_seeds(n, seed):
    if seed is not None:
        torch.manual_seed(seed)
    first = torch.rand(n)
    second = torch.randn(n, 2)
    return first, second, torch.randint(0, 10, (n,)), torch.initial_seed() if seed is not None else None


@documented(
    "torch.Generator: manages the state of the algorithm; get_state and set_state save and restore it",
    calls=lambda: (
        lambda g: [
            (g, 3),
            (g, 3),
            (g, 2),
            Between(lambda: g.manual_seed(5)),
            (g, 3),
            Between(lambda: g.manual_seed(5)),
            (g, 3),
        ]
    )(torch.Generator().manual_seed(3)),
)
def own_generator(generator, n):
    before = generator.get_state()
    drawn = torch.rand(n, generator=generator)
    generator.set_state(before)
    again = torch.rand(n, generator=generator)
    return drawn, again, torch.equal(drawn, again), torch.normal(0.0, 1.0, (n,), generator=generator)


@documented(
    "torch.randperm: a random permutation of integers from 0 to n - 1",
    calls=lambda: [
        (torch.arange(12.0), 5),
        (torch.arange(12.0), 7),
        (torch.arange(9.0), 4),
        (torch.arange(3.0), 4),
        (torch.arange(0.0), 4),
    ],
)
def shuffled_batches(data, size):
    order = torch.randperm(len(data))
    batches = [data[order[i : i + size]] for i in range(0, len(data), size)]
    return batches, [len(b) for b in batches], order.sort().values


@documented(
    "torch.bernoulli, torch.multinomial: probabilities outside [0, 1] and too many samples without replacement raise",
    calls=lambda: (
        lambda total: [
            (total, torch.tensor([0.2, 0.8, 0.5]), 2),
            (total, torch.tensor([0.2, 0.8, 0.5]), 3),
            (total, torch.tensor([0.2, 0.8, 0.5]), 4),
            (total, torch.tensor([0.2, 1.8, 0.5]), 2),
            (total, torch.tensor([0.0, 0.0, 0.0]), 1),
            (total, torch.tensor([0.2, 0.8, 0.5]), 1),
        ]
    )(torch.zeros(3)),
)
def samples_of_probabilities(total, p, k):
    total.add_(p)
    chosen = torch.multinomial(p, k)
    total.mul_(2)
    coins = torch.bernoulli(p)
    return chosen, coins, total.sum()


@documented(
    "torch.Tensor.uniform_, normal_, exponential_: from > to raises, std < 0 raises; in place",
    calls=lambda: (
        lambda x: [(x, 0.0, 1.0), (x, 0.0, 2.0), (x, 2.0, 1.0), (x, 1.0, 1.5), (x, 0.0, -1.0), (x, -1.0, 1.0)]
    )(torch.zeros(3)),
)
def filled_at_random(x, low, high):
    x.add_(1)
    x.uniform_(low, high)
    noise = torch.empty(2).normal_(low, high)
    return x.clone(), noise, torch.empty(2).exponential_(high + 3)


@documented(
    "torch.random.fork_rng: forks the RNG so that when you return it is reset to the state it was in previously",
    calls=lambda: [(1,), (2,), (2,), (3,)],
)
def forked_random(n):
    before = torch.rand(n)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(n)
        within = torch.rand(n)
    return before, within, torch.rand(n)


@documented(
    "torch.distributions: sample() draws, log_prob scores; ValueError for parameters out of support",
    calls=lambda: [
        (torch.tensor([0.0, 1.0]), torch.tensor([1.0, 2.0])),
        (torch.tensor([0.5, 1.0]), torch.tensor([1.0, 0.5])),
        (torch.tensor([0.5, 1.0]), torch.tensor([1.0, -0.5])),
        (torch.tensor([0.5, 1.0, 2.0]), torch.tensor(1.0)),
        (torch.tensor([0.5]), torch.tensor([3.0])),
    ],
)
def normal_distribution(mean, scale):
    d = torch.distributions.Normal(mean, scale)
    drawn = d.sample((2,))
    return drawn, d.log_prob(drawn), d.batch_shape, d.entropy().sum(), repr(d)


@documented(
    "torch.distributions.Categorical: probs are normalised; rsample of Normal lets gradients through, sample does not",
    calls=lambda: [
        (torch.tensor([1.0, 1.0, 2.0], requires_grad=True), 3),
        (torch.tensor([1.0, 1.0, 2.0], requires_grad=True), 1),
        (torch.tensor([1.0, 0.0], requires_grad=True), 2),
        (torch.tensor([1.0, 5.0, 2.0, 1.0]), 2),
    ],
)
def policy_gradient(weights, n):
    d = torch.distributions.Categorical(probs=weights)
    action = d.sample((n,))
    loss = -(d.log_prob(action) * torch.arange(1.0, n + 1)).mean()
    if loss.requires_grad:
        loss.backward()
    return action, loss, weights.grad, d.probs.requires_grad


@documented(
    "torch.Tensor.to: if the tensor already has the dtype, self is returned; otherwise a copy",
    calls=lambda: [
        (torch.ones(2), torch.float32, False),
        (torch.ones(2), torch.float64, False),
        (torch.ones(2), torch.float32, True),
        (torch.tensor([1.9, -1.9]), torch.int32, False),
        (torch.tensor([300.0, 2.0]), torch.uint8, False),
        (torch.tensor([1 + 2j]), torch.float32, False),
        (torch.tensor([0.0, float("nan")]), torch.bool, False),
    ],
    setup=lambda: told_before(lambda: torch.tensor([1j]).to(torch.float32)),
)
def converted(x, dtype, copy):
    y = x.to(dtype, copy=copy)
    same = y is x
    y.mul_(2) if y.dtype != torch.bool else y.logical_not_()
    return y, same, x, x.type_as(y).dtype


@documented(
    "torch.repeat_interleave: repeats per element, the output size is the sum of repeats",
    calls=lambda: [
        (torch.tensor([1, 2]),),
        (torch.tensor([2, 2]),),
        (torch.tensor([0, 3]),),
        (torch.tensor([1, 1, 4]),),
        (torch.tensor([-1, 1]),),
    ],
)
def repeated(counts):
    ids = torch.repeat_interleave(counts)
    rows = torch.arange(float(len(counts))).repeat_interleave(counts)
    return ids, rows, rows.shape[0], rows.repeat(2, len(counts))


@documented(
    "torch.empty / Tensor.new_*: a huge request raises RuntimeError from the allocator, what was written before stays",
    calls=lambda: (lambda x: [(x, 2), (x, 3), (x, 1 << 50), (x, 4), (x, 1 << 61), (x, 2)])(torch.zeros(2)),
)
def scratch_after_a_count(x, n):
    x += 1
    try:
        scratch = x.new_zeros(n)
    except RuntimeError as error:
        return type(error).__name__, x.clone()
    return scratch.sum() + x


@documented(
    "torch.meshgrid / torch.cartesian_prod: grids of the coordinates of 1-D inputs whose lengths change",
    calls=lambda: [(2, 3), (3, 2), (1, 4), (4, 0), (5, 5)],
)
def coordinates(height, width):
    ys, xs = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    flat = ys * width + xs
    return flat, flat.reshape(-1)[-2:], torch.cartesian_prod(torch.arange(height), torch.arange(2))


@documented(
    "torch.hann_window / torch.bartlett_window: window_length controls the returned size; periodic or symmetric",
    calls=lambda: [(4, True), (5, True), (5, False), (1, False), (0, True), (6, True), (-1, True)],
)
def windowed(n, periodic):
    window = torch.hann_window(n, periodic=periodic)
    return window * torch.arange(n), torch.bartlett_window(n, periodic).flip(0), window.shape
