"""What lives across an explicit break: objects that die there, and managers made before it."""

import weakref

import torch
from e2e.front import graph_break

from programs import program

CATEGORY = "across_breaks"


class Bag:
    def __init__(self, **names):
        self.__dict__.update(names)


class Target:
    def __init__(self, v):
        self.v = v


# Objects that die in the middle of the call: what held them is given up in the same segment as the reference is asked.


def _held(t):
    return t(), Bag(inner=Target(t()), ref=None)


@program(CATEGORY, _held, why="whether the object is gone is known only when the segment runs")
def held_by_a_deleted_local(x, bag):
    owner = Bag(inner=Target(x))
    ref = weakref.ref(owner.inner)
    graph_break()
    alive = ref() is None
    del owner
    return x + 1, alive, ref() is None


@program(CATEGORY, _held, why="whether the object is gone is known only when the segment runs")
def held_by_a_reassigned_local(x, bag):
    owner = [Target(x)]
    bag.ref = weakref.ref(owner[0])
    graph_break()
    owner = [x]
    return bag.ref() is None, owner[0] + 1


@program(CATEGORY, _held, why="whether the object is gone is known only when the segment runs")
def held_by_an_attribute_that_goes(x, bag):
    bag.ref = weakref.ref(bag.inner)
    graph_break()
    before = bag.ref() is bag.inner
    bag.inner = x
    return before, bag.ref() is None, x + 1


@program(CATEGORY, _held, why="whether the object is gone is known only when the segment runs")
def held_by_a_local_of_the_caller(x, bag):
    owner = Bag(inner=Target(x))
    ref = weakref.ref(owner.inner)

    def ask():
        return ref() is None

    graph_break()
    alive = ask()
    owner = None
    return alive, ask(), x + 1, owner


@program(CATEGORY, _held, why="whether the object is gone is known only when the segment runs")
def held_by_a_list_that_shrinks(x, bag):
    row = [Target(x), Target(x)]
    first, second = weakref.ref(row[0]), weakref.ref(row[1])
    graph_break()
    kept = row.pop()
    row.clear()
    return first() is None, second() is kept, x + 1


# A manager made before a break, and a break inside it.


@program(CATEGORY, lambda t: (t(grad=True),), why="graph_break between")
def grad_mode_object_made_before_a_break(x):
    off = torch.no_grad()
    y = x * 2
    graph_break()
    with off:
        z = y * 2
        graph_break()
        w = y * 3
    return y, z, w, torch.is_grad_enabled()


# Exceptions from before the segment.


class Slow(Exception):
    def __init__(self, code, payload):
        print("made", code)
        super().__init__(code)
        self.payload = payload


@program(CATEGORY, lambda t: (t(),), why="the text is printed by its constructor")
def exception_whose_init_breaks(x):
    made = Slow(3, x + 1)
    return made.args, str(made), made.payload * 2


def caught(code):
    try:
        raise ValueError(code)
    except ValueError as error:
        return error


@program(CATEGORY, lambda t: (t(), caught(1)), why="no effect writes what an exception holds in C")
def exception_initialised_again(x, error):
    y = x * 2
    BaseException.__init__(error, 5, "six")
    return y, error.args, repr(error)


@program(CATEGORY, lambda t: (t(), caught(2)), why="no effect writes what an exception holds in C")
def exception_without_its_traceback(x, error):
    y = x * 2
    same = error.with_traceback(None) is error
    return y, same, error.__traceback__ is None


@program(CATEGORY, lambda t: (t(), caught(3), [caught(4)]), why="no effect writes what an exception holds in C")
def fields_of_exceptions_from_before(x, error, others):
    error.__cause__ = others[0]
    error.args = (x.dim(), *others[0].args)
    error.add_note("note")
    others[0].__suppress_context__ = True
    return x + 1, error.__notes__, repr(error)
