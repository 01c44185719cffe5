"""Classes made in compiled code, rightly and wrongly: results, what hooks did, exceptions and causes are eager's."""

import re
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch

from e2e.against_eager import outcome
from e2e.class_statements import PROGRAMS
from e2e.random_classes import source

ADDRESS = re.compile(r"0x[0-9a-f]+")


class Breaking(list[Any]):
    """Each line of the log ends the graph, wherever in a body or a hook it is written."""

    def append(self, item: Any) -> None:
        torch._dynamo.graph_break()
        super().append(item)


def told(function: Callable[..., Any], log: list[Any]) -> list[str]:
    """What a call gave or raised, with its causes, and what it wrote to its list."""

    def call() -> Any:
        try:
            return function(torch.ones(2), log)
        except Exception as error:
            below = error.__cause__ or error.__context__
            log.append(("raised", type(error).__mro__[1].__name__, type(below).__name__, str(below)))
            raise

    found = [outcome(call), outcome(lambda: log)]
    return [ADDRESS.sub("0x", text) for text in found]


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_eagerly(name: str, backend: str) -> None:
    function = PROGRAMS[name]
    expected = told(function, [])
    compiled = gramme.compile(function, backend=backend, recompile_limit=64)
    for call in range(3):
        assert told(compiled, []) == expected, f"call {call}"


SEES_OTHERS = "build_class_replaced"
"""While it runs a graph is made, and torch.fx makes a class for each."""


@pytest.mark.sampled(20)
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != SEES_OTHERS])
def test_as_eagerly_with_breaks(name: str) -> None:
    function = PROGRAMS[name]
    expected = told(function, Breaking())
    compiled = gramme.compile(function, backend="eager", recompile_limit=64)
    for call in range(3):
        assert told(compiled, Breaking()) == expected, f"call {call}"


@pytest.mark.sampled(12)
@pytest.mark.parametrize("seed", range(400))
def test_drawn(seed: int) -> None:
    names: dict[str, Any] = {"__name__": "drawn"}
    exec(compile(source(seed), f"<drawn {seed}>", "exec"), names)
    expected = told(names["program"], [])
    for backend in ("eager", "native"):
        compiled = gramme.compile(names["program"], backend=backend, recompile_limit=64)
        for call in range(2):
            assert told(compiled, []) == expected, f"{backend}, call {call}"
