"""What a break costs: by depth, in a model beside PyTorch's own front end, and at capture.

python bench/breaks.py            # all tables
python bench/breaks.py depth model capture
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


def by_depth() -> None:
    print("a break, by the depth of the callee it is in: microseconds above the same program without it")
    x = torch.ones(2)
    for depth in (1, 2, 3, 5, 9):
        with_break = gramme.compile(nested(depth, True), backend="eager")
        without = gramme.compile(nested(depth, False), backend="eager")
        graphs = gramme.compile(nested(1, True), backend="eager")
        for call in (with_break, without, graphs):
            call(x), call(x)
        took = microseconds(lambda call=with_break: call(x)) - microseconds(lambda call=without: call(x))  # type: ignore[misc]
        print(f"  depth {depth}: {took:6.2f} us")


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


def at_capture() -> None:
    print("first call of a function with n breaks, native: milliseconds a break")
    x = torch.ones(2)
    for count in (10, 100, 1000):
        lines = "".join("    x = x + 1\n    unknown()\n" for _ in range(count))
        names: dict[str, Any] = {"unknown": unknown}
        exec(f"def f(x):\n{lines}    return x", names)
        call = gramme.compile(names["f"], backend="native")
        start = now()
        call(x)
        print(f"  {count:5} breaks: {(now() - start) * 1e3 / count:.3f}")
    print("the same with the break so deep in a callee")
    for depth in (1, 2, 4, 8, 16, 32):
        took = []
        for _ in range(15):
            call = gramme.compile(nested(depth, True), backend="native")
            start = now()
            call(x)
            took.append((now() - start) * 1e3)
        print(f"  depth {depth:2}: {statistics.median(took):.3f}")


TABLES = {"depth": by_depth, "model": in_a_model, "capture": at_capture}

if __name__ == "__main__":
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, Python {sys.version.split()[0]}, one thread")
    for name in sys.argv[1:] or TABLES:
        TABLES[name]()
