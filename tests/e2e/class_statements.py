"""Functions that make classes, rightly and wrongly: what `type.__new__`, metaclasses and hooks do, do not do, or raise.

Each is called with a tensor and a list to which it writes what it did.
"""

# ruff: noqa: N804, N805, F821, B903, RUF012, B018, PLW0127, SIM117
# mypy: ignore-errors

import abc
import collections
import dataclasses
import enum
import functools
import types
import typing
import weakref

import torch

PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def caught(call, log):
    """The exception of a call with all that it was caused by, and its notes."""
    try:
        return call()
    except Exception as error:
        while error is not None:
            log.append((type(error).__name__, str(error), getattr(error, "__notes__", None)))
            error = error.__cause__ or error.__context__
        return None


# ---- the cell of the class


class Dropping(type):
    """Does not pass the cell on."""

    def __new__(meta, name, bases, names):
        return super().__new__(meta, name, bases, {k: v for k, v in names.items() if k != "__classcell__"})


class Other(type):
    """Makes two classes of one body."""

    def __new__(meta, name, bases, names):
        first = super().__new__(meta, name, bases, dict(names))
        second = super().__new__(meta, name + "2", bases, dict(names))
        first.second = second
        return first


class Instead(type):
    """Gives a class that was there before."""

    def __new__(meta, name, bases, names):
        super().__new__(meta, name, bases, dict(names))
        return int


class Nothing(type):
    def __new__(meta, name, bases, names):
        super().__new__(meta, name, bases, dict(names))


@program
def cell_dropped(x, log):
    def make():
        class A(metaclass=Dropping):
            def f(self):
                return __class__

        return A

    made = caught(make, log)
    return x + (made is None)


@program
def cell_dropped_uncaught(x, log):
    y = x + 1
    log.append("before")

    class A(metaclass=Dropping):
        def f(self):
            return super().f()

    log.append("after")
    return y


@program
def cell_dropped_by_a_body_without_one(x, log):
    class A(metaclass=Dropping):
        def f(self, t):
            return t * 2

    return A().f(x)


@program
def cell_set_twice(x, log):
    def make():
        class A(metaclass=Other):
            def f(self):
                return __class__.__name__

        return A

    made = caught(make, log)
    return x, made is None


@program
def cell_of_a_class_that_is_not_returned(x, log):
    def make():
        class A(metaclass=Instead):
            def f(self):
                return __class__

        return A

    return x + 1, caught(make, log)


@program
def no_class_made(x, log):
    def make():
        class A(metaclass=Nothing):
            def f(self):
                return __class__

        return A

    return x + 1, caught(make, log)


@program
def cell_that_is_a_number(x, log):
    def make():
        class A:
            __classcell__ = 3

        return A

    return x + 1, caught(make, log)


@program
def cell_that_is_a_number_beside_methods(x, log):
    class A:
        __classcell__ = 3

        def f(self, t):
            return t + len(__class__.__name__)

    return A().f(x), "__classcell__" in vars(A)


@program
def cell_put_by_a_metaclass(x, log):
    class Putting(type):
        def __new__(meta, name, bases, names):
            names["__classcell__"] = names.get("__classcell__", None) or "no cell"
            return super().__new__(meta, name, bases, names)

    def make():
        class A(metaclass=Putting):
            pass

    def make_with():
        class A(metaclass=Putting):
            def f(self):
                return __class__.__name__

        return A().f()

    return x + 1, caught(make, log), caught(make_with, log)


@program
def cell_read_before_it_is_set(x, log):
    class Early(type):
        def __new__(meta, name, bases, names):
            log.append(caught(lambda: names["f"](3), log))
            made = super().__new__(meta, name, bases, names)
            log.append(names["f"](3))
            return made

    class A(metaclass=Early):
        def f(self):
            return __class__.__name__

        def g(self):
            return super().__init__()

    return x + 1


@program
def super_before_the_class_is_there(x, log):
    def make():
        class A:
            def f(self):
                return super().__str__()

            g = f(3)

        return A

    return x + 1, caught(make, log)


@program
def a_namespace_used_twice(x, log):
    kept = []

    class Keeping(type):
        def __new__(meta, name, bases, names):
            kept.append(names)
            return super().__new__(meta, name, bases, names)

    class A(metaclass=Keeping):
        def f(self):
            return __class__.__name__

    log.append("__classcell__" in kept[0])
    B = caught(lambda: type("B", (), kept[0]), log)  # noqa: N806
    log.append(A.f(None))
    log.append(B.f(None) if B else None)
    return x + 1


# ---- __set_name__


class Named:
    def __init__(self, log, raises=None):
        self.log = log
        self.raises = raises

    def __set_name__(self, owner, name):
        self.log.append((owner.__name__, name))
        if self.raises:
            raise self.raises(f"for {name}")


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


# ---- __init_subclass__ and keywords


class Registered:
    known = []

    def __init_subclass__(cls, tag=None, **others):
        super().__init_subclass__(**others)
        cls.tag = tag


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
    log.append(len(Base.__subclasses__()))
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


# ---- metaclasses that do not fit


class One(type):
    pass


class Two(type):
    pass


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


# ---- __prepare__


@program
def prepare_of_other_kinds(x, log):
    def made_by(prepare):
        class Meta(type):
            __prepare__ = prepare

        def make():
            class A(metaclass=Meta):
                a = 1

            return A.a

        return caught(make, log)

    kinds = [
        lambda *args: 3,
        lambda *args: None,
        lambda *args: [],
        lambda *args: types.MappingProxyType({}),
        lambda *args: collections.OrderedDict(z=1),
        lambda *args: collections.ChainMap({}),
        lambda: {},
        3,
        classmethod(lambda meta, name, bases: {"b": 2}),
    ]
    return x + 1, [made_by(kind) for kind in kinds]


