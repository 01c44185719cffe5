"""Graphs that raise after they wrote: nothing is written twice, and the exception is eager's."""

import copy
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import gramme
import pytest
import torch
from torch import nn
from torch.nn import functional as F

Program = Callable[..., Any]
BACKENDS = ["eager", "native", "aot_eager"]
T = torch.tensor
LOG: list[Any] = []
AFTER: list[Any] = []


@torch.library.custom_op("gramme_tests::refuse", mutates_args=())
def refuse(a: torch.Tensor) -> torch.Tensor:
    if a.sum() > 5:
        raise ValueError("too much")
    return a.clone()


@refuse.register_fake
def _(a: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(a)


@torch.library.custom_op("gramme_tests::write_then_refuse", mutates_args=("a",))
def write_then_refuse(a: torch.Tensor, b: torch.Tensor) -> None:
    a.add_(1)
    if b.sum() > 5:
        raise ValueError("too much")
    a.add_(1)


@torch.library.custom_op("gramme_tests::refuse_then_write", mutates_args=("a",))
def refuse_then_write(a: torch.Tensor, b: torch.Tensor) -> None:
    if b.sum() > 5:
        raise ValueError("too much")
    a.add_(1)


def state(value: Any, versions: bool = True) -> Any:
    """What can be seen of a tensor, a module or a container of them."""
    if isinstance(value, torch.Tensor):
        return value.detach().tolist(), versions and value._version
    if isinstance(value, nn.Module):
        return {name: state(tensor, versions) for name, tensor in value.state_dict().items()}
    if isinstance(value, (list, tuple)):
        return [state(item, versions) for item in value]
    return value


def outcome(program: Program, arguments: tuple[Any, ...], kept: Any, versions: bool = True) -> Any:
    """AOT counts versions its own way."""
    LOG.clear()
    AFTER.clear()
    try:
        result = state(program(*arguments), versions)
    except Exception as error:
        calls = [(entry.name, entry.lineno) for entry in traceback.extract_tb(error.__traceback__)]
        mine = [call for call in calls if call[0] not in ("outcome", "forward")]
        result = (type(error), str(error), mine)
    return result, state(kept, versions), list(LOG), list(AFTER)


def assert_same(program: Program, make: Callable[[], Any], inputs: list[Any], backend: str, captures: int = 0) -> None:
    """Each call of the compiled program ends as eager's does: result or exception, its traceback, what was written."""
    compiled = gramme.compile(program, backend=backend)
    expected_state, actual_state = make(), make()
    for given in inputs:
        versions = backend != "aot_eager"
        expected = outcome(program, (expected_state, given), expected_state, versions)
        assert outcome(compiled, (actual_state, given), actual_state, versions) == expected, given
    if captures:
        assert gramme.statistics(compiled).captures == captures


# ---- numbers and tensors that choose


def by_number(x: torch.Tensor, i: int) -> torch.Tensor:
    x.add_(1)
    return x[i]


def select(x: torch.Tensor, i: int) -> torch.Tensor:
    x.add_(1)
    return x.select(0, i)


def by_tensor(x: torch.Tensor, i: int) -> torch.Tensor:
    x.add_(1)
    return x[torch.tensor(i)]


def narrow(x: torch.Tensor, i: int) -> torch.Tensor:
    x.mul_(2).add_(1)
    return x.narrow(0, i, 1) + 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [by_number, by_tensor, select, narrow], ids=lambda p: p.__name__)
def test_an_index_out_of_range(program: Program, backend: str) -> None:
    assert_same(program, lambda: torch.zeros(4), [0, 1, 7, 2, -9, 3], backend)


# ---- buffers of modules


