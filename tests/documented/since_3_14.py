"""From "What's New In Python 3.14": t-strings, annotations made late, except without parentheses, library."""

import annotationlib
import contextvars
import copy
import dataclasses
import functools
import heapq
import io
import operator
import typing
from string.templatelib import Interpolation, Template

import torch

from documented import documented, x

log: list = []
cleared = {"state": lambda: list(log), "setup": log.clear}


@documented(
    "PEP 750: a t-string is a Template: its strings, its interpolations with value, text, conversion and format",
    lambda: [(x(), "a"), (x(), "b"), (x(2), ""), (x(2), "c d")],
)
def template_strings(t, name):
    made = t"hello {name!r:>{len(name)}} and {t.shape[0] + 1} {name=}"
    parts = [(i.value, i.expression, i.conversion, i.format_spec) for i in made.interpolations]
    return t * len(made.strings), made.strings, parts, made.values


def joined(template: Template) -> str:
    return "".join(p if isinstance(p, str) else f"<{p.value}>" for p in template)


@documented(
    "PEP 750: a template is gone through part by part; empty strings are left out",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 0)],
)
def templates_in_parts(t, n):
    return t + n, joined(t"{n}{n + 1} end"), joined(t""), joined(t"only text")


@documented(
    "PEP 750: templates are added to templates, not to strings",
    lambda: [(x(), 1), (x(), 2), (x(2), "s"), (x(2), None)],
)
def added_templates(t, value):
    both = t"a {value}" + t" b {value}"
    try:
        return t, both + "text"
    except TypeError as error:
        return t * 2, both.strings, both.values, type(error).__name__


@documented(
    "PEP 750: tensors in a template stay tensors",
    lambda: [(x(), 2.0), (x(), 3.0), (x(2), 2.0), (x(2), 0.0)],
)
def tensors_in_templates(t, k):
    made = t"{t * k:.2f} plus {k}"
    (first, second) = made.values
    return first + second, made.interpolations[0].format_spec


@documented(
    "PEP 750: an expression of a t-string is evaluated at once, from left to right; what raises raises there",
    lambda: [(x(), [1, 2]), (x(), [1]), (x(2), []), (x(2), [3, 4, 5])],
    **cleared,
)
def evaluated_in_order(t, values):
    def take(i):
        log.append(i)
        return values[i]

    try:
        return t, t"{take(0)} {take(1)}".values
    except IndexError as error:
        return t + len(log), str(error)


@documented(
    "library/string.templatelib: templates are made by hand, too; patterns match interpolations",
    lambda: [(x(), 1), (x(), "s"), (x(2), 2.5), (x(2), None)],
)
def matched_interpolations(t, value):
    made = Template("a", Interpolation(value, "value", None, ">4"), "b")
    seen = []
    for part in made:
        match part:
            case Interpolation(int() as number, name, _, spec):
                seen.append((number, name, spec))
            case Interpolation(other):
                seen.append(other)
            case str() as text:
                seen.append(text)
    return t * len(seen), seen


class Early:
    later: Later
    number: int = 3


class Later:
    early: Early


@documented(
    "PEP 649: annotations may name what comes later; they are made when they are asked for",
    lambda: [(x(), 0), (x(), 1), (x(2), 0), (x(2), 2)],
)
def annotations_made_late(t, n):
    def inner(value: Unknown, other: int = n) -> Later:  # noqa: F821
        return value * other

    result = inner(t)
    if n == 1:
        try:
            return result, inner.__annotations__
        except NameError as error:
            return result, str(error)
    return result, [k.__name__ for k in typing.get_type_hints(Early).values()]


@documented(
    "PEP 649: what an annotation does it does once, when it is first asked for",
    lambda: [(x(), 0), (x(), 1), (x(2), 2), (x(2), 1)],
    **cleared,
)
def annotations_made_once(t, n):
    def note(what):
        log.append(what)
        return what

    def inner(value: note("value"), k: note("k") = 1) -> note("return"):
        return value + k

    seen = [dict(inner.__annotations__) for _ in range(n)]
    return inner(t), seen, callable(inner.__annotate__)


