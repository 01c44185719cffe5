"""Side effects of generators: what runs when, and what remains of one that escapes."""

import contextlib

from programs import program

KNOWN = "a generator rebuilt so that a tensor mutation is ignored"


class Box:
    def __init__(self, **items):
        self.__dict__.update(items)


@program("fx_generators", lambda t: (t(), []))
def generator_runs_only_when_asked(x, log):
    def steps():
        log.append("begin")
        yield 1
        log.append("middle")
        yield 2
        log.append("end")

    g = steps()
    log.append("made")
    first = next(g)
    log.append("between")
    rest = list(g)
    return first, rest, x + len(log)


@program("fx_generators", lambda t: (t(), []))
def generator_closed_runs_finally(x, log):
    def steps():
        try:
            yield 1
            yield 2
        finally:
            log.append("finally")

    g, fresh = steps(), steps()
    next(g)
    g.close()
    g.close()
    fresh.close()
    return next(g, "over"), next(fresh, "never begun"), x + len(log)


@program("fx_generators", lambda t: (t(), []))
def generator_that_ignores_close(x, log):
    def stubborn():
        try:
            yield 1
        except GeneratorExit:
            log.append("exit seen")
            yield 2

    g = stubborn()
    next(g)
    try:
        g.close()
    except RuntimeError as error:
        log.append(str(error))
    return x + len(log)


@program("fx_generators", lambda t: (t(), []))
def generator_thrown_into(x, log):
    def steps():
        while True:
            try:
                log.append((yield len(log)))
            except KeyError as error:
                log.append(error.args)
            finally:
                log.append("turn")

    g = steps()
    next(g)
    got = g.send("a"), g.throw(KeyError("k")), next(g)
    try:
        g.throw(OSError)
    except OSError as error:
        log.append(type(error).__name__)
    return got, next(g, "dead"), x + len(log)


@program("fx_generators", lambda t: (t(), []))
def generator_thrown_into_before_it_began(x, log):
    def steps():
        log.append("never")
        yield 1

    g = steps()
    try:
        g.throw(ValueError("early"))
    except ValueError as error:
        log.append(str(error))
    try:
        steps().send(5)
    except TypeError as error:
        log.append(str(error))
    return next(g, "dead"), x + len(log)


@program("fx_generators", lambda t: (t(), []))
def generator_raises_stop_iteration_inside(x, log):
    def bad():
        yield 1
        raise StopIteration("inner")

    g = bad()
    try:
        for item in g:
            log.append(item)
    except RuntimeError as error:
        log.append(str(error))
    return x + len(log)


@program("fx_generators", lambda t: (t(), []))
def generator_return_value_read_from_the_exception(x, log):
    def steps():
        yield 1
        return [x, "returned"]

    g = steps()
    next(g)
    try:
        next(g)
    except StopIteration as stop:
        log.append(stop.value)
    return log[0][1], x + 1


@program("fx_generators", lambda t: (t(), []))
def generator_delegates_to_many(x, log):
    def inner(name, n):
        for i in range(n):
            got = yield name, i
            log.append((name, got))
        return name * n

    def outer():
        a = yield from inner("a", 2)
        b = yield from (i for i in (7, 8))
        c = yield from [x]
        d = yield from "z"
        log.append((a, b, c, d))

    g = outer()
    out = [next(g), g.send("s1"), g.send("s2")]
    out += list(g)
    return out, x + len(log)


@program("fx_generators", lambda t: (t(), []))
def generator_delegation_passes_throw_and_close(x, log):
    def inner():
        try:
            while True:
                try:
                    yield "inner"
                except ValueError as error:
                    log.append(str(error))
        finally:
            log.append("inner finally")

    def outer():
        try:
            yield from inner()
        finally:
            log.append("outer finally")

    g = outer()
    next(g)
    got = g.throw(ValueError("through"))
    g.close()
    return got, x + len(log)


@program("fx_generators", lambda t: (t(), []))
def generator_escapes_unstarted(x, log):
    def steps(n):
        log.append("begin")
        for i in range(n):
            yield x * i

    return steps(3), x + 1


