"""Side effects of iterators: half consumed ones that escape, and sources that change under them."""

import itertools
import operator
from functools import reduce

from programs import program


class Box:
    def __init__(self, **items):
        self.__dict__.update(items)


@program("fx_iterators", lambda t: (t(), [1, 2, 3, 4]))
def list_iterator_escapes_half_consumed(x, row):
    it = iter(row)
    next(it)
    row.append(x)
    return it, x + next(it)


@program("fx_iterators", lambda t: (t(), [1, 2, 3], "abcd"))
def zip_escapes_half_consumed(x, row, text):
    it = zip(row, text, itertools.count(5))
    first = next(it)
    row.append(x)
    return it, first, x + 1


@program("fx_iterators", lambda t: (t(), [3, 4, 5], []))
def map_escapes_half_consumed(x, row, log):
    def double(item):
        log.append(item)
        return item * 2

    it = map(double, row)
    first = next(it)
    row.append(x)
    return it, first, x + first


@program("fx_iterators", lambda t: (t(), [1, 2, 3, 4, 5, 6]))
def filter_escapes_half_consumed(x, row):
    it = filter(lambda i: i % 2, row)
    first = next(it), next(it)
    return it, first, x * first[1]


@program("fx_iterators", lambda t: (t(), ["a", "b", "c"]))
def enumerate_escapes_half_consumed(x, row):
    it = enumerate(row, 10)
    (i, _), _ = next(it), next(it)
    row[2] = x
    return it, x + i


@program("fx_iterators", lambda t: (t(), [1, 2, 3, 4]))
def reversed_escapes_half_consumed(x, row):
    it = reversed(row)
    last = next(it)
    row.pop(0)
    return it, x + last


@program("fx_iterators", lambda t: (t(),))
def range_iterators_escape_half_consumed(x):
    up, down, done = iter(range(2, 20, 3)), reversed(range(5)), iter(range(2))
    next(up), next(down), list(done)
    return up, down, done, x + 1


@program("fx_iterators", lambda t: (t(), {"a": 1, "b": 2, "c": 3}))
def dict_iterators_escape_half_consumed(x, table):
    keys, items, back = iter(table), iter(table.items()), reversed(table)
    got = next(keys), next(items), next(back)
    table["b"] = x
    return keys, items, back, got, x + 1


@program("fx_iterators", lambda t: (t(), {"a": 1, "b": 2}))
def dict_iterator_escapes_fresh(x, table):
    table["c"] = 3
    return iter(table), iter(table.values()), x + 1


@program("fx_iterators", lambda t: (t(), [1, 2]))
def exhausted_iterators_escape(x, row):
    it, zipped, mapped, back = iter(row), zip(row, row), map(str, row), reversed(row)
    counted, tuples = enumerate(row), iter((1, 2))
    list(it), list(zipped), list(mapped), list(back), list(counted), list(tuples)
    row.append("late")
    return it, zipped, mapped, back, counted, tuples, x + 1


@program("fx_iterators", lambda t: (t(), [1, 2, 3]))
def string_and_tuple_iterators_escape(x, row):
    text, items, data = iter("abc"), iter((x, 2, 3)), iter(b"xyz")
    next(text), next(items), next(data)
    return text, items, data, x + 1


@program("fx_iterators", lambda t: (t(), [1, 2, 3, 4, 5]))
def one_iterator_shared_by_two_consumers(x, row):
    it = iter(row)
    pairs = zip(it, it)
    first = next(pairs)
    out = [next(it), list(pairs), next(it, "end")]
    return first, out, x + 1


@program("fx_iterators", lambda t: (t(), [1, 2, 3, 4, 5]))
def shared_iterator_escapes_in_two_places(x, row):
    it = iter(row)
    box = Box(it=it, zipped=zip(it, "ab"), mapped=map(str, it))
    next(box.zipped)
    return box.zipped, box.it is it, x + next(box.it)


@program("fx_iterators", lambda t: (t(), [1, 2, 3], Box()))
def iterator_kept_on_an_object(x, row, box):
    box.it = iter(row)
    box.first = next(box.it)
    box.again = iter(box.it) is box.it
    return x + next(box.it)


@program(
    "fx_iterators",
    lambda t: (t(), Box(it=iter([1, 2, 3, 4]))),
)
def iterator_given_is_advanced(x, box):
    first = next(box.it)
    for item in box.it:
        if item == 3:
            break
        x = x + item
    return first, x


