"""From "What's New In Python 3.14": except without parentheses, finally, warnings, and errors a program can read."""

import ast
import contextlib
import contextvars
import warnings

import torch

from documented import documented, x
from documented.attempts import attempt

log: list = []
cleared = {"state": lambda: list(log), "setup": log.clear}
kinds = {"v": ValueError, "t": TypeError, "k": KeyError, "s": StopIteration, "z": ZeroDivisionError}


@documented(
    "PEP 758: classes of an except clause are evaluated only when an exception reaches it, in their order",
    lambda: [(x(), "v"), (x(), "k"), (x(2), ""), (x(2), "z")],
    **cleared,
)
def evaluated_clauses(t, what):
    def noted(kind):
        log.append(kind.__name__)
        return kind

    try:
        t = t * 2
        if what:
            raise kinds[what](what)
    except noted(ValueError), noted(TypeError):
        return t + 1
    except noted(KeyError), noted(LookupError):
        return t + 2
    except noted(Exception):
        return t + 3
    return t


@documented(
    "PEP 758: clauses without parentheses in a loop with break, continue and else",
    lambda: [(x(), "vtk"), (x(), "v"), (x(2), ""), (x(2), "kv")],
)
def clauses_in_loops(t, codes):
    for code in codes:
        try:
            t = t + 1
            raise kinds[code](code)
        except ValueError, TypeError:
            t = t * 2
            continue
        except KeyError, IndexError:
            break
    else:
        t = t - 5
    return t


@documented(
    "PEP 758: nested clauses that raise anew keep context and cause",
    lambda: [(x(), "v"), (x(), "t"), (x(2), "k"), (x(2), "s")],
)
def raised_anew(t, what):
    try:
        try:
            t = t.sin()
            raise kinds[what]("first")
        except ValueError, TypeError:
            raise RuntimeError("second") from None
        except KeyError, StopIteration:
            raise LookupError("third")  # noqa: B904
    except RuntimeError, LookupError:
        pass
    try:
        raise kinds[what]("again")
    except ValueError, TypeError, KeyError, StopIteration:
        t = t + 1
    return t, what


@documented(
    "PEP 758: a clause whose tuple is a name's value; a class that is none raises TypeError",
    lambda: [(x(), (ValueError,)), (x(), (KeyError, (ValueError,))), (x(2), int), (x(2), ())],
)
def clauses_of_values(t, kind):
    try:
        try:
            raise ValueError("inner")
        except kind, KeyError:
            return t * 2
    except TypeError as error:
        return t, str(error)
    except ValueError as error:
        return t + 1, str(error)


@documented(
    "PEP 758: except* without parentheses, with else and finally, in a generator",
    lambda: [(x(), "v"), (x(), "vt"), (x(2), ""), (x(2), "vtk")],
    **cleared,
)
def groups_in_generators(t, codes):
    def work():
        try:
            yield t * 2
            if codes:
                raise ExceptionGroup("g", [kinds[c](c) for c in codes])
        except* ValueError, TypeError:
            log.append("taken")
            yield t * 3
        else:
            yield t * 4
        finally:
            log.append("finally")

    seen = []
    try:
        for v in work():
            seen.append(v + 1)
    except ExceptionGroup as rest:
        seen.append(str(rest.exceptions[0]))
    return seen


@documented(
    "PEP 765: return in finally wins over return in try and over what was raised",
    lambda: [(x(), 0), (x(), 1), (x(2), 2), (x(2), 3)],
    **cleared,
)
def returned_finally(t, n):
    def inner():
        try:
            if n == 1:
                raise ValueError(n)
            return t * 2
        except ValueError:
            return t * 3
        finally:
            log.append(n)
            if n == 2:
                return t * 4

    return inner() + 1


@documented(
    "PEP 765: continue in finally swallows, in nested loops",
    lambda: [(x(), [1, 0, 2]), (x(), []), (x(2), [0, 0]), (x(2), [4])],
)
def continued_finally(t, values):
    rounds = 0
    for v in values:
        while rounds < 6:
            rounds += 1
            try:
                t = t + 6 // v
                break
            finally:
                if rounds % 2:
                    continue
                break
    return t, rounds


@documented(
    "PEP 765: the compiler warns for a return that leaves a finally block",
    lambda: [(x(), "return"), (x(), "break"), (x(2), "continue"), (x(2), "pass")],
)
def warned_by_the_compiler(t, word):
    source = f"def f():\n for i in (1,):\n  try: pass\n  finally: {word}\n"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compile(source, "<program>", "exec")
    return t + len(caught), [str(w.message) for w in caught]