@program("fx_generators", lambda t: (t(), [1, 2]))
def generator_expression_escapes_unstarted(x, row):
    g = (x * item for item in row)
    row.append(3)
    return g, x + 1


@program("fx_generators", lambda t: (t(), []))
def generator_escapes_started(x, log):
    def steps():
        try:
            for i in range(4):
                log.append(i)
                yield x * i
        finally:
            log.append("end")

    g = steps()
    next(g)
    return g, x + 1


@program("fx_generators", lambda t: (t(), Box()))
def generator_kept_on_an_object_started(x, box):
    def steps():
        y = x
        while True:
            y = y + 1
            box.seen = y
            yield y

    box.steps = steps()
    first = next(box.steps)
    return first, next(box.steps) + x


@program("fx_generators", lambda t: (t(), []))
def generator_exhausted_escapes(x, log):
    def steps():
        yield 1
        log.append("end")

    g = steps()
    list(g)
    return g, x + 1


@program("fx_generators", lambda t: (t(), Box(held=None)), hits=False)
def generator_passed_between_calls(x, box):
    def steps():
        for i in range(5):
            yield x + i

    def take(g):
        return next(g)

    box.held = steps()
    return take(box.held), take(box.held), box.held


def _given():
    def steps():
        log.append("begin")
        try:
            yield 1
            yield 2
            yield 3
        finally:
            log.append("finally")

    log: list = []
    return Box(steps=steps(), log=log)


@program(
    "fx_generators", lambda t: (t(), _given()), hits=False, why="a generator that existed before is resumed for real"
)
def generator_given_is_consumed(x, box):
    first = next(box.steps)
    for item in box.steps:
        x = x + item
    return first, next(box.steps, "over"), x


@program(
    "fx_generators", lambda t: (t(), _given()), hits=False, why="a generator that existed before is resumed for real"
)
def generator_given_is_closed(x, box):
    next(box.steps)
    box.steps.close()
    return next(box.steps, "closed"), x + len(box.log)


@program("fx_generators", lambda t: (t(),), known=KNOWN)
def generator_that_writes_a_tensor(x):
    def steps():
        for i in range(3):
            x.add_(1)
            yield x[0] * i

    g = steps()
    first = next(g)
    before = x.clone()
    rest = list(g)
    return first, before, rest, x


@program("fx_generators", lambda t: (t(),), known=KNOWN)
def generator_unstarted_escapes_after_a_tensor_write(x):
    buffer = x * 1

    def steps():
        for _ in range(2):
            buffer.mul_(2)
            yield buffer.clone()

    g = steps()
    buffer.add_(1)
    return g, buffer.sum()


@program("fx_generators", lambda t: (t(), []), known=KNOWN)
def generator_sees_tensor_writes_between_its_steps(x, log):
    def running():
        while True:
            log.append(x.sum())
            yield log[-1]

    g = running()
    a = next(g)
    x.zero_()
    b = next(g)
    x.add_(1)
    return a, b, next(g)


@program("fx_generators", lambda t: (t(),), known=KNOWN)
def generator_started_escapes_after_a_tensor_write(x):
    def steps():
        for i in range(3):
            x.add_(1)
            yield x * i

    g = steps()
    next(g)
    return g, x * 2


@program("fx_generators", lambda t: (t(), []))
def generator_escapes_inside_yield_from(x, log):
    def inner(scale):
        with contextlib.suppress(KeyError):
            for i in (1, 2):
                log.append(("inner", (yield x * i * scale)))
        return "done"

    def outer(*, scale):
        nonlocal x
        x = x + 1
        log.append((yield from inner(scale)))
        yield from [x, 3]

    g = outer(scale=2)
    first = next(g)
    x = x * 10
    return first, g, g.send("sent"), x


@program("fx_generators", lambda t: (t(),))
def generators_that_hold_each_other(x):
    held = []

    def steps(of):
        while True:
            yield x + len(of)

    a = steps(held)
    held.append(a)
    b = steps([a])
    next(a)
    next(b)
    held.append(b)
    return a, x * 2


