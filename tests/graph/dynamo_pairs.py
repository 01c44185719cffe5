"""Functions, and the graphs gramme's capture of them shall build: PyTorch's own front end must give the same code."""

import collections
import functools
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from graph.binding import testing


class Pair(NamedTuple):
    name: str
    make: Callable[[], tuple[Any, tuple[Any, ...]]]  # a fresh callable and its arguments
    build: Callable[[Any, Any], None]  # fills a TestGraph; second: the callable


PAIRS: list[Pair] = []


def pair(make: Callable[[], tuple[Any, tuple[Any, ...]]]) -> Callable[[Callable[[Any, Any], None]], None]:
    def add(build: Callable[[Any, Any], None]) -> None:
        PAIRS.append(Pair(build.__name__, make, build))

    return add


def local(g: Any, name: str, example: Any = None) -> Any:
    return g.placeholder([("Local", name)], torch.ones(2, 2) if example is None else example)


def vector() -> torch.Tensor:
    return torch.ones(2, 2)


# ---- names of operators


def arithmetic_function(x: torch.Tensor, y: torch.Tensor) -> Any:
    return (x + y) * 2 + -x, x @ y, x**2, ~(x > 0), abs(y), x[:, None], x[..., 0]


@pair(lambda: (arithmetic_function, (vector(), vector())))
def arithmetic(g: Any, f: Any) -> None:
    x, y = local(g, "x"), local(g, "y")
    add = g.call(operator.add, x, y)
    mul = g.call(operator.mul, add, 2)
    neg = g.call(operator.neg, x)
    total = g.call(operator.add, mul, neg)
    matmul = g.call(operator.matmul, x, y)
    power = g.call(operator.pow, x, 2)
    inverted = g.call(operator.invert, g.call(operator.gt, x, 0))
    absolute = g.call(operator.abs, y)
    a = g.call(operator.getitem, x, (slice(None, None, None), None))
    b = g.call(operator.getitem, x, (Ellipsis, 0))
    g.output([total, matmul, power, inverted, absolute, a, b])


def variables_function(x: torch.Tensor) -> Any:
    a = x.sum()
    b = a + 1
    a = b * 2
    sum = torch.sum(x)
    add = x - 1
    c = d = x + 3
    return a + b, sum, add, c, d.mean()


@pair(lambda: (variables_function, (vector(),)))
def variables(g: Any, f: Any) -> None:
    x = local(g, "x")
    a = g.call("sum", x)
    g.hint(a, "a")
    b = g.call(operator.add, a, 1)
    g.hint(b, "b")
    a2 = g.call(operator.mul, b, 2)
    g.hint(a2, "a")
    s = g.call(torch.sum, x)
    g.hint(s, "sum")
    add = g.call(operator.sub, x, 1)
    g.hint(add, "add")
    c = g.call(operator.add, x, 3)
    g.hint(c, "c")
    g.hint(c, "d")
    last = g.call(operator.add, a2, b)
    mean = g.call("mean", c)
    g.output([last, s, add, c, mean])


def in_place_function(x: torch.Tensor, y: torch.Tensor) -> Any:
    x += 1
    x[0] = y[1]
    y.mul_(x)
    return x, y


@pair(lambda: (in_place_function, (vector(), vector())))
def in_place(g: Any, f: Any) -> None:
    x, y = local(g, "x"), local(g, "y")
    x2 = g.call(operator.iadd, x, 1)
    g.hint(x2, "x")
    item = g.call(operator.getitem, y, 1)
    g.call(operator.setitem, x2, 0, item)
    g.call("mul_", y, x2)
    g.output([x2])


def library_function(x: torch.Tensor, w: torch.Tensor) -> Any:
    h = F.linear(x, w)
    h = F.relu(h)
    h = torch.nn.functional.layer_norm(h, (2,))
    p = F.dropout(h, p=0.5, training=False)
    v, i = torch.max(p, dim=1)
    q = torch.cat([p, h], dim=-1).to(torch.float16)
    r = q.view(2, 2, 2).transpose(0, 1).reshape((4, -1))
    return torch.softmax(r, -1), v, torch.zeros(2, dtype=torch.int64), torch.where(h > 0, h, 0.0)


