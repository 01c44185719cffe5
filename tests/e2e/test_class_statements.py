"""Classes made in compiled code, rightly and wrongly: results, what hooks did, exceptions and their causes are eager's."""

import re
import sys
from collections.abc import Callable
from typing import Any

import gramme
import pytest
import torch

from e2e import class_statements
from e2e.against_eager import outcome

PROGRAMS: dict[str, Callable[..., Any]] = class_statements.PROGRAMS
ADDRESS = re.compile(r"0x[0-9a-f]+")


def told(function: Callable[..., Any]) -> list[str]:
    """What a call gave or raised, with its causes, and what it wrote to its list."""
    log: list[Any] = []

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
    expected = told(function)
    compiled = gramme.compile(function, backend=backend)
    for call in range(3):
        assert told(compiled) == expected, f"call {call}"
    assert "__build_class__" in vars(sys.modules["builtins"])
