"""Costs of a graph break: by depth, in a model compared with PyTorch's front end, and at capture.

python bench/breaks.py            # all tables
python bench/breaks.py depth model capture small
"""

import contextlib
import io
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import gramme
import torch
from torch import nn

now = time.perf_counter
unknown = time.monotonic
"""A function in C that is not captured, and costs next to nothing."""


def nested(depth: int, breaks: bool) -> Callable[..., Any]:
    """`depth` calls inward, with a break in the innermost."""
    names: dict[str, Any] = {"unknown": unknown}
    body = "    y = x + 1\n    unknown()\n    return y * 2" if breaks else "    y = x + 1\n    return y * 2"
    exec(f"def f0(x):\n{body}", names)
    for level in range(1, depth):
        exec(f"def f{level}(x):\n    return f{level - 1}(x)", names)
    return names[f"f{depth - 1}"]  # type: ignore[no-any-return]


def microseconds(call: Callable[[], Any], repeat: int = 2000) -> float:
    call()
    times = []
    for _ in range(9):
        start = now()
        for _ in range(repeat):
            call()
        times.append((now() - start) / repeat * 1e6)
    return statistics.median(times)


@torch.no_grad()
def by_depth() -> None:
    print("a break, by the depth of the callee it is in: microseconds above the same program without it, at least")
    x, depths, backends = torch.ones(2), (1, 2, 3, 5, 9), ("native", "eager")
    times: dict[tuple[str, int, bool], list[float]] = {}
    for _ in range(5):
        for backend in backends:
            for depth in depths:
                for breaks in (False, True):
                    call = gramme.compile(nested(depth, breaks), backend=backend)
                    for _ in range(20):
                        call(x)
                    took = microseconds(lambda call=call: call(x), 500)  # type: ignore[misc]
                    times.setdefault((backend, depth, breaks), []).append(took)
    print(f"  {'depth:':8}" + "".join(f"{depth:>8}" for depth in depths))
    for backend in backends:
        above = [min(times[backend, depth, True]) - min(times[backend, depth, False]) for depth in depths]
        print(f"  {backend:8}" + "".join(f"{each:8.2f}" for each in above))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.up(self.norm(x)).relu()
        print("layer")
        return x + self.down(hidden)


class Model(nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x.sum()


@torch.no_grad()
def in_a_model() -> None:
    print("12 layers with a print in each: microseconds a call above eager")
    x, model = torch.ones(4, 16), Model(12)
    calls = {
        "eager": model,
        "gramme": gramme.compile(model, backend="eager"),
        "torch.compile": torch.compile(model, backend="eager"),
    }
    took: dict[str, list[float]] = {name: [] for name in calls}
    with contextlib.redirect_stdout(io.StringIO()):
        for call in calls.values():
            for _ in range(3):
                call(x)
        for _ in range(7):
            for name, call in calls.items():
                took[name].append(microseconds(lambda call=call: call(x), 30))  # type: ignore[misc]
    medians = {name: statistics.median(times) for name, times in took.items()}
    over = {name: medians[name] - medians["eager"] for name in calls}
    print("  " + ", ".join(f"{name} {medians[name]:.0f} us ({over[name]:+.0f})" for name in calls))
    print(f"  torch.compile / gramme: {over['torch.compile'] / over['gramme']:.1f}" if over["gramme"] > 0 else "")


def first_call(function: Callable[..., Any], x: torch.Tensor, backend: str = "native") -> float:
    """Milliseconds."""
    call = gramme.compile(function, backend=backend)
    start = now()
    call(x)
    return (now() - start) * 1e3


def defined(source: str, name: str = "f") -> Callable[..., Any]:
    names: dict[str, Any] = {"unknown": unknown}
    exec(source, names)
    return names[name]  # type: ignore[no-any-return]


def in_a_row(count: int) -> Callable[..., Any]:
    return defined("def f(x):\n" + "    x = x + 1\n    unknown()\n" * count + "    return x")


def at_capture() -> None:
    x = torch.ones(2)
    print("first call of a function with n breaks, native: milliseconds a break")
    loop = "def f(x):\n    for i in range({}):\n        x = x + 1\n        unknown()\n    return x"
    over = "    for i in range({0}):\n        x = x + 1\n        unknown()\n        yield x\n"
    each = "".join(("    x = x + 1\n", "    unknown()\n", "    yield x\n"))
    consumer = "def f(x):\n    for y in pieces(x):\n        x = y + 1\n    return x"
    forms: dict[str, Callable[[int], Callable[..., Any]]] = {
        "in a row": in_a_row,
        "in a loop": lambda count: defined(loop.format(count)),
        "in a loop in a generator": lambda count: defined("def pieces(x):\n" + over.format(count) + consumer),
        "in a row in a generator": lambda count: defined("def pieces(x):\n" + each * count + consumer),
        "in a callee, called in a loop": lambda count: defined(
            "def g(x):\n    y = x + 1\n    unknown()\n    return y\n"
            f"def f(x):\n    for i in range({count}):\n        x = g(x) * 2\n    return x"
        ),
    }
    print(f"  {'breaks:':30}" + "".join(f"{count:>8}" for count in (10, 100, 1000)))
    for name, make in forms.items():
        took = [first_call(make(count), x) / count for count in (10, 100, 1000)]
        print(f"  {name:30}" + "".join(f"{each:8.3f}" for each in took))
    print("one break so deep in a callee: milliseconds of the first call, native")
    for depth in (1, 2, 4, 8, 16, 32):
        print(f"  depth {depth:2}: {statistics.median(first_call(nested(depth, True), x) for _ in range(15)):.3f}")


def of_small_segments() -> None:
    """Compares a graph of few cheap operations with other ways to get from one break to the next."""
    print("from one break to the next, by the operations between them: microseconds")
    print(f"  {'operations':12}{'native':>9}{'eager':>9}{'CPython':>9}{'stepped':>9}")
    x, count = torch.ones(2), 50
    stepping_entry = gramme._C.testing.testing_runtime.stepping_entry
    for operations in (0, 1, 2, 4, 8):
        body = "    x = x + 1\n" * operations + "    unknown()\n"
        function = defined("def f(x):\n" + body * count + "    return x")
        calls = [gramme.compile(function, backend=backend) for backend in ("native", "eager")]
        calls += [function, stepping_entry(function)]
        for call in calls:
            call(x), call(x)
        times: list[list[float]] = [[] for _ in calls]
        for _ in range(5):
            for call, took in zip(calls, times, strict=True):
                took.append(microseconds(lambda call=call: call(x), 40))  # type: ignore[misc]
        print(f"  {operations:<12}" + "".join(f"{min(took) / count:9.2f}" for took in times))


TABLES = {"depth": by_depth, "model": in_a_model, "capture": at_capture, "small": of_small_segments}

if __name__ == "__main__":
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, Python {sys.version.split()[0]}, one thread")
    for name in sys.argv[1:] or TABLES:
        TABLES[name]()
