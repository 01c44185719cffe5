"""What gramme.compile gives for a module: as torch.compile's OptimizedModule, and gramme.install()."""

import copy
import gc
import inspect
import pickle
import warnings
import weakref
from typing import Any

import gramme
import pytest
import torch
from gramme._torch import names


class Scaled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(3, 3)
        self.register_buffer("offset", torch.ones(3))
        self.scale = 2.0

    def forward(self, x: torch.Tensor, extra: float = 0.0) -> torch.Tensor:
        y = self.inner(x) * self.scale + self.offset
        return y + extra if self.training else y

    def describe(self) -> str:
        return f"scale {self.scale}"


X = torch.randn(2, 3)


@pytest.fixture
def model() -> Scaled:
    torch.manual_seed(0)
    return Scaled()


def compiled_of(model: torch.nn.Module, **options: Any) -> gramme.OptimizedModule:
    made = gramme.compile(model, backend="eager", **options)
    assert isinstance(made, gramme.OptimizedModule)
    return made


def test_attributes_are_those_of_the_module(model: Scaled) -> None:
    compiled = compiled_of(model)
    theirs = torch.compile(model, backend="eager")
    assert list(compiled.state_dict()) == list(theirs.state_dict())
    assert [name for name, _ in compiled.named_parameters()] == [name for name, _ in theirs.named_parameters()]
    assert [name for name, _ in compiled.named_modules()] == [name for name, _ in theirs.named_modules()]
    assert repr(compiled) == repr(theirs)
    assert compiled._orig_mod is model
    assert compiled.describe() == "scale 2.0"
    assert set(dir(model)) <= set(dir(compiled))
    compiled.scale = 3.0
    assert model.scale == 3.0
    assert "scale" not in vars(compiled)
    assert torch.equal(compiled(X), model(X))
    del compiled.scale
    assert not hasattr(model, "scale")
    with pytest.raises(AttributeError, match="'Scaled' object has no attribute 'missing'"):
        compiled.missing  # noqa: B018
    with pytest.raises(TypeError, match="Scaled does not support len"):
        len(compiled)
    assert len(compiled_of(torch.nn.Sequential(torch.nn.ReLU()))) == 1


def test_libraries_recognise_it(model: Scaled) -> None:
    compiled = compiled_of(model)
    assert isinstance(compiled, torch.nn.Module)
    assert isinstance(compiled, torch._dynamo.OptimizedModule)
    assert compiled.forward._torchdynamo_orig_callable is torch.nn.Module.__call__


def test_training_flag(model: Scaled) -> None:
    compiled = compiled_of(model)
    assert compiled.training
    assert torch.equal(compiled(X, extra=1.0), model(X, extra=1.0))
    assert compiled.eval() is compiled
    assert not model.training
    assert not model.inner.training
    assert torch.equal(compiled(X, extra=1.0), model(X, extra=1.0))
    compiled.training = True
    assert model.training
    assert gramme.statistics(compiled).captures == 2


def test_calls_with_and_without_keywords(model: Scaled) -> None:
    compiled = compiled_of(model, fullgraph=True)
    for _ in range(2):
        assert torch.equal(compiled(X, 1.0), model(X, 1.0))
        assert torch.equal(compiled(x=X), model(X))
        assert torch.equal(compiled(*[X], **{"extra": 1.0}), model(X, 1.0))
        assert torch.equal(compiled.forward(X), model(X))
    with pytest.raises(TypeError, match=r"Scaled\.forward\(\) got an unexpected keyword argument 'nothing'"):
        compiled(X, nothing=1)


def test_own_hooks_run_around_the_compiled_call(model: Scaled) -> None:
    compiled, seen = compiled_of(model), []
    assert torch.equal(compiled(X), model(X))
    before = compiled.register_forward_pre_hook(lambda module, args: seen.append(module) or (args[0] + 1,))
    after = compiled.register_forward_hook(lambda module, args, result: result * 2)
    assert torch.equal(compiled(X), model(X + 1) * 2)
    assert seen == [compiled]
    assert not model._forward_hooks
    before.remove()
    after.remove()
    assert torch.equal(compiled(X), model(X))
    assert len(seen) == 1


