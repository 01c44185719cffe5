"""docs/guide.md: its code runs, and prints what the guide says."""

import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "guide.md"


def test_code_of_the_guide(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)  # it writes a report
    blocks = re.findall(r"```(python|text)\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert len([kind for kind, _ in blocks if kind == "python"]) >= 5
    namespace: dict[str, object] = {"__name__": "guide"}
    printed = ""
    for kind, text in blocks:
        if kind == "text":
            assert printed == text
        else:
            exec(compile(text, str(GUIDE), "exec"), namespace)
            printed = capsys.readouterr().out
