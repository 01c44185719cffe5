"""Elementwise operators on small tensors become one instruction, which gives what the operators give, bit for bit."""

import random
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch

from native.same import facts_of, twin

native: Any = gramme._C.native

UNARY = (
    "-{a}",
    "{a}.abs()",
    "{a}.abs().sqrt()",
    "{a} * {a}",
    "{a} ** 2",
    "{a}.clone()",
    "{a}.double()",
    "{a}.t()",
    "{a}[0]",
    "{a}[:, 1:2]",
)
BINARY = (
    *("{a} + {b}", "{a} - {b}", "{a} * {b}", "{a} / {b}", "{a} * 1.5", "2 - {a}", "{a} / 3", "{a} + 1"),
    *("torch.where({a} > {b}, {a}.double(), {b}.double())", "torch.maximum({a}, torch.full((), 0.5)) + {b}"),
    *("({a} > 0) & ({b} <= 1)", "{a} == {b}", "({a} != 0).sum()", "({a} < {b}).sum(0)", "torch.stack([{a}, {b}])"),
    *("{a}.sum(0)", "({a} - {b}).argmin(0)", "{a}.argmax(-1)", "({a} * 0).argmax(0)", "(-{a} * 0).sum(0)"),
    *(
        "torch.cat([{a}, {b}])",
        "torch.zeros_like({a}) + {b}",
        "{a}.sin() + {b}",
        "~({a} >= {b})",
        "{a}.expand(2, 3) * {b}",
    ),
)
WRITES = ("{a}.add_(1)", "{a}[0].fill_(2)", "{a}.mul_({b})")


def text(seed: int) -> str:
    draw = random.Random(seed)
    names, lines = ["x", "y", "z"], []
    for k in range(draw.randint(4, 14)):
        line = draw.choice(WRITES if draw.random() < 0.1 else UNARY + BINARY * 2)
        given = {"a": draw.choice(names[-4:]), "b": draw.choice(names)}
        if line in WRITES:
            lines.append(f"try: {line.format(**given)}\n    except (RuntimeError, IndexError): pass")
            continue
        lines.append(f"try: v{k} = {line.format(**given)}\n    except (RuntimeError, IndexError): v{k} = x")
        names.append(f"v{k}")
    kept = draw.sample(names, min(4, len(names)))
    return "def program(x, y, z):\n    " + "\n    ".join(lines) + f"\n    return {', '.join(kept)}, x\n"


def straight(seed: int) -> str:
    """The same without the lines that raise."""
    names: dict[str, Any] = {"torch": torch}
    lines = text(seed).splitlines()
    kept, at = [lines[0]], 1
    while at < len(lines) - 1:
        line, otherwise = lines[at].removeprefix("    try: "), lines[at + 1]
        trial = "\n".join([*kept, f"    {line}", "    return x"])
        exec(trial, names)  # noqa: S102  a program of its own
        try:
            names["program"](*arguments(seed))
            kept.append(f"    {line}")
        except (RuntimeError, IndexError):
            if "= x" in otherwise:
                kept.append("    " + otherwise.partition(": ")[2])
        at += 2
    return "\n".join([*kept, lines[-1]])


def arguments(seed: int) -> tuple[torch.Tensor, ...]:
    draw = random.Random(seed)
    made = []
    for k in range(3):
        torch.manual_seed(seed + k)
        dtype = draw.choice(
            [torch.float32, torch.float64, torch.float64, torch.int64, torch.uint8, torch.bool, torch.int32]
        )
        tensor = (torch.randn(2, 3) * 2).to(torch.int64).abs() if not dtype.is_floating_point else torch.randn(2, 3)
        tensor = tensor.to(dtype)
        if dtype.is_floating_point and draw.random() < 0.3:
            tensor[0, 1], tensor[1, 0], tensor[1, 2] = float("nan"), float("-inf"), -0.0
        made.append(draw.choice([tensor, tensor.t().contiguous().t(), tensor[:1], tensor[:, :1], tensor[0]]))
    return tuple(made)


def recorded(function: Callable[..., Any], *args: Any) -> Any:
    with torch.no_grad():
        graph = native.from_graph_module(torch.fx.symbolic_trace(function))
        graph(*map(twin, args))
    return graph


