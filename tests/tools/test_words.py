"""Texts that users read say the field's terms."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    ROOT / "README.md",
    *(ROOT / "docs" / f"{name}.md" for name in ("guide", "surface", "pipeline", "libraries")),
]
TEXTS = [
    *DOCUMENTS,
    ROOT / "src/base/reasons.def",
    ROOT / "src/base/hints.def",
    ROOT / "python/gramme/_report/page.html",
    ROOT / "python/gramme/_words.py",
    ROOT / "python/gramme/_explain.py",
]
INSTEAD = {
    r"\bplainly\b": "uncompiled (eager)",
    r"carried out for real|run for real|runs for real": "run in Python",
    r"\bmeaningless\b": "no effect",
    r"the truth of a": "an `if` on a tensor's value",
    r"something else than": "anything but",
    r"comes? out of data|out of data": "data-dependent",
    r"\bthat is no\b|\bthat are no\b": "that is not a",
}
NAMES = re.compile(r"`[^`]*`")  # of tests, functions, settings


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_words(path: Path) -> None:
    text = NAMES.sub("", path.read_text())
    found = [f"{old[0]!r}: say {new!r}" for words, new in INSTEAD.items() for old in re.finditer(words, text)]
    assert not found
