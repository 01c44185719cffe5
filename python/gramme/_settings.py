"""Settings of PyTorch that count at compile() and around captures; src/api/settings.cpp has those of captures."""

from __future__ import annotations

import contextlib
import itertools
import os
from typing import Any

from ._torch import names

__all__ = ["check_settings", "compilation", "compiles_backward", "is_switched_off", "records_backward"]

_numbers = itertools.count()


def is_switched_off() -> bool:
    """GRAMME_DISABLE=1 or TORCHDYNAMO_DISABLE=1: compile returns its argument unchanged."""
    return "1" in (os.environ.get("GRAMME_DISABLE"), os.environ.get("TORCHDYNAMO_DISABLE"))


def records_backward() -> bool:
    """The default of the native backend's recorded_backward: true unless GRAMME_RECORDED_BACKWARD=0."""
    return os.environ.get("GRAMME_RECORDED_BACKWARD") != "0"


def check_settings() -> None:
    """Checks for settings that exclude each other.

    Raises:
        RuntimeError: suppress_errors and fail_on_recompile_limit_hit.

    """
    config = names.loaded(names.DYNAMO_CONFIG)
    if config is not None and config.suppress_errors and config.fail_on_recompile_limit_hit:
        raise RuntimeError(
            "torch._dynamo.config: suppress_errors and fail_on_recompile_limit_hit exclude each other; set one of them"
        )


def compiles_backward() -> bool:
    """torch._dynamo.config.compiled_autograd, as it is where something is compiled."""
    return bool(getattr(names.loaded(names.DYNAMO_CONFIG), "compiled_autograd", False))


def compilation(handler: Any, name: str) -> contextlib.ExitStack:
    """Runs the callbacks of torch._dynamo.callback for the start of a capture; close() those for its end.

    Called from C++.
    """
    from ._torch.names import CallbackTrigger

    running = contextlib.ExitStack()
    running.enter_context(handler.install_callbacks(CallbackTrigger.DYNAMO, f"{name}/{next(_numbers)}"))
    return running
