"""One description of a tensor: whoever describes it (guard, capture, tape) gets the same object for equal tensors."""

import gc
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from gramme import _C
from torch import nn

testing: Any = _C.testing  # type: ignore[attr-defined]


class Sub(torch.Tensor):
    pass


class Wrapper(torch.Tensor):
    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> "Wrapper":
        return torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined,no-any-return]
            cls, inner.shape, strides=inner.stride(), dtype=inner.dtype, dispatch_sizes_strides_policy="sizes"
        )

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError


def leaf() -> torch.Tensor:
    return torch.ones(2, 3, requires_grad=True)


def inference() -> torch.Tensor:
    with torch.inference_mode():
        return torch.ones(2, 3)


def neg_view() -> torch.Tensor:
    return torch.ones(2, 3, dtype=torch.complex64).conj().imag


DIFFERENT: dict[str, Callable[[], torch.Tensor]] = {
    "plain": lambda: torch.ones(2, 3),
    "size": lambda: torch.ones(2, 4),
    "rank": lambda: torch.ones(2, 3, 1),
    "scalar": lambda: torch.ones(()),
    "empty": lambda: torch.ones(0),
    "deep": lambda: torch.ones(1, 2, 1, 2, 1, 2, 1),
    "strides": lambda: torch.ones(3, 2).t(),
    "offset": lambda: torch.ones(7)[1:].view(2, 3),
    "dtype": lambda: torch.ones(2, 3, dtype=torch.float64),
    "device": lambda: torch.ones(2, 3, device="meta"),
    "leaf": leaf,
    "result": lambda: leaf() * 2,
    "parameter": lambda: nn.Parameter(torch.ones(2, 3)),
    "subclass": lambda: torch.ones(2, 3).as_subclass(Sub),
    "inference": inference,
    "conj": lambda: torch.ones(2, 3, dtype=torch.complex64).conj(),
    "complex": lambda: torch.ones(2, 3, dtype=torch.complex64),
    "neg": neg_view,
    "sparse": lambda: torch.ones(2, 3).to_sparse(),
    "csr": lambda: torch.ones(2, 3).to_sparse_csr(),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_guard_and_capture_describe_alike(name: str) -> None:
    one, other = DIFFERENT[name](), DIFFERENT[name]()
    described = testing.guarded_type(one)
    assert not described.symbolic
    assert not described.opaque
    for again in (testing.guarded_type(other), testing.recorded_type(one), testing.realized_type(other)):
        assert again == described
        assert again.id == described.id


def test_different_tensors_have_types_of_their_own() -> None:
    types = {name: testing.guarded_type(make()) for name, make in DIFFERENT.items()}
    assert len(set(types.values())) == len(types)


def test_a_type_of_whatever_size_is_none_of_a_size() -> None:
    x, y = torch.ones(2, 3), torch.ones(5, 3)
    assert testing.varying_type(x, 1, 0) == testing.varying_type(y, 1, 0)
    assert testing.varying_type(x, 1, 0) != testing.varying_type(y, 2, 0)
    assert testing.varying_type(x, 1, 0) != testing.guarded_type(x)
    assert testing.varying_type(x, 0, 0) == testing.guarded_type(x)
    assert testing.varying_type(x, 1, 0).symbolic
    assert repr(testing.varying_type(x, 1, 2)) == "Tensor float32[?, 3] strides [3, ?] cpu"


def test_below_autograd_gradients_are_none_of_the_type() -> None:
    plain = testing.guarded_type(torch.ones(2, 3))
    for make in (leaf, lambda: leaf() * 2, inference, lambda: nn.Parameter(torch.ones(2, 3))):
        assert testing.type_below_autograd(make()) == plain
    assert testing.type_without_autograd(leaf()) == plain
    assert testing.type_without_autograd(nn.Parameter(torch.ones(2, 3))) != plain
    assert testing.type_below_autograd(torch.ones(2, 3), False).opaque


def test_a_wrapper_has_the_type_of_what_it_wraps_in_its_own() -> None:
    seen = []

    def f(x: torch.Tensor) -> torch.Tensor:
        seen.append(testing.recorded_type(x))
        return x.sin()

    torch.vmap(f)(torch.ones(4, 2, 3))
    torch.vmap(f)(torch.ones(4, 2, 3))
    torch.vmap(f)(torch.ones(5, 2, 3))
    torch.vmap(f, in_dims=1)(torch.ones(4, 2, 3))
    torch.func.grad(lambda x: f(x).sum())(torch.ones(2, 3))
    assert seen[0] == seen[1]
    assert len({*seen[1:], testing.recorded_type(torch.ones(2, 3))}) == 5


def test_only_its_class_knows() -> None:
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    for opaque in (Wrapper(torch.ones(2, 3)), nested):
        assert testing.guarded_type(opaque).opaque
        assert testing.guarded_type(opaque) != testing.guarded_type(torch.ones(()))
        assert _C.tensor_type(opaque) is None


def test_parts_and_context_are_of_the_type() -> None:
    outside = testing.guarded_type(torch.ones(2, 3))
    one, other = testing.guarded_type(torch.ones(2)), testing.guarded_type(torch.ones(3))
    context, another = object(), object()
    assert outside.wrapping([one, other], context) == outside.wrapping([one, other], context)
    different = [
        outside,
        outside.wrapping([one]),
        outside.wrapping([one, other]),
        outside.wrapping([other, one]),
        outside.wrapping([one, other], context),
        outside.wrapping([one, other], another),
        outside.wrapping([outside.wrapping([one])]),
    ]
    assert len(set(different)) == len(different)
    assert not outside.wrapping([one]).symbolic
    assert outside.wrapping([testing.varying_type(torch.ones(2), 1, 0)]).symbolic


def test_a_class_and_a_context_live_as_long_as_types_that_name_them() -> None:
    def describe() -> tuple[Any, Any]:
        class Local(torch.Tensor):
            pass

        class Context:
            pass

        testing.guarded_type(torch.ones(2).as_subclass(Local)).wrapping([], context := Context())
        return weakref.ref(Local), weakref.ref(context)

    references = describe()
    gc.collect()
    assert all(reference() is not None for reference in references)


def test_described_again_nothing_is_kept() -> None:
    def describe_all() -> None:
        for make in DIFFERENT.values():
            testing.guarded_type(tensor := make())
            testing.recorded_type(tensor)
            testing.realized_type(tensor)

    def next_id(size: int) -> int:
        return int(testing.recorded_type(torch.empty(size, device="meta")).id)

    describe_all()
    before = next_id(10_000_019)
    for _ in range(20):
        describe_all()
    assert next_id(10_000_079) == before + 1


def test_threads_without_the_gil_find_the_same() -> None:
    tensors = [torch.empty(17, size, device="meta") for size in range(1, 300)]
    start = threading.Barrier(4)
    found: list[list[Any]] = [[] for _ in range(4)]

    def describe(mine: list[Any], order: int) -> None:
        start.wait()
        mine.extend(testing.type_below_autograd(tensor) for tensor in tensors[::order])
        if order < 0:
            mine.reverse()

    threads = [threading.Thread(target=describe, args=(found[i], -1 if i % 2 else 1)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [t.id for t in found[0]] == [t.id for t in found[1]] == [t.id for t in found[2]] == [t.id for t in found[3]]
    assert len({t.id for t in found[0]}) == len(tensors)


def test_a_child_process_describes() -> None:
    tensors = [torch.empty(19, size, device="meta") for size in range(1, 2000)]
    stop = threading.Event()

    def describe() -> None:
        while not stop.is_set():
            for tensor in tensors:
                testing.type_below_autograd(tensor)

    thread = threading.Thread(target=describe)
    thread.start()
    try:
        for _ in range(20):
            child = os.fork()
            if child == 0:
                os._exit(0 if testing.guarded_type(tensors[7]) == testing.type_below_autograd(tensors[7]) else 1)
            assert ended(child) == 0
    finally:
        stop.set()
        thread.join()


def ended(child: int) -> int | None:
    """Its exit status; None if it hangs."""
    for _ in range(1000):
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return None


def test_what_tells_tensors_apart() -> None:
    x = torch.ones(2, 3)
    assert _C.tensor_type(x) == _C.tensor_type(torch.zeros(2, 3))
    told = {_C.tensor_type(make()) for make in DIFFERENT.values()}
    assert len(told) == len(DIFFERENT)
    assert None not in told
    with pytest.raises(TypeError, match="not a tensor"):
        _C.tensor_type(3)  # type: ignore[arg-type]
