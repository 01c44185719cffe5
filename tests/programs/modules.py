"""nn.Module: calls, containers, sharing, what the user's class overrides, what forward takes and returns."""

import collections
import contextlib
import copy
import dataclasses
import functools
import typing

import torch
from e2e.front import compile
from torch import nn
from torch.nn.utils import parametrize

from programs import program


def mlp(t):
    return t.module(lambda: nn.Sequential(nn.Linear(t.n, 5), nn.ReLU(), nn.Linear(5, 3)))


class Block(nn.Module):
    """A layer with a residual and options."""

    def __init__(self, n, scale=2.0):
        super().__init__()
        self.inner = nn.Linear(n, n)
        self.scale = scale

    def forward(self, x, *, residual=True):
        y = self.inner(x).tanh() * self.scale
        return x + y if residual else y


def block(t):
    return t.module(lambda: Block(t.n))


# Calls.


@program("modules", lambda t: (mlp(t), t(2, t.n)), backward=True)
def sequential(net, x):
    return net(x)


@program("modules", lambda t: (mlp(t).eval(), t(2, t.n)))
def attributes_of_submodules(net, x):
    first = net[0]
    return first(x) @ first.weight, first.in_features, first.bias.shape, net.training, first.__class__ is nn.Linear


@program("modules", lambda t: (block(t), t(2, t.n)), backward=True)
def keywords_to_forward(net, x):
    return net(x), net(x, residual=False), net.forward(x=x)


