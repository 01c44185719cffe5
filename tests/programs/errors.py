"""Exceptions that leave the function, or that only the run of a graph raises. State and traceback stay as eagerly."""

import torch

from programs import program


class Broken(Exception):
    def __init__(self, message, payload=None):
        super().__init__(message)
        self.payload = payload


class Sink:
    def __init__(self):
        self.events = []


def _indefinite(t):
    return (t(t.n, t.n) * 0 - torch.eye(t.n), Sink())


# Raised by the data, inside the graph.


@program("errors", _indefinite, hits=False)
def failing_cholesky_is_caught(x, sink):
    sink.events.append("before")
    try:
        y = torch.linalg.cholesky(x)
        sink.events.append("not reached")
    except torch.linalg.LinAlgError as error:
        sink.events.append(type(error).__name__)
        y = x * 2
    return y, len(sink.events)


@program("errors", _indefinite, hits=False)
def failing_cholesky_escapes(x, sink):
    sink.events.append(x.sum())
    y = torch.linalg.cholesky(x)
    sink.events.append("not reached")
    return y


@program("errors", _indefinite, hits=False)
def failing_cholesky_after_a_write(x, sink):
    x.add_(x)
    sink.events.append("written")
    try:
        return torch.linalg.cholesky(x)
    except RuntimeError as error:
        sink.events.append(str(error)[:20])
        x.mul_(3)
    finally:
        sink.events.append("finally")
    return x.trace()


@program("errors", lambda t: (t(), torch.tensor([0, 1000]), Sink()), hits=False)
def index_in_data_after_a_write(x, ids, sink):
    x.mul_(2)
    sink.events.append("written")
    y = x[ids]
    sink.events.append("not reached")
    return y


@program("errors", lambda t: (t(), torch.tensor([0, 1000]), Sink()), hits=False)
def index_in_data_is_caught(x, ids, sink):
    for shift in (2000, 500):
        try:
            x.add_(1)
            sink.events.append(x[ids - shift])
        except IndexError:
            sink.events.append(shift)
            x.sub_(0.5)
    return x + 1


# Raised by the shapes or by Python, while capturing.


@program("errors", lambda t: (t(t.n), Sink()), hits=False)
def index_error_after_a_write(x, sink):
    x.add_(1)
    sink.events.append(x.sum())
    return x[1000]


@program("errors", lambda t: (t(t.n, 3), t(4, 2), Sink()), hits=False)
def shape_mismatch(x, w, sink):
    sink.events.append("before")
    y = x.sin()
    z = y @ w
    sink.events.append("not reached")
    return z


@program("errors", lambda t: (t(t.n, 3), t(4, 2), Sink()), hits=False)
def shape_mismatch_is_caught(x, w, sink):
    try:
        return x @ w
    except RuntimeError as error:
        sink.events.append(str(error))
        return x * 2


@program("errors", lambda t: (t(), {"a": 1}, Sink()), hits=False)
def key_error_of_the_user(x, table, sink):
    sink.events.append(x * 2)
    table["b"] = 2
    return table["missing"]


@program("errors", lambda t: (t(), Sink()), hits=False)
def raised_with_a_cause(x, sink):
    try:
        sink.events.append("try")
        int("x1")
    except ValueError as error:
        raise Broken("wrapped", x + 1) from error


@program("errors", lambda t: (t(), Sink()), hits=False)
def raised_in_a_handler(x, sink):
    try:
        raise KeyError("first")
    except KeyError:
        sink.events.append("handler")
        {}["second"]
    finally:
        sink.events.append(x + 1)


@program("errors", lambda t: (t(), Sink()), hits=False)
def assertion_fails(x, sink):
    sink.events.append(1)
    assert x.dim() == 2, f"two dimensions, not {x.dim()}"
    return x


def _third(x, sink):
    sink.events.append("third")
    y = x * 2
    raise Broken(f"deep {y.dim()}", y)


def _second(x, sink):
    try:
        return _third(x + 1, sink)
    finally:
        sink.events.append("second")


@program("errors", lambda t: (t(), Sink()), hits=False)
def raised_in_a_callee(x, sink):
    def first(x):
        return _second(x, sink) + 1

    return first(x.sin())


@program("errors", lambda t: (t(), Sink()), hits=False)
def raised_in_a_generator(x, sink):
    def produce():
        yield x
        sink.events.append("second item")
        raise Broken("generator")

    return [y + 1 for y in produce()]


class Guarded:
    def __init__(self, sink):
        self.sink = sink

    def __enter__(self):
        self.sink.events.append("enter")

    def __exit__(self, kind, error, traceback):
        self.sink.events.append((kind.__name__, traceback is not None))

    @property
    def bad(self):
        raise AttributeError("no bad here")

    def __add__(self, other):
        raise TypeError("cannot add")


@program("errors", lambda t: (t(), Sink()), hits=False)
def raised_in_a_with(x, sink):
    with Guarded(sink), torch.no_grad():
        y = x + 1
        raise Broken("inside", y)


@program("errors", lambda t: (t(), Sink()), hits=False)
def raised_by_a_property(x, sink):
    sink.events.append(x * 2)
    return Guarded(sink).bad


@program("errors", lambda t: (t(), Sink()), hits=False)
def raised_by_an_operator(x, sink):
    y = x + 1
    return (Guarded(sink) + y,)


@program("errors", lambda t: (t(), 0), hits=False)
def division_by_zero(x, n):
    y = x * 2
    return y + 1 // n


@program("errors", lambda t: (t(),), hits=False)
def undefined_name(x):
    y = x + 1
    return y + nowhere  # noqa: F821


@program("errors", lambda t: (t(), Sink()), hits=False)
def missing_attribute(x, sink):
    sink.events.append(x.shape)
    return sink.nothing_of_the_kind


@program("errors", lambda t: (t(),), hits=False)
def wrong_arguments_to_a_callee(x):
    def inner(a, *, b):
        return a + b

    return inner(x, 1)


@program("errors", lambda t: (t(), Sink()), hits=False)
def same_exception_raised_again(x, sink):
    kept = None
    try:
        _second(x, sink)
    except Broken as error:
        kept = error
    sink.events.append(kept.payload + 1)
    raise kept


@program("errors", lambda t: (t(), Sink()), hits=False)
def exception_made_by_the_caller(x, sink):
    error = sink.events.append if False else Broken("made early", x)
    y = x + 1
    sink.events.append(y)
    if y.dim() == 1:
        raise error
    return y


@program("errors", lambda t: (t(), Sink()), hits=False)
def wrong_call_of_a_torch_function(x, sink):
    sink.events.append("before")
    return torch.cat(x, dim=5)


@program("errors", lambda t: (t(grad=True), Sink()), hits=False)
def write_into_a_leaf_that_requires_grad(x, sink):
    sink.events.append("before")
    x.add_(1)
    return x
