"""From reference/datamodel: descriptors, class creation, slots, super, properties, special look-up."""

import collections

from documented import Between, documented, x

log: list = []
cleared = {"state": lambda: list(log), "setup": log.clear}


class Vault:
    __level = 1
    __str = "kept"

    def __init__(self, n):
        self.__n = n
        self.__dunder__ = n * 2

    def open(self, t):
        return t * self.__n + self.__level

    def change(self, other):
        other.__n = 50


class SubVault(Vault):
    __level = 100

    def both(self, t):
        self.__n = 7
        return self.open(t) + self.__n, self.__level


@documented(
    "reference/expressions: __names in a class are mangled with its name, in strings for getattr they are not",
    lambda: [
        (x(), Vault(2), "__n"),
        (x(), SubVault(3), "_Vault__n"),
        (x(), SubVault(4), "_SubVault__n"),
        (x(), SubVault(2.5), "__dunder__"),
        (x(), Vault(5), "_Vault__level"),
    ],
)
def mangled(t, o, name):
    first = getattr(o, name, "absent")
    got = o.both(t) if isinstance(o, SubVault) else o.open(t)
    o.change(o)
    return got, first, o.open(t), sorted(vars(o))


class Field:
    def __set_name__(self, owner, name):
        log.append(("set_name", owner.__name__, name))
        if name == "bad":
            raise KeyError(name)
        self.name = name

    def __get__(self, instance, owner):
        return f"{self.name} of {owner.__name__}"


class Hooked:
    def __init_subclass__(cls, **kwargs):
        log.append(("init_subclass", cls.__name__, sorted(kwargs)))
        if "fail" in kwargs:
            raise ValueError("fail")
        cls.extra = len(kwargs)


class Recording(type):
    @classmethod
    def __prepare__(mcs, name, bases, **kwargs):
        log.append(("prepare", name, len(bases)))
        return {"prepared": len(kwargs)}

    def __new__(mcs, name, bases, namespace, **kwargs):
        log.append(("new", [k for k in namespace if not k.startswith("__")]))
        return super().__new__(mcs, name, bases, namespace, **kwargs)

    def __init__(cls, name, bases, namespace, **kwargs):
        log.append(("init", name))
        super().__init__(name, bases, namespace)


@documented(
    "reference/datamodel: prepare, body, __new__ with __set_name__ before __init_subclass__, then __init__; errors of __set_name__ are wrapped",
    lambda: [
        (x(), "plain", {}),
        (x(), "more", {"a": 1, "b": 2}),
        (x(), "bad", {}),
        (x(), "more", {"fail": 1}),
        (x(), "other", {"a": 1}),
    ],
    **cleared,
)
def class_creation(t, name, kwargs):
    try:

        class Made(Hooked, metaclass=Recording, **kwargs):
            log.append("body")
            locals()[name] = Field()
            one = prepared + 1  # type: ignore[name-defined]  # noqa: F821

        return t * Made.one + Made.extra, getattr(Made(), name), type(Made).__name__
    except (RuntimeError, ValueError) as error:
        return t, str(error).replace(repr(kwargs), ""), repr(error.__cause__)


class Judge(type):
    verdict = True

    def __instancecheck__(cls, instance):
        log.append(("instance", type(instance).__name__))
        return cls.verdict

    def __subclasscheck__(cls, subclass):
        log.append(("subclass", subclass.__name__))
        return not cls.verdict


class Judged(metaclass=Judge):
    pass


class SubJudged(Judged):
    pass


@documented(
    "reference/datamodel: __instancecheck__ of the metaclass is asked unless the class is the object's own; its answer's truth counts",
    lambda: [
        (x(), 1),
        (x(), Judged()),
        (x(), SubJudged()),
        Between(lambda: setattr(Judge, "verdict", 0)),
        (x(), 1),
        (x(), SubJudged()),
        Between(lambda: setattr(Judge, "verdict", "yes")),
        (x(), None),
        Between(lambda: setattr(Judged, "verdict", [])),
        (x(), 1),
    ],
    state=lambda: list(log),
    setup=lambda: (
        log.clear(),
        setattr(Judge, "verdict", True),
        "verdict" in vars(Judged) and delattr(Judged, "verdict"),
    )[0],
)
def class_judges(t, o):
    if isinstance(o, Judged):
        t = t * 2
    return t + isinstance(o, (str, Judged)), issubclass(type(o), Judged), isinstance(t, Judged | int)


class Failing:
    fallback = 3

    @property
    def broken(self):
        log.append("broken")
        return self.absent

    @property
    def fine(self):
        return self.fallback

    def __getattr__(self, name):
        log.append(("getattr", name))
        if name in ("broken", "hidden"):
            return len(name)
        raise AttributeError(f"no {name}", name=name, obj=self)


