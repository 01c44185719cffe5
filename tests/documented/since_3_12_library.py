"""From "What's New In Python 3.12": builtins and library."""

import collections.abc
import itertools
import math
import types
import typing

import torch

from documented import documented, x


@documented(
    "library/itertools: batched(iterable, n) gives tuples of n, the last may be shorter; n must be 1 at least",
    lambda: [(x(), 2), (x(5), 2), (x(7), 3), (x(2), 4), (x(2), 0)],
)
def batches(t, n):
    try:
        parts = list(itertools.batched(t.unbind(), n))
    except ValueError as error:
        return t, str(error)
    return [sum(part) for part in parts], [len(part) for part in parts]


@documented(
    "library/math: sumprod(p, q); the lengths must agree",
    lambda: [(x(), [1, 2], [3, 4]), (x(), [0.5], [4]), (x(2), [], []), (x(2), [1], [1, 2])],
)
def products(t, p, q):
    try:
        return t * math.sumprod(p, q)
    except ValueError as error:
        return t, str(error)


@documented(
    "library/functions: slices are hashable and keys of dicts",
    lambda: [(x(), 0, 2), (x(), 1, 3), (x(), 0, 2), (x(6), 2, None)],
)
def slices_as_keys(t, start, stop):
    parts = {slice(0, 2): "first", slice(1, 3): "second"}
    wanted = slice(start, stop)
    return t[wanted], parts.get(wanted, "none"), hash(wanted) == hash(slice(start, stop)), len({wanted, slice(0, 2)})


@documented(
    "library/functions: sum() of floats is compensated",
    lambda: [(x(), [0.1] * 10), (x(), [1e100, 1.0, -1e100]), (x(2), []), (x(2), [0.5, 1])],
)
def compensated(t, values):
    return t * 2, sum(values), sum(values, 0.25), sum([*values, 1j])


class Window:
    """Gives its bytes out itself."""

    def __init__(self, size: int) -> None:
        self.data = bytearray(range(size))
        self.released = 0

    def __buffer__(self, flags: int) -> memoryview:
        return memoryview(self.data)

    def __release_buffer__(self, view: memoryview) -> None:
        self.released += 1
        view.release()


@documented(
    "PEP 688: a class with __buffer__ is a buffer; __release_buffer__ is called when the view is released",
    lambda: [(x(), Window(4)), (x(), Window(2)), (x(2), Window(0)), (x(2), b"ab")],
)
def buffers(t, window):
    is_buffer = isinstance(window, collections.abc.Buffer)
    with memoryview(window) as view:
        size, content = view.nbytes, bytes(view)
    return t * size, content, is_buffer, getattr(window, "released", None)


class Plain[T]: ...


class Child(Plain[int], typing.Generic[typing.TypeVar("S")]): ...


@documented(
    "library/types: get_original_bases gives the bases as they were written",
    lambda: [(x(), Child), (x(), Plain), (x(2), int), (x(2), 3)],
)
def original_bases(t, cls):
    try:
        return t + 1, [str(b).rpartition(".")[2] for b in types.get_original_bases(cls)]
    except TypeError as error:
        return t, str(error)


@documented(
    "library/exceptions: notes of an exception are kept in order, by add_note",
    lambda: [(x(), ["a"]), (x(), ["a", "b"]), (x(2), []), (x(2), [1])],
)
def notes(t, texts):
    try:
        raise ValueError(t.shape[0])
    except ValueError as error:
        try:
            for text in texts:
                error.add_note(text)
        except TypeError as wrong:
            return t, str(wrong)
        return t + error.args[0], getattr(error, "__notes__", None)


@documented(
    "library/typing: a runtime protocol looks members up statically, without descriptors",
    lambda: [(x(), "plain"), (x(), "property"), (x(2), "none"), (x(2), "own")],
)
def runtime_protocols(t, which):
    calls = []

    class With:
        def size(self):
            return 1

    class Property:
        @property
        def size(self):
            calls.append("asked")
            return 2

    class Own:
        def __init__(self):
            self.size = 3

    made = {"plain": With, "property": Property, "own": Own}.get(which, object)()
    return t * isinstance(made, Sized), calls


@typing.runtime_checkable
class Sized(typing.Protocol):
    size: int


@documented(
    "library/stdtypes: hash(None) is constant; a singleton keys what it keyed before",
    lambda: [(x(), None), (x(), ...), (x(2), None), (x(2), 0)],
)
def keyed_by_singletons(t, key):
    table = {None: 1.0, ...: 2.0}
    return t * table.get(key, 3.0), hash(None) == hash(None), key in table


@documented(
    "library/types, torch.nn: a generic module is a module",
    lambda: [(x(2, 2), 1), (x(2, 2), 2), (x(3, 2), 1), (x(3, 2), 0)],
)
def generic_modules(t, n):
    model = Layered[int](n)
    return model(t), [name for name, _ in model.named_parameters()], type(model).__name__


class Layered[T](torch.nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(2, 2) for _ in range(depth))

    def forward(self, value):
        outputs = [value := layer(value).relu() for layer in self.layers]
        return value, len(outputs)
