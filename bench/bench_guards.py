"""Nanoseconds per check of guard plans, measured in C, the least of ten runs: bench/bench_guards.py [case ...]."""

import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from guards.support import Facts

LIMITS = {"x + 1": 60.0, "100 tensors, fresh tuple": 1000.0}  # ns; more is an error
COPIES = 16  # different arguments, passed in turn, for "fresh"


def plus_one() -> list[Any]:
    """One tensor argument."""
    return [torch.ones(2, 3)]


def tensors(count: int) -> tuple[torch.Tensor, ...]:
    return tuple(torch.ones(2, 3) for _ in range(count))


def containers() -> list[Any]:
    return [{"a": torch.ones(2), "b": [1.5, torch.ones(2)], "c": (1, 2)}, [1, torch.ones(3), {"k": torch.ones(2)}]]


def tree(modules: int) -> nn.Module:
    """A chain of linear layers: 8 dicts are read of each."""
    return nn.Sequential(*[nn.Linear(2, 2) for _ in range(modules)])


def measure(name: str, make: Callable[[], list[Any]], copies: int, written: object = None) -> float:
    calls = [make() for _ in range(copies)]
    facts = Facts(*(f"a{i}" for i in range(len(calls[0]))))
    for i, value in enumerate(calls[0]):
        facts.walk(value, (("Local", f"a{i}"),))
    plan = facts.plan()
    for call in calls:
        assert plan.check(call) is not None, plan.explain(call)
    rounds = 200_000 if len(facts.facts) < 500 else 10_000
    plan.time(calls, rounds=rounds // 10, written=written)
    best = min(plan.time(calls, rounds=rounds // 10, written=written) for _ in range(10))
    now = plan.statistics()
    print(f"{name:34} {best:10.1f} ns   {len(facts.facts):6} facts {now['words']:6} words {now['tensors']:5} tensors")
    return best


def main(wanted: list[str]) -> int:
    print(f"{os.cpu_count()} cores, 1 thread, torch {torch.__version__}, Python {platform.python_version()}")
    model = tree(125)
    cases: dict[str, Callable[[str], float]] = {
        "x + 1": lambda n: measure(n, plus_one, 1),
        "100 tensors, fresh tuple": lambda n: measure(n, lambda: [tensors(100)], COPIES),
        "100 tensors, same tuple": lambda n: measure(n, lambda: [tensors(100)], 1),
        "dict and list, fresh": lambda n: measure(n, containers, COPIES),
        "dict and list, same": lambda n: measure(n, containers, 1),
        "1,000 dicts of modules": lambda n: measure(n, lambda: [model], 1),
        "1,000 dicts, one written": lambda n: measure(n, lambda: [model], 1, vars(model[60])),
        "1,000 dicts, another model": lambda n: measure(n, lambda: [tree(125)], 4),
    }
    missed = 0
    for name, case in cases.items():
        if (not wanted or any(w in name for w in wanted)) and case(name) > LIMITS.get(name, float("inf")):
            print(f"{name}: above {LIMITS[name]} ns")
            missed = 1
    return missed


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main(sys.argv[1:]))
