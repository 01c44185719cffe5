"""What wrappers do to compiled modules: the same outcome as with PyTorch's OptimizedModule.

Each program takes a front end, and gives what comes of it, exceptions among it.
"""

import copy
import functools
import inspect
import pickle
import types
import warnings
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, skip_init

pytestmark = pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")

X = torch.arange(6.0).view(2, 3) / 3
Program = Callable[[Any], Any]
PROGRAMS: dict[str, Program] = {}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(3, 3)
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("count", torch.zeros(()))
        self.scale = 2.0

    def forward(self, x: torch.Tensor, bias: float = 0.0) -> torch.Tensor:
        return self.layer(x) * self.weight * self.scale + bias + self.count

    def describe(self) -> str:
        return f"scale {self.scale}"


def program(function: Program) -> Program:
    PROGRAMS[function.__name__.replace("_", " ")] = function
    return function


def values(outcome: Any) -> Any:
    """Tensors as lists, so that outcomes compare."""
    if isinstance(outcome, torch.Tensor):
        return str(outcome.dtype), outcome.tolist()
    if isinstance(outcome, (list, tuple)):
        return [values(item) for item in outcome]
    if isinstance(outcome, dict):
        return {key: values(item) for key, item in outcome.items()}
    return outcome


def outcome_of(run: Program, front: Any) -> Any:
    try:
        return values(run(front))
    except (RuntimeError, TypeError, ValueError, AttributeError, KeyError, RecursionError) as error:
        return type(error).__name__, str(error)


# ---- classes


@program
def class_made_from_type(front: Any) -> Any:
    c = front(Net())
    c.__class__ = type("New", (type(c),), {"twice": lambda self, x: self(x) * 2})
    return type(c).__name__, c.__class__ is type(c), c(X), c(X), c.twice(X), c.describe()


@program
def class_made_from_class(front: Any) -> Any:
    c = front(Net())
    c.__class__ = type("New", (c.__class__,), {"twice": lambda self, x: self(x) * 2})
    compiled = torch._dynamo.OptimizedModule
    return c.__class__.__name__, isinstance(c, compiled), isinstance(c, nn.Module), c(X), c.twice(X)


@program
def mixin_in_front(front: Any) -> Any:
    class Mixin:
        def forward(self, *args: Any) -> Any:
            raise AssertionError("the instance has its own")

        def describe(self) -> str:
            return "mixed in"

    c = front(Net())
    c.__class__ = type("New", (Mixin, c.__class__), {})
    return c(X), c.describe(), isinstance(c, Mixin), c._orig_mod.describe()


@program
def call_of_its_own(front: Any) -> Any:
    c = front(Net())
    base = c.__class__

    class Doubled(base):  # type: ignore[misc, valid-type]
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return super().__call__(*args, **kwargs) * 2

    c.__class__ = Doubled
    return c(X), c(X, bias=1.0), c(X, 1.0)


@program
def class_set_and_reset(front: Any) -> Any:
    c = front(Net())
    before = c.__class__
    c.__class__ = type("New", (before,), {"extra": 1})
    inside = c.extra
    c.__class__ = before
    return inside, hasattr(c, "extra"), c.__class__ is before, c(X)


@program
def property_of_the_class(front: Any) -> Any:
    """As parametrizations do: set on the class after the instance got it."""
    c = front(Net())
    c.__class__ = type("New", (c.__class__,), {"__getstate__": lambda self: 1})
    c.__class__.tenth = property(lambda self: self.scale / 10)
    return c.tenth, c(X)


@program
def attribute_of_the_new_class(front: Any) -> Any:
    c = front(Net())
    c.__class__ = type("New", (c.__class__,), {"limit": 3})
    c.limit = 4
    c.scale = 1.0
    return "limit" in vars(c), hasattr(c._orig_mod, "limit"), c._orig_mod.scale, c(X)


@program
def no_class(front: Any) -> Any:
    c = front(Net())
    try:
        c.__class__ = 3
    except TypeError as error:
        return str(error), c(X)


# ---- forward