def _half_gone(t):
    row = [1, 2, 3]
    it = iter(row)
    next(it)
    return t(), row, Box(it=it, same=it)


@program("fx_iterators", _half_gone)
def iterator_given_with_its_list(x, row, box):
    row.append(x)
    taken = [next(box.it), *box.same]
    row.append(4)
    return taken, next(box.it, "over"), list(box.same), x + len(row)


@program("fx_iterators", _half_gone)
def iterator_given_left_in_the_middle(x, row, box):
    box.zipped = zip(box.it, "abc")
    return next(box.zipped), box.it.__length_hint__(), x + 1


@program("fx_iterators", lambda t: (t(),))
def itertools_escape_fresh(x):
    row = [1, 2, 3]
    made = (
        itertools.chain(row, "ab"),
        itertools.count(5, 2),
        itertools.repeat(x, 2),
        itertools.islice(row, 1, 3),
        itertools.cycle("ab"),
        itertools.accumulate(row),
        itertools.starmap(pow, [(2, 3)]),
        itertools.takewhile(bool, row),
        itertools.dropwhile(bool, row),
        itertools.compress("abc", [1, 0, 1]),
        itertools.groupby(row),
        itertools.pairwise(row),
        itertools.product("ab", row),
    )
    row.append(4)
    return made, x + 1


@program("fx_iterators", lambda t: (t(),))
def itertools_escape_half_consumed(x):
    row = [1, 2, 3]
    chained, counted, sliced = itertools.chain(row, "ab"), itertools.count(5, 2), itertools.islice(row, 3)
    repeated, cycled, summed = itertools.repeat(x, 3), itertools.cycle("ab"), itertools.accumulate(row)
    first = next(chained), next(counted), next(sliced), next(cycled), next(summed)
    next(repeated)
    row.append(4)
    return chained, counted, sliced, repeated, cycled, summed, first, x + 1


@program("fx_iterators", lambda t: (t(), [1, 2, 3, 4, 5]))
def itertools_consumed_with_effects(x, row):
    log = []

    def small(i):
        log.append(i)
        return i < 3

    out = (
        list(itertools.takewhile(small, row)),
        list(itertools.dropwhile(small, row)),
        list(itertools.filterfalse(small, row)),
        [list(g) for _, g in itertools.groupby(row, small)],
        list(itertools.starmap(lambda a, b: log.append(a) or b, [(1, 2), (3, 4)])),
    )
    row.append(len(log))
    return out, x + row[-1]


@program("fx_iterators", lambda t: (t(), [1, 2, 3]))
def tee_and_pairwise(x, row):
    a, b = itertools.tee(iter(row))
    next(a)
    row.append(4)
    pairs = list(zip(b, a))
    return pairs, list(itertools.pairwise(row)), x + len(pairs)


@program("fx_iterators", lambda t: (t(),))
def short_circuits_stop_the_generator(x):
    log = []

    def values(*items):
        for item in items:
            log.append(item)
            yield item

    out = (
        any(values(0, 1, 2)),
        all(values(1, 0, 3)),
        2 in values(1, 2, 9),
        next(values(7, 8)),
        max(values(3, 5, 4)),
        min(values(3, 1), default=None),
        sum(values(1, 2), 10),
        next(values(), "none"),
    )
    return out, log, x + len(log)


@program("fx_iterators", lambda t: (t(),))
def zip_stops_after_taking_from_the_first(x):
    log = []

    def values(name, n):
        for i in range(n):
            log.append((name, i))
            yield i

    a, b = values("a", 3), values("b", 2)
    pairs = list(zip(a, b))
    left = list(a)
    other = list(zip(values("c", 1), values("d", 5)))
    return pairs, left, other, log, x + 1


@program("fx_iterators", lambda t: (t(),))
def zip_strict_raises_after_the_effects(x):
    log = []

    def values(name, n):
        for i in range(n):
            log.append((name, i))
            yield i

    out = []
    try:
        for pair in zip(values("a", 2), values("b", 3), strict=True):
            out.append(pair)
    except ValueError as error:
        out.append(str(error))
    return out, log, x + 1


@program("fx_iterators", lambda t: (t(),))
def call_until_sentinel(x):
    log = []

    def tick():
        log.append(len(log))
        if len(log) > 5:
            raise StopIteration
        return len(log)

    first = list(iter(tick, 3))
    rest = iter(tick, 99)
    return first, list(rest), next(rest, "over"), log, x + 1


