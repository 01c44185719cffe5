"""Exceptions raised and caught inside; what leaves the function is in errors.py."""

import contextlib

from programs import program


class Refused(Exception):
    def __init__(self, code, payload):
        super().__init__(f"refused {code}")
        self.code = code
        self.payload = payload


class RefusedHard(Refused):
    pass


@program("exceptions")
def order_of_clauses(x):
    log = []
    for step in range(3):
        try:
            log.append("try")
            if step == 1:
                raise ValueError(step)
        except ValueError as error:
            log.append(error.args)
        else:
            log.append("else")
            x = x + step
        finally:
            log.append("finally")
    return x, log


@program("exceptions")
def custom_exception_carries_a_tensor(x):
    def check(y, code):
        if code > 1:
            raise RefusedHard(code, y * 2)
        return y

    try:
        check(x, 1)
        check(x, 2)
    except Refused as error:
        return error.payload + error.code, str(error), type(error).__name__, isinstance(error, RefusedHard)


@program("exceptions")
def first_matching_handler(x):
    taken = []
    for make in (lambda: {}["k"], lambda: [][3], lambda: int("no"), lambda: None.nothing, lambda: 1 // 0):
        try:
            make()
        except (KeyError, IndexError) as error:
            taken.append(("lookup", type(error).__name__, str(error)))
        except ArithmeticError as error:
            taken.append(("arithmetic", str(error)))
        except Exception as error:
            taken.append(("other", str(error)))
    return x + len(taken), taken


@program("exceptions")
def raise_from_and_context(x):
    facts = []
    try:
        try:
            raise KeyError("inner")
        except KeyError as inner:
            raise ValueError("outer") from inner
    except ValueError as error:
        facts.append((repr(error.__cause__), error.__suppress_context__, error.__context__ is error.__cause__))
    try:
        try:
            raise KeyError("first")
        except KeyError:
            raise ValueError("second")  # noqa: B904
    except ValueError as error:
        facts.append((repr(error.__cause__), repr(error.__context__)))
    return x * len(facts), facts


@program("exceptions")
def bare_raise(x):
    def inner():
        try:
            raise ValueError("again")
        except ValueError:
            raise

    try:
        inner()
    except ValueError as error:
        message = str(error)
    try:
        error  # noqa: B018, F821
    except UnboundLocalError:
        return x + 1, message


@program("exceptions")
def finally_overrides(x):
    def returns():
        try:
            return x
        finally:
            return x + 1  # noqa: B012

    def swallows():
        try:
            raise ValueError
        finally:
            return x * 2  # noqa: B012

    def keeps():
        value = x
        try:
            return value
        finally:
            value = value * 3

    return returns(), swallows(), keeps()


@program("exceptions")
def finally_in_loops(x):
    log = []
    for i in range(5):
        try:
            if i == 1:
                continue
            if i == 3:
                break
            log.append(i)
        finally:
            log.append(-i)
            x = x + i
    return x, log


@program("exceptions")
def nested_tries(x):
    log = []
    try:
        try:
            try:
                raise IndexError("deep")
            finally:
                log.append("f1")
                x = x + 1
        except KeyError:
            log.append("wrong")
        finally:
            log.append("f2")
            x = x * 2
    except LookupError as error:
        log.append(str(error))
    return x, log


@program("exceptions", lambda t: (t(), {"a": 1}, [1, 2]))
def errors_from_containers(x, table, row):
    messages = []

    def attempt(f):
        try:
            f()
        except Exception as error:
            messages.append((type(error).__name__, str(error)))

    attempt(lambda: table["missing"])
    attempt(lambda: row[7])
    attempt(lambda: row.remove(9))
    attempt(lambda: table.pop("z"))
    attempt(lambda: row.index("q"))
    attempt(lambda: [].pop())
    attempt(lambda: set().pop())
    attempt(lambda: next(iter(())))
    attempt(lambda: (1, 2).index(3))
    attempt(lambda: "abc"[5])
    attempt(lambda: "a" + 1)
    attempt(lambda: {[]: 1})
    attempt(lambda: setattr(1, "a", 2))
    attempt(lambda: undefined_name)  # noqa: F821
    a, b = row
    try:
        a, b, c = row
    except ValueError as error:
        messages.append(str(error))
    return x + a + b, messages


@program("exceptions", lambda t: (t(), t(t.n + 1)))
def assertion_caught(x, y):
    try:
        assert x.shape == y.shape, ("shapes", tuple(y.shape)[1:])
    except AssertionError as error:
        return x - 1, error.args
    return x


@program("exceptions")
def stop_iteration_by_hand(x):
    it = iter([x, x + 1])
    parts = []
    while True:
        try:
            parts.append(next(it))
        except StopIteration:
            break
    return parts, next(it, "done")


@program("exceptions")
def suppressed(x):
    with contextlib.suppress(KeyError, ZeroDivisionError):
        x = x + 1
        {}["k"]
        x = x * 100
    with contextlib.suppress(ValueError):
        x = x + 2
    return x


@program("exceptions")
def exception_as_value(x):
    errors = [ValueError("a", 1), KeyError("k"), Refused(3, x)]
    made = RuntimeError("msg")
    made.extra = x + 1
    made.add_note("note")
    return [e.args for e in errors], repr(errors[0]), str(errors[1]), errors[2].payload, made.extra, made.__notes__


@program("exceptions")
def raise_a_class(x):
    try:
        raise RefusedHard(1, None) if x.dim() > 3 else KeyError
    except KeyError as error:
        return x + 1, error.args
    finally:
        x = None


@program("exceptions")
def stores_before_the_raise_stay(x):
    record = {}

    def work():
        record["before"] = x + 1
        raise ValueError("stop")
        record["after"] = 1

    try:
        work()
    except ValueError as error:
        record["error"] = str(error)
    return record


@program("exceptions", one_graph=False)
def except_star(x):
    caught = []
    try:
        raise ExceptionGroup("many", [ValueError(1), KeyError(2), ValueError(3)])
    except* ValueError as group:
        caught.append(len(group.exceptions))
        x = x + 1
    except* KeyError as group:
        caught.append([e.args for e in group.exceptions])
    return x, caught
