"""Programs that show when objects live and die: finalizers, weak references, counts, collections, frames that stay.

Each takes the list of its events, and is a row of `PROGRAMS`. What they say of plain CPython is what counts; no program
knows a version.
"""

import gc
import sys
import traceback
import types
import weakref
from collections.abc import Callable
from typing import Any

PROGRAMS: dict[str, Callable[[list[Any]], Any]] = {}
FUNCTIONS: set[types.CodeType] = set()  # whose frames are taken


def program(function: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    PROGRAMS[function.__name__] = function
    add_codes(function.__code__)
    return function


def add_codes(code: types.CodeType) -> None:
    FUNCTIONS.add(code)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            add_codes(constant)


def helper(function: Callable[..., Any]) -> Callable[..., Any]:
    add_codes(function.__code__)
    return function


class Tracked:
    """Says when it dies."""

    def __init__(self, log: list[Any], name: str) -> None:
        self.log, self.name = log, name

    def __del__(self) -> None:
        self.log.append("del " + self.name)

    def __repr__(self) -> str:
        return self.name


class Number(Tracked):
    """Has operators, each of which says that it ran."""

    def binary(self, other: Any) -> "Number":
        name = f"({self.name}+{getattr(other, 'name', other)})"
        self.log.append("op " + name)
        return Number(self.log, name)

    __add__ = __radd__ = __sub__ = __mul__ = __iadd__ = __and__ = __matmul__ = binary

    def __neg__(self) -> "Number":
        return Number(self.log, "-" + self.name)

    def __invert__(self) -> "Number":
        return Number(self.log, "~" + self.name)

    def __bool__(self) -> bool:
        self.log.append("bool " + self.name)
        return True

    def __eq__(self, other: object) -> bool:
        self.log.append(f"eq {self.name} {other}")
        return False

    def __lt__(self, other: object) -> bool:
        self.log.append(f"lt {self.name} {other}")
        return True

    def __hash__(self) -> int:
        return 1

    def __contains__(self, other: object) -> bool:
        self.log.append(f"in {self.name} {other}")
        return True

    def __getitem__(self, key: object) -> "Number":
        return Number(self.log, f"{self.name}[{key}]")

    def __setitem__(self, key: object, value: object) -> None:
        self.log.append(f"set {self.name} {key} {value}")

    def __delitem__(self, key: object) -> None:
        self.log.append(f"delete {self.name} {key}")

    def __call__(self, *args: Any, **kwargs: Any) -> "Number":
        self.log.append(f"call {self.name} {args} {kwargs}")
        return Number(self.log, self.name + "()")

    def method(self, *args: Any) -> "Number":
        self.log.append(f"method {self.name} {args}")
        return Number(self.log, self.name + ".m")

    def __iter__(self) -> Any:
        return iter([Number(self.log, self.name + "0"), Number(self.log, self.name + "1")])

    def __format__(self, spec: str) -> str:
        self.log.append("format " + self.name)
        return self.name

    def __enter__(self) -> "Number":
        self.log.append("enter " + self.name)
        return Number(self.log, self.name + "e")

    def __exit__(self, kind: Any, value: Any, where: Any) -> bool:
        self.log.append(f"exit {self.name} {kind and kind.__name__}")
        return self.name.startswith("swallow")


class Failing(Number):
    def binary(self, other: Any) -> "Number":
        self.log.append("op fails")
        raise ValueError("failing")

    __add__ = __radd__ = __sub__ = __mul__ = __iadd__ = binary

    def __bool__(self) -> bool:
        raise ValueError("bool")

    def __lt__(self, other: object) -> bool:
        raise ValueError("lt")

    def __getitem__(self, key: object) -> "Number":
        raise ValueError("item")

    def __setitem__(self, key: object, value: object) -> None:
        raise ValueError("set")

    def __call__(self, *args: Any, **kwargs: Any) -> "Number":
        raise ValueError("call")

    def __iter__(self) -> Any:
        raise ValueError("iter")


# ---- operands of each kind of instruction, all of them temporaries


@program
def binary(log):
    Number(log, "a") + Number(log, "b")
    log.append("end")


@program
def binary_kept(log):
    x = Number(log, "a") * Number(log, "b") - Number(log, "c")
    log.append("end")
    return repr(x)


@program
def binary_in_place(log):
    x = Number(log, "x")
    x += Number(log, "y")
    log.append("end")
    return repr(x)


@program
def binary_fails(log):
    try:
        Failing(log, "a") + Number(log, "b")
    except ValueError as e:
        log.append(repr(e))
    log.append("end")


@program
def unary(log):
    -Number(log, "a")
    ~Number(log, "b")
    log.append(not Number(log, "c"))


@program
def compare(log):
    Number(log, "a") == Number(log, "b")
    log.append(Number(log, "c") < Number(log, "d"))
    log.append("end")


@program
def compare_chained(log):
    log.append(Number(log, "a") < Number(log, "b") < Number(log, "c"))
    log.append("end")


@program
def compare_fails(log):
    try:
        log.append(Failing(log, "a") < Number(log, "b"))
    except ValueError as e:
        log.append(repr(e))


@program
def identity(log):
    log.append(Number(log, "a") is Number(log, "b"))
    log.append(Number(log, "a") is not None)


@program
def contains(log):
    log.append(Number(log, "a") in Number(log, "b"))
    log.append(Number(log, "a") not in Number(log, "b"))


@program
def truth(log):
    if Number(log, "a"):
        log.append("true")
    log.append(Number(log, "b") and Number(log, "c"))
    log.append(None)
    del log[-2]
    x = Number(log, "d") or Number(log, "e")
    log.append("end")
    return repr(x)


@program
def truth_fails(log):
    try:
        if Failing(log, "a"):
            log.append("true")
    except ValueError as e:
        log.append(repr(e))


@program
def subscript(log):
    Number(log, "a")[Number(log, "k")]
    log.append("end")


@program
def subscript_store(log):
    Number(log, "a")[Number(log, "k")] = Number(log, "v")
    log.append("end")


@program
def subscript_store_fails(log):
    try:
        Failing(log, "a")[Number(log, "k")] = Number(log, "v")
    except ValueError as e:
        log.append(repr(e))


@program
def subscript_delete(log):
    del Number(log, "a")[Number(log, "k")]
    log.append("end")


@program
def subscript_slice(log):
    Number(log, "a")[Number(log, "k") : Number(log, "l")]
    log.append("end")


@program
def attribute(log):
    log.append(Number(log, "a").name)
    log.append("end")


@program
def attribute_store(log):
    Number(log, "a").other = Number(log, "v")
    log.append("end")


@program
def attribute_replace(log):
    x = Number(log, "x")
    x.other = Number(log, "old")
    x.other = Number(log, "new")
    log.append("end")
    del x.other
    log.append("deleted")


@program
def attribute_missing(log):
    try:
        Number(log, "a").missing
    except AttributeError as e:
        log.append(type(e).__name__)
    log.append("end")


@program
def call_object(log):
    Number(log, "f")(Number(log, "a"), Number(log, "b"))
    log.append("end")


@program
def call_object_named(log):
    Number(log, "f")(Number(log, "a"), key=Number(log, "b"))
    log.append("end")


@program
def call_object_unpacked(log):
    Number(log, "f")(*[Number(log, "a")], **{"k": Number(log, "b")})
    log.append("end")


@program
def call_object_fails(log):
    try:
        Failing(log, "f")(Number(log, "a"), Number(log, "b"))
    except ValueError as e:
        log.append(repr(e))


@program
def call_method(log):
    Number(log, "o").method(Number(log, "a"), Number(log, "b"))
    log.append("end")


@program
def call_bound(log):
    bound = Number(log, "o").method
    bound(Number(log, "a"))
    log.append("called")
    del bound
    log.append("end")


@program
def call_builtin(log):
    log.append(len([Number(log, "a"), Number(log, "b")]))
    log.append(isinstance(Number(log, "c"), Number))
    log.append(max(Number(log, "d"), Number(log, "e")) is None)


@program
def call_type(log):
    log.append(len(tuple(Number(log, "a"))))
    log.append(str(Number(log, "b")))
    log.append("end")


@program
def formatted(log):
    log.append(f"{Number(log, 'a')} {Number(log, 'b')!r} {Number(log, 'c'):x}")


@program
def build_containers(log):
    x = [Number(log, "a"), Number(log, "b")]
    y = (Number(log, "c"), x)
    z = {"k": Number(log, "d"), "l": y}
    log.append("built")
    del x, y
    log.append("some gone")
    del z
    log.append("end")


@program
def build_set(log):
    x = {Number(log, "a"), Number(log, "b")}
    log.append(len(x))
    del x
    log.append("end")


@program
def display_unpacked(log):
    x = [*Number(log, "a"), Number(log, "b")]
    y = (*x, 1)
    z = {**{"k": Number(log, "c")}, "l": 2}
    log.append(len(x) + len(y) + len(z))
    del x
    log.append("x")
    del y
    log.append("y")
    del z


@program
def unpack_two(log):
    a, b = Number(log, "a")
    log.append("unpacked")
    del a
    log.append(repr(b))


@program
def unpack_star(log):
    a, *b = [Number(log, "p"), Number(log, "q"), Number(log, "r")]
    log.append("unpacked")
    a = b
    log.append("end")
    return len(a)


@program
def unpack_too_many(log):
    try:
        (a,) = [Number(log, "p"), Number(log, "q")]
    except ValueError as e:
        log.append(type(e).__name__)
    log.append("end")


# ---- variables


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
        log.append(x)
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


# ---- calls of Python functions


@helper
def forgets(log, x):
    log.append("in")
    del x
    log.append("forgot")


@helper
def replaces(log, x):
    x = Number(log, "replaced")
    log.append("still in")
    return x


@helper
def gives_back(x, *rest, **named):
    return x


@helper
def counts(x):
    return sys.getrefcount(x)


@helper
def counts_deeper(x):
    return counts(x)


@program
def argument_forgotten(log):
    forgets(log, Number(log, "a"))
    log.append("back")


@program
def argument_of_local_forgotten(log):
    x = Number(log, "x")
    forgets(log, x)
    log.append("back")
    del x
    log.append("end")


@program
def argument_replaced(log):
    x = replaces(log, Number(log, "a"))
    log.append("back")
    return repr(x)


@program
def argument_given_back(log):
    x = gives_back(Number(log, "a"), Number(log, "b"), k=Number(log, "c"))
    log.append("back")
    x = gives_back(x)
    log.append("again")
    x = gives_back(*[x], **{"k": Number(log, "d")})
    return repr(x)


@program
def wrong_arguments(log):
    try:
        forgets(log, Number(log, "a"), Number(log, "b"))
    except TypeError as e:
        log.append(type(e).__name__)
    log.append("end")


@program
def counts_of_local(log):
    x = Number(log, "x")
    log.append(sys.getrefcount(x))
    y = x
    log.append(sys.getrefcount(y))
    log.append(counts(x))
    log.append(counts_deeper(x))
    log.append(sys.getrefcount(Number(log, "t")))
    log.append(counts(Number(log, "u")))


@program
def counts_in_expression(log):
    x = Number(log, "x")
    log.append((x, x, sys.getrefcount(x))[2])
    log.append([x, sys.getrefcount(x)][1])
    log.append(x.name + str(sys.getrefcount(x)))
    log.append(max(sys.getrefcount(x), sys.getrefcount(x)))


@program
def counts_of_container(log):
    x = [1, 2]
    for _ in x:
        log.append(sys.getrefcount(x))
    for _ in range(2):
        log.append(sys.getrefcount(x))
    with_it = (x, x)
    log.append(sys.getrefcount(x))
    del with_it
    log.append(sys.getrefcount(x))


@program
def closure(log):
    x = Number(log, "x")

    def inner():
        nonlocal x
        x = Number(log, "y")
        log.append("set")

    inner()
    log.append("called")
    del inner
    log.append("gone")
    return repr(x)


@program
def closure_outlives(log):
    def make(x):
        y = Number(log, "y")

        def inner():
            return x, y

        return inner

    f = make(Number(log, "x"))
    log.append("made")
    log.append(repr(f()))
    del f
    log.append("end")


@program
def default_arguments(log):
    def f(x=Number(log, "default")):
        return x

    f()
    log.append("called")
    del f
    log.append("end")


@program
def lambdas(log):
    fs = [lambda x=Number(log, str(k)): x for k in range(3)]
    log.append(len(fs))
    fs.pop(1)
    log.append("popped")
    for f in fs:
        f()
    del f
    fs.clear()
    log.append("end")


@program
def recursive(log):
    def down(n, x):
        y = Number(log, f"y{n}")
        if n:
            down(n - 1, y)
        log.append(f"up {n}")
        del x
        log.append(f"out {n}")

    down(3, Number(log, "x"))


@program
def constructs(log):
    class Made:
        def __init__(self, x):
            self.x = x
            x = None
            log.append("init")

    m = Made(Number(log, "x"))
    log.append("made")
    m.x = None
    log.append("end")
    return type(m).__name__


@program
def construct_fails(log):
    class Made:
        def __init__(self, x):
            self.x = x
            raise ValueError("init")

        def __del__(self):
            log.append("del made")

    try:
        Made(Number(log, "x"))
    except ValueError as e:
        log.append(repr(e))
        e.__traceback__ = None
        log.append("cleared")
    log.append("end")


# ---- loops and comprehensions


@program
def loop(log):
    for x in Number(log, "n"):
        log.append(repr(x))
    log.append("done")
    del x
    log.append("end")


@program
def loop_broken(log):
    for x in [Number(log, "a"), Number(log, "b"), Number(log, "c")]:
        if x.name == "b":
            break
    log.append("broken")
    return repr(x)


@program
def loop_returns(log):
    def f():
        for x in [Number(log, "a"), Number(log, "b")]:
            for y in [Number(log, "c")]:
                return x.name + y.name

    log.append(f())


@program
def loop_fails(log):
    try:
        for x in [Number(log, "a"), Failing(log, "b")]:
            x + x
    except ValueError as e:
        log.append(repr(e))
    log.append(repr(x))


@program
def loop_over_changed(log):
    items = [Number(log, "a"), Number(log, "b"), Number(log, "c")]
    for x in items:
        log.append(x.name)
        items.pop()
    log.append("end")
    items = None
    log.append("none")
    return repr(x)


@program
def comprehension(log):
    names = [x.name for x in Number(log, "n")]
    log.append(names)
    kept = [x for x in Number(log, "m")]
    log.append("kept")
    del kept[0]
    log.append("end")


@program
def comprehension_hides(log):
    x = Number(log, "outer")
    names = {x.name: x for x in [Number(log, "i"), Number(log, "j")]}
    log.append(x.name)
    names.clear()
    log.append("end")
    return repr(x)


@program
def comprehension_fails(log):
    x = Number(log, "outer")
    try:
        [x + 1 for x in [Number(log, "i"), Failing(log, "j")]]
    except ValueError as e:
        log.append(repr(e))
    log.append(x.name)


@program
def comprehension_nested(log):
    log.append([y.name for x in Number(log, "n") for y in x if y])


# ---- with


@program
def with_plain(log):
    with Number(log, "m") as x:
        log.append(repr(x))
    log.append("behind")
    return repr(x)


@program
def with_swallows(log):
    with Number(log, "swallow"):
        raise ValueError(Number(log, "in exception"))
    log.append("behind")


@program
def with_lets_through(log):
    try:
        with Number(log, "m") as x, Number(log, "n"):
            x + Failing(log, "f") + (Failing(log, "g") + 1)
    except ValueError as e:
        log.append(repr(e))
    log.append("end")


@program
def with_returns(log):
    def f():
        with Number(log, "m"):
            return Number(log, "r").name

    log.append(f())


@program
def with_nested_raise(log):
    with Number(log, "swallow1"):
        with Number(log, "m"):
            with Number(log, "swallow2"):
                raise KeyError("a")
            raise ValueError("b")
    log.append("end")


# ---- exceptions in flight


@program
def exception_holds(log):
    x = Number(log, "x")
    try:
        raise ValueError(Number(log, "arg"))
    except ValueError as e:
        log.append("caught")
        x = e
    log.append("left")
    x.__traceback__ = None
    x = None
    log.append("end")


@program
def exception_in_callee(log):
    def f():
        y = Number(log, "y")
        raise KeyError(y.name)

    try:
        f()
    except KeyError as e:
        log.append(e.__traceback__.tb_next.tb_frame.f_locals["y"].name)
    log.append("end")


@program
def exception_kept(log):
    def f(n):
        y = Number(log, f"y{n}")
        if n == 0:
            raise KeyError(y.name)
        f(n - 1)

    kept = None
    try:
        f(2)
    except KeyError as e:
        kept = e
    log.append("kept")
    log.append([t.name for t in traceback.extract_tb(kept.__traceback__)][1:])
    kept = None
    log.append("end")


@program
def exception_context(log):
    try:
        try:
            raise KeyError(Number(log, "1"))
        except KeyError:
            raise ValueError(Number(log, "2")) from None
    except ValueError as e:
        log.append(type(e.__context__).__name__)
        e.__context__ = None
        log.append("forgot")
    log.append("end")


@program
def exception_replaced(log):
    try:
        try:
            raise KeyError(Number(log, "1"))
        finally:
            Failing(log, "f") + Number(log, "g")
    except ValueError as e:
        log.append(repr(e.__context__))
    log.append("end")


@program
def finally_runs(log):
    def f():
        x = Number(log, "x")
        try:
            return x.name
        finally:
            log.append("finally")
            x = None
            log.append("none")

    log.append(f())


@program
def finally_overrides(log):
    def f():
        for _ in range(2):
            try:
                raise ValueError(Number(log, "v"))
            finally:
                log.append("finally")
                break
        return "r"

    log.append(f())


@program
def reraise(log):
    def f():
        x = Number(log, "x")
        try:
            raise ValueError("v")
        except ValueError:
            log.append("first")
            del x
            raise

    try:
        f()
    except ValueError as e:
        log.append([t.lineno - f.__code__.co_firstlineno for t in traceback.extract_tb(e.__traceback__)][1:])
    log.append("end")


@program
def not_matched(log):
    try:
        try:
            raise ValueError(Number(log, "v"))
        except KeyError:
            log.append("no")
    except ValueError:
        log.append(sys.exc_info()[0].__name__)
    log.append(sys.exc_info())


@program
def exception_group(log):
    try:
        raise ExceptionGroup("g", [ValueError(Number(log, "v")), KeyError(Number(log, "k"))])
    except* ValueError as e:
        log.append(len(e.exceptions))
    except* KeyError:
        log.append("key")
    log.append("end")


@program
def finalizer_raises(log):
    class Bad:
        def __del__(self):
            log.append("bad")
            raise ValueError("ignored")

    hook, sys.unraisablehook = sys.unraisablehook, lambda args: log.append(type(args.exc_value).__name__)
    try:
        Bad()
        log.append("end")
    finally:
        sys.unraisablehook = hook


@program
def finalizer_in_flight(log):
    class Asks:
        def __del__(self):
            log.append(sys.exc_info()[0])

    def f():
        x = Asks()
        log.append(type(x).__name__)
        raise KeyError

    try:
        f()
    except KeyError as e:
        log.append("caught")
        e.__traceback__ = None
    log.append("end")


@program
def operands_in_flight(log):
    try:
        [Number(log, "a"), Number(log, "b"), Failing(log, "c") + Number(log, "d")]
    except ValueError:
        log.append("caught")
    log.append("end")


@program
def operands_in_flight_of_call(log):
    try:
        gives_back(Number(log, "a"), k=Number(log, "b"), j=Failing(log, "c")())
    except ValueError:
        log.append("caught")
    log.append("end")


# ---- weak references


@program
def weak_callback(log):
    x = Tracked(log, "x")
    r = weakref.ref(x, lambda _: log.append("callback"))
    log.append(r() is x)
    del x
    log.append(r())


@program
def weak_of_temporary(log):
    r = weakref.ref(Tracked(log, "x"), lambda _: log.append("callback"))
    log.append(r())


@program
def weak_while_called(log):
    refs = []

    def f(x):
        refs.append(weakref.ref(x, lambda _: log.append("callback")))
        del x
        log.append(refs[0]() is None)

    f(Tracked(log, "x"))
    log.append(refs[0]() is None)


@program
def weak_on_stack(log):
    x = Tracked(log, "x")
    r = weakref.ref(x)
    y = [x, r() is not None, (x := 1), r() is not None]
    log.append(y[1:])
    y = None
    log.append(r() is not None)
    return x


@program
def weak_dictionary(log):
    d = weakref.WeakValueDictionary()
    d["k"] = x = Tracked(log, "x")
    log.append(len(d))
    x = None
    log.append(len(d))
    return x


@program
def finalize_object(log):
    x = Tracked(log, "x")
    weakref.finalize(x, log.append, "finalize")
    y = x
    x = None
    log.append("x gone")
    y = x
    log.append("y gone")


# ---- collections


@program
def cycle(log):
    x = Tracked(log, "x")
    x.itself = x
    del x
    log.append("gone")
    gc.collect()
    log.append("collected")


@program
def cycle_with_frame(log):
    def f():
        x = Tracked(log, "x")
        frame = sys._getframe()
        x.frame = frame

    f()
    log.append("left")
    gc.collect()
    log.append("collected")


@program
def collect_with_locals(log):
    x = Tracked(log, "x")
    y = [x]
    gc.collect()
    log.append(len(y))
    log.append((x, y, gc.collect() >= 0)[2])
    del x
    gc.collect()
    y.clear()
    log.append("end")


@program
def collect_mid_expression(log):
    x = Tracked(log, "x")
    log.append([x, (x, x), gc.collect() >= 0, x.name][3])
    log.append(gives_back(x, gc.collect()).name)


@program
def cycle_through_exception(log):
    def f():
        x = Tracked(log, "x")
        try:
            raise ValueError(x.name)
        except ValueError as e:
            kept = e
            log.append(type(kept).__name__)

    f()
    log.append("left")
    gc.collect()
    log.append("collected")


@program
def referrers(log):
    x = Tracked(log, "x")
    holder = [x]
    log.append(sorted(type(r).__name__ for r in gc.get_referrers(x)))
    log.append(any(r is holder for r in gc.get_referrers(x)))


@program
def referrers_of_frame(log):
    def f(x):
        frame = sys._getframe()
        found = gc.get_referrers(x)
        log.append(any(r is frame for r in found))
        del found, frame

    x = Tracked(log, "x")
    f(x)
    frame = sys._getframe()
    log.append(any(r is frame for r in gc.get_referrers(x)))
    del frame


@program
def referents_of_frame(log):
    x = Tracked(log, "x")
    frame = sys._getframe()
    log.append(sum(r is x for r in gc.get_referents(frame)))
    log.append((x, x, sum(r is x for r in gc.get_referents(frame)))[2])
    del frame


@program
def referents_of_generator(log):
    def g(x):
        y = [x, (yield 1)]
        yield y

    x = Tracked(log, "x")
    i = g(x)
    next(i)
    log.append(sum(r is x for r in gc.get_referents(i)))
    log.append(sum(r is i for r in gc.get_referrers(x)))
    next(i)
    log.append(sum(r is x for r in gc.get_referents(i)))


# ---- generators and coroutines


@program
def generator(log):
    def g(x):
        y = Tracked(log, "y")
        yield x.name
        yield y.name

    i = g(Tracked(log, "x"))
    log.append(next(i))
    log.append(next(i))
    log.append(next(i, "end"))
    log.append("exhausted")
    del i


@program
def generator_dropped(log):
    def g(x):
        y = Tracked(log, "y")
        try:
            yield x.name
        finally:
            log.append("finally")
            del y
            log.append("behind")

    i = g(Tracked(log, "x"))
    log.append(next(i))
    del i
    log.append("dropped")


@program
def generator_never_begun(log):
    def g(x):
        yield x

    i = g(Tracked(log, "x"))
    log.append(type(i).__name__)
    del i
    log.append("dropped")


@program
def generator_keeps_stack(log):
    def g(x):
        z = [x, Tracked(log, "t"), (yield 1)]
        yield len(z)

    i = g(Tracked(log, "x"))
    next(i)
    log.append("suspended")
    log.append(next(i))
    log.append(next(i, None))


@program
def generator_dropped_with_stack(log):
    def g(x):
        z = [x, Tracked(log, "t"), (yield 1)]
        yield z

    i = g(Tracked(log, "x"))
    next(i)
    log.append("suspended")
    del i
    log.append("dropped")


@program
def generator_throw(log):
    def g(x):
        try:
            yield [x, (yield 1)]
        except ValueError as e:
            log.append(repr(e))
            yield x.name

    i = g(Tracked(log, "x"))
    next(i)
    log.append(i.throw(ValueError("t")))
    i.close()
    log.append("closed")


@program
def generator_send(log):
    def g():
        x = None
        while True:
            x = yield x and x.name
            log.append(sys.getrefcount(x) if x is not None else 0)

    i = g()
    next(i)
    log.append(i.send(Tracked(log, "a")))
    log.append(i.send(Tracked(log, "b")))
    i.close()
    log.append("closed")


@program
def generator_delegates(log):
    def inner(x):
        yield x.name
        return Tracked(log, "r")

    def outer(x):
        y = yield from inner(x)
        log.append("inner done")
        yield y.name

    log.append(list(outer(Tracked(log, "x"))))


@program
def generator_expression(log):
    total = sum(len(x.name) for x in [Tracked(log, "a"), Tracked(log, "bb")])
    log.append(total)
    i = (x.name for x in [Tracked(log, "c"), Tracked(log, "d")])
    log.append(next(i))
    del i
    log.append("dropped")


@program
def generator_in_cycle(log):
    def g(box):
        x = Tracked(log, "x")
        box.append(i)
        yield x

    box = []
    i = g(box)
    next(i)
    del i, box
    log.append("dropped")
    gc.collect()
    log.append("collected")


@program
def generator_raises(log):
    def g(x):
        yield 1
        raise KeyError(x.name)

    i = g(Tracked(log, "x"))
    next(i)
    try:
        next(i)
    except KeyError as e:
        log.append(repr(e))
    log.append(next(i, "done"))
    log.append("end")


@program
def generator_frame(log):
    def g(x):
        yield x.name
        yield 2

    i = g(Tracked(log, "x"))
    next(i)
    frame = i.gi_frame
    log.append(sorted(frame.f_locals))
    del i
    log.append("dropped")
    log.append(sorted(frame.f_locals))
    del frame
    log.append("end")


@program
def generator_local_written(log):
    def g(x):
        z = [x, (yield 1)]
        yield repr(z[0])

    i = g(Tracked(log, "x"))
    next(i)
    i.gi_frame.f_locals["x"] = "other"
    log.append("written")
    log.append(next(i))
    log.append(next(i, None))
    log.append("end")


@program
def coroutine(log):
    class Waits:
        def __await__(self):
            yield "waiting"
            return Tracked(log, "awaited")

    async def f(x):
        y = await Waits()
        log.append(y.name)
        return x.name

    c = f(Tracked(log, "x"))
    log.append(c.send(None))
    try:
        c.send(None)
    except StopIteration as e:
        log.append(e.value)
    log.append("end")


@program
def coroutine_closed(log):
    class Waits:
        def __await__(self):
            yield 1

    async def f(x):
        async def inner(y):
            await Waits()
            log.append(y)

        await inner(Tracked(log, "y"))
        log.append(x)

    c = f(Tracked(log, "x"))
    c.send(None)
    log.append("waits")
    c.close()
    log.append("closed")


@program
def asynchronous_generator(log):
    async def g(x):
        yield x.name
        log.append("between")
        yield Tracked(log, "y").name

    async def main():
        async for name in g(Tracked(log, "x")):
            log.append(name)

    try:
        main().send(None)
    except StopIteration:
        log.append("end")


@program
def asynchronous_with(log):
    class Manager:
        async def __aenter__(self):
            return Tracked(log, "entered")

        async def __aexit__(self, *args):
            log.append(args[0] and args[0].__name__)
            return True

    async def main():
        async with Manager() as m:
            log.append(m.name)
            raise ValueError(m.name)

    try:
        main().send(None)
    except StopIteration:
        log.append("end")


# ---- frames that outlive their call


@program
def frame_kept(log):
    def f():
        x = Tracked(log, "x")
        y = x
        return sys._getframe() if y else None

    frame = f()
    log.append(sorted(frame.f_locals))
    log.append(frame.f_locals["x"].name)
    frame.clear()
    log.append("cleared")


@program
def frame_locals_written(log):
    x = Tracked(log, "x")
    frame = sys._getframe()
    frame.f_locals["x"] = Tracked(log, "y")
    log.append(x.name)
    x = None
    log.append("none")
    del frame
    log.append("end")
    return x


@program
def frame_locals_proxy_outlives(log):
    def f():
        x = Tracked(log, "x")
        log.append(x.name)
        return sys._getframe().f_locals

    proxy = f()
    log.append(proxy["x"].name)
    del proxy
    log.append("end")


@program
def frame_of_caller_written(log):
    def inner():
        sys._getframe(1).f_locals["x"] = Tracked(log, "new")
        log.append("written")

    def outer(x):
        y = [x.name, inner(), x.name]
        log.append(y)
        del x
        log.append("deleted")

    outer(Tracked(log, "x"))
    log.append("end")


@program
def frame_of_caller_written_on_stack(log):
    def inner():
        sys._getframe(1).f_locals["x"] = Tracked(log, "new")
        log.append("written")

    def outer(x):
        y = [x, inner(), x]
        log.append([y[0].name, y[2].name])
        del y
        log.append("list gone")

    outer(Tracked(log, "x"))
    log.append("end")


@program
def locals_called(log):
    x = Tracked(log, "x")
    d = locals()
    log.append(sorted(d))
    del x
    log.append("deleted")
    d.clear()
    log.append("end")


@program
def traceback_keeps(log):
    def f():
        x = Tracked(log, "x")
        log.append(x.name)
        raise ValueError("v")

    try:
        f()
    except ValueError as e:
        tb = e.__traceback__
    log.append("left")
    tb = tb.tb_next
    frame = tb.tb_frame
    del tb
    log.append(frame.f_locals["x"].name)
    del frame
    log.append("end")


@program
def frame_in_generator_of_caller(log):
    def g():
        yield sys._getframe().f_back.f_locals["x"].name

    x = Tracked(log, "x")
    log.append(next(g()))
    del x
    log.append("end")


@program
def stack_walked(log):
    def f(x):
        frame, names = sys._getframe(), []
        while frame and len(names) < 2:
            names.append((frame.f_code.co_name, sorted(frame.f_locals)[:1]))
            frame = frame.f_back
        return names

    log.append(f(Tracked(log, "x")))
    log.append("end")


# ---- classes, match, globals


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
