"""Each test starts without compiled functions, and with all older objects out of the collector's way: collections
inside tests then take a millisecond, not two hundred."""

import gc
import sys
from collections.abc import Iterator

import pytest

from e2e import evaluation_hook, front


@pytest.fixture(autouse=True)
def fresh_front() -> Iterator[None]:
    front.reset()
    gc.freeze()
    yield
    front.reset()


@pytest.fixture
def untracked_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """What PyTorch's own front end, once it has compiled something, does to each new module is not done: it waits for
    the module's death, so a frame that lets go of the module ends its segment."""
    tracker = getattr(sys.modules.get("torch._dynamo.mutation_guard"), "GenerationTracker", None)
    if tracker:
        owner = tracker if isinstance(tracker, type) else type(tracker)  # from torch 2.15 on it is an instance
        monkeypatch.setattr(owner, "tag", lambda *arguments: None)


@pytest.fixture
def no_hook() -> None:
    """No frame evaluation hook is in: neither one that PyTorch left nor ours for a generator in a cycle."""
    evaluation_hook.remove()
