"""What must be noticed between two calls of a compiled module: a change that the code sees captures anew, one that it
does not see, or sees as another value of the same sort, is a hit."""

import collections
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.modules import module as nn_module
from torch.nn.utils import parametrize

from e2e.front import GRAMME, Compiled
from e2e.watch import Watch, x

pytestmark = pytest.mark.skipif(not GRAMME, reason="Dynamo guards on the identity of hooks and modules")


@dataclasses.dataclass
class Options:
    scale: float = 2.0
    unread: int = 0


class Plain:
    def __init__(self) -> None:
        self.kind = "relu"
        self.depth = 2
        self.unread = 0


class Intercepting(Plain):
    def __getattribute__(self, name: str) -> Any:
        return object.__getattribute__(self, "depth" if name == "layers" else name)


class Computing(Plain):
    @property
    def act(self) -> str:
        return self.kind


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.dropout = nn.Dropout(0.0)
        self.norm = nn.LayerNorm(4)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return self.norm(self.linear(value)) + self.dropout(value).abs().sum() * 0


class Child(Layer):
    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return super().forward(value) - 1


class Net(nn.Module):
    shift = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("offset", torch.ones(4))
        self.layer = Layer()
        self.other = Layer()
        self.stack = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.steps = nn.Sequential(collections.OrderedDict(first=nn.Tanh(), second=nn.Linear(4, 4), third=nn.ReLU()))
        self.named = nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.Sigmoid()})
        self.scales = nn.ParameterList([nn.Parameter(torch.ones(4))])
        self.plain = Plain()
        self.intercepting = Intercepting()
        self.computing = Computing()
        self.options = Options()
        self.unread = 0

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        y = self.other(self.layer(value)) + self.offset * self.shift
        for layer in self.stack:
            y = layer(y)
        y = self.steps(y)
        for name, layer in self.named.items():
            y = layer(y) if name != "skipped" else y
        for scale in self.scales:
            y = y * scale
        if self.plain.kind == "relu":
            y = y.relu()
        if self.computing.act == "relu":
            y = y.relu() + 1
        return y * self.intercepting.layers * self.options.scale + (1 if self.training else 2)


def run(net: Net, value: torch.Tensor) -> torch.Tensor:
    return net(value)


Change = Callable[[Net], object]
NOTICED: list[Change] = []
HARMLESS: list[Change] = []
UNDONE: dict[str, Change] = {}


def noticed(change: Change) -> Change:
    NOTICED.append(change)
    return change


def harmless(change: Change) -> Change:
    HARMLESS.append(change)
    return change


def undone(by: Change) -> Callable[[Change], Change]:
    """Noticed, and the first capture holds again after `by`."""

    def register(change: Change) -> Change:
        UNDONE[change.__name__] = by
        return noticed(change)

    return register


@pytest.fixture(autouse=True)
def everything_restored() -> Iterator[None]:
    saved = [(cls, dict(vars(cls))) for cls in (Net, Layer, Child, nn.Linear, nn.Tanh, nn.Module)]
    dicts = [value for name, value in vars(nn_module).items() if name.startswith("_global") and isinstance(value, dict)]
    yield
    for hooks in dicts:
        hooks.clear()
    nn_module._global_is_full_backward_hook = None
    for cls, attributes in saved:
        for name in set(vars(cls)) - set(attributes):
            delattr(cls, name)
        for name, value in attributes.items():
            if vars(cls)[name] is not value:
                setattr(cls, name, value)


def make() -> Net:
    torch.manual_seed(0)
    return Net().eval()


def check(change: Change, is_noticed: bool, module: bool) -> None:
    net = make()
    watch = Watch(net, fullgraph=False) if module else Watch(run, fullgraph=False)
    args = (x(2, 4),) if module else (net, x(2, 4))
    watch.miss(*args)
    watch.hit(*args)
    change(net)
    (watch.miss if is_noticed else watch.hit)(*args)
    back = UNDONE.get(change.__name__)
    if back is not None:
        back(net)
        watch.hit(*args)


# Parameters and buffers.


@harmless
def parameter_replaced(net: Net) -> None:
    net.layer.linear.weight = nn.Parameter(torch.full((4, 4), 0.5))


