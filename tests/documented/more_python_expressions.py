"""From reference/expressions: order of evaluation, calls, comparisons, powers, subscriptions."""

import types

import torch

from documented import Between, documented, x

order: list = []
cleared = {"state": lambda: list(order), "setup": order.clear}


def note(v):
    order.append(v)
    return v


class Target:
    """Writes down each access."""

    def __init__(self):
        self.items = {0: 1.0, 1: 2.0}

    def __getitem__(self, key):
        order.append(("get", key))
        return self.items[key]

    def __setitem__(self, key, value):
        order.append(("set", key, float(value)))
        self.items[key] = value

    def __delitem__(self, key):
        order.append(("del", key))
        del self.items[key]


@documented(
    "reference/expressions: the right side is evaluated first, then the targets' parts from left to right",
    lambda: [
        (x(), Target(), 0, 1),
        (x(), Target(), 1, 0),
        (x(), Target(), 1, 5),
        (x(), {0: 3, 1: 4}, 0, 1),
        (x(), [5, 6], -1, 0),
    ],
    **cleared,
)
def assignment_order(t, target, i, j):
    try:
        note(target)[note(i)] = note("value") and 3.0
        note(target)[note(i)] += note(target)[note(j)]
        a, target[note(i)], b = note(7), note(8), target[i]
        i, target[i] = j, i
        del target[note(j)], target[note(i)]
    except (KeyError, IndexError) as error:
        note(repr(error))
        return t, "failed"
    order[:] = [o for o in order if isinstance(o, tuple | int | str)]
    return t * a + b


def shown(*args, **kwargs):
    return args, kwargs


class Keyed:
    def __init__(self, **items):
        self.held = items

    def keys(self):
        order.append("keys")
        return list(self.held)

    def __getitem__(self, key):
        order.append("item " + key)
        return self.held[key]


@documented(
    "reference/expressions: * after keywords is processed before them; ** takes any mapping with keys(); repeated names raise TypeError",
    lambda: [
        (x(), [1, 2], {"k": 3}),
        (x(), (), Keyed(a=1, b=2)),
        (x(), range(2), {"last": 1}),
        (x(), [1], {3: 4}),
        (x(), None, {}),
        (x(), [], 5),
        (x(), "ab", {"k": 4}),
    ],
    **cleared,
)
def argument_order(t, args, kwargs):
    try:
        got, named = shown(note(0), *args, t, last=note("kw"), *note([9]), **kwargs)
    except TypeError as error:
        return t, str(error)
    named.pop("last")
    return got[-2] * len(got), list(named.items())


@documented(
    "reference/expressions: in displays a later equal key replaces the value but not the key; ** and * unpack in their place",
    lambda: [
        (x(), {"a": 1, "b": 2}, [1, True]),
        (x(), {"b": 5}, [0.0, 0]),
        (x(), {}, ["a"]),
        (x(), {True: 3}, [1.0]),
        (x(), {"c": 0, "a": 9}, []),
    ],
)
def displays(t, d, keys):
    merged = {"a": t, **d, "b": t * 2, **{k: len(keys) for k in keys}}
    twice = {k: (i, t) for k in keys for i in range(2)}
    return list(merged), merged["a"], [*d, *keys, *"xy"], {*keys, *d}, list(twice.items()), (*keys,)


class Part:
    """Partly ordered."""

    def __init__(self, *members):
        self.members = set(members)

    def __le__(self, other):
        order.append("le")
        return self.members <= other.members if isinstance(other, Part) else NotImplemented

    def __eq__(self, other):
        order.append("eq")
        return self.members == other.members if isinstance(other, Part) else NotImplemented

    __hash__ = None  # type: ignore[assignment]


@documented(
    "reference/expressions: chains stop at the first false; without an answer == is identity and <= raises TypeError",
    lambda: [
        (x(), Part(1), Part(1, 2), Part(1, 2, 3)),
        (x(), Part(1), Part(2), Part(3)),
        (x(), Part(1), 1, 2),
        (x(), {1}, {1, 2}, {1, 2, 3}),
        (x(), [1, float("nan")], [1, 3], [2]),
        (x(), (1, "a"), (1, 2), (3,)),
        (x(), None, None, 1),
    ],
    **cleared,
)
def partial_orders(t, a, b, c):
    t = t * 2
    try:
        return t, a <= b <= c, a == b != c, note(a is b) < note(len(order)) < note(100)
    except TypeError as error:
        return t, str(error), a == b, a != b


