"""Pyro: distributions, transforms, effect handlers, inference, numerics."""

from __future__ import annotations

from typing import Any

import pyro
import torch
from pyro import distributions as dist
from pyro import poutine
from pyro.distributions import transforms
from pyro.infer import SVI, Trace_ELBO, TraceMeanField_ELBO
from pyro.nn import AutoRegressiveNN, DenseNN, PyroModule, PyroParam
from pyro.ops import linalg, special, stats, tensor_utils
from torch import Tensor, nn

from .table import add, ints, of, r, u


def scored(make: Any, value: Any = None) -> Any:
    """log_prob of a value, or of a sample."""

    def program(*args: Tensor) -> Any:
        made = make(*args)
        x = made.rsample() if value is None else value(args[0])
        return x, made.log_prob(x)

    return lambda: program


POSITIVE: Any = lambda: [(u(n, grad=True) + 0.5, u(n) + 0.5) for n in (3, 3, 5)]  # noqa: E731
REAL: Any = lambda: [(r(n, grad=True), u(n) + 0.5) for n in (3, 3, 5)]  # noqa: E731
for name, cls in {
    "Normal": dist.Normal,
    "Laplace": dist.Laplace,
    "Gumbel": dist.Gumbel,
    "Logistic": dist.Logistic,
}.items():
    add(f"dist.{name}", scored(cls), REAL)
for name, cls in {"Gamma": dist.Gamma, "Beta": dist.Beta, "Weibull": dist.Weibull, "Pareto": dist.Pareto}.items():
    add(f"dist.{name}", scored(cls), POSITIVE)
add("dist.InverseGamma", scored(dist.InverseGamma), POSITIVE)
add("dist.SoftLaplace", scored(dist.SoftLaplace), REAL)
add("dist.AsymmetricLaplace", scored(lambda a, b: dist.AsymmetricLaplace(a, b, b + 1)), REAL)
add(
    "dist.ZeroInflatedPoisson",
    scored(lambda a, b: dist.ZeroInflatedPoisson(b, gate=a.sigmoid()), torch.zeros_like),
    REAL,
)
add("dist.MaskedNormal", scored(lambda a, b: dist.Normal(a, b).mask(a > 0)), REAL)
add("dist.Independent", scored(lambda a, b: dist.Normal(a, b).to_event(1)), REAL)
add("dist.Delta", scored(lambda a, b: dist.Delta(a, log_density=b)), REAL)
add("dist.VonMises", scored(dist.VonMises, lambda x: x), REAL)
add("dist.ProjectedNormal", scored(lambda a, b: dist.ProjectedNormal(a)), REAL)
add(
    "dist.RelaxedBernoulli",
    scored(lambda a, b: dist.RelaxedBernoulliStraightThrough(torch.tensor(0.7), logits=a)),
    REAL,
)
add(
    "dist.MixtureOfDiagNormals",
    scored(dist.MixtureOfDiagNormals),
    lambda: [(r(k, 2), u(k, 2) + 0.5, r(k)) for k in (3, 3, 4)],
)
add("dist.LowRank", scored(lambda a, b: dist.LowRankMultivariateNormal(a, b.unsqueeze(-1), b)), REAL)
add(
    "dist.LKJCholesky",
    lambda: lambda c: dist.LKJCholesky(3, c).log_prob(torch.eye(3)),
    lambda: [(u(1)[0] + 1,), (u(1)[0] + 2,)],
)
add(
    "dist.GaussianHMM",
    lambda: (
        lambda x: dist.GaussianHMM(
            dist.MultivariateNormal(torch.zeros(2), torch.eye(2)),
            torch.eye(2) * 0.9,
            dist.MultivariateNormal(torch.zeros(2), torch.eye(2)),
            torch.ones(2, 1),
            dist.Normal(torch.zeros(1), 1.0).to_event(1),
        ).log_prob(x)
    ),
    of((4, 1), (4, 1), (7, 1)),
)
add(
    "dist.DiscreteHMM",
    lambda: (
        lambda x: dist.DiscreteHMM(torch.zeros(2), torch.eye(2).log_softmax(-1), dist.Normal(r(2), 1.0)).log_prob(x)
    ),
    of((4,), (4,), (6,)),
)


class Flow(nn.Module):
    """A transform with parameters, forwards and backwards."""

    def __init__(self, transform: Any, invertible: bool = True) -> None:
        super().__init__()
        self.transform = transform
        self.invertible = invertible

    def forward(self, x: Tensor) -> Any:
        made = dist.TransformedDistribution(dist.Normal(torch.zeros(3), torch.ones(3)).to_event(1), [self.transform])
        y = self.transform(x)
        jacobian = self.transform.log_abs_det_jacobian(x, y)
        return y, jacobian, made.log_prob(y) if self.invertible else None


