"""From "What's New In Python 3.14" on PEP 649 and PEP 749: annotations of functions, classes and modules, made late."""

import annotationlib
import dataclasses
import functools
import inspect
import typing
from annotationlib import Format, ForwardRef

import torch

from documented import documented, x
from documented.attempts import attempt

log: list = []
cleared = {"state": lambda: list(log), "setup": log.clear}


@documented(
    "PEP 649: an annotation reads a variable as it is when it is asked for, not as it was",
    lambda: [(x(), int), (x(), str), (x(2), float), (x(2), None)],
)
def read_when_asked(t, kind):
    before = "early"

    def inner(v: before, k: kind = 1) -> list[before]:
        return v * 2

    t = inner(t)
    before = "late"
    return t, inner.__annotations__, inner.__annotations__ is inner.__annotations__


@documented(
    "PEP 649: annotations of a function made in a loop share the loop's variable",
    lambda: [(x(), 2), (x(), 3), (x(2), 0), (x(2), 1)],
)
def annotated_in_loops(t, n):
    made = []
    for i in range(n):

        def inner(v: i) -> "text":  # noqa: F821
            return v + 1

        if i == 0:
            log.append(inner.__annotations__)
        made.append(inner)
        t = inner(t)
    return t, [f.__annotations__["v"] for f in made]


@documented(
    "PEP 649: __annotate__ may be replaced, or taken away",
    lambda: [(x(), "replaced"), (x(), None), (x(2), "kept"), (x(2), 3)],
)
def replaced_annotate(t, how):
    def inner(v: int) -> str:
        return v * 3

    try:
        if how == "replaced":
            inner.__annotate__ = lambda form: {"v": form}
        elif how != "kept":
            inner.__annotate__ = how
    except TypeError as error:
        return inner(t), str(error)
    return inner(t), inner.__annotations__, attempt(lambda: inner.__annotate__(Format.STRING))


@documented(
    "PEP 649: writing into __annotations__ stays; deleting them makes them empty",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 0)],
)
def written_annotations(t, n):
    def inner(v: int) -> str:
        return v * n

    inner.__annotations__["added"] = n
    first = dict(inner.__annotations__)
    if n % 2:
        del inner.__annotations__
    t = inner(t)
    return t, first, inner.__annotations__, inner.__annotate__ is None


@documented(
    "PEP 649: a class's annotations under a condition are there only if it held",
    lambda: [(x(), 1), (x(), 0), (x(2), 2), (x(2), -1)],
)
def conditional_annotations(t, n):
    class Model:
        a: int = n
        if n > 0:
            b: float
        else:
            c: str
        for name in ("d",):
            e: bytes

    return t * Model.a, Model.__annotations__, hasattr(Model, "b")


@documented(
    "PEP 649: annotations of variables of a function are never evaluated",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 0)],
    **cleared,
)
def variables_of_functions(t, n):
    k: log.append("never") = n
    made: Missing  # noqa: F821
    t = t * k
    try:
        return made  # noqa: F821
    except UnboundLocalError as error:
        return t, str(error)


class Meta(type):
    def __new__(mcs, name, bases, space):
        annotate = annotationlib.get_annotate_from_class_namespace(space)
        made = super().__new__(mcs, name, bases, space)
        made.fields = (
            list(annotationlib.call_annotate_function(annotate, Format.FORWARDREF, owner=made)) if annotate else []
        )
        return made


@documented(
    "PEP 749: a metaclass reads the annotations of the class it makes",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 0)],
)
def read_by_metaclasses(t, n):
    class Model(metaclass=Meta):
        width: int
        depth: Undefined  # noqa: F821

        def run(self):
            return t * (n + len(self.fields))

    class Bare(metaclass=Meta): ...

    return Model().run(), Model.fields, Bare.fields


@documented(
    "PEP 749: forward references are evaluated with names that are given",
    lambda: [(x(), {"Later": int}), (x(), {}), (x(2), {"Later": list}), (x(2), {"Other": 1})],
)
def evaluated_references(t, names):
    def inner(v: Later) -> list[Later]:  # noqa: F821
        return v.abs()

    found = annotationlib.get_annotations(inner, format=Format.FORWARDREF)
    reference = found["v"]
    seen = isinstance(reference, ForwardRef) and reference.__forward_arg__
    return inner(t), seen, attempt(lambda: reference.evaluate(globals=names))


@documented(
    "PEP 749: text of annotations: calls, subscripts, lambdas, t-strings' kin",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 0)],
)
def annotations_as_text(t, n):
    def inner(
        a: dict[str, list[int]],
        b: n + 1,
        *c: Missing[0](n),  # noqa: F821
        d: Missing.deep | None = None,  # noqa: F821
        **e: "quoted",  # noqa: F821
    ) -> -n: ...

    inner(t, 1)
    return t + n, annotationlib.get_annotations(inner, format=Format.STRING)


@documented(
    "PEP 749: type_repr() and annotations_to_string() say values as source does",
    lambda: [(x(), int), (x(), list[int]), (x(2), "text"), (x(2), torch.Tensor)],
)
def values_as_source(t, value):
    return t * 2, annotationlib.type_repr(value), annotationlib.annotations_to_string({"a": value, "b": 1})