@documented(
    "reference/expressions: ** binds closer than a unary operator on its left; % takes the sign of the right operand; errors of each",
    lambda: [
        (x(), -2, 2),
        (x(), 2, -1),
        (x(), 0, -1),
        (x(), -8, 1 / 3),
        (x(), -7, 2.0),
        (x(), 7, -3),
        (x(), 5.5, -2),
        (x(), 10, 0),
        (x(), 3, -0.0),
        (x(), True, 2),
    ],
)
def powers_and_remainders(t, a, b):
    out = [-(a**2), ~a if isinstance(a, int) else None]
    for operation in (
        lambda: a**b,
        lambda: -(a**b),
        lambda: a % b,
        lambda: a // b,
        lambda: divmod(a, b),
        lambda: a << b,
        lambda: a >> b,
        lambda: a @ b,
    ):
        try:
            out.append(operation())
        except (ArithmeticError, TypeError, ValueError) as error:
            out.append(f"{type(error).__name__} {error}")
    return t * (a * b), out


class Shower:
    def __getitem__(self, key):
        return key

    def __class_getitem__(cls, key):
        return ("class", key)


@documented(
    "reference/expressions: a subscription with a comma gets a tuple; slices keep what they are made of, and are made anew",
    lambda: [(x(3, 4), 1, 2), (x(3, 4), 0, None), (x(3, 4), -1, -3), (x(3, 4), None, 0), (x(2, 2), 1, 1)],
)
def subscriptions(t, i, j):
    s = Shower()
    keys = [s[i], s[i,], s[i:j], s[i:j:1, ...], s[()], s[::], s[*range(2)], Shower[i, j]]
    picked = t[s[..., i:j]], t[..., i] if i is not None else t[i]
    return picked, keys, s[i:j] == slice(i, j), s[i:j] is s[i:j], s[:] < s[i or 0 :] if i else None


@documented(
    "reference/expressions: := binds in the function that contains a comprehension; it has the value of its right side",
    lambda: [(x(), [1, 5, 3]), (x(), []), (x(), [7]), (x(), [2, 2]), (x(), (9, 1, 1, 1))],
)
def assignment_expressions(t, values):
    total = 0
    partial = [total := total + v for v in values]
    if (n := len(partial)) > 2:
        t = t * n
    while (m := n - 1) > 0:
        n = m
        t = t + (y := m * 2) + y
    try:
        any((witness := v) > 4 for v in values)
        found = witness
    except UnboundLocalError as error:
        found = str(error)
    inner = lambda v: (w := v * 2) + w  # noqa: E731
    return t, partial, total, found, inner(n), f"{(z := t.sum().item()):.1f} {z}"


@documented(
    "reference/expressions: and, or and the conditional expression return an operand and evaluate no other",
    lambda: [
        (x(), x(1), []),
        (x(), torch.zeros(1), {}),
        (x(), 0, x(1)),
        (x(), "", "full"),
        (x(), x(2), 1),
        (x(), torch.tensor([]), 1),
        (x(), None, torch.tensor(False)),
    ],
    **cleared,
)
def operands(t, a, b):
    try:
        one = a and note("second of and") and b
        two = note("left") and a or b
        three = note("yes") if not b else note("no")
        return t * 2, one is b, two is a, three, not a, (a or b) is b
    except RuntimeError as error:
        return t + 1, str(error)


scale = {"by": 2}


def with_defaults(t, k=3, *rest, by=scale["by"], plus=None):
    return t * by + (plus or 0) + k + len(rest)


def change_defaults(positional, named):
    with_defaults.__defaults__ = positional
    with_defaults.__kwdefaults__ = named


@documented(
    "reference/expressions: defaults are the function's own, changed or taken away between calls; the error tells what is missing",
    lambda: [
        (x(), {}),
        (x(), {"by": 5}),
        Between(lambda: change_defaults((10,), {"by": 1, "plus": 4})),
        (x(), {}),
        (x(), {"plus": 2}),
        Between(lambda: change_defaults(None, None)),
        (x(), {"k": 1, "by": 2}),
        Between(lambda: change_defaults((1, 2), {"by": 3})),
        (x(), {"plus": 0}),
    ],
    setup=lambda: change_defaults((3,), {"by": 2, "plus": None}),
)
def defaults_now(t, named):
    try:
        return with_defaults(t, **named)
    except TypeError as error:
        return t, str(error)


class Shape(types.ModuleType):
    @property
    def area(self):
        order.append("area")
        return self.width * self.height


shape = Shape("shape")
shape.width, shape.height = 2, 3  # type: ignore[attr-defined]
shape.__getattr__ = lambda name: note(len(name))  # type: ignore[method-assign]


def reset_shape():
    shape.width, shape.height = 2, 3
    vars(shape).pop("depth", None)
    order.clear()


@documented(
    "reference/datamodel: a module's __class__ may be a subclass with properties; its __getattr__ is asked for what is missing",
    lambda: [
        (x(), "width"),
        (x(), "depth"),
        Between(lambda: setattr(shape, "depth", 100)),
        (x(), "depth"),
        Between(lambda: setattr(shape, "width", 7)),
        (x(), "height"),
        Between(lambda: delattr(shape, "height")),
        (x(), "width"),
    ],
    state=lambda: list(order),
    setup=reset_shape,
)
def module_attributes(t, name):
    return t * shape.area + getattr(shape, name), shape.unknown, hasattr(shape, "depth")