@program
def forward_of_another_function(front: Any) -> Any:
    """As accelerate does."""
    c = front(Net())
    old = c.forward
    plain = old.__func__ if hasattr(old, "__func__") else old
    new = functools.wraps(old)(lambda *args, **kwargs: plain(*args, **kwargs).double())
    c.forward = types.MethodType(new, c) if hasattr(old, "__func__") else new
    return c(X), c(X, bias=1.0), c(X)


@program
def what_forward_is(front: Any) -> Any:
    f = front(Net()).forward
    return (
        [hasattr(f, name) for name in ("__func__", "__self__", "__code__", "__wrapped__", "__name__", "__get__")],
        inspect.isfunction(f),
        inspect.ismethod(f),
        str(inspect.signature(f)),
        f.__name__,
        f(X),
    )


@program
def forward_put_on_the_class(front: Any) -> Any:
    c = front(Net())
    c.forward = staticmethod(c.forward).__get__(None, Net)
    return c(X)


@program
def forward_set_deleted_and_read(front: Any) -> Any:
    c = front(Net())
    c.forward = lambda x: x + 1
    first = c(X)
    del c.forward
    return first, c.forward.__name__, c.forward(X)


@program
def wraps_of_a_module(front: Any) -> Any:
    c = front(Net())

    @functools.wraps(c)
    def g(x: torch.Tensor) -> Any:
        return c(x) + 1

    return g(X), g.__wrapped__ is c, g.__dict__["_modules"] is c._modules, g.__doc__ == c.__doc__


@program
def wrapper_with_update(front: Any) -> Any:
    class Wrapper:
        def __init__(self, inner: Any) -> None:
            self.inner = inner
            functools.update_wrapper(self, inner)

        def __call__(self, *args: Any) -> Any:
            return self.inner(*args) * 3

    c = front(Net())
    c.forward = Wrapper(c.forward)
    return c(X), c.forward.__name__


# ---- copies


@program
def deep_copy(front: Any) -> Any:
    c = front(Net())
    c(X)
    d = copy.deepcopy(c)
    with torch.no_grad():
        d.weight.mul_(3)
    return c(X), d(X), d._orig_mod is c._orig_mod, list(d.state_dict())


@program
def shallow_copy(front: Any) -> Any:
    c = front(Net())
    d = copy.copy(c)
    return d(X), d._orig_mod is c._orig_mod, d is c


@program
def copy_of_a_new_class(front: Any) -> Any:
    c = front(Net())
    c.__class__ = type("New", (c.__class__,), {"extra": 1})
    return [(type(d).__name__, d.extra, d(X)) for d in (copy.copy(c), copy.deepcopy(c))]


@program
def copy_of_its_dict(front: Any) -> Any:
    c = front(Net())
    c(X)
    d = c.__class__.__new__(c.__class__)
    d.__dict__.update(c.__dict__)
    return d(X), d.scale, d.training, list(d.state_dict()), d.eval().training, c.training


@program
def dict_of_another(front: Any) -> Any:
    c = front(Net())
    d = object.__new__(type(c)) if type(c).__new__ is object.__new__ else type(c).__new__(type(c))
    vars(d).update(vars(c))
    return d(X), d.describe()


@program
def state_and_back(front: Any) -> Any:
    c = front(Net())
    state = c.__getstate__()
    d = type(c).__new__(type(c))
    d.__setstate__(dict(state))
    return "forward" in state, d(X), d.describe()


@program
def module_of_a_pickle(front: Any) -> Any:
    c = front(Net())
    d = pickle.loads(pickle.dumps(c._orig_mod))
    return front(d)(X)


# ---- modules of others


class Half(nn.Module):
    def forward(self, w: torch.Tensor) -> torch.Tensor:
        return w / 2


@program
def parametrization_of_it(front: Any) -> Any:
    c = front(Net())
    parametrize.register_parametrization(c, "weight", Half())
    return c(X)


@program
def parametrization_inside(front: Any) -> Any:
    c = front(Net())
    first = c(X)
    parametrize.register_parametrization(c.layer, "weight", Half())
    second = c(X)
    parametrize.remove_parametrizations(c.layer, "weight")
    return first, second, c(X), type(c.layer).__name__


@program
def class_injected_as_parametrizations_do(front: Any) -> Any:
    c = front(Net())
    parametrize._inject_new_class(c)
    return c.__class__.__name__, c(X), isinstance(c, torch._dynamo.OptimizedModule)


