"""What a module's forward writes: attributes, buffers, parameters, submodules; modules made inside; inputs in place."""

import collections
import weakref

import torch
from torch import nn

from programs import program


class Counting(nn.Module):
    """A counter, a cache, a list and a tensor, written in each call."""

    total: int = 0

    def __init__(self, n):
        super().__init__()
        self.layer = nn.Linear(n, n)
        self.calls = 0
        self.cache = {}
        self.log = []
        self.last = None
        self.running = torch.zeros(n)

    def forward(self, x, key="k"):
        self.calls += 1
        self.total += 2
        self.log.append(x.shape[0])
        if key not in self.cache:
            self.cache[key] = self.layer(x)
        self.last = self.cache[key] * self.calls
        self.running = self.running * 0.9 + x.detach().mean(0)
        return self.last + self.running


@program("module_state", lambda t: (t.module(lambda: Counting(t.n)), t(2, t.n)))
def attributes_written(net, x):
    y = net(x)
    return y + net(x, "other") + net(x * 2), net.calls, net.log


@program("module_state", lambda t: (t.module(lambda: Counting(t.n)), t(2, t.n)))
def attributes_deleted(net, x):
    del net.calls
    net.calls = 5
    del net.layer
    net.layer = nn.Identity()
    return net(x), hasattr(net, "last"), list(net._modules)


