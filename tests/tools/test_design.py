"""docs/design.md says what is so: its picture of the rooms, the files and names in it. HACKING.md has each room."""

import re
from functools import cache
from pathlib import Path

import check_includes
import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/design.md").read_text()
PICTURE = re.search(r"^```picture\n(api .*?)^```$", TEXT, re.M | re.S)
PROSE = re.sub(r"^```.*?^```$", "", TEXT, flags=re.M | re.S)
CODE = set(re.findall(r"`([^`\n]+)`", PROSE))
NATIVE = ("src/tape", "src/record", "src/passes", "src/training", "src/native")
FOLDERS = ("", "src", "python/gramme", "tests", "src/builtins", *NATIVE, "src/shape", "src/hop", "src/cpython")


def test_picture_is_what_includes_may_be() -> None:
    assert PICTURE
    line_of = {
        room: number
        for number, line in enumerate(PICTURE[1].splitlines())
        for room in line[:40].split()  # what a line is about stands behind
    }
    assert set(line_of) == set(check_includes.ALLOWED)
    upwards = [
        (room, other)
        for room, others in check_includes.ALLOWED.items()
        for other in others
        if line_of[other] < line_of[room]
    ]
    assert not upwards


@cache
def included(file: str) -> frozenset[str]:
    """The files of src that the file includes, directly or not."""
    found: set[str] = set()
    pending = [file]
    while pending:
        text = (ROOT / "src" / pending.pop()).read_text()
        new = set(re.findall(r'^#include "([\w/]+\.\w+)"', text, re.M)) - found
        found |= new
        pending += [name for name in new if (ROOT / "src" / name).exists()]
    return frozenset(found)


def test_a_write_goes_from_trace_to_the_ledger() -> None:
    """In the diagram, what stands further right is called by the line above it and knows nothing of its caller."""
    diagram = re.search(r"^```picture\n(x\.add_.*?)^```$", TEXT, re.M | re.S)
    assert diagram
    steps = re.findall(r"^(  (?:  )?)([\w:]+) +(\w+/\w+\.cpp) ", diagram[1], re.M)
    assert {file.split("/")[0] for _, _, file in steps} == {"trace", "effects"}
    caller = ""
    for indent, name, file in steps:
        assert re.search(rf"\b{name.split('::')[-1]}\(", (ROOT / "src" / file).read_text()), (name, file)
        if len(indent) == 2:
            caller = file
            continue
        assert re.search(rf"\b{name}\(", (ROOT / "src" / caller).read_text()), (name, caller)
        assert file.replace(".cpp", ".h") in included(caller)
        assert not [other for other in included(file) if other.startswith("trace/")]


@cache
def sources() -> str:
    folders = ("src", "python/gramme", "tools", "tests/cpython")
    files = (path for folder in folders for path in (ROOT / folder).rglob("*"))
    return "\n".join(path.read_text() for path in files if path.suffix in {".h", ".cpp", ".def", ".py"})


@pytest.mark.parametrize(
    "name", sorted(name for name in CODE if re.fullmatch(r"[\w/.]+\.(h|cpp|def|py|md|html|js)", name))
)
def test_files_are_there(name: str) -> None:
    if name.startswith("torch_"):
        assert list((ROOT / "src/torch").glob(f"*/{name}")) or name in sources()  # some are made when gramme is built
    elif name != "cpython/opcodes/3xx.def":
        assert any((ROOT / folder / name).exists() for folder in FOLDERS)


@pytest.mark.parametrize("name", sorted(name for name in CODE if re.fullmatch(r"[A-Za-z_]\w+(::~?\w+)+", name)))
def test_names_are_there(name: str) -> None:
    assert re.search(rf"\b{name.split('::')[-1]}\b", sources())


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(#([^)]+)\)", TEXT))))
def test_links_lead_somewhere(link: str) -> None:
    titles = {
        re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in re.findall(r"^#+ (.+)$", PROSE, re.M)
    }
    assert link in titles


def test_every_room_has_a_row() -> None:
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", (ROOT / "docs/HACKING.md").read_text(), re.M)
    assert {room for row in rows for room in re.findall(r"\w+", row)} == set(check_includes.ALLOWED)
