"""From library/stdtypes (strings, bytes), string, re, math, fractions, decimal, random, datetime, json, statistics."""

import datetime
import decimal
import fractions
import io
import json
import math
import random
import re
import statistics
import string
import struct
import textwrap

from documented import Between, documented, x


@documented(
    "library/stdtypes: str methods: split with and without separator, partition, strip of characters, casefold",
    lambda: [
        (x(), " a b  c ", " "),
        (x(), "k=v=w", "="),
        (x(), "", ","),
        (x(), "Straße", "s"),
        (x(), "aXbX", "X"),
        (x(), "xx", ""),
    ],
)
def string_methods(t, s, sep):
    try:
        parts = s.split(sep)
    except ValueError as error:
        return t, str(error)
    return (
        t * len(parts),
        parts,
        s.split(),
        s.rsplit(sep, 1),
        s.partition(sep),
        s.strip("aX "),
        s.removesuffix("X"),
        s.casefold(),
        s.find(sep),
        s.zfill(8),
        s.center(9, "*"),
        s.title(),
        s.isidentifier(),
    )


@documented(
    "library/stdtypes: replace with count, translate, join of any iterable of str only, expandtabs, splitlines, encode",
    lambda: [
        (x(), ["a", "b"], "-"),
        (x(), [], "-"),
        (x(), ["a", 1], "-"),
        (x(), ("é",), ""),
        (x(), ["a", "b", "a"], "aa"),
    ],
)
def more_string_methods(t, words, sep):
    try:
        s = sep.join(words)
    except TypeError as error:
        return t, str(error)
    return (
        t + len(s),
        s,
        s.replace("a", "<>", 1),
        s.translate(str.maketrans("ab", "xy", "-")),
        f"{s}\n\r\nq".splitlines(),
        s.encode("utf-8"),
        sep.join(w.upper() for w in words),
        s * 2,
        "a" in s,
        s < "b",
    )


@documented(
    "library/string: format specs: fill, align, sign, width, grouping, precision, types; nested fields",
    lambda: [(x(), 42, 8), (x(), -3.14159, 12), (x(), 1e10, 15), (x(), 0.0, 5), (x(), 255, 10), (x(), float("inf"), 6)],
)
def formatting(t, v, width):
    texts = [
        f"{v:*^{width}}",
        f"{v:+.2f}",
        f"{v:>{width}.3g}",
        f"{v:{width},}",
        f"{v:08.1f}",
        f"{v:.1%}",
        f"{v:e}",
        "%5.1f|%-8s|%+d" % (v, "ab", min(v, 9)),
    ]
    more = "{0.shape} {1[k]!r} {n:x}".format(t, {"k": v}, n=width)
    return t * width, texts, more


@documented(
    "library/string: Template substitutes $names, $$ escapes, safe_substitute leaves; textwrap, ascii letters",
    lambda: [(x(), {"n": 1}), (x(), {"n": "two", "m": 3}), (x(), {}), (x(), {"n": 2.5}), (x(), {"n": 1})],
)
def templates(t, names):
    s = string.Template("$n costs $$${m}")
    try:
        full = s.substitute(names)
    except KeyError as error:
        full = repr(error)
    return (
        t + len(names),
        full,
        s.safe_substitute(names),
        textwrap.shorten("Hello  world of " + full, 14),
        textwrap.dedent("  a\n   b"),
        string.digits[2:5],
    )


NUMBER = re.compile(r"(?P<sign>[+-])?(?P<digits>\d+)(?:\.(\d*))?")


@documented(
    "library/re: match, groups, groupdict, sub with a function and backreference, findall, split, finditer spans",
    lambda: [(x(), "12.5 and -3"), (x(), "none"), (x(), "+7"), (x(), ""), (x(), "1,2;3")],
)
def regular_expressions(t, s):
    m = NUMBER.match(s)
    found = NUMBER.findall(s)
    doubled = NUMBER.sub(lambda k: str(int(k["digits"]) * 2), s)
    n = int(m["digits"]) if m else 0
    return (
        t * n,
        m and m.groups(),
        m and m.groupdict(),
        found,
        doubled,
        re.split(r"[,; ]", s),
        [k.span() for k in NUMBER.finditer(s)],
        re.fullmatch(r"\w*", s) is not None,
        re.sub(r"(\d)", r"<\1>", s),
    )


