"""What captures know of wrappers, and what ends them: guards, identity, memory, classes that do not keep their word."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch

from subclasses.classes import Two, numbers, two
from subclasses.harness import described
from subclasses.wrapper_classes import Counting, Laid, Layout, Quiet, Slotted, Unread
from subclasses.wrapper_functions import FROZEN, OVERRIDDEN, Linear

BACKENDS = ["eager", "native"]
both = pytest.mark.parametrize("backend", BACKENDS)


def captures(function: Callable[..., Any], *calls: tuple[Any, ...], backend: str = "eager") -> int:
    """Of calls that give what they give eagerly."""
    compiled = gramme.compile(function, backend=backend)
    for arguments in calls:
        assert described(compiled(*arguments)) == described(function(*arguments))
    return gramme.statistics(compiled).captures


def reason(function: Callable[..., Any], *arguments: Any) -> str:
    with pytest.raises(gramme.CaptureError) as refused:
        gramme.compile(function, backend="eager", fullgraph=True)(*arguments)
    return str(refused.value)


@both
def test_what_the_context_says_is_guarded(backend: str) -> None:
    coarse, fine = Quiet.of(numbers(4), 0.5), Quiet.of(numbers(4), 0.25)
    assert captures(lambda x: x * 2, (fine,), (Quiet.of(numbers(4) + 1, 0.25),), backend=backend) == 1
    assert captures(lambda x: x * 2, (fine,), (coarse,), (fine,), (coarse,), backend=backend) == 2
    assert captures(lambda x: x + 1, (Slotted(numbers(2), "a"),), (Slotted(numbers(2), "b"),), backend=backend) == 2


def test_objects_in_the_context_are_compared_by_value() -> None:
    def laid(name: str) -> Laid:
        return Laid(numbers(3), None, Layout(name))

    assert captures(lambda x: x * 2, (laid("a"),), (laid("a"),), (laid("b"),), (laid("a"),)) == 2


def test_what_an_object_in_the_context_holds_is_guarded() -> None:
    x = Laid(numbers(3), None, Layout("a"))
    compiled = gramme.compile(lambda x: x * 2, backend="eager")
    assert described(compiled(x).main) == described(numbers(3) * 2)
    object.__setattr__(x.layout_, "factor", 3.0)
    assert described(compiled(x).main) == described(numbers(3) * 6)
    assert gramme.statistics(compiled).captures == 2


@both
def test_inner_tensors_are_guarded(backend: str) -> None:
    floats, doubles = Two(numbers(3), numbers(3)), Two(numbers(3), numbers(3).double())
    assert captures(lambda x: x * 2, (floats,), (doubles,), (floats,), backend=backend) == 2
    x = Two(numbers(3), numbers(3))
    compiled = gramme.compile(lambda x: x * 2, backend=backend)
    compiled(x)
    x.b = numbers(3, 3)
    assert described(compiled(x)) == described(x * 2)


def test_another_class_of_an_inner_tensor() -> None:
    nested = Two(two(3), two(3))
    assert captures(lambda x: x * 2, (two(3),), (nested,), (two(3),), (nested,)) == 2


@both
def test_a_method_that_is_replaced(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Own(Counting):
        @staticmethod
        def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> Any:
            return Own(inner["a"], inner["b"])

    x = Own(numbers(3), numbers(3))
    compiled = gramme.compile(lambda x: x + 1, backend=backend)
    assert isinstance(compiled(x), Two)
    monkeypatch.setattr(Own, "__torch_dispatch__", classmethod(lambda c, f, t, a=(), k=None: f(a[0].a, *a[1:])))
    assert type(compiled(x)) is torch.Tensor
    assert compiled(x).tolist() == [1.5, 2, 2.5]


@both
def test_inner_tensors_are_the_very_ones(backend: str) -> None:
    def f(a: Any, b: Any) -> Any:
        x = Two(a, b)
        y = x * 2
        return x.a is a, x.b is a, x.a is x.a, y.a is y.a, y.a is x.a, Two(x.b, x.a).b is a, y.a

    compiled = gramme.compile(f, backend=backend, fullgraph=True)
    for _ in range(2):
        *same, inner = compiled(numbers(2), numbers(2) + 1)
        assert same == [True, False, True, True, False, True]
        assert inner.tolist() == [1, 2]


@both
def test_memory_of_a_wrapper_made_of_operands(backend: str) -> None:
    def f(a: Any, b: Any) -> Any:
        x = Two(a, b)
        x.add_(1)
        first = a * 2
        b.mul_(3)
        return first, x.b + 0, x.a + 0

    a, b = numbers(2), numbers(2)
    compiled = gramme.compile(f, backend=backend, fullgraph=True)
    for _ in range(2):
        expected = f(a.clone(), b.clone())
        assert described(compiled(a, b)) == described(expected)
        a, b = numbers(2), numbers(2)


@both
def test_a_later_call_does_no_harm(backend: str) -> None:
    """Memory that two wrappers share in one call and not in another."""
    a = numbers(3)
    shared = (Two(a, numbers(3)), Two(a, numbers(3) + 1))
    compiled = gramme.compile(lambda x, y: (x.mul_(2), y + 1)[1], backend=backend)
    for x, y in ((two(3), two(3)), shared, (two(3), two(3)), shared):
        before = y.a.clone() * (2 if y.a is x.a else 1)
        assert described(compiled(x, y).a) == described(before + 1)


@both
def test_attributes_that_the_program_stores(backend: str) -> None:
    def f(x: Any) -> Any:
        y = x + 1
        x.a = x.a * 3
        x.mark = "seen"
        return y, x + 1, x.a

    compiled = gramme.compile(f, backend=backend)
    for _ in range(2):
        ours, plain = two(3), two(3)
        assert described(compiled(ours)) == described(f(plain))
        assert described(ours) == described(plain)


class Telling(Two):
    """Does more in `__tensor_flatten__` than tell."""

    told = 0

    def __tensor_flatten__(self) -> Any:
        self.told += 1
        return ["a", "b"], None

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> Any:
        return Telling(inner["a"], inner["b"])


class Forgetting(Two):
    """`__tensor_unflatten__` makes something else."""

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> Any:
        return Forgetting(inner["b"], inner["a"].double())


class Rebinding(Two):
    """Writes by taking another tensor in place of an inner one."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> Any:
        return Rebinding(inner["a"], inner["b"])

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.add_.Tensor:
            args[0].a = args[0].a + args[1]
            return args[0]
        return super().__torch_dispatch__(func, types, args, kwargs)


