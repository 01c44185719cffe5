"""`__prepare__`: namespaces that are dicts, dicts of another kind, or no mappings."""

# ruff: noqa: N804, N805, F821, B903, RUF012, B018, PLW0127, SIM117
# mypy: ignore-errors

import collections
import types

from e2e.class_statements.common import caught, program


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
