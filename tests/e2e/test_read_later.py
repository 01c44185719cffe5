"""What backward of an autograd.Function reads is read when gradients are computed, whatever changed meanwhile."""

from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from torch.autograd import Function

BACKENDS = ["eager", "native", "aot_eager"]


class Box:
    def __init__(self, k: float) -> None:
        self.k = k

    def get(self) -> float:
        return self.k


class Reads(Function):
    """Of what it is given, kept as it is: `read` says how."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, kept: Any, read: Callable[[Any], Any]) -> torch.Tensor:
        ctx.kept, ctx.read = kept, read
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        return g * ctx.read(ctx.kept), None, None


def of_object(box: Any) -> Any:
    return box.k


def of_method(get: Any) -> Any:
    return get()


def of_list(items: Any) -> Any:
    return items[0]


def of_list_in_tuple(items: Any) -> Any:
    return items[0][0]


def of_dict(names: Any) -> Any:
    return names["k"]


def of_object_in_list(items: Any) -> Any:
    return items[0].k


def of_set(items: Any) -> Any:
    return float(len(items))


def set_k(box: Box) -> None:
    box.k = 5.0


CASES: dict[str, tuple[Callable[[], Any], Callable[[Any], Any], Callable[[Any], Any], Callable[[Any], None]]] = {
    "object": (lambda: Box(2.0), lambda made: made, of_object, set_k),
    "method": (lambda: Box(2.0), lambda made: made.get, of_method, set_k),
    "closure": (lambda: Box(2.0), lambda made: lambda: made.k, of_method, set_k),
    "list": (lambda: [2.0], lambda made: made, of_list, lambda made: made.insert(0, 5.0)),
    "list in a tuple": (lambda: [2.0], lambda made: (made,), of_list_in_tuple, lambda made: made.insert(0, 5.0)),
    "object in a list": (lambda: Box(2.0), lambda made: [made], of_object_in_list, set_k),
    "dict": (lambda: {"k": 2.0}, lambda made: made, of_dict, lambda made: made.update(k=5.0)),
    "set": (lambda: {1, 2}, lambda made: made, of_set, lambda made: made.add(3)),
}


def gradient(result: torch.Tensor, x: torch.Tensor) -> list[float]:
    (found,) = torch.autograd.grad(result.sum(), x)
    return list(found.tolist())


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", CASES)
def test_changed_by_the_caller(case: str, backend: str) -> None:
    make, keep, read, change = CASES[case]

    def given(x: torch.Tensor, made: Any) -> torch.Tensor:
        return Reads.apply(x, keep(made), read)

    def returned(x: torch.Tensor) -> Any:
        made = make()
        return Reads.apply(x, keep(made), read), made

    for function in (given, returned):
        found = []
        for compiler in (lambda f: f, gramme.compile(backend=backend)):
            x, made = torch.ones(2, requires_grad=True), make()
            result = compiler(function)(x, *([made] if function is given else []))
            if function is returned:
                result, made = result
            change(made)
            found.append(gradient(result, x))
        assert found[0] == found[1]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", CASES)
def test_changed_in_the_segment(case: str, backend: str) -> None:
    make, keep, read, change = CASES[case]

    def function(x: torch.Tensor) -> torch.Tensor:
        made = make()
        result = Reads.apply(x, keep(made), read)
        change(made)
        return result * 2

    x = torch.ones(2, requires_grad=True)
    compiled = gramme.compile(function, backend=backend)
    assert gradient(compiled(x), x) == gradient(function(x), x)


DEFAULT = [2.0]
NESTED = ([2.0],)


class Held:
    items = [2.0]


class ReadsDefault(Reads):
    @staticmethod
    def backward(ctx: Any, g: torch.Tensor, items: Any = DEFAULT) -> Any:
        return g * items[0], None, None


class ReadsDefaultByName(Reads):
    @staticmethod
    def backward(ctx: Any, g: torch.Tensor, *, items: Any = DEFAULT) -> Any:
        return g * items[0], None, None


class ReadsNested(Reads):
    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        return g * NESTED[0][0], None, None


class ReadsClass(Reads):
    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        return g * Held.items[0], None, None


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("function", "items"),
    [(ReadsDefault, DEFAULT), (ReadsDefaultByName, DEFAULT), (ReadsNested, NESTED[0]), (ReadsClass, Held.items)],
)
def test_containers_of_defaults_tuples_and_classes(function: type[Function], items: list[float], backend: str) -> None:
    found = []
    for compiler in (lambda f: f, gramme.compile(backend=backend)):
        items[0] = 2.0
        x = torch.ones(2, requires_grad=True)
        result = compiler(lambda x: function.apply(x, None, None))(x)
        items[0] = 5.0
        found.append(gradient(result, x))
    assert found[0] == found[1] == [5.0, 5.0]


class Plain(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.shapes, ctx.names, ctx.box = [x.shape], {"k": (2.0, [3.0])}, Box(1.5)
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        return (g * ctx.names["k"][0] * ctx.names["k"][1][0] * ctx.box.get()).view(ctx.shapes[0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_objects_that_only_the_context_has_are_captured(backend: str) -> None:
    x = torch.ones(2, requires_grad=True)
    assert gradient(gramme.compile(lambda x: Plain.apply(x), backend=backend, fullgraph=True)(x), x) == [9.0, 9.0]
