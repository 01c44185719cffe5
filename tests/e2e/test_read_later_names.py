"""Constants that a backward reads under names that the program may bind anew: those that are there when it runs."""

import types
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from torch.autograd import Function

from e2e.test_read_later import BACKENDS, Reads, gradient

SCALE, SHIFT = 2.0, (1.0, 0.5)
elsewhere = types.ModuleType("elsewhere")


elsewhere.items = [2.0]  # type: ignore[attr-defined]


class Rates:
    k = 2.0


class OpRates:
    """Named as operators of PyTorch are."""

    def __init__(self) -> None:
        self.k = 2.0


OP_RATES = OpRates()


def make_with_cell() -> tuple[type[Function], Callable[[float], None]]:
    k = 2.0

    class ReadsCell(Reads):
        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> Any:
            return g * k, None, None

    def rebind(to: float) -> None:
        nonlocal k
        k = to

    return ReadsCell, rebind


class ReadsGlobal(Reads):
    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        return g * SCALE, None, None


class ReadsTuple(Reads):
    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        return g * (SHIFT[0] * 2), None, None


class ReadsModule(Reads):
    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        return g * elsewhere.k, None, None


class ReadsItem(Reads):
    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        return g * elsewhere.items[0], None, None


class ReadsAttribute(Reads):
    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        return g * Rates.k, None, None


class ReadsOfObject(Reads):
    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        return g * OP_RATES.k, None, None


ReadsCell, rebind_cell = make_with_cell()
NAMES: dict[str, tuple[type[Function], Callable[[float], None]]] = {
    "global": (ReadsGlobal, lambda to: globals().update(SCALE=to)),
    "tuple": (ReadsTuple, lambda to: globals().update(SHIFT=(to / 2, 0.5))),
    "module": (ReadsModule, lambda to: setattr(elsewhere, "k", to)),
    "class": (ReadsAttribute, lambda to: setattr(Rates, "k", to)),
    "cell": (ReadsCell, rebind_cell),
}


