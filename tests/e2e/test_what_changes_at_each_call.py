"""What is another object, another id, another length or another stride at each call: one or two captures, not one for
each call until the recompile limit."""

import functools
import logging
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from torch import nn

from e2e.describe import describe
from e2e.front import GRAMME

pytestmark = pytest.mark.skipif(not GRAMME, reason="counts captures of gramme")

ROUNDS = 12


class Counting:
    """A backend that counts its graphs."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, module: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        self.graphs += 1
        return module.forward


def compare(make: Callable[[], Any], rounds: Callable[[Any, Any], Any], most: int, backend: str) -> None:
    """Equal outcomes of the rounds, of the function or module that `make` makes, in at most so many captures."""
    counting = Counting()
    one = make()
    call = gramme.compile(one, backend=counting if backend == "counting" else backend)
    found = [describe(result=rounds(one, call)) for _ in range(ROUNDS)]
    same = make()
    assert found == [describe(result=rounds(same, same)) for _ in range(ROUNDS)]
    assert gramme.statistics(call).captures <= most
    assert counting.graphs <= most


# ---- hooks that are put on and removed


def layers() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))


class Saver:
    def __init__(self) -> None:
        self.saved: list[Any] = []

    def save(self, module: nn.Module, args: Any, output: torch.Tensor) -> None:
        self.saved.append(output)

    def __call__(self, module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
        self.saved.append(output)
        return output * 2


def add(saved: list[Any], module: nn.Module, args: Any, output: torch.Tensor) -> None:
    saved.append(output)


SAVED: list[Any] = []
AGAIN = compile("hook = lambda module, args, output: SAVED.append(output)", "again", "exec")
NAMES: dict[str, Any] = {"SAVED": SAVED}


def with_a_lambda(m: nn.Sequential, call: Any) -> Any:
    saved: list[Any] = []
    handle = m[1].register_forward_hook(lambda module, args, output: saved.append(output))
    result = call(torch.ones(2, 3))
    handle.remove()
    return result, saved


def with_a_global_lambda(m: nn.Sequential, call: Any) -> Any:
    SAVED.clear()
    exec(AGAIN, NAMES)  # another function, as in a loop of a module
    handle = m[1].register_forward_hook(NAMES["hook"])
    result = call(torch.ones(2, 3))
    handle.remove()
    return result, list(SAVED)


def with_a_partial(m: nn.Sequential, call: Any) -> Any:
    saved: list[Any] = []
    handle = m[1].register_forward_hook(functools.partial(add, saved))
    result = call(torch.ones(2, 3))
    handle.remove()
    return result, saved


def with_a_method(m: nn.Sequential, call: Any) -> Any:
    saver = Saver()
    handle = m[1].register_forward_hook(saver.save)
    result = call(torch.ones(2, 3))
    handle.remove()
    return result, saver.saved


def with_an_object(m: nn.Sequential, call: Any) -> Any:
    saver = Saver()
    handle = m[1].register_forward_hook(saver)
    result = call(torch.ones(2, 3))
    handle.remove()
    return result, saver.saved


def with_two(m: nn.Sequential, call: Any) -> Any:
    saved: list[Any] = []
    first = m[1].register_forward_hook(lambda module, args, output: saved.append(1) or output + 1)
    second = m[1].register_forward_hook(lambda module, args, output: saved.append(2) or output * 3)
    before = m[0].register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    result = call(torch.ones(2, 3))
    for handle in (first, second, before):
        handle.remove()
    return result, saved


def with_keywords(m: nn.Sequential, call: Any) -> Any:
    saved: list[Any] = []
    handle = m[1].register_forward_hook(lambda *args: saved.append(len(args)), with_kwargs=True)
    result = call(torch.ones(2, 3))
    handle.remove()
    return result, saved


def with_and_without(m: nn.Sequential, call: Any) -> Any:
    plain = call(torch.ones(2, 3))
    return plain, with_a_lambda(m, call), call(torch.zeros(2, 3))


HOOKS: dict[Callable[..., Any], int] = {
    with_a_lambda: 3,
    with_a_global_lambda: 3,
    with_a_partial: 3,
    with_a_method: 3,
    with_an_object: 3,
    with_two: 3,
    with_and_without: 4,
}


@pytest.mark.parametrize("backend", ["eager", "counting"])
@pytest.mark.parametrize("rounds", HOOKS, ids=lambda rounds: rounds.__name__)
def test_hooks_put_on_and_removed(rounds: Callable[..., Any], backend: str) -> None:
    compare(layers, rounds, HOOKS[rounds], backend)


def test_hooks_with_keywords() -> None:
    compare(layers, with_keywords, 99, "eager")


def test_ids_of_hooks_that_the_program_reads() -> None:
    class Reads(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            ids = list(self._forward_hooks)
            x = x * 2 if ids and ids[0] else x
            return x, [key % 2 for key in ids], 3 in self._forward_hooks, str(ids) == str([*self._forward_hooks])

    one = Reads()
    call = gramme.compile(one, backend="eager")
    for _ in range(4):
        handle = one.register_forward_hook(lambda module, args, output: None)
        assert describe(result=call(torch.ones(2))) == describe(result=one(torch.ones(2)))
        handle.remove()


# ---- strides


def slices_of_what_grows(f: Any, call: Any) -> Any:
    return [call(torch.arange(float(n)).reshape(1, n)[:, -8:]) for n in range(1, 24)]


def columns_of_what_grows(f: Any, call: Any) -> Any:
    return [call(torch.arange(float(4 * n)).reshape(4, n)[:, :3]) for n in range(3, 16)]


def rows_from_offset_one(f: Any, call: Any) -> Any:
    return [call(torch.arange(float(n * n)).reshape(n, n)[1:, 1:]) for n in range(3, 12)]


def of_other_layouts(f: Any, call: Any) -> Any:
    made = torch.arange(24.0).reshape(1, 2, 3, 4)
    wide = torch.arange(240.0).reshape(1, 2, 3, 40)
    return [call(t) for t in (made, wide[..., :4], wide[..., 5:9], made.contiguous(memory_format=torch.channels_last))]


STRIDES: dict[Callable[..., Any], int] = {
    slices_of_what_grows: 4,
    columns_of_what_grows: 3,
    rows_from_offset_one: 3,
    of_other_layouts: 4,
}


@pytest.mark.parametrize("backend", ["eager", "native", "counting"])
@pytest.mark.parametrize("rounds", STRIDES, ids=lambda rounds: rounds.__name__)
def test_strides_that_grow(rounds: Callable[..., Any], backend: str) -> None:
    def make() -> Any:
        return lambda x: (x.sin() + 1, x.is_contiguous(), x.transpose(0, 1).reshape(-1), (x * 2).stride())

    compare(make, rounds, STRIDES[rounds], backend)


# ---- the ends of lists


def test_the_end_of_a_growing_list() -> None:
    log: list[int] = []

    def f(x: torch.Tensor, n: int) -> Any:
        log.append(n)
        return x * log[-1]

    call = gramme.compile(f, backend="eager")
    assert [call(torch.ones(1), n).item() for n in range(1, 14)] == [float(n) for n in range(1, 14)]
    assert log == [*range(1, 14)]
    assert gramme.statistics(call).captures <= 3


def test_the_end_of_a_list_that_others_grow() -> None:
    log: list[Any] = [torch.zeros(2), torch.ones(2)]

    def f(x: torch.Tensor) -> Any:
        return x + log[-1] * 2 + log[-2]

    call = gramme.compile(f, backend="eager")
    for n in range(ROUNDS):
        assert torch.equal(call(torch.ones(2)), f(torch.ones(2)))
        log.append(torch.full((2,), float(n)))
    assert gramme.statistics(call).captures <= 3
    del log[1:]
    with pytest.raises(IndexError, match="list index out of range"):
        call(torch.ones(2))


def test_a_stack() -> None:
    stack: list[Any] = []

    def f(x: torch.Tensor) -> Any:
        stack.append(x + 1)
        stack.append(2)
        return stack.pop() * stack[-1], stack.pop() - 1

    call = gramme.compile(f, backend="eager")
    for n in range(ROUNDS):
        assert describe(result=call(torch.ones(2))) == describe(result=f(torch.ones(2)))
        stack.append(n)
    assert stack == [*range(ROUNDS)]
    assert gramme.statistics(call).captures <= 2


# ---- classes that namedtuple() makes


def in_forward(x: torch.Tensor) -> Any:
    made = namedtuple("made", ["a", "b"])  # noqa: PYI024
    pair = made(x + 1, b=x.sin())
    return pair.a * pair.b + pair[0].cos() + len(pair._fields), repr(pair._fields), made.__name__, made.__module__


def given_out(x: torch.Tensor) -> Any:
    made = namedtuple("made", "a b c", defaults=(1, None))  # noqa: PYI024
    first, second = made(x + 1), made(x, 2, c="c")
    second = second._replace(a=first.a * 2)
    return first, second, made, made._make([1, 2, 3]), second._asdict(), made.__doc__, isinstance(first, tuple)


def named_anew(x: torch.Tensor) -> Any:
    made = namedtuple("made", ["def", "a", "a"], rename=True, module="elsewhere")  # noqa: PYI024
    return made(x, 1, 2)._fields, made(x, 1, 2)._2, made.__module__


def refused(x: torch.Tensor) -> Any:
    try:
        namedtuple("made", ["def"])  # noqa: PYI024
    except ValueError as error:
        return x + 1, str(error)
    return x


def below(x: torch.Tensor) -> Any:
    class Below(namedtuple("Base", "a b")):  # noqa: PYI024
        def total(self) -> Any:
            return self.a + self.b

    return Below(x, x * 2).total(), Below.__mro__[1].__name__


@pytest.mark.parametrize("backend", ["eager", "counting"])
@pytest.mark.parametrize("f", [in_forward, given_out, named_anew, refused, below], ids=lambda f: f.__name__)
def test_named_tuples(f: Callable[..., Any], backend: str) -> None:
    def text(result: Any) -> str:
        return describe(result=result)

    counting = Counting()
    call = gramme.compile(f, backend=counting if backend == "counting" else backend)
    found = [call(torch.ones(2)) for _ in range(ROUNDS)]
    want = f(torch.ones(2))
    assert {text(result) for result in found} == {text(want)}
    if f in (in_forward, given_out, named_anew):
        assert gramme.statistics(call).captures == 1
    if f is given_out:
        first, second, made, third, *_ = found[0]
        assert type(first) is type(second) is type(third) is made
        assert made is not found[1][2]
        assert made.__module__ == __name__
        assert made(1) == (1, 1, None)
        assert first._field_defaults == {"b": 1, "c": None}


# ---- loggers


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage() + " " + record.funcName)


def test_a_logger_that_writes() -> None:
    logger, lines = logging.getLogger("a_logger_that_writes"), Lines()
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(lines)

    def f(x: torch.Tensor) -> torch.Tensor:
        logger.debug("nothing of %s", x)
        x = x.sin()
        logger.info("dims %d", x.ndim)
        return x.cos() + 1

    explained = gramme.explain(f)(torch.ones(2))
    assert {segment.file for segment in explained.segments} == {__file__}
    assert len(explained.break_reasons) == 1
    call = gramme.compile(f, backend="eager")
    for _ in range(3):
        assert torch.equal(call(torch.ones(2)), torch.ones(2).sin().cos() + 1)
    assert lines.lines == ["dims 1 f"] * 4
    logger.setLevel(logging.ERROR)
    assert not gramme.explain(f)(torch.ones(2)).break_reasons
