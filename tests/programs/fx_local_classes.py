"""Classes made inside the captured code, which stay inside or escape."""

import abc
import contextlib
import typing
from dataclasses import dataclass

from programs import program

LOG: list = []


def stateful(args=lambda t: (t(),), **options):
    """A program that writes LOG."""
    return program("fx_local_classes", args, setup=LOG.clear, state=lambda: LOG, **options)


class Bag:
    kind = "bag"

    def __init__(self, **names):
        self.__dict__.update(names)


class Config:
    scale = 2

    @classmethod
    def bump(cls):
        cls.scale += 1
        return cls.scale

    def read(self):
        return self.scale


# Classes made inside that do not escape.


@program("fx_local_classes")
def local_class_with_all_sorts_of_members(x):
    class Local:
        items: typing.ClassVar[list] = []

        def __init__(self, v):
            self.v = v

        @property
        def double(self):
            return self.v * 2

        @double.setter
        def double(self, v):
            self.v = v / 2

        @classmethod
        def of(cls, v):
            return cls(v)

        @staticmethod
        def plus(a, b):
            return a + b

        def __call__(self, y):
            self.items.append(1)
            return self.v + y

    made = Local.of(x)
    made.double = made.double + 1
    return made(x), Local.plus(made.v, 1), len(Local.items)


@program("fx_local_classes", why="a class with __slots__ is made for real", hits=False)
def local_class_with_slots(x):
    class Local:
        __slots__ = ("a",)

        def __init__(self, a):
            self.a = a

    made = Local(x)
    made.a = made.a + 1
    try:
        made.b = 1
    except AttributeError:
        return made.a
    return None


@program("fx_local_classes")
def local_subclass_of_an_existing_class(x):
    class Local(Config):
        scale = 4

        def read(self):
            return super().read() + 1

    made = Local()
    return x * made.read(), isinstance(made, Config), Local.scale, Local.__mro__[1] is Config


class Plugin:
    known: list = []

    def __init_subclass__(cls, *, key="none", **kwargs):
        super().__init_subclass__(**kwargs)
        cls.key = key
        LOG.append((cls.__name__, key))


class Named:
    def __set_name__(self, owner, name):
        LOG.append((owner.__name__, name))
        self.name = name

    def __get__(self, instance, owner):
        return self.name


@stateful()
def local_class_runs_init_subclass(x):
    class First(Plugin, key="first"):
        pass

    class Second(First):
        def run(self):
            return x + len(self.key)

    return Second().run(), First.key, Second.key


@stateful()
def local_class_runs_set_name(x):
    class Local:
        a = Named()
        b = Named()

        def run(self):
            return x + len(self.a + self.b)

    return Local().run(), Local.a


@stateful()
def local_class_with_a_metaclass(x):
    class Meta(type):
        def __new__(mcs, name, bases, names):
            LOG.append(("meta new", name))
            return super().__new__(mcs, name, bases, {**names, "added": 3})

        def __call__(cls, *args):
            made = super().__call__(*args)
            made.by_meta = True
            return made

        @classmethod
        def __prepare__(mcs, name, bases):
            LOG.append(("prepare", name))
            return {"prepared": 1}

    class Local(metaclass=Meta):
        here = prepared + 1  # noqa: F821

    made = Local()
    return x * made.added, made.by_meta, Local.here


@program("fx_local_classes")
def local_abstract_class(x):
    class Base(abc.ABC):
        @abc.abstractmethod
        def run(self): ...

        def twice(self):
            return self.run() * 2

    class Concrete(Base):
        def run(self):
            return x + 1

    try:
        Base()
    except TypeError as error:
        return Concrete().twice(), str(error)
    return None


@program(
    "fx_local_classes",
    why="dataclass() generates the source of __init__ and runs it with exec()",
    hits=False,
)
def local_data_class(x):
    @dataclass
    class Local:
        a: object
        b: int = 2

    made = Local(x)
    return made.a * made.b, made.b


@program("fx_local_classes")
def local_exception_class(x):
    class Problem(Exception):
        def __init__(self, code):
            super().__init__(f"code {code}")
            self.code = code

    try:
        raise Problem(3)
    except Problem as problem:
        return x * problem.code, str(problem), isinstance(problem, Problem)


@program("fx_local_classes")
def class_made_in_a_loop(x):
    total, seen = x, []
    for k in range(3):

        class Local:
            factor = k

            def run(self, y):
                return y + self.factor

        seen.append(Local)
        total = Local().run(total)
    return total, seen[0] is seen[1], [c.factor for c in seen]


