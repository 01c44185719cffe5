"""What runs in the body of a class, and the names it sees."""

# ruff: noqa: N804, N805, F821, B903, RUF012, B018, PLW0127, SIM117
# mypy: ignore-errors

import torch

from e2e.class_statements.common import caught, program


@program
def body_raises(x, log):
    def make():
        class A:
            a = 1
            log.append("first")
            b = a / 0
            log.append("never")

    def unknown():
        class A:
            b = nowhere

    def deleted():
        class A:
            a = 1
            del a
            del a

    return x + 1, caught(make, log), caught(unknown, log), caught(deleted, log)


@program
def body_with_statements(x, log):
    class A:
        total = x
        for i in range(3):
            total = total + i
        squares = [i * i for i in range(3)]
        if len(squares) == 3:
            kind = "three"
        try:
            1 / 0
        except ZeroDivisionError as error:
            text = str(error)
        with torch.no_grad():
            grad = torch.is_grad_enabled()
        names = sorted(k for k in locals() if not k.startswith("__"))

    return A.total, A.squares, A.kind, A.text, A.grad, A.names, A.i, hasattr(A, "error")


@program
def names_of_bodies_and_around(x, log):
    a = "function"
    b = "function"

    class A:
        a = "class"
        c = b
        both = (a, [a for _ in range(1)], b)

        def f(self):
            return a

        class B:
            d = a
            e = b

        global made_global_here
        made_global_here = 3

    def late():
        class C:
            a = a

        return C.a

    return x + 1, A.both, A().f(), A.B.d, A.c, A.__qualname__, A.B.__qualname__, caught(late, log)


@program
def private_names(x, log):
    class A:
        __a = 3
        __slots__ = ("__b",)

        def __f(self):
            return self.__a

        def g(self):
            self.__b = 2
            return self.__f() + self.__b

    return x + A().g(), sorted(k for k in vars(A) if k.startswith("_A"))


@program
def special_names_in_bodies(x, log):
    class A:
        __module__ = "elsewhere"
        __qualname__ = "B.A"
        __doc__ = "what it is"

    def qualname():
        class A:
            __qualname__ = 3

    class C:
        __doc__ = 3
        __module__ = 4
        __hash__ = None

    def hashed():
        return hash(C())

    return x + 1, repr(A), A.__doc__, C.__doc__, C.__module__, caught(qualname, log), caught(hashed, log)


@program
def equality_takes_the_hash(x, log):
    class A:
        def __eq__(self, other):
            return True

    class B(A):
        __hash__ = object.__hash__

    return x + 1, caught(lambda: {A()}, log), A.__hash__, len({B()})
