"""The graph of each capture, made anew from its description: backends must not tell it from the captured one."""

import contextlib
import io
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from e2e.front import GRAMME, compile
from e2e.harness import observe
from gramme import _C
from programs import Program, programs
from torch._subclasses import FakeTensorMode

portable = _C.testing.testing_portable  # type: ignore[attr-defined]

pytestmark = pytest.mark.skipif(not GRAMME, reason="gramme's own")

SIZES = [7] * 64  # of symbols


@pytest.fixture(autouse=True)
def _rebinding() -> Iterator[None]:
    yield
    portable.rebind(False)


def told(value: Any, of: torch.fx.Node) -> str:
    """Of an argument or of metadata; objects are told apart by identity."""
    if isinstance(value, torch.fx.Node):
        return f"%{value.name}{'' if value.graph is of.graph else ' of another graph'}"
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__}({', '.join(told(item, of) for item in value)})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{told(k, of)}: {told(v, of)}' for k, v in value.items())}}}"
    if isinstance(value, slice):
        return f"slice{told((value.start, value.stop, value.step), of)}"
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        return f"{type(value).__name__} {value!r}"
    constant = isinstance(value, (torch.dtype, torch.device, torch.layout, torch.memory_format, bytes, range))
    return repr(value) if constant else f"{type(value).__name__} at {id(value)}"


def rows(module: torch.fx.GraphModule) -> list[tuple[Any, ...]]:
    """All that a backend may see of the graph, and of the bodies in it."""
    found: list[tuple[Any, ...]] = [(module.code, told(dict(module.meta), next(iter(module.graph.nodes))))]
    for node in module.graph.nodes:
        target = node.target if isinstance(node.target, str) else id(node.target)
        meta = told(dict(node.meta), node)
        found.append((node.op, node.name, target, node.type, told(node.args, node), told(node.kwargs, node), meta))
        if node.op == "get_attr":
            held = getattr(module, node.target)
            found += rows(held) if isinstance(held, torch.fx.GraphModule) else [id(held)]
    return found


def given(examples: Any) -> list[str]:
    """What the nodes give, as tensors that are not there."""
    return [str(each) for each in examples.fakes(FakeTensorMode(), SIZES)]


@pytest.mark.sampled(60)
@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("program", programs(), ids=lambda p: f"{p.category}-{p.name}")
def test_a_graph_is_what_its_description_leads_to(program: Program, backend: str) -> None:
    seen: list[tuple[Any, Any]] = []

    def look(captured: Any, gives: Any, anew: Any, gives_anew: Any) -> None:
        seen.append((rows(captured), rows(anew)))
        seen.append((given(gives), given(gives_anew)))

    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = str(observe(program.function, program, plain=True))
        portable.rebind(True, look=look)
        found = str(observe(compile(program.function, backend=backend), program, plain=True))
    assert found == expected
    for captured, anew in seen:
        assert anew == captured
    came_to = portable.rebound()
    assert came_to["wrong"] == []
    assert came_to["graphs"] * 2 == len(seen)


def test_annotations_stay() -> None:
    def annotated(x: torch.Tensor) -> torch.Tensor:
        with torch.fx.traceback.annotate({"stage": "first"}):
            y = x.sin()
        return y.cos()

    seen: list[list[tuple[Any, ...]]] = []
    portable.rebind(True, look=lambda captured, _, anew, __: seen.extend([rows(captured), rows(anew)]))
    compile(annotated, backend="eager")(torch.ones(2))
    captured, anew = seen
    assert ["'stage': str 'first'" in row[-1] for row in captured[1:]] == [True, True, False, False]
    assert anew == captured