class Buffered(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("kept", torch.zeros(n))
        self.register_buffer("dropped", torch.ones(n), persistent=False)
        self.register_buffer("empty", None)
        self.register_buffer("count", torch.tensor(0))

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.kept.mul_(0.9).add_(x.mean(0), alpha=0.1)
                self.count += 1
                self.dropped = self.dropped + x[0]
        return (x - self.kept) * self.dropped, self.empty


@program("module_state", lambda t: (Buffered(t.n), t(2, t.n)))
def buffers_updated(net, x):
    y = net(x)
    z = net(y[0])
    net.eval()
    return y, z, net(x), list(net.state_dict())


@program("module_state", lambda t: (Buffered(t.n), t(2, t.n)))
def buffers_replaced(net, x):
    net.kept = x[0].clone()
    net.empty = x[1] * 2
    y = net(x)
    net.empty = None
    del net.dropped
    net.register_buffer("dropped", x[0] + 1)
    net.register_buffer("fresh", torch.zeros(3), persistent=False)
    return y, net(x), sorted(net._non_persistent_buffers_set), list(net._buffers)


@program("module_state", lambda t: (Buffered(t.n), t(2, t.n)))
def buffer_of_the_wrong_type(net, x):
    try:
        net.kept = 3
    except TypeError as error:
        return x + 1, str(error)


def linear(t):
    return t.module(lambda: nn.Linear(t.n, t.n))


def mlp(t):
    return t.module(lambda: nn.Sequential(nn.Linear(t.n, 3), nn.ReLU()))


@program("module_state", lambda t: (linear(t), linear(t), t(2, t.n)), backward=True)
def parameter_replaced(a, b, x):
    a.weight = b.weight
    a.bias = None
    return a(x) + b(x), a.weight is b.weight, list(a._parameters)


@program("module_state", lambda t: (linear(t), t(2, t.n)))
def parameter_of_the_wrong_type(net, x):
    try:
        net.weight = x
    except TypeError as error:
        return net(x), str(error)


@program("module_state", lambda t: (linear(t), t(2, t.n)))
def parameter_written_in_place(net, x):
    with torch.no_grad():
        net.weight.add_(1)
        net.bias.copy_(x[0])
    return net(x)


@program("module_state", lambda t: (linear(t), t(t.n, t.n)), one_graph=False)
def parameter_made(net, x):
    net.weight = nn.Parameter(x * 2)
    net.register_parameter("extra", nn.Parameter(x[0].clone()))
    return net(x) + net.extra, isinstance(net.extra, nn.Parameter)


@program("module_state", lambda t: (linear(t), t(2, t.n)))
def submodules_replaced(net, x):
    outer = nn.Sequential(net, nn.Identity())
    outer[1] = nn.Tanh()
    outer.add_module("last", nn.ReLU())
    outer.register_module("very_last", nn.Dropout(0.0))
    return outer(x), list(outer._modules)


class Scaled(nn.Module):
    """Without parameters of its own."""

    def __init__(self, scale):
        super().__init__()
        self.scale = scale
        self.act = nn.GELU(approximate="tanh")

    def forward(self, x):
        return self.act(x) * self.scale


@program("module_state", lambda t: (t(),))
def made_inside(x):
    return Scaled(2.0)(x) + nn.Sequential(nn.ReLU(), Scaled(x[0]))(x)


@program("module_state", lambda t: (t(),))
def made_inside_and_kept(x):
    made = Scaled(x * 2)
    made.eval()
    return made(x), made, nn.ModuleList([made])


@program("module_state", lambda t: (t(2, t.n),), one_graph=False)
def made_inside_with_parameters(x):
    net = nn.Linear(x.shape[-1], 2)
    return net(x), net


@program("module_state", lambda t: (t(3, t.n),))
def made_inside_with_buffers(x):
    norm = nn.BatchNorm1d(x.shape[-1], affine=False)
    return norm(x), norm.running_mean, norm


class Defining(nn.Module):
    """A class of modules made by another's forward."""

    def __init__(self, n):
        super().__init__()
        self.layer = nn.Linear(n, n)

    def forward(self, x):
        outer = self

        class Inner(nn.Module):
            def forward(self, x):
                return outer.layer(x) + 1

        return Inner()(x)


@program("module_state", lambda t: (t.module(lambda: Defining(t.n)), t(2, t.n)))
def class_of_modules_made_inside(net, x):
    return net(x)


class Writing(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layer = nn.Linear(n, n)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x, mask):
        x.mul_(2)
        x.masked_fill_(mask, 0.0)
        x[0] = self.layer(x[1]).detach()
        return self.act(x.clone() - 1)


@program("module_state", lambda t: (t.module(lambda: Writing(t.n)), t(2, t.n), t.bools(2, t.n)))
def inputs_written(net, x, mask):
    return net(x, mask), x.sum()


class Cache(nn.Module):
    """A cache of keys that grows from call to call."""

    def __init__(self, n):
        super().__init__()
        self.key = nn.Linear(n, n)
        self.keys = []

    def forward(self, x, past=None):
        key = self.key(x)
        self.keys.append(key)
        past = (key,) if past is None else (*past, key)
        return torch.cat(past), past


@program("module_state", lambda t: (t.module(lambda: Cache(t.n)), t(1, t.n)))
def cache_returned_and_kept(net, x):
    y, past = net(x)
    z, past = net(y, past)
    return z, past, torch.cat(net.keys)


@program("module_state", lambda t: (linear(t), t(2, t.n)))
def private_dicts_written(net, x):
    net._buffers["hidden"] = x[0] * 2
    net._modules["tail"] = nn.ReLU()
    net.__dict__["plain"] = 3
    y = net.tail(net(x) + net.hidden)
    del net._modules["tail"]
    return y * net.plain, hasattr(net, "tail")


@program("module_state", lambda t: (linear(t), t(2, t.n)))
def module_attribute_over_a_submodule(net, x):
    net.helper = nn.ReLU()
    y = net.helper(x)
    net.helper = None
    z = net.helper
    del net.helper
    net.helper = 3
    return y, z, net.helper, dict(net._modules)


@program("module_state", lambda t: (linear(t), t(2, t.n)))
def converted(net, x):
    return net.bias.double(), net(x).to(torch.float64), x.double() @ net.weight.double()


@program("module_state", lambda t: (linear(t), t(2, t.n)), one_graph=False)
def converted_module(net, x):
    net.double()
    return net(x.double()), net.weight.dtype


class Slotted(nn.Module):
    """Properties that write, and a setattr of its own."""

    def __init__(self, n):
        super().__init__()
        self.layer = nn.Linear(n, n)
        self._factor = 1.0

    @property
    def factor(self):
        return self._factor

    @factor.setter
    def factor(self, value):
        self._factor = value * 2

    def __setattr__(self, name, value):
        if name == "alias":
            name = "layer"
        super().__setattr__(name, value)

    def forward(self, x):
        self.factor = self.factor + 1
        return self.layer(x) * self.factor


@program("module_state", lambda t: (t.module(lambda: Slotted(t.n)), t(2, t.n)))
def properties_and_setattr(net, x):
    y = net(x)
    net.alias = nn.Identity()
    return y + net(x), net.factor, "alias" in net.__dict__


@program("module_state", lambda t: (linear(t), t(2, t.n)), one_graph=False)
def requires_grad_changed(net, x):
    net.weight.requires_grad_(False)
    y = net(x)
    net.requires_grad_(True)
    return y, net(x), net.weight.requires_grad


@program("module_state", lambda t: (linear(t), t(2, t.n)))
def zero_grad(net, x):
    net.zero_grad()
    return net(x)


@program("module_state", lambda t: (linear(t), t(2, t.n)))
def state_dict_returned(net, x):
    state = net.state_dict(prefix="p.", keep_vars=True)
    return x @ state["p.weight"], state, list(state._metadata), hasattr(state, "other")


def annotated(t):
    values = collections.OrderedDict(a=t())
    values.note = 3
    return values


@program("module_state", lambda t: (annotated(t), t()))
def attribute_of_an_ordered_dict(values, x):
    try:
        values.missing  # noqa: B018
    except AttributeError as error:
        return values["a"] + x * values.note, str(error)


@program("module_state", lambda t: (annotated(t), t()), one_graph=False)
def attribute_of_an_ordered_dict_written(values, x):
    values.note += 1
    values.other = x * 2
    return x + values.note


@program("module_state", lambda t: (mlp(t), t(2, t.n)))
def weak_reference(net, x):
    reference = weakref.ref(net[0])
    y = reference()(x)
    return y, reference() is net[0], reference


@program("module_state", lambda t: (mlp(t), t(2, t.n)), one_graph=False)
def weak_reference_to_a_submodule_removed(net, x):
    reference = weakref.ref(net[0])
    y = net(x)
    del net[0]
    return y, reference() is None


@program("module_state", lambda t: (linear(t), t(2, t.n)), one_graph=False)
def weak_references_compared(net, x):
    a, b = weakref.ref(net), weakref.ref(net)
    return net(x), a is b, a == b, {a: 1}[b], a == weakref.ref(net.weight)


@program("module_state", lambda t: (t(),), one_graph=False)
def weak_reference_to_a_temporary(x):
    act = nn.ReLU()
    reference = weakref.ref(act)
    y = reference()(x)
    del act
    return y + 1, reference() is None


@program("module_state", lambda t: (t(),))
def weak_reference_refused(x):
    try:
        weakref.ref([x])
    except TypeError as error:
        return x + 1, str(error)


@program("module_state", lambda t: (t.module(lambda: nn.Sequential(nn.Linear(t.n, 2), nn.ReLU())), t(2, t.n)))
def addresses_in_keys(net, x):
    seen = {(id(module), "name"): module for module in net.modules()}
    return seen[id(net[0]), "name"](x), (id(net), "name") in seen, (id(net), "other") in seen, len(seen)


@program("module_state", lambda t: (linear(t), t(2, t.n)), one_graph=False, hits=False)
def addresses_among_numbers(net, x):
    seen = {(id(net), 1): x, (3, 1): x + 1}
    return seen[3, 1] + seen[id(net), 1]
