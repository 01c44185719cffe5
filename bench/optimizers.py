"""Optimizers: what a capture of a step takes beside PyTorch's own front end, and a native step beside eager's.

python bench/optimizers.py            # both tables
python bench/optimizers.py capture native
"""

import math
import sys
import time
from collections.abc import Callable
from typing import Any

import gramme
import torch

now = time.perf_counter
optim = torch.optim
FORMS: dict[str, Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]] = {
    "SGD for-loop": lambda ps: optim.SGD(ps, lr=0.01, momentum=0.9, foreach=False),
    "SGD foreach": lambda ps: optim.SGD(ps, lr=0.01, momentum=0.9, foreach=True),
    "Adam for-loop": lambda ps: optim.Adam(ps, foreach=False),
    "Adam foreach": lambda ps: optim.Adam(ps, foreach=True),
    "Adam fused": lambda ps: optim.Adam(ps, fused=True),
    "NAdam for-loop": lambda ps: optim.NAdam(ps, foreach=False),
    "NAdam foreach": lambda ps: optim.NAdam(ps, foreach=True),
    "RAdam for-loop": lambda ps: optim.RAdam(ps, foreach=False),
    "RAdam foreach": lambda ps: optim.RAdam(ps, foreach=True),
    "Adamax for-loop": lambda ps: optim.Adamax(ps, foreach=False),
    "Adagrad for-loop": lambda ps: optim.Adagrad(ps, foreach=False),
    "RMSprop for-loop": lambda ps: optim.RMSprop(ps, foreach=False),
    "RMSprop foreach": lambda ps: optim.RMSprop(ps, foreach=True),
    "Adadelta for-loop": lambda ps: optim.Adadelta(ps, foreach=False),
    "ASGD for-loop": lambda ps: optim.ASGD(ps, foreach=False),
    "Adafactor": lambda ps: optim.Adafactor(ps),
    "Rprop foreach": lambda ps: optim.Rprop(ps, foreach=True),
}


def optimizer_of(
    make: Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer], count: int
) -> torch.optim.Optimizer:
    torch.manual_seed(0)
    parameters = [torch.nn.Parameter(torch.randn(16, 16)) for _ in range(count)]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    optimizer = make(parameters)
    optimizer.step()  # the state is there
    return optimizer


def by_capture(count: int = 10) -> None:
    print(f"the first compiled step, backend eager, {count} parameters: milliseconds")
    ratios = []
    for name, make in FORMS.items():
        took = []
        for compile in (gramme.compile, torch.compile):
            torch._dynamo.reset()
            compile(lambda x: x + 1, backend="eager")(torch.ones(1))  # what is imported and started once
            step: Any = compile(optimizer_of(make, count).step, backend="eager")
            start = now()
            step()
            took.append((now() - start) * 1e3)
        ratios.append(took[1] / took[0])
        print(f"  {name:17s} {took[0]:8.1f}   torch.compile {took[1]:8.1f}   {ratios[-1]:6.1f} times")
    print(f"  geometric mean {math.prod(ratios) ** (1 / len(ratios)):.1f} times, least {min(ratios):.1f}")


def microseconds(step: Callable[[], Any], repeat: int = 40) -> float:
    times = []
    for _ in range(repeat):
        start = now()
        step()
        times.append((now() - start) * 1e6)
    return min(times)


def by_step(count: int = 100) -> None:
    print(f"a step on {count} parameters of 16 by 16, one thread: microseconds")
    torch.set_num_threads(1)
    for name, make in FORMS.items():
        eager = optimizer_of(make, count).step
        native = gramme.compile(optimizer_of(make, count).step, backend="native")
        for _ in range(8):  # past branches by the number of steps
            eager(), native()
        a, b = microseconds(eager), microseconds(native)
        print(f"  {name:17s} eager {a:8.0f}   native {b:8.0f}   {a / b:5.2f} times")


if __name__ == "__main__":
    tables = {"capture": by_capture, "native": by_step}
    for table in sys.argv[1:] or tables:
        tables[table]()
