"""Inferred metadata against running the call for real."""

import contextlib
import operator
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from graph.binding import testing
from graph.calls import CASES, Case

infer = testing.infer

# Fakes have no address, and empty memory no version.
MODES: dict[str, Callable[[], Any]] = {
    "grad": contextlib.nullcontext,
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
}


def metadata(t: torch.Tensor) -> dict[str, Any]:
    return {
        "type": type(t),
        "dtype": t.dtype,
        "device": t.device,
        "layout": t.layout,
        "shape": tuple(t.shape),
        "stride": t.stride(),
        "offset": t.storage_offset(),
        "requires_grad": t.requires_grad,
        "is_leaf": t.is_leaf,
        "is_inference": t.is_inference(),
        "is_conj": t.is_conj(),
        "is_neg": t.is_neg(),
    }


def tensors(tree: Any) -> Iterator[torch.Tensor]:
    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, dict):
        yield from tensors(list(tree.values()))
    elif isinstance(tree, list | tuple):
        for item in tree:
            yield from tensors(item)


def storage(t: torch.Tensor) -> int:
    return t.untyped_storage()._cdata


def compare(described: dict[str, Any], value: Any, leaves: list[torch.Tensor]) -> None:
    if isinstance(value, torch.Tensor):
        assert described["kind"] == "tensor"
        assert described["record"] == metadata(value)
        same = [i for i, leaf in enumerate(leaves) if leaf is value]
        assert described["same_as"] == (same[0] if same else -1)
        viewed = [i for i, leaf in enumerate(leaves) if storage(leaf) == storage(value)]
        assert described["view_of"] == (viewed[0] if viewed else -1)
    elif described["kind"] == "sequence":
        assert described["object"] is type(value)
        assert len(described["items"]) == len(value)
        for item, part in zip(described["items"], value, strict=True):
            compare(item, part, leaves)
    else:
        assert described["kind"] == "constant"
        assert type(described.get("object")) is type(value)
        assert described.get("object") == value


def run(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if isinstance(target, str):
        return getattr(args[0], target)(*args[1:], **kwargs)
    return target(*args, **kwargs)


def version(t: torch.Tensor) -> int:
    return 0 if t.is_inference() else t._version


def snapshot(t: torch.Tensor) -> tuple[Any, ...]:
    return metadata(t), version(t), t.detach().clone().reshape(-1)


def written(t: torch.Tensor, before: tuple[Any, ...]) -> bool:
    """As far as can be seen from outside; the data shows writes without a version."""
    data = t.detach().reshape(-1)
    same_data = data.shape == before[2].shape and torch.allclose(data, before[2], 0, 0, equal_nan=True)
    return metadata(t) != before[0] or version(t) != before[1] or not same_data


UNSEEN = {"detach_"}  # does nothing in inference mode


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])
@pytest.mark.filterwarnings("ignore")
def test_infer_is_eager(case: Case, mode: str) -> None:
    args, kwargs = case.make()
    with MODES[mode]():
        check(case, args, kwargs)


