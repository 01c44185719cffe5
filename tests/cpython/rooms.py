"""What src/cpython does beside steps, on the running CPython: each check compares with what Python itself says.

python rooms.py [EXPRESSION]     needs the module `frames`, built by tools/pythons.py; the checks whose names match
"""

import collections
import contextvars
import functools
import gc
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Generator
from typing import Any

import frames

CHECKS: dict[str, Callable[[], None]] = {}
STEPS = range(40)


def check(function: Callable[[], None]) -> Callable[[], None]:
    CHECKS[function.__name__] = function
    return function


# ---- frames


def add(x: int, y: int, *rest: int, z: int = 3) -> tuple[Any, ...]:
    total = [x + y for _ in range(2)]
    return total, rest, z, sys._getframe().f_back.f_code.co_name  # type: ignore[union-attr]


def fails(x: int) -> int:
    try:
        return [][x]
    except IndexError as e:
        raise KeyError(x) from e


@check
def caught_frames_give_what_calls_give() -> None:
    expected = add(1, 2, 5)
    for steps in STEPS:
        assert frames.catch_frame(add, (1, 2, 5), steps) == expected, steps


@check
def an_instruction_keeps_its_operands_while_the_frame_it_called_gets_others() -> None:
    def callee(first: Any, second: int) -> None:
        raise AssertionError("its frame is caught")

    def by_position(callee: Any, make: Any) -> Any:
        return callee([make], 2)

    def by_name(callee: Any, make: Any) -> Any:
        return callee(first=[make], second=2)

    for caller in (by_position, by_name):
        assert frames.stepped_into(caller, (callee, 1), callee) == 1, caller.__name__


@check
def instructions_of_tools_that_are_gone_are_carried_out() -> None:
    expected = add(1, 2)
    sys.setprofile(lambda *_: None)
    add(1, 2)
    sys.setprofile(None)
    frames.counts()
    assert frames.catch_frame(add, (1, 2), 1000) == expected
    _, handed_over, _, unknown = frames.counts()
    assert (handed_over, unknown) == (0, {})


@check
def frames_of_audit_hooks_are_nobodys() -> None:
    heard: list[str] = []
    listens = True

    def audited(event: str, _: tuple[Any, ...]) -> None:
        if listens:
            heard.append(event)

    sys.addaudithook(audited)
    frames.counts()
    frames.taken(lambda: exec("1"), {audited.__code__}, 40)
    listens = False
    assert "exec" in heard
    assert frames.counts()[0] == 0


@check
def a_profile_function_observes_its_own_thread() -> None:
    set_there, done = threading.Event(), threading.Event()

    def profiled() -> None:
        sys.setprofile(lambda *_: None)
        set_there.set()
        done.wait()

    thread = threading.Thread(target=profiled)
    thread.start()
    set_there.wait()
    frames.counts()
    try:
        frames.taken(lambda: add(1, 2), {add.__code__}, 40)
        assert frames.counts()[0] > 0
        sys.setprofile(lambda *_: None)
        frames.taken(lambda: add(1, 2), {add.__code__}, 40)
        assert frames.counts()[0] == 0
    finally:
        sys.setprofile(None)
        done.set()
        thread.join()


def raised_by(function: Callable[[], Any]) -> BaseException:
    try:
        function()
    except Exception as e:
        return e
    raise AssertionError("no exception")


@check
def binding_errors_are_those_of_the_call() -> None:
    error = raised_by(lambda: frames.catch_frame(add, (1,), 3))
    assert isinstance(error, TypeError)
    assert "missing 1 required positional argument: 'y'" in str(error)
    assert add(1, 2) == add(1, 2)  # the hook is out


@check
def exceptions_leave_caught_frames() -> None:
    for steps in STEPS:
        error = raised_by(lambda s=steps: frames.catch_frame(fails, (4,), s))  # type: ignore[misc]
        assert isinstance(error, KeyError)
        assert isinstance(error.__cause__, IndexError)
        names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
        assert names == ["raised_by", "<lambda>", "fails"], (steps, names)


def depth(n: int) -> int:
    return 0 if n == 0 else 1 + depth(n - 1)


