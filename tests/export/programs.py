"""Programs that are exported beside PyTorch's own front end."""

from __future__ import annotations

import collections
import functools
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from export.beside_torch import Program

PROGRAMS: dict[str, Program] = {}


def program(arguments: Any, dynamic_shapes: Any = None, sizes: Any = (), **more: Any) -> Any:
    def add(make: Any) -> Any:
        PROGRAMS[make.__name__] = Program(make, arguments, dynamic_shapes, sizes, **more)
        return make

    return add


def vector(n: int = 3) -> torch.Tensor:
    return torch.randn(n)


def rows(n: int = 4) -> torch.Tensor:
    return torch.randn(n, 3)


def two_rows(n: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(n, 3), torch.randn(n, 3)


class Buffered(nn.Module):
    mean: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.cache: Any = None
        self.history: list[Any] = []
        self.linear = nn.Linear(3, 3)
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("other", torch.ones(3), persistent=False)
        self.constant = torch.arange(3.0)


VARIES = {"x": {0: Dim("rows", min=2, max=64)}}
A = Dim.AUTO
AUTO = {"x": {0: Dim.AUTO}}
DYNAMIC = {"x": {0: Dim.DYNAMIC}}

# ---- arguments and results


@program(lambda: ((vector(),), {"d": {"u": vector()}, "k": 4, "names": ["p", "q"]}), loads=False)
class Keywords(nn.Module):
    def forward(self, x: Any, *, d: Any, k: int = 2, names: Any = (), flag: Any = None) -> Any:
        return {"a": x + d["u"] * k, "none": None, "x": x, "list": [len(names), x.sum()]}


@program(lambda: ([vector(), vector()], (vector(), 2.5, True, None)))
class Nested(nn.Module):
    def forward(self, xs: Any, rest: Any) -> Any:
        y, scale, flag, nothing = rest
        total = sum(xs) + y * scale
        return (total, [xs[0], {"flag": flag}], nothing if flag else total)


class Point(NamedTuple):
    x: Any
    y: Any


@program(lambda: (Point(vector(), vector()),), loads=False)
class Named(nn.Module):
    def forward(self, p: Point) -> Point:
        return Point(p.y + 1, p.x * 2)


@program(lambda: (collections.OrderedDict(b=vector(), a=vector()),))
class Ordered(nn.Module):
    def forward(self, d: Any) -> Any:
        return collections.OrderedDict((key, value * 2) for key, value in reversed(d.items()))


@program(lambda: (vector(), vector(), vector()))
class Variadic(nn.Module):
    def forward(self, *xs: Any, **more: Any) -> Any:
        return torch.stack(xs).sum(0), len(xs)


@program(lambda: ((vector(),), {"a": vector(), "b": vector()}))
class VariadicNames(nn.Module):
    def forward(self, x: Any, **more: Any) -> Any:
        return x + sum(more.values())


@program(vector)
class Same(nn.Module):
    def forward(self, x: Any) -> Any:
        return x


@program(vector, loads=False)
class NoTensor(nn.Module):
    def forward(self, x: Any) -> Any:
        return 3, "text", None


@program(vector)
class Twice(nn.Module):
    def forward(self, x: Any) -> Any:
        y = x * 2
        return y, y, [y]


@program(lambda: (vector(), vector()))
class Unused(nn.Module):
    def forward(self, x: Any, unused: Any) -> Any:
        return x * 2


@program(lambda: [vector(), vector()], differs="an argument that is changed as a container stays as it was")
class AppendsToArgument(nn.Module):
    def forward(self, *xs: Any) -> Any:
        ys = list(xs)
        ys.append(ys[0] + ys[-1])
        return ys


@program(lambda: ((vector(),), {}))
class Defaults(nn.Module):
    def forward(self, x: Any, scale: float = 2.0, mode: str = "sum", *, keep: bool = False) -> Any:
        return getattr(x, mode)(0, keepdim=keep) * scale


@program(lambda: (vector(), 3))
class Whole(nn.Module):
    def forward(self, x: Any, k: int) -> Any:
        return x * k, k + 1


@program(lambda: (torch.tensor([1, 2, 3]), torch.tensor([True, False, True]), torch.randn(3, dtype=torch.float64)))
class Kinds(nn.Module):
    def forward(self, i: Any, b: Any, d: Any) -> Any:
        return i.to(torch.float32) * 2, torch.where(b, d, -d), i[b.long()]


@program(lambda: (torch.randn(2, 3, requires_grad=True),))
class NeedsGradient(nn.Module):
    def forward(self, x: Any) -> Any:
        return x.sin(), x.detach() * 2


# ---- writes


@program(vector)
class WritesArgument(nn.Module):
    def forward(self, x: Any) -> Any:
        x.add_(1)
        return x * 2


@program(lambda: ([vector(), vector()],))
class WritesInList(nn.Module):
    def forward(self, xs: Any) -> Any:
        xs[0].mul_(2)
        xs[1][0] = 5.0
        return xs[0] + xs[1], xs[0]


@program(vector)
class WritesView(nn.Module):
    def forward(self, x: Any) -> Any:
        x[:2].zero_()
        return x + 1


@program(vector)
class WritesBuffer(Buffered):
    def forward(self, x: Any) -> Any:
        self.mean.add_(x)
        self.mean.mul_(0.5)
        self.other.add_(1)
        return x + self.mean + self.constant + self.other


@program(vector, differs="assigned buffers are lost")
class AssignsBuffer(Buffered):
    def forward(self, x: Any) -> Any:
        self.mean = self.mean + x
        return x + self.mean


@program(vector, differs="assigned buffers are lost")
class AssignsBufferAndReturnsTheOld(Buffered):
    def forward(self, x: Any) -> Any:
        old, part = self.mean, self.mean[1:]
        self.mean = old * 0.5 + x
        return old, part, self.mean


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("a", torch.zeros(3))
        self.register_buffer("b", torch.ones(3))


@program(vector, differs="assigned buffers are lost")
class SwapsBuffers(Pair):
    def forward(self, x: Any) -> Any:
        self.a, self.b = self.b, self.a
        return x + self.a


@program(vector, differs="assigned buffers are lost")
class AssignsArgument(Pair):
    def forward(self, x: Any) -> Any:
        self.a = x
        return self.a + self.b


@program(vector, differs="assigned buffers are lost")
class AssignsAndWrites(Pair):
    def forward(self, x: Any) -> Any:
        self.a.add_(x)
        self.a = self.a * 2
        self.a.add_(1)
        return self.a + 1


class Inner(Pair):
    def forward(self, x: Any) -> Any:
        self.a = self.a + x
        return self.a


@program(vector, differs="assigned buffers are lost")
class AssignsInSubmodule(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()

    def forward(self, x: Any) -> Any:
        return self.inner(x) + self.inner(x)


@program(rows, VARIES, (2, 7, 9))
class BatchNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x: Any) -> Any:
        return self.norm(x).relu()


@program(lambda n=2: (torch.randn(n, 3, 8, 8),), {"x": {0: Dim("batch", min=2, max=64)}}, (2, 9))
class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 3, stride=2), nn.BatchNorm2d(4)),
            *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)),
        )

    def forward(self, x: Any) -> Any:
        return self.layers(x)


