"""From reference/simple_stmts, compound_stmts, executionmodel: loops, del, try, with, raise, import, global, class, def."""

import torch

from documented import documented, x

log: list = []
cleared = {"state": lambda: list(log), "setup": log.clear}


@documented(
    "reference/compound_stmts: a for loop over a list that changes goes by position; the target stays, and is unset for the empty",
    lambda: [
        (x(), [1, 2, 3, 4], "remove"),
        (x(), [1, 2, 3], "append"),
        (x(), [1, 2, 3, 4], "pop"),
        (x(), [], "remove"),
        (x(), [5, 6], "clear"),
        (x(), [5, 6], "insert"),
        (x(), [3], "rebind"),
    ],
)
def lists_that_change(t, values, how):
    steps = 0
    for v in values:
        t = t + v
        steps += 1
        if steps > 6:
            break
        if how == "remove":
            values.remove(v)
        elif how == "append":
            values.append(v * 10)
        elif how == "pop":
            values.pop()
        elif how == "clear":
            values.clear()
        elif how == "insert":
            values.insert(0, 0)
        else:
            values, v = [7, 8], 9
    try:
        return t * v, steps, values
    except UnboundLocalError as error:
        return t, str(error)


class Bag:
    def __init__(self):
        self.a, self.b = 1, 2


@documented(
    "reference/simple_stmts: del goes through its targets from left to right; what came before a failing one is gone",
    lambda: [
        (x(), [1, 2, 3, 4, 5, 6], {"a": 1}, Bag(), 1),
        (x(), [1, 2, 3], {}, Bag(), 1),
        (x(), [1, 2, 3, 4], {"a": 2, "b": 3}, Bag(), -1),
        (x(), [1], {"a": 2}, Bag(), 5),
        (x(), (1, 2), {"a": 2}, Bag(), 0),
    ],
)
def deletions(t, items, d, bag, i):
    try:
        del bag.a, (items[i], [d["a"]]), items[::2]
        del bag.b, bag
        t = t * len(items)
        del items[1:], i, i  # noqa: F821
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        return t, type(error).__name__, str(error), vars(bag)  # noqa: F821
    except UnboundLocalError as error:
        return t + 1, str(error), items
    return t


def attempts(kind, n):
    for i in range(3):
        try:
            if i == n:
                1 / 0
            if kind == "return":
                return i
        except ZeroDivisionError as error:
            log.append(type(error.__context__).__name__)
            if kind == "reraise":
                raise
            raise ValueError(kind) from None
        finally:
            log.append(("finally", i))
            if kind == "break":
                break
            if kind == "continue":
                continue
            if kind == "finally raises":
                raise LookupError(i)
    return "end"


@documented(
    "reference/compound_stmts: break, continue and return in finally discard the exception; one raised there has it as its context",
    lambda: [
        (x(), "return", 1),
        (x(), "break", 0),
        (x(), "continue", 1),
        (x(), "finally raises", 0),
        (x(), "finally raises", 2),
        (x(), "reraise", 2),
        (x(), "other", 1),
        (x(), "return", 0),
    ],
    **cleared,
)
def discarded(t, kind, n):
    try:
        got = attempts(kind, n)
    except Exception as error:
        chain = []
        e: BaseException | None = error
        while e is not None:
            chain.append((type(e).__name__, str(e), e.__suppress_context__))
            e = e.__context__
        return t - len(chain), chain
    return t * len(log), got


def returns_list(values):
    try:
        return values
    finally:
        values.append("finally")
        values = ["other"]


@documented(
    "reference/compound_stmts: the value of return is evaluated before finally runs: rebinding there has no effect, mutation has",
    lambda: [(x(), [1]), (x(), []), (x(), [1, 2, 3]), (x(), (1,))],
)
def returned_then_finally(t, values):
    try:
        got = returns_list(values)
    except AttributeError as error:
        return t, str(error), error.name, error.obj is values
    return t * len(got), got is values


class Manager:
    def __init__(self, name, enter=None, swallow=False):
        self.name, self.enter, self.swallow = name, enter, swallow

    def __enter__(self):
        log.append("enter " + self.name)
        if self.enter is not None and isinstance(self.enter, Exception):
            raise self.enter
        return self.enter

    def __exit__(self, *details):
        log.append(("exit " + self.name, *(d if isinstance(d, type) else str(d) for d in details[:2])))
        return self.swallow


class NoExit:
    def __enter__(self):
        log.append("entered")


class OnInstance:
    def __init__(self):
        self.__enter__ = self.__exit__ = lambda *a: None


@documented(
    "reference/compound_stmts: with looks the methods up on the type before entering; an item that fails to enter leaves those before it",
    lambda: [
        (x(), Manager("a", (1, 2)), Manager("b", 3)),
        (x(), Manager("a", (1,)), Manager("b", 3)),
        (x(), Manager("a", (1, 2), True), Manager("b", ValueError("no"))),
        (x(), Manager("a", (1, 2)), NoExit()),
        (x(), OnInstance(), Manager("b")),
        (x(), Manager("a", (1, 2), torch.ones(1)), Manager("b", 0)),
        (x(), Manager("a", (1, 2), torch.ones(2)), Manager("b", 0)),
        (x(), 5, Manager("b")),
    ],
    **cleared,
)
def with_items(t, one, two):
    m = n = k = None
    try:
        with one as (m, n), two as k:
            t = t * 6 // k
            log.append("body")
            t[k] = 1 // k
    except (TypeError, AttributeError, ValueError, ArithmeticError, RuntimeError) as error:
        return t, type(error).__name__, str(error), m, n
    return t, m, n, k


class NeedsTwo(Exception):
    def __init__(self, a, b):
        self.pair = a, b


@documented(
    "reference/simple_stmts: raise makes an instance of a class without arguments; from takes an exception, a class or None",
    lambda: [
        (x(), ValueError, KeyError),
        (x(), ValueError("v"), None),
        (x(), NeedsTwo, None),
        (x(), NeedsTwo(1, 2), ValueError("why")),
        (x(), ValueError, 3),
        (x(), 3, None),
        (x(), int, None),
        (x(), KeyError("k"), KeyError("cause")),
    ],
)
def raised_from(t, what, cause):
    try:
        try:
            t = t * 2
            [][0]
        except IndexError:
            raise what from cause
    except Exception as error:
        e = error
    return t, repr(e), repr(e.__cause__), repr(e.__context__), e.__suppress_context__, e.args, vars(e)


class Claims(type):
    def __instancecheck__(cls, instance):
        log.append("asked")
        return True


class Claimed(Exception, metaclass=Claims):
    pass


def kinds(v):
    log.append(getattr(v, "__name__", str(v)))
    return v


@documented(
    "reference/compound_stmts: except clauses are evaluated in order until one matches, without __instancecheck__; others raise TypeError",
    lambda: [
        (x(), KeyError, ValueError, LookupError),
        (x(), KeyError, Claimed, Exception),
        (x(), Claimed, Claimed, Exception),
        (x(), KeyError, (ValueError, (IndexError,), KeyError), Exception),
        (x(), KeyError, "text", Exception),
        (x(), None, "text", 5),
        (x(), GeneratorExit, Exception, BaseException),
        (x(), ValueError, (ValueError, 3), Exception),
    ],
    **cleared,
)
def except_clauses(t, error, one, two):
    try:
        try:
            t = t + 1
            if error:
                raise error("e")
        except kinds(one):
            return t * 2, "one"
        except kinds(two):
            return t * 3, "two"
        else:
            return t, "none"
    except TypeError as wrong:
        return t, str(wrong), repr(wrong.__context__)
