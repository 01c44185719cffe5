"""Errors kept as values, and effects that stay when an operation fails."""

import sys

import torch

from programs import program


class Bag:
    kind = "bag"

    def __init__(self, **names):
        self.__dict__.update(names)


SHARED: list = []
CURRENT = None


def _reset():
    global CURRENT
    SHARED.clear()
    CURRENT = None


def shared(args=lambda t: (t(),), **options):
    return program("fx_errors", args, setup=_reset, state=lambda: (SHARED, CURRENT), **options)


# Errors as values.


class Problem(Exception):
    def __init__(self, code, payload=None):
        super().__init__(code)
        self.code, self.payload = code, payload


@program("fx_errors", lambda t: (t(), Bag()))
def exception_never_raised_is_stored(x, bag):
    bag.problem = Problem(3, x * 2)
    bag.plain = ValueError("text", 1)
    bag.group = [KeyError("k"), bag.problem]
    return bag.problem.payload + 1, str(bag.plain), bag.group[1] is bag.problem


@program("fx_errors", lambda t: (t(), Bag(last=None)))
def what_was_caught_is_stored_in_parts(x, bag):
    try:
        raise Problem(4, x + 1)
    except Problem as problem:
        bag.last = (type(problem), problem.code, problem.args)
        y = problem.payload
    return y * 2


@program("fx_errors", lambda t: (t(), Bag(last=None)))
def caught_exception_is_stored(x, bag):
    y = x + 1
    try:
        raise Problem(5, y)
    except Problem as problem:
        bag.last = problem
    bag.after = y * 2
    return bag.last.code


@program("fx_errors", lambda t: (t(), Bag(seen=[])))
def exceptions_kept_with_their_chain(x, bag):
    def fail(code):
        try:
            raise KeyError(code)
        except KeyError as error:
            raise Problem(code, x + code) from error

    for code in (1, 2):
        try:
            fail(code)
        except Problem as problem:
            bag.seen.append(problem)
    try:
        try:
            raise ValueError("first")
        finally:
            fail(3)
    except Problem as problem:
        bag.seen.append(problem)
        bag.cause = problem.__cause__
    return x * len(bag.seen)


@program("fx_errors", lambda t: (t(), Bag(log=[])))
def failing_operations_are_caught(x, bag):
    for attempt in (lambda: x + x.new_ones(x.shape[0] + 1), lambda: x.view(-1, x.shape[0] + 1)):
        try:
            attempt()
        except RuntimeError as error:
            bag.log.append(str(error))
    try:
        x.unsqueeze(7)
    except IndexError as error:
        bag.error = error
    return x + len(bag.log)


@program("fx_errors", lambda t: (t(), Bag(log=[])), plain="it raises")
def writes_at_places_that_are_no_indices(x, bag):
    bag.x = x
    for write in (lambda: x.__setitem__(x, 1.0), lambda: x.index_put_((x,), x + 1)):
        try:
            write()
        except IndexError as error:
            bag.log.append(str(error))
    return x + len(bag.log)


@program(
    "fx_errors",
    lambda t: (t(), Problem(1), Bag(seen=[])),
    why="the context of an exception that existed before",
)
def existing_exception_raised_while_another_is_handled(x, problem, bag):
    try:
        try:
            raise ValueError("first")
        except ValueError:
            raise problem
    except Problem as caught:
        bag.seen.append(caught)
    return x * len(bag.seen)


@program("fx_errors", lambda t: (t(), Bag(problem=Problem(1))))
def existing_exception_written(x, bag):
    bag.problem.code = 7
    bag.problem.note = x
    return bag.problem.code, bag.problem.note + 1


@program("fx_errors", lambda t: (t(), []))
def exceptions_chained_and_dropped(x, log):
    try:
        try:
            raise KeyError("inner")
        except KeyError as inner:
            log.append(("inner", str(inner)))
            raise Problem("outer", x) from inner
    except Problem as outer:
        log.append((str(outer.__cause__), outer.__context__ is outer.__cause__, outer.__suppress_context__))
        y = outer.payload + 1
    return y


# An operation that fails inside `try` after an effect.


@shared(lambda t: (t(), {"done": []}), known="an operation that fails inside try after an effect")
def failing_add_after_global_and_dict(x, table):
    global CURRENT
    for other in (torch.ones(9), 1):
        try:
            CURRENT = len(table["done"])
            table["done"].append("try")
            SHARED.append(x + other)
            table["ok"] = other
        except RuntimeError as error:
            table["done"].append(type(error).__name__)
    return SHARED[-1], CURRENT


@program("fx_errors", lambda t: (t(), []), known="an operation that fails inside try after an effect")
def failing_key_after_a_cell(x, log):
    n = 0

    def attempt(key):
        nonlocal n
        n += 1
        log.append(key)
        return {"a": x}[key] * n

    total = x * 0
    for key in "aba":
        try:
            total = total + attempt(key)
        except KeyError:
            n *= 10
    return total, n


@program("fx_errors", lambda t: (t(), Bag(v=0)), known="an operation that fails inside try after an effect")
def failing_callee_after_its_own_effects(x, bag):
    def deep(k):
        bag.v += k
        try:
            if k == 2:
                raise Problem(k)
            return deep(k + 1)
        finally:
            bag.trail = [*getattr(bag, "trail", []), k]

    try:
        deep(0)
    except Problem as problem:
        bag.code = problem.code
    return x + bag.v


@program("fx_errors", lambda t: (t(), Bag(v=0), []), known="an operation that fails inside try after an effect")
def partial_effects_of_a_comprehension(x, bag, log):
    def item(k):
        log.append(k)
        bag.v = k
        if k == 2:
            raise StopIteration
        return x * k

    try:
        made = [item(k) for k in range(4)]
    except StopIteration:
        made = None
    return made, x + bag.v


# Printed text and order.


@shared()
def handled_exception_is_asked_for(x):
    seen = [sys.exception()]
    try:
        try:
            raise KeyError("outer")
        except KeyError as error:
            seen.append(sys.exception() is error)
            raise ValueError("inner") from sys.exception()
    except ValueError as error:
        seen.append((sys.exception() is error, str(error.__cause__)))
    SHARED.append((seen, sys.exception()))
    return x + len(seen)
