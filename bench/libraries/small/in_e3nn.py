"""e3nn: irreducible representations, tensor products, spherical harmonics, gates, rotations."""

from __future__ import annotations

from typing import Any

import torch
from e3nn import math as e3math
from e3nn import nn as layers
from e3nn import o3
from torch import nn

from .table import add, of, r, u


def pairs(first: int, second: int) -> Any:
    return lambda: [(r(n, first, grad=True), r(n, second)) for n in (3, 3, 5, 1)]


class Message(nn.Module):
    """A convolution over the edges of a graph."""

    def __init__(self) -> None:
        super().__init__()
        self.harmonics = o3.Irreps.spherical_harmonics(1)
        self.product = o3.FullyConnectedTensorProduct("2x0e+1x1o", self.harmonics, "2x0e+1x1o", shared_weights=False)
        self.weights = layers.FullyConnectedNet([4, 8, self.product.weight_numel], torch.tanh)

    def forward(self, x: torch.Tensor, edges: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        source, target = edges
        vectors = positions[source] - positions[target]
        along = o3.spherical_harmonics(self.harmonics, vectors, normalize=True, normalization="component")
        length = e3math.soft_one_hot_linspace(vectors.norm(dim=1), 0.0, 3.0, 4, basis="smooth_finite", cutoff=True)
        message = self.product(x[source], along, self.weights(length))
        return torch.zeros_like(x).index_add(0, target, message)


def graphs() -> Any:
    sizes = ((4, 6), (4, 9), (6, 12))
    return [(r(n, 5, grad=True), torch.randint(0, n, (2, edges)), r(n, 3)) for n, edges in sizes]


add("Message", Message, graphs)
add("Linear", lambda: o3.Linear("2x0e+2x1o", "3x0e+1x1o"), of((3, 8), (5, 8), (2, 3, 8), grad=True))
add("Linear.biases", lambda: o3.Linear("4x0e", "2x0e", biases=True), of((3, 4), (5, 4)))
add("FullyConnected", lambda: o3.FullyConnectedTensorProduct("2x0e+1x1o", "1x0e+1x1o", "2x0e+1x1o"), pairs(5, 4))
add("FullTensorProduct", lambda: o3.FullTensorProduct("1x0e+1x1o", "1x1o"), pairs(4, 3))
add("Elementwise", lambda: o3.ElementwiseTensorProduct("2x0e+1x1o", "2x0e+1x1o"), pairs(5, 5))
add("TensorSquare", lambda: o3.TensorSquare("1x0e+1x1o"), of((3, 4), (5, 4), grad=True))
add("Norm", lambda: o3.Norm("2x0e+1x1o"), of((3, 5), (5, 5), grad=True))
add("SphericalHarmonics", lambda: o3.SphericalHarmonics([0, 1, 2], True), of((3, 3), (5, 3), (2, 4, 3), grad=True))
add("harmonics.alpha_beta", lambda: o3.SphericalHarmonicsAlphaBeta(2), lambda: [(r(n), r(n)) for n in (3, 3, 5)])
add("Activation", lambda: layers.Activation("2x0e+1x0o", [torch.relu, torch.tanh]), of((3, 3), (5, 3)))
add(
    "Gate",
    lambda: layers.Gate("2x0e", [torch.tanh], "1x0e", [torch.sigmoid], "1x1o"),
    of((3, 6), (5, 6), (2, 2, 6), grad=True),
)
add("NormActivation", lambda: layers.NormActivation("2x0e+1x1o", torch.sigmoid), of((3, 5), (5, 5)))
add("BatchNorm", lambda: layers.BatchNorm("2x0e+1x1o"), of((3, 5), (5, 5), (4, 2, 5)))
add("BatchNorm.eval", lambda: layers.BatchNorm("2x0e+1x1o", instance=True).eval(), of((3, 4, 5), (5, 4, 5)))
add("Dropout", lambda: layers.Dropout("2x0e+1x1o", 0.5), of((3, 5), (5, 5)))
add("FullyConnectedNet", lambda: layers.FullyConnectedNet([3, 8, 2], torch.tanh), of((3, 3), (5, 3), grad=True))
add("Extract", lambda: layers.Extract("2x0e+1x1o", ["2x0e", "1x1o"], [(0,), (1,)]), of((3, 5), (5, 5)))
add("S2Activation", lambda: layers.S2Activation("1x0e+1x1o", torch.tanh, 6), of((3, 4), (5, 4)))
add("angles", lambda: lambda a, b, c: o3.angles_to_matrix(a, b, c), lambda: [(u(n), u(n), u(n)) for n in (2, 2, 4)])
add(
    "quaternions",
    lambda: lambda q, s: o3.quaternion_to_matrix(o3.compose_quaternion(q, s / s.norm(dim=-1, keepdim=True))),
    lambda: [(r(n, 4), r(n, 4)) for n in (2, 2, 4)],
)
add("axis_angle", lambda: lambda x, a: o3.axis_angle_to_matrix(x, a), lambda: [(r(n, 3), u(n)) for n in (2, 2, 4)])
add("wigner_D", lambda: lambda a, b, c: o3.wigner_D(2, a, b, c), lambda: [(u(n), u(n), u(n)) for n in (2, 2, 4)])
add("D_from_matrix", lambda: lambda m: o3.Irreps("1x0e+1x1o").D_from_matrix(m), lambda: [(o3.rand_matrix(2),)] * 2)
add(
    "soft_one_hot",
    lambda: lambda x, basis: e3math.soft_one_hot_linspace(x, 0.0, 1.0, 5, basis=basis, cutoff=True),
    lambda: [(u(4), basis) for basis in ("gaussian", "cosine", "fourier", "bessel")],
)
