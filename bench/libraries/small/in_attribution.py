"""Captum's attributions; entmax; Opacus' layers; SSIM; rotary embeddings; differential equations."""

from __future__ import annotations

from typing import Any

import entmax
import torch
import torchcde
import torchdiffeq
import torchsde
from captum import attr
from opacus.layers import DPGRU, DPLSTM, DPMultiheadAttention, SequenceBias
from pytorch_msssim import MS_SSIM, SSIM, ms_ssim
from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb
from torch import Tensor, nn

from .table import add, ints, of, r, u


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 6), nn.Linear(6, 3)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.relu(self.first(x)))  # type: ignore[no-any-return]


def attributed(make: Any, **options: Any) -> Any:
    def made() -> Any:
        way = make(Net())
        return lambda x: way.attribute(x, target=1, **options)

    return made


BATCHES = of((3, 4), (3, 4), (5, 4), grad=True)
add("captum.Saliency", attributed(attr.Saliency), BATCHES)
add("captum.IntegratedGradients", attributed(attr.IntegratedGradients, n_steps=4), BATCHES)
add("captum.InputXGradient", attributed(attr.InputXGradient), BATCHES)
add("captum.DeepLift", attributed(attr.DeepLift), BATCHES)
add("captum.GuidedBackprop", attributed(attr.GuidedBackprop), BATCHES)
add("captum.Deconvolution", attributed(attr.Deconvolution), BATCHES)
add("captum.FeatureAblation", attributed(attr.FeatureAblation), BATCHES)
add("captum.Occlusion", attributed(attr.Occlusion, sliding_window_shapes=(2,)), BATCHES)
add("captum.LayerActivation", lambda: (lambda n: attr.LayerActivation(n, n.first).attribute)(Net()), BATCHES)
add(
    "captum.LayerConductance",
    lambda: (lambda way: lambda x: way.attribute(x, target=0, n_steps=3))(
        (lambda n: attr.LayerConductance(n, n.first))(Net())
    ),
    BATCHES,
)

ROWS = of((3, 6), (3, 6), (5, 8), grad=True)
for name in ("sparsemax", "entmax15", "sparsemax_bisect", "entmax_bisect", "normmax_bisect", "budget_bisect"):
    options = {"budget": 2} if name == "budget_bisect" else {}
    add(f"entmax.{name}", lambda name=name, options=options: lambda x: getattr(entmax, name)(x, **options), ROWS)
add("entmax.alpha", lambda: lambda x: entmax.entmax_bisect(x, torch.tensor(1.3, requires_grad=True)), ROWS)
for name in ("SparsemaxLoss", "Entmax15Loss", "EntmaxBisectLoss"):
    add(
        f"entmax.{name}",
        lambda name=name: getattr(entmax, name)(),
        lambda: [(r(n, 5, grad=True), ints(5, n)) for n in (3, 3, 6)],
    )

add("opacus.DPLSTM", lambda: DPLSTM(4, 5, batch_first=True), of((2, 3, 4), (2, 3, 4), (3, 5, 4)))
add("opacus.DPGRU", lambda: DPGRU(4, 5, bidirectional=True), of((3, 2, 4), (3, 2, 4), (5, 2, 4)))
add("opacus.attention", lambda: Attention(), of((3, 2, 4), (3, 2, 4), (5, 2, 4)))
add("opacus.SequenceBias", lambda: SequenceBias(4), of((3, 2, 4), (5, 2, 4)))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = DPMultiheadAttention(4, 2, add_bias_kv=True)

    def forward(self, x: Tensor) -> Any:
        return self.attention(x, x, x)


IMAGES: Any = lambda: [(u(n, 3, s, s, grad=True), u(n, 3, s, s)) for n, s in ((1, 36), (1, 36), (2, 40))]  # noqa: E731
add("ssim.SSIM", lambda: SSIM(data_range=1.0, win_size=5), IMAGES)
add("ssim.each", lambda: SSIM(data_range=1.0, win_size=5, size_average=False, nonnegative_ssim=True), IMAGES)
add("ssim.MS_SSIM", lambda: MS_SSIM(data_range=1.0, win_size=3, weights=[0.5, 0.5]), IMAGES)
add("ssim.function", lambda: lambda x, y: ms_ssim(x, y, 1.0, win_size=3, weights=[0.4, 0.6]), IMAGES)


class Rotated(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.rotary = RotaryEmbedding(dim=4, **options)

    def forward(self, q: Tensor, k: Tensor) -> Any:
        return (
            self.rotary.rotate_queries_and_keys(q, k) if self.rotary.use_xpos else self.rotary.rotate_queries_or_keys(q)
        )


HEADS: Any = lambda: [(r(2, 2, n, 8), r(2, 2, n, 8)) for n in (4, 4, 6, 3)]  # noqa: E731
add("rotary.plain", Rotated, HEADS)
add("rotary.xpos", lambda: Rotated(use_xpos=True), HEADS)
add("rotary.learned", lambda: Rotated(learned_freq=True), HEADS)
add("rotary.apply", lambda: lambda q, k: apply_rotary_emb(r(q.shape[-2], 4), q), HEADS)


class Field(nn.Module):
    sde_type, noise_type = "ito", "diagonal"

    def __init__(self, method: str = "rk4") -> None:
        super().__init__()
        self.net, self.method = nn.Linear(3, 3), method

    def f(self, t: Tensor, y: Tensor) -> Tensor:
        return torch.tanh(self.net(y))

    def g(self, t: Tensor, y: Tensor) -> Tensor:
        return 0.1 * y

    def forward(self, y: Tensor) -> Any:
        if self.method == "sde":
            noise = torchsde.BrownianInterval(0.0, 1.0, size=tuple(y.shape), entropy=1, levy_area_approximation="none")
            return torchsde.sdeint(self, y, torch.tensor([0.0, 0.5, 1.0]), bm=noise, dt=0.25, method="euler")
        if self.method == "adjoint":
            return torchdiffeq.odeint_adjoint(Drift(self), y, torch.tensor([0.0, 1.0]), method="rk4", adjoint_params=())
        return torchdiffeq.odeint(self.f, y, torch.tensor([0.0, 0.5, 1.0]), method=self.method)


class Drift(nn.Module):
    def __init__(self, field: Field) -> None:
        super().__init__()
        self.field = field

    def forward(self, t: Tensor, y: Tensor) -> Tensor:
        return self.field.f(t, y)


for method in ("euler", "midpoint", "rk4", "explicit_adams", "dopri5", "adjoint", "sde"):
    add(f"ode.{method}", lambda method=method: Field(method), of((2, 3), (2, 3), (4, 3)))
add(
    "cde.cubic",
    lambda: lambda x: torchcde.CubicSpline(torchcde.natural_cubic_coeffs(x)).evaluate(torch.tensor(0.5)),
    of((5, 2), (5, 2), (7, 2)),
)
add(
    "cde.linear",
    lambda: lambda x: torchcde.LinearInterpolation(torchcde.linear_interpolation_coeffs(x)).derivative(0.5),
    of((5, 2), (5, 2), (7, 2)),
)
add(
    "cde.hermite",
    lambda: lambda x: torchcde.hermite_cubic_coefficients_with_backward_differences(x),
    of((5, 2), (5, 2), (7, 2)),
)
