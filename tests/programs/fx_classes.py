"""Side effects on classes: their attributes, methods, metaclasses, and __class__ of their instances."""

from programs import program

LOG: list = []


class Config:
    scale = 2
    names: list = []
    table: dict = {}

    @classmethod
    def bump(cls):
        cls.scale += 1
        return cls.scale

    def read(self):
        return self.scale


class Special(Config):
    extra = None


def _reset():
    LOG.clear()
    for cls, own in ((Config, {"scale": 2, "names": [], "table": {}}), (Special, {"extra": None})):
        for name in [n for n in vars(cls) if n not in ("bump", "read") and not n.startswith("__")]:
            delattr(cls, name)
        for name, value in own.items():
            setattr(cls, name, value)


def _state():
    plain = lambda c: {k: v for k, v in vars(c).items() if not k.startswith("__") and k not in ("bump", "read")}  # noqa: E731
    return LOG, plain(Config), plain(Special)


def stateful(args=lambda t: (t(),), **options):
    """A program over Config, Special and LOG."""
    return program("fx_classes", args, setup=_reset, state=_state, **options)


# Class attributes.


@stateful(lambda t: (t(), Config(), Special()))
def class_attribute_written_through_bases(x, c, s):
    Config.scale = 5
    seen = [c.scale, s.scale, Special.scale]
    Special.scale = 7
    seen += [c.scale, s.scale]
    c.scale = 9
    seen += [c.read(), s.read(), Config.scale]
    return x * s.scale, seen


@stateful()
def class_method_counts(x):
    a = Config.bump()
    b = Special.bump()
    c = Config.bump()
    return x + a, b, c, Special.scale


@stateful()
def class_attribute_new_and_tensor(x):
    Config.weight = x * 2
    Special.weight = Config.weight + 1
    setattr(Config, "level", 3)
    return Special.weight * Special.level, "weight" in vars(Config)


@stateful()
def class_names_follow_what_is_written(x):
    names = vars(Config)
    before = "fresh" in names, names.get("level")
    Config.fresh = x
    Config.level = 9
    return before, names["level"], names["fresh"] is x, "fresh" in names, x + 1


@stateful()
def class_attribute_deleted(x):
    Special.scale = 1
    first = Special.scale
    del Special.scale
    second = Special.scale
    delattr(Config, "scale")
    return x + first, second, hasattr(Special, "scale")


@stateful()
def deleting_a_class_attribute_that_is_not_there(x):
    messages = []
    for cls, name in ((Special, "scale"), (Special, "extra"), (Special, "extra"), (Config, "nothing")):
        try:
            delattr(cls, name)
        except AttributeError as error:
            messages.append(str(error))
    return x + 1, messages


@stateful(lambda t: (t(), Config()))
def instance_falls_back_to_what_the_class_became(x, c):
    c.scale = 10
    Config.scale = 3
    first = c.scale
    del c.scale
    return x * c.scale, first


# Append to a class-level list.


@stateful(lambda t: (t(), Config(), Special()), known="append to a class-level list")
def class_level_list_by_three_ways(x, c, s):
    Config.names.append("class")
    c.names.append(x)
    s.names.append("subclass")
    s.names += ["own"]
    return len(Config.names), s.names is Config.names, "names" in vars(s)


@stateful(lambda t: (t(), Config()), known="append to a class-level list")
def class_level_list_replaced_then_appended(x, c):
    old = Config.names
    Config.names = [*old, "new"]
    c.names.append(x)
    old.append("old")
    return len(c.names), old


@stateful(lambda t: (t(), Special()), known="append to a class-level list")
def class_level_dict_in_a_method_call(x, s):
    def note(owner, key, value):
        owner.table[key] = value
        owner.table.setdefault("order", []).append(key)
        return owner

    note(note(s, "a", x), "b", x + 1)
    type(s).table["order"].reverse()
    return Config.table["a"], list(Special.table)


class Registry:
    entries: list = []

    def __init__(self, name):
        self.name = name
        self.entries.append(self)
        type(self).entries.append(name)


@program(
    "fx_classes", setup=Registry.entries.clear, state=lambda: Registry.entries, known="append to a class-level list"
)
def class_level_list_of_instances(x):
    a, b = Registry("a"), Registry("b")
    a.other = b
    Registry.entries.remove("a")
    return x + len(Registry.entries), Registry.entries[0] is a


# A method replaced inside the capture.


class Shape:
    def area(self):
        return self.side * self.side

    def __init__(self, side):
        self.side = side


_area = Shape.area


def _reset_shape():
    Shape.area = _area
    for name in ("late", "__len__", "half"):
        if name in vars(Shape):
            delattr(Shape, name)


def _doubled(self):
    return self.side * 2


@program("fx_classes", lambda t: (t(), Shape(t())), setup=_reset_shape, state=lambda: Shape.area)
def method_replaced_and_called(x, shape):
    first = shape.area()
    Shape.area = _doubled
    return first, shape.area() + Shape(x).area()


@program("fx_classes", lambda t: (t(), Shape(t())), setup=_reset_shape, state=lambda: Shape.area)
def method_wrapped_and_restored(x, shape):
    log = []
    original = Shape.area

    def traced(self):
        log.append("called")
        return original(self) + 1

    Shape.area = traced
    y = shape.area()
    Shape.area = original
    return y, shape.area() + x, log