@pair(lambda: (library_function, (vector(), vector())))
def library(g: Any, f: Any) -> None:
    x, w = local(g, "x"), local(g, "w")
    h = g.call(torch._C._nn.linear, x, w)
    g.hint(h, "h")
    h = g.call(F.relu, h)
    g.hint(h, "h")
    h = g.call(F.layer_norm, h, (2,))
    g.hint(h, "h")
    p = g.call(F.dropout, h, p=0.5, training=False)
    g.hint(p, "p")
    m = g.call(torch.max, p, dim=1)
    v = g.call(operator.getitem, m, 0)
    i = g.call(operator.getitem, m, 1)
    g.hint(v, "v")
    g.hint(i, "i")
    g.pure(i)
    q = g.call("to", g.call(torch.cat, [p, h], dim=-1), torch.float16)
    g.hint(q, "q")
    r = g.call("reshape", g.call("transpose", g.call("view", q, 2, 2, 2), 0, 1), (4, -1))
    g.hint(r, "r")
    s = g.call(torch.softmax, r, -1)
    z = g.call(torch.zeros, 2, dtype=torch.int64)
    o = g.call(torch.where, g.call(operator.gt, h, 0), h, 0.0)
    g.output([s, v, z, o])


def dead_function(x: torch.Tensor) -> Any:
    a, b, c = x.split(1)[0].unbind(1)[0], x.relu(), x.t()
    return b


@pair(lambda: (dead_function, (vector(),)))
def unused_items(g: Any, f: Any) -> None:
    x = local(g, "x")
    split = g.call("split", x, 1)
    first = g.call(operator.getitem, split, 0)
    g.pure(g.call(operator.getitem, split, 1))
    unbind = g.call("unbind", first, 1)
    a = g.call(operator.getitem, unbind, 0)
    g.pure(g.call(operator.getitem, unbind, 1))
    b = g.call("relu", x)
    c = g.call("t", x)
    for node, name in [(c, "c"), (b, "b"), (a, "a")][::-1]:
        g.hint(node, name)
    g.pure(a)
    g.output([b])


