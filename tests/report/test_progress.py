"""Who waits for a compiler learns what it is at."""

import io
import logging
import sys
import time
from typing import Any

import gramme
import pytest
import torch
from gramme import _progress

X = torch.ones(3)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def slow(module: Any, inputs: Any) -> Any:
    time.sleep(0.2)
    return module.forward


def quick(module: Any, inputs: Any) -> Any:
    return module.forward


torch._dynamo.register_backend(slow, name="slow")  # type: ignore[arg-type]
torch._dynamo.register_backend(quick, name="quick")  # type: ignore[arg-type]


def compiled_with(backend: str) -> None:
    gramme.compile(lambda x: x.sin() + 1, backend=backend)(X)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_progress, "AFTER", 0.05)


def test_a_terminal_gets_a_line_while_it_waits_and_one_at_the_end(soon: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    compiled_with("slow")
    first, second = sys.stderr.getvalue().splitlines()  # type: ignore[attr-defined]
    assert first.startswith("gramme: slow compiles graph ")
    assert first.endswith("so far ...")
    assert second.startswith(first.partition(",")[0])


def test_elsewhere_the_log_has_one(soon: None, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "gramme"):
        compiled_with("slow")
    assert [record.getMessage().startswith("slow compiles graph") for record in caplog.records] == [True]


def test_what_is_quick_says_nothing(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    with caplog.at_level(logging.INFO, "gramme"):
        compiled_with("quick")
    assert not sys.stderr.getvalue()  # type: ignore[attr-defined]
    assert not caplog.records