@program("fx_iterators", lambda t: (t(), []))
def call_until_sentinel_escapes(x, log):
    def tick():
        log.append(len(log))
        return len(log)

    it = iter(tick, 4)
    next(it)
    return it, x + 1


@program("fx_iterators", lambda t: (t(), [1, 2, 3]))
def join_and_prints_over_generators_with_effects(x, row):
    text = "-".join(row.append(str(i)) or str(i) for i in range(2))
    try:
        ",".join(row.append(i) or i for i in range(3))
    except TypeError as error:
        row.append(str(error))
    shown = "{} {}".format(*(row.pop() for _ in range(2)))
    return text, shown, x + len(row)


@program("fx_iterators", lambda t: (t(), [1, 2, 3]), plain="it raises")
def star_arguments_consume_iterators(x, row):
    it = iter(row)

    def f(a, *rest, **more):
        return a, rest, more

    first = f(*it, *it)
    row.append(4)
    second = f(*it, **dict(zip("ab", it)))
    (a, *b), c = map(list, ("xyz", (1,)))
    return first, second, a, b, c, x + len(row)


@program("fx_iterators", lambda t: (t(), [1, 2, 3]))
def failed_unpacking_consumes_the_iterator(x, row):
    it = iter(row * 2)
    try:
        a, b = it
    except ValueError as error:
        row.append(str(error))
    try:
        a, b, c, d = it
    except ValueError as error:
        row.append(str(error))
    return list(it), x + len(row)


class Counting:
    def __init__(self, stop):
        self.at = 0
        self.stop = stop
        self.log = []

    def __iter__(self):
        self.log.append("iter")
        return self

    def __next__(self):
        self.log.append(self.at)
        if self.at >= self.stop:
            raise StopIteration(self.at)
        self.at += 1
        return self.at

    def __length_hint__(self):
        self.log.append("hint")
        return self.stop - self.at


@program("fx_iterators", lambda t: (t(), Counting(4)))
def iterator_class_consumed_in_turns(x, counting):
    first = next(counting)
    for item in counting:
        if item == 3:
            break
    rest = [*counting]
    return first, rest, next(counting, "over"), x + item


@program("fx_iterators", lambda t: (t(), Counting(4)))
def iterator_class_through_builtins(x, counting):
    zipped = list(zip(counting, "ab"))
    return zipped, 4 in counting, sum(counting), x + counting.at


@program("fx_iterators", lambda t: (t(), Counting(3)))
def iterator_class_asked_for_its_length_hint(x, counting):
    first = list(counting)
    row = [0]
    row.extend(Counting(2))
    return first, row, operator.length_hint(Counting(5)), tuple(Counting(2)), x + counting.at


@program("fx_iterators", lambda t: (t(), Counting(5)))
def iterator_class_escapes_inside_zip(x, counting):
    it = zip(counting, "abc")
    next(it)
    return it, x + counting.at


@program("fx_iterators", lambda t: (t(), Counting(9)))
def iterator_classes_escape_inside_others(x, counting):
    numbered, mapped = enumerate(counting, 3), map(x.__add__, counting)
    next(numbered)
    next(mapped)
    return numbered, mapped, filter(None, counting), x + counting.at


@program("fx_iterators", lambda t: (t(), [4, 5]))
def reduce_and_map_with_effects(x, row):
    log = []

    def add(a, b):
        log.append((a, b))
        return a + b

    total = reduce(add, row, 1)
    row.extend(map(add, row, row[:]))
    last = reduce(add, (v for v in row if log.append(v) is None))
    return total, last, log, x + total


@program("fx_iterators", lambda t: (t(), [1, 2, 3]))
def map_goes_on_after_a_failing_call(x, row):
    it = map(lambda i: 6 // (i - 2), row)
    out = [next(it)]
    try:
        next(it)
    except ZeroDivisionError as error:
        out.append(str(error))
    out.append(next(it))
    return out, next(it, "end"), x + 1


@program("fx_iterators", lambda t: (t(), [[1], [2, 3]]), known="a list grown while iterated")
def chain_over_lists_that_grow(x, rows):
    it = itertools.chain.from_iterable(rows)
    seen = []
    for item in it:
        seen.append(item)
        if item == 3:
            rows.append([4])
            rows[1].append(5)
    return seen, x + len(seen)


@program("fx_iterators", lambda t: (t(), [3, 1, 2]), known="a list grown while iterated")
def enumerate_over_a_list_that_grows(x, row):
    for i, item in enumerate(zip(row, row[:])):
        if i < 2:
            row.append(item)
    return x + len(row)
