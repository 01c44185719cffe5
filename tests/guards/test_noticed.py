"""Each of these is noticed: one mutation after another against a plan that is bound, and the harmless ones are not."""

import builtins
import collections
import contextlib
import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

from guards.support import Facts, TestGuards, content, evaluate, plan_for

GLOBAL = 3
NUMBERS = [1, 2.5, "a"]


class Config:
    NAMES = ("n", "flags", "opts", "tags", "missing")

    def __init__(self) -> None:
        self.n = 2
        self.flags = [1, 2.5, "a"]
        self.opts = {"a": 1.5, "b": [1, 2]}
        self.tags = {"x", "y", "z"}

    def f(self) -> int:
        return self.n


class Slots:
    NAMES = ("a", "b", "empty")
    __slots__ = ("a", "b", "empty")

    def __init__(self) -> None:
        self.a, self.b = 1.5, [1]


class Base(nn.Module):
    K = 1


class Net(Base):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.seq = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.scale = 0.5
        self.config = Config()
        self.slots = Slots()
        self.order = collections.OrderedDict(a=1, b=2, c=3)
        self.queue = collections.deque([1.5, [2], 3])
        self.register_buffer("buf", torch.ones(4, 3))
        self.counter = 0
        self.helper, self.set_cell = closure()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


class Other(Net):
    pass


def closure() -> tuple[Any, Any]:
    cell = 1

    def f(y: int, k: int = 2, *, z: int = 3) -> int:
        return cell + y + k + z

    def setter(value: int) -> None:
        nonlocal cell
        cell = value

    return f, setter


class Subclass(torch.Tensor):
    pass


CHANGES: list[tuple[str, bool, Callable[[Net], Any]]] = []


def noticed(change: Callable[[Net], Any]) -> None:
    CHANGES.append((change.__name__, True, change))


def harmless(change: Callable[[Net], Any]) -> None:
    CHANGES.append((change.__name__, False, change))


