"""From "What's New In Python 3.12": comprehensions without a frame, type parameters and aliases, f-strings."""

import inspect
import typing
from typing import TypedDict, Unpack, override

import torch

from documented import documented, x

log: list = []
cleared = {"state": lambda: list(log), "setup": log.clear}


@documented(
    "PEP 709: the variable of a comprehension is its own, whatever the function calls so",
    lambda: [(x(), 3, "v"), (x(), 0, "v"), (x(2), 2, "w"), (x(6), 5, "v")],
)
def isolated_variables(t, n, name):
    v = name
    squares = [v * v for v in range(n)]
    pairs = {v: v + len(name) for v in squares}
    ones = {v for v in squares if v < 2}
    return t * sum(squares), v, pairs, sorted(ones)


@documented(
    "PEP 709: what raises inside a comprehension leaves the function's variable of that name as it was",
    lambda: [(x(), [1, 2, 4]), (x(), [1, 0, 4]), (x(2), []), (x(2), [0]), (x(), [2, "a"])],
)
def restored_after_raising(t, values):
    v, seen = "kept", None
    try:
        t = t + sum([12 // v for v in values])
    except (ZeroDivisionError, TypeError) as error:
        seen = str(error)
    return t, v, seen


@documented(
    "PEP 709: a variable that was unbound before a comprehension is unbound behind it",
    lambda: [(x(), [1.0, 2.0]), (x(), []), (x(2), [3.0]), (x(2), [1.0, 0.0])],
)
def unbound_behind(t, values):
    t = t * sum([item * 2 for item in values])
    try:
        return t, item  # noqa: F821
    except NameError as error:
        return t, type(error).__name__, str(error)


@documented(
    "PEP 709: functions made in a comprehension share its variable, as they would the variable of a function",
    lambda: [(x(), 3), (x(), 1), (x(2), 4), (x(2), 2)],
)
def closures_in_comprehensions(t, n):
    late = [lambda s: s * k + n for k in range(n)]
    early = [lambda s, k=k: s * k + n for k in range(n)]
    for f in late + early:
        t = f(t) / 2
    return t, [f.__closure__ is not None for f in late], [f.__defaults__ for f in early]


@documented(
    "PEP 709: locals() in a comprehension holds the variables around it, too",
    lambda: [(x(), 2), (x(), 3), (x(2), 2), (x(2), 1)],
)
def locals_in_comprehensions(t, n):
    factor = n + 1
    names = [sorted(locals()) for i in range(n)]
    return t * factor, names[0], len(names), sorted(locals())


@documented(
    "PEP 709: comprehensions in comprehensions, conditions and walrus, whose target is the function's",
    lambda: [(x(), 3, 2), (x(), 2, 0), (x(2), 4, 3), (x(2), 0, 3)],
)
def nested_comprehensions(t, n, m):
    last = None
    table = [[(last := i * j) for j in range(m) if j != i] for i in range(n)]
    flat = [cell for row in table for cell in row]
    weights = {i: {j: t.sum() * j for j in range(i)} for i in range(n)}
    return t + sum(flat), last, table, weights


@documented(
    "PEP 709: the comprehension of a class body and of a lambda; a generator expression keeps its frame",
    lambda: [(x(), 3), (x(), 2), (x(2), 5), (x(2), 1)],
)
def comprehensions_elsewhere(t, n):
    class Table:
        rows = [i * 10 for i in range(n)]
        names = {f"row{i}": i for i in rows}

    doubled = (lambda values: [v + v for v in values])(Table.rows)
    lazy = (t * v for v in doubled)
    return sum(lazy, t), Table.rows, Table.names, hasattr(Table, "i")


@documented(
    "PEP 709: starred items and unpacked targets in a comprehension; its first iterable is asked for once, outside",
    lambda: [(x(), [(1, 2, 3), (4, 5)]), (x(), [(1,)]), (x(2), []), (x(2), [()])],
    **cleared,
)
def unpacked_targets(t, rows):
    def source():
        log.append("asked")
        return rows

    try:
        heads = [(head, *rest) for head, *rest in source()]
        return t * len(heads), heads
    except ValueError as error:
        return t, str(error)


def generic[T](value: T, times: int = 2) -> T:
    return value * times


def bounded[T: (int, float), *Ts, **P](value: T, *rest: *Ts) -> tuple[T, *Ts]:
    return value, *rest


class Stack[T]:
    """A class of one type parameter, whose methods have more."""

    kind = "stack"

    def __init__(self, *items: T) -> None:
        self.items: list[T] = list(items)

    def push[S](self, item: S) -> "Stack[T | S]":
        return Stack(*self.items, item)

    def total(self) -> T:
        return sum(self.items[1:], self.items[0])


class Labelled[T](Stack[T]):
    def __init__(self, label: str, *items: T) -> None:
        super().__init__(*items)
        self.label = label


type Pair[T] = tuple[T, T]
type Tree[T] = T | list[Tree[T]]
type Missing = NoSuchName  # noqa: F821
type Shape = tuple[int, ...]


@documented(
    "PEP 695: a function with type parameters is called as any other; they are its __type_params__",
    lambda: [(x(), 2), (x(), 3), (x(2), 0), (x(2), -1)],
)
def generic_functions(t, n):
    names = [p.__name__ for p in generic.__type_params__]
    more = bounded(n, t.shape[0], "s")
    return generic(t, n), names, more, [type(p).__name__ for p in bounded.__type_params__]


@documented(
    "PEP 695: a generic class made by its statement; Stack[int] makes instances that know of it",
    lambda: [(x(), 1.0), (x(), 2.0), (x(2), 1.0), (x(2), 0.0)],
)
def generic_classes(t, k):
    plain, typed = Stack(t, t * k), Stack[torch.Tensor](t)
    bigger = plain.push(t + k).push(k)
    return bigger.total(), len(bigger.items), typed.__orig_class__ == Stack[torch.Tensor], typed.kind


@documented(
    "PEP 695: a generic class's bases are below Generic; super() and isinstance go by the plain classes",
    lambda: [(x(), "a"), (x(), "b"), (x(2), "a"), (x(2), "")],
)
def generic_inheritance(t, label):
    made = Labelled(label, t, t)
    bases = [b.__name__ for b in Labelled.__mro__]
    return (
        made.total(),
        made.label,
        isinstance(made, Stack),
        bases,
        Labelled.__orig_bases__[0] == Stack[Labelled.__type_params__[0]],
    )


@documented(
    "PEP 695: a type alias is a TypeAliasType; its value is made when it is asked for",
    lambda: [(x(), 0), (x(), 1), (x(2), 0), (x(2), 2)],
)
def type_aliases(t, n):
    seen = [Pair.__name__, str(Pair[int]), Shape.__value__ == tuple[int, ...], isinstance(Tree, typing.TypeAliasType)]
    try:
        if n == 1:
            seen.append(Missing.__value__)
    except NameError as error:
        seen.append(str(error))
    return t + n, seen, Tree.__type_params__[0].__name__


@documented(
    "PEP 695: aliases and generic functions made inside of a function see its variables",
    lambda: [(x(), 2), (x(), 3), (x(2), 2), (x(2), 0)],
)
def generic_inside(t, n):
    def scaled[T](value: T, by: T = n) -> T:
        return value * by + n

    type Row = list[n]
    return scaled(t), scaled.__type_params__[0].__name__, Row.__value__ == list[n], scaled.__defaults__


@documented(
    "PEP 695: generic classes made inside of a function, with a method that uses the variables around it",
    lambda: [(x(), 2), (x(), 5), (x(2), 1), (x(2), 2)],
)
def generic_classes_inside(t, n):
    class Scale[T]:
        factor = n

        def apply(self, value: T) -> T:
            return value * self.factor - n

    made = Scale[torch.Tensor]()
    return made.apply(t), Scale.__type_params__[0].__name__, Scale.__name__


@documented(
    "PEP 695: bounds and constraints of type variables are made late, too",
    lambda: [(x(), 0), (x(), 1), (x(2), 0), (x(2), 1)],
)
def lazy_bounds(t, which):
    def later[T: Unknown](value: T) -> T:  # noqa: F821
        return value + 1

    variable = (bounded if which else later).__type_params__[0]
    try:
        found = variable.__constraints__ or variable.__bound__
    except NameError as error:
        found = str(error)
    return later(t), found


@documented(
    "PEP 701: f-strings may use their own quotes again, over lines, with comments and backslashes",
    lambda: [(x(), {"name": "a"}), (x(), {"name": "b c"}), (x(2), {"name": ""}), (x(2), {})],
)
def f_strings(t, values):
    # fmt: off
    try:
        text = f"{values["name"]!r}: {
            t.shape[0]  # the rows
            + 1
        } {"\n".join(["x", f"{values["name"]:>5}"])}"
    except KeyError as error:
        text = f"{f"{f"{error}"}"}"
    # fmt: on
    return t * len(text), text


@documented(
    "PEP 701: nested format specs, conversions and = in f-strings",
    lambda: [(x(), 3.14159, 2), (x(), -1.0, 0), (x(2), 2.5, 4), (x(2), 100.0, 1)],
)
def formatted(t, number, digits):
    return (
        t + digits,
        f"{number:{'+' if number > 0 else ''}.{digits}f}",
        f"{number=:>{digits + 8}}",
        f"{digits = !s}",
        f"{{{digits}}}",
    )


class Options(TypedDict, total=False):
    factor: float
    shift: int


@documented(
    "PEP 692: **kwargs of a TypedDict are a plain dict",
    lambda: [(x(), {"factor": 2.0}), (x(), {"shift": 1}), (x(2), {}), (x(2), {"factor": 0.5, "shift": 2})],
)
def typed_keywords(t, options):
    def apply(value, **given: Unpack[Options]):
        return value * given.get("factor", 1.0) + given.get("shift", 0), given

    return apply(t, **options)


class Base:
    def scale(self, t):
        return t * 2


class Derived(Base):
    @override
    def scale(self, t):
        return super().scale(t) + 1


@documented(
    "PEP 698: @override marks the method and changes nothing else",
    lambda: [(x(), Derived()), (x(), Base()), (x(2), Derived()), (x(2), Base())],
)
def overridden(t, model):
    return model.scale(t), getattr(type(model).scale, "__override__", False)


@documented(
    "reference/compound_stmts: except* splits a group; what no clause takes is raised again",
    lambda: [(x(), "v"), (x(), "t"), (x(2), "both"), (x(2), "other"), (x(), "none"), (x(), "plain")],
)
def groups_of_exceptions(t, what):
    caught = []
    errors = {
        "v": [ValueError(1)],
        "t": [TypeError(2)],
        "both": [ValueError(1), TypeError(2), ValueError(3)],
        "other": [KeyError(4), ValueError(5)],
    }.get(what)
    try:
        try:
            t = t + 1
            if what == "plain":
                raise ValueError("alone")
            if errors:
                raise ExceptionGroup("several", errors)
        except* ValueError as group:
            caught.append(("v", [e.args for e in group.exceptions]))
            t = t * 2
        except* TypeError as group:
            caught.append(("t", [e.args for e in group.exceptions]))
        else:
            caught.append("else")
        finally:
            caught.append("finally")
    except ExceptionGroup as rest:
        caught.append([type(e).__name__ for e in rest.exceptions])
    return t, caught


@documented(
    "reference/compound_stmts: what an except* clause raises is put together with what is left",
    lambda: [(x(), 0), (x(), 1), (x(2), 2), (x(2), 0)],
)
def raised_in_groups(t, how):
    try:
        try:
            raise ExceptionGroup("g", [ValueError("a"), OSError("b")])
        except* ValueError as group:
            t = t - 1
            if how == 1:
                raise RuntimeError("new") from group
            if how == 2:
                raise
    except* (OSError, RuntimeError, ValueError) as found:
        seen = [type(e).__name__ for e in found.exceptions]
    return t.cos(), seen


@documented(
    "library/inspect: signatures of generic functions and of methods of generic classes",
    lambda: [(x(), 1), (x(), 2), (x(2), 1), (x(2), 3)],
)
def signatures(t, n):
    return t * n, list(inspect.signature(generic).parameters), str(inspect.signature(Stack.push).parameters["item"])