@documented(
    "PEP 749: annotationlib gives annotations as values, as forward references or as text",
    lambda: [(x(), "STRING"), (x(), "FORWARDREF"), (x(2), "VALUE"), (x(2), "STRING")],
)
def annotations_in_formats(t, form):
    def inner(value: Missing, other: list[int] = ()) -> int:  # noqa: F821
        return value

    try:
        found = annotationlib.get_annotations(inner, format=annotationlib.Format[form])
        return inner(t) + 1, {k: str(v).partition(",")[0] for k, v in found.items()}
    except NameError as error:
        return t, str(error)


@dataclasses.dataclass
class Node:
    value: float
    next: Node | None = None
    names: list[Undefined] = dataclasses.field(default_factory=list)  # noqa: F821


@documented(
    "PEP 649: fields of dataclasses that name the class itself, or what is nowhere",
    lambda: [(x(), 1.0), (x(), 2.0), (x(2), 1.0), (x(2), 0.0)],
)
def late_dataclasses(t, v):
    chain = Node(v, Node(v + 1, names=["a"]))
    return t * chain.value + chain.next.value, chain, [f.name for f in dataclasses.fields(Node)]


@documented(
    "PEP 758: except takes several classes without parentheses",
    lambda: [(x(), "v"), (x(), "t"), (x(2), "k"), (x(2), ""), (x(), "v")],
)
def without_parentheses(t, what):
    kinds = {"v": ValueError, "t": TypeError, "k": KeyError}
    try:
        t = t + 1
        if what:
            raise kinds[what](what)
    except ValueError, TypeError:
        return t * 2, "first"
    except KeyError as error:
        return t, str(error)
    return t, "fine"


def star(t, what):
    seen = []
    try:
        t = t.sin()
        raise ExceptionGroup("g", [ValueError(1), KeyError(2)][: len(what)])
    except* ValueError, KeyError:
        seen.append(len(what))
    return t, seen


documented(
    "PEP 758: except* with two classes takes both out of a group",
    lambda: [(x(), "a"), (x(), "ab"), (x(2), "a"), (x(2), "abc")],
)(star)


@documented(
    "library/functions: map(strict=True) raises if its iterables are not of one length",
    lambda: [(x(), [1, 2]), (x(), [1, 2, 3, 4]), (x(2), [3, 4]), (x(2), [])],
)
def strict_map(t, factors):
    seen = []
    try:
        for v in map(operator.mul, t.unbind(), factors, strict=True):
            seen.append(v)
    except ValueError as error:
        seen.append(str(error))
    return seen


@documented(
    "library/functools: partial() with Placeholder leaves a place for a later argument",
    lambda: [(x(), 1, 2), (x(), 3, 4), (x(2), 0, 1), (x(2), 2, 2)],
)
def placeholders(t, a, b):
    f = functools.partial(lambda p, q, r: p * q - r, functools.Placeholder, a)
    g = functools.partial(f, t)
    try:
        f()
    except TypeError as error:
        return f(t, b), g(b), str(error)


@documented(
    "library/functools: reduce takes initial by its name",
    lambda: [(x(), [1, 2, 3]), (x(), []), (x(2), [5]), (x(2), [1, 1])],
)
def reduced(t, values):
    return functools.reduce(operator.add, values, initial=t)


@documented(
    "library/heapq: heaps whose first is the largest",
    lambda: [(x(), [3, 1, 2]), (x(), [5]), (x(2), [1, 1, 4, 2]), (x(2), [])],
)
def max_heaps(t, values):
    heap = list(values)
    heapq.heapify_max(heap)
    heapq.heappush_max(heap, 2)
    largest = heapq.heappop_max(heap)
    return t * largest, heap, heapq.heappushpop_max(heap, 3), heap


