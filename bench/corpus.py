"""Programs on which gramme and PyTorch's own front end are compared. Each case gives (function, maker of arguments)."""

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.functional import linear

Case = Callable[[], tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]]

CAPTURE: dict[str, Case] = {}
HIT: dict[str, Case] = {}


def case(*tables: dict[str, Case]) -> Callable[[Case], Case]:
    def register(make: Case) -> Case:
        for table in tables:
            table[make.__name__] = make
        return make

    return register


ONES = torch.ones(4)
HUNDRED = tuple(torch.ones(4) for _ in range(100))
ROW = torch.randn(1, 10)
ROWS = torch.randn(2, 8)


@case(CAPTURE, HIT)
def x_plus_1():
    return (lambda x: x + 1), lambda: (ONES,)


@case(CAPTURE)
def add_loop():
    def f(a, b):
        for i in range(1000):
            a = a + i if i % 2 == 0 else a + b
        return a

    return f, lambda: (ONES, ONES.clone())


class Linears:
    """Twenty layers kept in lists, read in two ways; forward is a plain method."""

    def __init__(self):
        self.weights = [torch.randn(10, 10) for _ in range(20)]
        self.biases = [torch.randn(10) for _ in range(20)]

    def layer(self, i, x):
        return linear(x, self.weights[i], self.biases[i])

    def forward(self, x):
        for i in range(len(self.weights)):
            x = self.layer(i // 2, x) + self.layer(i, x)
        return x


@case(CAPTURE, HIT)
def list_of_linears():
    return Linears().forward, lambda: (ROW,)


class Block:
    def __init__(self, depth):
        self.left = Block(depth - 1) if depth else None
        self.right = Block(depth - 1) if depth else None
        self.weight = torch.randn(8, 8)
        self.scale = 0.5

    def __call__(self, x):
        if self.left is not None:
            x = self.right(self.left(x))
        return torch.relu(x @ self.weight) * self.scale


@case(CAPTURE, HIT)
def tree_of_blocks():
    block = Block(6)
    return (lambda x: block(x)), lambda: (ROWS,)


@case(CAPTURE)
def deep_calls():
    def g(x, d):
        return x + 1 if d == 0 else g(x, d - 1) * 2

    def f(x):
        for _ in range(20):
            x = g(x, 20)
        return x

    return f, lambda: (ONES,)


@case(CAPTURE)
def python_heavy():
    def f(x):
        table = {}
        for i in range(3000):
            table[i] = (i * 3, str(i))
        return x + sum(v[0] for v in table.values())

    return f, lambda: (ONES,)


@case(CAPTURE)
def effects():
    class State:
        def __init__(self):
            self.count, self.log, self.table = 0, [], {}

    def f(x, state):
        for i in range(200):
            state.count += 1
            state.log.append(x)
            state.table[i] = x
            x = x * 2 + i
        return x

    return f, lambda: (ONES, State())


@case(CAPTURE, HIT)
def args_100():
    return (lambda *xs: xs[0] + xs[-1]), lambda: HUNDRED


@case(CAPTURE, HIT)
def fresh_containers():
    """A list and a dict made anew for each call."""

    def f(d):
        return d["x"] + sum(d["ys"][1:], d["ys"][0])

    return f, lambda: ({"x": ONES, "ys": [ONES, ONES, ONES], "flags": (1, 2.0, "a")},)


@case(HIT)
def configuration():
    """An object with a nested dict and a hundred plain numbers that all count."""

    class Config:
        def __init__(self):
            self.options = {f"k{i}": i for i in range(100)}

    config = Config()
    return (lambda x: x + sum(config.options.values())), lambda: (ONES,)


def transformer(name: str, config: str, **sizes: Any) -> tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]:
    """A model with random weights from a small configuration, and a batch of one sentence."""
    import transformers

    model = getattr(transformers, name)(getattr(transformers, config)(vocab_size=100, use_cache=False, **sizes))
    return model.eval(), lambda: (SENTENCE,)


SENTENCE = torch.arange(16)[None]
SIZES = {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128}


@case(CAPTURE, HIT)
def bert():
    return transformer("BertModel", "BertConfig", num_hidden_layers=12, **SIZES)


@case(CAPTURE, HIT)
def gpt2():
    return transformer("GPT2LMHeadModel", "GPT2Config", n_embd=64, n_layer=12, n_head=4)


@case(CAPTURE, HIT)
def llama():
    return transformer("LlamaForCausalLM", "LlamaConfig", num_hidden_layers=16, **SIZES)


def chain(ops: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A function of `ops` additions, for the growth of capture time."""

    def f(a, b):
        for _ in range(ops // 2):
            a = a + b
            b = b * 0.5
        return a, b

    return f, (torch.ones(4), torch.ones(4))