# ruff: noqa: E704
# fmt: off
@noticed
def attribute_set(m: Net) -> None: m.scale = 0.25
@noticed
def attribute_deleted(m: Net) -> None: del m.scale
@harmless
def attribute_equal(m: Net) -> None: m.scale = float("0.5")
@harmless
def attribute_deleted_and_set_again(m: Net) -> None: v = m.scale; del m.scale; m.scale = v
@noticed
def attribute_over_class(m: Net) -> None: m.forward = max
@noticed
def attribute_over_class_inline(m: Net) -> None: m.config.f = max
@noticed
def attribute_over_class_after_vars(m: Net) -> None: vars(m.config)["f"] = max
@harmless
def counter(m: Net) -> None: m.counter += 1
@harmless
def new_attribute_inline(m: Net) -> None: m.config.unrelated = 1
@noticed
def missing_attribute_appears(m: Net) -> None: m.config.missing = None
@noticed
def attribute_inline(m: Net) -> None: m.config.n = 3
@noticed
def attribute_inline_deleted(m: Net) -> None: del m.config.n
@noticed
def attribute_inline_bool(m: Net) -> None: m.config.flags[0] = True
@harmless
def instance_dict_made(m: Net) -> None: vars(m.config)
@noticed
def instance_dict_made_and_changed(m: Net) -> None: vars(m.config)["n"] = 9
@harmless
def instance_dict_replaced_by_a_copy(m: Net) -> None: m.lin.__dict__ = dict(m.lin.__dict__)
@noticed
def instance_dict_replaced(m: Net) -> None: m.lin.__dict__ = {**m.lin.__dict__, "training": False}
@noticed
def written_by_object_setattr(m: Net) -> None: object.__setattr__(m, "scale", 0.1)
@noticed
def slot_set(m: Net) -> None: m.slots.a = 2.5
@noticed
def slot_deleted(m: Net) -> None: del m.slots.a
@noticed
def slot_filled(m: Net) -> None: m.slots.empty = 1
@noticed
def slot_content(m: Net) -> None: m.slots.b.append(1)
@noticed
def class_assigned(m: Net) -> None: m.__class__ = Other
@noticed
def child_class_assigned(m: Net) -> None: m.lin.__class__ = type("Linear2", (nn.Linear,), {})
@noticed
def config_class_assigned(m: Net) -> None: m.config.__class__ = type("Config2", (Config,), {})
@noticed
def parameter_of_other_shape(m: Net) -> None: m.lin.weight = nn.Parameter(torch.ones(5, 4))
@harmless
def parameter_of_same_signature(m: Net) -> None: m.lin.weight = nn.Parameter(torch.ones(4, 4))
@noticed
def parameter_removed(m: Net) -> None: m.lin.bias = None
@noticed
def dtype_by_data(m: Net) -> None: m.lin.weight.data = m.lin.weight.data.double()
@harmless
def data_of_same_signature(m: Net) -> None: m.lin.weight.data = torch.zeros(4, 4)
@noticed
def dtype_by_to(m: Net) -> None: m.to(torch.bfloat16)
@noticed
def device(m: Net) -> None: m.buf = torch.ones(4, 3, device="meta")
@noticed
def resize(m: Net) -> None: m.buf.resize_(2, 3)
@noticed
def strides(m: Net) -> None: m.buf.set_(torch.ones(3, 4).t())
@noticed
def transposed_in_place(m: Net) -> None: m.buf.t_()
@noticed
def unsqueezed_in_place(m: Net) -> None: m.buf.unsqueeze_(0)
@noticed
def swap_tensors(m: Net) -> None: torch.utils.swap_tensors(m.lin.weight, nn.Parameter(torch.ones(7, 4)))
@noticed
def requires_grad(m: Net) -> None: m.lin.weight.requires_grad_(False)
@noticed
def not_a_leaf(m: Net) -> None: m._buffers["buf"] = torch.ones(4, 3, requires_grad=True) * 1
@noticed
def tensor_class(m: Net) -> None: m.buf.__class__ = Subclass
@noticed
def subclass_instead_of_tensor(m: Net) -> None: m.buf = torch.ones(4, 3).as_subclass(Subclass)
@noticed
def negative_view(m: Net) -> None: m.buf = torch._neg_view(torch.ones(4, 3))
@noticed
def sparse(m: Net) -> None: m.buf = torch.ones(4, 3).to_sparse()
@noticed
def list_append(m: Net) -> None: m.config.flags.append(1)
@noticed
def list_set(m: Net) -> None: m.config.flags[1] = 3.5
@noticed
def list_reversed(m: Net) -> None: m.config.flags.reverse()
@harmless
def list_replaced_by_equal(m: Net) -> None: m.config.flags = list(m.config.flags)
@noticed
def float_reborn_in_list(m: Net) -> None: m.config.flags[1] = None; m.config.flags[1] = float("7.5")
@noticed
def float_reborn_in_dict(m: Net) -> None: m.config.opts["a"] = None; m.config.opts["a"] = float("7.5")
@noticed
def float_reborn_in_slot(m: Net) -> None: m.slots.a = None; m.slots.a = float("7.5")
@noticed
def float_reborn_in_deque(m: Net) -> None: m.queue[0] = None; m.queue[0] = float("7.5")
@noticed
def negative_zero(m: Net) -> None: m.config.flags[1] = -0.0
@noticed
def dict_value(m: Net) -> None: m.config.opts["a"] = 5
@noticed
def dict_in_list_in_dict(m: Net) -> None: m.config.opts["b"].append(5)
@noticed
def dict_key_added(m: Net) -> None: m.config.opts["c"] = 5
@noticed
def dict_order(m: Net) -> None: m.config.opts["a"] = m.config.opts.pop("a")
@harmless
def dict_rebuilt_alike(m: Net) -> None: v = dict(m.config.opts); m.config.opts.clear(); m.config.opts.update(v)
@noticed
def set_added(m: Net) -> None: m.config.tags.add("w")
@noticed
def set_discarded(m: Net) -> None: m.config.tags.discard("x")
@noticed
def set_one_for_another(m: Net) -> None: m.config.tags.discard("x"); m.config.tags.add("q")
@harmless
def set_same_again(m: Net) -> None: m.config.tags.discard("x"); m.config.tags.add("x")
@noticed
def ordered_dict_move_to_end(m: Net) -> None: m.order.move_to_end("a")
@noticed
def ordered_dict_move_to_front(m: Net) -> None: m.order.move_to_end("b", last=False)
@noticed
def deque_rotated(m: Net) -> None: m.queue.rotate()
@noticed
def deque_item(m: Net) -> None: m.queue[2] = 4
@noticed
def deque_list_in_it(m: Net) -> None: m.queue[1].append(4)
@noticed
def cell_rebound(m: Net) -> None: m.set_cell(5)
@noticed
def cell_contents(m: Net) -> None: m.helper.__closure__[0].cell_contents = 6
@noticed
def cell_emptied(m: Net) -> None: del m.helper.__closure__[0].cell_contents
@noticed
def float_reborn_in_cell(m: Net) -> None: m.set_cell(None); m.set_cell(float("7.5"))
@noticed
def defaults(m: Net) -> None: m.helper.__defaults__ = (7,)
@noticed
def defaults_removed(m: Net) -> None: m.helper.__defaults__ = None
@noticed
def kwdefaults_in_place(m: Net) -> None: m.helper.__kwdefaults__["z"] = 9
@noticed
def kwdefaults_replaced(m: Net) -> None: m.helper.__kwdefaults__ = {"z": 8}
@noticed
def code(m: Net) -> None: m.helper.__code__ = m.helper.__code__.replace(co_firstlineno=1)
@harmless
def function_made_again_alike(m: Net) -> None: m.helper, m.set_cell = closure()
@noticed
def module_reordered(m: Net) -> None: v = m.seq._modules.pop("0"); m.seq._modules["0"] = v
@noticed
def module_appended(m: Net) -> None: m.seq.append(nn.ReLU())
@harmless
def module_replaced_by_equal(m: Net) -> None: m.lin = nn.Linear(4, 4)
@noticed
def evaluation_mode(m: Net) -> None: m.eval()
@noticed
def hook_added(m: Net) -> None: m.lin.register_forward_hook(max)
@noticed
def prehook_added(m: Net) -> None: m.register_forward_pre_hook(max)
@noticed
def backward_hook_added(m: Net) -> None: m.seq[0].register_full_backward_hook(max)
@harmless
def hook_added_and_removed(m: Net) -> None: m.lin.register_forward_hook(max).remove()
@harmless
def type_cache_cleared(m: Net) -> None: sys._clear_type_cache()