@program("fx_classes", lambda t: (t(), Shape(t())), setup=_reset_shape, state=lambda: "late" in vars(Shape))
def method_added_late(x, shape):
    Shape.late = lambda self, k: self.side * k
    Shape.half = property(lambda self: self.side / 2)
    y = shape.late(3) + shape.half
    del Shape.half
    return y, hasattr(shape, "half")


# Metaclasses.


class Singleton(type):
    made: dict = {}

    def __call__(cls, *args):
        if cls.__name__ not in Singleton.made:
            Singleton.made[cls.__name__] = super().__call__(*args)
        return Singleton.made[cls.__name__]


class Only(metaclass=Singleton):
    def __init__(self, v):
        self.v = v


@program("fx_classes", setup=Singleton.made.clear, state=lambda: Singleton.made)
def singletons(x):
    a = Only(x)
    b = Only(x + 1)
    a.late = b.v * 2
    return a is b, b.late


class Counted(type):
    count = 0

    def __setattr__(cls, name, value):
        LOG.append(f"{cls.__name__}.{name}")
        super().__setattr__(name, value)

    @property
    def total(cls):
        return cls.count * 2

    @total.setter
    def total(cls, value):
        cls.count = value

    def __len__(cls):
        return 3

    def __getitem__(cls, key):
        return cls.__name__ * key

    def __iter__(cls):
        return iter((cls, 1))

    def __contains__(cls, item):
        return item == "yes"


class Thing(metaclass=Counted):
    count = 5


def _reset_thing():
    type.__setattr__(Thing, "count", 5)
    LOG.clear()


@program("fx_classes", setup=_reset_thing, state=lambda: (LOG, Thing.count))
def metaclass_with_setattr_and_property(x):
    Thing.count += 1
    before = Thing.total
    Thing.total = 9
    return x * Thing.count, before, Thing.total


@program("fx_classes")
def special_methods_of_a_metaclass(x):
    return x + len(Thing), Thing[2], [c is Thing for c in Thing], "yes" in Thing, "no" in Thing, bool(Thing)


# __class__.


class Caterpillar:
    def __init__(self, v):
        self.v = v

    def move(self):
        return self.v + 1


class Butterfly(Caterpillar):
    def move(self):
        return self.v * 10


@program("fx_classes", lambda t: (t(), Caterpillar(t())))
def class_assigned_to_an_existing_object(x, c):
    first = c.move()
    c.__class__ = Butterfly
    return first, c.move() + x, type(c) is Butterfly, isinstance(c, Butterfly)


@program("fx_classes")
def class_assigned_to_a_new_object(x):
    c = Caterpillar(x)
    c.__class__ = Butterfly
    c.tag = type(c).__name__
    return c, c.move()


@program("fx_classes", lambda t: (t(), Caterpillar(1)))
def class_assignment_refused(x, c):
    errors = []
    for other in (int, 3):
        try:
            c.__class__ = other
        except TypeError as error:
            errors.append(str(error))
    return x + c.v, errors


# __class__ cells.


class Base:
    def name(self):
        return "base"

    @classmethod
    def make(cls, v):
        made = cls()
        made.v = v
        return made

    @property
    def size(self):
        return 1


class Middle(Base):
    def name(self):
        return "middle " + super().name()

    @classmethod
    def make(cls, v):
        return super().make(v * 2)

    @property
    def size(self):
        return super().size + 1

    def nested(self):
        def inner():
            return super(Middle, self).name(), __class__.__name__

        return inner()

    def by_comprehension(self):
        base = super()
        return [base.name() for _ in range(2)]


class Leaf(Middle):
    def name(self):
        return __class__.__name__ + " " + super().name()


@program("fx_classes", lambda t: (t(), Leaf()), known="__class__ cells")
def super_through_three_levels(x, leaf):
    return x + leaf.size, leaf.name(), leaf.nested(), leaf.by_comprehension(), Leaf.make(x)


@program("fx_classes", known="__class__ cells")
def class_cell_of_a_local_class(x):
    class Local(Middle):
        def name(self):
            me = __class__
            return me is type(self), super().name()

        @staticmethod
        def own():
            return __class__

    return x + 1, Local().name(), Local.own() is Local, Local.make(x).v


@program("fx_classes", lambda t: (t(), Leaf()), known="__class__ cells")
def class_cell_read_in_nested_functions(x, leaf):
    class Local:
        def outer(self):
            def inner(k):
                def innermost():
                    return __class__, k

                return innermost()

            return inner(x)

        def late(self):
            return [__class__ for _ in range(2)][0].scale

    Local.scale = 4
    made = Local()
    return made.outer()[0] is Local, made.outer()[1] * made.late()


@program("fx_classes", known="__class__ cells")
def super_in_multiple_inheritance(x):
    class A:
        def run(self, y):
            return y + 1

    class B(A):
        def run(self, y):
            return super().run(y) * 2

    class C(A):
        def run(self, y):
            return super().run(y) * 3

    class D(B, C):
        def run(self, y):
            return super().run(y) - 1

    return D().run(x), [c.__name__ for c in D.__mro__]