# A closure's list mutated in a method of a class made inside.


@program("fx_local_classes", known="a closure's list mutated in a method of a class made inside")
def closure_list_mutated_by_a_local_class(x):
    log = []

    class Recorder:
        def note(self, item):
            log.append(item)
            return self

    Recorder().note(1).note(x).note(x + 1)
    return log


@program("fx_local_classes", lambda t: (t(), []), known="a closure's list mutated in a method of a class made inside")
def callers_list_mutated_by_a_local_class(x, log):
    class Recorder:
        def __init__(self, name):
            log.append(("init", name))

        def __enter__(self):
            log.append("enter")
            return log

        def __exit__(self, *exc):
            log.append(exc[0] is None)

    with Recorder("r") as same:
        same.append(x)
    return x + len(log), same is log


@program("fx_local_classes", known="a closure's list mutated in a method of a class made inside")
def closure_cell_rebound_by_a_local_class(x):
    total = 0
    rows = []

    class Adder:
        step = 2

        def add(self, k):
            nonlocal total, rows
            total += k * self.step
            rows = [*rows, total]
            return self

        @property
        def now(self):
            return rows

    adder = Adder().add(1).add(5)
    return x * total, adder.now, rows is adder.now


@program(
    "fx_local_classes",
    lambda t: (t(), {"hits": 0}),
    known="a closure's list mutated in a method of a class made inside",
)
def closure_dict_mutated_by_operators_of_a_local_class(x, table):
    class Accumulator:
        def __iadd__(self, other):
            table["hits"] += 1
            table[str(table["hits"])] = other
            return self

        def __getitem__(self, key):
            return table[key]

        def __setitem__(self, key, value):
            table[key] = value

    acc = Accumulator()
    acc += x
    acc += x + 1
    acc["end"] = acc["2"] * 2
    return acc["end"]


# A local context manager's state.


@program("fx_local_classes", known="a local context manager's state")
def local_context_manager_counts(x):
    class Depth:
        now = most = 0

        def __enter__(self):
            self.now += 1
            self.most = max(self.most, self.now)
            return self.now

        def __exit__(self, *exc):
            self.now -= 1

    depth = Depth()
    with depth as a, depth as b:
        x = x * b
        with depth:
            x = x + depth.now
    return x, a, depth.now, depth.most


@program("fx_local_classes", lambda t: (t(), []), known="a local context manager's state")
def local_context_manager_made_of_a_generator(x, log):
    state = {"open": 0}

    @contextlib.contextmanager
    def opened(name):
        state["open"] += 1
        log.append(("open", name))
        try:
            yield state
        finally:
            state["open"] -= 1
            log.append(("close", name))

    try:
        with opened("a") as s, opened("b"):
            x = x + s["open"]
            raise KeyError("k")
    except KeyError:
        log.append("caught")
    return x, state


@program("fx_local_classes", lambda t: (t(), Config()), known="a local context manager's state")
def local_context_manager_restores_attributes(x, c):
    class Override:
        def __init__(self, target, **names):
            self.target, self.names = target, names

        def __enter__(self):
            self.saved = {k: getattr(self.target, k) for k in self.names}
            for k, v in self.names.items():
                setattr(self.target, k, v)

        def __exit__(self, *exc):
            for k, v in self.saved.items():
                setattr(self.target, k, v)
            self.target.left = len(self.saved)

    with Override(c, scale=10):
        y = x * c.scale
    return y, c.scale, c.left


# Classes that escape.


@program("fx_local_classes")
def local_class_escapes_with_its_instance(x):
    class Box:
        kind = "box"

        def __init__(self, item):
            self.item = item

        def get(self):
            return self.item

    box = Box(x + 1)
    return box, Box, box.get()


@program("fx_local_classes", lambda t: (t(), Bag()))
def instance_of_a_local_class_kept_on_an_argument(x, tree):
    scale = 3

    class Scaler:
        def __init__(self, by):
            self.by = by

        def __call__(self, y):
            return y * self.by * scale

    tree.value = Scaler(2)
    return tree.value(x)


@program("fx_local_classes")
def factory_of_classes(x):
    def make(n):
        class Made:
            size = n

            def total(self):
                return self.size + x

        return Made

    a, b = make(1), make(2)
    a.sibling = b
    return a, a().total(), b.size