@noticed
def child_reborn_at_its_address(m: Net) -> None:
    address, keep = id(m.lin), []
    m.lin = None
    gc.collect()
    for _ in range(2000):
        new = nn.Linear(4, 4)
        new.in_features = 99
        if id(new) == address:
            break
        keep.append(new)
    m.lin = new


@noticed
def list_reborn_as_dict(m: Net) -> None:
    address, keep = id(m.config.opts["b"]), []
    m.config.opts["b"] = None
    for _ in range(2000):
        new = {"z": len(keep)}
        if id(new) == address:
            break
        keep.append(new)
    m.config.opts["b"] = new
# fmt: on


def net_plan(m: Net) -> Any:
    facts = Facts("x", skip=("counter", "set_cell"))
    facts.walk(m, (("Local", "x"),))
    return facts.plan()


@pytest.mark.parametrize("unbound", [False, True], ids=["bound", "unbound"])
@pytest.mark.parametrize(("name", "expected", "change"), CHANGES, ids=[c[0] for c in CHANGES])
def test_change(name: str, expected: bool, change: Callable[[Net], Any], unbound: bool) -> None:
    m = Net()
    plan = net_plan(m)
    before = content(m, ("counter", "set_cell"))
    assert plan.check([m]) is not None, plan.explain([m])
    change(m)
    if unbound:
        plan.unbind()
    holds = plan.check([m]) is not None
    assert holds is not expected
    assert holds == (content(m, ("counter", "set_cell")) == before)
    assert (plan.explain([m]) == "") is holds
    if holds:
        for path, object_ in zip(read_paths(m), plan.check([m]), strict=True):
            assert path is object_


def read_paths(m: Net) -> list[torch.Tensor]:
    facts = Facts("x", skip=("counter", "set_cell"))
    facts.walk(m, (("Local", "x"),))
    return [evaluate(path, {"x": m}) for path in facts.reads]


# ---- classes, globals, builtins: put back after each


@contextlib.contextmanager
def patched(owner: Any, name: str, value: object) -> Iterator[None]:
    missing = object()
    old = vars(owner).get(name, missing)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if old is missing:
            delattr(owner, name)
        else:
            setattr(owner, name, old)


CLASS_CHANGES = {
    "class attribute": lambda: patched(Net, "K", 2),
    "class attribute of a base": lambda: patched(Base, "K", 2),
    "class attribute added": lambda: patched(Net, "cfg", 2),
    "method patched": lambda: patched(Net, "forward", lambda self, x: x),
    "method of a child patched": lambda: patched(nn.Linear, "forward", lambda self, x: x),
    "method of a plain class patched": lambda: patched(Config, "f", lambda self: 1),
    "code of a method": lambda: patched_code(Config.f, lambda self: 1),
    "bases": lambda: patched_bases(Net, type("Base2", (nn.Module,), {"K": 9})),
}


@contextlib.contextmanager
def patched_code(function: Any, other: Any) -> Iterator[None]:
    old = function.__code__
    function.__code__ = other.__code__
    yield
    function.__code__ = old


@contextlib.contextmanager
def patched_bases(cls: Any, base: type) -> Iterator[None]:
    old = cls.__bases__
    cls.__bases__ = (base,)
    yield
    cls.__bases__ = old


