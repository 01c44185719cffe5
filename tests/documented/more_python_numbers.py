"""From library/math, statistics, fractions, decimal, numbers, random, stdtypes: numbers' small print."""

import cmath
import decimal
import fractions
import math
import numbers
import random
import statistics

import torch

from documented import Between, documented, x
from documented.attempts import attempt


@documented(
    "library/math: fmod has the sign of the first, remainder is nearest; domain and range errors; nextafter, ulp, copysign of zeros",
    lambda: [
        (x(), 7.5, -2),
        (x(), -0.0, 3),
        (x(), 1e308, 10),
        (x(), float("inf"), 2),
        (x(), float("nan"), 1),
        (x(), -8, 0),
        (x(), True, 2.0),
        (x(), "1", 2),
        (x(), -5, 3),
        (x(), -5, 4),
    ],
)
def math_small_print(t, a, b):
    out = attempt(
        lambda: math.fmod(a, b),
        lambda: math.remainder(a, b),
        lambda: math.copysign(b, a),
        lambda: math.nextafter(a, b),
        lambda: math.ulp(a),
        lambda: math.modf(a),
        lambda: math.trunc(a),
        lambda: math.floor(a),
        lambda: math.cbrt(a),
        lambda: math.exp(a),
        lambda: math.sqrt(a),
        lambda: math.log(a, b),
        lambda: math.pow(a, b),
        lambda: math.ldexp(a, b),
        lambda: math.factorial(a),
        lambda: math.comb(a, b),
        lambda: math.isclose(a, a + 1e-10),
        lambda: math.atan2(a, b),
        lambda: math.gamma(a),
        lambda: math.perm(b),
    )
    return t * 2, [v.hex() if isinstance(v, float) else v for v in out]


@documented(
    "library/stdtypes: float() and int() of texts: underscores, spaces, signs, inf and nan; the errors quote the text or name the value",
    lambda: [
        (x(), " 1_000 "),
        (x(), "1e3"),
        (x(), "-Infinity"),
        (x(), "nan"),
        (x(), "0x1F"),
        (x(), b"12"),
        (x(), "１２"),
        (x(), "1__0"),
        (x(), ""),
        (x(), 2.9),
        (x(), -1e300),
        (x(), None),
        (x(), "9" * 4400),
    ],
)
def texts_to_numbers(t, text):
    out = attempt(
        lambda: float(text),
        lambda: int(text),
        lambda: int(text, 0),
        lambda: int(text, 36),
        lambda: complex(text),
        lambda: int(float(text)),
        lambda: round(float(text)),
        lambda: float(text).as_integer_ratio()[1],
        lambda: float(text).is_integer(),
        lambda: float.fromhex(text),
        lambda: fractions.Fraction(text) + 1,
        lambda: decimal.Decimal(text) * 2,
        lambda: bool(text),
        lambda: int(text, 1),
    )
    out = [str(v)[:80] for v in out]
    return t * len(out), out


@documented(
    "library/stdtypes: ints of any size: comparisons with floats are exact, equal numbers hash alike; too large for float or tensor raises",
    lambda: [
        (x(), 2**53, 2.0**53),
        (x(), 2**53 + 1, 2.0**53),
        (x(), 10**400, float("inf")),
        (x(), -(2**63), -(2.0**63)),
        (x(), 2**64, 1e19),
        (x(), 3, fractions.Fraction(6, 2)),
        (x(), 3, decimal.Decimal("3.0")),
        (x(), True, 1 + 0j),
        (x(), 2**31, 2**31),
    ],
)
def exact_comparisons(t, i, f):
    out = attempt(
        lambda: i == f,
        lambda: i < f,
        lambda: hash(i) == hash(f),
        lambda: len({i, f}),
        lambda: i + f,
        lambda: i // f,
        lambda: i / 3,
        lambda: float(i),
        lambda: t * i,
        lambda: torch.tensor(i),
        lambda: (t.long() + i).sum(),
        lambda: i.bit_length(),
        lambda: i.to_bytes(8, "little", signed=True),
        lambda: (i >> 3, i & -2, i ^ 5, ~i),
        lambda: math.isqrt(i),
        lambda: pow(i, -1, 7),
    )
    return t + 1, [str(v).split("\n")[0] for v in out]


