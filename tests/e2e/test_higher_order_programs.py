"""One program for each operator that takes functions: its graph is that of PyTorch's front end, and nothing leaks."""

import difflib
import gc
import linecache
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gramme
import pytest
import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from e2e.front import GRAMME
from e2e.higher_order_programs import CASES
from e2e.nested_text import Shown, assert_alike

pytestmark = pytest.mark.skipif(not GRAMME, reason="asks for gramme's graphs")

# A line for each program that differs: its name and by how many lines, "whole" if it is not captured whole.
GOLDEN = Path(__file__).parent / "golden" / "higher_order.txt"
KNOWN = dict(line.split() for line in GOLDEN.read_text().splitlines())
# Neither front end captures them: eager raises, it is for another device, or a function that may do anything runs.
NEITHER = {
    "associative_scan_",
    "checkpoint_side",
    "checkpoint_sequential_",
    "allow_in_graph_",
    "linearize_",
    "vmap_of_function",
    "rng_state",
    "inline_asm",
}
CAPTURED = [name for name in CASES if KNOWN.get(name) != "whole" and name not in NEITHER]


def shown(front: Callable[..., Any], name: str) -> list[str] | None:
    """The text of its graph; null if it is not captured whole."""
    function, makers = CASES[name]
    shown = Shown()
    torch.manual_seed(0)
    torch._dynamo.reset()
    try:
        front(function, backend=shown, fullgraph=True)(*[make() for make in makers])
    except Exception:
        return None
    return [line for graph in shown.graphs for line in graph]


def differs(name: str) -> str | None:
    theirs, mine = shown(torch.compile, name), shown(gramme.compile, name)
    if theirs is None or theirs == mine:
        return None
    if mine is None:
        return "whole"
    lines = list(difflib.unified_diff(theirs, mine, lineterm="", n=0))[2:]
    return str(sum(not line.startswith("@@") for line in lines))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_graphs_are_pytorchs() -> None:
    found = {name: different for name in CASES if (different := differs(name))}
    assert found == KNOWN, "\n".join(f"{name} {different}" for name, different in found.items())


def outcome(function: Callable[..., Any], name: str) -> Any:
    torch.manual_seed(0)
    given = [make() for make in CASES[name][1]]
    try:
        return function(*given), given
    except Exception as error:
        return type(error), given


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("name", [name for name in CAPTURED if name != "base_hop"])  # eager refuses what is no graph
def test_results_are_eagers(name: str, backend: str) -> None:
    function = CASES[name][0]
    compiled = gramme.compile(function, backend=backend, fullgraph=True)
    torch._dynamo.reset()  # flex_attention compiles itself, and Dynamo can fail to tell why it does so again
    want = outcome(function, name)
    for _ in range(2):
        assert_alike(outcome(compiled, name), want, rtol=0, atol=0)


def objects_after(name: str, captures: int) -> int:
    function, makers = CASES[name]
    given = [make() for make in makers]
    for _ in range(captures):
        gramme.compile(function, backend="native", fullgraph=True)(*given)
        gramme.reset()
    linecache.clearcache()  # torch.fx keeps the source of every graph there
    for method in vars(ShapeEnv).values():  # and the last few hundred questions of each environment
        getattr(method, "cache_clear", lambda: None)()
    gc.collect()
    return len(gc.get_objects())


def check_leaks(name: str, captures: int) -> None:
    traces = logging.getLogger("torch.__trace")
    traces.disabled = True  # pytest keeps what is logged
    try:
        objects_after(name, 5)
        before = objects_after(name, 5)
        assert objects_after(name, captures) - before <= captures // 10
    finally:
        traces.disabled = False


FEW = ["cond_closure", "while_loop_tensor", "checkpoint_dropout", "function_plain", "nested_region", "hessian_", "flex"]


@pytest.mark.parametrize("name", FEW)
def test_captures_leave_nothing(name: str) -> None:
    check_leaks(name, 50)


@pytest.mark.sampled(16)
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", CAPTURED)
def test_many_captures_leave_nothing(name: str) -> None:
    check_leaks(name, 500)
