"""Signals at random moments of captures, backends, hits, replays, backwards and runs: run as a process of its own.

    python -m e2e.signals SEED COUNT

Prints a line for each signal that was lost, came as something else, or left anything behind; the last line says how
many came in which phase. What ends the process is seen by whoever started it.
"""

import collections
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from e2e import front


class Late(Exception):
    """What a handler raises that nobody knows."""


KINDS: list[type[BaseException] | None] = [KeyboardInterrupt, SystemExit, TimeoutError, Late, None]
LOG: list[str] = []


class Layers(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(3))
        self.norm = nn.BatchNorm1d(width)
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        for layer in self.layers:
            x = layer(x).relu() + x[:, :1]
        return self.norm(x).sum(0).logsumexp(0)  # type: ignore[no-any-return]


def noted(x: torch.Tensor) -> torch.Tensor:
    LOG.append("before")
    y = x * 2
    LOG.append("between")
    z = y.cumsum(0) @ x.T
    LOG.append("behind")
    return z.sum()


def broken(x: torch.Tensor) -> torch.Tensor:
    total = x.sin().sum()
    for i in range(3):
        front.graph_break()
        total = total + (x * i).cos().sum()
    return total


def written(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y.mul_(2)
    y[0] = y[1].exp()
    return (y @ x.T).softmax(-1).sum()


PROGRAMS: list[Callable[[int], Any]] = [Layers, lambda _: noted, lambda _: broken, lambda _: written]
PHASES = ("capture", "dynamic", "hit", "train")


class Strike:
    """One signal, after some time; its handler raises or does not."""

    def __init__(self, kind: type[BaseException] | None) -> None:
        self.kind = kind
        self.ran = 0

    def handler(self, number: int, frame: Any) -> None:
        self.ran += 1
        if self.kind:
            raise self.kind("late")

    def during(self, body: Callable[[], Any], after: float) -> tuple[Any, BaseException | None]:
        """What the body gives, what came of the signal."""
        signal.signal(signal.SIGALRM, self.handler)
        result = None
        try:
            signal.setitimer(signal.ITIMER_REAL, max(after, 1e-6))
            result = body()
            while not self.ran:
                time.sleep(0.0005)
        except BaseException as error:  # noqa: BLE001  whatever comes is compared
            return result, error
        return result, None


def state() -> tuple[Any, ...]:
    """Of the thread."""
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch._C._len_torch_dispatch_stack(),
        torch._C._len_torch_function_stack(),
        torch._C._functorch.peek_interpreter_stack(),
        sys.unraisablehook,
    )


def gradients(target: Any, x: torch.Tensor) -> list[list[float]]:
    leaves = [x, *(target.parameters() if isinstance(target, nn.Module) else [])]
    return [[] if leaf.grad is None else leaf.grad.double().flatten().tolist() for leaf in leaves]


def close(found: Any, wanted: Any) -> bool:
    if isinstance(found, list):
        return len(found) == len(wanted) and all(map(close, found, wanted))
    return abs(found - wanted) <= 1e-4 * max(1, abs(wanted))  # type: ignore[no-any-return]


class Case:
    """A program under a backend, ready for one call that a signal strikes."""

    def __init__(self, draw: random.Random, number: int, backend: str) -> None:
        self.number, self.backend = number, backend
        self.phase = draw.choice(PHASES)
        self.width = 4 + number % 50  # others are inferred anew
        self.program = draw.choice(PROGRAMS)
        front.reset()
        self.plain, self.target = self.made(), self.made()
        self.compiled = front.compile(self.target, backend=backend, dynamic=self.phase == "dynamic" or None)
        if self.phase == "hit":
            self.once(self.compiled, self.input())

    def made(self) -> Any:
        torch.manual_seed(self.width)
        return self.program(self.width)

    def input(self) -> torch.Tensor:
        torch.manual_seed(1)
        return torch.randn(self.width + 3, self.width, requires_grad=self.phase == "train")

    def once(self, function: Any, x: torch.Tensor) -> float:
        out = function(x)
        if self.phase == "train":
            out.backward()
        return out.item()  # type: ignore[no-any-return]

    def struck(self, kind: type[BaseException] | None, after: float) -> str:
        """What is wrong; empty if nothing is."""
        before, x = state(), self.input()
        LOG.clear()
        strike = Strike(kind)
        result, error = strike.during(lambda: self.once(self.compiled, x), after)
        if strike.ran != 1:
            told = "".join(traceback.format_exception(error)) if error else "nothing"
            return f"the handler ran {strike.ran} times, and came {told}"
        if type(error) is not (kind or type(None)):
            return f"{error!r} came of {kind}"
        if state() != before:
            return f"the thread is left in {state()}, was in {before}"
        whole = ["before", "between", "behind"] if self.program(1) is noted else []
        if whole[: len(LOG)] != LOG or (result is not None and whole != LOG):
            return f"effects {LOG}"
        return self.afterwards()

    def afterwards(self) -> str:
        """Later calls are right."""
        if isinstance(self.target, nn.Module):  # statistics are those of some moment
            self.plain.load_state_dict(self.target.state_dict())
            self.target.zero_grad()
        x, y = self.input(), self.input()
        found = self.once(self.compiled, x), gradients(self.target, x)
        wanted = self.once(self.plain, y), gradients(self.plain, y)
        return "" if close(list(found), list(wanted)) else f"afterwards {found}, not {wanted}"


def main(seed: int, count: int, backends: list[str]) -> int:
    draw = random.Random(seed)
    torch.set_num_threads(1)
    took: dict[tuple[str, str], float] = {}
    came: collections.Counter[str] = collections.Counter()
    wrong = 0
    for backend in backends:  # what a first capture imports
        front.compile(broken, backend=backend)(torch.ones(3, 3))
    for number in range(count):
        case = Case(draw, number, draw.choice(backends))
        kind = draw.choice(KINDS)
        place = case.backend, case.phase
        after = draw.random() * 1.1 * took.get(place, 0.02)
        start = time.perf_counter()
        if found := case.struck(kind, after):
            wrong += 1
            name = kind.__name__ if kind else "a quiet handler"
            print(f"{number} {'/'.join(place)} {case.width} {name} after {after * 1e3:.2f} ms: {found}", flush=True)
        elapsed = time.perf_counter() - start
        took[place] = 0.7 * took.get(place, elapsed) + 0.3 * elapsed
        came[case.phase] += 1
    print(dict(came), flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(min(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]), 100))