@documented(
    "library/cmath and stdtypes: complex numbers have no order and no floor; division by zero; phases; tensors take them",
    lambda: [(x(), 1 + 2j, 2), (x(), -0j, 0), (x(), 3, 1j), (x(), complex("nan"), 1.5), (x(), 1e200j, 1e200j)],
)
def complex_small_print(t, a, b):
    out = attempt(
        lambda: a < b,
        lambda: a // b,
        lambda: a / b,
        lambda: a**b,
        lambda: abs(a * b),
        lambda: divmod(a, b),
        lambda: int(a),
        lambda: (a.real, a.imag, a.conjugate()),
        lambda: cmath.phase(a),
        lambda: cmath.sqrt(-1 * b),
        lambda: cmath.log(a),
        lambda: round(a),
        lambda: f"{a:.2f}",
        lambda: t * a,
        lambda: sum([a, b, t]),
        lambda: a == a.real,
    )
    return t * 2, [repr(v) if isinstance(v, complex | float) else v for v in out]


@documented(
    "library/fractions: mixed with int gives a fraction, with float a float; with tensors they are refused or asked for __float__",
    lambda: [
        (x(), fractions.Fraction(1, 3), 2),
        (x(), fractions.Fraction("-0.125"), 0.5),
        (x(), fractions.Fraction(7, 2), fractions.Fraction(1, 2)),
        (x(), fractions.Fraction(0), 0),
        (x(), fractions.Fraction(5), decimal.Decimal(2)),
    ],
)
def fraction_small_print(t, f, n):
    out = attempt(
        lambda: f + n,
        lambda: n / f,
        lambda: f**n,
        lambda: f // n,
        lambda: divmod(f, n),
        lambda: round(f),
        lambda: round(f, 1),
        lambda: (math.floor(f), math.ceil(f), int(f)),
        lambda: f == n,
        lambda: f < float("nan"),
        lambda: f.limit_denominator(2),
        lambda: fractions.Fraction(n),
        lambda: fractions.Fraction(1, n),
        lambda: f.as_integer_ratio(),
        lambda: t * f,
        lambda: f * t,
        lambda: torch.tensor(f),
        lambda: f"{f}",
        lambda: isinstance(f, numbers.Rational),
    )
    return t * float(f), [o.split("\n")[0] if isinstance(o, str) else o for o in out]


@documented(
    "library/decimal: contexts are restored by localcontext; signals raise or set flags; floats are refused in arithmetic, compared exactly",
    lambda: [
        (x(), "1.10", 3),
        (x(), "0.1", 28),
        (x(), "NaN", 5),
        (x(), "-Infinity", 2),
        (x(), "2.675", 3),
        (x(), "1E+5", 2),
        Between(lambda: decimal.getcontext().traps.__setitem__(decimal.DivisionByZero, False)),
        (x(), "1.10", 3),
        Between(lambda: setattr(decimal.getcontext(), "prec", 4)),
        (x(), "0.1", 28),
    ],
    setup=lambda: decimal.setcontext(decimal.Context(prec=28)),
)
def decimal_contexts(t, text, places):
    d = decimal.Decimal(text)
    with decimal.localcontext() as c:
        c.prec = places
        third = attempt(lambda: d / 3, lambda: d.sqrt(), lambda: d + 0)
        flags = sorted(str(f.__name__) for f, on in c.flags.items() if on)
    out = attempt(
        lambda: d / 3,
        lambda: d / 0,
        lambda: d + 0.1,
        lambda: d == 0.1,
        lambda: d < 2,
        lambda: d.quantize(decimal.Decimal("0.01")),
        lambda: round(d, 1),
        lambda: round(d),
        lambda: d.as_tuple(),
        lambda: d.normalize(),
        lambda: hash(d) if d == d else 0,
        lambda: int(d),
        lambda: d.compare(decimal.Decimal(1)),
        lambda: f"{d:,.3f} {d:e}",
        lambda: t * d,
    )
    return t * (int(d) if d.is_finite() else 2), third, flags, [str(v).split("\n")[0] for v in out]