def test_global_hooks_run_once_more_with_a_warning(model: Scaled) -> None:
    compiled, seen = compiled_of(model), []
    handle = torch.nn.modules.module.register_module_forward_hook(lambda module, *_: seen.append(type(module)))
    try:
        with pytest.warns(UserWarning, match="global module hooks"):
            result = compiled(X)
    finally:
        handle.remove()
    assert torch.equal(result, model(X))
    assert seen == [torch.nn.Linear, Scaled, gramme.OptimizedModule]


def test_copies_and_pickles_capture_anew(model: Scaled) -> None:
    compiled = compiled_of(model)
    compiled(X)
    for twin in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
        assert type(twin) is gramme.OptimizedModule
        assert twin._orig_mod is not model
        assert gramme.statistics(twin).captures == 0
        with torch.no_grad():
            twin._orig_mod.inner.weight.zero_()
        assert torch.equal(twin(X), twin._orig_mod(X))
        assert not torch.equal(twin(X), model(X))
    shallow = copy.copy(compiled)
    assert shallow._orig_mod is model
    assert torch.equal(shallow(X), model(X))


def test_state_dicts_go_both_ways(model: Scaled) -> None:
    compiled, other = compiled_of(model), compiled_of(Scaled())
    other.load_state_dict(compiled.state_dict())
    assert torch.equal(other(X), compiled(X))
    assert torch.equal(other.double()(X.double()), other._orig_mod(X.double()))


def test_compiled_modules_inside_captured_code(model: Scaled) -> None:
    compiled = compiled_of(model)
    assert torch.equal(gramme.compile(lambda x: compiled(x) + 1, backend="eager", fullgraph=True)(X), model(X) + 1)
    outer = torch.nn.Sequential(compiled, torch.nn.ReLU())
    whole = compiled_of(outer, fullgraph=True)
    assert torch.equal(whole(X), model(X).relu())
    assert gramme.statistics(compiled).captures == 0
    handle = compiled.register_forward_hook(lambda module, args, result: result - 100)
    assert torch.equal(whole(X), (model(X) - 100).relu())
    handle.remove()
    assert torch.equal(whole(X), model(X).relu())
    assert gramme.compile(compiled, backend="eager")._orig_mod is model


def test_inputs_are_named_by_the_parameters_of_forward(model: Scaled) -> None:
    class Outer(torch.nn.Module):
        def __init__(me) -> None:  # noqa: N805 - the name shows
            super().__init__()
            me.first, me.rest = model, torch.nn.ModuleList([torch.nn.Linear(3, 3), torch.nn.LayerNorm(3)])

        def forward(me, x: torch.Tensor, *, gain: Any = None) -> torch.Tensor:  # noqa: N805
            for layer in me.rest:
                x = layer(x)
            return me.first(x) * gain

    def names(front: Any) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []

        def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
            found.extend((n.name, str(n.target)) for n in graph.graph.nodes if n.op == "placeholder")
            return graph.forward

        front(Outer(), backend=backend)(X, gain=X + 1)
        return found

    assert names(gramme.compile) == names(torch.compile)
    assert ("l_gain_", "L_gain_") in names(gramme.compile)
    guards = gramme.explain(Outer())(X, gain=X + 1).segments[0].guards
    assert any(guard.startswith("L['x']: Tensor float32[2, 3]") for guard in guards)


def test_a_compiled_forward_in_a_class() -> None:
    class Decorated(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(3, 3)

        @gramme.compile(backend="eager", fullgraph=True)
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x) + 1

    module = Decorated()
    assert torch.equal(module(X), module.inner(X) + 1)
    assert torch.equal(compiled_of(module, fullgraph=True)(X), module.inner(X) + 1)
    assert gramme.statistics(Decorated.forward).captures == 1


