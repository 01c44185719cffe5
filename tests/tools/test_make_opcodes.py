"""The tables of opcodes are what the interpreters say."""

import make_opcodes
import pytest
import pythons


def test_this_version_is_up_to_date() -> None:
    assert make_opcodes.TABLE.read_text() == make_opcodes.table()


@pytest.mark.parametrize("version", [*pythons.OF_MACHINE, *pythons.SUITES])
def test_other_versions_can_be_read(version: str) -> None:
    python = pythons.interpreters()[version]
    if not python:
        pytest.skip(f"no CPython {version}; tools/pythons.py set-up {version}")
    text = pythons.run(python, pythons.ROOT / "tools/make_opcodes.py", "--print", what="the table")
    rows = [line for line in text.splitlines() if line.startswith("RAW(")]
    assert len(rows) > 100
    assert any(line.startswith("RAW(LOAD_GLOBAL, 4") for line in rows)
    assert not any("INSTRUMENTED" in line for line in rows)
