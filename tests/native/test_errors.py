"""An operator that raises while its graph runs natively: eager's exception, the user's line, and a clean state."""

import gc
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import gramme
import pytest
import torch
import torch.nn.functional as F

native: Any = gramme._C.native


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    gramme.reset()
    torch._dynamo.reset()
    yield
    gramme.reset()
    torch._dynamo.reset()


class Case(NamedTuple):
    function: Callable[..., Any]
    good: Callable[[], tuple[torch.Tensor, ...]]
    bad: Callable[[], tuple[torch.Tensor, ...]]
    whole: bool  # can it be one graph?
    innermost: Callable[..., Any]  # where PyTorch's front end sees the operator


CASES: list[Case] = []


def case(good: Any, bad: Any, whole: bool = True, innermost: Callable[..., Any] | None = None) -> Any:
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        CASES.append(Case(function, good, bad, whole, innermost or function))
        return function

    return add


def floats(*sizes: int) -> torch.Tensor:
    return torch.linspace(-1, 1, torch.Size(sizes).numel()).reshape(sizes)


TABLE = floats(4, 3)


@case(lambda: (torch.tensor([0, 3]),), lambda: (torch.tensor([0, 4]),))
def looked_up(ids):
    scale = ids.sum() * 0.5
    rows = F.embedding(ids, TABLE)  # raises
    return rows * scale


@case(lambda: (torch.tensor([[0], [2]]),), lambda: (torch.tensor([[0], [3]]),))
def gathered(index):
    y = TABLE.exp()
    y = y.gather(1, index)  # raises
    return y + 1


@case(lambda: (torch.tensor([1, 2]),), lambda: (torch.tensor([1, 9]),))
def indexed(index):
    y = TABLE * 2
    y = y[index]  # raises
    return y.sin()


@case(lambda: (torch.eye(3),), lambda: (-torch.eye(3),))
def decomposed(matrix):
    symmetric = matrix + matrix.t()
    factor = torch.linalg.cholesky(symmetric)  # raises
    return factor @ factor.t()


@case(lambda: (torch.eye(3) * 2,), lambda: (torch.zeros(3, 3),))
def inverted_without_gradients(matrix):
    with torch.no_grad():
        y = torch.linalg.inv(matrix)  # raises
    return y + 1


@case(lambda: (torch.tensor([0, 2]),), lambda: (torch.tensor([0, 5]),))
def loss_under_autocast(target):
    with torch.autocast("cpu", torch.bfloat16):
        y = TABLE[:2] @ TABLE.t()[:, :3]
        loss = F.cross_entropy(y, target)  # raises
    return loss * 2


@case(lambda: (torch.tensor([0.5, 0.5]),), lambda: (torch.tensor([-1.0, 0.5]),))
def sampled(weights):
    noise = torch.rand(2)
    drawn = torch.multinomial(weights, 4, replacement=True)  # raises
    return drawn + noise.sum()


@case(lambda: (torch.tensor([2]), floats(3)), lambda: (torch.tensor([3]), floats(3)))
def written_before(index, state):
    state.mul_(2)
    state.index_add_(0, index, torch.ones(1))  # raises
    return state + 1


