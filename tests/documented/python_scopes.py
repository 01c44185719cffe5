"""From reference/executionmodel, tutorial/controlflow, faq/programming: names, closures, defaults, globals, slices by numbers."""

import torch

from documented import Between, documented, x

level = 1
settings = {"scale": 2, "names": ["a"]}


def set_level(v):
    global level
    level = v


def reset():
    set_level(1)
    settings.clear()
    settings.update(scale=2, names=["a"])


@documented(
    "reference/executionmodel: a free name is looked up when it is used: globals that change show at the next call",
    lambda: [
        (x(),),
        Between(lambda: set_level(5)),
        (x(),),
        Between(lambda: settings.update(scale=7)),
        (x(),),
        (x(),),
        Between(lambda: set_level(1.5)),
        (x(),),
    ],
    state=lambda: (level, settings["scale"], list(settings["names"])),
    setup=reset,
)
def globals_now(t):
    global level
    y = t * level + settings["scale"]
    level += 1
    settings["names"].append(str(level))
    return y, len(settings["names"])


@documented(
    "reference/executionmodel: a name missing in globals falls back to builtins; deleting the global brings the builtin back",
    lambda: [
        (x(), [1, 2]),
        Between(lambda: globals().update(len=lambda v: 100)),
        (x(), [1, 2]),
        Between(lambda: globals().pop("len")),
        (x(), [1, 2]),
        (x(), [1, 2, 3]),
    ],
    setup=lambda: globals().pop("len", None),
)
def builtins_shadowed(t, items):
    return t * len(items)


@documented(
    "faq/programming: default values are created once, so a mutable default keeps what is added",
    lambda: [(x(), 1), (x(), 2), (x(), 3), (x(), 1)],
    state=lambda: list(remember.__defaults__[0]),
    setup=lambda: remember.__defaults__[0].clear(),
)
def mutable_default(t, v):
    return t * len(remember(v)), remember(v) is remember(v)


def remember(v, seen=[]):
    seen.append(v)
    return seen


def counter():
    n = 0

    def up(by=1):
        nonlocal n
        n += by
        return n

    def reset():
        nonlocal n
        n = 0

    return up, reset


def counters():
    up, reset = counter()
    other, _ = counter()
    return [(x(), up), (x(), up), (x(), other), Between(reset), (x(), up), (x(), up), (x(), other)]


@documented(
    "reference/simple_stmts: nonlocal rebinds the enclosing function's variable, per closure, between calls", counters
)
def nonlocal_counters(t, up):
    a = up()
    return t * a + up(2), a


@documented(
    "faq/programming: lambdas made in a loop see the last value, defaults bind early",
    lambda: [(x(), 2), (x(), 3), (x(), 0), (x(), 4), (x(), 2)],
)
def late_binding(t, n):
    late = [lambda u: u * i for i in range(n)]
    early = [lambda u, i=i: u * i for i in range(n)]
    total = t
    for f, g in zip(late, early):
        total = total + f(t) - g(t)
    return total, len(late)


def call(*args, sep="-", **kwargs):
    return args, sep, kwargs


@documented(
    "tutorial/controlflow: positional-only, keyword-only, * and ** arguments; errors name the function and what is wrong",
    lambda: [
        (x(), (1, 2), {}),
        (x(), (1,), {"b": 3}),
        (x(), (), {}),
        (x(), (1, 2, 3), {}),
        (x(), (1,), {"a": 2}),
        (x(), (1,), {"k": 5, "b": 1}),
        (x(), (1,), {"z": 0}),
    ],
)
def argument_binding(t, args, kwargs):
    def inner(a, /, b=2, *, k=3):
        return t * a + b * k

    packed = call(*args, *[7], **kwargs, extra=1)
    return inner(*args, **kwargs), packed


@documented(
    "tutorial/datastructures: starred targets take the rest, nested targets, swapping; wrong counts say how many",
    lambda: [(x(), [1, 2, 3, 4]), (x(), "ab"), (x(), [1]), (x(), (x(), 2, 3)), (x(), {"p": 1, "q": 2, "r": 3})],
)
def unpacking(t, values):
    first, *middle, last = values
    (a, b), c = (first, last), len(middle)
    a, b = b, a
    (*all_,) = values
    return t + c, a, b, middle, all_, [*values, *middle], {**dict.fromkeys("ab", c)}


@documented(
    "reference/expressions: evaluation is left to right, chained comparisons evaluate once, walrus binds",
    lambda: [(x(), 1, 2, 3), (x(), 3, 2, 1), (x(), 1, 1, 1), (x(), 1.5, 2, 2), (x(), 1, 2, 3)],
)
def evaluation_order(t, a, b, c):
    seen = []

    def see(v):
        seen.append(v)
        return v

    between = see(a) < see(b) < see(c)
    d = {see("k1"): see("v1"), see("k2"): see("v2")}
    seen[see(0)] = see("assigned")
    if (n := see(len(seen))) > 6:
        t = t * n
    return t + (see(a) and see(b)), between, seen, d, see(a) if between else see(c)


def batches():
    data = torch.arange(24.0).view(12, 2)
    return [(data, 0, 3), (data, 1, 3), (data, 2, 3), (data, 3, 3), (data, 1, 5), (data, 2, 5), (data, 4, 3)]


@documented(
    "tutorial/introduction: data[i*size:(i+1)*size]: out of range slice indexes are handled gracefully, the last is shorter",
    batches,
)
def minibatches(data, i, size):
    batch = data[i * size : (i + 1) * size]
    if len(batch) == 0:
        return "empty"
    mean = batch.sum(0) / len(batch)
    return mean, batch.shape, batch[-1] - batch[0], len(batch) < size


