"""Floats that come out of data, in graphs: what Python computes of them, to the bit, whatever they are."""

import math
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch
from gramme import CaptureError

BACKENDS = ["eager", "native", "aot_eager"]

VALUES = [3.7, 0.5, 2.5, 1.5, -0.5, 1.0, 0.0, -0.0, -2.5, 1e-300, 2.0**63, -1e19, 1e300, math.nan, math.inf, -math.inf]

WHOLE = [
    *("int(v)", "math.floor(v)", "math.ceil(v)", "math.trunc(v)", "round(v)", "round(v, None)", "int(v * 2.5)"),
    *("int(int(v))", "int(v) // 2, int(v) % 3", "abs(int(v))", "max(int(v), 0), min(int(v), 3)", "divmod(int(v), 2)"),
    *("int(v) == 3", "int(v > 1)", "bool(v)", "round(v) + int(v)", "-int(v)", "int(v) ** 2"),
]
FLOATS = [
    *("abs(v)", "-v, +v", "float(v)", "float(int(v))", "max(v, 0.0)", "max(0.0, v)", "min(v, 3.0, w)", "max([v, w])"),
    *("v - v", "v * 0.0", "(v + 0.1) + 0.2", "v / 3", "1.0 / v", "w / v", "2 / v", "v + int(v)", "v * round(w)"),
    *("math.floor(v) / 2", "sum([v, w])", "math.fabs(v) * 1.5", "math.sqrt(v)", "v + True", "v - 10**20"),
    "(v > 1) * w",
]
TRUTHS = [
    *("v == v", "v != v", "v != w", "v >= 1", "0.5 < v", "v < int(w)", "v + 1.0 > v", "v == math.inf", "v < math.inf"),
    *("v < 2**53 + 1", "v <= 2**70", "math.isnan(v)"),
]
TENSORS = [
    *("x * v", "x * (v > 1)", "x + round(v)", "x + v * 2.5", "x < v", "v - x", "x[:int(v)]", "x[round(v):]"),
    *("torch.arange(int(min(v, 9.0)))", "x.new_zeros(int(max(min(v, 5.0), 0.0)))"),
]
# Kernels of compilers take such a float in 32 bits.
NARROW = [
    *("torch.full((2,), v)", "torch.full_like(x, v)", "x.new_full((2,), abs(v))", "x.clamp(max=v)", "x ** v"),
    *("torch.where(x > 0, x, v)", "x.masked_fill(x > 1, -v)", "torch.add(x, x, alpha=v)", "x.pow(v)"),
    *("torch.linspace(0.0, v, 3)", "torch.nn.functional.threshold(x, v, 1.0)"),
]
# No form for compilers does what Python does: under those the capture ends there.
ONLY_AS_THEY_ARE = [
    *("v // 2.0", "v // 0.1", "v % 2.0", "v % -2.0", "divmod(v, 0.3)", "v // w", "v ** 2", "v ** 0.5", "v ** -1"),
    *("2 ** v", "w ** v", "pow(v, 3)", "round(v, 2)", "math.exp(v)", "math.log(v)", "math.isfinite(v)"),
    "math.hypot(v, w)",
]
# What depends on more than a graph can tell.
REFUSED = [
    *("f'{v}'", "str(v)", "{v: 1}", "[x for _ in range(int(v))]", "x if v > 1 else x + 1", "not v", "v and 1.0"),
    *("max(v, 0)", "x.new_zeros(3)[v > 1]", "hash(v)"),
]


def program(text: str) -> Callable[..., Any]:
    names: dict[str, Any] = {"torch": torch, "math": math}
    exec(f"def computed(x, y):\n    v, w = x.max().item(), y.item()\n    return x + 1, {text}\n", names)  # noqa: S102
    computed: Callable[..., Any] = names["computed"]
    return computed


def bits(value: Any) -> Any:
    """What tells values apart, types, signs of zeros and NaNs among it."""
    if isinstance(value, torch.Tensor):
        return value.dtype, tuple(value.shape), value.stride(), bits(value.tolist())
    if isinstance(value, list | tuple):
        return type(value).__name__, [bits(item) for item in value]
    return repr(value)


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return bits(function(*args))
    except CaptureError:
        raise
    except (ValueError, ArithmeticError, RuntimeError, TypeError) as error:
        return type(error), str(error)


def calls(dtype: torch.dtype = torch.float64) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(torch.tensor([v, v], dtype=dtype), torch.tensor(w, dtype=dtype)) for v, w in zip(VALUES, VALUES[::-1])]


def assert_captured(text: str, backend: str, dtype: torch.dtype = torch.float64) -> None:
    function = program(text)
    compiled = gramme.compile(function, backend=backend, fullgraph=True)
    for args in calls(dtype):
        assert outcome(compiled, *args) == outcome(function, *args), args
    assert gramme.statistics(compiled).captures == 1


