"""Settings that captures read are part of the terms by which entries share segments."""

import re
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src"
OPTION = re.compile(r'\(of_torch::\w+Config, "(\w+)"\)|\{of_torch::\w+Config, "(\w+)"\}')

# Whether there is a capture at all, and what becomes of one that cannot be.
NOT_OF_CAPTURES = {
    "accumulated_recompile_limit",
    "disable",
    "error_on_recompile",
    "fail_on_recompile_limit_hit",
    "recompile_limit",
}


def options(path: Path) -> set[str]:
    return {one or other for one, other in OPTION.findall(path.read_text())}


def test_each_setting_that_captures_read_has_a_row() -> None:
    terms = SOURCES / "api" / "terms.cpp"
    read = set().union(*(options(path) for path in SOURCES.rglob("*.cpp") if path != terms))
    assert len(read) > 15
    assert read - NOT_OF_CAPTURES == options(terms)
