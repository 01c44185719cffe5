"""`__init_subclass__` and keywords of classes; the order of all hooks."""

# ruff: noqa: N804, N805, F821, B903, RUF012, B018, PLW0127, SIM117
# mypy: ignore-errors

from e2e.class_statements.common import Named, Registered, caught, program


@program
def keywords_of_a_class(x, log):
    class A(Registered, tag=3):
        pass

    class B(A):
        pass

    return x * A.tag, B.tag


@program
def keywords_nobody_takes(x, log):
    def make():
        class A(Registered, tag=1, other=2):
            pass

    def make_plain():
        class A(other=2):
            pass

    def make_object():
        class A(object, one=1, two=2):
            pass

    return x + 1, caught(make, log), caught(make_plain, log), caught(make_object, log)


@program
def init_subclass_raises(x, log):
    class Base:
        def __init_subclass__(cls, **kw):
            log.append((cls.__name__, kw))
            raise LookupError(cls.__name__)

    def make():
        class A(Base, a=1):
            n = Named(log)

    made = caught(make, log)
    return x + 1, made


@program
def init_subclass_raises_uncaught(x, log):
    class Base:
        def __init_subclass__(cls):
            log.append("told")
            raise LookupError(cls.__name__)

    y = x.sin()

    class A(Base):
        pass

    return y


@program
def init_subclass_of_two_bases(x, log):
    class A:
        def __init_subclass__(cls, a=0, **kw):
            log.append(("A", a))
            super().__init_subclass__(**kw)

    class B:
        def __init_subclass__(cls, b=0, **kw):
            log.append(("B", b))
            super().__init_subclass__(**kw)

    class C(A, B, a=1, b=2):
        pass

    def wrong():
        class D(A, B, c=2):
            pass

    return x + 1, caught(wrong, log)


@program
def init_subclass_that_is_no_method(x, log):
    class A:
        __init_subclass__ = 3

    class B:
        @staticmethod
        def __init_subclass__():
            log.append("static")

    def make():
        class C(A):
            pass

    class D(B):
        pass

    return x + 1, caught(make, log)


@program
def init_subclass_in_the_class_itself(x, log):
    class A:
        def __init_subclass__(cls, **kw):
            log.append((cls.__name__, kw))

    class B(A, k=x):
        def __init_subclass__(cls, **kw):
            log.append(("B's", cls.__name__, kw))

    class C(B, k=2):
        pass

    return x + len(log)


@program
def order_of_hooks(x, log):
    class Meta(type):
        @classmethod
        def __prepare__(meta, name, bases, **kw):
            log.append(("prepare", name, len(bases), kw))
            return {"given": 1}

        def __new__(meta, name, bases, names, **kw):
            log.append(("new", name, sorted(k for k in names if not k.startswith("__"))))
            return super().__new__(meta, name, bases, names)

        def __init__(cls, name, bases, names, **kw):
            log.append(("init", name, kw))
            super().__init__(name, bases, names)

        def __call__(cls, *args):
            log.append(("call", args))
            return super().__call__(*args)

    class Base(metaclass=Meta):
        def __init_subclass__(cls, **kw):
            log.append(("subclass", cls.__name__, kw))

    class A(Base, one=1):
        n = Named(log)
        log.append(("body", given))

        def __init__(self, *args):
            log.append("instance")

    A(3)
    return x + A.given


@program
def a_metaclass_that_takes_no_keywords(x, log):
    class Meta(type):
        def __new__(meta, name, bases, names):
            return super().__new__(meta, name, bases, names)

    class Half(type):
        def __new__(meta, name, bases, names, **kw):
            return super().__new__(meta, name, bases, names)

    def make():
        class A(metaclass=Meta, k=1):
            pass

    def make_half():
        class A(metaclass=Half, k=1):
            pass

    return x + 1, caught(make, log), caught(make_half, log)