class Norm(nn.Module):
    def __init__(self, loss: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(2)
        self.loss = loss

    def forward(self, target: torch.Tensor) -> torch.Tensor:
        return self.loss(self.norm(torch.arange(4.0).reshape(2, 2)), target)


LOSSES = [
    lambda x, t: (x * F.one_hot(t, 2)).sum(),
    lambda x, t: F.cross_entropy(x, t),
    lambda x, t: x.gather(1, t[:, None]).sum(),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("loss", LOSSES, ids=["one_hot", "cross_entropy", "gather"])
def test_running_statistics_are_updated_once(loss: Program, backend: str) -> None:
    start = Norm(loss)

    def program(module: Norm, target: torch.Tensor) -> torch.Tensor:
        return module(target)

    assert_same(program, lambda: copy.deepcopy(start), [T([0, 1]), T([1, 0]), T([0, 7]), T([1, 1])], backend)


# ---- custom operators, out of memory


def custom(x: torch.Tensor, a: float) -> torch.Tensor:
    x.add_(1)
    return refuse(torch.full((2,), a))


def custom_writes(x: torch.Tensor, a: float) -> torch.Tensor:
    y = x * 2
    write_then_refuse(x, torch.full((2,), a))
    return x + y


def custom_writes_late(x: torch.Tensor, a: float) -> torch.Tensor:
    x.mul_(2)
    refuse_then_write(x, torch.full((2,), a))
    return x + 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [custom, custom_writes, custom_writes_late], ids=lambda p: p.__name__)
def test_custom_operators(program: Program, backend: str) -> None:
    compiled = gramme.compile(program, backend=backend)
    for a in (1.0, 9.0, 9.0, 2.0):
        seen = []
        for call in (program, compiled):
            x = torch.zeros(1)
            try:
                seen.append(state(call(x, a), versions=False))
            except ValueError as error:
                seen.append(str(error))
            seen.append(x.tolist())
        assert seen[:2] == seen[2:]


def contiguous(x: torch.Tensor, n: int) -> torch.Tensor:
    x.add_(1)
    return torch.ones(1).expand(n, 1 << 40).contiguous()


def helper(n: int) -> torch.Tensor:
    big = torch.ones(1).expand(n, 1 << 40)
    return big + 1


def inlined(x: torch.Tensor, n: int) -> torch.Tensor:
    x.add_(1)
    return helper(n)


def between(x: torch.Tensor, n: int) -> torch.Tensor:
    LOG.append("before")
    x.add_(1)
    y = torch.ones(1).repeat(n, 1 << 40)
    AFTER.append("after")
    return y.sum() + x.add_(10)


def before_the_write(x: torch.Tensor, n: int) -> torch.Tensor:
    y = torch.ones(1).repeat(n, 1 << 40)
    x.add_(1)
    return y


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("program", [contiguous, inlined, between, before_the_write], ids=lambda p: p.__name__)
def test_out_of_memory(program: Program, backend: str) -> None:
    assert_same(program, lambda: torch.zeros(1), [1 << 10] * 3, backend)


def handled(x: torch.Tensor, n: int) -> Any:
    x.add_(1)
    try:
        y = x.new_zeros(n)
    except RuntimeError as error:
        return type(error).__name__, x.add_(10)
    return y.sum() + x


def handled_by_the_caller(x: torch.Tensor, n: int) -> Any:
    x.mul_(2)
    try:
        return handled_twice(x, n)
    except RuntimeError:
        return x.add_(100)


def handled_twice(x: torch.Tensor, n: int) -> torch.Tensor:
    try:
        return torch.ones(n) + x.add_(1)
    finally:
        x.add_(3)


def handled_in_a_with(x: torch.Tensor, n: int) -> Any:
    x.add_(1)
    with suppress(RuntimeError):
        return torch.full((n,), 2.0).sum()
    return x.add_(7)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [handled, handled_by_the_caller, handled_in_a_with], ids=lambda p: p.__name__)
def test_out_of_memory_that_the_program_handles(program: Program, backend: str) -> None:
    compiled = gramme.compile(program, backend=backend)
    for n in (2, 3, 1 << 50, 4, 1 << 50):
        seen = []
        for call in (program, compiled):
            x = torch.zeros(1)
            seen.append((str(call(x, n)), x.item()))
        assert seen[0] == seen[1]


@pytest.mark.parametrize("program", [contiguous, inlined, between], ids=lambda p: p.__name__)
def test_out_of_memory_in_a_backend_of_others(program: Program) -> None:
    """Where the graph raised is not known, but the writes are not made again."""
    compiled = gramme.compile(program, backend="aot_eager")
    x = torch.zeros(1)
    for _ in range(3):
        before = x.item()
        with pytest.raises(RuntimeError, match="memory"):
            compiled(x, 1 << 10)
        assert x.item() in (before, before + 1)


