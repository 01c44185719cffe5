"""Zuko: normalizing flows, lazy distributions, transforms, numerics."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from zuko import bayesian, distributions, flows, mixtures, transforms, utils
from zuko import nn as layers

from .table import add, of, r, u

XC: Any = lambda: [(r(4, 3), r(2)), (r(5, 3), r(5, 2)), (r(1, 3), r(2))]  # noqa: E731


class LogProb(nn.Module):
    def __init__(self, flow: nn.Module) -> None:
        super().__init__()
        self.flow = flow

    def forward(self, x: Tensor, c: Tensor | None = None) -> Tensor:
        return -self.flow(c).log_prob(x).mean()


class Sample(LogProb):
    def forward(self, x: Tensor, c: Tensor | None = None) -> Any:
        made = self.flow(c)
        drawn = made.rsample((x.shape[0],))
        return drawn, made.log_prob(drawn)


SMALL: Any = {"hidden_features": (8,)}
for name, make in {
    "MAF": lambda: flows.MAF(3, 2, transforms=2, **SMALL),
    "NSF": lambda: flows.NSF(3, 2, transforms=2, bins=4, **SMALL),
    "NICE": lambda: flows.NICE(3, 2, transforms=2, **SMALL),
    "RealNVP": lambda: flows.RealNVP(3, 2, transforms=2, **SMALL),
    "NAF": lambda: flows.NAF(3, 2, transforms=1, signal=4, network={"hidden_features": (8,)}, **SMALL),
    "UNAF": lambda: flows.UNAF(3, 2, transforms=1, signal=4, network={"hidden_features": (8,)}, **SMALL),
    "SOSPF": lambda: flows.SOSPF(3, 2, transforms=1, **SMALL),
    "BPF": lambda: flows.BPF(3, 2, transforms=1, **SMALL),
    "NCSF": lambda: flows.NCSF(3, 2, transforms=1, bins=4, **SMALL),
    "GF": lambda: flows.GF(3, 2, transforms=1, **SMALL),
    "CNF": lambda: flows.CNF(3, 2, **SMALL),
    "GMM": lambda: flows.GMM(3, 2, components=2, **SMALL),
}.items():
    add(f"{name}.log_prob", lambda make=make: LogProb(make()), XC)
for name, make in {
    "MAF": lambda: flows.MAF(3, 2, transforms=2, **SMALL),
    "NSF": lambda: flows.NSF(3, 2, transforms=1, bins=4, **SMALL),
    "RealNVP": lambda: flows.RealNVP(3, 2, transforms=2, **SMALL),
    "BPF": lambda: flows.BPF(3, 2, transforms=1, **SMALL),
}.items():
    add(f"{name}.sample", lambda make=make: Sample(make()), lambda: [(r(2, 3), r(2)), (r(3, 3), r(2))])

add("layers.MLP", lambda: layers.MLP(3, 2, (4, 4), activation=nn.ELU, normalize=True), of((2, 3), (5, 3), (2, 5, 3)))
add("layers.MaskedMLP", lambda: layers.MaskedMLP(torch.randn(3, 4) > 0, (8,), residual=True), of((2, 4), (5, 4)))
add("layers.MonotonicMLP", lambda: layers.MonotonicMLP(3, 2, (4,)), of((2, 3), (5, 3), grad=True))
add("layers.Linear.stack", lambda: layers.Linear(3, 2, stack=4), of((5, 4, 3), (2, 4, 3)))
add("mixtures.GMM", lambda: LogProb(mixtures.GMM(3, components=2)), lambda: [(r(4, 3),), (r(7, 3),)])


def joint(x: Tensor, low: float) -> Any:
    made = distributions.Joint(
        distributions.BoxUniform(torch.full((2,), low), torch.ones(2)),
        distributions.DiagNormal(torch.zeros(1), torch.ones(1)),
    )
    return made.log_prob(x), made.rsample((x.shape[0],)), made.event_shape


add("Joint", lambda: joint, lambda: [(u(4, 3), -1.0), (u(2, 3), -2.0), (u(2, 3), -2.0)])


def mixture(x: Tensor, logits: Tensor) -> Any:
    made = distributions.Mixture(distributions.DiagNormal(torch.arange(4.0).reshape(2, 2), torch.ones(2, 2)), logits)
    return made.log_prob(x), made.sample((3,)), made.event_shape


add("Mixture", lambda: mixture, lambda: [(r(4, 2), r(2, grad=True)), (r(6, 2), r(2, grad=True))])
add(
    "GeneralizedNormal",
    lambda: (
        lambda x, beta: (
            distributions.GeneralizedNormal(beta).log_prob(x),
            distributions.GeneralizedNormal(beta).rsample(),
        )
    ),
    lambda: [(r(3), u(3, grad=True) + 1), (r(5), u(5) + 1)],
)


def truncated(x: Tensor, bound: float) -> Any:
    made = distributions.Truncated(torch.distributions.Normal(0.0, 1.0), -bound, bound)
    return made.log_prob(x), made.sample((x.shape[0],)), repr(made)


add("Truncated", lambda: truncated, lambda: [(r(4), 1.0), (r(6), 2.0), (r(6), 0.5)])
add(
    "Sort",
    lambda: (
        lambda x, n: distributions.Sort(torch.distributions.Normal(torch.zeros(()), 1.0), n).log_prob(x.sort(-1).values)
    ),
    lambda: [(r(2, 3), 3), (r(4, 5), 5)],
)
add(
    "Maximum",
    lambda: lambda x, n: distributions.Maximum(torch.distributions.Normal(torch.zeros(()), 1.0), n).log_prob(x),
    lambda: [(r(3), 3), (r(2), 5)],
)


def both_ways(x: Tensor, make: Any) -> Any:
    t = make()
    y, ladj = t.call_and_ladj(x)
    return y, ladj, t.inv(y), repr(t)


add(
    "SoftclipTransform",
    lambda: lambda x: both_ways(x, lambda: transforms.SoftclipTransform(2.0)),
    of((3, 2), (4, 2), grad=True),
)
add(
    "CircularShiftTransform",
    lambda: lambda x: both_ways(x, transforms.CircularShiftTransform),
    of((3, 2), (4, 2), grad=True),
)
add(
    "MonotonicRQSTransform",
    lambda: lambda x, w, h, d: both_ways(x, lambda: transforms.MonotonicRQSTransform(w, h, d)),
    lambda: [(r(n), r(n, 4, grad=True), r(n, 4, grad=True), r(n, 3, grad=True)) for n in (3, 5)],
)
add(
    "MonotonicTransform",
    lambda: (
        lambda x, k: both_ways(x, lambda: transforms.MonotonicTransform(lambda v: v + k * v**3, phi=(k,), bound=5.0))
    ),
    lambda: [(r(3), u(1, grad=True)), (r(4), u(1, grad=True))],
)
add(
    "LULinearTransform",
    lambda: lambda x, m: both_ways(x, lambda: transforms.LULinearTransform(m)),
    lambda: [(r(2, 3), r(3, 3, grad=True)), (r(5, 3), r(3, 3, grad=True))],
)
add(
    "RotationTransform",
    lambda: lambda x, m: both_ways(x, lambda: transforms.RotationTransform(m)),
    lambda: [(r(2, 3), r(3, 3, grad=True)), (r(5, 3), r(3, 3))],
)
add(
    "ComposedTransform",
    lambda: (
        lambda x, s: both_ways(
            x,
            lambda: transforms.ComposedTransform(
                transforms.SignedPowerTransform(s), transforms.PermutationTransform(torch.tensor([1, 0]))
            ),
        )
    ),
    lambda: [(r(2, 2), r(2, grad=True)), (r(5, 2), r(2))],
)
add(
    "bisection",
    lambda: lambda y, n: utils.bisection(lambda x: x**3 + x, y, -5.0, 5.0, n=n),
    lambda: [(r(3), 8), (r(4), 12)],
)
add(
    "gauss_legendre",
    lambda: lambda a, b, n: utils.gauss_legendre(torch.cos, a, b, n=n),
    lambda: [(r(3, grad=True), r(3, grad=True), 3), (r(4), r(4), 5)],
)
add(
    "odeint",
    lambda: lambda x, k: utils.odeint(lambda t, x: -k * x * t, x, 0.0, 1.0, phi=(k,)),
    lambda: [(r(3, grad=True), u(1, grad=True)), (r(4), u(1, grad=True))],
)
add("broadcast", lambda: lambda *x: utils.broadcast(*x, ignore=1), lambda: [(r(2, 3), r(4)), (r(5, 1, 3), r(2, 2))])
add(
    "Partial",
    lambda: utils.Partial(lambda x, scale, bias: x * scale + bias, torch.ones(3), bias=torch.zeros(3)),
    lambda: [(r(3),), (r(3),), (r(2, 3),)],
)


class Bayes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.model = bayesian.BayesianModel(
            nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)), init_logvar=-9.0
        )

    def forward(self, x: Tensor) -> Any:
        with self.model.reparameterize() as net:
            return net(x), self.model.kl_divergence() if hasattr(self.model, "kl_divergence") else 0


add("BayesianModel", Bayes, of((2, 3), (4, 3)))