@check
def recursion_is_limited_as_ever() -> None:
    def deepest(call: Callable[[], Any]) -> int:
        low, high = 1, 2000
        while low < high:
            middle = (low + high + 1) // 2
            try:
                call(middle)  # type: ignore[call-arg]
                low = middle
            except RecursionError:
                high = middle - 1
        return low

    # a hook alone costs levels of C up to 3.12
    plain = deepest(lambda n: frames.taken(lambda: depth(n), set(), 0))  # type: ignore[arg-type, misc]
    for steps in (0, 4, 8):
        taken = deepest(lambda n, s=steps: frames.taken(lambda: depth(n), {depth.__code__}, s))  # type: ignore[misc]
        assert abs(plain - taken) <= 2, (steps, plain, taken)


def numbers(n: int) -> Generator[Any, Any, Any]:
    got = []
    for i in range(n):
        try:
            got.append((yield i))
        except ValueError as e:
            got.append(str(e))
    return got


def delegates(n: int) -> Generator[Any, Any, Any]:
    with_name = yield from numbers(n)
    yield "between"
    return with_name


async def awaits(n: int) -> Any:
    class Once:
        def __await__(self) -> Generator[Any, Any, Any]:
            return (yield n)

    return [await Once(), await Once()]


def driven(generator: Any) -> list[Any]:
    """What it yields and returns where values and exceptions come in."""
    log: list[Any] = []
    to_send: Any = None
    for turn in range(12):
        try:
            if turn == 2:
                log.append(generator.throw(ValueError("thrown")))
            else:
                log.append(generator.send(to_send))
            to_send = turn
        except StopIteration as e:
            log.append(("returned", e.value))
            break
        except ValueError as e:
            log.append(("raised", str(e)))
            break
        log.append(repr(generator.gi_yieldfrom if hasattr(generator, "gi_yieldfrom") else None)[:18])
    generator.close()
    return log


@check
def generators_are_taken_where_they_are_resumed() -> None:
    codes = {numbers.__code__, delegates.__code__, awaits.__code__}
    for make in (lambda: numbers(4), lambda: delegates(3), lambda: awaits(2)):
        expected = driven(make())
        for steps in STEPS:
            assert frames.taken(lambda m=make: driven(m()), codes, steps) == expected, steps  # type: ignore[misc]


@check
def watched_generators_come_to_their_watcher() -> None:
    for make in (lambda: numbers(4), lambda: delegates(3), lambda: awaits(2)):
        expected = driven(make())
        for steps in STEPS:
            generator = make()
            assert frames.watch(generator, steps)
            frames.resumed()
            assert driven(generator) == expected, steps
            assert frames.resumed() >= 3


@check
def what_dies_is_not_watched_any_more() -> None:
    log = []

    def held() -> Generator[None, None, None]:
        try:
            yield
        finally:
            log.append("closed")

    for _ in range(20):
        generator = held()
        frames.watch(generator, 5)
        next(generator)
        del generator
    assert log == ["closed"] * 20


def middle(a: int) -> Generator[Any, Any, Any]:
    b = a * 2
    c = yield b
    yield a, b, c


def last_begun(generator: Any) -> int:
    """The code unit of a suspended generator's last instruction; from 3.13 on its frame tells the next one."""
    return generator.gi_frame.f_lasti // 2 - (sys.version_info >= (3, 13))


@check
def generators_are_made_in_the_middle() -> None:
    replay = frames.of_replay()
    for bound in ((7, 14), (1, 2)):
        real = middle(bound[0])
        next(real)
        made = replay["make_generator"](middle)
        assert made.gi_code is middle.__code__
        unit = last_begun(real)
        replay["fill"](made, middle, -1, unit, bytes([1, 1, 0]), *bound)
        assert made.gi_frame.f_lineno == real.gi_frame.f_lineno
        assert dict(made.gi_frame.f_locals) == dict(real.gi_frame.f_locals)
        assert made.send("sent") == real.send("sent") == (*bound, "sent")
        assert next(made, "over") == next(real, "over") == "over"
    new = replay["make_generator"](middle)
    unborn = middle(3)
    replay["fill"](new, middle, -2, last_begun(unborn), bytes([1, 0, 0]), 3)
    assert [*new] == [*unborn] == [6, (3, 6, None)]
    over = replay["make_generator"](middle)
    assert next(over, "over") == "over"
    assert over.gi_frame is None
    del made, new, over
    gc.collect()


