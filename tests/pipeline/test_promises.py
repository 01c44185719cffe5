"""docs/pipeline.md: each promise names tests that exist."""

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
TEXT = (HERE.parents[1] / "docs" / "pipeline.md").read_text()


def rows() -> list[tuple[str, list[str]]]:
    table = TEXT[TEXT.index("| promise | test |") :].splitlines()[2:]
    found = [line.strip("|").rsplit("|", 1) for line in table if line.startswith("|")]
    return [(promise.strip(), re.findall(r"`([^`]*)`", tests)) for promise, tests in found]


def functions(file: str) -> set[str]:
    return {node.name for node in ast.parse((HERE / file).read_text()).body if isinstance(node, ast.FunctionDef)}


def test_each_promise_has_tests_that_exist():
    table = rows()
    assert len(table) > 100
    assert len({promise for promise, _ in table}) == len(table)
    for promise, tests in table:
        assert tests, promise
        for test in tests:
            file, name = test.split("::")
            assert name in functions(file), test
