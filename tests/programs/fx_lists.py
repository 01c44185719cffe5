"""Side effects on lists: slices, aliases, sorting, changes while iterated."""

import bisect
import copy
import heapq

from programs import program


@program("fx_lists", lambda t: (t(), [[1], [2]]))
def list_augmented_through_aliases(x, rows):
    first = alias = rows[0]
    first += [x]
    alias *= 2
    rows[1] += (first[-1] + 1, "tail")
    return alias is rows[0], first is alias, x * len(alias)


@program("fx_lists", lambda t: (t(), [1, 2, 3]))
def list_plus_makes_another(x, row):
    before = row
    row = row + [x]
    row.append("new only")
    before += row
    return row, before is row, x + len(before)


@program("fx_lists", lambda t: (t(), list(range(10))))
def list_extended_slices(x, row):
    row[1:8:3] = [x, "b", x]
    del row[::4]
    row[5:2:-1] = "xyz"
    row[2:2] = [x + 1, 0]
    row[-1:] = []
    del row[-3::2]
    return x + len(row), row[::-2]


@program("fx_lists", lambda t: (t(), [1, 2, 3]))
def list_slice_of_itself(x, row):
    row[1:1] = row
    row[:2] = row[-2:]
    row += row
    row.extend(row[:2])
    row[len(row) :] = (x,)
    return x * len(row)


@program("fx_lists", lambda t: (t(), [1, 2, 3, 4]))
def list_slice_of_the_wrong_size(x, row):
    try:
        row[::2] = [x]
    except ValueError as error:
        row.append(str(error))
    try:
        row[1:2] = 5
    except TypeError as error:
        row.append(str(error))
    return x + 1


class Refuses:
    def __init__(self, error):
        self.error = error

    def __iter__(self):
        raise self.error("refused")


@program("fx_lists", lambda t: (t(), [1, 2, 3, 4]))
def list_slices_of_what_refuses(x, row):
    for error in (TypeError, KeyError):
        for step in (1, 2):
            try:
                row[:2:step] = Refuses(error)
            except (TypeError, KeyError) as found:
                row.append((type(found).__name__, str(found)))
    return x + 1


@program("fx_lists", lambda t: (t(), [1, 2]))
def list_failing_calls_leave_it(x, row):
    log = []
    for call in (
        lambda: row[:2].remove("no"),
        lambda: row.pop(9),
        lambda: row[:2].index(5),
        lambda: row[7],
        lambda: row.__setitem__(-4, 0),
        lambda: row.__delitem__(2),
        lambda: [].pop(),
    ):
        try:
            call()
        except (ValueError, IndexError) as error:
            log.append(f"{type(error).__name__}: {error}")
            row.append(x)
    return log, x + len(row)


@program("fx_lists", lambda t: (t(), [1, 2]), known="a list grown while iterated")
def list_grown_while_iterated(x, row):
    for i, item in enumerate(row):
        if len(row) < 7:
            row.append(x * i)
            row.append(item)
    return len(row), x


@program("fx_lists", lambda t: (t(), [1, 2, 3, 4, 5, 6]), known="a list grown while iterated")
def list_shrunk_while_iterated(x, row):
    seen = []
    for item in row:
        seen.append(item)
        row.remove(item)
    return seen, x + len(row)


@program("fx_lists", lambda t: (t(), [3, 1, 2]), known="a list grown while iterated")
def list_grown_by_a_generator_over_it(x, row):
    def doubled():
        for item in row:
            yield item * 2

    for value in doubled():
        if len(row) < 6:
            row.insert(0, value)
    return x + len(row), row[0]


@program("fx_lists", lambda t: (t(), [0, 1]), known="a list grown while iterated")
def list_grown_inside_a_comprehension(x, row):
    out = [row.append(x) or item for item in row if len(row) < 6]
    return out, x + len(row)


@program("fx_lists", lambda t: (t(), [1, 2, 3]), known="a list grown while iterated")
def list_iterator_exhausted_then_grown(x, row):
    it = iter(row)
    seen = list(it)
    row.append(x)
    return seen, next(it, "over"), x + 1


@program("fx_lists", lambda t: (t(), [5, 3, 8, 1]))
def list_sorted_while_iterated(x, row):
    seen = []
    for item in row:
        seen.append(item)
        if len(seen) == 2:
            row.sort()
    row.sort(reverse=True)
    return seen, x * row[0]


@program("fx_lists", lambda t: (t(), [5, 3, 8, 1]))
def list_deleted_while_iterated(x, row):
    seen = []
    for i, item in enumerate(row):
        seen.append((i, item))
        del row[i]
    return seen, x + len(row)


@program("fx_lists", lambda t: (t(), [1, 2, 3]))
def list_reversed_iterator_sees_changes(x, row):
    back = reversed(row)
    first = next(back)
    row.append("unseen")
    row[0] = x
    return first, list(back), next(back, "end"), x * 2


@program("fx_lists", lambda t: (t(), [(2, "b"), (1, "a"), (2, "a"), (1, "b")]))
def sort_is_stable_both_ways(x, rows):
    down = sorted(rows, key=lambda r: r[0], reverse=True)
    rows.sort(key=lambda r: r[1])
    up = list(rows)
    rows.sort(key=lambda r: r[0], reverse=True)
    return down, up, x + rows[0][0]


