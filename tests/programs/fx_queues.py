"""Side effects on deques, arrays of bytes and other sequences in C."""

import array
import collections
from collections import deque

from programs import program


@program("fx_queues", lambda t: (t(), deque([1, 2, 3], maxlen=3)))
def deque_full_drops_at_the_other_end(x, queue):
    queue.append(x)
    queue.appendleft("left")
    queue.extend([7, 8])
    queue.extendleft("ab")
    queue += [9]
    return x + len(queue), queue.maxlen


@program("fx_queues", lambda t: (t(), deque([1, 2, 3, 4])))
def deque_rotated_and_reversed(x, queue):
    queue.rotate(1)
    queue.rotate(-6)
    first = queue[0]
    queue.reverse()
    queue.rotate()
    return first, queue[-1], x + queue[1]


@program("fx_queues", lambda t: (t(), deque([1, 2, 3])))
def deque_items_assigned_and_deleted(x, queue):
    queue[1] = x
    del queue[0]
    queue.insert(1, "in")
    queue.remove("in")
    queue *= 2
    queue.popleft()
    return queue.index(3), queue.count(x) if queue.maxlen else 0, 3 in queue, x + len(queue)


@program("fx_queues", lambda t: (t(), deque([1, 2], maxlen=2)))
def deque_failing_calls_leave_it(x, queue):
    log = []
    for call in (
        lambda: queue.insert(0, 5),
        lambda: queue.remove("no"),
        lambda: queue[5],
        lambda: deque().pop(),
        lambda: deque().popleft(),
        lambda: queue.rotate("a"),
        lambda: deque(maxlen=-1),
    ):
        try:
            call()
        except (IndexError, ValueError, TypeError) as error:
            log.append(f"{type(error).__name__}: {error}")
    queue.append(x)
    return log, x + 1


@program("fx_queues", lambda t: (t(), deque([1, 2, 3])))
def deque_mutated_while_iterated(x, queue):
    try:
        for item in queue:
            queue.append(item)
    except RuntimeError as error:
        queue.append(str(error))
    for i, item in enumerate(queue):
        queue[i] = (item, i)
    return x + len(queue)


@program("fx_queues", lambda t: (t(), deque([x := t(), x])))
def deque_of_aliased_tensors(x, queue):
    queue[0].add_(1)
    same = queue[0] is queue[1]
    queue.append(queue.popleft() * 2)
    return same, queue[-1] + x


@program("fx_queues", lambda t: (t(),))
def deque_new_escapes_and_holds_itself(x):
    queue = deque([1], maxlen=3)
    queue.append(queue)
    queue.append(x)
    made = queue.copy()
    made.append("over")
    return queue, made, x + 1


@program("fx_queues", lambda t: (t(), deque([3, 1, 2])))
def deque_as_a_work_list(x, queue):
    order = []
    while queue:
        item = queue.popleft()
        order.append(item)
        if item == 3:
            queue.extend([5, 4])
            x = x * item
    queue.append("done")
    return order, x


@program("fx_queues", lambda t: (t(), deque([1, 2, 3])))
def deque_iterator_escapes(x, queue):
    it, back = iter(queue), reversed(queue)
    next(it)
    return it, back, x + 1


class Window(deque):
    def append(self, item):
        self.total = getattr(self, "total", 0) + item
        super().append(item)


@program(
    "fx_queues",
    lambda t: (t(), Window([1, 2], maxlen=2)),
)
def deque_subclass_given(x, window):
    window.append(5)
    return x + window.total, list(window)


@program("fx_queues", lambda t: (t(), Window([1], maxlen=3)))
def deque_subclass_changed_past_its_methods(x, window):
    deque.append(window, x)
    window.extend([3, 4, 5])
    window.rotate()
    first = window.popleft()
    window.note = x
    return first, len(window), [*window], window


@program("fx_queues", lambda t: (t(), bytearray(b"abc")), why="a bytearray is written for real")
def bytearray_written_in_place(x, data):
    data += b"d"
    data[0] = 0
    data.extend([1, 2])
    view = memoryview(data)
    view[1:2] = b"Z"
    view.release()
    del data[-1]
    return bytes(data), x + len(data)


@program("fx_queues", lambda t: (t(), array.array("i", [1, 2, 3])), why="an array.array is written for real")
def array_written_in_place(x, numbers):
    numbers.append(4)
    numbers[0] = 9
    first = numbers.pop()
    return first, x * numbers[0], sum(numbers)


Pair = collections.namedtuple("Pair", "left right")


@program("fx_queues", lambda t: (t(), Pair([1], {"a": 2})))
def named_tuple_with_mutable_fields(x, pair):
    pair.left.append(x)
    pair.right["b"] = pair._replace(left=pair.left)
    try:
        pair.left = 1
    except AttributeError:
        pair.left.append("unchanged")
    return pair.right["b"].left is pair.left, x + 1


@program("fx_queues", lambda t: (t(), deque([1, 2, 3])), why="whether an iterator notices is its own affair")
def turned_while_iterated(x, row):
    seen = []
    try:
        for item in row:
            seen.append(item)
            row.rotate(1)
    except RuntimeError as error:
        seen.append(str(error))
    return x + 1, seen, row
