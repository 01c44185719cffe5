"""More programs from torch's pages on quantiles, special functions, spectra, matrices and rounding."""

import math

import torch

from documented import Between, documented, x


@documented(
    "torch.quantile, nanquantile, median, mode: interpolation; q outside [0, 1] raises; float only",
    calls=lambda: [
        (x(4), 0.5, "linear"),
        (x(4), 0.5, "lower"),
        (x(4), torch.tensor([0.1, 0.9]), "nearest"),
        (x(4), 1.5, "linear"),
        (torch.tensor([1.0, math.nan, 2.0]), 0.25, "linear"),
        (x(4).double(), torch.tensor([0.1]), "linear"),
        (x(4).long(), 0.5, "linear"),
    ],
)
def quantiles(t, q, how):
    t.mul_(2)
    y = torch.quantile(t, q, interpolation=how)
    return y, torch.nanquantile(t, 0.5), t.median(), t.nanmedian(), torch.mode(t)


@documented(
    "torch.std_mean, var_mean, aminmax, count_nonzero: tuples and named tuples; correction beyond the count warns",
    calls=lambda: [
        (x(2, 2), 0, 1),
        (x(2, 2), None, 0),
        (x(2, 1), 1, 1),
        (x(2, 2).requires_grad_(), (0, 1), 2),
        (x(0, 2), 0, 1),
        (x(2, 2).long(), 0, 1),
    ],
)
def moments(t, dim, correction):
    s, m = torch.std_mean(t, dim=dim, correction=correction)
    v = torch.var_mean(t, dim=dim, correction=correction, keepdim=True)
    low, high = torch.aminmax(t.detach()) if dim is None else torch.aminmax(t.detach(), dim=0)
    return s, m, type(v).__name__, v, low, high, torch.count_nonzero(t, dim=0)


@documented(
    "torch.special: xlogy, entr, logit with eps, expit, multigammaln; integer inputs give the default dtype",
    calls=lambda: [
        (x(2), 2.0, None),
        (torch.tensor([0.0, 0.5]), 0.0, 0.1),
        (x(2).long(), 3.0, 0.2),
        Between(lambda: torch.set_default_dtype(torch.float64)),
        (x(2).long(), 3.0, 0.2),
        Between(lambda: torch.set_default_dtype(torch.float32)),
        (x(2).long(), 3.0, 0.2),
        (torch.tensor([math.nan, -1.0]), math.nan, None),
    ],
    setup=lambda: torch.set_default_dtype(torch.float32),
)
def special(t, scalar, eps):
    y = torch.special.xlogy(scalar, t)
    z = torch.special.entr(t)
    w = torch.special.expit(t)
    return y, z, y.dtype, w.dtype, torch.logit(t, eps=eps), torch.special.zeta(2.0, t + 2)


@documented(
    "torch.fft.fftshift, fftfreq, fft2, hfft: shapes by s and dim, norm names; unknown norm raises",
    calls=lambda: [
        (x(2, 4), None, "backward"),
        (x(2, 4), (2, 2), "ortho"),
        (x(2, 3), (4, 5), "forward"),
        (x(2, 3), (0, 1), None),
        (x(2, 3), None, "half"),
        (x(2, 3).long(), None, None),
        (x(3), None, None),
    ],
)
def transformed(t, s, norm):
    t.add_(1)
    y = torch.fft.fft2(t, s=s, norm=norm)
    back = torch.fft.irfft2(torch.fft.rfft2(t), s=t.shape)
    shifted = torch.fft.fftshift(y.real)
    return y.shape, y.dtype, back.round(), shifted, torch.fft.fftfreq(t.shape[-1], d=0.5)


@documented(
    "torch.linalg.lstsq, pinv, matrix_power, slogdet, cond: named tuples; negative powers invert; square wanted",
    calls=lambda: [
        (torch.tensor([[2.0, 0.0], [0.0, 4.0]]), 2),
        (torch.tensor([[2.0, 0.0], [0.0, 4.0]]), -1),
        (torch.tensor([[1.0, 0.0], [0.0, 0.0]]), 0),
        (torch.tensor([[1.0, 0.0], [0.0, 0.0]]), -2),
        (x(2, 3), 1),
        (torch.tensor([[2, 0], [0, 4]]), 2),
        (torch.eye(2).expand(3, 2, 2), 3),
    ],
)
def matrices(m, n):
    m = m + 0
    sign = torch.linalg.slogdet(m)
    power = torch.linalg.matrix_power(m, n)
    return sign.sign, sign.logabsdet, power, type(sign).__name__, torch.linalg.lstsq(m, m).solution.shape


@documented(
    "torch.linalg.inv_ex, solve_ex, lu_factor: info instead of an exception unless check_errors",
    calls=lambda: [
        (torch.eye(2) * 2, False),
        (torch.zeros(2, 2), False),
        (torch.zeros(2, 2), True),
        (torch.eye(3).expand(2, 3, 3), True),
        (torch.eye(2, requires_grad=True), False),
    ],
)
def inverted(m, check):
    inverse, info = torch.linalg.inv_ex(m, check_errors=check)
    lu, pivots = torch.linalg.lu_factor(m + torch.eye(m.shape[-1]))
    return inverse, info, info.dtype, lu.stride(), pivots.dtype, inverse.requires_grad, inverse.stride()


