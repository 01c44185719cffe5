"""Side effects through properties, descriptors and the user's own attribute hooks."""

import functools

import torch

from programs import program


class Bag:
    kind = "bag"

    def __init__(self, **names):
        self.__dict__.update(names)


# Properties and data descriptors.


class Celsius:
    def __init__(self, degrees):
        self.degrees = degrees

    @property
    def fahrenheit(self):
        return self.degrees * 1.8 + 32

    @fahrenheit.setter
    def fahrenheit(self, value):
        self.degrees = (value - 32) / 1.8

    @property
    def only_read(self):
        return self.degrees


class Kelvin(Celsius):
    @Celsius.fahrenheit.getter
    def fahrenheit(self):
        return super().fahrenheit + 0.5

    @property
    def both(self):
        return self.degrees, self.fahrenheit

    @both.setter
    def both(self, pair):
        self.degrees, self.fahrenheit = pair


@program("fx_descriptors", lambda t: (t(), Celsius(t())))
def property_augmented(x, c):
    c.fahrenheit += 9
    c.fahrenheit = c.fahrenheit * 2
    return c.degrees + x


@program("fx_descriptors", lambda t: (t(), Kelvin(t())))
def property_of_a_subclass(x, k):
    k.both = (x, k.fahrenheit)
    k.fahrenheit, before = x * 3, k.degrees
    return k.both, before


@program("fx_descriptors", lambda t: (t(), Celsius(1)))
def property_without_setter(x, c):
    errors = []
    for act in (lambda: setattr(c, "only_read", x), lambda: delattr(c, "fahrenheit")):
        try:
            act()
        except AttributeError as error:
            errors.append(str(error))
    c.__dict__["only_read"] = "hidden"
    return c.only_read, errors, x + 1


class Typed:
    """Checks the type of what is written; keeps the values of all instances itself, by name."""

    def __init__(self, kind):
        self.kind, self.writes = kind, 0

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, instance, owner=None):
        return self if instance is None else instance.__dict__[self.name]

    def __set__(self, instance, value):
        if not isinstance(value, self.kind):
            raise TypeError(f"{self.name} must be {self.kind.__name__}")
        self.writes += 1
        instance.__dict__[self.name] = value


class Record:
    width = Typed(int)
    data = Typed(torch.Tensor)


def _reset_record():
    for field in (vars(Record)["width"], vars(Record)["data"]):
        field.writes = 0


@program("fx_descriptors", lambda t: (t(), Record()), setup=_reset_record, state=lambda: Record.width.writes)
def descriptor_with_state_of_its_own(x, record):
    record.width = 3
    record.data = x
    errors = []
    try:
        record.width = "wide"
    except TypeError as error:
        errors.append(str(error))
    record.width += record.width
    return errors, record.data * record.width, Record.width.writes


@program("fx_descriptors", lambda t: (t(), Record()), setup=_reset_record, state=lambda: Record.width.writes)
def missing_value_of_a_descriptor(x, record):
    try:
        record.width  # noqa: B018
    except KeyError as error:
        name = error.args[0]
    record.width = 1
    del record.__dict__["width"]
    return name, "width" in vars(record), x + 1


class Lazy:
    """Non-data descriptor that stores its result over itself."""

    def __init__(self, function):
        self.function = function

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, instance, owner):
        if instance is None:
            return self
        value = self.function(instance)
        instance.__dict__[self.name] = value
        return value


class Cached:
    def __init__(self, v, log):
        self.v, self.log = v, log

    @Lazy
    def doubled(self):
        self.log.append("computed")
        return self.v * 2

    @functools.cached_property
    def tripled(self):
        self.log.append("cached")
        return self.v * 3


@program("fx_descriptors", lambda t: (Cached(t(), []),))
def lazily_computed_once(c):
    total = c.doubled + c.doubled + c.tripled + c.tripled
    del c.doubled
    c.v = c.v + 1
    return total, c.doubled, c.tripled, c.log