@program(lambda n=4: (torch.randn(n, 4, 6, 6),), {"x": {0: Dim.AUTO}}, (2, 15, 16, 40))
class Transposed(nn.Module):
    """No kernel of this machine bounds the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(4, 4, 3), nn.ConvTranspose2d(4, 4, 3)

    def forward(self, x: Any) -> Any:
        return self.last(self.first(x).relu())


# ---- state


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(3, 3)
        self.b = nn.Linear(3, 3)
        self.b.weight = self.a.weight


@program(vector)
class TiedWeights(Tied):
    def forward(self, x: Any) -> Any:
        return self.b(self.a(x)), self.a.weight


@program(vector)
class TiedOtherwise(nn.Module):
    """The names are those by which the program comes to what has several."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.last = nn.Linear(3, 3, bias=False)
        self.last.weight = self.first.weight
        self.register_buffer("mean", torch.ones(3))
        self.alias, self.constant = self.mean, torch.ones(3)
        self.constant2 = self.constant

    def forward(self, x: Any) -> Any:
        return self.last(x) + self.first(x) + self.alias + self.constant2 + self.constant + self.mean


OUTSIDE = torch.ones(3)


@program(vector, names=False)
class Outside(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.listed, self.named = [torch.ones(3)], {"a b": torch.ones(3)}

    def forward(self, x: Any) -> Any:
        return x + OUTSIDE + self.listed[0] * self.named["a b"]


@program(vector)
class MadeInside(nn.Module):
    def forward(self, x: Any) -> Any:
        return x + torch.tensor([1.0, 2.0, 3.0]) + torch.arange(3)


@program(vector)
class Lists(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])
        self.named = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Tanh()})
        self.scales = nn.ParameterList([nn.Parameter(torch.ones(3)) for _ in range(2)])

    def forward(self, x: Any) -> Any:
        for layer, scale in zip(self.layers, [*self.scales, 1.0], strict=True):
            x = self.named["a" if layer is self.layers[0] else "b"](layer(x)) * scale
        return x