@documented(
    "PEP 649: a raising annotation raises each time it is asked for, and its function works",
    lambda: [(x(), 0), (x(), 1), (x(2), 2), (x(2), 0)],
    **cleared,
)
def raising_annotations(t, n):
    def inner(v: log.append("asked") or 1 // n) -> None:
        return v + n

    seen = []
    for _ in range(2):
        try:
            seen.append(inner.__annotations__["v"])
        except ZeroDivisionError as error:
            seen.append(str(error))
        t = inner(t)
    return t, seen


@documented(
    "PEP 649: decorators that copy by functools.wraps keep __annotate__",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 0)],
    **cleared,
)
def wrapped_annotations(t, n):
    def doubled(f):
        @functools.wraps(f)
        def wrapper(*args):
            return f(*args) * 2

        return wrapper

    @doubled
    def inner(v: log.append("asked") or int) -> Missing:  # noqa: F821
        return v + n

    t = inner(t)
    log.append("called")
    return (
        t,
        annotationlib.get_annotations(inner, format=Format.STRING),
        str(inspect.signature(inner, annotation_format=Format.STRING)),
    )


@documented(
    "library/inspect: signature() takes a format of annotations",
    lambda: [(x(), Format.STRING), (x(), Format.FORWARDREF), (x(2), Format.VALUE), (x(2), Format.STRING)],
)
def signatures_in_formats(t, form):
    def inner(v: Missing, k: int = 2) -> float:  # noqa: F821
        return v * k

    try:
        signature = inspect.signature(inner, annotation_format=form)
        bound = signature.bind(t)
        bound.apply_defaults()
        return inner(*bound.args), signature.parameters["k"].annotation
    except NameError as error:
        return inner(t), str(error)


@dataclasses.dataclass
class Tree:
    value: float
    left: Tree | None = None
    right: Tree | None = None

    def fold(self, t: torch.Tensor) -> torch.Tensor:
        t = t * self.value
        for child in (self.left, self.right):
            if child is not None:
                t = child.fold(t)
        return t


@documented(
    "PEP 649: a recursive dataclass of this module folds tensors",
    lambda: [
        (x(), Tree(2.0)),
        (x(), Tree(1.0, Tree(3.0), Tree(0.5))),
        (x(2), Tree(2.0, None, Tree(2.0))),
        (x(2), Tree(0.0)),
    ],
)
def recursive_dataclasses(t, tree):
    hints = typing.get_type_hints(Tree)
    return tree.fold(t), tree, hints["left"] == Tree | None, [f.type == hints[f.name] for f in dataclasses.fields(tree)]


@documented(
    "PEP 649: dataclasses and named tuples made inside of functions name each other",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 0)],
)
def classes_that_name_each_other(t, n):
    @dataclasses.dataclass
    class Left:
        other: Right | None
        count: int = n

    class Right(typing.NamedTuple):
        left: Left
        t: torch.Tensor

    right = Right(Left(None), t * n)
    right.left.other = right
    fields = [f.name for f in dataclasses.fields(Left)]
    return right.left.other.t + right.left.count, fields, Right.__annotations__["left"] is Left


class Config(torch.nn.Module):
    scale: float
    shift: Shift

    def __init__(self, scale):
        super().__init__()
        self.scale = scale
        self.shift = Shift(scale)

    def forward(self, t: torch.Tensor) -> Missing:  # noqa: F821
        return self.shift(t * self.scale)


class Shift(torch.nn.Module):
    by: torch.Tensor

    def __init__(self, by):
        super().__init__()
        self.register_buffer("by", torch.tensor(by))

    def forward(self, t):
        return t + self.by


@documented(
    "PEP 649: modules whose annotations name what is below them, or nowhere",
    lambda: [(x(), 1.0), (x(), 2.0), (x(2), 3.0), (x(2), 0.0)],
)
def annotated_modules(t, scale):
    return Config(scale)(t), Config.__annotations__["shift"].__name__, "forward" in Config.__dict__


@documented(
    "PEP 649: partial objects, bound methods and callables without annotations",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 0)],
)
def annotations_of_callables(t, n):
    def inner(v: int, k: str):
        return v * n

    class Callable:
        def __call__(self, v: float):
            return v + n

    made = functools.partial(inner, k="k")
    get = annotationlib.get_annotations
    return made(t) + Callable()(t), attempt(
        lambda: get(made), lambda: get(Callable()), lambda: get(Callable.__call__), lambda: get(len)
    )


@documented(
    "PEP 649: a generic class's annotations see its parameters",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 0)],
)
def generic_annotations(t, n):
    class Holder[T: int]:
        value: T
        later: Missing | T  # noqa: F821

        def put(self, value: T) -> list[T]:
            self.value = value
            return [value]

    made = Holder()
    (parameter,) = Holder.__type_params__
    got = made.put(t * n)
    return got[0] + 1, Holder.put.__annotations__["value"] is parameter, attempt(lambda: Holder.__annotations__)