# ---- what shares memory with what is written


def through_a_view(x: torch.Tensor, i: int) -> torch.Tensor:
    x[1:].add_(1)
    return F.embedding(torch.tensor([i]), x.reshape(4, 1))


def through_data(x: torch.Tensor, i: int) -> torch.Tensor:
    x.data.add_(1)
    return x[torch.tensor(i)]


def through_detached(x: torch.Tensor, i: int) -> torch.Tensor:
    x.detach()[:2].mul_(2)
    return x.sum() + torch.ones(3).index_select(0, torch.tensor([i]))


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("needs_grad", [False, True], ids=["plain", "leaf"])
@pytest.mark.parametrize("program", [through_a_view, through_data, through_detached], ids=lambda p: p.__name__)
def test_writes_through_others(program: Program, needs_grad: bool, backend: str) -> None:
    def make() -> torch.Tensor:
        return torch.arange(4.0).requires_grad_(needs_grad and program is not through_a_view)

    assert_same(program, make, [0, 1, 9, 2, 11], backend)


def two_names(x: list[torch.Tensor], i: int) -> torch.Tensor:
    x[0].add_(1)
    x[1].mul_(3)
    return x[1][torch.tensor(i)]


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("slices", [(slice(0, 4), slice(2, 6)), (slice(2, 4), slice(0, 6)), (slice(6), slice(6))])
def test_an_alias_among_the_inputs(slices: tuple[slice, slice], backend: str) -> None:
    def make() -> list[torch.Tensor]:
        base = torch.arange(6.0)
        return [base[part] for part in slices] + [base]

    assert_same(two_names, make, [0, 1, 9, 1, -9], backend)


# ---- what cannot be put back


def product(x: torch.Tensor, i: int) -> torch.Tensor:
    y = x * 2
    y.mul_(3)
    x.mul_(3)
    return F.embedding(torch.tensor([i]), torch.ones(4, 3)) + x.sum()


def product_in_a_try(x: torch.Tensor, i: int) -> Any:
    x.mul_(3)
    try:
        return F.embedding(torch.tensor([i]), torch.ones(4, 3)) + x.sum()
    except IndexError:
        LOG.append("handled")
        return x + 1


def product_with_finally(x: torch.Tensor, i: int) -> Any:
    x.mul_(3)
    try:
        return F.embedding(torch.tensor([i]), torch.ones(4, 3)) + x.sum()
    finally:
        LOG.append("left")
        x.mul_(2)


def product_suppressed(x: torch.Tensor, i: int) -> Any:
    with suppress(IndexError):
        x.mul_(3)
        return F.embedding(torch.tensor([i]), torch.ones(4, 3)) + x.sum()
    return x * 7


def look_up(i: int) -> torch.Tensor:
    return F.embedding(torch.tensor([i]), torch.ones(4, 3))


def product_in_a_callee(x: torch.Tensor, i: int) -> Any:
    LOG.append("begun")
    x.mul_(3)
    LOG.append("written")
    return look_up(i) + x.sum()


def resized(x: torch.Tensor, i: int) -> torch.Tensor:
    x.unsqueeze_(0)
    return F.embedding(torch.tensor([i]), torch.ones(4, 3)) + x.sum()


