"""Variables, classes, match, globals."""

import sys

from lifetimes.objects import Number, Tracked, program


@program
def rebind(log):
    x = Number(log, "1")
    x = Number(log, "2")
    log.append("rebound")
    x = None
    log.append("none")
    return x


@program
def rebind_to_itself(log):
    x = Number(log, "1")
    x = x
    log.append(x is not None)
    x = x + x
    log.append("end")


@program
def delete(log):
    x = y = Number(log, "1")
    del x
    log.append("one")
    del y
    log.append("both")


@program
def swap(log):
    x, y = Number(log, "x"), Number(log, "y")
    x, y = y, x
    log.append([x.name, y.name])
    x, y = None, x
    log.append("end")
    return repr(y)


@program
def order_at_return(log):
    first = Number(log, "first")
    second = Number(log, "second")
    third = first
    log.append(len([second, third]))


@program
def returned(log):
    first = Number(log, "first")
    second = Number(log, "second")
    log.append("end")
    return [first, repr(second)][1]


@program
def unbound(log):
    x = Number(log, "x")
    del x
    try:
        log.append(x)  # noqa: F821
    except UnboundLocalError as e:
        log.append(type(e).__name__)


@program
def loaded_twice(log):
    x = Number(log, "x")
    log.append([x, x, x] and sys.getrefcount(x))
    y = [x, x]
    del x
    log.append(len(y))
    y.clear()
    log.append("end")


@program
def killed_on_stack(log):
    x = Number(log, "x")
    y = [x, (x := Number(log, "new")), x]
    log.append("made")
    y.pop(0)
    log.append("popped")
    return repr(x)


@program
def deleted_by_call(log):
    x = [Number(log, "x")]
    log.append([x.pop(), x] and "popped")
    log.append("end")


@program
def walrus_in_call(log):
    x = Number(log, "x")
    log.append(len((x, (x := None))))
    log.append("end")
    return x


@program
def class_body(log):
    class Holder:
        x = Tracked(log, "x")
        y = x
        del x
        log.append("body")

    log.append(Holder.y.name)
    Holder.y = None
    log.append("end")


@program
def matched(log):
    match [Tracked(log, "a"), Tracked(log, "b")]:
        case [x, Tracked(name="c")]:
            log.append("c")
        case [x, Tracked(name="b") as y]:
            log.append(x.name + y.name)
    log.append("end")


@program
def super_called(log):
    class Child(Number):
        def method(self, *args):
            log.append("child")
            return super().method(*args)

    log.append(Child(log, "c").method(Number(log, "a")).name)


@program
def descriptor(log):
    class Has:
        @property
        def x(self):
            return Tracked(log, "x")

    h = Has()
    log.append(h.x.name)
    log.append("end")


@program
def imports(log):
    x = Tracked(log, "x")
    import json
    from json import dumps

    log.append(dumps([x.name]) == json.dumps(["x"]))
    del x


@program
def asserts(log):
    x = Tracked(log, "x")
    try:
        assert x is None, Tracked(log, "message").name
    except AssertionError as e:
        log.append(repr(e))
    del x
    log.append("end")


@program
def deep_expression(log):
    x, y = Number(log, "x"), Number(log, "y")
    log.append(((x + y) * (y - x) + x[y], sys.getrefcount(x))[1])
    log.append(repr((x, [y, (x, y)], {"k": x})))
    log.append("end")


@program
def many_names(log):
    a = b = c = d = e = Number(log, "n")
    log.append(sys.getrefcount(a))
    a = 1
    log.append(sys.getrefcount(b))
    b = c = a
    log.append(sys.getrefcount(d))
    d = e = c
    log.append("end")
    return e


@program
def star_arguments(log):
    def f(*args, **kwargs):
        log.append(len(args) + len(kwargs))
        args = kwargs = None
        log.append("in")
        return args

    f(Number(log, "a"), Number(log, "b"), k=Number(log, "c"))
    log.append("back")


@program
def stops_iteration(log):
    def g():
        yield 1
        return Tracked(log, "value")

    i = g()
    next(i)
    try:
        next(i)
    except StopIteration as e:
        log.append(e.value.name)
    log.append("end")