@pytest.mark.sampled(30)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("text", WHOLE + FLOATS + TRUTHS + TENSORS)
def test_as_python_computes(text: str, backend: str) -> None:
    half = torch.tensor(0.5, dtype=torch.float64)
    if "sqrt" in text and backend not in ("eager", "native") and half.sqrt().item() != math.sqrt(0.5):
        pytest.skip("PyTorch's square root, which compilers get, is an ulp off on this processor")
    assert_captured(text, backend)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("text", TENSORS + NARROW)
def test_of_float32(text: str, backend: str) -> None:
    """What a tensor of float32 holds fits others, so that compilers fill tensors with it."""
    assert_captured(text, backend, torch.float32)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("text", ONLY_AS_THEY_ARE + NARROW)
def test_where_graphs_run_as_they_are(text: str, backend: str) -> None:
    assert_captured(text, backend)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("text", [*ONLY_AS_THEY_ARE, *NARROW, "x.add(v, alpha=2)"])
def test_what_compilers_do_otherwise(text: str) -> None:
    with pytest.raises(CaptureError):
        gramme.compile(program(text), backend="aot_eager", fullgraph=True)(*calls()[0])


@pytest.mark.parametrize("text", REFUSED)
def test_nothing_is_baked_in(text: str) -> None:
    function = program(text)
    with pytest.raises(CaptureError) as caught:
        gramme.compile(function, backend="eager", fullgraph=True)(*calls()[0])
    assert isinstance(caught.value, torch._dynamo.exc.UserError) or text == "hash(v)"
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        compiled = gramme.compile(function, backend="eager")
        for args in calls()[:4]:
            assert outcome(compiled, *args) == outcome(function, *args)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_python_raises_reaches_handlers(backend: str) -> None:
    def handled(x, log):
        log.append(1)
        try:
            n = int(x.max().item())
        except ValueError:
            return x * 0
        except OverflowError:
            n = -1
        log.append(n)
        return x + n, 1.0 / (n + 0.5)

    compiled = gramme.compile(handled, backend=backend, fullgraph=True)
    for x, _ in calls():
        found: list[Any] = []
        expected: list[Any] = []
        assert outcome(compiled, x, found) == outcome(handled, x, expected)
        assert found == expected


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_item_is_what_the_tensor_held(backend: str) -> None:
    def kept(x, y):
        z = x.max()
        v, w = z.item(), x[:1].item()
        half = v * 0.5
        z.add_(1)
        x.mul_(3)
        t = y * 2
        u = t.max().item()
        t.data = y
        return half, v * 2.5, w * 1.5, x * v, u * 0.5, t

    compiled = gramme.compile(kept, backend=backend, fullgraph=True)
    for x, y in calls():
        again = x.clone()
        assert outcome(compiled, x, y) == outcome(kept, again, y)
        assert bits(x) == bits(again)


@pytest.mark.parametrize("backend", BACKENDS)
def test_in_bodies(backend: str) -> None:
    def branching(x):
        v = x.max().item()
        return torch.cond(x.sum() > 1, lambda x: x * (v * 2.5), lambda x: x + abs(v), (x,))

    compiled = gramme.compile(branching, backend=backend, fullgraph=True)
    if backend == "aot_eager":  # its operators take no floats into bodies
        with pytest.raises(CaptureError, match="in a body"):
            compiled(calls()[0][0])
        return
    for x, _ in calls():
        assert outcome(compiled, x) == outcome(branching, x)


def test_gradients_pass_items_by() -> None:
    def scaled(x):
        v = x.abs().max().item()
        return (x * (v * 1.5)).sum()

    for backend in BACKENDS:
        compiled = gramme.compile(scaled, backend=backend, fullgraph=True)
        x, y = (torch.tensor([1.0, -3.7], requires_grad=True) for _ in range(2))
        compiled(x).backward()
        scaled(y).backward()
        assert torch.equal(x.grad, y.grad)


def test_by_default_items_are_taken_for_real() -> None:
    function = program("int(v), abs(v), x * round(v)")
    compiled = gramme.compile(function, backend="eager")
    for args in calls()[:9]:
        assert outcome(compiled, *args) == outcome(function, *args)
    assert gramme.statistics(compiled).captures > 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        *("x + round(v), int(v)", "x * max(v, 0.5), abs(v) - v", "x.new_zeros(int(abs(v)))", "x + v * 2.5"),
        *("x + 1.0 / v", "x * (v > 1), v == w", "abs(v) * 1.1, v / 3, v + int(w)"),
    ],
)
def test_by_inductor(text: str) -> None:
    function = program(text)
    compiled = gramme.compile(function, backend="inductor", fullgraph=True)
    for args in [*calls()[:6], *calls()[-3:-1]]:
        assert outcome(compiled, *args) == outcome(function, *args)