def test_a_compiled_class(model: Scaled) -> None:
    class Twice(Scaled):
        pass

    assert gramme.compile(Twice, backend="eager") is Twice
    module = Twice()
    assert torch.equal(module(X), module.forward(X))
    assert gramme.statistics(vars(Twice)["_call_impl"]).captures == 1

    class Caller:
        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    gramme.compile(Caller, backend="eager")
    assert torch.equal(Caller()(X), X + 1)


def test_a_replaced_forward_is_called(model: Scaled) -> None:
    compiled = compiled_of(model)
    compiled(X)
    compiled.forward = lambda x: x - 1
    assert torch.equal(compiled(X), X - 1)


def test_a_lazy_module_gets_its_shapes_first() -> None:
    lazy = torch.nn.Sequential(torch.nn.LazyLinear(4), torch.nn.LazyBatchNorm1d())
    alone = torch.nn.LazyLinear(4)
    for module in (alone, lazy):
        compiled = compiled_of(module)
        result = compiled(X)
        assert result.shape == (2, 4)
        assert torch.equal(compiled.eval()(X), module(X))
    assert type(alone) is torch.nn.Linear
    assert type(lazy[1]) is torch.nn.BatchNorm1d


def test_deleting_it_frees_the_parameters_at_once(model: Scaled) -> None:
    compiled = compiled_of(model)
    result = compiled(X).detach()
    compiled(X)
    parameter, module = weakref.ref(model.inner.weight), weakref.ref(model)
    gc.disable()
    try:
        del compiled, model
        assert parameter() is None or module() is not None  # the fixture still holds the module
    finally:
        gc.enable()
    assert result.shape == (2, 3)


def test_parameters_die_without_the_collector() -> None:
    def made() -> tuple[gramme.OptimizedModule, weakref.ref[Any]]:
        model = Scaled()
        compiled = compiled_of(model, fullgraph=True)
        compiled(X).sum().backward()
        compiled(X)
        return compiled, weakref.ref(model.inner.weight)

    gc.collect()
    gc.disable()
    try:
        compiled, parameter = made()
        assert parameter() is not None
        del compiled
        assert parameter() is None
    finally:
        gc.enable()


def test_install_and_undo() -> None:
    original, reset = torch.compile, torch.compiler.reset
    module = Scaled()
    with gramme.install() as installation:
        assert gramme.install() is installation
        function = torch.compile(lambda x: x + 1, backend="eager", fullgraph=True)
        decorated = torch.compile(backend="eager")(lambda x: x * 2)
        module.compile(backend="eager")
        (last,) = names.SHAPES_OF_COMPILE & inspect.signature(original).parameters.keys()
        unsupported = torch.compile(lambda x: x - 1, backend="eager", **{last: {}})
        assert torch.equal(function(X), X + 1)
        assert torch.equal(decorated(X), X * 2)
        assert torch.equal(module(X), module.forward(X))
        assert callable(unsupported)
        assert gramme.statistics(function).captures == gramme.statistics(decorated).captures == 1
        assert gramme.statistics(module._compiled_call_impl).captures == 1
        with pytest.raises(TypeError):
            gramme.statistics(unsupported)
        torch.compiler.reset()
        assert gramme.statistics(function).segments == 0
    assert torch.compile is original
    assert torch.compiler.reset is reset
    gramme.uninstall()
    assert torch.equal(function(X), X + 1)  # what was compiled stays compiled
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gramme.install()
        gramme.uninstall()
    assert torch.compile is original


def test_a_module_compiled_in_place_can_be_scripted() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(3, 3))
    with gramme.install():
        module.compile(backend="eager")
        expected = module(X[..., :3])
        scripted = torch.jit.script(module)
        assert torch.equal(scripted(X[..., :3]), expected)
        assert torch.equal(module(X[..., :3]), expected)
