"""The tables of opcodes are what the interpreters say."""

import sys

import make_opcodes
import pytest
import pythons

THIS = f"{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.mark.parametrize("version", [THIS, *pythons.OF_MACHINE, *pythons.SUITES])
def test_table_is_up_to_date(version: str) -> None:
    python = pythons.interpreters()[version]
    if not python:
        pytest.skip(f"no CPython {version}; tools/pythons.py set-up {version}")
    text = pythons.run(python, pythons.ROOT / "tools/make_opcodes.py", "--print", what="the table")
    assert make_opcodes.TABLE.with_name(version.replace(".", "") + ".def").read_text() == text
    rows = [line for line in text.splitlines() if line.startswith("RAW(")]
    assert len(rows) > 100
    assert any(line.startswith(("RAW(LOAD_GLOBAL, 4", "RAW(LOAD_GLOBAL, 5")) for line in rows)
    assert not any("INSTRUMENTED" in line for line in rows)


def test_vocabulary_has_no_row_that_no_version_uses() -> None:
    folder = make_opcodes.TABLE.parent
    tables = "\n".join(path.read_text() for path in folder.glob("3*.def"))
    used = {name for name in make_opcodes.VOCABULARY if f"SAME({name})" in tables or f"PART({name}," in tables}
    assert make_opcodes.VOCABULARY - used == set()
