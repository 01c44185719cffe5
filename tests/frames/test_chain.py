"""How segments are looked up, run, refused and given up, with segments written by hand."""

import sys
import threading
import warnings
from typing import Any

import gramme
import pytest
import torch

from frames.support import native

Spec = dict[str, Any] | None


class Script:
    """Gives the same answer, or the next one of several, for each capture, and remembers what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, Any]] = []

    def __call__(self, view: dict[str, Any]) -> Spec:
        self.asked.append(view)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        made: Spec = answer(view) if callable(answer) else answer
        return made


def entry_for(function: Any, *answers: Any, **options: Any) -> tuple[Any, Script]:
    script = Script(*answers)
    return native.scripted_entry(function, script, **options), script


def double(x):
    return ("plain", x)


def doubled(x: Any) -> tuple[Any]:
    return (("compiled", x),)


ANY = {"exit": "return", "reads": [("local", 0)], "compiled": doubled, "inputs": [0], "outputs": 1, "result": 1}


def only(view: dict[str, Any]) -> Spec:
    """A segment for this value of the argument alone."""
    return {**ANY, "constants": [(0, view["locals"][0])]}


def test_captured_in_a_frame_then_answered_without() -> None:
    entry, script = entry_for(double, ANY)
    assert entry(1) == ("compiled", 1)
    assert native.counters(entry)["frameless"] == 0
    assert entry(2) == ("compiled", 2)
    assert native.counters(entry)["frameless"] == 1
    assert [(view["offset"], view["depth"], view["locals"]) for view in script.asked] == [(0, 0, [1])]


def test_guards_choose_the_segment_and_the_limit_stops_captures() -> None:
    told: list[tuple[int, str]] = []
    entry, script = entry_for(double, only, limit_reached=lambda n, guard: (told.append((n, guard)), True)[1], limit=3)
    for x in (1, 2, 3, 3, 2, 1):
        assert entry(x) == ("compiled", x)
    assert len(script.asked) == 3
    for x in (4, 5):
        assert entry(x) == ("plain", x)
    assert entry(2) == ("compiled", 2)
    assert [n for n, _ in told] == [3]
    assert "1" in told[0][1]  # the segment used last was the one for 1


def test_limit_may_be_lifted() -> None:
    entry, script = entry_for(double, only, limit_reached=lambda n, guard: False, limit=2)
    assert [entry(x) for x in range(5)] == [("compiled", x) for x in range(5)]
    assert len(script.asked) == 5


def test_error_of_the_limit_reaches_the_caller() -> None:
    entry, _ = entry_for(double, only, limit_reached=lambda n, guard: 1 / 0, limit=1)
    entry(1)
    with pytest.raises(ZeroDivisionError):
        entry(2)


def test_nothing_captured_runs_plainly() -> None:
    entry, script = entry_for(double, None)
    assert [entry(x) for x in range(5)] == [("plain", x) for x in range(5)]
    assert len(script.asked) == 5  # it says nothing about the next call


def test_guards_that_fail_after_the_capture() -> None:
    entry, script = entry_for(double, {**ANY, "constants": [(0, "never")]})
    assert entry(1) == ("plain", 1)
    with pytest.warns(RuntimeWarning, match=r"double.*changed while it was captured"):
        assert entry(1) == ("plain", 1)
    assert entry(1) == ("plain", 1)
    assert len(script.asked) == 2


def catches(x):
    try:
        try:
            raise KeyError
        except KeyError:
            x = [x]
            return x
    except Exception:
        return "caught"


def test_error_of_a_capture_passes_the_programs_handlers() -> None:
    def fail(view: dict[str, Any]) -> Spec:
        raise ValueError("capture failed")

    entry, _ = entry_for(catches, fail)
    with pytest.raises(ValueError, match="capture failed"):
        entry(1)
    assert sys.exc_info() == (None, None, None)
    handling = 0

    def fail_in_handler(view: dict[str, Any]) -> Spec:
        nonlocal handling
        if view["exception"] is not None:
            handling += 1
            raise ValueError("capture failed")
        return {"exit": "concrete", "offset": view["offset"], "stack": list(range(view["depth"]))} | {
            "reads": [("stack", i) for i in range(view["depth"])]
        }

    entry, _ = entry_for(catches, fail_in_handler)
    for _ in range(2):
        with pytest.raises(ValueError, match="capture failed") as caught:
            entry(1)
        assert sys.exc_info() == (None, None, None)
        assert isinstance(caught.value.__context__, KeyError)
        assert caught.traceback[1].name == "catches"
    assert handling == 2


@pytest.mark.parametrize("spec", [{"exit": "concrete", "offset": 3}, {"exit": "handover", "offset": 1000}])
def test_an_exit_nobody_can_resume_at_runs_plainly(spec: dict[str, Any]) -> None:
    def f(x):
        return len(x, *())  # offset 3 is inside LOAD_GLOBAL

    entry, _ = entry_for(f, spec)
    with pytest.warns(RuntimeWarning, match="ends inside an instruction"), pytest.raises(TypeError):
        entry(1)


def test_failing_graph_runs_plainly() -> None:
    def fail(x: Any) -> Any:
        raise RuntimeError("kernel")

    entry, script = entry_for(double, {**ANY, "compiled": fail})
    assert [entry(1), entry(2), entry(3)] == [("plain", 1), ("plain", 2), ("plain", 3)]
    assert native.counters(entry)["graph_errors"] == 3
    assert len(script.asked) == 1


@pytest.mark.parametrize("outputs", [(), (1, 2), 3])
def test_graph_with_wrong_results(outputs: Any) -> None:
    entry, _ = entry_for(double, {**ANY, "compiled": lambda x: outputs})
    for _ in range(2):
        with pytest.raises(gramme.BackendError, match="its graph has 1 outputs"):
            entry(1)


def test_interrupt_in_a_graph_is_raised() -> None:
    def interrupt(x: Any) -> Any:
        raise KeyboardInterrupt

    entry, _ = entry_for(double, {**ANY, "compiled": interrupt})
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            entry(1)


def draws(x):
    return torch.rand(3)


@pytest.mark.parametrize("random", [True, False])
def test_random_numbers_are_put_back(random: bool) -> None:
    def fail(x: Any) -> Any:
        torch.rand(7)
        raise RuntimeError("kernel")

    entry, _ = entry_for(draws, {**ANY, "compiled": fail, "random": random})
    for _ in range(2):
        torch.manual_seed(5)
        expected = draws(1)
        torch.manual_seed(5)
        assert torch.equal(entry(1), expected) == random


def calls_itself(x):
    return x if x == 0 else ENTRY(x - 1) + 1


ENTRY: Any = None


def test_entries_run_plainly_while_a_capture_runs() -> None:
    global ENTRY
    results = []

    def nested(view: dict[str, Any]) -> Spec:
        results.append(ENTRY(3))
        return {"exit": "handover", "offset": 0}

    ENTRY, script = entry_for(calls_itself, nested)
    assert ENTRY(2) == 2
    assert results == [3]
    assert len(script.asked) == 1


def test_other_threads_do_not_wait_for_a_capture() -> None:
    inside, go_on = threading.Event(), threading.Event()

    def slow(view: dict[str, Any]) -> Spec:
        inside.set()
        assert go_on.wait(10)
        return ANY

    entry, script = entry_for(double, slow)
    first: list[Any] = []
    thread = threading.Thread(target=lambda: first.append(entry(1)))
    thread.start()
    assert inside.wait(10)
    assert entry(2) == ("plain", 2)
    go_on.set()
    thread.join()
    assert first == [("compiled", 1)]
    assert entry(3) == ("compiled", 3)
    assert len(script.asked) == 1


def adds(x):
    y = x + 1
    z = len([y])
    return x, y, z


def test_segment_writes_the_frame() -> None:
    """A segment computes y in the graph and leaves the frame in front of `len`."""
    rows = native.decode(adds.__code__)
    offset = next(row[0] for row in rows if row[2] == "LOAD_GLOBAL")
    first = {
        "exit": "concrete",
        "offset": offset,
        "reads": [("local", 0)],
        "compiled": lambda x: [x + 100],
        "inputs": [0],
        "outputs": 1,
        "locals": [(1, 1)],
    }
    entry, script = entry_for(adds, first, {"exit": "handover", "offset": 0})

    def rest(view: dict[str, Any]) -> Spec:
        assert view["locals"][:2] == [1, 101]
        return None

    script.answers[1] = rest
    assert entry(1) == (1, 101, 1)
    assert [view["offset"] for view in script.asked][0] == 0
    assert len(script.asked) == 2
    assert script.asked[1]["depth"] == 2


def test_warnings_as_errors_reach_the_caller() -> None:
    entry, _ = entry_for(double, {**ANY, "constants": [(0, "never")]})
    entry(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning):
            entry(1)