class Variadic(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layer = nn.Linear(n, 2)

    def forward(self, *args, **kwargs):
        total = sum(self.layer(a) for a in args)
        for name, value in kwargs.items():
            total = total * value if name.startswith("times") else total + value
        return total


@program("modules", lambda t: (t.module(lambda: Variadic(t.n)), t(), t()))
def variadic_forward(net, x, y):
    return net(x), net(x, y, times=2), net(*[x, y], **{"plus": 1.0, "times_y": y[0]})


class Base(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layer = nn.Linear(n, n)

    def forward(self, x):
        return self.layer(x)

    def extra_repr(self):
        return "base"


class Derived(Base):
    def __init__(self, n):
        super().__init__(n)
        self.gate = nn.Linear(n, n)

    def forward(self, x):
        return super().forward(x) * torch.sigmoid(self.gate(x)) + super(Derived, self).forward(x.cos())

    def extra_repr(self):
        return super().extra_repr() + " derived"


@program("modules", lambda t: (t.module(lambda: Derived(t.n)), t(2, t.n)))
def super_forward(net, x):
    return net(x), net.extra_repr(), isinstance(net, Base), isinstance(net.layer, nn.Module)


class OwnCall(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layer = nn.Linear(n, 2)
        self.calls = 0

    def __call__(self, x, twice=False):
        self.calls += 1
        y = super().__call__(x)
        return y + super().__call__(x * 2) if twice else y

    def forward(self, x):
        return self.layer(x)


@program("modules", lambda t: (t.module(lambda: OwnCall(t.n)), t(2, t.n)))
def call_overridden(net, x):
    return net(x), net(x, twice=True)


def patched(t):
    net = block(t)
    net.forward = lambda x: net.inner(x) - 1
    return net


@program("modules", lambda t: (patched(t), t(2, t.n)))
def forward_patched_on_the_instance(net, x):
    return net(x) + Block.forward(net, x)


@program("modules", lambda t: (block(t), t(2, t.n)))
def forward_patched_inside(net, x):
    old = net.forward
    net.forward = lambda x: old(x, residual=False) * 2
    y = net(x)
    del net.forward
    return y, net(x)


class Returning(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layer = nn.Linear(n, n)
        self.seen = None

    def forward(self, x):
        self.seen = self.layer(x)
        return self


@program("modules", lambda t: (t.module(lambda: Returning(t.n)), t(2, t.n)))
def returns_itself(net, x):
    same = net(x)
    return same, same is net, same.seen + net(x * 2).seen


class Fallback(nn.Module):
    """Forwards names it lacks to its submodule."""

    def __init__(self, n):
        super().__init__()
        self.inner = nn.Linear(n, n)

    def __getattr__(self, name):
        if name == "virtual":
            return 3
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.inner, name)

    def forward(self, x):
        return self.inner(x) * self.virtual + self.weight.sum() + self.out_features


@program("modules", lambda t: (t.module(lambda: Fallback(t.n)), t(2, t.n)))
def getattr_overridden(net, x):
    return net(x), hasattr(net, "bias"), hasattr(net, "nothing"), getattr(net, "nowhere", 7)


@program("modules", lambda t: (mlp(t), t(2, t.n)))
def missing_attribute_of_a_module(net, x):
    try:
        net[0].nothing(x)
    except AttributeError as error:
        return x + 1, str(error)


@program("modules", lambda t: (t.module(lambda: [Block(t.n), Block(t.n, 3.0)]), t(2, t.n)))
def modules_as_arguments(nets, x):
    def apply(net, *inputs, times=1):
        for _ in range(times):
            inputs = [net(i) for i in inputs]
        return inputs

    return apply(nets[0], x, x + 1, times=2), apply(nets[1], x)


@program("modules", lambda t: (block(t), mlp(t), t(2, t.n)))
def module_as_key(a, b, x):
    names = {a: "a", b: "b"}
    counts = collections.Counter([a, b, a])
    return [net(x) * counts[net] for net in names], names[a], b in names, b[0] in names, {a, b, a} == {b, a}


@program("modules", lambda t: (mlp(t), t(2, t.n)), one_graph=False)
def compiled_inside(net, x):
    compiled = compile(net[0], backend="eager")
    return compiled(x) + 1


COMPILED = compile(nn.Sequential(nn.Tanh(), nn.ReLU()), backend="eager")
COMPILED_FUNCTION = compile(torch.relu, backend="eager")


@program("modules", lambda t: (mlp(t), t(2, t.n)))
def compiled_parts(net, x):
    return COMPILED(net(x)) + COMPILED_FUNCTION(net(x))


class Holder(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.first = Block(n)
        self.first.compile(backend="eager")
        self.second = nn.Linear(n, 2)

    def forward(self, x):
        return self.second(self.first(x))


@program("modules", lambda t: (t.module(lambda: Holder(t.n)), t(2, t.n)))
def submodule_compiled_in_place(net, x):
    return net(x)


# Containers.


@program("modules", lambda t: (mlp(t), t(2, t.n)))
def sequential_as_a_container(net, x):
    tail = net[1:]
    y = x
    for layer in net:
        y = layer(y)
    return y, tail(net[0](x)), net[-1](net[1](net[0](x))), len(net), len(tail), type(tail) is nn.Sequential


@program("modules", lambda t: (t.module(lambda: nn.ModuleList(Block(t.n, i) for i in range(4))), t(2, t.n)))
def module_list(layers, x):
    for i, layer in enumerate(layers):
        x = layer(x) * (i + 1)
    for layer in layers[1:3]:
        x = x + layer(x)
    x = x - layers[-1](x)
    for layer, scale in zip(reversed(layers), (1, 2), strict=False):
        x = layer(x) * scale
    return x, len(layers), layers[0] in layers, [layer.scale for layer in layers[::2]]


def branches(t):
    return t.module(lambda: nn.ModuleDict({"a": Block(t.n), "b": nn.Linear(t.n, t.n), "act": nn.GELU()}))


@program("modules", lambda t: (branches(t), t(2, t.n), "b"))
def module_dict(choices, x, name):
    y = choices[name](x) + choices["a"](x)
    for key, layer in choices.items():
        y = layer(y) if key != "b" else y
    for layer in choices.values():
        y = layer(y)
    return y, list(choices), list(choices.keys()), "a" in choices, "c" in choices, len(choices)


@program("modules", lambda t: (block(t), t(2, t.n)))
def containers_changed_in_forward(net, x):
    net.acts = nn.ModuleList([nn.ReLU()])
    net.acts.append(nn.Tanh())
    net.acts.insert(0, net.inner)
    net.acts.extend([nn.Sigmoid()])
    for act in net.acts:
        x = act(x)
    net.named = nn.ModuleDict({"relu": net.acts[1]})
    net.named["tanh"] = net.acts[2]
    net.named.update({"last": net.acts[3]})
    popped = net.named.pop("relu")
    return popped(x) + net.named["tanh"](x)


@program("modules", lambda t: (mlp(t), t(2, t.n)))
def sequential_changed_in_forward(net, x):
    net.append(nn.Tanh())
    net[1] = nn.Sigmoid()
    y = net(x)
    del net[-1]
    return y, net(x)


def parameter_list(t):
    return nn.ParameterList([nn.Parameter(t()) for _ in range(3)])


@program("modules", lambda t: (parameter_list(t), t()), backward=True)
def parameter_list_read(parameters, x):
    for i, p in enumerate(parameters):
        x = x * p + i
    return x + parameters[-1] * parameters[0], len(parameters), sum(p.sum() for p in parameters[1:])


def parameter_dict(t):
    return nn.ParameterDict({"scale": nn.Parameter(t()), "shift": nn.Parameter(t())})


@program("modules", lambda t: (parameter_dict(t), t()), backward=True)
def parameter_dict_read(parameters, x):
    y = x * parameters["scale"] + parameters.shift
    for name, p in parameters.items():
        y = y + p if name == "shift" else y - p
    return y, list(parameters.keys()), "scale" in parameters, len(parameters)


class Tree(nn.Module):
    def __init__(self, n, depth):
        super().__init__()
        self.here = nn.Linear(n, n)
        self.children_of = nn.ModuleList(Tree(n, depth - 1) for _ in range(2)) if depth else None

    def forward(self, x):
        x = self.here(x).relu()
        if self.children_of is not None:
            x = sum(child(x) for child in self.children_of)
        return x


@program("modules", lambda t: (t.module(lambda: Tree(t.n, 2)), t(2, t.n)))
def recursive_modules(tree, x):
    return tree(x)


# Sharing.


class Tied(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.embed = nn.Embedding(10, n)
        self.head = nn.Linear(n, 10, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        return self.head(self.embed(ids).cos())


@program("modules", lambda t: (t.module(lambda: Tied(t.n)), t.ints(3)), backward=True)
def tied_weights(net, ids):
    return net(ids), net.head.weight is net.embed.weight, len(list(net.parameters()))


def sharing(t):
    def make():
        shared = nn.Linear(t.n, t.n)
        return [nn.Sequential(shared, nn.ReLU()), nn.Sequential(nn.Tanh(), shared), shared]

    return t.module(make)


@program("modules", lambda t: (*sharing(t), t(2, t.n)), backward=True)
def shared_submodule(a, b, shared, x):
    return b(a(x)) + shared(x), a[0] is b[1], shared is a[0]


# What forward returns.


@dataclasses.dataclass
class Output:
    hidden: torch.Tensor
    extra: dict = dataclasses.field(default_factory=dict)


class Named(typing.NamedTuple):
    first: torch.Tensor
    rest: list


class Answering(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layer = nn.Linear(n, n)

    def forward(self, x, form):
        y = self.layer(x)
        if form == "dataclass":
            return Output(y, {"input": x})
        if form == "dict":
            return {"y": y, "nested": [{"x": x}, (y + 1, None)]}
        return Named(y, [x, 1, "text"])


@program("modules", lambda t: (t.module(lambda: Answering(t.n)), t(2, t.n)))
def structured_outputs(net, x):
    data, mapping, named = net(x, "dataclass"), net(x, form="dict"), net(x, "tuple")
    return data, mapping, named, data.hidden + mapping["nested"][1][0] + named.first


# Modes.


class Casting(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layer = nn.Linear(n, n)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.layer(x)
            with torch.autocast("cpu", enabled=False):
                z = self.layer(x)
        with torch.no_grad():
            w = self.layer(x)
        return y, z, w


@program("modules", lambda t: (t.module(lambda: Casting(t.n)), t(2, t.n)))
def autocast_in_forward(net, x):
    return net(x)


@program("modules", lambda t: (mlp(t), t(2, t.n)))
def modes_around_modules(net, x):
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        y = net(x)
    return y, net(x)


class Branching(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layer = nn.Linear(n, n)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        x = self.layer(x)
        return self.dropout(x) * 2 if self.training else x - 1


@program("modules", lambda t: (t.module(lambda: Branching(t.n)), t(2, t.n)))
def training_flag(net, x):
    y = net(x)
    net.eval()
    z = net(x)
    net.train()
    net.dropout.train(False)
    return y, z, net(x), net.training, net.dropout.training


@contextlib.contextmanager
def evaluating(net):
    was = net.training
    net.eval()
    try:
        yield net
    finally:
        net.train(was)


@program("modules", lambda t: (t.module(lambda: Branching(t.n)), t(2, t.n)))
def evaluated_for_a_while(net, x):
    with evaluating(net) as frozen:
        y = frozen(x)
    return y + net(x)


# Reading the tree.


@program("modules", lambda t: (t.module(lambda: Tree(t.n, 1)), t(2, t.n)))
def walks(tree, x):
    names = [name for name, _ in tree.named_parameters()]
    modules = [(name, type(m).__name__) for name, m in tree.named_modules()]
    total = sum(p.sum() for p in tree.parameters())
    children = [name for name, _ in tree.named_children()]
    kinds = [type(m).__name__ for m in tree.modules()]
    return tree(x) + total, names, modules, children, kinds, len(list(tree.children()))


@program("modules", lambda t: (t.module(lambda: nn.Sequential(nn.BatchNorm1d(t.n), nn.Linear(t.n, 2))), t(3, t.n)))
def state_dict_read(net, x):
    state = net.state_dict()
    buffers = {name: b for name, b in net.named_buffers()}
    return (
        x @ state["1.weight"].t() + state["0.running_mean"].sum(),
        list(state),
        list(buffers),
        len(list(net.buffers())),
    )


@program("modules", lambda t: (t.module(lambda: Tree(t.n, 1)), t(2, t.n)))
def submodules_by_name(tree, x):
    child = tree.get_submodule("children_of.1")
    weight = tree.get_parameter("here.weight")
    own = getattr(tree.children_of, "0")
    return child(x) + own(x) @ weight, child is tree.children_of[1], tree._modules["here"] is tree.here


def doubled(module):
    if isinstance(module, Block):
        module.scale *= 2


@program("modules", lambda t: (t.module(lambda: nn.Sequential(Block(t.n), Block(t.n))), t(2, t.n)), one_graph=False)
def applied(net, x):
    net.apply(doubled)
    net.requires_grad_(False)
    return net(x), [p.requires_grad for p in net.parameters()]


@program("modules", lambda t: (block(t), t(2, t.n)))
def functional_call(net, x):
    weights = {"inner.weight": torch.ones_like(net.inner.weight) * x[0, 0]}
    return torch.func.functional_call(net, weights, (x,), {"residual": False}), net(x)


class Doubled(nn.Module):
    def forward(self, weight):
        return weight * 2


@functools.cache
def parametrized_linear(n):
    return parametrize.register_parametrization(nn.Linear(n, 2), "weight", Doubled())


def parametrized(t):
    """A copy of one module: all copies share the class that was made for it."""
    return t.module(lambda: copy.deepcopy(parametrized_linear(t.n)))


@program("modules", lambda t: (parametrized(t), t(2, t.n)), backward=True)
def parametrization(net, x):
    with parametrize.cached():
        y = net(x) + net.weight.sum()
    return y + net(x), net.parametrizations.weight.original.shape