@program(vector)
class Hooked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.linear.register_forward_hook(lambda module, args, result: result * 2)
        self.linear.register_forward_pre_hook(lambda module, args: (args[0] + 1,))

    def forward(self, x: Any) -> Any:
        return self.linear(x)


@program(vector, names=False)
class Shared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(3, 3)
        self.b = self.a

    def forward(self, x: Any) -> Any:
        return self.b(self.a(x))


@program(vector)
class Regions(nn.Module):
    def forward(self, x: Any) -> Any:
        with torch.no_grad():
            y = x * 2
        with torch.autocast("cpu", dtype=torch.bfloat16):
            z = y[None] @ y[:, None]
        return y + 1, z


@program(vector)
class Dropout(nn.Module):
    def forward(self, x: Any) -> Any:
        return F.dropout(x, 0.5, self.training) + torch.rand(3)


@program(vector, differs="attributes are counted")
class Frozen(Buffered):
    def forward(self, x: Any) -> Any:
        return F.linear(x, self.linear.weight.detach()) + self.constant


# ---- sizes


@program(rows, VARIES, (2, 5, 64))
class Divides(nn.Module):
    def forward(self, x: Any) -> Any:
        return x / x.shape[0], x.sum(0, keepdim=True)


@program(rows, VARIES, (2, 5, 9))
class ReturnsSizes(nn.Module):
    def forward(self, x: Any) -> Any:
        return x + 1, x.shape[0], x.shape[0] * 2 + 1


@program(rows, AUTO, (3, 5, 9))
class Reshapes(nn.Module):
    def forward(self, x: Any) -> Any:
        n = x.size(0)
        return x.view(n * 3).reshape(3, n).t().contiguous()


@program(two_rows, {"x": {0: Dim.DYNAMIC}, "y": {0: Dim.DYNAMIC}}, (2, 9))
class MustBeEqual(nn.Module):
    def forward(self, x: Any, y: Any) -> Any:
        return x + y


N = Dim("n", min=2)


@program(two_rows, {"x": {0: N}, "y": {0: N}}, (2, 9))
class SaidEqual(nn.Module):
    def forward(self, x: Any, y: Any) -> Any:
        return torch.cat([x, y]), x * y


@program(lambda n=4: (torch.randn(n, 3), torch.randn(n + 1, 3)), {"x": {0: N}, "y": {0: N + 1}}, (2, 9))
class Derived(nn.Module):
    def forward(self, x: Any, y: Any) -> Any:
        return x + y[1:]


@program(rows, AUTO, (4,))
class Unrolled(nn.Module):
    def forward(self, x: Any) -> Any:
        for i in range(x.shape[0]):
            x = x + i
        return x