@program("fx_lists", lambda t: (t(), [3, 1, 2], []))
def sort_key_with_effects(x, row, log):
    def key(item):
        log.append(item)
        return -item

    row.sort(key=key)
    best = max(row, key=key), min(row, key=key)
    return sorted(row, key=key), best, x + len(log)


@program("fx_lists", lambda t: (t(), [3, 1, 2], []))
def sort_key_looks_at_the_list(x, row, log):
    def key(item):
        log.append(len(row))
        return item

    row.sort(key=key)
    return x + sum(log)


@program("fx_lists", lambda t: (t(), [3, 1, 2]))
def sort_key_changes_the_list(x, row):
    def key(item):
        row.append(item)
        return item

    try:
        row.sort(key=key)
    except ValueError as error:
        return str(error), x + len(row)
    return "sorted", x


@program("fx_lists", lambda t: (t(), [3, 1, 2], []))
def sort_key_that_raises(x, row, log):
    def key(item):
        log.append(item)
        return 1 // (item - 1)

    try:
        row.sort(key=key)
    except ZeroDivisionError as error:
        log.append(str(error))
    return x + len(row)


class Weighed:
    def __init__(self, weight, log):
        self.weight = weight
        self.log = log

    def __lt__(self, other):
        self.log.append((self.weight, other.weight))
        return self.weight < other.weight


def _weighed(t, *weights):
    log = []
    return t(), [Weighed(w, log) for w in weights], log


@program("fx_lists", lambda t: _weighed(t, 3, 1, 2))
def sort_by_the_objects_own_order(x, row, log):
    row.sort()
    least = min(row)
    return least is row[0], x + len(log)


@program("fx_lists", lambda t: (t(), [2, "a", 1]))
def sort_of_mixed_items_fails(x, row):
    try:
        row.sort()
    except TypeError as error:
        row.append(str(error))
    return x + len(row)


@program("fx_lists", lambda t: (t(), []))
def list_holds_itself(x, row):
    row.append(row)
    row.append([row, x])
    row[1].append(row[1])
    return row[0] is row, x + len(row[0][0][0]), row[1][2][0] is row


@program("fx_lists", lambda t: (t(), [[]] * 3))
def list_of_one_list_three_times(x, rows):
    rows[0].append(x)
    rows[1] = rows[1] + ["own"]
    rows[2].append("shared")
    return rows[0] is rows[2], x + len(rows[0])


@program("fx_lists", lambda t: (t(), [[1, [2]], "a"]))
def list_copies_shallow_and_deep(x, row):
    shallow, sliced, method, deep = copy.copy(row), row[:], row.copy(), copy.deepcopy(row)
    row[0][1].append(x)
    row.append("row only")
    deep[0].append("deep only")
    return shallow, sliced, method, deep, shallow[0] is row[0], deep[0] is row[0], x + 1


@program("fx_lists", lambda t: (t(), [5, 7, 1]))
def heap_on_a_list_that_escapes(x, heap):
    heapq.heapify(heap)
    heapq.heappush(heap, 0)
    low = heapq.heappop(heap)
    second = heapq.heapreplace(heap, 9)
    third = heapq.heappushpop(heap, 4)
    return low, second, third, heapq.nsmallest(2, heap), heapq.nlargest(2, heap), x * len(heap)


@program("fx_lists", lambda t: (t(), []))
def heap_of_tuples_with_tensors(x, heap):
    for i, priority in enumerate((3, 1, 2)):
        heapq.heappush(heap, (priority, i, x * i))
    order = []
    while len(heap) > 1:
        order.append(heapq.heappop(heap)[0])
    return order, heap[0][2]


@program("fx_lists", lambda t: (t(), [1, 3, 3, 7]))
def bisect_into_a_list(x, row):
    at = bisect.bisect_left(row, 3), bisect.bisect_right(row, 3), bisect.bisect(row, 9)
    bisect.insort(row, 4)
    bisect.insort_left(row, 3)
    bisect.insort(row, 5, lo=1)
    return at, x + len(row)


@program("fx_lists", lambda t: (t(), [(1, "a"), (3, "c")], []))
def bisect_with_a_key(x, row, log):
    def first(pair):
        log.append(pair)
        return pair[0]

    bisect.insort(row, (2, "b"), key=first)
    return x + len(row), bisect.bisect_left(row, 3, key=first)


@program("fx_lists", lambda t: (t(), [1, 2, 3]))
def list_unpacked_with_effects(x, row):
    log = []

    def logged(name, value):
        log.append(name)
        return value

    logged("target", row)[logged("index", 0)], *rest = logged("value", [x, 2, 3])
    row[1], row[row[1]] = 2, "by the new index"
    (a, (b, *c)), d = (1, (2, 3, 4)), logged("d", x)
    return log, rest, a, b, c, d + 1


@program("fx_lists", lambda t: (t(), [1, 2], [3, 4]))
def list_swapped_with_another(x, a, b):
    a[:], b[:] = b, a
    a[0], b[0], a[-1] = b[0], a[-1], a[0]
    a, b = b, a
    a.append("second")
    return x + len(a)


