"""The cell of `__class__`: dropped, overwritten, read too early; super() without arguments."""

# ruff: noqa: N804, N805, F821, B903, RUF012, B018, PLW0127, SIM117
# mypy: ignore-errors

from e2e.class_statements.common import caught, program


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
def super_in_every_wrong_place(x, log):
    def outside(self):
        return super().f()

    def without_arguments():
        return super()

    class A:
        def f(self, t):
            return t + 1

        def deleted(self):
            del self
            return super()

        def of_star(*args):
            return super()

        def another(self):
            return super().f

        def local(self):
            __class__ = int
            return super()

        def number(self):
            nonlocal __class__
            kept = __class__
            __class__ = 3
            try:
                return super()
            finally:
                __class__ = kept

        def emptied(self):
            nonlocal __class__
            kept = __class__
            del __class__
            try:
                return super()
            finally:
                __class__ = kept

        def listed(self):
            return [super() for _ in range(1)]

        def nested(self):
            def inner(t):
                return super()

            return inner(3)

        def read(self):
            return __class__.__name__

    class B(A):
        def f(self, t):
            return super().f(t) * 2

    a = A()
    calls = [
        lambda: outside(a),
        without_arguments,
        a.deleted,
        a.of_star,
        lambda: A.another(3),
        a.another,
        a.local,
        a.number,
        a.emptied,
        a.nested,
        a.read,
        lambda: super(A, 3),
        lambda: super(3, a),
        lambda: super(A, a, 3),
        lambda: super(B, a),
        lambda: super(B, B()).f(x),
    ]
    return x + 1, [caught(call, log) for call in calls], B().f(x)


@program
def super_in_a_comprehension(x, log):
    class A:
        def listed(self):
            return [super() for _ in range(1)]

    caught(A().listed, log)
    return x + 1


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
