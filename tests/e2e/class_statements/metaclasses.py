"""Metaclasses that conflict, raise, cannot be called, or are none."""

# ruff: noqa: N804, N805, F821, B903, RUF012, B018, PLW0127, SIM117
# mypy: ignore-errors

from e2e.class_statements.common import One, Two, caught, program


class Both(One, Two):
    pass


@program
def metaclass_conflict(x, log):
    class A(metaclass=One):
        pass

    class B(metaclass=Two):
        pass

    def make():
        class C(A, B):
            pass

    def make_asked():
        class C(A, metaclass=Two):
            pass

    class D(A, B, metaclass=Both):
        pass

    return x + 1, caught(make, log), caught(make_asked, log), type(D).__name__


@program
def metaclass_conflict_uncaught(x, log):
    y = x + 1

    class A(metaclass=One):
        pass

    class B(A, metaclass=Two):
        pass

    return y


@program
def metaclass_that_is_a_function(x, log):
    def meta(name, bases, names, **kw):
        log.append((name, bases, kw, sorted(k for k in names if not k.startswith("__"))))
        return type(name.upper(), bases, names)

    class a(metaclass=meta, k=1):  # noqa: N801
        def f(self, t):
            return t * 3

    class b(metaclass=lambda *args: args[0]):  # noqa: N801
        pass

    return a().f(x), a.__name__, b


@program
def metaclass_that_cannot_be_called(x, log):
    def make():
        class A(metaclass=3):
            pass

    def make_object():
        class A(metaclass=object):
            pass

    def make_int():
        class A(metaclass=int):
            pass

    return x + 1, caught(make, log), caught(make_object, log), caught(make_int, log)


@program
def metaclass_new_that_raises(x, log):
    class Meta(type):
        def __new__(meta, name, bases, names):
            raise ZeroDivisionError(name)

    class MetaInit(type):
        def __init__(cls, name, bases, names):
            raise ZeroDivisionError("init " + name)

    def make():
        class A(metaclass=Meta):
            pass

    def make_init():
        class A(metaclass=MetaInit):
            pass

    return x + 1, caught(make, log), caught(make_init, log)


@program
def metaclass_with_a_metaclass(x, log):
    class Above(type):
        def __call__(meta, name, bases, names, **kw):
            log.append(("above", name, kw))
            return super().__call__(name + "_", bases, names)

    class Meta(type, metaclass=Above):
        pass

    class A(metaclass=Meta, k=1):
        def f(self, t):
            return t + len(type(self).__name__)

    return A().f(x)


@program
def metaclass_methods(x, log):
    class Meta(type):
        def __len__(cls):
            return 3

        def __getitem__(cls, item):
            return item

        def __getattr__(cls, name):
            log.append(name)
            return name

        def __instancecheck__(cls, other):
            return other == 3

        def __contains__(cls, item):
            return True

        def __iter__(cls):
            return iter([1, 2])

        @property
        def p(cls):
            return cls.__name__

    class A(metaclass=Meta):
        pass

    return x + len(A), A[x], A.missing, isinstance(3, A), 7 in A, list(A), A.p, hasattr(A(), "p")