@harmless
def parameter_data_replaced(net: Net) -> None:
    net.layer.linear.weight.data = torch.full((4, 4), 0.25)


@harmless
def parameter_written(net: Net) -> None:
    with torch.no_grad():
        net.layer.linear.weight.mul_(2)


@noticed
def parameter_of_another_shape(net: Net) -> None:
    net.layer.linear.bias = nn.Parameter(torch.ones(1))


@noticed
def parameter_of_another_dtype(net: Net) -> None:
    net.scales[0] = nn.Parameter(torch.ones(4, dtype=torch.float64))


@noticed
def parameter_of_another_class(net: Net) -> None:
    class Marked(nn.Parameter):
        pass

    net.scales[0] = Marked(torch.ones(4))


@noticed
def parameter_data_of_another_shape(net: Net) -> None:
    net.layer.linear.bias.data = torch.ones(1)


@noticed
def parameter_data_of_another_dtype(net: Net) -> None:
    net.scales[0].data = torch.ones(4, dtype=torch.float64)


@noticed
def parameter_data_of_other_strides(net: Net) -> None:
    net.stack[0].weight.data = net.stack[0].weight.data.t()


@undone(lambda net: net.layer.linear.weight.requires_grad_(True))
def requires_grad_changed(net: Net) -> None:
    net.layer.linear.weight.requires_grad_(False)


@undone(lambda net: net.requires_grad_(True))
def requires_grad_of_all_changed(net: Net) -> None:
    net.requires_grad_(False)


@noticed
def parameter_removed(net: Net) -> None:
    net.layer.linear.bias = None


@noticed
def parameter_added_to_a_list(net: Net) -> None:
    net.scales.append(nn.Parameter(torch.full((4,), 3.0)))


@harmless
def buffer_replaced(net: Net) -> None:
    net.offset = torch.full((4,), 5.0)


@noticed
def buffer_of_another_dtype(net: Net) -> None:
    net.offset = torch.ones(4, dtype=torch.float16)


@noticed
def buffer_shadowed_in_the_instance_dict(net: Net) -> None:
    net.__dict__["offset"] = 3


@noticed
def buffer_became_a_parameter(net: Net) -> None:
    del net.offset
    net.offset = nn.Parameter(torch.ones(4))


@noticed
def moved_to_another_dtype(net: Net) -> None:
    net.stack.double()
    net.stack[0].float()
    net.stack[1].float()
    net.scales.double()


@undone(lambda net: net.float())
def moved_to_double_and_back(net: Net) -> None:
    net.scales.double()


# Modules.


@harmless
def module_replaced_by_an_equal_one(net: Net) -> None:
    net.layer = Layer().eval()


@harmless
def equal_module_in_a_list(net: Net) -> None:
    net.stack[0] = nn.Linear(4, 4).eval()


@noticed
def module_of_another_class(net: Net) -> None:
    net.layer = Child().eval()


@noticed
def class_assigned(net: Net) -> None:
    net.layer.__class__ = Child


@noticed
def module_of_another_configuration(net: Net) -> None:
    net.layer.norm = nn.LayerNorm(4, eps=1.0)


@noticed
def attribute_of_a_layer(net: Net) -> None:
    net.layer.norm.eps = 1.0


@noticed
def module_replaced_by_a_function(net: Net) -> None:
    del net.layer
    net.layer = torch.cos


@noticed
def module_shadowed_in_the_instance_dict(net: Net) -> None:
    net.__dict__["layer"] = Child().eval()


@noticed
def modules_reordered(net: Net) -> None:
    net.steps._modules.move_to_end("first") if isinstance(net.steps._modules, collections.OrderedDict) else None
    first = net.steps._modules.pop("first")
    net.steps._modules["first"] = first


@noticed
def module_removed(net: Net) -> None:
    del net.steps._modules["third"]


@noticed
def module_added(net: Net) -> None:
    net.steps.add_module("fourth", nn.Sigmoid())


@noticed
def module_popped_from_a_list(net: Net) -> None:
    net.stack.pop(0)


@noticed
def module_appended_to_a_list(net: Net) -> None:
    net.stack.append(nn.Linear(4, 4))


@noticed
def module_inserted_twice(net: Net) -> None:
    net.stack.insert(0, net.stack[1])


@noticed
def module_renamed_in_a_dict(net: Net) -> None:
    net.named["skipped"] = net.named.pop("b")


