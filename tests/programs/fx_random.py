"""Random streams: what a program draws, seeds and leaves behind in Python's, numpy's and torch's generators."""

import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from programs import program

CATEGORY = "fx_random"


@program(CATEGORY)
def draws_of_every_kind(x):
    return torch.rand(3), torch.randn_like(x), torch.randint(10, (4,)), x.bernoulli(0.5), torch.randperm(5)


@program(CATEGORY, lambda t: (t(), torch.zeros(t.n)))
def draws_in_place(x, buffer):
    x.normal_()
    buffer.uniform_(-1, 1)
    x.add_(torch.rand(x.shape))
    return buffer.exponential_(), x


@program(CATEGORY, lambda t: (t(grad=True),), backward=True)
def dropout_with_gradients(x):
    return F.dropout(x, 0.5) * F.dropout(x * 2, 0.25, training=True)


@program(CATEGORY)
def unused_draws_advance_the_stream(x):
    torch.rand(3)
    F.dropout(x, 0.5)
    return x + torch.rand(x.shape)


@program(CATEGORY, lambda t: (t(), []))
def draws_in_a_loop_kept_in_a_list(x, log):
    for _ in range(3):
        log.append(torch.randn(2))
        x = x + torch.rand(())
    return x


@program(CATEGORY, lambda t: (nn.Dropout(0.5), t()))
def dropout_module(dropout, x):
    a = dropout(x)
    dropout.p = 0.25
    return a, dropout(x)


@program(CATEGORY)
def seeded_at_the_end(x):
    y = F.dropout(x, 0.5)
    torch.manual_seed(4)
    return y


@program(CATEGORY, lambda t: (t(), []))
def seeded_and_state_written_down(x, log):
    y = x * torch.rand(())
    torch.manual_seed(11)
    log.append("seeded")
    return y


@program(CATEGORY, lambda t: (t.module(lambda: nn.Linear(3, 2)), t(t.n, 3)))
def parameters_initialised_at_random(module, x):
    nn.init.normal_(module.weight)
    nn.init.uniform_(module.bias)
    return module(x)


@program(CATEGORY, lambda t: (t.module(lambda: nn.Linear(3, 2)), t(t.n, 3)))
def parameters_reset(module, x):
    module.reset_parameters()
    return module(x)


@program(CATEGORY, lambda t: (t(), t()))
def random_choice_of_rows(x, y):
    index = torch.randperm(x.shape[0])[:2]
    noise = torch.empty(2).normal_(std=0.1)
    return x[index] + noise, torch.rand_like(y)


@program(CATEGORY, lambda t: (t(t.n, 4), t(4, 2)))
def draws_under_modes(x, w):
    with torch.no_grad():
        a = F.dropout(x, 0.5)
    with torch.autocast("cpu", torch.bfloat16):
        b = F.dropout(x @ w, 0.5)
    with torch.inference_mode():
        c = torch.rand(2)
    return a, b, c


@program(CATEGORY, lambda t: (t(2, 2, t.n, 4),))
def attention_with_dropout(x):
    a = F.scaled_dot_product_attention(x, x, x, dropout_p=0.5)
    return a, F.scaled_dot_product_attention(x, x, x, dropout_p=0.0), F.dropout1d(x[0], 0.5)


@program(CATEGORY, lambda t: (t(), torch.tensor([77])), plain="its graph raises")
def stream_put_back_when_the_lookup_fails(x, index):
    noise = torch.rand(2)
    try:
        y = x[index]
    except IndexError:
        y = torch.rand(2)
    return noise, y


@program(CATEGORY, lambda t: (t(), []))
def draws_depend_on_effects(x, log):
    for i in range(3):
        if i % 2:
            log.append(torch.randn(2))
        else:
            x = x + torch.rand(x.shape)
    return x, log[-1] + 1


@program(CATEGORY, lambda t: (torch.Generator().manual_seed(3), t()), why="a generator object in the call")
def generator_argument(generator, x):
    a = torch.rand(3, generator=generator)
    x.normal_(generator=generator)
    return a + torch.rand(3), x


@program(
    CATEGORY, lambda t: (random.Random(5), t()), why="Python's random runs for real", known="numpy's random stream"
)
def python_random_streams(own, x):
    a = random.random() + own.uniform(0, 1)
    row = [1, 2, 3, 4]
    random.shuffle(row)
    own.shuffle(row)
    return x * a, row, random.choice(row), own.getrandbits(8)


@program(
    CATEGORY,
    lambda t: (np.random.default_rng(3), t()),
    why="numpy's random runs for real",
    known="numpy's random stream",
)
def numpy_random_streams(rng, x):
    a = np.random.rand()
    b = rng.normal()
    row = np.random.permutation(3).tolist()
    return x * float(a) + float(b), row, int(rng.integers(10))


@program(CATEGORY, why="the state is read and put back for real")
def random_state_saved_and_put_back(x):
    state = torch.get_rng_state()
    a = torch.rand(3)
    torch.set_rng_state(state)
    b = torch.rand(3)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        c = torch.rand(3)
    return a - b, c, torch.rand(3), x + 1


@program(
    CATEGORY,
    lambda t: (np.random.RandomState(3), t(), []),
    why="numpy's random runs for real",
    known="numpy's random stream",
)
def numpy_random_seeded_between_effects(state, x, log):
    np.random.seed(5)
    log.append(float(np.random.uniform()))
    y = x * log[0]
    log.append(int(state.randint(100)))
    np.random.shuffle(log)
    return y + torch.rand(x.shape)
