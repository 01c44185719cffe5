"""Operands of each kind of instruction, all of them temporaries."""

from lifetimes.objects import Failing, Number, program


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
