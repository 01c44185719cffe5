"""More programs from the pages of torch.utils.data, distributions, random numbers and saving."""

import io

import torch
from torch import distributions, nn
from torch.utils import data

from documented import documented, x


@documented(
    "torch.utils.data.DataLoader: batches, drop_last, a generator of the caller; its state goes on; iterated twice",
    calls=lambda: (
        lambda g: [
            (x(5), 2, False, g),
            (x(5), 2, True, g),
            (x(4, 2), 3, False, None),
            (x(3), 0, False, None),
            (x(5), None, False, None),
            (x(0), 2, False, None),
        ]
    )(torch.Generator().manual_seed(1)),
)
def loaded_batches(t, size, drop, generator):
    loader = data.DataLoader(t, batch_size=size, shuffle=generator is not None, drop_last=drop, generator=generator)
    total = torch.zeros(())
    shapes = []
    for batch in loader:
        total = total + batch.sum()
        shapes.append(tuple(batch.shape))
    return total, shapes, len(loader), [b.shape[0] if b.ndim else 0 for b in loader]


@documented(
    "torch.utils.data: Subset, ConcatDataset, WeightedRandomSampler, random_split with fractions and a generator",
    calls=lambda: [
        (list(range(5)), [0.4, 0.6], 1),
        (list(range(7)), [0.5, 0.5], 2),
        (list(range(4)), [1, 3], 3),
        (list(range(4)), [1, 2], 3),
        (list(range(4)), [0.5, 0.6], 3),
    ],
)
def parts_of_data(items, lengths, seed):
    g = torch.Generator().manual_seed(seed)
    a, b = data.random_split(items, lengths, generator=g)
    both = data.ConcatDataset([a, data.Subset(items, [0, 1])])
    sampler = data.WeightedRandomSampler([0.1] * len(items), 3, generator=g)
    return (
        list(a.indices),
        [b[i] for i in range(len(b))],
        len(both),
        both[-1],
        list(sampler),
        torch.tensor(a.indices) * 2,
    )


@documented(
    "torch.distributions: kl_divergence, expand, batch_shape and event_shape, Independent, validate_args",
    calls=lambda: [
        (x(2), torch.ones(2), True),
        (x(3), torch.ones(()), True),
        (x(2), -torch.ones(2), True),
        (x(2), -torch.ones(2), False),
        (x(2, 1), torch.ones(3), True),
        (x(2).requires_grad_(), torch.ones(2), True),
    ],
)
def normals(mean, scale, validate):
    d = distributions.Normal(mean, scale, validate_args=validate)
    i = distributions.Independent(d, 1)
    kl = distributions.kl_divergence(d, distributions.Normal(0.0, 1.0))
    s = d.rsample()
    return (
        d.batch_shape,
        i.event_shape,
        kl,
        s.requires_grad,
        i.log_prob(d.mean),
        d.expand((2, *d.batch_shape)).batch_shape,
    )


@documented(
    "torch.distributions: Bernoulli and Categorical by logits or probs, not both; MixtureSameFamily, TransformedDistribution",
    calls=lambda: [
        (torch.tensor([0.2, 0.8]), None),
        (None, torch.tensor([0.0, 1.0])),
        (torch.tensor([0.5]), torch.tensor([0.5])),
        (torch.tensor([0.2, 1.8]), None),
        (torch.tensor([[0.5, 0.5], [0.1, 0.9]]), None),
    ],
)
def discrete(probs, logits):
    c = distributions.Categorical(probs=probs, logits=logits)
    b = distributions.Bernoulli(probs=probs, logits=logits)
    t = distributions.TransformedDistribution(distributions.Normal(0.0, 1.0), [distributions.transforms.ExpTransform()])
    return (
        c.probs,
        c.entropy(),
        b.logits,
        b.mean,
        c.sample((2,)).shape,
        t.log_prob(torch.tensor(1.0)),
        c.enumerate_support(),
    )


@documented(
    "torch.Generator: clone_state, graphsafe state, initial_seed; dropout and randn take the default one; seeds wrap",
    calls=lambda: (lambda g: [(g, 3), (g, -1), (g, None), (g, 2**64), (g, 7)])(torch.Generator()),
)
def generators(g, seed):
    if seed is not None:
        g.manual_seed(seed)
    a = torch.rand(2, generator=g)
    other = g.clone_state()
    b = torch.randint(0, 10, (2,), generator=g)
    c = torch.randint(0, 10, (2,), generator=other)
    return a, b, torch.equal(b, c), g.initial_seed(), torch.randn(1)


@documented(
    "torch.random: get_rng_state, set_rng_state, initial_seed, manual_seed return values; states are byte tensors",
    calls=lambda: [(1, 2), (1, 3), (-2, 2), (2, 0), (True, 1)],
)
def states_of_random(seed, n):
    g = torch.manual_seed(seed)
    state = torch.get_rng_state()
    a = torch.rand(n)
    torch.set_rng_state(state)
    b = torch.rand(n)
    return torch.equal(a, b), torch.initial_seed(), g is torch.default_generator, state.dtype, torch.rand(1)


@documented(
    "torch.save of modules and optimizers: round trip by state dicts; weights_only refuses other objects",
    calls=lambda: (lambda m: [(m, 1.0), (m, 2.0), (nn.Linear(2, 2), 3.0), (object(), 1.0), (m, 0.0)])(nn.Linear(2, 1)),
)
def saved_model(m, value):
    buffer = io.BytesIO()
    if isinstance(m, nn.Module):
        with torch.no_grad():
            m.bias.fill_(value)
        torch.save(m.state_dict(), buffer)
    else:
        torch.save({"limit": range(3)}, buffer)
    buffer.seek(0)
    state = torch.load(buffer, weights_only=True, map_location="cpu")
    return list(state), state["bias"], type(state).__name__, state["bias"].requires_grad


@documented(
    "torch.manual_seed inside the program and vmap-free Bernoulli: dropout in place; alpha and feature dropout",
    calls=lambda: [(x(2, 4), 0.5, 1), (x(2, 4), 0.5, 2), (x(1, 4), 1.0, 1), (x(2, 4), 0.0, 1), (x(2, 4), 1.5, 1)],
)
def dropped(t, p, seed):
    torch.manual_seed(seed)
    y = nn.functional.dropout(t, p, inplace=seed == 2)
    z = nn.functional.alpha_dropout(t, p, training=True)
    w = nn.functional.feature_dropout if hasattr(nn.functional, "feature_dropout") else nn.functional.dropout1d
    return y is t, y, z.shape, w(t, p), torch.rand(1)


@documented(
    "torch.Tensor.random_, geometric_, cauchy_, log_normal_, bernoulli_: in place, from a generator, within bounds",
    calls=lambda: (
        lambda g: [
            (torch.zeros(3), "random_", (5,), g),
            (torch.zeros(3), "random_", (2, 4), None),
            (torch.zeros(3), "bernoulli_", (0.5,), g),
            (torch.zeros(3), "geometric_", (1.5,), g),
            (torch.zeros(3), "random_", (4, 2), g),
            (torch.zeros(3, dtype=torch.int8), "random_", (300,), g),
            (torch.zeros(4).view(2, 2).t(), "log_normal_", (0.0, 1.0), g),
        ]
    )(torch.Generator().manual_seed(4)),
)
def drawn_in_place(t, name, args, generator):
    before = t._version
    y = getattr(t, name)(*args, generator=generator)
    return y is t, t._version - before, t + 0
