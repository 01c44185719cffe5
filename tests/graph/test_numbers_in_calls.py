"""The closed list of calls whose outcome depends on no Python number in them, against the operators themselves."""

import operator
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from graph.binding import testing

TABLE = Path(__file__).parents[2] / "src/torch/2_13/torch_targets.def"
NARROW = 2.0**30
DTYPES = [
    *(torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.complex64),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
]
INF, NAN = float("inf"), float("nan")
# Numbers by what is known of them: the type, the bound, and values that it admits.
NUMBERS: list[tuple[float, list[Any]]] = [
    (NARROW, [2, 0, 1, -1, 2**30, -(2**30), 255, 65505]),
    (NARROW, [1.5, 0.0, 1.0, -1.0, 2.0**30, -(2.0**30), 65505.0, -0.5, 1e-300]),
    (2.0**62, [2, 0, 2**40, 2**62, -(2**62)]),
    (2.0**125, [1.5, 0.0, 2.0**125, -(2.0**125)]),
    (INF, [1.5, 0.0, 1e300, INF, -INF, NAN]),
    (1, [True, False]),
]

Call = Callable[[Any, Any], tuple[Any, tuple[Any, ...], dict[str, Any]]]


def binary(name: str) -> dict[str, Call]:
    calls: dict[str, Call] = {}
    if of_torch := getattr(torch, name, None):
        calls[f"torch.{name}(x, n)"] = lambda x, n: (of_torch, (x, n), {})
        calls[f"torch.{name}(n, x)"] = lambda x, n: (of_torch, (n, x), {})
        calls[f"torch.{name}(x, other=n)"] = lambda x, n: (of_torch, (x,), {"other": n})
        calls[f"torch.{name}(input=x, other=n)"] = lambda x, n: (of_torch, (), {"input": x, "other": n})
        calls[f"torch.{name}(x, x, alpha=n)"] = lambda x, n: (of_torch, (x, x), {"alpha": n})
        calls[f"torch.{name}(x, n, x)"] = lambda x, n: (of_torch, (x, n, x), {})
        calls[f"torch.{name}(x, n, rounding_mode='floor')"] = lambda x, n: (
            of_torch,
            (x, n),
            {"rounding_mode": "floor"},
        )
    if plain := getattr(operator, name, None):
        calls[f"operator.{name}(x, n)"] = lambda x, n: (plain, (x, n), {})
        calls[f"operator.{name}(n, x)"] = lambda x, n: (plain, (n, x), {})
    if in_place := getattr(operator, "i" + name, None):
        calls[f"operator.i{name}(x, n)"] = lambda x, n: (in_place, (x, n), {})
    for method in (name, name + "_", f"__{name}__", f"__r{name}__", f"__i{name}__"):
        if hasattr(torch.Tensor, method):
            calls[f"x.{method}(n)"] = lambda x, n, m=method: (getattr(torch.Tensor, m), (x, n), {})
    return calls


ARITHMETIC = (
    "add sub subtract rsub mul multiply div divide truediv true_divide eq ne not_equal lt less le less_equal gt"
)
OTHERS = "greater ge greater_equal mod remainder fmod floordiv floor_divide pow clamp_min clamp_max fill"
UNLISTED = "atan2 hypot bitwise_and bitwise_left_shift ldexp copysign lshift rshift and_ or_ xor select"


FUSED = {
    "amsgrad": False,
    "lr": 0.1,
    "beta1": 0.9,
    "beta2": 0.9,
    "weight_decay": 0.0,
    "eps": 1e-8,
    "maximize": False,
}
FUSED_SGD = {
    "weight_decay": 0.0,
    "momentum": 0.0,
    "lr": 0.1,
    "dampening": 0.0,
    "nesterov": False,
    "maximize": False,
    "is_first_step": False,
}


def moments(x: torch.Tensor) -> tuple[list[torch.Tensor], ...]:
    return [x], [x + 1], [x + 2], [x + 3], [], [torch.ones(())]


def rate(n: Any) -> dict[str, Any]:
    return {"lr": n, "lr_decay": 0.0, "weight_decay": 0.0, "eps": 1e-8, "maximize": False}


