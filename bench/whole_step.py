"""A training step as one compiled function, beside forward, backward and optimizer called one after another.

    whole_step.py [--rounds N]

Each form takes a turn of some steps in each round; a ratio is the quotient of medians of CPU time, on one thread.
"""

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import gramme
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

STEPS = 20  # in a turn

Step = Callable[[torch.Tensor, torch.Tensor], Any]


def layers(count: int, width: int) -> nn.Module:
    parts = [nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(count)]
    return nn.Sequential(*parts, nn.Linear(width, 10))


def attention() -> nn.Module:
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    return nn.Sequential(nn.Unflatten(1, (4, 32)), nn.TransformerEncoder(layer, 2), nn.Flatten(), nn.Linear(128, 10))


def convolutions() -> nn.Module:
    parts = [nn.Unflatten(1, (2, 8, 8)), nn.Conv2d(2, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3)]
    return nn.Sequential(*parts, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))


MODELS: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "2 layers": (lambda: layers(2, 16), 16),
    "6 layers": (lambda: layers(6, 16), 16),
    "20 layers": (lambda: layers(20, 16), 16),
    "convolutions": (convolutions, 128),
    "attention": (attention, 128),
}
OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD": lambda p: torch.optim.SGD(p, 0.01),
    "AdamW": lambda p: torch.optim.AdamW(p, 1e-3),
    "fused": lambda p: torch.optim.AdamW(p, 1e-3, fused=True),
}


def eager(m: nn.Module, o: torch.optim.Optimizer) -> Step:
    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        o.zero_grad()
        loss = F.cross_entropy(m(x), y)
        loss.backward()
        o.step()
        return loss

    return step


def one(m: nn.Module, o: torch.optim.Optimizer) -> Step:
    return gramme.compile(eager(m, o), backend="native")


def three(m: nn.Module, o: torch.optim.Optimizer) -> Step:
    forward = gramme.compile(lambda x, y: F.cross_entropy(m(x), y), backend="native")
    update = gramme.compile(o.step, backend="native")

    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        o.zero_grad()
        loss = forward(x, y)
        loss.backward()
        update()
        return loss

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    gains = []
    print(f"{'':14}{'':8}{'eager, us':>10}{'three':>8}{'one':>8}{'three / one':>13}")
    for name, (make, width) in MODELS.items():
        for optimizer, of in OPTIMIZERS.items():
            x, y = torch.randn(8, width), torch.randint(10, (8,))
            forms = []
            for form in (eager, three, one):
                torch.manual_seed(0)
                m = make()
                forms.append(form(m, of(m.parameters())))
            for form in forms:
                for _ in range(15):
                    form(x, y)
            times: list[list[float]] = [[] for _ in forms]
            for _ in range(rounds):
                for form, taken in zip(forms, times, strict=True):
                    start = time.thread_time()
                    for _ in range(STEPS):
                        form(x, y)
                    taken.append((time.thread_time() - start) / STEPS * 1e6)
            whole, parts, alone = (statistics.median(taken) for taken in times)
            gains.append(parts / alone)
            print(f"{name:14}{optimizer:8}{whole:10.1f}{parts:8.1f}{alone:8.1f}{gains[-1]:13.2f}")
    print(f"geometric mean of three / one: {statistics.geometric_mean(gains):.2f}, least {min(gains):.2f}")


if __name__ == "__main__":
    main()