class Truncating:
    def __trunc__(self):
        return 7


@documented(
    "library/functions: int() asks for __trunc__ no more; NotImplemented has no truth",
    lambda: [(x(), 3.7), (x(), Truncating()), (x(2), NotImplemented), (x(2), "12")],
)
def refused_conversions(t, value):
    try:
        if value:
            return t * int(value)
        return t
    except TypeError as error:
        return t, str(error)


@documented(
    "library/functions: float.from_number and complex.from_number take numbers alone",
    lambda: [(x(), 2), (x(), 2.5), (x(2), "3"), (x(2), True)],
)
def from_numbers(t, value):
    try:
        return t * float.from_number(value), complex.from_number(value)
    except TypeError as error:
        return t, type(error).__name__


@documented(
    "library/operator: is_none and is_not_none",
    lambda: [(x(), None), (x(), 0), (x(2), None), (x(2), [])],
)
def compared_with_none(t, value):
    return (t + 1 if operator.is_none(value) else t - 1), operator.is_not_none(value)


@documented(
    "library/typing: int | str and Union[int, str] are the same class's instances",
    lambda: [(x(), 1), (x(), "s"), (x(2), 2.5), (x(2), None)],
)
def unions(t, value):
    union = int | str
    return t * isinstance(value, union), union == typing.Union[int, str], isinstance(union, typing.Union), str(union)


variable = contextvars.ContextVar("variable", default=0)


@documented(
    "library/contextvars: a token is a context manager that puts the variable back",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 0)],
)
def tokens_as_managers(t, n):
    try:
        with variable.set(n):
            inside = t * variable.get()
            if n == 3:
                raise ValueError("out")
    except ValueError as error:
        return t, str(error), variable.get()
    return inside, variable.get()


class Parent:
    def scale(self, t):
        return t * 5


class Heir(Parent):
    def scale(self, t):
        return copy.copy(super()).scale(t) + 1


@documented(
    "library/functions: super objects can be copied",
    lambda: [(x(), Heir()), (x(), Parent()), (x(2), Heir()), (x(2), Parent())],
)
def copied_super(t, model):
    return model.scale(t)


class Mod:
    def __rpow__(self, other, modulus=None):
        return (other, modulus)


@documented(
    "library/functions: pow() of three arguments asks for __rpow__, too",
    lambda: [(x(), 2, 5), (x(), 3, 7), (x(2), 2, None), (x(2), 2.5, 3)],
)
def reflected_powers(t, base, modulus):
    try:
        return t + 1, pow(base, Mod(), modulus)
    except TypeError as error:
        return t, str(error)


@documented(
    "library/stdtypes: bytes.fromhex takes bytes; memoryview[int] is a generic alias",
    lambda: [(x(), b"0a0b"), (x(), "ff"), (x(2), b""), (x(2), b"zz")],
)
def from_hexadecimals(t, text):
    try:
        return t * len(bytes.fromhex(text)), str(memoryview[int])
    except ValueError as error:
        return t, str(error)


@documented(
    "PEP 765: return and break in a finally clause still swallow what was raised",
    lambda: [(x(), [1, 2]), (x(), [0]), (x(2), []), (x(2), [3, 0])],
)
def finally_that_swallows(t, values):
    seen = []
    for v in values:
        try:
            t = t / v if v else t + [][0]
        finally:
            seen.append(v)
            if not v:
                break
    return t, seen


@documented(
    "library/io, print: a tensor's values written by a t-string's function in the graph's order",
    lambda: [(x(), 1), (x(), 2), (x(2), 1), (x(2), 0)],
)
def printed_templates(t, n):
    out = io.StringIO()
    t = t + n
    print(joined(t"step {n}: {t.shape[0]}"), file=out)
    print(joined(t"{n!s}"), end="")
    return t * torch.ones(1), out.getvalue()