@noticed
def module_dict_reordered(net: Net) -> None:
    net.named["a"] = net.named.pop("a")


@noticed
def parametrization_registered(net: Net) -> None:
    parametrize.register_parametrization(net.layer.linear, "bias", nn.Tanh())


@noticed
def submodule_compiled_in_place(net: Net) -> None:
    net.layer.compile(backend="eager")


# Flags, attributes, configurations.


@undone(lambda net: net.eval())
def training(net: Net) -> None:
    net.train()


@undone(lambda net: net.layer.dropout.eval())
def training_of_a_submodule(net: Net) -> None:
    net.layer.dropout.train()


@harmless
def training_of_a_module_that_does_not_ask(net: Net) -> None:
    net.layer.linear.train()


@harmless
def unread_attribute(net: Net) -> None:
    net.unread = 5
    net.plain.unread = 5
    net.options.unread = 5
    net.fresh = "new"


@undone(lambda net: delattr(net, "shift"))
def class_attribute_shadowed(net: Net) -> None:
    net.shift = 3.0


@noticed
def class_attribute_changed(net: Net) -> None:
    Net.shift = 3.0


@undone(lambda net: setattr(net.plain, "kind", "relu"))
def plain_configuration(net: Net) -> None:
    net.plain.kind = "none"


@noticed
def configuration_with_getattribute(net: Net) -> None:
    net.intercepting.depth = 3


@noticed
def configuration_with_a_property(net: Net) -> None:
    net.computing.kind = "none"


@noticed
def configuration_as_a_data_class(net: Net) -> None:
    net.options.scale = 0.5


@harmless
def configuration_replaced_by_an_equal_one(net: Net) -> None:
    net.options = Options()
    net.plain = Plain()


@noticed
def configuration_replaced(net: Net) -> None:
    net.options = Options(scale=3.0)


# forward and __call__.


@undone(lambda net: delattr(net, "forward"))
def forward_patched_on_the_instance(net: Net) -> None:
    net.forward = lambda value: value * 2


@noticed
def forward_patched_on_a_submodule(net: Net) -> None:
    net.layer.forward = net.layer.linear.forward


@noticed
def forward_patched_on_the_class(net: Net) -> None:
    Layer.forward = lambda self, value: value * 2


@noticed
def forward_patched_on_a_class_of_torch(net: Net) -> None:
    nn.Tanh.forward = lambda self, value: value * 2


@noticed
def call_patched_on_the_class(net: Net) -> None:
    Layer.__call__ = lambda self, value: value * 2


@noticed
def call_implementation_patched_on_the_class(net: Net) -> None:
    Layer._call_impl = lambda self, value: value * 2


@noticed
def getattr_patched_on_the_class(net: Net) -> None:
    Layer.__getattr__ = lambda self, name: (
        (lambda value: value) if name == "linear" else nn.Module.__getattr__(self, name)
    )


# Hooks.


