"""Constructs of libraries, three programs or more for each family; a table says which end a graph."""

import abc
import collections
import copy
import dataclasses
import enum
import functools
import itertools
import logging
import threading
import time
import types
import typing
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.autograd import Variable

PROGRAMS: dict[str, Callable[[torch.Tensor], Any]] = {}


def family(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(program: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[name + "." + program.__name__] = program
        return program

    return add


def argument() -> torch.Tensor:
    return torch.arange(6.0).reshape(2, 3)


LINEAR = nn.Linear(3, 2)


@family("variable")
def wrapped(x):
    return Variable(x) * 2


@family("variable")
def needs_grad(x):
    v = Variable(x, requires_grad=False)
    return v.data + 1


@family("variable")
def in_isinstance(x):
    return x + 1 if isinstance(x, Variable) else x - 1


@family("legacy")
def float_tensor(x):
    return torch.FloatTensor([1, 2, 3]) + x


@family("legacy")
def long_of_sizes(x):
    return torch.LongTensor(2, 3).zero_() + x


@family("legacy")
def new(x):
    return x.new(2, 3).zero_() + x.new([1.0, 2.0, 3.0])


@family("distributions")
def normal(x):
    return torch.distributions.Normal(x, 1.0).log_prob(x + 1)


@family("distributions")
def categorical(x):
    return torch.distributions.Categorical(logits=x).entropy()


@family("distributions")
def kl(x):
    return torch.distributions.kl_divergence(torch.distributions.Normal(x, 1.0), torch.distributions.Normal(0.0, 2.0))


@family("distributions")
def bernoulli_checked(x):
    return torch.distributions.Bernoulli(logits=x, validate_args=True).mean


class Hooked(abc.ABC):
    @classmethod
    def __subclasshook__(cls, other):
        return hasattr(other, "walk")


class Walks:
    def walk(self):
        return 2


@typing.runtime_checkable
class CanWalk(typing.Protocol):
    def walk(self) -> int: ...


class Registered(abc.ABC):
    pass


Registered.register(Walks)
WALKS = Walks()


@family("abc")
def hook(x):
    return x + 1 if isinstance(WALKS, Hooked) else x


@family("abc")
def protocol(x):
    return x + 1 if isinstance(WALKS, CanWalk) else x


@family("abc")
def registered(x):
    return x + 1 if isinstance(WALKS, Registered) else x


@family("profiler")
def record(x):
    with torch.profiler.record_function("a"):
        return x + 1


@family("profiler")
def record_old(x):
    with torch.autograd.profiler.record_function("a"):
        y = x + 1
    return y * 2


@family("profiler")
@torch.profiler.record_function("dec")
def decorated(x):
    return x + 1


@family("warnings")
def warn(x):
    warnings.warn("w")
    return x + 1


@family("warnings")
def warn_category(x):
    warnings.warn("old", DeprecationWarning, stacklevel=2)
    return x + 1


@family("warnings")
def caught(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("w")
        return x + 1


LOGGER = logging.getLogger("construct_programs")


@family("logging")
def info(x):
    LOGGER.info("shape %s", x.shape)
    return x + 1


@family("logging")
def enabled(x):
    if LOGGER.isEnabledFor(logging.DEBUG):
        LOGGER.debug("x")
    return x + 1


@family("logging")
def module_function(x):
    logging.debug("x")
    return x + 1


ITEMS = [1, 2]
append = ITEMS.append
NAMES: dict[str, int] = {}
get = NAMES.get


@family("bound_c")
def dict_get(x):
    return x + (get("a") or 1)


@family("bound_c")
def list_append(x):
    append(3)
    ITEMS.pop()
    return x + 1


JOIN = ",".join


@family("bound_c")
def str_join(x):
    return x + len(JOIN(["a", "b"]))


class Base:
    scale = 1


class Twice(Base):
    scale = 2


class Thrice(Base):
    scale = 3


@family("subclasses")
def over(x):
    for c in Base.__subclasses__():
        x = x * c.scale
    return x


@family("subclasses")
def count(x):
    return x + len(Base.__subclasses__())


@family("subclasses")
def names(x):
    return x + sum(len(c.__name__) for c in Base.__subclasses__())


@family("group")
def grouped(x):
    from torch.utils._foreach_utils import _group_tensors_by_device_and_dtype

    g = _group_tensors_by_device_and_dtype([[x, x + 1]])
    return sum(v[0][0][0].sum() for v in g.values())


@family("group")
def clip(x):
    return nn.utils.clip_grad_norm_(PARAMS, 1.0) + x


PARAMS = [nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(3))]
for q in PARAMS:
    q.grad = torch.ones_like(q)


@family("group")
def total_norm(x):
    return nn.utils.get_total_norm([x, x + 1])


@family("made_classes")
def namedtuple_inside(x):
    T = collections.namedtuple("T", "a b")
    t = T(x, x + 1)
    return t.a + t.b


@family("made_classes")
def enum_inside(x):
    E = enum.Enum("E", "A B")
    return x + E.B.value


@family("made_classes")
def dataclass_inside(x):
    @dataclasses.dataclass
    class Field:
        a: int = 1

    return x + Field().a


@family("scripted")
def script(x):
    return SCRIPTED(x)


def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


SCRIPTED = torch.jit.script(doubled)
TRACED = torch.jit.trace(LINEAR, argument())
TRACED_BY_FX = torch.fx.symbolic_trace(nn.Sequential(LINEAR, nn.ReLU()))
SCRIPTED_MODULE = torch.jit.script(LINEAR)


@family("scripted")
def traced(x):
    return TRACED(x)


@family("scripted")
def fx_module(x):
    return TRACED_BY_FX(x)


@family("scripted")
def script_module(x):
    return SCRIPTED_MODULE(x)


@family("grad_fn")
def is_there(x):
    y = LINEAR(x)
    return y + 1 if y.grad_fn is not None else y


@family("grad_fn")
def name(x):
    y = LINEAR(x)
    return y + len(y.grad_fn.name())


@family("grad_fn")
def of_leaf(x):
    return x + 1 if LINEAR.weight.grad_fn is None else x


@family("packed")
def pack(x):
    q = nn.utils.rnn.pack_padded_sequence(x.unsqueeze(-1), torch.tensor([3, 2]), batch_first=True)
    return q.data


@family("packed")
def pad_sequence(x):
    return nn.utils.rnn.pad_sequence([x[0], x[1][:2]], batch_first=True)


@family("packed")
def pad_packed(x):
    q = nn.utils.rnn.pack_padded_sequence(x.unsqueeze(-1), [3, 2], batch_first=True)
    return nn.utils.rnn.pad_packed_sequence(q, batch_first=True)[0]


@family("deepcopy")
def module(x):
    return copy.deepcopy(LINEAR)(x)


@family("deepcopy")
def of_list(x):
    return x + copy.deepcopy([1, [2]])[1][0]


@family("deepcopy")
def shallow_dict(x):
    return copy.copy({"a": x})["a"] + 1


@family("iterators")
def set_pop(x):
    s = {1}
    return x + s.pop()


@family("iterators")
def accumulate(x):
    return x + list(itertools.accumulate([1, 2], initial=5))[-1]


@family("iterators")
def accumulate_tensors(x):
    return list(itertools.accumulate([x, x], lambda a, b: a * b, initial=x))[-1]


@family("iterators")
def pairs(x):
    return x + sum(a * b for a, b in itertools.pairwise([1, 2, 3]))


LOCAL = threading.local()
LOCAL.k = 2


@family("thread_local")
def read(x):
    return x * LOCAL.k


@family("thread_local")
def write(x):
    LOCAL.z = 3
    return x * LOCAL.z


@family("thread_local")
def missing(x):
    return x * getattr(LOCAL, "nope", 4)


@family("ordered")
def fromkeys(x):
    return x + len(collections.OrderedDict.fromkeys(["a", "b", "a"]))


@family("ordered")
def move(x):
    d = collections.OrderedDict(a=x, b=x + 1)
    d.move_to_end("a")
    return list(d.values())[-1]


@family("ordered")
def popitem(x):
    d = collections.OrderedDict(a=x, b=x + 1)
    return d.popitem(last=False)[1]


@family("id")
def same(x):
    y = x
    return x + 1 if id(x) == id(y) else x


@family("id")
def as_key(x):
    return x + {id(LINEAR): 2}[id(LINEAR)]


@family("id")
def differ(x):
    y = x + 1
    return y if id(x) != id(y) else x


@family("descriptors")
def getset(x):
    return torch.Tensor.shape.__get__(x)[0] + x


@family("descriptors")
def member(x):
    return type(x).__dict__ is not None and x + 1


@family("descriptors")
def slot(x):
    return x + Slotted.k.__get__(SLOTTED)


class Slotted:
    __slots__ = ("k",)


SLOTTED = Slotted()
SLOTTED.k = 3


@family("ops")
def first_use(x):
    return torch.ops.aten.celu.default(x)


@family("ops")
def packet(x):
    return torch.ops.aten.hardshrink(x)


@family("ops")
def has(x):
    return x + 1 if hasattr(torch.ops.aten, "logaddexp2") else x


@family("amp")
def cpu_autocast(x):
    with torch.cpu.amp.autocast():
        return LINEAR(x)


@family("amp")
def new_autocast(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return LINEAR(x)


@family("amp")
@torch.autocast("cpu")
def decorated_autocast(x):
    return LINEAR(x)


class Adder:
    def go(self, x):
        return x + 1


ADDER = Adder()


@family("methods")
def method_type(x):
    return types.MethodType(Adder.go, ADDER)(x)


@family("methods")
def partialmethod(x):
    return Scaler().by(x)


class Scaler:
    def scaled(self, x, k):
        return x * k

    by = functools.partialmethod(scaled, k=3)


@family("methods")
def singledispatch(x):
    return dispatched(2) + x


@functools.singledispatch
def dispatched(a):
    return 0


@dispatched.register
def _(a: int):
    return a * 2


LOCK = threading.Lock()


@family("real")
def lock(x):
    with LOCK:
        return x + 1


@family("real")
def clock(x):
    time.time()
    return x + 1


@family("real")
def data_ptr(x):
    return x + (x.data_ptr() != 0)


REF = weakref.ref(LINEAR)
BY_KEY = weakref.WeakKeyDictionary({LINEAR: 2})
BY_VALUE = weakref.WeakValueDictionary({"a": LINEAR})
PROXY = weakref.proxy(LINEAR)


@family("weak")
def ref(x):
    return REF()(x)


@family("weak")
def key_dict(x):
    return x * BY_KEY[LINEAR]


@family("weak")
def value_dict(x):
    return BY_VALUE["a"](x)


@family("weak")
def proxy(x):
    return PROXY(x)


# What ends a graph, and here only what PyTorch's front end captures: keys of weak dictionaries compare by what may die
# between two calls.
NOT_WHOLE_BUT_THERE = {"weak.key_dict"}
NOT_WHOLE = NOT_WHOLE_BUT_THERE | {
    "warnings.warn_category",
    "logging.module_function",
    "made_classes.dataclass_inside",
    "scripted.traced",
    "scripted.script_module",
    "grad_fn.is_there",
    "grad_fn.name",
    "packed.pack",
    "packed.pad_packed",
    "deepcopy.module",
    "real.lock",
    "real.clock",
    "real.data_ptr",
    "weak.proxy",
}
