"""PyPose: Lie tensors (a subclass of Tensor), filters, splines, robust kernels, second-order optimizers."""

from __future__ import annotations

from typing import Any

import pypose as pp
import torch
from torch import Tensor, nn

from .table import add, r, u


def exp_log(x: Tensor) -> Any:
    group = pp.so3(x).Exp()
    return group.Log().tensor(), group.tensor(), group.ltype is pp.SO3_type, group.shape


add("so3.Exp.Log", lambda: exp_log, lambda: [(r(2, 3, grad=True),), (r(5, 3, grad=True),)])
add("se3.Exp", lambda: lambda x: pp.se3(x).Exp(), lambda: [(r(2, 6, grad=True),), (r(4, 6),)])
add(
    "SE3.Inv.Mul",
    lambda: lambda x, y: (pp.se3(x).Exp().Inv() @ pp.se3(y).Exp()).Log(),
    lambda: [(r(2, 6), r(2, 6)), (r(3, 6), r(3, 6))],
)
add("SE3.Act", lambda: lambda x, p: pp.se3(x).Exp().Act(p), lambda: [(r(2, 6, grad=True), r(2, 3)), (r(3, 6), r(3, 4))])
add("sim3.Log", lambda: lambda x: pp.sim3(x).Exp().Log().tensor().sum(), lambda: [(r(2, 7, grad=True),), (r(3, 7),)])
add("SO3.matrix", lambda: lambda x: pp.so3(x).Exp().matrix(), lambda: [(r(2, 3),), (r(3, 3),)])
add("SO3.euler", lambda: lambda x: pp.so3(x).Exp().euler(), lambda: [(r(2, 3),), (r(3, 3),)])
add("mat2SO3", lambda: lambda x: pp.mat2SO3(pp.so3(x).Exp().matrix()), lambda: [(r(2, 3),), (r(3, 3),)])
add(
    "mat2SE3",
    lambda: lambda x: pp.mat2SE3(pp.se3(x).Exp().matrix(), check=False).tensor(),
    lambda: [(r(2, 6),), (r(3, 6),)],
)
add("euler2SO3", lambda: lambda x: pp.euler2SO3(x).tensor() * 2, lambda: [(r(2, 3),), (r(3, 3),)])
add("quat2unit", lambda: lambda x: pp.quat2unit(x), lambda: [(r(2, 4),), (r(3, 4),)])
add(
    "Adj",
    lambda: lambda x, a: pp.Adj(pp.se3(x).Exp(), pp.se3(a)).tensor(),
    lambda: [(r(2, 6), r(2, 6, grad=True)), (r(3, 6), r(3, 6))],
)
add(
    "Jinvp", lambda: lambda x, a: pp.Jinvp(pp.so3(x).Exp(), pp.so3(a)), lambda: [(r(2, 3), r(2, 3)), (r(3, 3), r(3, 3))]
)
add("Jr", lambda: lambda x: pp.so3(x).Jr(), lambda: [(r(2, 3),), (r(3, 3),)])
add(
    "Retr",
    lambda: lambda x, a: pp.Retr(pp.so3(x).Exp(), pp.so3(a)).tensor(),
    lambda: [(r(2, 3), r(2, 3)), (r(3, 3), r(3, 3))],
)
add("cumprod", lambda: lambda x: pp.so3(x).Exp().cumprod(dim=0), lambda: [(r(4, 3),), (r(5, 3),)])
add("cumops", lambda: lambda x: pp.cumops(x, 0, lambda a, b: a + b), lambda: [(r(4, 3),), (r(6, 2),)])


def added(x: Tensor, step: Tensor) -> Any:
    group = pp.so3(x).Exp()
    group.add_(step)
    return group, group + step, x


add("SO3.add_", lambda: added, lambda: [(r(2, 3), r(2, 3)), (r(4, 3), r(4, 3))])
add("vec2skew", lambda: lambda x: pp.vec2skew(x) @ x.unsqueeze(-1), lambda: [(r(2, 3),), (r(4, 3),)])
add("cart2homo", lambda: lambda x: pp.homo2cart(pp.cart2homo(x) * 2), lambda: [(r(2, 3),), (r(4, 2),)])


def projected(points: Tensor, focal: float) -> Tensor:
    k = torch.tensor([[focal, 0.0, 3.0], [0.0, focal, 3.0], [0.0, 0.0, 1.0]])
    pixels = pp.point2pixel(points, k)
    return pp.reprojerr(points, pixels + 1, k, reduction="norm")