@program("fx_lists", lambda t: (t(), [0, 1, 2], []))
def list_index_objects(x, row, log):
    class At:
        def __init__(self, i):
            self.i = i

        def __index__(self):
            log.append(self.i)
            return self.i

    row[At(0)] = x
    row.insert(At(1), "in")
    row[At(1) : At(2)] = ["a", "b"]
    last = row.pop(At(-1))
    return last, x + len(row)


@program("fx_lists", lambda t: (t(), [1, 2, 3]), known="append to a class-level list")
def class_level_list_through_instances(x, row):
    class Shared:
        items = row

        def add(self, value):
            self.items.append(value)
            return self

    a, b = Shared(), Shared()
    a.add(x).add(1)
    b.items = b.items + ["own"]
    b.add("own too")
    return Shared.items is row, a.items is row, len(b.items), x + len(row)


class Registry:
    entries: list = []
    index: dict = {}

    def __init__(self, name):
        self.entries.append(name)
        self.index[name] = self

    @classmethod
    def forget(cls):
        cls.entries = ["start"]
        cls.index = {}


@program(
    "fx_lists",
    setup=Registry.forget,
    state=lambda: (Registry.entries, list(Registry.index)),
    known="append to a class-level list",
)
def class_level_list_filled_by_init(x):
    first, second = Registry("a"), Registry("b")
    first.entries.extend([len(second.entries), x])
    return x + len(Registry.entries), Registry.index["a"] is first


class Plugin(Registry):
    pass


@program(
    "fx_lists",
    setup=Registry.forget,
    state=lambda: (Registry.entries, "entries" in vars(Plugin)),
    known="append to a class-level list",
)
def class_level_list_through_a_subclass(x):
    Plugin.entries.append(x)
    Plugin.entries += ["through the subclass"] if not hasattr(Plugin, "never") else []
    same = Plugin.entries is Registry.entries
    del Plugin.entries
    Registry.entries.insert(0, "base")
    return same, x * len(Plugin.entries)


@program("fx_lists", lambda t: (t(), [1, 2, 3]))
def list_methods_kept_and_called_later(x, row):
    append, pop = row.append, row.pop
    append(x)
    other = [append, pop]
    other[0]("by the method")
    last = other[1](0)
    row.clear()
    append("after clear")
    return last, append.__self__ is row, x + len(row)


@program("fx_lists", lambda t: (t(), [1, 2]))
def list_method_escapes(x, row):
    row.append(x)
    return row.append, x + len(row)


@program("fx_lists", lambda t: (t(), [[3], [1, 2]]))
def list_compared_by_content_and_identity(x, rows):
    twin = [[3], [1, 2]]
    equal = rows == twin
    twin[1].append(x)
    rows.append(rows[0])
    where = rows.index([3]), rows.count([3])
    rows.remove([3])
    return equal, where, rows[-1] is rows[1], [3] in rows, x + 1


@program("fx_lists", lambda t: (t(), list("abc")))
def list_multiplied(x, row):
    row *= 2
    copy_of = row * 1
    row *= 0
    row += copy_of[::2]
    nothing = row * -1
    return nothing, copy_of, 2 * row, x + len(row)


@program("fx_lists", lambda t: (t(), [x := t(), x + 0, x]))
def list_of_tensors_changed(x, row):
    row[0], row[-1] = row[-1] * 2, row[0]
    row.reverse()
    row.insert(1, row.pop())
    row[1].add_(1)
    return row[0] is row[-1], row[1]


@program("fx_lists", lambda t: (t(), [1, 2]))
def list_extended_by_what_fails(x, row):
    def some():
        yield x
        yield 2
        raise KeyError("stop")

    try:
        row.extend(some())
    except KeyError as error:
        row.append(error.args)
    try:
        row[1:] = some()
    except KeyError:
        row.append("slice not assigned")
    try:
        row += some()
    except KeyError:
        pass
    return x + len(row)


@program("fx_lists", lambda t: (t(), [1, 2, 3]))
def list_extended_by_its_own_iterator(x, row):
    row.extend(item for item in row if len(row) < 7)
    row.extend(map(str, row[:2]))
    return x * len(row)


@program("fx_lists", lambda t: (t(), [1, 2, 3, 4]))
def list_filled_by_chained_assignment(x, row):
    row[0] = row[1] = inner = []
    inner.append(x)
    i = row[2] = 3
    row[i] = i = 1
    return row[0] is row[1], i, x + len(row)


@program("fx_lists", lambda t: (t(), [0, 0]))
def list_augmented_item_with_one_index_call(x, row):
    log = []

    def at(i):
        log.append(i)
        return i

    row[at(0)] += 5
    row[at(1)] = row[at(0)] - x
    row[at(-1)] *= 2
    return log, row[1]


@program("fx_lists", lambda t: (t(), ([1], [2])))
def tuple_item_augmented_raises_after_the_effect(x, pair):
    try:
        pair[0] += [x]
    except TypeError as error:
        pair[1].append(str(error))
    return x + len(pair[0])