def halve(module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
    return output / 2


def negate(module: nn.Module, args: Any) -> Any:
    return (-args[0],)


def halve_with_keywords(module: nn.Module, args: Any, kwargs: Any, output: torch.Tensor) -> torch.Tensor:
    return output / 2


def negate_with_keywords(module: nn.Module, args: Any, kwargs: Any) -> Any:
    return (-args[0],), kwargs


def backward(module: nn.Module, *gradients: Any) -> None:
    return None


HOOKS: dict[str, Callable[[nn.Module], Any]] = {
    "forward": lambda m: m.register_forward_hook(halve),
    "forward with keywords": lambda m: m.register_forward_hook(halve_with_keywords, with_kwargs=True),
    "forward always": lambda m: m.register_forward_hook(halve, always_call=True),
    "forward pre": lambda m: m.register_forward_pre_hook(negate),
    "forward pre with keywords": lambda m: m.register_forward_pre_hook(negate_with_keywords, with_kwargs=True),
    "backward": lambda m: m.register_backward_hook(backward),
    "full backward": lambda m: m.register_full_backward_hook(backward),
    "full backward pre": lambda m: m.register_full_backward_pre_hook(backward),
}
GLOBAL_HOOKS: dict[str, Callable[[], Any]] = {
    "forward": lambda: nn_module.register_module_forward_hook(halve),
    "forward with keywords": lambda: nn_module.register_module_forward_hook(halve_with_keywords, with_kwargs=True),
    "forward always": lambda: nn_module.register_module_forward_hook(halve, always_call=True),
    "forward pre": lambda: nn_module.register_module_forward_pre_hook(negate),
    "backward": lambda: nn_module.register_module_backward_hook(backward),
    "full backward": lambda: nn_module.register_module_full_backward_hook(backward),
    "full backward pre": lambda: nn_module.register_module_full_backward_pre_hook(backward),
}


@pytest.mark.sampled(50)
@pytest.mark.parametrize("module", [False, True], ids=["argument", "compiled"])
@pytest.mark.parametrize("change", NOTICED, ids=lambda c: c.__name__)
def test_noticed(change: Change, module: bool) -> None:
    check(change, True, module)


@pytest.mark.parametrize("module", [False, True], ids=["argument", "compiled"])
@pytest.mark.parametrize("change", HARMLESS, ids=lambda c: c.__name__)
def test_harmless(change: Change, module: bool) -> None:
    check(change, False, module)


def targets(net: Net) -> dict[str, nn.Module]:
    return {"root": net, "layer": net.layer, "in a list": net.stack[1], "in a sequence": net.steps[0]}


@pytest.mark.sampled(24)
@pytest.mark.parametrize("module", [False, True], ids=["argument", "compiled"])
@pytest.mark.parametrize("place", targets(Net()))
@pytest.mark.parametrize("kind", HOOKS)
def test_hook_registered_and_removed(kind: str, place: str, module: bool) -> None:
    net = make()
    watch = Watch(net) if module else Watch(run)
    args = (x(2, 4),) if module else (net, x(2, 4))
    watch.miss(*args)
    handle = HOOKS[kind](targets(net)[place])
    watch.miss(*args)
    handle.remove()
    watch.hit(*args)


@pytest.mark.parametrize("kind", GLOBAL_HOOKS)
def test_global_hook_registered_and_removed(kind: str) -> None:
    net, watch = make(), Watch(run)
    watch.miss(net, x(2, 4))
    handle = GLOBAL_HOOKS[kind]()
    watch.miss(net, x(2, 4))
    handle.remove()
    watch.hit(net, x(2, 4))


def test_hook_replaced_by_another() -> None:
    net, watch = make(), Watch(run)
    first = net.layer.register_forward_hook(halve)
    watch.miss(net, x(2, 4))
    first.remove()
    second = net.layer.register_forward_hook(lambda module, args, output: output * 3)
    watch.miss(net, x(2, 4))
    second.remove()
    net.layer.register_forward_hook(halve, prepend=True)
    watch.miss(net, x(2, 4))


def test_order_of_hooks() -> None:
    net, watch = make(), Watch(run)
    net.layer.register_forward_hook(halve)
    plus = net.layer.register_forward_hook(lambda module, args, output: output + 1)
    watch.miss(net, x(2, 4))
    net.layer._forward_hooks.move_to_end(plus.id, last=False)
    watch.miss(net, x(2, 4))


def test_module_tied_to_another() -> None:
    def write(net: Net, value: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            net.stack[0].bias.add_(value[0])
            net.stack[1].bias.mul_(2)
        return net.stack[0].bias + net.stack[1].bias

    def tied(net: Net) -> Net:
        net.stack[1] = net.stack[0]
        return net

    compiled = Compiled(write)
    for change, captures in ((None, 1), (None, 1), (tied, 2), (tied, 2), (None, 2)):
        nets = [change(make()) if change else make() for _ in range(2)]
        result, expected = compiled(nets[0], x(2, 4)), write(nets[1], x(2, 4))
        assert torch.equal(result, expected)
        assert torch.equal(nets[0].stack[1].bias, nets[1].stack[1].bias)
        assert compiled.captures == captures


def test_attribute_of_an_ordered_dict() -> None:
    watch = Watch(lambda values, value: value * getattr(values, "note", 2))
    values: Any = collections.OrderedDict(a=1)
    watch.miss(values, x())
    values.note = 3
    watch.miss(values, x())
    values.other = 3
    watch.hit(values, x())
    values.note = 4
    watch.miss(values, x())
    del values.note
    watch.hit(values, x())