@program(lambda: (torch.randn(1, 3), torch.randn(4, 3)), {"x": {0: Dim.AUTO}, "y": {0: Dim.AUTO}})
class One(nn.Module):
    def forward(self, x: Any, y: Any) -> Any:
        return x + y


@program(rows, {"x": {0: Dim.AUTO, 1: Dim.AUTO}}, (2, 9))
class TwoOfOne(nn.Module):
    def forward(self, x: Any) -> Any:
        return x.t() @ x, x.transpose(0, 1).reshape(-1)


@program(lambda n=4: (vector(), n), {"x": None, "k": Dim.DYNAMIC}, (2, 9))
class IntVaries(nn.Module):
    def forward(self, x: Any, k: int) -> Any:
        return x * k, k, k + 1


@program(
    lambda n=4: ([torch.randn(n, 2), torch.randn(n, 2)], {"a": torch.randn(3, n)}),
    ([{0: Dim.AUTO}, {0: Dim.AUTO}], {"a": {1: Dim.AUTO}}),
    (2, 9),
)
class NestedVaries(nn.Module):
    def forward(self, xs: Any, d: Any) -> Any:
        return d["a"] @ (xs[0] + xs[1])


@program(rows, VARIES, (3, 8))
class Padded(nn.Module):
    def forward(self, x: Any) -> Any:
        return F.pad(x, (1, 1, 0, 2)), x.new_zeros(x.shape[0], 2), torch.arange(x.shape[0])


@program(rows, VARIES, (7, 8))
class Chunked(nn.Module):
    def forward(self, x: Any) -> Any:
        a, b = x.split([1, x.shape[0] - 1])
        return a * 2, b, x[1:-1]


@program(lambda n=8: (torch.randn(n, 2, 8),), {"x": {0: Dim("n", min=2, max=32)}}, (2, 16))
class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(self, x: Any) -> Any:
        n, b, c = x.shape
        q, k, v = self.qkv(x).view(n, b, 3, 2, 4).permute(2, 1, 3, 0, 4)
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, c)


@program(rows, AUTO, (4, 9))
class Fractions(nn.Module):
    def forward(self, x: Any) -> Any:
        n = x.shape[0]
        y = x * 2 if n / 2 > 1.5 else x
        return y[: int(n * 0.5)], x * max(n, 3)


@program(rows, VARIES, (2, 9), differs="it asks the tensor for its number of elements")
class Elements(nn.Module):
    def forward(self, x: Any) -> Any:
        return x.numel(), tuple(x.reshape(-1, 3, 1).size()), x * (x.numel() / 2)


@program(
    lambda n=4: (torch.randn(2, 3, n, n),), {"x": {2: Dim.AUTO, 3: Dim.AUTO}}, (4, 6), differs="it has other guards"
)
class Resized(nn.Module):
    def forward(self, x: Any) -> Any:
        return F.interpolate(x, scale_factor=2.0, mode="nearest"), F.avg_pool2d(x, 2)


@program(rows, VARIES, (2, 9))
class Asked(nn.Module):
    def forward(self, x: Any) -> Any:
        if torch.compiler.is_exporting() == torch.compiler.is_compiling():  # both, or neither when it runs eagerly
            return x + 1
        return x - 1


# ---- operators with bodies, and numbers out of data


@program(vector)
class Cond(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (x,))


@program(vector)
class CondOnState(Buffered):
    def forward(self, x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda v: self.linear.weight.detach() @ v, lambda v: v - self.mean, (x,))


@program(vector)
class WhileLoop(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch._higher_order_ops.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * 2), (torch.tensor(0), x))


