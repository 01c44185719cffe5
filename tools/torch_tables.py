"""Reads the private names of torch that gramme uses: the tables of src/torch and of gramme/_torch."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
FOLDERS = sorted((ROOT / "src/torch").glob("2_*"), key=lambda folder: int(folder.name.split("_")[1]))

ROW = re.compile(r"^([A-Z_]+)\((.*)\)$", re.MULTILINE)
TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')


class Row(NamedTuple):
    kind: str  # NAME, MODULE, PATH, CODE, ATTRIBUTE, SETTING ...; PYTHON for rows of gramme/_torch/names.py
    id: str  # "" for rows that have none
    where: str  # a module, or a file
    name: str  # "" for the module or the file itself


def rows_of(table: Path) -> list[Row]:
    found = []
    for kind, text in ROW.findall(table.read_text()):
        texts = TEXT.findall(text)
        where, name = (*texts, "", "")[:2]
        found.append(Row(kind, "" if text.startswith('"') else text.split(",")[0].strip(), where, name))
    return found


def python_names() -> dict[str, tuple[str, str]]:
    """The table of gramme/_torch/names.py, read without running gramme."""
    source = (ROOT / "python/gramme/_torch/names.py").read_text()
    found = re.search(r"^NAMES: .*?^}", source, re.MULTILINE | re.DOTALL)
    assert found is not None
    space: dict[str, dict[str, tuple[str, str]]] = {}
    exec(found[0], space)
    return space["NAMES"]


def changes(version: str) -> list[Row]:
    """What the folders up to the version say is elsewhere, or not there: of each version that of the newest folder."""
    minor = int(version.split(".")[1])
    known = [folder / "torch_changes.def" for folder in FOLDERS if int(folder.name.split("_")[1]) <= minor]
    tables = [table for table in known if table.exists()]
    return rows_of(tables[-1]) if tables else []


def rows(version: str) -> list[Row]:
    """All rows as they are for the version, in one order for every version."""
    tables = ("torch_names.def", "torch_askers.def", "torch_outside.def")
    table = [row for name in tables for row in rows_of(FOLDERS[0] / name)]
    changed = {row.id: row for row in changes(version)}
    found = []
    for row in table:
        change = changed.get(row.id) if row.id and row.kind in ("NAME", "CODE", "ATTRIBUTE") else None
        if change and change.kind.startswith("GONE"):
            row = row._replace(kind="GONE")
        elif change:
            row = row._replace(where=change.where, name=change.name)
        elif row.kind in ("PATH_OF", "ASKER"):
            row = Row("PATH_OF", row.id, "torch/" + row.where, "")
        elif row.kind == "OUTSIDE":
            row = Row("CODE", row.id, "torch/" + row.where, row.name)
        found.append(row)
    settings = (FOLDERS[0] / "torch_settings.def").read_text()
    names = re.findall(r"^SETTING\((\w+),", settings, re.MULTILINE)
    found += [Row("SETTING", "", "torch._dynamo.config", name) for name in names]
    found += [Row("PYTHON", name, module, attribute) for name, (module, attribute) in python_names().items()]
    return found


def operators() -> list[str]:
    """Base names of aten's operators in the tables of gramme's rooms."""
    named: set[str] = set()
    for table in ("src/torch/2_13/torch_targets.def", "src/torch/2_13/torch_shapes.def"):
        named |= set(re.findall(r'^[A-Z_]+\("?([a-z_][\w.]*)"?[,)]', (ROOT / table).read_text(), re.MULTILINE))
    for source in ("src/tape/composites.cpp", "src/record/targets.cpp"):
        named |= set(re.findall(r'"(?:aten::)?([a-z_]\w*)"', (ROOT / source).read_text()))
    return sorted(named)