def other_calls() -> dict[str, Call]:
    def mask(x: Any) -> torch.Tensor:
        return torch.ones(x.shape, dtype=torch.bool)

    return {
        "clamp": lambda x, n: (torch.clamp, (x, n), {}),
        "clamp(min, max)": lambda x, n: (torch.clamp, (x, 0, n), {}),
        "clamp(max=)": lambda x, n: (torch.clamp, (x,), {"max": n}),
        "clip(min=, max=)": lambda x, n: (torch.clip, (x,), {"min": n, "max": n}),
        "masked_fill": lambda x, n: (torch.masked_fill, (x, mask(x), n), {}),
        "masked_fill_": lambda x, n: (torch.Tensor.masked_fill_, (x, mask(x), n), {}),
        "masked_fill(value=)": lambda x, n: (torch.masked_fill, (x, mask(x)), {"value": n}),
        "setitem": lambda x, n: (operator.setitem, (x, 0, n), {}),
        "setitem of a mask": lambda x, n: (operator.setitem, (x, mask(x), n), {}),
        "setitem at": lambda x, n: (operator.setitem, (x, n, 1), {}),
        "getitem": lambda x, n: (operator.getitem, (x, n), {}),
        "getitem of a slice": lambda x, n: (operator.getitem, (x, slice(n)), {}),
        "lerp": lambda x, n: (torch.lerp, (x, x, n), {}),
        "lerp(weight=)": lambda x, n: (torch.lerp, (x, x), {"weight": n}),
        "addcmul": lambda x, n: (torch.addcmul, (x, x, x), {"value": n}),
        "addcmul by position": lambda x, n: (torch.addcmul, (x, n, x, x), {}),
        "addcdiv": lambda x, n: (torch.addcdiv, (x, x, x), {"value": n}),
        "pow(exponent=)": lambda x, n: (torch.pow, (x,), {"exponent": n}),
        "foreach_add": lambda x, n: (torch._foreach_add, ([x, x], n), {}),
        "foreach_add of a list": lambda x, n: (torch._foreach_add, ([x, x], [n, 1]), {}),
        "foreach_add(alpha=)": lambda x, n: (torch._foreach_add, ([x], [x]), {"alpha": n}),
        "foreach_sub_": lambda x, n: (torch._foreach_sub_, ([x], n), {}),
        "foreach_mul_": lambda x, n: (torch._foreach_mul_, ([x], n), {}),
        "foreach_div": lambda x, n: (torch._foreach_div, ([x], n), {}),
        "foreach_lerp": lambda x, n: (torch._foreach_lerp, ([x], [x], n), {}),
        "foreach_addcmul": lambda x, n: (torch._foreach_addcmul, ([x], [x], [x], n), {}),
        "foreach_addcdiv_": lambda x, n: (torch._foreach_addcdiv_, ([x], [x], [x]), {"value": n}),
        "foreach_maximum": lambda x, n: (torch._foreach_maximum, ([x], n), {}),
        "foreach_minimum_": lambda x, n: (torch._foreach_minimum_, ([x], n), {}),
        "foreach_clamp_min_": lambda x, n: (torch._foreach_clamp_min_, ([x], n), {}),
        "foreach_clamp_max": lambda x, n: (torch._foreach_clamp_max, ([x], n), {}),
        "fused_adamw_": lambda x, n: (torch._fused_adamw_, moments(x), {**FUSED, "lr": n}),
        "fused_adam_(eps=)": lambda x, n: (torch._fused_adam_, moments(x), {**FUSED, "eps": n}),
        "fused_adam_(amsgrad=)": lambda x, n: (torch._fused_adam_, moments(x), {**FUSED, "amsgrad": n}),
        "fused_sgd_": lambda x, n: (torch._fused_sgd_, ([x], [x + 1], []), {**FUSED_SGD, "lr": n}),
        "fused_adagrad_": lambda x, n: (torch._fused_adagrad_, ([x], [x + 1], [x + 2], [torch.ones(())]), rate(n)),
        "where": lambda x, n: (torch.where, (mask(x), x, n), {}),
        "where of two": lambda x, n: (torch.where, (mask(x), n, x), {}),
        "x.where": lambda x, n: (torch.Tensor.where, (x, mask(x), n), {}),
        "new_full": lambda x, n: (torch.Tensor.new_full, (x, (2,), n), {}),
        "new_full(dtype=)": lambda x, n: (torch.Tensor.new_full, (x, (2,), n), {"dtype": torch.int8}),
        "addmm(alpha=, beta=)": lambda x, n: (torch.addmm, (x, x, x.new_ones(3, 3)), {"alpha": n, "beta": n}),
        "baddbmm(alpha=)": lambda x, n: (torch.baddbmm, (*(x.new_ones(1, 2, 2),) * 3,), {"alpha": n}),
        "leaky_relu": lambda x, n: (torch.nn.functional.leaky_relu, (x, n), {}),
        "leaky_relu(negative_slope=)": lambda x, n: (torch.nn.functional.leaky_relu, (x,), {"negative_slope": n}),
        "full": lambda x, n: (torch.full, ((2,), n), {}),
        "full(fill_value=)": lambda x, n: (torch.full, ((2,),), {"fill_value": n, "device": "cpu"}),
        "full(dtype=)": lambda x, n: (torch.full, ((2,), n), {"dtype": torch.int8}),
        "linspace to": lambda x, n: (torch.linspace, (0, n, 3), {}),
        "linspace from": lambda x, n: (torch.linspace, (n, 2.5, 3), {}),
        "linspace of so many": lambda x, n: (torch.linspace, (0.0, 2.5, n), {}),
        "full_like": lambda x, n: (torch.full_like, (x, n), {}),
        "where of numbers": lambda x, n: (torch.where, (mask(x), n, n), {}),
        "linspace": lambda x, n: (torch.linspace, (0.0, n, 3), {}),
        "linspace in steps": lambda x, n: (torch.linspace, (0.0, 1.0, n), {}),
        "threshold": lambda x, n: (torch.threshold, (x, n, n), {}),
        "zeros": lambda x, n: (torch.zeros, (n,), {}),
        "full(float16)": lambda x, n: (torch.full, ((), n), {"dtype": torch.float16}),
        "full(its dtype)": lambda x, n: (torch.full, ((),), {"fill_value": n, "dtype": x.dtype, "device": "cpu"}),
        "scalar_tensor": lambda x, n: (torch.scalar_tensor, (n,), {}),
        "scalar_tensor(its dtype)": lambda x, n: (torch.scalar_tensor, (n,), {"dtype": x.dtype}),
        "tensor": lambda x, n: (torch.tensor, (n,), {}),
        "tensor of a list": lambda x, n: (torch.tensor, ([n, 0.5],), {"dtype": torch.float32, "device": "cpu"}),
        "tensor(its dtype)": lambda x, n: (torch.tensor, ([n, n],), {"dtype": x.dtype}),
        "tensor(int64)": lambda x, n: (torch.tensor, (n,), {"dtype": torch.int64}),
        "as_tensor(its dtype)": lambda x, n: (torch.as_tensor, (n,), {"dtype": x.dtype}),
    }


