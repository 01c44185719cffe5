"""Functions and calling conventions."""

import functools

import torch

from programs import program


@program("calls", lambda t: (t(), 2))
def positional_only(x, k, /, scale=3):
    def inner(a, b, /, c, *, d=4):
        return a * b + c - d

    return inner(x, k, scale, d=1), inner(x, k, c=scale)


@program("calls", lambda t: (t(),), kwargs=lambda t: {"shift": t(), "times": 2})
def keyword_only(x, *, shift, times=1, flip=False):
    for _ in range(times):
        x = x + shift
    return -x if flip else x


@program("calls", lambda t: (t(), t(), t()))
def star_args(*xs):
    def total(first, *rest):
        return first + total(*rest) if rest else first

    return total(*xs), len(xs)


@program("calls", kwargs=lambda t: {"b": t(), "a": t(), "c": 3})
def star_kwargs_keep_order(x, **named):
    def collect(**kw):
        return list(kw)

    for name, value in named.items():
        x = x * value if name != "a" else x - value
    return x, collect(**named, z=1), named


@program("calls", lambda t: (t(), [1, 2], {"c": 3}))
def unpacking_into_calls(x, positions, names):
    def f(a, b, *more, c, d=0, **rest):
        return x * a + b * c + d + sum(more), rest

    return f(*positions, *[5, 6], **names, e="e"), f(*(7, 8), c=9, **{"d": 10})


SEEN: list = []


@program("calls", setup=SEEN.clear, state=lambda: SEEN)
def mutable_default(x, seen=SEEN):
    def remember(value, into=seen, extra=()):
        into.append(value)
        return len(into) + len(extra)

    n = remember(x + 1) + remember(2)
    return x * n


@program("calls")
def recursion(x):
    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    def power(y, n):
        return y if n == 1 else y * power(y, n - 1)

    return power(x, 5) + fib(9)


def _even(x, n):
    return x if n == 0 else _odd(x + 1, n - 1)


def _odd(x, n):
    return x * 2 if n == 0 else _even(x - 3, n - 1)


@program("calls", lambda t: (t(), 7))
def mutual_recursion(x, n):
    return _even(x, n) - _odd(x, n)


@program("calls")
def lambdas(x):
    twice = lambda f: lambda y: f(f(y))  # noqa: E731
    pick = [lambda y: y + 1, lambda y: y * 3, lambda y, k=5: y - k]
    return twice(lambda y: y.sin())(x), [f(x) for f in pick]


def counted(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        wrapper.calls += 1
        return function(*args, **kwargs) + wrapper.calls

    wrapper.calls = 0
    return wrapper


@counted
def _scaled(x, by=2):
    """Multiply."""
    return x * by


def _zero_calls():
    _scaled.calls = 0


@program("calls", setup=_zero_calls, state=lambda: _scaled.calls)
def decorated_with_wraps(x):
    y = _scaled(x) + _scaled(x, by=3)
    return y, _scaled.__name__, _scaled.__doc__


@program("calls")
def decorator_with_arguments(x):
    def repeat(times):
        def decorate(f):
            @functools.wraps(f)
            def run(y):
                for _ in range(times):
                    y = f(y)
                return y

            return run

        return decorate

    @repeat(2)
    @repeat(times=3)
    def step(y):
        return y * 1.5

    return step(x), step.__name__


def _affine(x, scale, shift=0.0, *, sign=1):
    return sign * (x * scale + shift)


@program(
    "calls",
    lambda t: (t(), functools.partial(_affine, scale=2.0)),
    why="asks a partial made in the capture for its keywords",
)
def partials(x, given):
    made = functools.partial(_affine, shift=1.0, sign=-1)
    nested = functools.partial(made, x)
    return given(x, shift=3.0), nested(4.0), nested(scale=5.0, sign=1), made.keywords, nested.func is _affine


class Meter:
    unit = "m"
    made = 0

    def __init__(self, value):
        self.value = value

    def add(self, other):
        return Meter(self.value + other.value)

    @classmethod
    def zero(cls, like):
        cls.made += 1
        return cls(torch.zeros_like(like))

    @staticmethod
    def convert(value, factor=100):
        return value * factor

    def __call__(self, x, *, offset=0):
        self.last = x
        return x * self.value + offset


def _none_made():
    Meter.made = 0


@program("calls", setup=_none_made, state=lambda: Meter.made)
def methods_of_each_kind(x):
    m = Meter(x).add(Meter.zero(x)).add(Meter(x * 2))
    return m.value, Meter.convert(x), m.convert(x, factor=2), type(m).zero(x).value, m.unit


@program("calls", lambda t: (t(), Meter(t())))
def bound_methods_as_values(x, meter):
    add = meter.add
    unbound = Meter.add
    pair = {"bound": add, "plain": unbound}
    y = pair["bound"](Meter(x)).value + pair["plain"](meter, Meter(x)).value
    return y, add.__self__ is meter, add.__func__ is unbound, add == meter.add


@program("calls", lambda t: (t(), Meter(2.5)))
def callable_objects(x, meter):
    return meter(x) + meter(x + 1, offset=4) + sum(map(meter, [x, x]))


class Base:
    def __init__(self, k):
        self.k = k

    def run(self, x):
        return x + self.k


class Left(Base):
    def run(self, x):
        return super().run(x) * 2


class Right(Base):
    def __init__(self, k, extra):
        super().__init__(k + 1)
        self.extra = extra

    def run(self, x):
        return super(Right, self).run(x) - self.extra


class Both(Left, Right):
    def run(self, x):
        self.trail = [c.__name__ for c in type(self).__mro__]
        return super().run(x) + 1


@program("calls", lambda t: (t(), Both(3, 4)))
def super_follows_the_mro(x, both):
    return both.run(x), Both(1, extra=2).run(x)


@program("calls")
def binding_errors_are_caught(x):
    def f(a, b, *, c):
        return a

    messages = []
    for call in (lambda: f(1), lambda: f(1, 2), lambda: f(1, 2, 3, c=4), lambda: f(1, 2, c=3, d=4), lambda: f(1, a=2)):
        try:
            call()
        except TypeError as error:
            messages.append(str(error))
    return x + len(messages), messages


def _count_calls(x):
    _count_calls.calls += 1
    _count_calls.last = x
    return x * _count_calls.calls


def _forget_calls():
    _count_calls.__dict__.clear()
    _count_calls.calls = 0


@program("calls", setup=_forget_calls, state=lambda: _count_calls.__dict__)
def function_attributes(x):
    return _count_calls(x) + _count_calls(x + 1)


@program("calls")
def nested_function_introspection(x):
    def inner(a: int, b: float = 2.0, *, c=3) -> None:
        """Doc."""

    inner.tag = "t"
    return (
        x + inner.__defaults__[0] + inner.__kwdefaults__["c"],
        inner.__name__,
        inner.__doc__,
        inner.__code__.co_argcount,
        inner.tag,
        sorted(inner.__annotations__),
    )


@program("calls", lambda t: (t(), t()))
def return_of_many(x, y):
    def f():
        return x, (y, x + y), {"k": [x]}

    a, (b, c), d = f()
    return d, c, b, a