@documented(
    "torch.tensordot, kron, outer, cdist: dims as a number or two lists; contracted sizes must match",
    calls=lambda: [
        (x(2, 3), x(3, 2), 1),
        (x(2, 3), x(2, 3), 2),
        (x(2, 3), x(2, 3), ([0], [0])),
        (x(2, 3), x(3, 2), 0),
        (x(2, 3), x(2, 3), 1),
        (x(2, 3), x(1, 3), ([1], [1])),
        (x(2, 3), x(3, 2), -1),
    ],
)
def contracted(a, b, dims):
    a.sub_(1)
    y = torch.tensordot(a, b, dims=dims)
    return y, y.shape, torch.kron(a, b).shape, torch.outer(a[0], b[0]), torch.cdist(a, a)


@documented(
    "complex tensors: conj and neg bits are lazy; resolve_conj, resolve_neg materialise; abs and angle are real",
    calls=lambda: [
        (torch.tensor([1 + 2j, 3 - 1j]), True),
        (torch.tensor([1 + 2j, 3 - 1j]), False),
        (torch.tensor([[1j]]), True),
        (torch.tensor([1.0, -2.0]), True),
        (torch.tensor([1 + 2j], requires_grad=True), True),
    ],
)
def conjugated(z, materialise):
    y = z.conj()
    w = y.imag if y.is_complex() else y
    r = y.resolve_conj() if materialise else y
    return y.is_conj(), w.is_neg(), r.is_conj(), r, w, z.abs(), z.angle(), y.conj() is z, torch.conj_physical(z)


@documented(
    "torch.frexp, ldexp, nextafter, copysign, heaviside, signbit: signed zeros and infinities",
    calls=lambda: [
        (torch.tensor([0.0, -0.0, 1.5]), torch.tensor(1.0)),
        (torch.tensor([math.inf, -math.inf, 0.25]), torch.tensor(-0.0)),
        (torch.tensor([math.nan, 2.0]), torch.tensor([0.5, math.nan])),
        (torch.tensor([1, 2]), torch.tensor(2)),
        (torch.tensor([1.0, 2.0], dtype=torch.float64), torch.tensor(3.0)),
    ],
)
def bits_of_floats(a, b):
    s = torch.signbit(a)
    c = torch.copysign(a, b)
    h = torch.heaviside(a, b.to(a.dtype))
    m, e = torch.frexp(c)
    return s, c, c.dtype, h, m, e, e.dtype, torch.ldexp(m, e), torch.nextafter(c, c + 1)


@documented(
    "torch.float_power, torch.pow, torch.true_divide, floor_divide: dtypes of results; float_power_ needs double",
    calls=lambda: [
        (x(2), 2),
        (x(2).long(), 2),
        (x(2).double(), 0.5),
        (x(2).double(), x(2)),
        (x(2).long(), x(2)),
        (x(2).half(), x(2).double()),
        (x(2) > 1, 2),
    ],
)
def power_in_double(t, exponent):
    y = torch.float_power(t, exponent)
    d = torch.true_divide(t, 2)
    f = torch.floor_divide(t, 2)
    t.add_(0)
    t.float_power_(exponent)
    return y, y.dtype, d.dtype, f.dtype, t


@documented(
    "torch.round with decimals, trunc, frac, fmod: integers pass through; decimals for integers raise",
    calls=lambda: [
        (torch.tensor([2.5, -2.55, 1234.5]), 1),
        (torch.tensor([2.5, -2.55, 1234.5]), -2),
        (torch.tensor([3, 5]), 0),
        (torch.tensor([3, 5]), 1),
        (torch.tensor([0.5, 1.5], requires_grad=True), 0),
        (torch.tensor([0.5, 1.5], dtype=torch.float64), 0),
    ],
)
def rounded(t, decimals):
    y = torch.round(t, decimals=decimals)
    return y, torch.trunc(t), torch.fmod(t, -2), torch.remainder(t, -2), y.requires_grad, t.ceil().dtype


@documented(
    "torch.isin, nan_to_num, where, clip: assume_unique, scalars for elements; infinities of the dtype",
    calls=lambda: [
        (torch.tensor([1.0, math.nan, math.inf]), 1.0, None),
        (torch.tensor([1.0, math.nan, -math.inf]), torch.tensor([1.0, 2.0]), 5.0),
        (torch.tensor([1, 2]), 2, 7.0),
        (torch.tensor([math.inf], dtype=torch.half), torch.tensor(1.0), None),
        (torch.tensor([True, False]), True, None),
    ],
)
def cleaned(t, elements, nan):
    t.mul_(1)
    inside = torch.isin(t, elements)
    y = torch.nan_to_num(t, nan=nan)
    return inside, y, y.dtype, torch.where(inside, t, 0), torch.where(inside, 1.5, t).dtype


@documented(
    "torch.cov, corrcoef, cross, dist, renorm, trace: correction, weights; dimensions that fit",
    calls=lambda: [
        (x(2, 3), 1, None),
        (x(2, 3), 0, torch.tensor([1, 2, 1])),
        (x(2, 3), 1, torch.tensor([1.0, 2.0, 1.0])),
        (x(3), 1, None),
        (x(2, 2, 2), 1, None),
        (x(2, 3), 5, None),
    ],
)
def covariances(t, correction, weights):
    t.mul_(2)
    c = torch.cov(t, correction=correction, fweights=weights)
    return (
        c,
        torch.corrcoef(t),
        torch.renorm(t.view(-1, 1), 2, 0, 1.0),
        torch.linalg.cross(t[..., :3], t[..., :3]),
        torch.dist(t, t + 1),
    )
