"""`__set_name__`: of every kind of object, wrong ones, ones that raise."""

# ruff: noqa: N804, N805, F821, B903, RUF012, B018, PLW0127, SIM117
# mypy: ignore-errors

import functools

import torch

from e2e.class_statements.common import Named, caught, program


@program
def set_name_raises(x, log):
    def make():
        class A:
            a = Named(log)
            b = Named(log, ValueError)
            c = Named(log)

        return A

    return x * 2, caught(make, log)


@program
def set_name_raises_uncaught(x, log):
    y = x * 2

    class A:
        b = Named(log, KeyError)

    return y


@program
def set_name_raises_beyond_exception(x, log):
    class Stop(BaseException):
        pass

    try:

        class A:
            b = Named(log, Stop)

    except RuntimeError as error:
        log.append((str(error), type(error.__cause__).__name__))
    except Stop as error:
        log.append(("plain", str(error), getattr(error, "__notes__", None)))
    return x + 1


@program
def set_name_with_wrong_arguments(x, log):
    class Wrong:
        def __set_name__(self, owner):
            pass

    def make():
        class A:
            w = Wrong()

        return A

    return x + 1, caught(make, log)


@program
def set_name_that_is_no_function(x, log):
    class Wrong:
        __set_name__ = 3

    class OfInstance:
        def __init__(self):
            self.__set_name__ = lambda owner, name: log.append("never")

    def make():
        class A:
            w = Wrong()

        return A

    class B:
        w = OfInstance()

    return x + 1, caught(make, log)


@program
def set_name_changes_the_class(x, log):
    class Adds:
        def __set_name__(self, owner, name):
            setattr(owner, name + "_too", 3)
            setattr(owner, name, 2)
            log.append(sorted(k for k in vars(owner) if not k.startswith("__")))

    class A:
        a = Adds()
        b = Adds()

    return x * A.a + A.b_too


@program
def set_name_of_every_kind(x, log):
    def told(self, owner, name):
        log.append((type(self).__name__, owner.__name__, name))

    kinds = (int, str, float, tuple, list, dict, set, bytes, functools.partial, Exception, property)
    made = [type(kind.__name__, (kind,), {"__set_name__": told}) for kind in kinds]

    class Sub(torch.Tensor):
        __set_name__ = told

    class A:
        a, b, c, d, e, f, g, h = (kind() for kind in made[:8])
        i = made[8](len)
        j = made[9]()
        k = made[10]()
        m = x.as_subclass(Sub)

    class B:
        a = A.a

    return x + A.m, type(A.d).__name__, A.i([1]), A.b + "text", len(vars(B))


@program
def set_name_of_library_descriptors(x, log):
    class A:
        def __init__(self, t):
            self.t = t

        @functools.cached_property
        def twice(self):
            log.append("computed")
            return self.t * 2

        @functools.partialmethod
        def three(self):
            return 3

    a = A(x)
    made = A.__dict__["twice"].attrname
    return a.twice + a.twice, made


@program
def cached_property_under_two_names(x, log):
    def make():
        class A:
            @functools.cached_property
            def a(self):
                return 1

            b = a

        return A

    made = caught(make, log)
    return x + 1, made is None


@program
def set_name_by_a_metaclass(x, log):
    class Meta(type):
        def __set_name__(cls, owner, name):
            log.append((cls.__name__, owner.__name__, name))

    class Inner(metaclass=Meta):
        pass

    class A:
        inner = Inner

        class Second(metaclass=Meta):
            pass

    return x + 1