@documented(
    "library/math: gcd, lcm, isclose, comb, fsum, hypot, floor and ceil of negatives, ldexp, domain errors",
    lambda: [(x(), 12, 18), (x(), 7, 0), (x(), -5, 3), (x(), 100, 10), (x(), 2.5, -1.5), (x(), 2**64, 3)],
)
def mathematics(t, a, b):
    try:
        n = math.gcd(a, b), math.lcm(a, b)
    except TypeError as error:
        n = str(error)
    try:
        root = math.sqrt(b), math.log(a, 2)
    except ValueError as error:
        root = str(error)
    return (
        t * math.floor(a / 3),
        n,
        root,
        math.ceil(b / 2),
        math.fsum([0.1] * 10),
        math.isclose(a, a + 1e-10),
        math.hypot(a, b),
        math.copysign(1, -0.0),
        math.fmod(a, 3),
        math.trunc(b),
    )


@documented(
    "library/math: isqrt, prod with start, dist, frexp, nan and inf comparisons",
    lambda: [(x(), [1, 2, 3]), (x(), [0.5, 4]), (x(), []), (x(), [float("nan"), 1]), (x(), [float("inf"), 2])],
)
def more_mathematics(t, values):
    p = math.prod(values, start=2)
    return (
        t * p,
        p,
        math.isnan(p),
        math.isfinite(p),
        p == p,
        p in [p],
        math.frexp(p),
        math.dist(values, values),
        math.isqrt(len(values) * 10),
        max(values, default=None),
        sorted(values),
    )


@documented(
    "library/fractions: arithmetic is exact, comparison with floats, limit_denominator, from strings",
    lambda: [(x(), 1, 3), (x(), 4, -6), (x(), 3, 0), (x(), 7, 1), (x(), 1, 3)],
)
def exact_fractions(t, a, b):
    try:
        f = fractions.Fraction(a, b)
    except ZeroDivisionError as error:
        return t, str(error)
    g = f + fractions.Fraction("0.5")
    return (
        t * float(f),
        str(g),
        g.numerator,
        f == a / b,
        str(f**2),
        str(fractions.Fraction(0.1).limit_denominator(100)),
        int(f),
        round(f),
        hash(f) == hash(a / b),
    )


@documented(
    "library/decimal: contexts set precision and rounding, signals raise; quantize; str keeps the exponent",
    lambda: [(x(), "1.10", 4), (x(), "2", 6), (x(), "0", 3), (x(), "1E+3", 2), (x(), "1.10", 4)],
)
def decimals(t, text, precision):
    with decimal.localcontext() as context:
        context.prec = precision
        d = decimal.Decimal(text)
        try:
            q = decimal.Decimal(1) / d
        except decimal.DivisionByZero as error:
            return t, type(error).__name__
        s = (
            str(q),
            str(d * 3),
            str(d.quantize(decimal.Decimal("0.1"), rounding=decimal.ROUND_HALF_EVEN)) if precision > 2 else None,
        )
    return t * float(q), s, decimal.getcontext().prec


@documented(
    "library/random: the same seed gives the same numbers; an own Random does not touch the shared one",
    lambda: [(x(), 1), (x(), 2), (x(), 1), (x(), "s"), (x(), 2)],
)
def random_numbers(t, seed):
    r = random.Random(seed)
    items = [1, 2, 3, 4]
    r.shuffle(items)
    a = random.random()
    return (
        t * r.random() + a,
        items,
        r.randint(1, 6),
        r.choices("abc", weights=[5, 1, 1], k=3),
        random.sample(range(100), 2),
        random.uniform(1, 2),
    )


def generators():
    r = random.Random(5)
    return [(x(), r), (x(), r), (x(), random.Random(5)), Between(lambda: r.seed(5)), (x(), r)]


@documented("library/random: getstate and setstate repeat; a generator goes on between calls", generators)
def random_state(t, r):
    state = r.getstate()
    a = r.gauss(0, 1)
    r.setstate(state)
    b = r.gauss(0, 1)
    return t * a, a == b, r.randrange(0, 100, 7), r.getrandbits(5)