@check
def frames_that_ended_are_made() -> None:
    replay = frames.of_replay()
    made = replay["make_frame"](add)
    replay["fill"](made, add, 0, 6, bytes([1, 0, 1]), "x", "y")
    assert made.f_code is add.__code__
    assert made.f_globals is globals()
    assert made.f_locals["x"] == "x"
    assert made.f_locals["z"] == "y"
    assert made.f_back is None


# ---- objects


class Plain:
    def __init__(self, *names: str) -> None:
        for i, name in enumerate(names):
            setattr(self, name, i)


def snapshot(thing: Any) -> Any:
    return frames.words(thing)


@check
def attributes_are_read_by_layout() -> None:
    thing = Plain("a", "b", "c")
    del thing.b  # type: ignore[attr-defined]
    thing.d = 5  # type: ignore[attr-defined]
    for _ in range(2):  # then with a dict
        assert [frames.attribute(thing, name) for name in "abcd"] == [0, None, 2, 5]
        assert frames.attribute(thing, "missing") is None
        assert thing.__dict__ == {"a": 0, "c": 2, "d": 5}
    many = Plain(*(f"name{i}" for i in range(60)))
    assert frames.attribute(many, "name59") == 59


@check
def words_stay_while_attributes_do() -> None:
    thing = Plain("a", "b")
    before = snapshot(thing)
    thing.a = 10  # type: ignore[attr-defined]
    assert snapshot(thing) == before
    thing.c = 1  # type: ignore[attr-defined]
    after = snapshot(thing)
    assert after != before
    del thing.c  # type: ignore[attr-defined]
    assert snapshot(thing) != after
    if before[0]:
        assert frames.inline_names(thing) == ["a", "b"]
    before = snapshot(thing)
    vars(thing)
    assert snapshot(thing) != before
    for change in (lambda d: d.update(new=1), lambda d: d.pop("a"), lambda d: d.clear()):
        before = snapshot(thing)
        change(vars(thing))
        assert snapshot(thing) != before
        thing.__dict__.setdefault("a", 1)


@check
def entries_are_read_in_order() -> None:
    for made in ({"a": 1, "b": 2}, {1: 2, "x": 3, (1, 2): 4}, vars(Plain("p", "q", "r"))):
        assert [frames.entry(made, i) for i in range(len(made))] == list(made.items())
        assert frames.entry(made, len(made)) is None
    holes = {str(i): i for i in range(10)}
    for i in range(0, 10, 3):
        del holes[str(i)]
    assert [frames.entry(holes, i) for i in range(len(holes))] == list(holes.items())


@check
def iterators_are_looked_ahead() -> None:
    items = {"a": 1, "b": 2, "c": 3}
    for make, kind in (
        (lambda: iter([1, 2, 3]), list), (lambda: iter((1, 2, 3)), tuple), (lambda: iter(range(2, 9, 3)), range),
        (lambda: reversed([1, 2, 3]), list), (lambda: iter(items), dict), (lambda: iter(items.values()), dict),
    ):  # fmt: skip
        for taken in range(4):
            iterator = make()  # type: ignore[operator]
            expected = list(iterator)[taken:]
            iterator = make()  # type: ignore[operator]
            for _ in range(taken):
                next(iterator)
            for i, item in enumerate(expected):
                assert frames.look_ahead(iterator, i)[0] == item, (kind, taken)
            assert frames.look_ahead(iterator, len(expected)) is None
            assert list(iterator) == expected
    assert frames.look_ahead(iter(items.items()), 1) == ("b", 2)
    assert frames.look_ahead(enumerate("xy", 4), 1)[0] == 5