class Watcher:
    """A data descriptor whose accesses are logged in order."""

    def __get__(self, instance, owner):
        instance.log.append("get")
        return instance._value

    def __set__(self, instance, value):
        instance.log.append("set")
        instance._value = value

    def __delete__(self, instance):
        instance.log.append("delete")
        del instance._value


class Observed:
    value = Watcher()

    def __init__(self):
        self.log = []


@program("fx_descriptors", lambda t: (t(), Observed()))
def data_descriptor_beats_the_instance_dict(x, o):
    o.value = x
    o.__dict__["value"] = "hidden"
    o.value += 1
    y = o.value
    del o.value
    try:
        o.value  # noqa: B018
    except AttributeError:
        o.log.append("gone")
    return y, o.log


# Hooks of the user's class.


class Strict:
    """Only known names may be written; every access is logged by the class."""

    log: list = []

    def __setattr__(self, name, value):
        Strict.log.append(f"set {name}")
        if name.startswith("bad"):
            raise AttributeError(f"no {name}")
        super().__setattr__(name, value)

    def __delattr__(self, name):
        Strict.log.append(f"del {name}")
        object.__delattr__(self, name)

    def __getattr__(self, name):
        Strict.log.append(f"miss {name}")
        if name == "default":
            return 7
        raise AttributeError(name)


@program("fx_descriptors", lambda t: (t(), Strict()), setup=Strict.log.clear, state=lambda: Strict.log)
def hooks_logged_in_order(x, s):
    s.a, s.b = x, s.default
    try:
        s.bad = 1
    except AttributeError as error:
        s.c = str(error)
    s.a += s.b
    del s.b
    try:
        del s.b
    except AttributeError:
        pass
    return s.a, getattr(s, "nothing", "fallback"), hasattr(s, "a")


class Forward:
    """Hands everything on to another object."""

    def __init__(self, target):
        object.__setattr__(self, "_target", target)

    def __getattr__(self, name):
        return getattr(self._target, name)

    def __setattr__(self, name, value):
        setattr(self._target, name, value)

    def __delattr__(self, name):
        delattr(self._target, name)


@program("fx_descriptors", lambda t: (t(), Bag(a=t())))
def proxies_of_proxies(x, bag):
    far = Forward(Forward(bag))
    far.b = far.a + x
    far.a = 1
    del far.a
    return far.b, vars(far), hasattr(far, "a")


class Everything:
    def __getattribute__(self, name):
        if name in ("seen", "__dict__", "__class__"):
            return object.__getattribute__(self, name)
        self.seen.append(name)
        if name == "raises":
            raise AttributeError("own text")
        return object.__getattribute__(self, name)

    def __getattr__(self, name):
        return "fallback for " + name

    def __init__(self):
        self.seen = []

    def method(self, y):
        return y * len(self.seen)


@program("fx_descriptors", lambda t: (t(), Everything()))
def every_access_goes_through_getattribute(x, e):
    e.a = x
    y = e.method(e.a)
    return y, e.raises, e.nowhere, e.seen


class Frozen:
    def __init__(self, v):
        self.__dict__["v"] = v

    def __setattr__(self, name, value):
        raise TypeError("frozen")

    def with_v(self, v):
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, v=v)
        return made


@program("fx_descriptors", lambda t: (t(), Frozen(t())))
def objects_that_refuse_writes(x, f):
    try:
        f.v = x
    except TypeError as error:
        message = str(error)
    object.__setattr__(f, "late", x)
    return f.with_v(x + 1), message


class Counting:
    def __init__(self):
        object.__setattr__(self, "writes", {})

    def __setattr__(self, name, value):
        self.writes[name] = self.writes.get(name, 0) + 1
        super().__setattr__(name, value)


class CountingTwice(Counting):
    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        super().__setattr__("last", name)


@program("fx_descriptors", lambda t: (t(), CountingTwice(), Counting()))
def setattr_through_super(x, a, b):
    a.p = x
    b.p = a
    a.p = b.p.p + 1
    a.p, b.q = b.q if hasattr(b, "q") else 0, a.p
    return a.writes, b.writes, b.q