CALLS: dict[str, Call] = {}
for name in f"{ARITHMETIC} {OTHERS} {UNLISTED}".split():
    CALLS |= binary(name)
CALLS |= other_calls()


def tensors() -> Iterator[torch.Tensor]:
    for dtype in DTYPES:
        for shape in ((2, 3), ()):
            yield torch.ones(shape, dtype=dtype)
    yield torch.ones(2, 3, requires_grad=True)
    yield torch.ones(3, 2).T


def outcome(call: Call, x: torch.Tensor, n: Any) -> Any:
    """All that metadata says of the call, or that it raises."""
    grad = x.requires_grad
    x = x.detach().clone().requires_grad_(grad)
    target, args, kwargs = call(x * 1 if grad else x, n)
    before = torch.get_rng_state()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = target(*args, **kwargs)
        except Exception as error:  # noqa: BLE001
            return type(error).__name__
    results = result if isinstance(result, (list, tuple)) else [result]
    found = [(r.dtype, r.shape, r.stride(), r.requires_grad) if isinstance(r, torch.Tensor) else r for r in results]
    return found, x._version, len(caught), torch.equal(before, torch.get_rng_state())


def depends(call: Call, x: torch.Tensor, example: Any, bound: float) -> bool:
    target, args, kwargs = call(x, testing.RunTimeNumber(example, bound))
    in_tensor = getattr(torch.Tensor, target.__name__, None) is target  # a method stands in graphs by its name
    return any(testing.depends_on_numbers(target.__name__ if in_tensor else target, *args, **kwargs))


@pytest.mark.parametrize("name", CALLS)
def test_outcome_is_the_same_for_every_value(name: str) -> None:
    call = CALLS[name]
    for x in tensors():
        for bound, values in NUMBERS:
            if depends(call, x, values[0], bound):
                continue
            outcomes = {repr(outcome(call, x, n)): n for n in values}
            assert len(outcomes) == 1, (x.dtype, tuple(x.shape), bound, outcomes)


def test_what_is_in_the_list() -> None:
    x = torch.ones(2)
    free = {name for name, call in CALLS.items() if not depends(call, x, 1.5, NARROW)}
    print(f"{len(free)} of {len(CALLS)} forms take any number beside a float tensor; the others want it known")
    assert {"torch.add(x, n)", "operator.truediv(n, x)", "x.__rsub__(n)", "x.clamp_min_(n)"} <= free
    unlisted = "zeros|full(dtype=)|linspace of so many|linspace in steps|tensor(int64)|getitem|getitem of a slice"
    for known in [*unlisted.split("|"), "setitem at", "torch.add(x, n, x)"]:
        assert known not in free
    assert not [name for name in free if "rounding_mode" in name]
    assert not [name for name in free if name.split("(")[0].split(".")[-1] in UNLISTED.split()]


def test_each_row_has_a_call() -> None:
    rows = set(re.findall(r"^TAKES_NUMBER\((\w+),", TABLE.read_text(), re.M))
    called = {call(torch.ones(3), 1)[0].__name__ for call in CALLS.values()}
    assert {row for row in rows if not {row, row + "_", f"__{row}__"} & called} == set()