# ---- names of inputs


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.l = nn.Linear(2, 2)
        self.seq = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        self.register_buffer("buf", torch.ones(2))
        self.plain = torch.ones(2)
        self.items = [torch.ones(2)]
        self.camelCase = nn.Parameter(torch.ones(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.seq(self.l(x)) + self.buf + self.plain + self.items[0] + self.camelCase


def module(*path: str) -> list[tuple[str, Any]]:
    """Attr _modules, Value l, … below self."""
    steps: list[tuple[str, Any]] = [("Local", "self")]
    for name in path:
        steps.append(("Attr", name) if name.startswith("_") else ("Value", name))
    return steps


@pair(lambda: (Network(), (vector(),)))
def network(g: Any, net: Any) -> None:
    w = g.placeholder(module("_modules", "l", "_parameters", "weight"), net.l.weight)
    b = g.placeholder(module("_modules", "l", "_parameters", "bias"), net.l.bias)
    x = local(g, "x")
    y = g.call(torch._C._nn.linear, x, w, b)
    w = g.placeholder(module("_modules", "seq", "_modules", "0", "_parameters", "weight"), net.seq[0].weight)
    b = g.placeholder(module("_modules", "seq", "_modules", "0", "_parameters", "bias"), net.seq[0].bias)
    y = g.call(torch._C._nn.linear, y, w, b)
    g.hint(y, "input")
    y = g.call(F.relu, y, inplace=False)
    g.hint(y, "input")
    for source, example in [
        (module("_buffers", "buf"), net.buf),
        ([("Local", "self"), ("Attr", "plain")], net.plain),
        ([("Local", "self"), ("Attr", "items"), ("Item", 0)], net.items[0]),
        (module("_parameters", "camelCase"), net.camelCase),
    ]:
        y = g.call(operator.add, y, g.placeholder(source, example))
    g.output([y])


def sum_of(g: Any, *sources: Any) -> None:
    total = g.placeholder(sources[0], vector())
    for source in sources[1:]:
        total = g.call(operator.add, total, g.placeholder(source, vector()))
    g.output([total])


W = vector()
LIST = [vector()]


def globals_function(x: torch.Tensor) -> torch.Tensor:
    return x + W + LIST[0]


@pair(lambda: (globals_function, (vector(),)))
def globals_(g: Any, f: Any) -> None:
    sum_of(g, [("Local", "x")], [("Global", "W")], [("Global", "LIST"), ("Item", 0)])


def closed() -> Callable[[torch.Tensor], torch.Tensor]:
    w, ws = vector(), [vector()]

    def f(x: torch.Tensor) -> torch.Tensor:
        return x + w + ws[0]

    return f


@pair(lambda: (closed(), (vector(),)))
def free_variables(g: Any, f: Any) -> None:
    sum_of(
        g,
        [("Local", "x")],
        [("Local", "w"), ("Contents", None)],
        [("Local", "ws"), ("Contents", None), ("Item", 0)],
    )


@pair(lambda: (lambda f, x: f(x), (closed(), vector())))
def closure_of_an_argument(g: Any, f: Any) -> None:
    cells = [("Local", "f"), ("Closure", 0), ("Contents", None)], [("Local", "f"), ("Closure", 1), ("Contents", None)]
    sum_of(g, [("Local", "x")], cells[0], [*cells[1], ("Item", 0)])


@pair(
    lambda: (
        lambda xs, d, t, q: xs[1] + d["k"] + d["a b"] + d[3] + t[0] + q[0],
        (
            [vector(), vector()],
            {"k": vector(), "a b": vector(), 3: vector()},
            (vector(),),
            collections.deque([vector()]),
        ),
    )
)
def containers(g: Any, f: Any) -> None:
    sum_of(
        g,
        [("Local", "xs"), ("Item", 1)],
        [("Local", "d"), ("Value", "k")],
        [("Local", "d"), ("Value", "a b")],
        [("Local", "d"), ("Value", 3)],
        [("Local", "t"), ("Item", 0)],
        [("Local", "q"), ("DequeItem", 0)],
    )


class Thing:
    __slots__ = ("q",)


def thing() -> Thing:
    result = Thing()
    result.q = vector()
    return result


def with_defaults(x: torch.Tensor, y: torch.Tensor = vector(), *, z: torch.Tensor = vector()) -> torch.Tensor:
    return x + y + z


@pair(
    lambda: (
        lambda s, m, p: s.q + m() + p(z=m.__self__.w),
        (thing(), Holder().get, functools.partial(with_defaults, W)),
    )
)
def objects(g: Any, f: Any) -> None:
    q = g.placeholder([("Local", "s"), ("Slot", "q")], vector())
    w = g.placeholder([("Local", "m"), ("MethodSelf", None), ("Attr", "w")], vector())
    first = g.call(operator.add, q, w)
    arg = g.placeholder([("Local", "p"), ("PartialArgs", None), ("Item", 0)], W)
    y = g.placeholder([("Local", "p"), ("PartialFunc", None), ("Defaults", None), ("Item", 0)], vector())
    total = g.call(operator.add, g.call(operator.add, arg, y), w)
    g.output([g.call(operator.add, first, total)])


class Holder:
    def __init__(self) -> None:
        self.w = vector()

    def get(self) -> torch.Tensor:
        return self.w


@pair(lambda: (lambda a, a_, d: a + a_ + d["x"] + d["x."], (vector(), vector(), {"x": vector(), "x.": vector()})))
def equal_names(g: Any, f: Any) -> None:
    sum_of(g, [("Local", "a")], [("Local", "a_")], [("Local", "d"), ("Value", "x")], [("Local", "d"), ("Value", "x.")])


def grad() -> torch.Tensor:
    x = vector().requires_grad_()
    x.grad = vector()
    return x


@pair(lambda: (lambda x: x.grad + 1, (grad(),)))
def gradient(g: Any, f: Any) -> None:
    g.output([g.call(operator.add, g.placeholder([("Local", "x"), ("Grad", None)], vector()), 1)])


def build(p: Pair, f: Any) -> Any:
    g = testing.TestGraph()
    p.build(g, f)
    g.finish()
    return g
