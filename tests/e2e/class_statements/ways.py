"""Classes by a call, by a decorator; classes that are changed later."""

# ruff: noqa: N804, N805, F821, B903, RUF012, B018, PLW0127, SIM117
# mypy: ignore-errors

import types
import typing

from e2e.class_statements.common import Named, One, Registered, caught, program


@program
def type_called(x, log):
    A = type("A", (), {"f": lambda self, t: t * 2, "n": Named(log)})  # noqa: N806
    wrong = [
        lambda: type("A", ()),
        lambda: type("A", (), {}, 3),
        lambda: type(3, (), {}),
        lambda: type("A", [], {}),
        lambda: type("A", (), []),
        lambda: type("A", (3,), {}),
        lambda: type("A\0", (), {}),
        lambda: type("A", (), {"__slots__": ("a",), "a": 1}),
        lambda: type("A", (), {1: 2}),
        lambda: type("A", (), {}, k=1),
        lambda: type("A", (Registered,), {}, tag=5).tag,
        lambda: type(name="A", bases=(), dict={}),
        lambda: type(),
        lambda: type("\ud800", (), {}),
    ]
    return A().f(x), [caught(call, log) if i != 8 else None for i, call in enumerate(wrong)]


@program
def new_class(x, log):
    def body(names):
        names["f"] = lambda self, t: t + 1
        names["tag_of"] = len(names)

    A = types.new_class("A", (Registered,), {"tag": 4}, body)  # noqa: N806
    B = types.new_class("B", (typing.Generic[typing.TypeVar("T")],))  # noqa: N806
    found = types.prepare_class("C", (A,), {"metaclass": One, "k": 1})
    wrong = caught(lambda: types.new_class("D", (), {"nobody": 1}), log)
    return A().f(x) * A.tag, A.tag_of, B.__name__, found[0].__name__, found[2], wrong


@program
def type_new_called_by_hand(x, log):
    calls = [
        lambda: type.__new__(One, "A", (), {}).__class__.__name__,
        lambda: type.__new__(int, "A", (), {}),
        lambda: type.__new__(3, "A", (), {}),
        lambda: type.__new__(type, "A"),
        lambda: type.__new__(One, "A", (), {"__classcell__": types.CellType()}).__name__,
        lambda: type.__init__(One("B", (), {}), 1, 2),
        lambda: type.__call__(Registered).__class__.__name__,
        lambda: object.__new__(One),
        lambda: One.__new__(One, "C", (int,), {}).__name__,
    ]
    return x + 1, [caught(call, log) for call in calls]


@program
def classes_changed_after(x, log):
    class A:
        def f(self, t):
            return t

    class B:
        def f(self, t):
            return t * 2

    class S:
        __slots__ = ("s",)

    a = A()
    a.__class__ = B

    def layout():
        a.__class__ = S

    def number():
        a.__class__ = 3

    def bases():
        A.__bases__ = ()

    def bases_of_object():
        A.__bases__ = (B,)

    def name():
        A.__name__ = 3

    def builtin():
        int.extra = 3

    def deleted():
        del A.__name__

    def deleted_twice():
        del A.f
        del A.f

    made = a.f(x)
    return made, [
        caught(f, log) for f in (layout, number, bases, bases_of_object, name, builtin, deleted, deleted_twice)
    ]


@program
def decorated_classes(x, log):
    def first(cls):
        log.append(("first", cls.__name__))
        return cls

    def second(cls):
        log.append(("second", cls.__name__))
        return cls.__name__

    def fails(cls):
        raise PermissionError(cls.__name__)

    @second
    @first
    class A:
        pass

    def make():
        @first
        @fails
        class B:
            log.append("body")

    return x + len(A), caught(make, log)


@program
def build_class_replaced(x, log):
    import builtins

    kept = builtins.__build_class__

    def own(body, name, *bases, **kw):
        log.append((name, len(bases), kw))
        return kept(body, name + "_", *bases, **kw)

    builtins.__build_class__ = own
    try:

        class A(Registered, tag=2):
            pass

    finally:
        builtins.__build_class__ = kept
    return x * A.tag, A.__name__


@program
def build_class_called(x, log):
    import builtins

    def body():
        pass

    calls = [
        lambda: builtins.__build_class__(),
        lambda: builtins.__build_class__(body),
        lambda: builtins.__build_class__(3, "A"),
        lambda: builtins.__build_class__(body, 3),
        lambda: builtins.__build_class__(body, "A", metaclass=3),
        lambda: builtins.__build_class__(len, "A"),
        lambda: builtins.__build_class__(body, "A", 3),
        lambda: builtins.__build_class__(lambda: 1, "A", nobody=1),
        lambda: builtins.__build_class__(lambda: None, "A").__name__,
        lambda: builtins.__build_class__(lambda a: None, "A").__name__,
        lambda: builtins.__build_class__(lambda a=2: None, "A").__name__,
    ]
    return x + 1, [caught(call, log) for call in calls]


@program
def exceptions_made_and_raised(x, log):
    class Own(Exception):
        def __init__(self, t, *args):
            super().__init__(*args)
            self.t = t

        def __str__(self):
            return f"own {self.args}"

    def fails():
        raise Own(x * 2, "a", 1)

    try:
        fails()
    except Own as error:
        log.append(str(error))
        return error.t + 1


@program
def an_exception_of_a_class_made_here(x, log):
    class Own(LookupError):
        tag = 3

    y = x + 1
    log.append("before")
    raise Own(Own.tag, Own.__mro__[1].__name__)


@program
def copies_and_subclasses_of_instances(x, log):
    class A:
        def __init__(self, t=None):
            self.t = t

        def __init_subclass__(cls):
            log.append(cls.__name__)

    def below(cls, depth):
        if depth == 0:
            return cls

        class B(cls):
            level = depth

            def f(self):
                return self.level + (super().f() if hasattr(super(), "f") else 0)

        return below(B, depth - 1)

    made = below(A, 4)
    return made(x).t * made().f(), [c.__name__ for c in made.__mro__]