@pytest.mark.parametrize("name", CLASS_CHANGES)
def test_class_change(name: str) -> None:
    m = Net()
    plan = net_plan(m)
    assert plan.check([m]) is not None
    with CLASS_CHANGES[name]():
        assert plan.check([m]) is None
        assert plan.explain([m]) != ""
    assert plan.check([m]) is not None  # put back: it holds again
    plan.unbind()
    assert plan.check([m]) is not None


def test_unrelated_class_attribute() -> None:
    m = Net()
    plan = net_plan(m)
    assert plan.check([m]) is not None
    with patched(nn.Module, "unrelated", 1):
        for _ in range(3):
            assert plan.check([m]) is not None


def function_plan(function: Any) -> Any:
    """GLOBAL is 3, NUMBERS a list, len not shadowed, helper's code."""
    g = (("Function",), ("Globals",))
    facts = Facts()
    facts.walk(GLOBAL, (*g, ("Value", "GLOBAL")))
    facts.walk(NUMBERS, (*g, ("Value", "NUMBERS")))
    facts.add((*g, ("Value", "len")), "Absent")
    facts.add((("Function",), ("Builtins",), ("Value", "len")), "Identity", len)
    facts.walk(closure, (*g, ("Value", "closure")))
    return facts.plan()


GLOBAL_CHANGES = {
    "rebound": lambda: patched(sys.modules[__name__], "GLOBAL", 4),
    "rebound to bool": lambda: patched(sys.modules[__name__], "GLOBAL", 3.0),
    "shadows a builtin": lambda: patched(sys.modules[__name__], "len", max),
    "builtin replaced": lambda: patched(builtins, "len", max),
    "list replaced": lambda: patched(sys.modules[__name__], "NUMBERS", [1, 2.5, "b"]),
    "function replaced": lambda: patched(sys.modules[__name__], "closure", lambda: None),
}


@pytest.mark.parametrize("name", GLOBAL_CHANGES)
def test_global_change(name: str) -> None:
    plan = function_plan(function_plan)
    assert plan.check([], function_plan) is not None, plan.explain([], function_plan)
    with GLOBAL_CHANGES[name]():
        assert plan.check([], function_plan) is None
    assert plan.check([], function_plan) is not None
    with patched(sys.modules[__name__], "unrelated", 1):
        assert plan.check([], function_plan) is not None


class FunctionMode(torch.overrides.TorchFunctionMode):
    pass


class DispatchMode(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def switched(on: Callable[[], object], off: Callable[[], object]) -> Iterator[None]:
    on()
    try:
        yield
    finally:
        off()


def switched_to(setter: Callable[[Any], object], on: object, off: object) -> Any:
    return switched(lambda: setter(on), lambda: setter(off))


STATES: dict[str, Callable[[], Any]] = {
    "grad mode": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "autocast dtype": lambda: switched(
        lambda: torch.set_autocast_dtype("cpu", torch.float16), lambda: torch.set_autocast_dtype("cpu", torch.bfloat16)
    ),
    "autocast cache": lambda: switched_to(torch.set_autocast_cache_enabled, False, True),
    "default dtype": lambda: switched_to(torch.set_default_dtype, torch.float64, torch.float32),
    "deterministic": lambda: switched_to(torch.use_deterministic_algorithms, True, False),
    "deterministic warn": lambda: switched(
        lambda: torch.use_deterministic_algorithms(True, warn_only=True),
        lambda: torch.use_deterministic_algorithms(False),
    ),
    "deterministic fill": lambda: switched_to(
        lambda v: setattr(torch.utils.deterministic, "fill_uninitialized_memory", v), False, True
    ),
    "function mode": FunctionMode,
    "default device": lambda: torch.device("meta"),
    "dispatch mode": DispatchMode,
    "functions disabled for subclasses": torch._C.DisableTorchFunctionSubclass,
    "functions disabled": torch._C.DisableTorchFunction,
    "saved tensor hooks": lambda: torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x),
    "saved tensor hooks disabled": lambda: torch.autograd.graph.disable_saved_tensors_hooks("no"),
    "forward AD": lambda: torch.autograd.forward_ad._set_fwd_grad_enabled(False),
    "vmap": lambda: switched(
        lambda: torch._C._functorch._vmap_increment_nesting(2, "error"), torch._C._functorch._vmap_decrement_nesting
    ),
}


@pytest.mark.parametrize("name", STATES)
def test_state_change(name: str) -> None:
    x = torch.ones(2)
    plan = plan_for(x)
    assert plan.check([x]) is not None
    with STATES[name]():
        assert plan.check([x]) is None
        assert "changed from" in plan.explain([x])
    assert plan.check([x]) is not None


