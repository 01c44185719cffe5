"""Classes with a `__torch_function__`: who is asked, what is shared, what calls from the cache do."""

from typing import Any

import gramme
import pytest
import torch
from e2e.against_eager import BACKENDS, assert_same

from subclasses.classes import LOG, Carrying, Inheriting, Logged, Tagged, carrying, numbers, tagged
from subclasses.harness import described
from subclasses.modes import Dispatched, Doubling
from subclasses.wrapper_classes import Partial


def twice(function: Any, *makers: Any, backend: str = "eager") -> Any:
    """Compiled, called on each twice, compared with eager; the statistics."""
    compiled = gramme.compile(function, backend=backend)
    for make in makers:
        for _ in range(2):
            arguments, expected_arguments = make(), make()
            assert described(compiled(*arguments)) == described(function(*expected_arguments))
            assert described(list(arguments)) == described(list(expected_arguments))
    return gramme.statistics(compiled)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_later_call_is_a_hit(backend: str) -> None:
    counts = twice(lambda x: (x.sin() + 1) * 2, lambda: (carrying(3, k=1),), backend=backend)
    assert (counts.captures, counts.hits, counts.segments) == (1, 1, 1)


def test_the_handler_runs_in_captures_only() -> None:
    asked = []

    class Asked(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if not torch.compiler.is_compiling():
                asked.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    compiled = gramme.compile(lambda x: x.sin() + 1, backend="eager")
    for _ in range(3):
        result = compiled(numbers().as_subclass(Asked))
    assert type(result) is Asked
    assert not asked


def test_a_handler_that_changes_is_asked_anew() -> None:
    class Changing(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return super().__torch_function__(func, types, args, kwargs or {})

    def other(cls: type, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return "other"

    compiled = gramme.compile(lambda x: x.sin(), backend="eager")
    assert type(compiled(numbers().as_subclass(Changing))) is Changing
    Changing.__torch_function__ = classmethod(other)  # type: ignore[assignment]
    assert compiled(numbers().as_subclass(Changing)) == "other"


def test_attributes_are_guarded() -> None:
    def function(x: Any) -> Any:
        return x * x.meta["k"]

    counts = twice(function, lambda: (carrying(3, k=1),), lambda: (carrying(3, k=2.5),))
    assert counts.captures == 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_another_class_of_one_memory(backend: str) -> None:
    def function(x: torch.Tensor) -> Any:
        y = x.sin()
        z = y.as_subclass(Inheriting)
        z.add_(1)
        return y, z

    compiled = gramme.compile(function, backend=backend)
    for _ in range(2):
        y, z = compiled(numbers())
        assert type(y) is torch.Tensor
        assert type(z) is Inheriting
        assert torch.equal(y, numbers().sin() + 1)
        y.mul_(0)
        assert described(z) == described(y.as_subclass(Inheriting))


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_argument_under_another_class(backend: str) -> None:
    def function(x: torch.Tensor) -> Any:
        return x.as_subclass(Inheriting), x + 1

    compiled = gramme.compile(function, backend=backend)
    for _ in range(2):
        x = numbers()
        z, _ = compiled(x)
        z.zero_()
        assert type(z) is Inheriting
        assert x.sum() == 0


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("leaf", [True, False])
def test_writes_that_come_to_need_a_gradient(backend: str, leaf: bool) -> None:
    def function(x: Any, w: torch.Tensor) -> Any:
        x.mul_(w)
        return x + 1

    for call in (function, gramme.compile(function, backend=backend)):
        w = numbers().requires_grad_(leaf)
        x = numbers().as_subclass(Inheriting)
        result = call(x, w)
        assert x.requires_grad is leaf
        assert described(x.detach()) == described((numbers() * numbers()).as_subclass(Inheriting))
        if leaf and backend != "aot_eager":  # which keeps what it writes, under torch.compile, too
            (result * x).sum().backward()
            assert torch.allclose(w.grad, numbers() * (2 * numbers() * numbers() + 1))


@pytest.mark.parametrize("backend", BACKENDS)
def test_backward_asks_nobody(backend: str) -> None:
    compiled = gramme.compile(lambda x, w: (x @ w).sin().sum(), backend=backend)
    for _ in range(2):
        x, w = numbers(2, 2).as_subclass(Logged), numbers(2, 2).requires_grad_()
        loss = compiled(x, w).as_subclass(torch.Tensor)
        LOG.clear()
        loss.backward()
        assert LOG == []
        expected = numbers(2, 2).requires_grad_()
        (numbers(2, 2) @ expected).sin().sum().backward()
        assert torch.allclose(w.grad, expected.grad)
    LOG.clear()


def test_who_is_asked_first() -> None:
    asked: list[Any] = []

    class Base(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            asked.append((cls.__name__, func.__name__, [t.__name__ for t in types], len(args), sorted(kwargs or {})))
            return (
                NotImplemented
                if cls.__name__ == "Below"
                else super().__torch_function__(func, types, args, kwargs or {})
            )

    class Below(Base):
        pass

    class Beside(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            asked.append((cls.__name__, func.__name__, [t.__name__ for t in types], len(args), sorted(kwargs or {})))
            return "beside" if len(types) > 1 else super().__torch_function__(func, types, args, kwargs or {})

    def function(a: Any, b: Any, c: Any) -> Any:
        return (
            torch.cat([a, b, c]),
            torch.add(a, c),
            a + b if False else a * a,
            torch.where(a > 0, c, c),
            torch.nn.functional.linear(c, c, bias=a),
        )

    found = []
    for call in (function, gramme.compile(function, backend="eager")):
        asked.clear()
        arguments = [numbers(2, 2).as_subclass(cls) for cls in (Base, Below, Beside)]
        try:
            result = described(call(*arguments))
        except TypeError as error:
            result = str(error).splitlines()[0]
        found.append((result, list(asked)))
    assert found[0] == found[1]


def test_functions_are_compared_as_eager() -> None:
    def function(x: Any) -> Any:
        return x.shape, x.T, x.sin(), x[0], x + 1

    class Picky(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func == torch.Tensor.shape.__get__:  # type: ignore[attr-defined]
                return "a shape"
            if func in {torch.Tensor.add, torch.Tensor.__getitem__}:
                return "in a set"
            if func is torch.Tensor.sin:
                return "sine"
            return super().__torch_function__(func, types, args, kwargs or {})

    counts = twice(function, lambda: (numbers(2, 2).as_subclass(Picky),))
    assert counts.captures >= 1


def test_modules_with_such_parameters() -> None:
    linear = torch.nn.Linear(2, 2)
    linear.weight = torch.nn.Parameter(numbers(2, 2).as_subclass(Inheriting))

    def step(x: torch.Tensor) -> Any:
        return linear(x).relu()

    for backend in BACKENDS:
        compiled = gramme.compile(step, backend=backend)
        for _ in range(2):
            linear.zero_grad()
            result = compiled(numbers(3, 2))
            result.sum().backward()
            grads = [described(p.grad) for p in linear.parameters()]
            linear.zero_grad()
            expected = step(numbers(3, 2))
            expected.sum().backward()
            assert described(result) == described(expected)
            assert grads == [described(p.grad) for p in linear.parameters()]


def test_exceptions_of_handlers() -> None:
    class Refusing(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.Tensor.cos:
                raise ValueError("no cosine")
            return super().__torch_function__(func, types, args, kwargs or {})

    def handled(x: Any) -> Any:
        try:
            return x.cos()
        except ValueError as error:
            return str(error), x.sin()

    assert_same(handled, lambda: (numbers().as_subclass(Refusing),))
    assert_same(lambda x: x.sin().cos(), lambda: (numbers().as_subclass(Refusing),))


def test_hooks_on_results_run() -> None:
    def function(x: Any, log: list[Any]) -> Any:
        y = x * 2
        y.register_hook(lambda grad: log.append(grad.sum().item()))
        return y.sum() * y[0]

    for backend in BACKENDS:
        logs = []
        for call in (function, gramme.compile(function, backend=backend)):
            log: list[Any] = []
            call(numbers().requires_grad_().as_subclass(Inheriting), log).as_subclass(torch.Tensor).backward()
            logs.append(log)
        assert logs[0] == logs[1]
        assert logs[0]


def test_explain_names_the_class() -> None:
    jagged = torch.nested.nested_tensor([numbers(3, 2), numbers(2, 2)], layout=torch.jagged)
    report = str(gramme.explain(lambda x: x.unbind()[0] + 1)(jagged))
    assert "NestedTensor" in report
    assert "0 breaks" not in report
    assert "Partial has a __torch_dispatch__" in str(gramme.explain(lambda x: x.sin() + 1)(Partial(numbers(3))))


def test_full_graph_names_the_class() -> None:
    with pytest.raises(gramme.CaptureError, match="Partial has a __torch_dispatch__"):
        gramme.compile(lambda x: x.sin(), fullgraph=True)(Partial(numbers(3)))
    whole = gramme.compile(lambda x: x.sin() + 1, fullgraph=True, backend="eager")
    assert type(whole(tagged())) is Tagged
    assert whole(carrying(k=3)).meta == {"k": 3}
    assert isinstance(whole(carrying(k=3)), Carrying)


def test_explain_names_the_modes_around() -> None:
    for mode in (Doubling, Dispatched):
        with mode():
            report = str(gramme.explain(lambda x: x.sin() + 1)(numbers()))
        assert report.startswith("0 segments")
        assert f"the mode {mode.__name__} was active" in report


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_attention_over_jagged_tensors(backend: str) -> None:
    linear = torch.nn.Linear(4, 4)

    def function(x: Any, y: torch.Tensor) -> Any:
        q = linear(x).sin().unflatten(-1, [2, 2]).transpose(1, 2)
        mixed = torch.nn.functional.scaled_dot_product_attention(q, q, q)
        return mixed.transpose(1, 2).flatten(-2) * 2, y.sin() + y.cos()

    found = []
    for call in (function, gramme.compile(function, backend=backend)):
        for sizes in ((3, 5), (3, 5), (2, 1, 4)):
            x = torch.nested.nested_tensor([numbers(n, 4) for n in sizes], layout=torch.jagged, requires_grad=True)
            linear.zero_grad()
            result, other = call(x, numbers(2))
            result.values().sum().backward()
            found.append([result.values(), result.offsets(), other, x.grad.values(), linear.weight.grad.clone()])
    for expected, got in zip(found[:3], found[3:], strict=True):
        assert all(map(torch.equal, expected, got))