KEPT = [
    product,
    product_in_a_try,
    product_with_finally,
    product_suppressed,
    product_in_a_callee,
    resized,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", KEPT, ids=lambda p: p.__name__)
def test_an_input_that_is_not_put_back(program: Program, backend: str) -> None:
    compiled = gramme.compile(program, backend=backend)
    for i in (0, 1, 9, 2, 9):
        seen = []
        for call in (program, compiled):
            leaf = torch.ones(2, requires_grad=True)
            x = leaf * 2
            result, *rest = outcome(call, (x, i), x, backend != "aot_eager")
            seen.append([result[:2], *rest])
        assert seen[0] == seen[1], i


def test_the_traceback_is_the_programs() -> None:
    def program(x: torch.Tensor, i: int) -> Any:
        x.mul_(3)
        y = look_up(i)
        return y + x.sum()

    compiled = gramme.compile(program, backend="eager")
    shown = []
    for call in (program, compiled, compiled):
        x = torch.ones(2, requires_grad=True) * 2
        with pytest.raises(IndexError) as caught:
            call(x, 9)
        entries = traceback.extract_tb(caught.value.__traceback__)
        shown.append([(entry.filename, entry.name, entry.lineno) for entry in entries][1:])
        assert x.tolist() == [6.0, 6.0]
    assert shown[0] == shown[1] == shown[2]
    assert gramme.statistics(compiled).segments == 1


# ---- one write, many ways to raise: (operation, arguments that it takes, one that it refuses)

REFUSALS: dict[str, tuple[Program, list[Any], Any]] = {
    "one_hot": (lambda a: F.one_hot(a, 3), [T([0, 1])], T([7, 1])),
    "pinv": (torch.linalg.pinv, [torch.eye(2)], torch.full((2, 2), float("nan"))),
    "searchsorted": (
        lambda a: torch.searchsorted(torch.arange(3.0), torch.ones(2), sorter=a),
        [T([0, 1, 2])],
        T([9, 1, 2]),
    ),
    "item of a list": (lambda a: torch.arange(3.0)[a], [0, 1, 2], 9),
    "select": (lambda a: torch.arange(3.0).select(0, a), [0, 1, 2], 9),
    "narrow": (lambda a: torch.arange(3.0).narrow(0, a, 1), [0, 1, 2], 9),
    "fill_": (lambda a: torch.zeros(2, dtype=torch.uint8).fill_(a), [0, 1, 2], 999),
    "full": (lambda a: torch.full((2,), a, dtype=torch.int8), [0, 1, 2], 999),
    "masked_fill": (lambda a: torch.zeros(2, dtype=torch.uint8).masked_fill(T([True, False]), a), [T(1), T(2)], T(999)),
    "uint8 + big": (lambda a: torch.zeros(2, dtype=torch.uint8) + a, [0, 1, 2], 2**70),
    "add(alpha=)": (lambda a: torch.add(torch.zeros(2, dtype=torch.int8), 1, alpha=a), [0, 1, 2], 999),
    "normal_": (lambda a: torch.zeros(2).normal_(0.0, a), [1.0, 2.0, 3.0], -1.0),
    "uniform_": (lambda a: torch.zeros(2).uniform_(0.0, a), [1.0, 2.0, 3.0], -1.0),
    "bernoulli_": (lambda a: torch.zeros(2).bernoulli_(a), [0.1, 0.2, 0.3], -1.0),
    "dropout": (lambda a: F.dropout(torch.ones(2), a), [0.1, 0.2, 0.3], -1.0),
    "int ** n": (lambda a: T([1, 2]) ** a, [1, 2, 3], -1),
    "int // n": (lambda a: T([1, 2]) // a, [1, 2, 3], 0),
    "int // tensor": (lambda a: T([1, 2]) // a, [T([1, 2]), T([2, 2])], T([0, 1])),
    "arange(step)": (lambda a: torch.arange(0, 3, a), [1, 2, 3], 0),
    "roll": (lambda a: torch.arange(3).roll(a), [1, 2, 3], 2**70),
    "10. ** a": (lambda a: torch.ones(2) * (10.0**a), [1.0, 2.0, 3.0], 1e9),
    "a * a": (lambda a: torch.ones(2) * (a * a), [1, 2, 3], 2**600),
    "7 % a": (lambda a: torch.ones(2) * (7 % a), [1, 2, 3], 0),
    "embedding": (lambda a: F.embedding(a, torch.ones(3, 2)), [T([0, 1])], T([7, 1])),
    "cholesky": (torch.linalg.cholesky, [torch.eye(2)], -torch.eye(2)),
    "linspace": (lambda a: torch.linspace(a, T(9.0), 3, dtype=torch.int64), [T(1.0), T(2.0)], T(1e30)),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", REFUSALS)
def test_a_write_before_what_refuses(name: str, backend: str) -> None:
    operation, good, bad = REFUSALS[name]

    def program(x: torch.Tensor, a: Any) -> Any:
        x.add_(1)
        return operation(a)

    def guarded(x: torch.Tensor, a: Any) -> Any:
        x.add_(1)
        try:
            return operation(a)
        except Exception as error:
            return type(error).__name__

    for call in (program, guarded) if isinstance(bad, torch.Tensor) else (program,):
        compiled = gramme.compile(call, backend=backend)
        x = torch.zeros(1)
        for n, a in enumerate([*good * 2, bad, good[0], bad], 1):
            seen = []
            for attempt in (lambda a: call(torch.zeros(1), a), lambda a: compiled(x, a)):
                try:
                    result = attempt(a)
                    seen.append(result if isinstance(result, str) else "a tensor")
                except Exception as error:
                    seen.append(f"raised {type(error).__name__}")
            assert x.item() == n, a
            assert seen[0] == seen[1], a


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_frames_of_the_traceback_can_be_looked_into(backend: str, deep: bool) -> None:
    """As debuggers, pytest and `traceback.TracebackException(capture_locals=True)` do."""
    wrong = False

    @torch.compiler.allow_in_graph
    def raises(x: torch.Tensor) -> torch.Tensor:
        if wrong:
            raise KeyError("wrong")
        return x + 1

    def inner(x: torch.Tensor) -> torch.Tensor:
        return raises(x) * 2

    def outer(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return inner(x) if deep else raises(x)

    compiled = gramme.compile(outer, backend=backend)
    compiled(torch.ones(2))
    wrong = True
    with pytest.raises(KeyError) as caught:
        compiled(torch.ones(2))
    frames = [entry.frame for entry in caught.traceback]
    names = [frame.code.name for frame in frames]
    assert names[1 : 2 + deep] == ["outer", "inner"][: 1 + deep]
    assert all(isinstance(frame.f_locals, Mapping) for frame in frames)
    text = traceback.TracebackException.from_exception(caught.value, capture_locals=True).format()
    assert "KeyError: 'wrong'" in "".join(text)


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("columns", [False, True])
def test_a_kernel_that_gives_other_sizes_before_it_raises(columns: bool, backend: str) -> None:
    """It lies as it did when its content is put back; then eager raises its own exception."""

    def program(out: torch.Tensor) -> torch.Tensor:
        a, b = torch.eye(3), torch.ones(3, 1)
        return torch.linalg.solve_triangular(a, b, upper=True, unitriangular=True, out=out)

    def run(function: Program) -> Any:
        out = (torch.ones(3, 4)[:, 1:2] if columns else torch.ones(3, 1)).double()
        with pytest.raises(RuntimeError) as raised:
            function(out)
        return type(raised.value), str(raised.value), out.shape, out.stride(), state(out)

    compiled = gramme.compile(program, backend=backend)
    for _ in range(2):
        assert run(compiled) == run(program)


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize(
    "write",
    [
        lambda a, b: a.copy_(b),
        lambda a, b: a.fill_(3),
        lambda a, b: a.zero_(),
        lambda a, b: a.add_(b),
        lambda a, b: a.copy_(b).mul_(2),
        lambda a, b: a.T.copy_(b),
        lambda a, b: a[0].fill_(1),
        lambda a, b: (a.zero_(), b.add_(1)),
        lambda a, b: a.normal_(),
        lambda a, b: torch.add(a, b, out=a),
    ],
)
def test_writes_count_once(write: Any, backend: str, inference: bool) -> None:
    """An assertion that fails in the graph: the program runs from the start, and nothing tells that the graph did."""

    def f(a: torch.Tensor, b: torch.Tensor) -> None:
        write(a, b)
        if (b > 0).any():
            raise ValueError("above")

    def outcomes(call: Any) -> Any:
        found = []
        for sign in (1, -1, 1, 1):
            torch.manual_seed(0)
            a, b = torch.zeros(2, 2), sign * torch.ones(2, 2)
            raised = ""
            try:
                with torch.inference_mode(inference):
                    call(a, b)
            except ValueError as error:
                raised = str(error)
            found.append((a.tolist(), b.tolist(), a._version, b._version, raised))
        return found

    assert outcomes(gramme.compile(f, backend=backend)) == outcomes(f)