ARGUMENTS: dict[str, tuple[Callable[[], object], bool]] = {
    "other data": (lambda: torch.randn(2, 4), True),
    "view with an offset": (lambda: torch.ones(5, 4)[1:3], True),
    "once required grad": (lambda: torch.ones(2, 4).requires_grad_().requires_grad_(False), True),
    "shape": (lambda: torch.ones(3, 4), False),
    "no elements": (lambda: torch.ones(0, 4), False),
    "seven dimensions": (lambda: torch.ones(1, 1, 1, 1, 1, 2, 4), False),
    "dtype": (lambda: torch.ones(2, 4, dtype=torch.float64), False),
    "strides": (lambda: torch.ones(4, 2).t(), False),
    "requires grad": (lambda: torch.ones(2, 4, requires_grad=True), False),
    "not a leaf": (lambda: torch.ones(2, 4, requires_grad=True) * 1, False),
    "subclass": (lambda: torch.ones(2, 4).as_subclass(Subclass), False),
    "parameter": (lambda: nn.Parameter(torch.ones(2, 4), requires_grad=False), False),
    "meta": (lambda: torch.ones(2, 4, device="meta"), False),
    "sparse": (lambda: torch.ones(2, 4).to_sparse(), False),
    "inference": (torch.inference_mode()(lambda: torch.ones(2, 4)), False),
    "a number": (lambda: 3, False),
    "a list": (lambda: [torch.ones(2, 4)], False),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_argument(name: str) -> None:
    make, expected = ARGUMENTS[name]
    plan = plan_for(torch.ones(2, 4))
    assert plan.check([torch.ones(2, 4)]) is not None
    x = make()
    assert (plan.check([x]) is not None) is expected
    assert (plan.explain([x]) == "") is expected


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.ones(1, 1, 1, 1, 1, 2, 4),
        lambda: torch.ones(2, 4).to_sparse(),
        lambda: torch.ones(2, 4).to_sparse_csr(),
        lambda: torch.tensor(1),
        lambda: torch.ones(2, 4, requires_grad=True),
        lambda: torch.ones(8, requires_grad=True).view(2, 4),
        lambda: torch.ones(2, 4).as_subclass(Subclass),
    ],
)
@pytest.mark.filterwarnings("ignore:Sparse CSR")
def test_odd_tensors_match_their_like(make: Callable[[], torch.Tensor]) -> None:
    plan = plan_for(make())
    assert plan.check([make()]) is not None
    assert plan.check([torch.ones(3, 3)]) is None


def test_a_dual_tensor_is_never_accepted() -> None:
    x = torch.ones(2)
    plan = plan_for(x)
    assert plan.check([x]) is not None
    with torch.autograd.forward_ad.dual_level():
        assert plan.check([torch.autograd.forward_ad.make_dual(x, torch.ones(2))]) is None
    assert plan.check([x]) is not None


def test_gradient() -> None:
    p = nn.Parameter(torch.ones(3))
    path = (("Local", "x"), ("Grad",))
    none = TestGuards(["x"], [(path, "Constant", None)])
    assert none.check([p]) is not None
    p.grad = torch.ones(3)
    assert none.check([p]) is None
    plan = TestGuards(["x"], [(path, "Tensor", p.grad)], [path])
    for _ in range(3):
        assert plan.check([p])[0] is p.grad
    p.grad = None
    (p * 2).sum().backward()  # made in C++: no Python object yet
    assert plan.check([p])[0] is p.grad
    gc.collect()
    assert plan.check([p])[0] is p.grad
    p.grad = torch.ones(3).to_sparse()
    assert plan.check([p]) is None


def test_aliasing() -> None:
    a, b = torch.ones(2), torch.ones(2)
    x, y = (("Local", "x"), ("Item", 0)), (("Local", "y"),)
    tensors = [(x, "Tensor", a), (y, "Tensor", b)]
    same = TestGuards(["x", "y"], [*tensors, (x, "SameAs", y)])
    other = TestGuards(["x", "y"], [*tensors, (x, "NotSameAs", y)])
    apart = TestGuards(["x", "y"], [*tensors, (x, "NoOverlap", y)])
    assert [bool(p.check([[a], b]) is not None) for p in (same, other, apart)] == [False, True, True]
    assert [bool(p.check([[a], a]) is not None) for p in (same, other, apart)] == [True, False, False]
    base = torch.zeros(3)
    assert [bool(p.check([[base[:2]], base[1:]]) is not None) for p in (same, other, apart)] == [False, True, False]