REFUSED: dict[str, tuple[type[Function], Callable[[float], None]]] = {
    "item": (ReadsItem, lambda to: elsewhere.items.__setitem__(0, to)),
    "object": (ReadsOfObject, lambda to: setattr(OP_RATES, "k", to)),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", [*NAMES, *REFUSED])
def test_constants_under_names_are_those_of_backward(name: str, backend: str) -> None:
    function, rebind = (NAMES | REFUSED)[name]
    compiled = gramme.compile(lambda x: function.apply(x * 1, None, None) * 3, backend=backend)
    for _ in range(2):
        rebind(2.0)
        x = torch.ones(2, requires_grad=True)
        result = compiled(x)
        rebind(5.0)
        assert gradient(result, x) == [15.0, 15.0]


@pytest.mark.parametrize("name", NAMES)
def test_one_graph_raises_where_a_constant_was_rebound(name: str) -> None:
    function, rebind = NAMES[name]
    rebind(2.0)
    compiled = gramme.compile(lambda x: function.apply(x, None, None) * 3, backend="aot_eager", fullgraph=True)
    x = torch.ones(2, requires_grad=True)
    assert gradient(compiled(x), x) == [6.0, 6.0]
    result = compiled(x)
    rebind(5.0)
    with pytest.raises(RuntimeError, match="which the backward of an autograd.Function or a hook reads"):
        gradient(result, x)
    gramme.reset()
    assert gradient(compiled(x), x) == [15.0, 15.0]


def test_one_graph_that_writes_its_result_to_an_input() -> None:
    function, rebind = NAMES["global"]
    rebind(2.0)

    def write(x: torch.Tensor, into: torch.Tensor) -> None:
        into.mul_(function.apply(x, None, None))

    compiled = gramme.compile(write, backend="aot_eager", fullgraph=True)
    x, into = torch.ones(2, requires_grad=True), torch.ones(2)
    compiled(x, into)
    rebind(5.0)
    with pytest.raises(RuntimeError, match="SCALE"):
        gradient(into, x)


# ---- what is seldom bound anew: one graph or more, backward raises

from_module = types.ModuleType("from_module")


def by(k: float) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda g: g * k


def scaled(g: torch.Tensor) -> torch.Tensor:
    return g * 2.0


def with_default(g: torch.Tensor, k: float = 2.0) -> torch.Tensor:
    return g * k


def with_keyword(g: torch.Tensor, *, k: float = 2.0) -> torch.Tensor:
    return g * k


class Doubles:
    @staticmethod
    def apply(g: torch.Tensor) -> torch.Tensor:
        return g * 2.0


class Quintuples:
    @staticmethod
    def apply(g: torch.Tensor) -> torch.Tensor:
        return g * 5.0


def reads(read: Callable[[torch.Tensor], torch.Tensor]) -> type[Function]:
    """A Function whose backward is what is given, by its own code and names."""

    class Made(Reads):
        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> Any:
            return read(g), None, None

    return Made


def of_cell() -> tuple[Callable[[torch.Tensor], torch.Tensor], Callable[[float], None]]:
    inner = scaled

    def rebind(to: float) -> None:
        nonlocal inner
        inner = scaled if to == 2.0 else by(to)

    return lambda g: inner(g), rebind


def set_keyword(to: float) -> None:
    with_keyword.__kwdefaults__["k"] = to


read_cell, rebind_read = of_cell()
SELDOM: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], Callable[[float], None]]] = {
    "function": (lambda g: scaled(g), lambda to: globals().update(scaled=by(to))),
    "function of a module": (lambda g: from_module.scaled(g), lambda to: setattr(from_module, "scaled", by(to))),
    "function in a cell": (read_cell, rebind_read),
    "class": (lambda g: Doubles.apply(g), lambda to: globals().update(Doubles=Quintuples)),
    "default": (lambda g: with_default(g), lambda to: setattr(with_default, "__defaults__", (to,))),
    "default of a keyword": (lambda g: with_keyword(g), set_keyword),
}


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", SELDOM)
def test_what_is_seldom_bound_anew(name: str, backend: str, whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for kept in ("scaled", "Doubles"):
        monkeypatch.setitem(globals(), kept, globals()[kept])
    monkeypatch.setattr(with_default, "__defaults__", (2.0,))
    monkeypatch.setattr(with_keyword, "__kwdefaults__", {"k": 2.0})
    from_module.scaled = scaled  # type: ignore[attr-defined]
    rebind_read(2.0)
    read, rebind = SELDOM[name]
    function = reads(read)
    compiled = gramme.compile(lambda x: function.apply(x, None, None) * 3, backend=backend, fullgraph=whole)
    x = torch.ones(2, requires_grad=True)
    assert gradient(compiled(x), x) == [6.0, 6.0]
    assert gramme.statistics(compiled).captures == 1
    result = compiled(x)
    rebind(5.0)
    if backend == "aot_eager":
        with pytest.raises(RuntimeError, match="which the backward of an autograd.Function or a hook reads"):
            gradient(result, x)
    else:
        assert gradient(result, x) == [15.0, 15.0]
    assert gradient(compiled(x), x) == [15.0, 15.0]


mean = 2.0


@pytest.mark.parametrize("backend", BACKENDS)
def test_constants_of_hooks_are_those_of_backward(backend: str) -> None:
    def hooked(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y.register_hook(lambda g: g * mean)
        return y * 3

    global mean
    for compiler in (lambda f: f, gramme.compile(backend=backend)):
        mean = 2.0
        x = torch.ones(2, requires_grad=True)
        result = compiler(hooked)(x)
        mean = 5.0
        assert gradient(result, x) == [30.0, 30.0]


@pytest.mark.parametrize("backend", BACKENDS)
def test_variables_of_the_compiled_function(backend: str) -> None:
    def rebound(x: torch.Tensor) -> torch.Tensor:
        k = 2.0
        result = Reads.apply(x, None, lambda _: k)
        k = 5.0
        return result

    def kept(x: torch.Tensor) -> torch.Tensor:
        k = 2.0
        return Reads.apply(x, None, lambda _: k) * 3

    for function, whole, want in ((rebound, False, 5.0), (kept, True, 6.0)):
        x = torch.ones(2, requires_grad=True)
        compiled = gramme.compile(function, backend=backend, fullgraph=whole)
        assert gradient(compiled(x), x) == gradient(function(x), x) == [want, want]