@documented(
    "library/statistics: results have the type of the data; fmean takes weights; quantiles, multimode; errors tell what is missing",
    lambda: [
        (x(), [1, 2, 2, 5]),
        (x(), [fractions.Fraction(1, 3), fractions.Fraction(1, 2)]),
        (x(), [decimal.Decimal("0.5"), decimal.Decimal("1.25")]),
        (x(), []),
        (x(), [3.5]),
        (x(), "aab"),
        (x(), [1, 2, 3, 4, 5, 6]),
    ],
)
def statistics_small_print(t, data):
    out = attempt(
        lambda: statistics.mean(data),
        lambda: statistics.fmean(data, weights=range(1, len(data) + 1)),
        lambda: statistics.median(data),
        lambda: (statistics.median_low(data), statistics.median_high(data)),
        lambda: statistics.median_grouped(data),
        lambda: statistics.mode(data),
        lambda: statistics.multimode(data),
        lambda: statistics.stdev(data),
        lambda: statistics.pvariance(data),
        lambda: statistics.quantiles(data, n=3, method="inclusive"),
        lambda: statistics.geometric_mean(data),
        lambda: statistics.harmonic_mean(data),
        lambda: tuple(statistics.linear_regression(range(len(data)), data)),
        lambda: statistics.correlation(data, data[::-1]),
        lambda: statistics.NormalDist.from_samples(data).cdf(2.0),
    )
    return t * len(data), [repr(v) for v in out]


class Money:
    def __init__(self, v):
        self.v = v

    def __float__(self):
        return float(self.v)

    def __mul__(self, other):
        return NotImplemented


@documented(
    "library/numbers: ABCs know the built-in types; Decimal is a Number but not Real; what is not registered is none of them",
    lambda: [
        (x(), True),
        (x(), 2.5),
        (x(), decimal.Decimal(1)),
        (x(), Money(3)),
        (x(), x(1)),
        (x(), 1j),
        (x(), fractions.Fraction(1, 2)),
    ],
)
def numeric_tower(t, v):
    kinds = [
        k.__name__
        for k in (numbers.Number, numbers.Complex, numbers.Real, numbers.Rational, numbers.Integral)
        if isinstance(v, k)
    ]
    out = attempt(
        lambda: v * t, lambda: t * v, lambda: v.numerator, lambda: v.real, lambda: math.floor(v), lambda: float(v)
    )
    return t * len(kinds), kinds, [o.split("\n")[0] if isinstance(o, str) else o for o in out]


own = random.Random(1)


@documented(
    "library/random: choices, sample, shuffle, gauss draw from the generator as it stands; seeds of any type; errors for the empty",
    lambda: [
        (x(), [1, 2, 3], 2),
        (x(), [1, 2, 3], 5),
        Between(lambda: own.seed("text")),
        (x(), [], 1),
        (x(), (4, 5), 0),
        Between(lambda: random.seed(7)),
        (x(), [x(), x(2)], 1),
        (x(), "abc", 2),
    ],
    state=lambda: own.getstate()[1][-1],
    setup=lambda: own.seed(1),
)
def random_small_print(t, items, k):
    out = attempt(
        lambda: own.choices(items, weights=range(1, len(items) + 1), k=k),
        lambda: own.sample(items, k),
        lambda: own.sample(items, k=2, counts=[1] * len(items)),
        lambda: random.choice(items),
        lambda: random.shuffle(items),
        lambda: own.gauss(0, 1),
        lambda: random.normalvariate(mu=1),
        lambda: own.randrange(3, 3),
        lambda: random.randint(1, 2**70),
        lambda: own.getrandbits(k),
        lambda: random.randbytes(k),
        lambda: random.Random([1]),
        lambda: random.triangular(0, 1, 0.5),
        lambda: own.uniform(1, t[0].item()),
    )
    return t * own.random(), out, items
