"""PyTorch's profiler sees compiled code: regions by compile id, captures, and with stacks what it sees without."""

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gramme
import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from report import programs

X = torch.ones(3, 4)
REGION = "Torch-Compiled Region: "


def seen(run: Callable[[], Any], **options: Any) -> list[str]:
    with profile(activities=[ProfilerActivity.CPU], **options) as profiled:
        run()
    return [event.name for event in profiled.events()]


def regions(names: list[str]) -> list[str]:
    return [name.removeprefix(REGION) for name in names if name.startswith(REGION)]


def ids(compiled: Any) -> list[str]:
    return [row["compile_id"] for row in gramme._C.segments(gramme._compile.entry_of(compiled)) if row["operations"]]


def test_regions_have_the_ids_of_the_segments() -> None:
    f = gramme.compile(lambda x: x.sin() + x.shape[0], backend="native", dynamic=False)
    f(X)
    f(torch.ones(5))
    names = seen(lambda: (f(X), f(torch.ones(5))))
    assert regions(names) == sorted(ids(f))
    assert [each.split("/")[1] for each in regions(names)] == ["0", "1"]


def test_a_capture_is_a_range_that_says_where() -> None:
    f = gramme.compile(programs.helper, backend="eager")
    names = [name for name in seen(lambda: f(X)) if name.startswith("gramme capture")]
    line = programs.helper.__code__.co_firstlineno
    assert names[0] == f"gramme capture: helper ({programs.__file__}:{line})"
    assert not [name for name in seen(lambda: f(X)) if name.startswith("gramme capture")]


def generated(x: torch.Tensor) -> torch.Tensor:
    def parts() -> Iterator[torch.Tensor]:
        yield x.sin()
        yield x.cos()

    return sum(parts(), torch.zeros(()))


def raising(x: torch.Tensor) -> torch.Tensor:
    try:
        programs.helper(x)
        raise ValueError("no")
    except ValueError:
        return x.sin() + 1


def recursive(x: torch.Tensor, depth: int = 4) -> torch.Tensor:
    return programs.helper(recursive(x, depth - 1)) if depth else x


WATCHED = {
    "whole": programs.whole,
    "breaks deep": programs.outer,
    "generator": generated,
    "raises": raising,
    "recursive": recursive,
    "library": programs.Net().eval(),
}


@pytest.mark.parametrize("backend", ["native", "aot_eager"])
@pytest.mark.parametrize("name", WATCHED)
def test_with_stacks_what_is_captured_is_the_same(name: str, backend: str) -> None:
    function = WATCHED[name]
    results, found, captures = [], [], []
    for options in ({}, {"with_stack": True}):
        gramme.reset()
        f = gramme.compile(function, backend=backend)
        names = seen(lambda f=f: results.extend([f(X), f(X)]), **options)
        found.append([number.split("/")[1] for number in regions(names)])
        captures.append(gramme.statistics(f).captures)
    assert found[0] == found[1]
    assert found[0]
    assert captures[0] == captures[1]
    assert all(torch.equal(result, function(X)) for result in results)


def test_stacks_of_the_program_around_are_whole(tmp_path: Path) -> None:
    f = gramme.compile(programs.outer, backend="native")
    f(X)

    def after(x: torch.Tensor) -> torch.Tensor:
        return x.exp()

    def around() -> torch.Tensor:
        return after(f(X))

    verbose = torch._C._profiler._ExperimentalConfig(verbose=True)
    with profile(activities=[ProfilerActivity.CPU], with_stack=True, experimental_config=verbose) as profiled:
        around()
    stacks = {event.name: event.stack for event in profiled.events() if event.name in ("aten::exp", "aten::sin")}
    own = {
        name: [line.partition(": ")[2] for line in stack if "test_profiler.py" in line]
        for name, stack in stacks.items()
    }
    assert own["aten::exp"][:2] == ["after", "around"]
    assert own["aten::sin"][:1] == ["around"]


def test_a_profiler_that_ends_in_compiled_code_hears_nothing_more() -> None:
    profiled = profile(activities=[ProfilerActivity.CPU], with_stack=True)

    @gramme.disable
    def stop() -> None:
        nonlocal profiled
        profiled.stop()
        del profiled
        gc.collect()

    def ending(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        stop()
        return y + 1

    f = gramme.compile(ending, backend="native")
    profiled.start()
    y = f(X)
    assert torch.equal(y, X.sin() + 1)
    assert [programs.whole(X) for _ in range(3)]  # calls that a profile function would hear of


def test_a_schedule_steps_in_compiled_code() -> None:
    done = []
    schedule = torch.profiler.schedule(wait=1, warmup=1, active=1, repeat=2)

    def train(x: torch.Tensor, profiled: Any) -> torch.Tensor:
        y = x.sin()
        profiled.step()
        return y * 2

    f = gramme.compile(train, backend="native")
    with profile(
        activities=[ProfilerActivity.CPU], with_stack=True, schedule=schedule, on_trace_ready=lambda _: done.append(1)
    ) as profiled:
        results = [f(X, profiled) for _ in range(8)]
    assert done == [1, 1]
    assert all(torch.equal(result, X.sin() * 2) for result in results)