@program
def weight_norm_of_it(front: Any) -> Any:
    return torch.nn.utils.weight_norm(front(Net()), "weight")(X)


@program
def weight_norm_inside(front: Any) -> Any:
    c = front(Net())
    first = c(X)
    torch.nn.utils.weight_norm(c.layer)
    second = c(X), sorted(c.state_dict())
    torch.nn.utils.remove_weight_norm(c.layer)
    parametrizations.weight_norm(c.layer)
    return first, second, c(X)


@program
def spectral_norm_of_it(front: Any) -> Any:
    return parametrizations.spectral_norm(front(Net()), "weight")(X)


@program
def spectral_norm_inside(front: Any) -> Any:
    c = front(Net().eval())
    torch.manual_seed(1)
    parametrizations.spectral_norm(c.layer)
    return c(X), c(X)


@program
def hooks_on_hooks(front: Any) -> Any:
    c = front(Net())
    told: list[str] = []

    def pre(module: nn.Module, args: Any) -> Any:
        told.append(f"before {type(module).__name__}")
        return (args[0] + 1, *args[1:])

    handles = [c.register_forward_pre_hook(pre), c._orig_mod.register_forward_pre_hook(pre)]
    handles.append(c.register_forward_hook(lambda module, args, out: told.append("after") or out * 2))
    first = c(X)
    handles[0].remove()
    second = c(X)
    handles[2].remove()
    handles[1].remove()
    return first, second, c(X), [word.replace("New", "OptimizedModule") for word in told]


@program
def hooks_of_a_new_class(front: Any) -> Any:
    """As fully_shard does: the class set, then hooks."""
    c = front(Net())
    c(X)
    c.__class__ = type("New", (c.__class__,), {})
    handle = c.register_forward_pre_hook(lambda module, args, kwargs: ((args[0] * 2,), kwargs), with_kwargs=True)
    first = c(X), c(X, bias=1.0)
    handle.remove()
    return first, c(X)


@program
def backward_hooks(front: Any) -> Any:
    c = front(Net())
    c.__class__ = type("New", (c.__class__,), {})
    seen: list[Any] = []
    c._orig_mod.register_full_backward_hook(lambda module, grads, outs: seen.append((len(grads), outs[0].tolist())))
    x = X.clone().requires_grad_()
    c(x).sum().backward()
    return seen, x.grad


@program
def hooks_of_state_dicts(front: Any) -> Any:
    c = front(Net())
    told: list[str] = []
    c.register_state_dict_post_hook(lambda module, state, prefix, local: told.append(f"saved {prefix!r}"))
    c.register_load_state_dict_pre_hook(lambda module, state, prefix, *rest: told.append(f"loads {prefix!r}"))
    result = c.load_state_dict(c.state_dict())
    return told, str(result), list(c.state_dict(prefix="p."))


# ---- what modules do


@program
def state_dict_round_trip(front: Any) -> Any:
    c, d = front(Net()), front(Net())
    state = c.state_dict()
    state["_orig_mod.weight"] = state["_orig_mod.weight"] * 5
    loaded = str(d.load_state_dict(state))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(state), loaded, d(X), str(d._orig_mod.load_state_dict(c._orig_mod.state_dict())), d(X)


@program
def converted(front: Any) -> Any:
    c = front(Net())
    first = c(X), c.to(torch.float64) is c
    return first, c(X.double()), c.float() is c, c(X), [p.dtype == torch.float32 for p in c.parameters()]


@program
def applied(front: Any) -> Any:
    c = front(Net())
    names: list[str] = []
    result = c.apply(lambda module: names.append(type(module).__name__))
    return names, result is c, c(X)


@program
def trained_and_evaluated(front: Any) -> Any:
    c = front(nn.Sequential(Net(), nn.Dropout(0.5)))
    flags = [c.training]
    flags += [c.eval() is c, c.training, c._orig_mod[1].training]
    y = c(X)
    flags += [c.train(mode=True).training, c._orig_mod.training, c.requires_grad_(False) is c]  # noqa: FBT003
    c.training = False
    return flags, y, c._orig_mod.training, c[1].training, len(c), [p.requires_grad for p in c.parameters()]