def caches():
    class Cache:
        pos = 0
        keys = torch.zeros(8, 2)

    c = Cache()
    c.keys = torch.zeros(8, 2)
    return [(torch.ones(n, 2) * n, c) for n in (1, 2, 1, 3, 1)]


@documented("tutorial/classes: a counter attribute that steers slices: written and read where it stands now", caches)
def key_value_cache(k, c):
    n = k.shape[0]
    c.keys[c.pos : c.pos + n] = k
    c.pos += n
    seen = c.keys[: c.pos]
    return seen.mean(0), seen.shape[0], seen.numel() / c.pos


@documented(
    "reference/expressions: s[i:j:k] of lists, strings, tuples and tensors by numbers that change",
    lambda: [
        (x(10), 1, 7, 2),
        (x(10), 0, 9, 3),
        (x(10), 2, 10, 4),
        (x(10), 5, 5, 1),
        (x(10), -4, -1, 1),
        (x(10), 3, 100, 2),
    ],
)
def slices_by_numbers(t, i, j, k):
    part = t[i:j:k]
    listed = list(range(10))[i:j:k]
    return (
        part * 2,
        len(part),
        listed,
        "0123456789"[i:j:k],
        tuple(range(10))[j:i:-k],
        part.shape[0] == len(listed),
        torch.zeros(len(listed)).shape,
    )


@documented(
    "tutorial/datastructures: list comprehensions over ranges that change: sizes follow the numbers",
    lambda: [(x(6), 1), (x(6), 2), (x(6), 3), (x(6), 4), (x(6), 0), (x(6), 6)],
)
def sizes_by_numbers(t, n):
    rows = [t[i : i + n] for i in range(0, len(t), n or 1)]
    whole = [r for r in rows if len(r) == n]
    stacked = torch.stack(whole) if whole else torch.empty(0, n)
    return (
        stacked,
        stacked.shape,
        torch.arange(n).tolist(),
        torch.full((n, 2), n).sum() / max(n, 1),
        t.new_zeros(n + 1).numel(),
    )


@documented(
    "faq/programming: strings built in a loop, with the numbers as they are",
    lambda: [(x(2), [1, 2]), (x(2), [3]), (x(2), []), (x(2), [1.0, None, "s"]), (x(2), [1, 2, 3])],
)
def strings_in_loops(t, values):
    text = ""
    for i, v in enumerate(values):
        text += f"{i}:{v!r};"
        t = t + len(text)
    return t, text


def outer_tensors():
    w = x()

    def layer(t):
        return t * w

    def swap():
        layer.__closure__[0].cell_contents = x() * 10

    def code():
        layer.__code__ = (lambda: (lambda t: t - w) if (w := None) else (lambda t: t - w))().__code__

    return [
        (x(), layer),
        Between(swap),
        (x(), layer),
        Between(lambda: setattr(layer, "tag", 1)),
        (x(), layer),
        Between(code),
        (x(), layer),
    ]


@documented(
    "reference/datamodel: a function's cells, attributes and code can be changed; the next call uses them",
    outer_tensors,
)
def functions_changed(t, layer):
    return layer(t), getattr(layer, "tag", None), layer.__name__, layer.__code__.co_argcount


def fib(n, memo={}):
    if n not in memo:
        memo[n] = n if n < 2 else fib(n - 1) + fib(n - 2)
    return memo[n]


@documented(
    "tutorial/controlflow: recursion with a memo in the default",
    lambda: [(x(), 5), (x(), 7), (x(), 3), (x(), 12), (x(), 5)],
    state=lambda: dict(fib.__defaults__[0]),
    setup=lambda: fib.__defaults__[0].clear(),
)
def recursive_memo(t, n):
    return t * fib(n)


@documented(
    "library/functions: locals() gives the names bound so far; globals() is the module's dict; a class body has its own scope",
    lambda: [(x(), 1), (x(), "s"), (x(), 2), (x(), None)],
)
def scopes(t, v):
    y = t * 2
    names = sorted(locals())

    class Inner:
        v = v if v is not None else "class"
        w = [v, "body"]

    return y, names, Inner.v, Inner.w, globals()["__name__"]


@documented(
    "reference/simple_stmts: del unbinds; augmented assignment of a list changes it in place, of a tuple makes a new one",
    lambda: [(x(), [1], [2]), (x(), (1,), (2,)), (x(), [1], (5, 6)), (x(), (1,), [2]), (x(), "a", "b")],
)
def augmented(t, a, b):
    alias = a
    a += b
    holder = ([1], 2)
    try:
        holder[0] += [3]
    except TypeError as error:
        why = str(error)
    n = len(a)
    del a
    try:
        return t * n, a  # noqa: F821
    except UnboundLocalError as error:
        return t * n, str(error), alias, holder, why


@documented(
    "reference/datamodel: is compares identity: None, the same list, the same tensor, equal but other objects",
    lambda: (
        lambda a, t: [(t, t, a, a), (t, x(), a, [1]), (t, t + 0, None, None), (x(), x(), a, None), (t, t, [1], a)]
    )([1], x()),
)
def identity(t, u, a, b):
    y = t + 1 if t is u else t - 1
    pair = [a, b, y]
    return y, a is b, a == b if a is not None else None, pair[0] is pair[1], pair[2] is y, t is not u
