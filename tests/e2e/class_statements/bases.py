"""Bases that are refused, replaced, reordered; slots."""

# ruff: noqa: N804, N805, F821, B903, RUF012, B018, PLW0127, SIM117
# mypy: ignore-errors

import weakref

import torch

from e2e.class_statements.common import Registered, caught, program


@program
def wrong_bases(x, log):
    def number():
        class A(3):
            pass

    def boolean():
        class A(bool):
            pass

    def layouts():
        class A(int, str):
            pass

    def twice():
        class A(Registered, Registered):
            pass

    def order():
        class B(Registered):
            pass

        class A(Registered, B):
            pass

    def function():
        class A(order):
            pass

    def nothing():
        class A(type(None)):
            pass

    def tensor():
        class A(x):
            pass

    made = [number, boolean, layouts, twice, order, function, nothing]
    return x + 1, [caught(make, log) for make in made]


@program
def mro_entries(x, log):
    class Gives:
        def __init__(self, *bases):
            self.bases = bases

        def __mro_entries__(self, bases):
            log.append(len(bases))
            return self.bases

    class A(Gives(Registered), Gives(), tag=2):
        pass

    class B(Gives()):
        pass

    def wrong():
        class C(Gives(3)):
            pass

    class NoTuple:
        def __mro_entries__(self, bases):
            return [int]

    def no_tuple():
        class C(NoTuple()):
            pass

    return x * A.tag, B.__bases__, hasattr(A, "__orig_bases__"), caught(wrong, log), caught(no_tuple, log)


@program
def own_mro(x, log):
    class Meta(type):
        def mro(cls):
            log.append(cls.__name__)
            return [*super().mro()[:-1], Registered, object]

    class A(metaclass=Meta):
        pass

    class Wrong(type):
        def mro(cls):
            return 3

    def make():
        class B(metaclass=Wrong):
            pass

    return x + 1, [c.__name__ for c in A.__mro__], caught(make, log)


@program
def slots_that_do_not_fit(x, log):
    def conflict():
        class A:
            __slots__ = ("a",)
            a = 1

    def number():
        class A:
            __slots__ = 3

    def names():
        class A:
            __slots__ = ("not a name",)

    def twice():
        class A:
            __slots__ = ("__dict__", "__dict__")

    def of_int():
        class A(int):
            __slots__ = ("a",)

    def of_tuple():
        class A(tuple):
            __slots__ = ("a",)

    def layouts():
        class A:
            __slots__ = ("a",)

        class B:
            __slots__ = ("b",)

        class C(A, B):
            pass

    makes = [conflict, number, names, twice, of_int, of_tuple, layouts]
    return x + 1, [caught(make, log) for make in makes]


@program
def slots_in_every_form(x, log):
    class A:
        __slots__ = "a"

    class B:
        __slots__ = ["a", "b"]

    class C(B):
        __slots__ = {"c": "its words"}

    class D(C):
        pass

    class E:
        __slots__ = ("__weakref__", "e")

    found = []
    for cls, name in ((A, "a"), (B, "b"), (C, "c"), (D, "d"), (E, "e"), (A, "z"), (B, "c")):
        made = cls()
        caught(lambda: setattr(made, name, x), log)  # noqa: B023
        found.append(getattr(made, name, None))
        found.append(hasattr(made, "__dict__"))
    return found, weakref.ref(E())() is None, C.c.__doc__


@program
def final_classes_and_layouts_of_torch(x, log):
    def size():
        class A(torch.Size):
            pass

        return A((1, 2))

    def dtype():
        class A(torch.dtype):
            pass

    def generator():
        class A(torch.Generator):
            pass

        return A

    class Sub(torch.Tensor):
        extra = 3

    return x.as_subclass(Sub).extra + x, caught(size, log), caught(dtype, log), caught(generator, log) is None