@program(rows)
class Map(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch._higher_order_ops.map(lambda row, y: row.sin() + y, x, x[0] * 2)


@program(rows)
class Scan(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch._higher_order_ops.scan(lambda c, v: (c + v, c * 2), x[0], x, dim=0)


@program(vector, differs="it exports none")
class Checkpoint(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        return torch.utils.checkpoint.checkpoint(lambda v: self.linear(v).sin(), x, use_reentrant=False)


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2


@program(vector)
class OwnFunction(nn.Module):
    def forward(self, x: Any) -> Any:
        return Double.apply(x) + 1


@program(lambda: (torch.tensor([2, 3]),))
class Item(nn.Module):
    def forward(self, x: Any) -> Any:
        k = x.max().item()
        torch._check(k >= 0)
        torch._check(k <= 10)
        return torch.ones(3) * k, torch.zeros(k)


@program(lambda: (torch.tensor([0.0, 1.0, 2.0]),))
class Nonzero(nn.Module):
    def forward(self, x: Any) -> Any:
        return x.nonzero()


@program(lambda: (torch.tensor([0.0, 1.0, 2.0]),))
class Masked(nn.Module):
    def forward(self, x: Any) -> Any:
        return x[x > 0] * 2


# ---- Python


@program(vector, loads=False)
class Comprehensions(nn.Module):
    def forward(self, x: Any) -> Any:
        parts = [x * i for i in range(4) if i % 2]
        by_name = {f"part{i}": part for i, part in enumerate(parts)}
        return functools.reduce(torch.add, by_name.values()), sorted(by_name)


@program(vector, differs="a line is printed")
class Prints(nn.Module):
    def forward(self, x: Any) -> Any:
        print("line")
        return x + 1


@program(vector, differs="attributes are lost")
class StoresAttribute(Buffered):
    def forward(self, x: Any) -> Any:
        self.cache = x * 2
        self.history.append(x)
        return x + 1


@program(vector)
class Caught(nn.Module):
    def forward(self, x: Any) -> Any:
        try:
            return {"a": x}["b"]
        except KeyError:
            return x + 1


@program(vector)
class Asserts(nn.Module):
    def forward(self, x: Any) -> Any:
        assert x.shape[0] == 3, "three"
        return x + 1


@program(vector, differs="it refuses classes that are made in forward")
class Local(nn.Module):
    def forward(self, x: Any) -> Any:
        class Box:
            def __init__(self, value: Any) -> None:
                self.value = value

        box = Box(x)
        box.value = box.value + 1
        return box.value


# ---- operators


@program(lambda n=4: (torch.randn(n, 4), torch.randn(4, n)), {"x": {0: A}, "y": {1: A}}, (2, 9))
class Einsum(nn.Module):
    def forward(self, x: Any, y: Any) -> Any:
        return torch.einsum("ij,jk->ik", x, y)


@program(lambda n=4: (torch.randn(n, 3), torch.tensor([0, 1])), {"x": {0: A}, "i": None}, (2, 9))
class Indexes(nn.Module):
    def forward(self, x: Any, i: Any) -> Any:
        return x[i], x.index_select(0, i), torch.gather(x, 0, i[:, None].expand(-1, 3))


@program(rows, AUTO, (3, 9))
class WritesViews(nn.Module):
    def forward(self, x: Any) -> Any:
        y = x.clone()
        y[1:] += 1
        y.t().mul_(2)
        return y


@program(lambda: (torch.tensor([3]), torch.randn(6)))
class SlicesByData(nn.Module):
    def forward(self, n: Any, x: Any) -> Any:
        k = n.item()
        torch._check(k >= 0)
        torch._check(k <= x.shape[0])
        return x[:k].sum(), torch.arange(k)


@program(lambda: (torch.tensor([1, 2, 3]), torch.randn(6)), differs="it has one assertion less")
class SplitsByData(nn.Module):
    def forward(self, n: Any, x: Any) -> Any:
        a, b, c = n.tolist()
        for size in (a, b, c):
            torch._check(size >= 0)
        torch._check(a + b + c == 6)
        return torch.split(x, [a, b, c])


@program(rows, AUTO, (2, 9))
class Spreads(nn.Module):
    """A tensor without dimensions, also to sizes that are 1."""

    def forward(self, x: Any) -> Any:
        n, one = x.shape[0], x.sum()
        return one.expand(n, 1) + 1, one.expand(3, 1, n) * 2, torch.zeros(()).expand(n), one.expand(1, n, 1).sin()


@program(rows, VARIES, (3, 9))
class Rearranges(nn.Module):
    def forward(self, x: Any) -> Any:
        parts = x.repeat(2, 1), x.expand(3, -1, -1), torch.stack([x, x]).flatten(0, 1), x.unsqueeze(0).chunk(1)
        return parts, F.one_hot(torch.arange(x.shape[0]) % 3, 3), x.cumsum(0), x.std(0), F.layer_norm(x, (3,))


@program(rows, VARIES, (3, 9))
class Causal(nn.Module):
    def forward(self, x: Any) -> Any:
        n = torch.arange(x.shape[0])
        return torch.where(n[None] <= n[:, None], 0.0, -1.0) @ x


@program(lambda n=8: (torch.randn(2, 3, n, n),), {"x": {2: A, 3: A}}, (6, 10))
class Images(nn.Module):
    def forward(self, x: Any) -> Any:
        small = F.max_pool2d(F.conv2d(x, torch.ones(4, 3, 3, 3), padding=1), 2)
        return small, F.interpolate(x, size=(4, 4), mode="bilinear"), F.pad(x, (1, 1))


@program(rows)
class Mapped(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.vmap(lambda row: row.sin().sum())(x)


@program(rows, AUTO, (3, 9), differs="its sizes are operands of the operator")
class CondOnSizes(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda v: v.sin(), lambda v: v.cos() * v.shape[0], (x,))


@program(rows, VARIES, (2, 5, 9))
class CondOnASize(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.cond(x.shape[0] > 4, lambda v: v + 1, lambda v: v * 2, (x,))


@program(rows, AUTO, (2, 5, 9), differs="it asks the tensor for its number of elements")
class CondOnSizesInSizes(nn.Module):
    def forward(self, x: Any) -> Any:
        def small(v: Any) -> Any:
            return torch.cond(x.shape[0] * 2 < 6, lambda u: u.sin(), lambda u: u.cos(), (v,))

        return torch.cond(x.numel() // 3 >= 5, lambda v: v + 1, small, (x,))


@program(lambda n=4: (vector(), n), {"x": None, "k": Dim.DYNAMIC}, (2, 9))
class CondOnAnInt(nn.Module):
    def forward(self, x: Any, k: int) -> Any:
        return torch.cond(k > 3, lambda v: v + 1, lambda v: v - 1, (x,))


@program(rows, VARIES, (2, 9))
class CondOnWhatIsSaid(nn.Module):
    """The range decides it."""

    def forward(self, x: Any) -> Any:
        return torch.cond(x.shape[0] > 1, lambda v: v + 1, lambda v: v - 1, (x,))


@program(lambda n=4: (vector(), torch.tensor(n)), sizes=(2, 9))
class CondOnAnItem(nn.Module):
    def forward(self, x: Any, k: Any) -> Any:
        return torch.cond(k.item() > 3, lambda v: v + 1, lambda v: v - 1, (x,))


class Declared(nn.Module):
    scale: Any

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.tensor([2.0, 3.0, 4.0]))

    @torch._dynamo.assume_constant_result  # type: ignore[untyped-decorator]
    def number(self, y: Any, power: int = 1) -> Any:
        return int(y.sum().item()) ** power

    @torch._dynamo.assume_constant_result  # type: ignore[untyped-decorator]
    def table(self) -> Any:
        return torch.full((3,), self.scale.sum().item())


@program(lambda: (vector(), torch.tensor([1, 2])))
class DeclaredConstant(Declared):
    def forward(self, x: Any, y: Any) -> Any:
        return x * self.number(y) + self.number(y, power=2)


@program(vector, names=False)
class DeclaredTensor(Declared):
    def forward(self, x: Any) -> Any:
        return x + self.table()