@documented(
    "reference/lexical_analysis: messages of the compiler for what is nearly right",
    lambda: [
        (x(), "whille True: pass"),
        (x(), "if 1: pass\nelif 2: pass\nelse: pass\nelif 3: pass"),
        (x(2), "x = 1 if 2 else pass"),
        (x(2), "1 + 1"),
    ],
)
def messages_of_the_compiler(t, source):
    try:
        ast.parse(source)
    except SyntaxError as error:
        return t, error.msg, error.lineno
    return t * 2


@documented(
    "reference/expressions: messages of unpacking and of unhashable keys say more",
    lambda: [(x(), (1, 2, 3)), (x(), (1,)), (x(2), [1, 2]), (x(2), {})],
)
def messages_of_unpacking(t, values):
    try:
        a, b = values
        return t * a + b, attempt(lambda: {values: 1}, lambda: {values})
    except ValueError as error:
        return t, str(error), attempt(lambda: {values: 1}, lambda: {}[values])


@documented(
    "reference/compound_stmts: with and async with say which protocol is missing",
    lambda: [(x(), 1), (x(), contextlib.nullcontext(2)), (x(2), None), (x(2), contextlib.suppress())],
)
def missing_protocols(t, manager):
    try:
        with manager as value:
            return t * (value or 3)
    except TypeError as error:
        return t, str(error)


flag = contextvars.ContextVar("flag", default="unset")


@documented(
    "library/contextvars: tokens as managers nest, and give back what was, also by return",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 0)],
)
def nested_tokens(t, n):
    def inner():
        with flag.set("outer"):
            for i in range(n):
                with flag.set(i):
                    if i == 1:
                        return t * 2, flag.get()
        return t, flag.get()

    return inner(), flag.get()


@documented(
    "library/contextvars: a token is used once; another context's run() keeps its own",
    lambda: [(x(), 1), (x(), 2), (x(2), 3), (x(2), 0)],
)
def spent_tokens(t, n):
    token = flag.set(n)
    with token:
        t = t + flag.get()
    seen = attempt(lambda: flag.reset(token))
    inside = contextvars.copy_context().run(lambda: (flag.set("inside"), flag.get())[1])
    return t, [s.partition(" ")[0] for s in seen], inside, flag.get()


@documented(
    "reference/compound_stmts: guards of a match with exceptions in them",
    lambda: [(x(), [1, 0]), (x(), [4, 2]), (x(2), []), (x(2), {"k": 1})],
)
def guards_that_raise(t, value):
    try:
        match value:
            case [a, b] if a / b > 1:
                return t * a
            case {"k": k, **rest}:
                return t + k, rest
            case _:
                return t
    except ZeroDivisionError, OverflowError:
        return t - 1


@documented(
    "reference/simple_stmts: assert, del and raise under suppress, with notes",
    lambda: [(x(), 0), (x(), 1), (x(2), 2), (x(2), 3)],
    **cleared,
)
def suppressed_with_notes(t, n):
    with contextlib.suppress(ExceptionGroup, AssertionError):
        t = t * 2
        assert n != 1, "one"
        if n > 1:
            error = ValueError(n)
            error.add_note(f"note {n}")
            raise ExceptionGroup("g", [error, KeyError(n)] if n > 2 else [error])
        t = t * 3
    return t


@documented(
    "PEP 765: finally in a coroutine that is closed; its return is swallowed",
    lambda: [(x(), True), (x(), False), (x(2), True), (x(2), False)],
    **cleared,
)
def closed_coroutines(t, swallow):
    class Pause:
        def __await__(self):
            yield t * 2

    async def work():
        try:
            await Pause()
        finally:
            log.append("finally")
            if swallow:
                return 1

    made = work()
    first = made.send(None)
    return first + 1, attempt(made.close)


@documented(
    "library/warnings: what is warned inside catch_warnings() stays inside, around operations",
    lambda: [(x(), UserWarning), (x(), DeprecationWarning), (x(2), UserWarning), (x(2), RuntimeWarning)],
)
def warnings_inside(t, kind):
    with warnings.catch_warnings(record=True, action="always") as caught:
        t = t + 1
        warnings.warn("inside", kind)
        t = t * len(caught)
    warnings.warn("outside", kind)
    return t, [str(w.message) for w in caught], torch.is_grad_enabled()