FLOWS: dict[str, Any] = {
    "affine_autoregressive": lambda: Flow(transforms.affine_autoregressive(3, [6])),
    "affine_coupling": lambda: Flow(transforms.affine_coupling(3, hidden_dims=[6])),
    "spline": lambda: Flow(transforms.spline(3, count_bins=4)),
    "spline_coupling": lambda: Flow(transforms.spline_coupling(3, hidden_dims=[6], count_bins=4)),
    "planar": lambda: Flow(transforms.planar(3), False),
    "radial": lambda: Flow(transforms.radial(3), False),
    "sylvester": lambda: Flow(transforms.sylvester(3), False),
    "householder": lambda: Flow(transforms.householder(3, 2)),
    "matrix_exponential": lambda: Flow(transforms.matrix_exponential(3)),
    "polynomial": lambda: Flow(transforms.polynomial(3, [6]), False),
    "batchnorm": lambda: Flow(transforms.batchnorm(3)),
    "permute": lambda: Flow(transforms.permute(3)),
}
for name, flow in FLOWS.items():
    add(f"flow.{name}", flow, of((2, 3), (2, 3), (5, 3)))


def model(x: Tensor) -> None:
    scale = pyro.sample("scale", dist.LogNormal(torch.tensor(0.0), torch.tensor(1.0)))
    with pyro.plate("data", x.shape[0]):
        pyro.sample("x", dist.Normal(torch.zeros(()), scale), obs=x)


def guide(x: Tensor) -> None:
    mean = pyro.param("mean", torch.tensor(0.1))
    pyro.sample("scale", dist.LogNormal(mean, torch.tensor(0.5)))


def steps(loss: Any) -> Any:
    def make() -> Any:
        pyro.clear_param_store()
        inference = SVI(model, guide, pyro.optim.Adam({"lr": 0.1}), loss())
        return lambda x: (inference.step(x), pyro.param("mean").item())

    return make


def traced(x: Tensor) -> Any:
    trace = poutine.trace(poutine.condition(model, {"scale": x.abs().mean()})).get_trace(x)
    return trace.log_prob_sum(), sorted(trace.nodes)


class Regression(PyroModule):
    def __init__(self) -> None:
        super().__init__()
        self.weight = PyroParam(torch.ones(3))
        self.scale = PyroParam(torch.tensor(1.0), constraint=dist.constraints.positive)

    def forward(self, x: Tensor) -> Tensor:
        return (x @ self.weight) / self.scale


add("svi.step", steps(Trace_ELBO), of((4,), (4,), (6,)))
add("svi.mean_field", steps(TraceMeanField_ELBO), of((4,), (4,), (6,)))
add("poutine.trace", lambda: traced, of((4,), (4,), (6,)))
add(
    "poutine.replay",
    lambda: (
        lambda x: poutine.trace(poutine.replay(model, poutine.trace(model).get_trace(x))).get_trace(x).log_prob_sum()
    ),
    of((4,), (4,), (6,)),
)
add("PyroModule", Regression, of((2, 3), (2, 3), (5, 3)))
add("AutoRegressiveNN", lambda: AutoRegressiveNN(3, [6], [1, 1]), of((2, 3), (2, 3), (5, 3)))
add("DenseNN", lambda: DenseNN(3, [6], [2, 1]), of((2, 3), (5, 3)))
add("stats.waic", lambda: lambda x: stats.waic(x), of((6, 3), (6, 3), (8, 3)))
add("stats.hpdi", lambda: lambda x: (stats.hpdi(x, 0.5), stats.quantile(x, [0.2, 0.8])), of((6, 2), (6, 2), (9, 2)))
add("stats.split_gelman_rubin", lambda: lambda x: stats.split_gelman_rubin(x), of((2, 6), (2, 6), (3, 8)))
add("stats.effective", lambda: lambda x: stats.effective_sample_size(x), of((2, 8), (2, 8), (3, 12)))
add("tensor_utils.block_diag", lambda: lambda x: tensor_utils.block_diag_embed(x), of((2, 3, 3), (3, 2, 2)))
add("tensor_utils.convolve", lambda: tensor_utils.convolve, lambda: [(r(5), r(3)), (r(5), r(3)), (r(8), r(4))])
add("tensor_utils.dct", lambda: lambda x: tensor_utils.idct(tensor_utils.dct(x)), of((4,), (4,), (2, 6)))
add(
    "linalg.rinverse",
    lambda: lambda x: linalg.rinverse(x @ x.mT + torch.eye(x.shape[-1]), sym=True),
    of((2, 2), (3, 3), (5, 5)),
)
add("special.log_beta", lambda: special.log_beta, POSITIVE)
add(
    "special.log_binomial",
    lambda: lambda n, k: special.log_binomial(n.float() + 6, k.float()),
    lambda: [(ints(4, 3), ints(4, 3))] * 2,
)