@documented(
    "reference/datamodel: an AttributeError inside a property's getter leads to __getattr__ with the property's name",
    lambda: [
        (x(), Failing(), "broken"),
        (x(), Failing(), "fine"),
        (x(), Failing(), "hidden"),
        (x(), Failing(), "nothing"),
        Between(lambda: setattr(Failing, "absent", 50)),
        (x(), Failing(), "broken"),
        Between(lambda: setattr(Failing, "fine", 6)),
        (x(), Failing(), "fine"),
    ],
    state=lambda: list(log),
    setup=lambda: (
        log.clear(),
        "absent" in vars(Failing) and delattr(Failing, "absent"),
        setattr(Failing, "fine", property(lambda self: self.fallback)),
    )[0],
)
def property_errors(t, o, name):
    try:
        return t * getattr(o, name), hasattr(o, "broken")
    except AttributeError as error:
        return t, str(error), error.name, error.obj is o


class Base:
    def __init__(self, n):
        self._n = n

    @property
    def n(self):
        """The number."""
        return self._n

    @n.setter
    def n(self, value):
        log.append(("set", float(value)))
        self._n = value

    @n.deleter
    def n(self):
        log.append("deleted")
        del self._n


class Wider(Base):
    @Base.n.getter
    def n(self):
        return super().n * 2


class ReadOnly(Base):
    n = property(Base.n.fget, doc="read")


@documented(
    "library/functions: property.getter makes a copy with that accessor; what has no setter or deleter raises with the names",
    lambda: [(x(), Base(2), 3), (x(), Wider(2), 3), (x(), ReadOnly(2), 3), (x(), Wider(5), x(1)), (x(), Base(0), 1.5)],
    **cleared,
)
def property_copies(t, o, value):
    kind = type(o)
    out = [kind.n.__doc__, kind.n.fset is Base.n.fset, kind.n.fget is Base.n.fget]
    try:
        o.n += value
        out.append(o.n)
        t = t * o.n
        del o.n
        o.n
    except AttributeError as error:
        out.append(str(error))
    return t, out, vars(o)


class SetOnly:
    def __set__(self, instance, value):
        log.append("set")
        vars(instance)["v"] = value


class Full(SetOnly):
    def __get__(self, instance, owner):
        return 30 if instance is not None else self

    def __delete__(self, instance):
        log.append("delete")
        vars(instance).pop("v", None)


class UsesSet:
    v = SetOnly()


class UsesFull:
    v = Full()


@documented(
    "reference/datamodel: a descriptor with __set__ only leaves reading to the instance's dict; without __delete__ del raises",
    lambda: [
        (x(), UsesSet(), 2),
        (x(), UsesFull(), 2),
        (x(), UsesSet(), x(1)),
        Between(lambda: setattr(UsesSet, "v", 9)),
        (x(), UsesSet(), 3),
        Between(lambda: setattr(SetOnly, "__get__", lambda self, instance, owner: 40)),
        (x(), UsesFull(), 3),
    ],
    state=lambda: list(log),
    setup=lambda: (
        log.clear(),
        "__get__" in vars(SetOnly) and delattr(SetOnly, "__get__"),
        setattr(UsesSet, "v", SetOnly()),
    )[0],
)
def set_only(t, o, value):
    before = o.v if isinstance(o.v, int) else type(o.v).__name__
    o.v = value
    t = t * o.v
    try:
        del o.v
    except AttributeError as error:
        return t, before, str(error)
    return t, before, vars(o)


class Slots:
    __slots__ = ("a", "_b", "__weakref__")

    def __init__(self, a):
        self.a = a


class WithDict(Slots):
    a = 5  # hides the slot


class More(Slots):
    __slots__ = ("c", "__dict__")


@documented(
    "reference/datamodel: slots are descriptors of the class; a subclass may hide them, or have a __dict__; errors at class creation",
    lambda: [
        (x(), Slots, 2),
        (x(), More, 3),
        (x(), WithDict, 4),
        (x(), Slots, x(1)),
        (x(), More, 0),
    ],
)
def slot_descriptors(t, cls, value):
    out = []
    o = cls(value) if cls is not WithDict else cls.__new__(cls)
    Slots.a.__set__(o, value)
    t = t * Slots.a.__get__(o) + (o.a if cls is not Slots else 0)
    for wrong in (
        lambda: o._b,
        lambda: setattr(o, "d", 1),
        lambda: delattr(o, "_b"),
        lambda: Slots.a.__get__(object()),
        lambda: type("Made", (), {"__slots__": ("q",), "q": 1}),
        lambda: type("Made", (collections.deque, int), {}),
        lambda: type("Made", (object, Slots), {}),
    ):
        try:
            out.append(wrong())
        except (AttributeError, TypeError, ValueError) as error:
            out.append(str(error))
    if cls is not WithDict:
        del o.a
        out.append(getattr(o, "a", "unset"))
    return t, out, hasattr(o, "__dict__") and vars(o)