class Squared(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.linalg.cholesky(x) ** 2  # raises

    @staticmethod
    def backward(ctx, gradient):
        return gradient


@case(lambda: (torch.eye(3),), lambda: (-torch.eye(3),), whole=False, innermost=Squared.forward)
def in_python(x):
    y = x * 2
    return Squared.apply(y)  # raises


each_case = pytest.mark.parametrize("given", CASES, ids=lambda given: given.function.__name__)


def raising_line(function: Callable[..., Any]) -> int:
    lines, start = inspect.getsourcelines(function)
    return start + next(i for i, line in enumerate(lines) if "# raises" in line)


def raised_by(call: Callable[..., Any], args: tuple[torch.Tensor, ...]) -> Exception:
    torch.manual_seed(3)
    try:
        call(*args)
    except Exception as error:
        return error
    pytest.fail("nothing was raised")


def lines_here(error: Exception) -> list[tuple[int | None, str]]:
    """Where the traceback passes through functions of this file."""
    frames = traceback.extract_tb(error.__traceback__)
    return [(f.lineno, f.name) for f in frames if f.filename == __file__ and f.name not in ("raised_by", "<lambda>")]


def state() -> tuple[Any, ...]:
    return (
        torch.is_grad_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.is_inference_mode_enabled(),
        torch.get_rng_state().tolist(),
    )


def check_recovery(compiled: Callable[..., Any], given: Case) -> None:
    """The next call is right."""
    expected, found = given.good(), given.good()
    torch.manual_seed(5)
    wanted = given.function(*expected)
    torch.manual_seed(5)
    assert torch.equal(compiled(*found), wanted)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@each_case
@pytest.mark.parametrize("grad", [True, False], ids=["grad", "no_grad"])
@pytest.mark.parametrize("at_first", [True, False], ids=["recording", "replay"])
@pytest.mark.parametrize("fullgraph", [True, False], ids=["fullgraph", "segments"])
def test_as_eagerly(given: Case, fullgraph: bool, at_first: bool, grad: bool) -> None:
    compiled = gramme.compile(given.function, backend="native", fullgraph=fullgraph and given.whole)
    with torch.set_grad_enabled(grad):
        if not at_first:
            check_recovery(compiled, given)
        plainly, natively = given.bad(), given.bad()
        expected = raised_by(given.function, plainly)
        after = state()
        found = raised_by(compiled, natively)
        assert state() == after
        assert (type(found), str(found)) == (type(expected), str(expected))
        assert lines_here(found) == lines_here(expected)
        assert raising_line(given.function) in [line for line, _ in lines_here(found)]
        assert all(torch.equal(a, b) for a, b in zip(natively, plainly, strict=True))
        check_recovery(compiled, given)
        assert str(raised_by(compiled, given.bad())) == str(expected)
        check_recovery(compiled, given)


@pytest.mark.slow
@each_case
@pytest.mark.parametrize("at_first", [True, False], ids=["recording", "replay"])
def test_under_torch_compile(given: Case, at_first: bool) -> None:
    """The exception has a note of the node and of the user's line: no frame of the user's is there to name it."""
    nodes: list[str] = []

    def backend(module: Any, inputs: list[Any]) -> Any:
        nodes.extend(node.name for node in module.graph.nodes)
        return gramme.gramme_native(module, inputs)

    compiled = torch.compile(given.function, backend=backend)
    if not at_first:
        check_recovery(compiled, given)
    expected = raised_by(given.function, given.bad())
    before = state()[:3]
    found = raised_by(compiled, given.bad())
    assert state()[:3] == before
    assert (type(found), str(found)) == (type(expected), str(expected))
    (note,) = found.__notes__
    node, where = note.removeprefix("in ").split(", ", 1)
    assert node in nodes
    line, function = raising_line(given.innermost), given.innermost.__name__
    assert where == f'File "{__file__}", line {line}, in {function}'
    check_recovery(compiled, given)


@pytest.mark.slow
@each_case
@pytest.mark.parametrize("grad", [True, False], ids=["grad", "no_grad"])
def test_nothing_is_kept(given: Case, grad: bool) -> None:
    """No reference to an input is left, nor any tensor that was made."""
    compiled = gramme.compile(given.function, backend="native")
    args = given.bad()
    with torch.set_grad_enabled(grad):

        def fail() -> None:
            raised_by(compiled, args)

        def counts() -> tuple[list[int], list[int], int]:
            gc.collect()
            tensors = sum(issubclass(type(o), torch.Tensor) for o in gc.get_objects())
            return [sys.getrefcount(a) for a in args], [a._use_count() for a in args], tensors

        counts()
        for _ in range(3):
            fail()
        before = counts()
        for _ in range(20):
            fail()
        assert counts() == before


def test_the_failing_instruction_in_the_middle_frees_the_rest() -> None:
    """Values that were alive when the operator raised are not kept by the executor."""
    graph = torch.fx.symbolic_trace(lambda x, i: (x * 2)[i] + x.sum())
    call = native.from_graph_module(graph)
    x, good, bad = floats(4, 4), torch.tensor([1]), torch.tensor([9])
    call(x, good)
    counts = x._use_count(), sys.getrefcount(x)
    for _ in range(5):
        with pytest.raises(IndexError):
            call(x, bad)
        assert (x._use_count(), sys.getrefcount(x)) == counts
    assert torch.equal(call(x, good), (x * 2)[good] + x.sum())
    assert native.counters(call)["recorded"] == 1


def test_sizes_that_do_not_fit() -> None:
    """Guards let no such sizes in: the front end sees them, and the program raises as it does eagerly."""

    def f(x, y):
        return x * 2 + y  # raises

    compiled = gramme.compile(f, backend="native", fullgraph=True)
    assert torch.equal(compiled(floats(2), floats(2)), f(floats(2), floats(2)))
    expected, found = (raised_by(call, (floats(2), floats(3))) for call in (f, compiled))
    assert (type(found), str(found)) == (type(expected), str(expected))
    assert lines_here(found) == lines_here(expected)
    assert torch.equal(compiled(floats(2), floats(2)), f(floats(2), floats(2)))