@torch.no_grad()
def compare(function: Callable[..., Any], args: tuple[Any, ...], graph: Any = None) -> Any:
    graph = graph or recorded(function, *args)
    for _ in range(2):
        ours, theirs = tuple(map(twin, args)), tuple(map(twin, args))
        found, expected = graph(*ours), function(*theirs)
        for mine, real in zip(found, expected, strict=True):
            assert facts_of(mine, ours) == facts_of(real, theirs), native.tape(graph)
        for mine, real in zip(ours, theirs, strict=True):
            assert facts_of(mine, ()) == facts_of(real, ()), native.tape(graph)
    return graph


@pytest.mark.sampled(80)
@pytest.mark.parametrize("seed", range(1000))
def test_bits_are_those_of_the_operators(seed: int) -> None:
    names: dict[str, Any] = {"torch": torch}
    exec(straight(seed), names)  # noqa: S102  a program of its own
    function = names["program"]
    args = arguments(seed)
    with torch.no_grad():
        graph = native.from_graph_module(torch.fx.symbolic_trace(function))
        graph(*map(twin, args))
    compare(function, args, graph)


def chain(x: Any, y: Any) -> Any:
    a = (x + 1) * y - x / 2
    b = torch.where(a > 0, a, -a)
    return (b.t(), b * b, (b > 1).sum())


def test_a_chain_is_one_instruction_up_to_a_view_that_others_see() -> None:
    x = torch.randn(3, 4, dtype=torch.float64)
    graph = compare(chain, (x, torch.randn(4, dtype=torch.float64)))
    lines = native.tape(graph).splitlines()
    assert [line.partition(";")[0] for line in lines if line.startswith("%")] == [
        "%10 = as one",
        "%11 = aten::t(%10) direct",
        "%14, %12 = as one",
    ]


def test_large_tensors_are_left_to_kernels() -> None:
    graph = compare(chain, (torch.randn(64, 64), torch.randn(64)))
    assert "as one" not in native.tape(graph)


def test_a_watched_call_is_made_of_operators() -> None:
    """A profiler sees each operator, as without the instruction."""
    args = (torch.randn(3, 4), torch.randn(4))
    graph = recorded(chain, *args)
    with torch.no_grad(), torch.profiler.profile() as profile:
        found = graph(*args)
    assert {"aten::where", "aten::sum", "aten::div"} <= {event.name for event in profile.events()}
    for mine, real in zip(found, chain(*args), strict=True):
        assert torch.equal(mine, real)


def test_memory_that_is_gone_is_not_read() -> None:
    x = torch.randn(3, 4)
    graph = recorded(chain, x, torch.randn(4))
    freed = torch.randn(3, 4)
    freed.untyped_storage().resize_(0)
    with torch.no_grad(), pytest.raises(RuntimeError):
        graph(freed, torch.randn(4))


def test_whole_numbers_wrap_and_do_not_raise() -> None:
    def f(x: Any, y: Any) -> Any:
        return x * x + y, x - y, -x, (x + y).abs(), torch.maximum(x, y), x & y, x ^ y, x.double() / 3

    for dtype in (torch.uint8, torch.int32, torch.int64):
        largest = torch.iinfo(dtype).max
        args = (torch.tensor([largest, 0, 1], dtype=dtype), torch.tensor([1, largest, 7], dtype=dtype))
        compare(f, args)


def test_complex_numbers_that_are_not_finite() -> None:
    def f(x: Any, y: Any) -> Any:
        return x + y, x - y, x + 1, 2 - x, torch.where(y.real > 0, x, y), x.clone() - y

    parts = [0.0, -0.0, 1.5, float("inf"), float("-inf"), float("nan"), 1e308]
    numbers = torch.tensor([complex(a, b) for a in parts for b in parts], dtype=torch.complex128)
    for step in (1, 5, 11, 30):
        for count in (49, 48, 3, 1):
            compare(f, (numbers[:count], numbers.roll(step)[:count].clone()))


def test_views_of_results_share_their_memory() -> None:
    def f(x: Any) -> Any:
        a = x * 2
        b = a[0]
        c = b.unsqueeze(0) + 1
        b.mul_(3)
        return a, b, c

    compare(f, (torch.randn(2, 3),))


def test_a_number_that_does_not_fit_is_left_to_kernels() -> None:
    def f(x: Any) -> Any:
        return x + (2**53 + 1), x > 0.5, x * 2.5

    compare(f, (torch.tensor([1, 2, 3]),))