class Once(dict):
    """Refuses a name twice."""

    def __setitem__(self, key, value):
        if key in self:
            raise TypeError(f"{key} twice")
        super().__setitem__(key, value)


class OnceMeta(type):
    @classmethod
    def __prepare__(meta, name, bases):
        return Once()


@program
def prepare_with_a_dict_that_counts(x, log):
    class A(metaclass=OnceMeta):
        a = 1

        def f(self, t):
            return t + self.a

    def make():
        class B(metaclass=OnceMeta):
            a = 1
            a = 2

    return A().f(x), caught(make, log), type(vars(A)).__name__


class Words(dict):
    def __missing__(self, key):
        if key.startswith("__"):
            raise KeyError(key)
        self[key] = len(self)
        return self[key]


class WordsMeta(type):
    @classmethod
    def __prepare__(meta, name, bases):
        return Words()


@program
def prepare_with_missing(x, log):
    class A(metaclass=WordsMeta):
        one
        two
        three = one + two

    return x + A.three, A.one, A.two


@program
def prepare_raises(x, log):
    class Meta(type):
        @classmethod
        def __prepare__(meta, name, bases, **kw):
            log.append(kw)
            raise OSError(name)

    def make():
        class A(metaclass=Meta, k=1):
            log.append("never")

    return x + 1, caught(make, log)


@program
def prepare_by_a_base(x, log):
    class Meta(type):
        @classmethod
        def __prepare__(meta, name, bases):
            return {"base": bases[0].__name__ if bases else None, "t": x}

    class A(metaclass=Meta):
        u = t * 2
        was = base

    class B(A):
        was = base

    return A.u + B.t, A.was, B.was


# ---- bodies


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


# ---- bases


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


# ---- other ways to make classes


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
def abstract_classes(x, log):
    class A(abc.ABC):
        @abc.abstractmethod
        def f(self, t): ...

        @property
        @abc.abstractmethod
        def p(self): ...

    class B(A):
        p = 3

    class C(B):
        def f(self, t):
            return t + self.p

    return C().f(x), caught(A, log), caught(B, log), sorted(B.__abstractmethods__)


@program
def enumerations(x, log):
    class Color(enum.Enum):
        RED = 1
        BLUE = 2

        @property
        def twice(self):
            return self.value * 2

    def twice():
        class A(enum.Enum):
            a = 1
            a = 2

    def extended():
        class A(Color):
            GREEN = 3

    def unique():
        @enum.unique
        class A(enum.Enum):
            a = 1
            b = 1

    def mixed():
        class A(str, enum.Enum):
            a = 1, 2, 3, 4

    return x + Color.BLUE.twice, [caught(make, log) for make in (twice, extended, unique, mixed)]


@program
def data_classes(x, log):
    @dataclasses.dataclass
    class A:
        a: int
        b: torch.Tensor = None

    def order():
        @dataclasses.dataclass
        class B:
            a: int = 1
            b: int

    def mutable():
        @dataclasses.dataclass
        class B:
            a: list = []

    def frozen():
        @dataclasses.dataclass(frozen=True)
        class B(A):
            pass

    def slots():
        @dataclasses.dataclass(slots=True)
        class B:
            __slots__ = ("a",)
            a: int

    def compared():
        @dataclasses.dataclass(order=True, eq=False)
        class B:
            a: int

    made = A(2, x)
    return made.b * made.a, [caught(make, log) for make in (order, mutable, frozen, slots, compared)]


@program
def typed_classes(x, log):
    class P(typing.NamedTuple):
        a: torch.Tensor
        b: int = 2

    class M(typing.TypedDict):
        a: int

    class Proto(typing.Protocol):
        def f(self): ...

    def order():
        class Q(typing.NamedTuple):
            a: int = 1
            b: int

    def replaced():
        class Q(typing.NamedTuple):
            a: int

            def __new__(cls): ...

    def protocol():
        return Proto()

    def typed():
        class N(M, Registered):
            pass

    made = P(x)
    wrong = [caught(make, log) for make in (order, replaced, protocol, typed)]
    return made.a * made.b, P._field_defaults, M(a=1), wrong


@program
def generic_classes(x, log):
    T = typing.TypeVar("T")  # noqa: N806

    class Box(typing.Generic[T]):
        def __init__(self, t):
            self.t = t

    class Ints(Box[int]):
        pass

    def plain():
        class A(typing.Generic):
            pass

    def twice():
        class A(typing.Generic[T], typing.Generic[T]):
            pass

    def extra():
        return Ints[int]

    def number():
        return Box[int, str]

    return Ints(x).t + 1, Ints.__orig_bases__[0].__args__, [caught(f, log) for f in (plain, twice, extra, number)]


@program
def modules_and_functions_of_torch(x, log):
    class Layer(torch.nn.Module):
        def __init__(self, n):
            super().__init__()
            self.n = n

        def forward(self, t):
            return t * self.n

    class Without(torch.nn.Module):
        def __init__(self):
            self.layer = Layer(2)

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, t):
            return t * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    return Layer(3)(x) + Twice.apply(x), caught(Without, log)


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
    return made, [caught(f, log) for f in (layout, number, bases, bases_of_object, name, builtin, deleted, deleted_twice)]


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