@check
def iterators_are_advanced() -> None:
    advance, move = frames.of_replay()["advance_iterator"], frames.of_replay()["move_iterator"]
    for make in (
        lambda: iter([1, 2, 3]), lambda: iter((1, 2, 3)), lambda: iter(range(2, 9, 3)), lambda: reversed([1, 2, 3]),
        lambda: iter({1: 1, 2: 2, 3: 3}),
    ):  # fmt: skip
        for taken in range(4):
            real, made = make(), make()  # type: ignore[operator]
            for _ in range(taken):
                next(real)
            advance(made, taken, False)
            assert made.__length_hint__() == real.__length_hint__()
            assert list(made) == list(real)
        ended = make()  # type: ignore[operator]
        advance(ended, 3, True)
        assert list(ended) == []
        assert ended.__length_hint__() == 0
    moved = iter([1, 2, 3])
    move(moved, 2)
    assert list(moved) == [3]
    move(moved, -1)
    assert list(moved) == []
    assert moved.__length_hint__() == 0
    assert moved.__reduce__()


@check
def subclasses_are_found() -> None:
    class Base:
        pass

    assert not frames.subclasses(Base)

    class Below(Base):
        pass

    for type_ in (Base, dict, int, Exception, collections.OrderedDict, object):
        found = frames.subclasses(type_)
        below = type.__subclasses__(type_)
        assert len(found or ()) >= len(below), type_
        assert {id(cls) for cls in below} <= {id(reference()) for reference in (found or {}).values()}, type_
    assert Below in Base.__subclasses__()


@check
def thread_locals_are_read() -> None:
    local = threading.local()
    assert frames.thread_dict(local) in (None, {})
    local.x = 3
    seen: list[Any] = [frames.thread_dict(local)]
    thread = threading.Thread(target=lambda: seen.append(frames.thread_dict(local)))
    thread.start()
    thread.join()
    assert seen == [{"x": 3}, None], seen
    assert seen[0] is local.__dict__


@check
def classes_are_made_quietly() -> None:
    log: list[Any] = []

    class Base:
        def __init_subclass__(cls) -> None:
            log.append(cls)

    class Named:
        def __set_name__(self, owner: type, name: str) -> None:
            log.append(name)

    named = Named()
    made = frames.make_type(type, "Made", (Base,), {"named": named, "x": 1})
    assert log == []
    assert made.__mro__ == (made, Base, object)
    assert made.named is named
    assert type(made) is type
    assert made().x == 1


@check
def other_layouts_are_known() -> None:
    @functools.lru_cache(5)
    def cached(x: int) -> int:
        return x

    cached(3)
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable")
    token = variable.set(1)
    ordered = collections.OrderedDict(a=1, b=2)
    ordered.move_to_end("a")
    table, second, first, of_token, has_registrations = frames.others(
        cached, collections.deque(range(100)), ordered, token
    )
    assert list(table) == [3]
    assert (second, first) == (1, "b")
    assert of_token is variable
    assert has_registrations


@check
def layouts_are_those_of_the_build() -> None:
    rows, text = frames.layouts(-1)
    assert text == "", text
    assert len(rows) > 30
    assert all(built == found >= 0 for _, built, found in rows), rows
    for number, (what, built, found) in enumerate(rows):
        _, text = frames.layouts(number)
        assert f"{what} is {found} here and {built + 8} there" in text
        assert text.count("\n") == 0


# ---- signals


@check
def handlers_wait_while_they_are_held() -> None:
    log = []
    before = signal.signal(signal.SIGUSR1, lambda *_: log.append("handled"))
    try:

        def send() -> list[str]:
            os.kill(os.getpid(), signal.SIGUSR1)
            for _ in range(1000):
                pass
            return list(log)

        assert frames.held(send) == []
        for _ in range(1000):
            pass
        assert log == ["handled"]
    finally:
        signal.signal(signal.SIGUSR1, before)


def main() -> int:
    pattern = sys.argv[1] if len(sys.argv) > 1 else ""
    wrong = []
    for name, run in CHECKS.items():
        if not re.search(pattern, name):
            continue
        try:
            run()
        except Exception:
            wrong.append(name)
            print(f"WRONG {name}")
            traceback.print_exc(file=sys.stdout)
    print(f"CPython {sys.version.split()[0]}: {len(CHECKS)} checks of src/cpython, {len(wrong)} wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
