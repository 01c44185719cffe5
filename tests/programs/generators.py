"""Generators, comprehensions and iterators."""

import itertools

from programs import program


@program("generators")
def generator_expressions(x):
    total = sum(x * i for i in range(4))
    return total, list(y + 1 for y in (x, total)), any(i > 2 for i in range(5)), dict((i, x) for i in range(2))


@program("generators")
def generator_function(x):
    def steps(n):
        y = x
        for i in range(n):
            y = y + i
            yield y

    return [y * 2 for y in steps(3)], sum(steps(2))


@program("generators")
def generator_with_effects(x):
    log = []

    def numbers():
        log.append("start")
        for i in range(3):
            yield i
            log.append(("after", i))
        log.append("end")

    for i in numbers():
        log.append(("body", i))
        x = x + i
    return x, log


@program("generators")
def yield_from_and_return_value(x):
    def inner(n):
        for i in range(n):
            yield x + i
        return n * 10

    def outer():
        a = yield from inner(2)
        b = yield from [x * 2]
        yield x * a
        return b

    g = outer()
    parts = list(g)
    return parts


@program("generators")
def send_and_close(x):
    log = []

    def accumulate():
        total = x
        try:
            while True:
                k = yield total
                if k is None:
                    k = 1
                total = total + k
        finally:
            log.append("closed")

    g = accumulate()
    next(g)
    a = g.send(5)
    b = next(g)
    g.close()
    return a, b, log, next(g, "over")


@program("generators")
def throw_into_generator(x):
    def worker():
        y = x
        while True:
            try:
                y = y + (yield y)
            except ValueError as error:
                y = y * error.args[0]

    g = worker()
    next(g)
    return g.send(2), g.throw(ValueError(3)), g.send(1)


@program("generators")
def left_suspended(x):
    def forever():
        i = 0
        while True:
            yield x + i
            i += 1

    g = forever()
    a = next(g)
    for y in g:
        if y is not a:
            break
    return a, y, next(g)


@program("generators")
def pipeline(x):
    def source():
        yield from range(6)

    def keep(it):
        for i in it:
            if i % 2 == 0:
                yield i

    def scale(it, by):
        return (x * i * by for i in it)

    return list(scale(keep(source()), 3))


@program("generators")
def two_generators_interleaved(x):
    def count(name, n):
        for i in range(n):
            yield name, x + i

    out = []
    a, b = count("a", 3), count("b", 2)
    for left, right in zip(a, b):
        out += [left, right]
    out.append(next(a, None))
    return out


@program("generators")
def comprehensions(x):
    rows = [[x + i * j for j in range(3) if j != 1] for i in range(2)]
    pairs = [(i, j) for i in range(3) for j in range(i)]
    table = {f"k{i}": x * i for i in range(3) if i}
    return rows, pairs, table, {i % 2 for i in range(5)}, [*(i for i in "ab")]


class Countdown:
    def __init__(self, start):
        self.start = start
        self.steps = 0

    def __iter__(self):
        self.now = self.start
        return self

    def __next__(self):
        self.steps += 1
        if self.now == 0:
            raise StopIteration
        self.now -= 1
        return self.now


class Tree:
    def __init__(self, value, *children):
        self.value, self.children = value, children

    def __iter__(self):
        yield self.value
        for child in self.children:
            yield from child


@program("generators", lambda t: (t(), Countdown(4)))
def iterator_class(x, countdown):
    for i in countdown:
        x = x + i
    return x, list(countdown), 2 in countdown


@program("generators", lambda t: (t(), Tree(t(), Tree(t()), Tree(t(), Tree(t())))))
def recursive_generator_method(x, tree):
    for value in tree:
        x = x + value
    return x, len(list(tree))


class Sequence:
    def __init__(self, *items):
        self.items = items

    def __getitem__(self, i):
        return self.items[i]

    def __len__(self):
        return len(self.items)


@program("generators", lambda t: (t(), Sequence(1, 2, 3)))
def old_style_iteration(x, sequence):
    return x * sum(sequence), list(reversed(sequence)), list(enumerate(sequence, 5)), 2 in sequence


@program("generators")
def builtin_iterators(x):
    items = [3, 1, 2]
    it = iter(items)
    first = next(it)
    rest = list(it)
    state = {"n": 0}

    def tick():
        state["n"] += 1
        return state["n"]

    return (
        x + first,
        rest,
        list(zip(items, "abc", range(9))),
        list(map(lambda a, b: a * b, items, items)),
        list(filter(None, [0, 1, "", 2])),
        list(iter(tick, 4)),
        list(reversed(items)),
        sorted(items, reverse=True),
        [*enumerate("xy")],
        list(range(10, 0, -3)),
        range(3)[1],
        3 in range(0, 9, 3),
    )


@program("generators")
def infinite_and_cut(x):
    def powers():
        y = x
        while True:
            yield y
            y = y * x

    return list(itertools.islice(powers(), 3)), [a for a, _ in zip(itertools.count(5), range(2))]


@program("generators", lambda t: (t(t.n, 2),))
def iterate_a_tensor(x):
    total = 0
    for i, row in enumerate(x.T):
        total = total + row * i
    a, b = x.T
    return total, a - b, len(x.T)


@program("generators")
def exhausted_twice(x):
    g = (x + i for i in range(2))
    first, second = list(g), list(g)
    return first, second


@program("generators", one_graph=False, hits=False)  # a new class each time
def generator_method_of_a_new_object(x):
    class Box:
        def __init__(self, *values):
            self.values = list(values)

        def pairs(self):
            for i, v in enumerate(self.values):
                yield i, v
                self.seen = i

    box = Box(x, x * 2)
    total = sum(i + v for i, v in box.pairs())
    return total, box.seen
