"""One operator called as an instruction of a tape, by its C++ signature and boxed."""

import concurrent.futures
import gc
from pathlib import Path
from typing import Any

import gramme
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from native.operator_calls import CALLS, OperatorCall, r

testing: Any = gramme._C.testing  # type: ignore[attr-defined]

X, W, B = r(2, 3), r(4, 3), r(4)


def made_arguments(call: OperatorCall) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The same arguments each time, and the same state of the random generator after it."""
    torch.manual_seed(0)
    keywords = {name: value() if callable(value) else value for name, value in call.keywords.items()}
    if isinstance(out := keywords.get("out"), torch.Tensor):
        keywords["out"] = torch.zeros_like(out)
    return call.arguments(), keywords


def as_results(call: OperatorCall, returned: Any) -> list[Any]:
    """What a bound operator returns: None for an argument that was written."""
    schema = call.operator._schema
    returned = [] if not schema.returns else [returned] if len(schema.returns) == 1 else list(returned)
    written = [r.alias_info is not None and r.alias_info.is_write for r in schema.returns]
    return [None if w else value for w, value in zip(written, returned, strict=True)]


def tensors_in(values: Any) -> list[torch.Tensor]:
    if isinstance(values, torch.Tensor):
        return [values]
    if isinstance(values, dict):
        values = list(values.values())
    return [t for value in values for t in tensors_in(value)] if isinstance(values, (list, tuple)) else []


def bind(call: OperatorCall, args: Any, kwargs: Any, **how: Any) -> Any:
    reference = as_results(call, call.operator(*made_arguments(call)[0], **made_arguments(call)[1]))
    lengths = [len(result) for result in reference if isinstance(result, list)]
    return testing.BoundOperator(call.name, args, kwargs, lengths=lengths, **how)


def outcome(call: OperatorCall, **how: Any) -> tuple[Any, list[torch.Tensor]]:
    args, kwargs = made_arguments(call)
    bound = bind(call, args, kwargs, **how)
    made_arguments(call)  # the random state as it is after the arguments were made
    return bound(), tensors_in((args, kwargs))


def assert_same(actual: Any, expected: Any) -> None:
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        if isinstance(e, list):
            assert_same(a, e)
        elif e is None:
            assert a is None
        else:
            torch.testing.assert_close(a, e, rtol=0, atol=0, equal_nan=True, check_stride=True)


@pytest.mark.parametrize("call", CALLS, ids=str)
class TestCalls:
    def check(self, call: OperatorCall, **how: Any) -> None:
        args, kwargs = made_arguments(call)
        expected = as_results(call, call.operator(*args, **kwargs))
        results, arguments = outcome(call, **how)
        assert_same(results, expected)
        assert_same(arguments, tensors_in((args, kwargs)))

    def test_typed(self, call: OperatorCall) -> None:
        args, kwargs = made_arguments(call)
        assert bind(call, args, kwargs).typed
        self.check(call)

    def test_boxed(self, call: OperatorCall) -> None:
        args, kwargs = made_arguments(call)
        assert not bind(call, args, kwargs, boxed=True).typed
        self.check(call, boxed=True)

    @pytest.mark.parametrize("boxed", [False, True], ids=["typed", "boxed"])
    def test_straight_to_the_kernel(self, call: OperatorCall, boxed: bool) -> None:
        with torch.no_grad():
            self.check(call, keyed=True, boxed=boxed)

    def test_arguments_are_not_kept(self, call: OperatorCall) -> None:
        args, kwargs = made_arguments(call)
        bound = bind(call, args, kwargs)
        counts = [t._use_count() for t in tensors_in((args, kwargs))]
        for _ in range(3):
            bound()
        assert [t._use_count() for t in tensors_in((args, kwargs))] == counts


def test_below_autograd_nothing_is_recorded() -> None:
    x = r(3).requires_grad_()
    (recorded,) = testing.BoundOperator("aten::mul.Tensor", (x, x))()
    (plain,) = testing.BoundOperator("aten::mul.Tensor", (x, x), keyed=True)()
    assert recorded.grad_fn is not None
    assert plain.grad_fn is None
    recorded.sum().backward()
    assert torch.equal(x.grad, 2 * x.detach())


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("aten::linear", (r(2, 3), r(4, 5), r(4))),
        ("aten::cat", ([r(2, 3), r(2)],)),
        ("aten::stack", ([r(2, 3), r(2)],)),
        ("aten::index.Tensor", (r(3), [torch.tensor([7])])),
        ("aten::einsum", ("ij,jk->ik", [r(2, 3), r(4, 4)])),
        ("aten::add_.Tensor", (r(2, 3), r(7))),
    ],
)
def test_arguments_are_not_kept_by_a_call_that_raises(name: str, arguments: tuple[Any, ...]) -> None:
    bound = testing.BoundOperator(name, arguments)
    assert bound.typed
    counts = [t._use_count() for t in tensors_in(arguments)]
    for _ in range(3):
        with pytest.raises((RuntimeError, IndexError)):
            bound()
        gc.collect()
    assert [t._use_count() for t in tensors_in(arguments)] == counts


@pytest.mark.parametrize("boxed", [False, True], ids=["typed", "boxed"])
@pytest.mark.parametrize("length", [0, 1, 2, 4])
def test_another_number_of_tensors_than_recorded(length: int, boxed: bool) -> None:
    bound = testing.BoundOperator("aten::unbind.int", (r(3, 2),), boxed=boxed, lengths=[length])
    assert bound.typed != boxed
    with pytest.raises(RuntimeError, match=f"aten::unbind.int returned 3 tensors .* returned {length}"):
        bound()


@pytest.mark.parametrize("boxed", [False, True], ids=["typed", "boxed"])
@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("aten::linear", (X, W, B), torch.nn.functional.linear(X, W, B)),
        ("aten::cat", ([X, X],), torch.cat([X, X])),
        ("aten::index.Tensor", (X, [None, torch.tensor([2, 0])]), X[:, [2, 0]]),
        ("aten::clamp.Tensor", (X, None, X * 0), X.clamp(max=0)),
    ],
    ids=["linear", "cat", "index", "clamp"],
)
def test_threads_share_an_instruction(name: str, arguments: Any, expected: torch.Tensor, boxed: bool) -> None:
    bound = testing.BoundOperator(name, arguments, boxed=boxed)
    counts = [t._use_count() for t in tensors_in(arguments)]

    def many() -> bool:
        return all(torch.equal(bound()[0], expected) for _ in range(1000))

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert all(job.result() for job in [pool.submit(many) for _ in range(8)])
    assert [t._use_count() for t in tensors_in(arguments)] == counts


def test_what_no_signature_takes_is_called_boxed() -> None:
    eigenvalues = testing.BoundOperator("aten::linalg_eigh", (torch.eye(3),))
    assert not eigenvalues.typed
    assert torch.equal(eigenvalues()[0], torch.ones(3))


def test_a_symbolic_number_is_no_constant() -> None:
    mode = FakeTensorMode(shape_env=ShapeEnv())
    size = mode.from_tensor(r(4), symbolic_context=StatelessSymbolicContext([DimDynamic.DYNAMIC])).size(0)
    assert isinstance(size, torch.SymInt)
    for name, arguments in [
        ("aten::view", (r(4), [size, 1])),
        ("aten::select.int", (r(9), 0, size)),
        ("aten::upsample_bilinear2d.vec", (r(1, 1, 2, 2), [size, size], False, None)),
        ("aten::slice.Tensor", (r(9), 0, 0, size)),
        ("aten::mul.Scalar", (r(3), size)),
    ]:
        assert not testing.BoundOperator(name, arguments).typed, name


def test_the_table_is_that_of_the_installed_torch() -> None:
    import make_native_signatures as tool

    signatures = [line for line in tool.lines(Path(torch.__file__).parent) if line.startswith("SIGNATURE")]
    assert testing.typed_signatures() == len(signatures)