@pytest.mark.parametrize("cls", [Telling, Forgetting, Rebinding, Unread], ids=lambda c: c.__name__)
@both
def test_classes_that_cannot_be_traced(backend: str, cls: type[Two]) -> None:
    def f(x: Any) -> Any:
        y = x + 1
        if isinstance(x, Rebinding):
            x.add_(1)
        return y, x.a * 2

    compiled = gramme.compile(f, backend=backend)
    for _ in range(2):
        ours, plain = cls(numbers(3), numbers(3) * 2), cls(numbers(3), numbers(3) * 2)
        assert described(compiled(ours)) == described(f(plain))
        assert described(ours) == described(plain)
    assert cls.__name__ in reason(f, cls(numbers(3), numbers(3) * 2))


@pytest.mark.parametrize("backend", [*BACKENDS, pytest.param("aot_eager", marks=pytest.mark.slow)])
def test_nothing_is_kept(backend: str) -> None:
    compiled = gramme.compile(lambda x: (x * 2, x.a + 1, Two(x.a, x.b)), backend=backend)
    for _ in range(3):
        x = two(3)
        results = compiled(x)
        gone = [weakref.ref(each) for each in (x, x.a, *results)]
        del x, results
        gc.collect()
        assert [ref() for ref in gone] == [None] * len(gone)


@pytest.mark.parametrize("backend", [*BACKENDS, pytest.param("aot_eager", marks=pytest.mark.slow)])
def test_a_model_of_wrappers_learns(backend: str) -> None:
    def model() -> torch.nn.Linear:
        made = torch.nn.Linear(2, 3)
        with torch.no_grad():
            made.bias.zero_()
        made.weight = torch.nn.Parameter(Two(numbers(3, 2) / 4, numbers(3, 2) / 8))
        return made

    def train(step: Callable[..., Any], module: torch.nn.Module) -> str:
        optimizer = torch.optim.SGD(module.parameters(), lr=0.125)
        for _ in range(3):
            optimizer.zero_grad()
            step(two(4, 2)).pow(2).sum().backward()
            optimizer.step()
        return described(list(module.parameters()))

    plain, ours = model(), model()
    assert train(gramme.compile(ours, backend=backend), ours) == train(plain, plain)


def test_a_table_of_functions_that_backward_looks_into_is_watched() -> None:
    compiled = gramme.compile(lambda x: Linear.apply(x, FROZEN), backend="aot_eager")
    x = numbers(2, 3).requires_grad_()
    for changed in (False, True, False):
        y = compiled(x).sum()
        try:
            if changed:
                OVERRIDDEN[torch.Tensor.sin] = torch.cos
                with pytest.raises(RuntimeError, match="OVERRIDDEN, which the backward of an autograd.Function"):
                    y.backward()
            else:
                (found,) = torch.autograd.grad(y, [x])
                assert torch.equal(found, torch.autograd.grad(Linear.apply(x, FROZEN).sum(), [x])[0])
        finally:
            OVERRIDDEN.pop(torch.Tensor.sin, None)
    assert gramme.statistics(compiled).captures == 1