@program("fx_generators", lambda t: (t(), [1, 2, 3]))
def generator_abandoned_by_break(x, row):
    log = []

    def steps():
        try:
            for item in row:
                yield item
        finally:
            log.append("finally")

    for item in steps():
        if item == 2:
            break
    return log, x + item


@program("fx_generators", lambda t: (t(), []), why="when it dies is not known to the capture")
def generator_dies_with_its_variable(x, log):
    def steps():
        try:
            yield x
            yield x + 1
        finally:
            log.append("finally")

    g = steps()
    y = next(g)
    log.append("before")
    g = None
    log.append("after")
    return y + len(log)


@program("fx_generators", lambda t: (t(), []))
def generator_left_by_return_inside_the_loop(x, log):
    def steps():
        try:
            for i in range(5):
                yield i
        finally:
            log.append("finally")

    def first_above(limit):
        for item in steps():
            if item > limit:
                return item
        return None

    found = first_above(1), first_above(2)
    log.append("returned")
    return found, x + len(log)


@program("fx_generators", lambda t: (t(), []))
def generator_contexts_inside(x, log):
    @contextlib.contextmanager
    def scope(name):
        log.append(("enter", name))
        try:
            yield name
        finally:
            log.append(("exit", name))

    def steps():
        with scope("outer"):
            for i in range(3):
                with scope(i):
                    yield x + i

    g = steps()
    first = next(g)
    second = next(g)
    g.close()
    return first, second, x + len(log)


@program("fx_generators", lambda t: (t(), {"n": 0}))
def generator_shares_state_with_its_caller(x, state):
    def steps():
        while state["n"] < 10:
            state["n"] += 1
            state["n"] = (yield state["n"]) or state["n"]

    g = steps()
    out = [next(g), g.send(5), next(g)]
    state["n"] = 8
    out += [*g]
    return out, x + state["n"]


@program("fx_generators", lambda t: (t(), []))
def generators_over_each_other(x, log):
    def source():
        for i in range(4):
            log.append(("source", i))
            yield i

    def doubled(items):
        for item in items:
            log.append(("doubled", item))
            yield item * 2

    chain = (v + 1 for v in doubled(source()) if v != 2)
    first = next(chain)
    return first, list(chain), x + len(log)


@program("fx_generators", lambda t: (t(), []))
def generator_running_calls_itself(x, log):
    def steps():
        try:
            next(g)
        except ValueError as error:
            log.append(str(error))
        yield 1

    g = steps()
    return next(g), x + len(log)


@program("fx_generators", lambda t: (t(), []))
def generator_raises_after_an_effect(x, log):
    def steps():
        log.append("one")
        yield x
        log.append("two")
        raise LookupError("inside")

    out = []
    g = steps()
    try:
        for y in g:
            out.append(y)
    except LookupError as error:
        out.append(str(error))
    return out, list(g), x + len(log)


class Tree:
    def __init__(self, value, *children):
        self.value = value
        self.children = list(children)
        self.visits = 0

    def walk(self):
        self.visits += 1
        yield self
        for child in self.children:
            yield from child.walk()


@program("fx_generators", lambda t: (t(), Tree(1, Tree(2, Tree(3)), Tree(4))))
def generator_method_over_a_tree_that_changes(x, tree):
    for node in tree.walk():
        node.value = x * node.value
        if node.visits == 1 and len(tree.children) < 4:
            tree.children.append(Tree(5))
    return tree.children[-1].value, x + len(tree.children)


@program("fx_generators", lambda t: (t(), [1, 2, 3]))
def generator_expression_binds_its_source_at_once(x, row):
    factor = 2
    g = (item * factor for item in row)
    row, factor = [100], 3
    late = ((i, j) for i in row for j in row)
    row = [0, 1]
    return list(g), list(late), x + 1


@program("fx_generators", lambda t: (t(), []))
def generator_with_walrus_and_locals(x, log):
    if any((found := v) > 1 and log.append(v) is None for v in (0, 1, 2, 3)):
        x = x + found
    total = 0
    running = [total := total + v for v in range(4)]
    return found, running, total, x