@program
def attributes_through(front: Any) -> Any:
    c = front(Net())
    setattr(c, "scale", 4.0)  # noqa: B010
    c.extra = nn.Linear(3, 1)
    c.register_buffer("late", torch.ones(1))
    c.register_parameter("more", nn.Parameter(torch.ones(1)))
    seen = [hasattr(c._orig_mod, name) for name in ("scale", "extra", "late", "more")]
    kinds = [name in vars(c) for name in ("scale", "extra", "late", "more")]
    del c.extra
    return seen, kinds, hasattr(c, "extra"), sorted(c.state_dict()), c(X), getattr(c, "missing", 3)


@program
def setattr_of_a_wrapper(front: Any) -> Any:
    c = front(Net())
    nn.Module.__setattr__(c, "own", 3)
    object.__setattr__(c, "mine", 4)
    return vars(c)["own"], vars(c)["mine"], c.own + c.mine, hasattr(c._orig_mod, "own"), c(X)


@program
def members_of_children(front: Any) -> Any:
    c = front(Net())
    return (
        [name for name, _ in c.named_children()],
        [name for name, _ in c.named_modules()],
        [name for name, _ in c.named_parameters(recurse=False)],
        [name for name, _ in c.named_buffers()],
        c.get_submodule("_orig_mod.layer") is c.layer,
        c.get_parameter("_orig_mod.weight") is c.weight,
        repr(c),
        c.extra_repr(),
    )


@program
def replaced_inside(front: Any) -> Any:
    outer = nn.Sequential(front(Net()), nn.ReLU())
    first = outer(X)
    outer[0].layer = nn.Identity()
    second = outer(X)
    outer[0]._orig_mod.weight = nn.Parameter(torch.zeros(3))
    return first, second, outer(X), list(outer.state_dict())


@program
def frozen_and_swapped(front: Any) -> Any:
    c = front(Net())
    y = torch.func.functional_call(c, {"_orig_mod.weight": torch.zeros(3)}, (X,))
    return y, c(X)


@program
def made_without_its_init(front: Any) -> Any:
    layer = skip_init(nn.Linear, 3, 2)
    with torch.no_grad():
        layer.weight.fill_(1)
        layer.bias.fill_(2)
    return front(layer)(X)


@program
def zero_grad_and_share(front: Any) -> Any:
    c = front(Net())
    c(X).sum().backward()
    before = c.weight.grad.clone()
    c.zero_grad()
    return before, c.weight.grad, c.share_memory() is c, c.weight.is_shared()


# PyTorch's front end calls the module behind its OptimizedModule in these two.


def test_backward_hooks_of_a_new_class() -> None:
    c = gramme.compile(Net(), backend="eager")
    c.__class__ = type("New", (c.__class__,), {})
    seen: list[Any] = []
    c.register_full_backward_hook(lambda module, grads, outs: seen.append((len(grads), outs[0].tolist())))
    x = X.clone().requires_grad_()
    c(x).sum().backward()
    assert seen == [(1, [[1, 1, 1], [1, 1, 1]])]


def test_replaced_forward_in_an_outer_function() -> None:
    c = gramme.compile(Net(), backend="eager")
    outer = gramme.compile(lambda x: c(x) + 1, backend="eager")
    wrapped = gramme.compile(nn.Sequential(c, nn.ReLU()), backend="eager", fullgraph=True)
    plain = c(X)
    assert torch.equal(outer(X), plain + 1)
    assert torch.equal(wrapped(X), plain.relu())
    old = c.forward
    c.forward = functools.wraps(old)(lambda *args: old(*args) * 2)
    assert torch.equal(outer(X), plain * 2 + 1)
    assert torch.equal(wrapped(X), (plain * 2).relu())


@pytest.mark.parametrize("name", PROGRAMS)
def test_outcome_is_that_of_torch_compile(name: str) -> None:
    gramme.reset()
    torch.compiler.reset()
    wanted = outcome_of(PROGRAMS[name], functools.partial(torch.compile, backend="eager"))
    assert outcome_of(PROGRAMS[name], functools.partial(gramme.compile, backend="eager")) == wanted
    assert outcome_of(PROGRAMS[name], functools.partial(gramme.compile, backend="native")) == wanted
