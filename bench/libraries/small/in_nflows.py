"""nflows and normflows: transforms, splines, couplings, densities."""

from __future__ import annotations

from typing import Any

import normflows
import torch
from nflows import distributions, flows, transforms
from nflows.nn import nets
from normflows import flows as normal
from torch import Tensor, nn

from .table import add, of


class Both(nn.Module):
    """Forwards, and back from there."""

    def __init__(self, transform: Any) -> None:
        super().__init__()
        self.transform = transform

    def forward(self, x: Tensor) -> Any:
        y, jacobian = self.transform.forward(x)
        back, inverse = self.transform.inverse(y)
        return y, jacobian, back, inverse


def net(inputs: int, outputs: int) -> nn.Module:
    return nets.ResidualNet(inputs, outputs, 8, num_blocks=1)


MASK = [1, 0, 1, 0]
MADE: dict[str, Any] = {
    "ActNorm": lambda: transforms.ActNorm(4),
    "BatchNorm": lambda: transforms.BatchNorm(4).eval(),
    "AffineCoupling": lambda: transforms.AffineCouplingTransform(MASK, net),
    "AdditiveCoupling": lambda: transforms.AdditiveCouplingTransform(MASK, net),
    "MaskedAffine": lambda: transforms.MaskedAffineAutoregressiveTransform(4, 8, num_blocks=1),
    "RationalQuadratic": lambda: transforms.PiecewiseRationalQuadraticCouplingTransform(
        MASK, net, num_bins=4, tails="linear"
    ),
    "QuadraticCoupling": lambda: transforms.PiecewiseQuadraticCouplingTransform(MASK, net, num_bins=4, tails="linear"),
    "CubicCoupling": lambda: transforms.PiecewiseCubicCouplingTransform(MASK, net, num_bins=4, tails="linear"),
    "LULinear": lambda: transforms.LULinear(4),
    "QRLinear": lambda: transforms.QRLinear(4, num_householder=2),
    "SVDLinear": lambda: transforms.SVDLinear(4, num_householder=2),
    "NaiveLinear": lambda: transforms.NaiveLinear(4),
    "Householder": lambda: transforms.HouseholderSequence(4, 3),
    "RandomPermutation": lambda: transforms.RandomPermutation(4),
    "LeakyReLU": lambda: transforms.LeakyReLU(),
    "LogTanh": lambda: transforms.LogTanh(),
    "Composite": lambda: transforms.CompositeTransform([transforms.ReversePermutation(4), transforms.LULinear(4)]),
}
for name, make in MADE.items():
    add(f"nflows.{name}", lambda make=make: Both(make()), of((3, 4), (3, 4), (5, 4)))
add("nflows.OneByOne", lambda: Both(transforms.OneByOneConvolution(4)), of((2, 4, 3, 3), (2, 4, 3, 3), (3, 4, 2, 2)))
add("nflows.Squeeze", lambda: Both(transforms.SqueezeTransform()), of((2, 2, 4, 4), (2, 2, 6, 4)))


class Density(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        step = [transforms.MaskedAffineAutoregressiveTransform(4, 8, num_blocks=1), transforms.RandomPermutation(4)]
        self.flow = flows.Flow(transforms.CompositeTransform(step), distributions.StandardNormal([4]))

    def forward(self, x: Tensor) -> Any:
        return -self.flow.log_prob(x).mean(), self.flow.sample(2)


add("nflows.density", Density, of((3, 4), (3, 4), (5, 4)))
add("nflows.MADEMoG", lambda: MoG(), of((3, 4), (3, 4), (5, 4)))


class MoG(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.made = distributions.MADEMoG(4, 8, None, num_blocks=1, num_mixture_components=2)

    def forward(self, x: Tensor) -> Any:
        return self.made.log_prob(x)


def masked(scale: bool = True) -> Any:
    made = [normflows.nets.MLP([4, 8, 4], init_zeros=False) for _ in range(2)]
    return normal.MaskedAffineFlow(torch.tensor([1.0, 0.0, 1.0, 0.0]), made[0], made[1] if scale else None)


NORMAL: dict[str, Any] = {
    "MaskedAffine": masked,
    "AffineConst": lambda: normal.AffineConstFlow((4,)),
    "AffineCoupling": lambda: normal.AffineCouplingBlock(normflows.nets.MLP([2, 8, 4])),
    "LULinearPermute": lambda: normal.LULinearPermute(4),
    "Autoregressive": lambda: normal.AutoregressiveRationalQuadraticSpline(4, 1, 8),
    "CoupledSpline": lambda: normal.CoupledRationalQuadraticSpline(4, 1, 8),
    "Permute": lambda: normal.Permute(4, mode="shuffle"),
}
for name, make in NORMAL.items():
    add(f"normflows.{name}", lambda make=make: Both(make()), of((3, 4), (3, 4), (5, 4)))


class Planar(nn.Module):
    def __init__(self, cls: Any) -> None:
        super().__init__()
        self.model = normflows.NormalizingFlow(normflows.distributions.DiagGaussian(4), [cls((4,)) for _ in range(2)])

    def forward(self, x: Tensor) -> Any:
        return self.model.forward_and_log_det(x)


class Likelihood(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.model = normflows.NormalizingFlow(normflows.distributions.DiagGaussian(4), [masked(), masked(False)])

    def forward(self, x: Tensor) -> Any:
        return self.model.forward_kld(x)


add("normflows.Planar", lambda: Planar(normal.Planar), of((3, 4), (3, 4), (5, 4)))
add("normflows.Radial", lambda: Planar(normal.Radial), of((3, 4), (3, 4), (5, 4)))
add("normflows.kld", Likelihood, of((3, 4), (3, 4), (5, 4)))