@documented(
    "library/datetime: timedelta arithmetic and normalisation, date comparison, isoformat, replace, strptime",
    lambda: [(x(), 2024, 2, 28), (x(), 2023, 2, 28), (x(), 2023, 13, 1), (x(), 1999, 12, 31), (x(), 2024, 2, 28)],
)
def dates(t, y, m, d):
    try:
        day = datetime.date(y, m, d)
    except ValueError as error:
        return t, str(error)
    tomorrow = day + datetime.timedelta(days=1)
    delta = datetime.timedelta(hours=-1, minutes=90)
    return (
        t * (tomorrow - day).days + tomorrow.day,
        tomorrow.isoformat(),
        day < tomorrow,
        day.weekday(),
        str(delta),
        delta.total_seconds(),
        day.replace(day=1).strftime("%Y/%m"),
        f"{day:%j}",
    )


@documented(
    "library/json: dumps with sort_keys, separators and default; loads; keys become strings",
    lambda: [
        (x(), {"b": [1, 2.5], "a": None}),
        (x(), {1: True}),
        (x(), [{"n": float("inf")}]),
        (x(), {"s": {1}}),
        (x(), "é"),
    ],
)
def json_texts(t, o):
    s = json.dumps(o, sort_keys=True, default=lambda v: sorted(v))
    back = json.loads(s)
    return t * len(s), s, back, back == o


@documented(
    "library/stdtypes: int: bit_length, to_bytes, from_bytes, bit_count, as_integer_ratio; big shifts and masks",
    lambda: [(x(), 1), (x(), 255), (x(), -256), (x(), 2**65 + 1), (x(), True), (x(), 0)],
)
def integers(t, n):
    raw = n.to_bytes(10, "big", signed=True)
    return (
        t + n.bit_length(),
        raw,
        int.from_bytes(raw, "big", signed=True) == n,
        n.bit_count(),
        n << 70,
        n >> 3,
        n & 0xFF,
        ~n,
        -n // 2,
        -n % 7,
        n.as_integer_ratio(),
        int(str(n)),
        f"{n:b}",
    )


@documented(
    "library/stdtypes: float: hex, is_integer, as_integer_ratio, fromhex; repr is the shortest that reads back",
    lambda: [(x(), 0.1), (x(), 1e16), (x(), -0.0), (x(), 5e-324), (x(), float("nan")), (x(), 2.0)],
)
def floats(t, v):
    try:
        ratio = v.as_integer_ratio()
    except ValueError as error:
        ratio = str(error)
    return (
        t * v,
        repr(v),
        v.hex(),
        v.is_integer(),
        ratio,
        float.fromhex(v.hex()) == v,
        str(v + 1),
        v // 0.3,
        v % 0.3 if v else None,
        int(v) if v == v else None,
        v or "falsy",
    )


@documented(
    "library/stdtypes: bool is an int: sum, indexing, ~, &, and with ints; True and 1 are the same key",
    lambda: [(x(), True, 1), (x(), False, 0), (x(), 1, True), (x(), True, True), (x(), 0, False)],
)
def booleans(t, a, b):
    return (
        t * a,
        a + b,
        a & b,
        a | b,
        a ^ b,
        ~a,
        ["no", "yes"][a],
        {a: "a", b: "b"},
        a is b,
        a == b,
        type(a & b).__name__,
        str(a),
        f"{a:d}",
        t[a],
        t + True * b,
    )


@documented(
    "library/stdtypes: bytes, bytearray and memoryview: items are ints, slices are bytes, bytearray changes in place",
    lambda: [
        (x(), bytearray(b"abc"), 1),
        (x(), bytearray(b"hello"), 2),
        (x(), b"abc", 1),
        (x(), bytearray(), 0),
        (x(), bytearray(b"xyz"), -1),
    ],
)
def binary(t, data, i):
    try:
        data[i] = 65
        data += b"!"
    except (TypeError, IndexError) as error:
        return t + len(data), str(error), data
    view = memoryview(data)
    n = view[i]
    del view
    return t * n, data, bytes(data).hex(), data[i:], data.find(b"!"), struct.unpack(">H", bytes(data[:2]))


@documented(
    "library/statistics and io: mean, median, mode, stdev of data; StringIO keeps its place",
    lambda: [(x(), [1, 2, 3, 4]), (x(), [1.5]), (x(), [2, 2, 9]), (x(), []), (x(), [1, 2, 3, 4])],
)
def statistics_of_data(t, data):
    out = io.StringIO()
    print(*data, sep=",", file=out)
    try:
        mean, median = statistics.mean(data), statistics.median(data)
    except statistics.StatisticsError as error:
        return t, str(error), out.getvalue()
    return t * mean, median, statistics.mode(data), out.getvalue(), out.tell()
