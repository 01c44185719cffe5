"""Loops, branches, expressions, strings and numbers."""

from programs import program


@program("control", lambda t: (t(), 10))
def loops_with_else(x, n):
    for i in range(n):
        if i % 2:
            continue
        if i > 6:
            break
        x = x + i
    else:
        x = x * 100
    while n > 0:
        n -= 3
    else:
        x = x - n
    for _ in ():
        pass
    else:
        x = x * 2
    return x


@program("control", lambda t: (t(), None, [0, "", 1.5, "a"]))
def truth_and_short_circuits(x, nothing, values):
    a = nothing or values[2]
    b = values[3] and values[0]
    c = not nothing and x
    seen = [bool(v) for v in values]
    return x + (a if b is not None else 2), seen, c is x, nothing is None, 1 < a < 2 <= 3, (b or "else")


@program("control")
def walrus(x):
    parts = []
    n = 5
    while (n := n - 1) > 0:
        if (sq := n * n) % 2 == 0:
            parts.append(x + sq)
    return parts, n, [last := k for k in range(3)], last


@program("control", lambda t: (t(), [1, [2, 3], (4, 5, 6)]))
def unpacking(x, data):
    a, [b, c], (d, *e) = data
    (*f, g), h = "abc", {"k": a}
    i = j = x + a
    first, *middle, last = range(6)
    merged = [*e, *f, *middle]
    both = {**h, "z": g, **{"k": b}}
    return i * b + c + d + last, i is j, merged, both, first


@program("control")
def slices(x):
    data = list(range(10))
    s = slice(1, None, 3)
    cut = data[s], data[::-1], data[-3:], data[2:8:2], "abcdef"[::-2], (1, 2, 3)[:2]
    return x + sum(cut[0]), cut, s.indices(10), s.start, s.step, data[:] == data, data[:] is data


class Money:
    def __init__(self, cents):
        self.cents = cents

    def __format__(self, spec):
        return f"{self.cents / 100:{spec or '.2f'}}"

    def __repr__(self):
        return f"Money({self.cents})"

    def __str__(self):
        return f"{self.cents}c"


@program("control", lambda t: (t(), Money(1234)))
def f_strings(x, money):
    width = 8
    name = "rate"
    text = [
        f"{name}={3.14159:.2f}|{42:>{width}}|{name!r:>10}|{255:#x}|{1e6:,.1f}|{{}}",
        f"{money} {money:.1f} {money!s} {money!r} {money=}",
        f"{x.dim()} {tuple(x.shape)} {x.dtype}",
        "%s-%05d-%.2f" % (name, 7, 2.5),
        "{0}{k}{0!r}".format("a", k=1),
    ]
    return x + len(text[0]), text


@program("control")
def string_methods(x):
    s = "  Some, text here "
    words = s.strip().lower().replace(",", "").split()
    joined = "-".join(sorted(words, key=len))
    checks = [
        joined.startswith("some"),
        joined.endswith(("x", "text")),
        "ex" in joined,
        joined.find("t"),
        joined.partition("-"),
        joined.title().swapcase(),
        "a b".encode(),
        b"xy".decode(),
        "7".zfill(3),
        "abc".isidentifier(),
        "%d" % 3,
        "x".center(5, "*"),
        ord("a"),
        chr(98),
        repr("q"),
        "a,b,,".rsplit(",", 1),
    ]
    return x * len(words), joined, checks


@program("control", lambda t: (t(), 7, 2.5))
def numbers(x, n, r):
    values = [
        n // 2,
        -n // 2,
        n % 3,
        -n % 3,
        n**2,
        n / 2,
        r // 1,
        n << 2,
        n >> 1,
        n & 5,
        n | 8,
        n ^ 1,
        ~n,
        divmod(n, 3),
        pow(n, 2, 5),
        round(r),
        round(3.14159, 2),
        abs(-r),
        int("12"),
        int(r),
        float("1e3"),
        complex(1, 2),
        n.bit_length(),
        r.is_integer(),
        (6).__add__(1),
        float("inf") > n,
        min(n, r),
        max([1, 5, 3]),
        max("aa", "b", key=len),
        sum([1, 2], 10),
        bin(5),
        hex(255),
        True + True,
        n == 7.0,
        hash(n),
    ]
    return x * values[4] + values[5], values


@program("control")
def signed_zeros_and_nans(x):
    zero, minus, nan = 0.0, -0.0, float("nan")
    return x + minus, 1 / (x * 0 + minus), zero == minus, nan != nan, minus, [nan] == [nan], max(zero, minus)


@program("control", lambda t: (t(), {"mode": "sum", "scale": 2}))
def configuration_driven(x, config):
    if config["mode"] == "sum":
        y = x.sum()
    elif config["mode"] == "mean":
        y = x.mean()
    else:
        raise ValueError(config["mode"])
    scale = config.get("scale", 1)
    return y * scale if scale != 1 else y


@program("control", lambda t: (t(t.n, 3),))
def shapes_decide(x):
    if x.shape[1] == 3 and x.dim() == 2 and x.size(-1) < 4:
        x = x.reshape(-1, 1)
    if len(x) > 1000 or x.numel() == 0:
        return None
    return x.sum(0) / len(x)


@program("control")
def chained_conditionals(x):
    out = []
    for k in range(6):
        out.append("none" if k == 0 else "small" if k < 2 else "mid" if k < 4 else "big")
    k = 0
    while True:
        k += 1
        if k == 3:
            continue
        if k >= 5:
            break
        x = x + k if k != 2 else x - k
    return x, out, k


@program("control", lambda t: (t(), t()))
def deletes(x, y):
    z = x + y
    data = {"a": [1, 2, 3], "b": z}
    del data["a"][1], y
    kept = data.pop("b")
    del z
    try:
        return z  # noqa: F821
    except UnboundLocalError:
        return kept, data


@program("control")
def annotations_and_globals(x):
    y: int = 3
    z: "float"  # noqa: F821, F842
    w: list[int] = [1]
    return x * y, w, __name__, "z" in locals()


@program("control", lambda t: (t(), 40))
def long_python_loop(x, n):
    primes = []
    for i in range(2, n):
        for p in primes:
            if i % p == 0:
                break
        else:
            primes.append(i)
    table = {p: (p * 3, str(p)) for p in primes}
    return x + sum(v[0] for v in table.values()), len("".join(v[1] for v in table.values()))


@program("control")
def imports_inside(x):
    import collections.abc
    import math as m
    from operator import mul as times

    import torch.nn.functional as F

    return F.relu(x) * m.pi, times(x, 2), isinstance([], collections.abc.Sequence)


@program("control", lambda t: (t(), t()))
def assertions_that_hold(x, y):
    assert x.shape == y.shape, "shapes"
    assert isinstance(x, type(y))
    assert x is not y, f"{x} is {y}"
    return x + y


@program("control", lambda t: (t(), True, 1, 1.0))
def types_told_apart(x, flag, one, real):
    kinds = [type(v).__name__ for v in (flag, one, real)]
    return x * (2 if flag is True else 3), kinds, flag == one == real, isinstance(flag, int), type(one) is bool
