"""Geoopt: manifolds, manifold tensors and parameters (subclasses of Tensor), optimizers, layers."""

from __future__ import annotations

from typing import Any

import geoopt
import torch
from geoopt import linalg, manifolds
from torch import Tensor, nn

from .table import add, r

BALL: Any = lambda: [(r(3, 4) * 0.1, r(3, 4) * 0.1), (r(5, 4) * 0.1, r(5, 4) * 0.1), (r(5, 2) * 0.1, r(5, 2) * 0.1)]  # noqa: E731


def of_manifold(make: Any, use: Any) -> Any:
    manifold = make()
    return lambda x, y: use(manifold, manifold.projx(x), y)


def walk(m: Any, x: Tensor, v: Tensor) -> Any:
    v = m.proju(x, v)
    y = m.expmap(x, v)
    return y, m.logmap(x, y) if not isinstance(m, manifolds.Stiefel) else m.retr(x, v), m.inner(x, v)


def carried(m: Any, x: Tensor, v: Tensor) -> Any:
    v = m.proju(x, v)
    return m.retr_transp(x, v, v), m.egrad2rgrad(x, v), m.norm(x, v)


for name, make in {
    "PoincareBall": lambda: manifolds.PoincareBall(c=1.0),
    "Stereographic": lambda: manifolds.Stereographic(k=-0.5, learnable=True),
    "SphereProjection": lambda: manifolds.SphereProjection(k=0.7),
    "Sphere": manifolds.Sphere,
    "SphereExact": manifolds.SphereExact,
    "Euclidean": lambda: manifolds.Euclidean(ndim=1),
    "Lorentz": lambda: manifolds.Lorentz(k=1.0),
    "Scaled": lambda: manifolds.Scaled(manifolds.Sphere(), 2.0, learnable=True),
}.items():
    add(f"{name}.walk", lambda make=make: of_manifold(make, walk), BALL)
    if name in ("PoincareBall", "Sphere", "Euclidean"):
        add(f"{name}.carried", lambda make=make: of_manifold(make, carried), BALL)

SQUARE: Any = lambda: [(r(4, 2), r(4, 2)), (r(2, 5, 3), r(2, 5, 3))]  # noqa: E731
add("CanonicalStiefel", lambda: of_manifold(manifolds.CanonicalStiefel, carried), SQUARE)
add("EuclideanStiefel", lambda: of_manifold(manifolds.EuclideanStiefel, walk), SQUARE)
add(
    "SPD.walk",
    lambda: of_manifold(manifolds.SymmetricPositiveDefinite, walk),
    lambda: [(r(3, 3), r(3, 3)), (r(2, 2, 2), r(2, 2, 2))],
)
add(
    "Birkhoff",
    lambda: of_manifold(manifolds.BirkhoffPolytope, lambda m, x, v: (x, m.proju(x, v))),
    lambda: [(r(3, 3).abs(), r(3, 3))],
)
add(
    "ProductManifold",
    lambda: of_manifold(
        lambda: manifolds.ProductManifold((manifolds.Sphere(), 2), (manifolds.Euclidean(ndim=1), 3)), carried
    ),
    lambda: [(r(3, 5), r(3, 5)), (r(4, 5), r(4, 5))],
)
add("PoincareBall.dist", lambda: of_manifold(manifolds.PoincareBall, lambda m, x, y: m.dist(x, m.projx(y))), BALL)
add(
    "PoincareBall.mobius",
    lambda: of_manifold(
        manifolds.PoincareBall, lambda m, x, y: m.mobius_add(x, m.mobius_scalar_mul(torch.tensor(0.5), y))
    ),
    BALL,
)
add(
    "PoincareBall.midpoint",
    lambda: of_manifold(manifolds.PoincareBall, lambda m, x, y: m.weighted_midpoint(x, y[..., 0].abs())),
    BALL,
)
add(
    "PoincareBall.checks",
    lambda: of_manifold(
        manifolds.PoincareBall,
        lambda m, x, y: (m.check_point_on_manifold(x), m.check_point_on_manifold(y * 99, explain=True)),
    ),
    BALL,
)


def assertion(x: Tensor) -> Any:
    geoopt.Sphere().assert_check_point_on_manifold(x)
    return x + 1


add("assert_check_point", lambda: assertion, lambda: [(torch.eye(2),), (r(3, 2),), (torch.eye(2),)])


class Hyperbolic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ball = manifolds.PoincareBall(c=1.0, learnable=True)
        self.weight = nn.Parameter(r(4, 3) * 0.1)
        self.bias = geoopt.ManifoldParameter(torch.zeros(4), manifold=self.ball)

    def forward(self, x: Tensor) -> Tensor:
        x = self.ball.mobius_matvec(self.weight, self.ball.expmap0(x))
        return self.ball.logmap0(self.ball.mobius_add(x, self.bias))


add("Hyperbolic", Hyperbolic, lambda: [(r(2, 3) * 0.1,), (r(5, 3) * 0.1,)])


class Embedded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        ball = geoopt.PoincareBall()
        self.table = geoopt.ManifoldParameter(ball.random_normal(6, 3, std=0.1), manifold=ball)

    def forward(self, i: Tensor, j: Tensor) -> Tensor:
        return self.table.manifold.dist(self.table[i], self.table[j])


add(
    "Embedded",
    Embedded,
    lambda: [(torch.tensor([0, 1]), torch.tensor([2, 3])), (torch.tensor([0, 1, 4]), torch.tensor([2, 3, 5]))],
)


def manifold_tensor(x: Tensor) -> Any:
    made = geoopt.ManifoldTensor(x, manifold=geoopt.Sphere())
    made.proj_()
    return made, type(made + 1).__name__, made.manifold.name, made.norm()


add("ManifoldTensor", lambda: manifold_tensor, lambda: [(r(3),), (r(4),)])


def optimized(kind: Any, **given: Any) -> Any:
    point = geoopt.ManifoldParameter(geoopt.Sphere().projx(r(3)), manifold=geoopt.Sphere())
    optimizer = kind([point], lr=0.1, **given)

    def run(target: Tensor) -> Any:
        optimizer.zero_grad()
        loss = (point - target).square().sum()
        loss.backward()
        optimizer.step()
        return loss.detach(), point.detach().clone()

    return run


add("RiemannianSGD", lambda: optimized(geoopt.optim.RiemannianSGD, momentum=0.9), lambda: [(r(3),)] * 4)
add("RiemannianAdam", lambda: optimized(geoopt.optim.RiemannianAdam, stabilize=2), lambda: [(r(3),)] * 5)
add("linalg.expm", lambda: lambda x: linalg.sym_expm(x + x.mT), lambda: [(r(3, 3),), (r(2, 2, 2),)])
add(
    "linalg.block_matrix", lambda: lambda x: linalg.block_matrix([[x, x], [x, -x]]), lambda: [(r(3, 3),), (r(2, 2, 2),)]
)
