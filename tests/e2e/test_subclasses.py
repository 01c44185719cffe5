"""Models of builtins say for which arguments they are written, and hold for instances of builtins' subclasses."""

import types
from typing import Any

import pytest
from sampling import some

from e2e.front import GRAMME
from e2e.subclasses import BASES, cases, differs, some_cases

pytestmark = pytest.mark.skipif(not GRAMME, reason="PyTorch's front end trusts subclasses")


def module_of(callable: Any) -> str:
    callable = getattr(callable, "__func__", callable)
    owner = getattr(callable, "__objclass__", callable)
    if isinstance(callable, types.BuiltinFunctionType) and isinstance(callable.__self__, type):
        owner = callable.__self__
    return str(getattr(owner, "__module__", None) or type(callable).__module__)


def is_torchs(callable: Any) -> bool:
    """Also of functions that pybind11 makes, which tell no module: no other extension has models."""
    return "torch._C" in repr(callable) or "pybind11" in repr(callable)


def test_every_model_states_what_it_takes() -> None:
    from gramme import _C

    models = _C.testing.testing_capture.models()  # type: ignore[attr-defined]
    others = [(model, takes) for model, takes in models if not module_of(model).startswith(("torch", "gramme"))]
    unstated = [model for model, takes in others if takes == "unstated" and not is_torchs(model)]
    assert unstated == []
    assert sum(takes != "unstated" for _, takes in models) > 300


@pytest.mark.parametrize("base", BASES, ids=lambda base: base.__name__)
def test_some_calls(base: type) -> None:
    found = [text for case in some_cases(base, 150, 0) if (text := differs(case))]
    assert found == [], "\n".join(found)


@pytest.mark.slow
@pytest.mark.parametrize("base", BASES, ids=lambda base: base.__name__)
def test_all_calls(base: type) -> None:
    found = [text for case in some(cases(base), 600, base.__name__) if (text := differs(case))]
    assert found == [], "\n".join(found)