add("reprojerr", lambda: projected, lambda: [(r(4, 3), 2.0), (r(5, 3), 3.0)])
add("knn", lambda: lambda a, b, k: tuple(pp.knn(a, b, k=k)), lambda: [(r(4, 3), r(6, 3), 2), (r(5, 3), r(7, 3), 3)])
add("svdtf", lambda: lambda a, b: pp.svdtf(a, b), lambda: [(r(5, 3), r(5, 3)), (r(7, 3), r(7, 3))])
add("chspline", lambda: lambda p: pp.chspline(p, 0.3), lambda: [(r(1, 4, 3),), (r(2, 5, 3),)])
add("bspline", lambda: lambda x: pp.bspline(pp.se3(x).Exp(), 0.4), lambda: [(r(1, 4, 6),), (r(1, 5, 6),)])
add(
    "bvmv",
    lambda: lambda a, m, b: pp.bvmv(a, m, b),
    lambda: [(r(2, 3), r(2, 3, 3), r(2, 3)), (r(4, 2), r(4, 2, 2), r(4, 2))],
)
for kernel in (
    pp.optim.kernel.Huber,
    pp.optim.kernel.PseudoHuber,
    pp.optim.kernel.Cauchy,
    pp.optim.kernel.SoftLOne,
    pp.optim.kernel.Tolerant,
):
    given = (1.0, -0.5) if kernel is pp.optim.kernel.Tolerant else (1.0,)
    add(kernel.__name__, lambda kernel=kernel, given=given: kernel(*given), lambda: [(u(4) * 3,), (u(6),)])


class Pose(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pose = pp.Parameter(pp.randn_SE3(2))

    def forward(self, x: Tensor) -> Tensor:
        return (self.pose @ pp.se3(x).Exp()).Log().tensor()


add("Parameter", Pose, lambda: [(r(2, 6),), (r(2, 6),)])


def lti(x: Tensor, n: int) -> Any:
    system = pp.module.LTI(torch.eye(2) * 0.9, torch.ones(2, 1), torch.eye(2), torch.zeros(2, 1))
    seen = []
    for _ in range(n):
        x, y = system(x, torch.ones(1))
        seen.append(y)
    return seen, system.systime


add("LTI", lambda: lti, lambda: [(r(2), 3), (r(2), 2)])


class Car(pp.module.NLS):
    def state_transition(self, state: Tensor, given: Tensor, t: Any = None) -> Tensor:
        return state + torch.stack([given[..., 0] * state[..., 1].cos(), given[..., 1] * 0.1 * state[..., 0]], -1)

    def observation(self, state: Tensor, given: Tensor, t: Any = None) -> Tensor:
        return state


def filtered(kind: Any) -> Any:
    filter = kind(Car(), torch.eye(2) * 0.01, torch.eye(2) * 0.01)
    return lambda x, y, u: filter(x, y, u, torch.eye(2) * 0.1)


add("EKF", lambda: filtered(pp.module.EKF), lambda: [(r(2), r(2), r(2)), (r(2), r(2), r(2))])
add("UKF", lambda: filtered(pp.module.UKF), lambda: [(r(2), r(2), r(2)), (r(2), r(2), r(2))])
add(
    "IMUPreintegrator",
    lambda: pp.module.IMUPreintegrator(prop_cov=True, reset=False),
    lambda: [(torch.full((1, n, 1), 0.01), r(1, n, 3), r(1, n, 3)) for n in (3, 4)],
)


def geodesic(x: Tensor, y: Tensor) -> Tensor:
    return pp.geodesic_loss(pp.so3(x).Exp(), pp.so3(y).Exp())


add("geodesic_loss", lambda: geodesic, lambda: [(r(3, 3, grad=True), r(3, 3)), (r(4, 3, grad=True), r(4, 3))])


class Inverse(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pose = pp.Parameter(pp.randn_SE3(1, sigma=0.1))

    def forward(self, x: Any) -> Tensor:
        return (self.pose @ x).Log().tensor()


def levenberg() -> Any:
    model = Inverse()
    optimizer = pp.optim.LM(model)

    def run(x: Tensor) -> Any:
        return optimizer.step(pp.se3(x).Exp()), model.pose.tensor()

    run.state = model  # type: ignore[attr-defined]
    return run


add("LM.step", levenberg, lambda: [(r(1, 6) * 0.1,), (r(1, 6) * 0.1,)])