def check(case: Case, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    leaves = list(tensors([args, kwargs]))
    grad, random = torch.is_grad_enabled(), torch.get_rng_state()
    outcome = infer(case.target, *args, **kwargs)
    assert torch.equal(torch.get_rng_state(), random)
    assert torch.is_grad_enabled() == grad
    assert sys.exc_info()[1] is None
    before = [snapshot(leaf) for leaf in leaves]
    failure = None
    try:
        value = run(case.target, args, kwargs)
    except Exception as error:
        failure = error
    assert outcome["error"] == (failure is not None), outcome["message"] or failure
    if failure:
        assert "Error: " in outcome["message"]
        return
    compare(outcome["result"], value, leaves)
    first: dict[int, int] = {}
    for i, leaf in enumerate(leaves):
        if first.setdefault(id(leaf), i) == i and written(leaf, before[i]):
            assert i in outcome["mutations"]
    for i, record in outcome["mutations"].items():
        assert record == metadata(leaves[i])
        assert written(leaves[i], before[i]) or leaves[i].is_inference() or case.name in UNSEEN
    assert outcome["random"] == (not torch.equal(torch.get_rng_state(), random))


# ---- what the rest of gramme relies on


def test_data_dependent_results_are_errors() -> None:
    x = torch.ones(3)
    calls = [("item", x[0]), ("tolist", x), ("nonzero", x), (bool, x[0]), (operator.getitem, x, x > 0)]
    for target, *args in [*calls, (torch.tensor_split, x, torch.tensor([1]))]:
        outcome = infer(target, *args)
        assert outcome["error"]
        assert outcome["data_dependent"], outcome["message"]


def test_may_raise() -> None:
    x, i = torch.rand(3, 3), torch.tensor([0, 1])
    yes = [
        (operator.getitem, x, i),
        ("index_select", x, 0, i),
        (torch.gather, x, 0, i[None]),
        (torch.linalg.cholesky, x),
        (torch.linalg.inv, x),
        (F.embedding, i, x),
        (F.cross_entropy, x[:2], i),
        (F.binary_cross_entropy, x, x),
        (torch.multinomial, x, 1),
        (operator.floordiv, i, i),
        (operator.mod, i, i),
        (operator.setitem, x, i, 0.0),
        ("scatter_", x, 0, i[None], 1.0),
        (F.one_hot, i, 3),
        (torch.searchsorted, x, x),
        (torch.linalg.pinv, x),
        ("fill_", i.to(torch.uint8), 999),
    ]
    no = [
        (operator.add, x, x),
        (operator.floordiv, i, 2),
        (operator.floordiv, x, x),
        (operator.getitem, x, 0),
        (F.linear, x, x),
        (F.dropout, x),
        (torch.div, i, 2),
        (operator.setitem, x, 0, 0.0),
        (F.softmax, x, -1),
        ("fill_", i, 999),
        ("addcdiv_", x, x, x),
        (torch._foreach_add, [x, x], 1.0),
        (F.batch_norm, x, x[0], x[1], None, None, True),
        (F.conv1d, x[None], x[None]),
        (F.scaled_dot_product_attention, x, x, x),
    ]
    for target, *args in yes:
        assert infer(target, *args)["may_raise"], target
    for target, *args in no:
        assert not infer(target, *args)["may_raise"], target


def test_attention_is_random_only_with_dropout() -> None:
    q = torch.rand(1, 2, 4, 8)
    assert not infer(F.scaled_dot_product_attention, q, q, q)["random"]
    assert infer(F.scaled_dot_product_attention, q, q, q, dropout_p=0.5)["random"]


def test_state_is_not_set() -> None:
    outcome = infer(torch._C._set_grad_enabled, False)
    assert torch.is_grad_enabled()
    assert outcome["result"]["kind"] == "constant"
    assert outcome["result"]["object"] is None


def test_random_state_stays_when_a_kernel_runs_on_zeros() -> None:
    before = torch.get_rng_state()
    for target, *args in [(torch.randperm, 5), (torch.multinomial, torch.ones(4), 2), (torch.normal, 0.0, 1.0, (3,))]:
        infer(target, *args)
        assert torch.equal(torch.get_rng_state(), before)


class TestNumbers:
    def test_results_are_numbers(self) -> None:
        n = testing.RunTimeNumber(3)
        result = infer(operator.add, n, 2)["result"]
        assert result["kind"] == "number"
        assert result["object"] is int
        assert infer(operator.truediv, n, 2)["result"]["object"] is float
        assert infer(operator.lt, n, 2)["result"]["object"] is bool

    def test_arguments_of_tensor_calls(self) -> None:
        x = torch.ones(2, dtype=torch.int32)
        assert infer(operator.mul, x, testing.RunTimeNumber(3))["result"]["record"]["dtype"] is torch.int32
        assert infer(operator.mul, x, testing.RunTimeNumber(3.0))["result"]["record"]["dtype"] is torch.float32
        assert infer(torch.ones, testing.RunTimeNumber(4))["result"]["record"]["shape"] == (4,)


def misses(target: Any, *args: Any, **kwargs: Any) -> int:
    before = testing.infer_statistics()[1]
    infer(target, *args, **kwargs)
    return testing.infer_statistics()[1] - before


class TestMemo:
    def test_scalar_values_do_not_matter_to_arithmetic(self) -> None:
        x = torch.ones(7, 1, 3)
        assert misses(operator.add, x, 1.0) == 1
        assert misses(operator.add, x, 2.0) == 0
        assert misses(operator.add, x, 2) == 1
        assert misses(operator.add, x, 3) == 0
        assert misses(operator.add, x, 2**80) == 1
        assert misses(operator.add, x, True) == 1
        assert misses("mul_", torch.ones(7, 1, 3), 0.5) == 1
        assert misses("mul_", torch.ones(7, 1, 3), 0.25) == 0

    def test_scalar_values_matter_elsewhere(self) -> None:
        x = torch.ones(7, 1, 4)
        assert misses("sum", x, 0) == 1
        assert misses("sum", x, 1) == 1
        assert misses("sum", x, 0) == 0
        assert misses(torch.full, (3,), 1.0) == 1
        assert misses(operator.getitem, x, slice(0, 2)) == 1
        assert misses(operator.getitem, x, slice(0, 3)) == 1
        assert misses(operator.getitem, x, slice(0, 3)) == 0

    def test_aliasing_matters(self) -> None:
        x, y = torch.ones(7, 1, 5), torch.ones(7, 1, 5)
        assert misses(operator.mul, x, y) == 1
        assert misses(operator.mul, x, x) == 1
        assert misses(operator.mul, y, x) == 0

    def test_state_of_the_thread_matters(self) -> None:
        x = torch.ones(7, 1, 6, requires_grad=True)
        assert misses("relu", x) == 1
        with torch.no_grad():
            assert misses("relu", x) == 1
            assert infer("relu", x)["result"]["record"]["requires_grad"] is False
        with torch.autocast("cpu"):
            assert misses("relu", x) == 1
        assert misses("relu", x) == 0
        torch.set_default_dtype(torch.float64)
        try:
            assert misses(operator.truediv, torch.ones(7, 1, 6, dtype=torch.int64), 2) == 1
        finally:
            torch.set_default_dtype(torch.float32)

    def test_records_matter(self) -> None:
        x = torch.ones(7, 7)
        assert misses("exp", x) == 1
        for other in [x.t(), x[1:], x.double(), x.clone().requires_grad_(), x * torch.ones(7, requires_grad=True)]:
            assert misses("exp", other) == 1
            assert misses("exp", other) == 0

    def test_equal_strings_and_devices_are_one(self) -> None:
        x = torch.ones(7, 8)
        assert misses(torch.einsum, "ij->ji", x) == 1
        assert misses(torch.einsum, "".join(["ij", "->", "ji"]), x) == 0
        assert misses("to", x, torch.device("cpu")) == 1
        assert misses("to", x, torch.device("cpu")) == 0

    def test_errors_are_remembered(self) -> None:
        x = torch.ones(7, 9)
        assert misses(operator.add, x, torch.ones(5)) == 1
        assert misses(operator.add, x, torch.ones(5)) == 0

    def test_warnings_turned_into_errors_are_not_remembered(self) -> None:
        x = torch.ones(7, 10)

        def warn(t: torch.Tensor) -> torch.Tensor:
            raise DeprecationWarning("no")

        assert misses(warn, x) == 1
        assert misses(warn, x) == 1

    def test_interrupts_pass(self) -> None:
        def interrupted(t: torch.Tensor) -> torch.Tensor:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            infer(interrupted, torch.ones(7, 11))

    def test_python_functions_nest(self) -> None:
        real = torch.ones(7, 12)

        def nested(t: torch.Tensor) -> torch.Tensor:
            return t.reshape(infer(operator.add, real, 1.5)["result"]["record"]["shape"])

        assert infer(nested, torch.ones(12, 7))["result"]["record"]["shape"] == (7, 12)

    def test_threads(self) -> None:
        failures: list[BaseException] = []

        def work(n: int) -> None:
            try:
                for i in range(20):
                    x = torch.ones(8, n + 1, i + 1)
                    assert infer("flatten", x)["result"]["record"]["shape"] == (8 * (n + 1) * (i + 1),)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures

    def test_shared_fakes_are_not_spoilt_by_writes(self) -> None:
        x = torch.ones(9, 2)
        for _ in range(2):
            assert infer("t_", x)["mutations"][0]["shape"] == (2, 9)
            assert infer("exp", x)["result"]["record"]["shape"] == (9, 2)
            infer("add_", x, torch.ones(9, 2, requires_grad=True))
            assert infer("cos", x)["result"]["record"]["requires_grad"] is False


def test_no_log_of_failing_operators(capfd: pytest.CaptureFixture[str]) -> None:
    infer(torch.bmm, torch.ones(9, 3), torch.ones(9, 4))
    infer(torch.conv2d, torch.ones(9, 3, 2, 2), torch.ones(9, 4, 1, 1))
    assert "failed while" not in capfd.readouterr().err


class TestInferenceTensors:
    def test_in_inference_mode(self) -> None:
        with torch.inference_mode():
            t = torch.ones(3, 11)
            assert infer("exp", t)["result"]["record"]["is_inference"]
            assert infer("view", t, -1)["result"]["record"]["is_inference"]
            outcome = infer("add_", t, 1)
            assert outcome["mutations"][0]["is_inference"]
            assert outcome["result"]["same_as"] == 0
            assert infer("t_", t)["mutations"][0]["shape"] == (11, 3)
            assert 0 in infer(operator.setitem, t, 0, 1.0)["mutations"]

    def test_outside(self) -> None:
        with torch.inference_mode():
            t = torch.ones(3, 11)
        assert infer("add_", t, 1)["error"]
        assert not infer("exp", t)["result"]["record"]["is_inference"]
        assert infer("mul", t, torch.ones(3, 11, requires_grad=True))["error"]


def test_tensors_that_are_not_modelled() -> None:
    class Sub(torch.Tensor):
        pass

    for t in (torch.ones(2).as_subclass(Sub), torch.eye(2).to_sparse()):
        outcome = infer(operator.add, t, t)
        assert outcome["error"]
        assert not outcome["data_dependent"]
        assert outcome["message"].startswith("a tensor argument is ")
    assert infer("to_sparse", torch.eye(2))["message"] == "the result has the layout Sparse"
    assert infer(getattr, inner_tensor(), "grad_fn")["error"]


def inner_tensor() -> torch.Tensor:
    return torch.ones(2, requires_grad=True) * 2
