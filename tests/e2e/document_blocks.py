"""Blocks of code in the documents, and a process that runs those of one document.

A block of Python whose first line is `# name.py` is a file, which later blocks run. The others share one namespace.
What a block prints stands in a `text` block right below it; figures with a unit of time may differ.
"""

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_TIME = re.compile(r"[\d.,]+(?= (?:µs|ms|s)\b)")


class Block(NamedTuple):
    """A fenced block: what the fence says, its text, the number of its first line."""

    kind: str
    text: str
    line: int

    @property
    def first_line(self) -> str:
        return self.text.partition("\n")[0]

    @property
    def file(self) -> str:
        """The name of the file that it is; empty if it is none."""
        found = re.fullmatch(r"# ([\w.]+\.py)", self.first_line)
        return found[1] if found else ""


def blocks(document: Path) -> list[Block]:
    text = document.read_text()
    return [Block(found[1], found[2], text.count("\n", 0, found.start()) + 2) for found in _FENCE.finditer(text)]


def has_indented_code(document: Path) -> bool:
    """Code that no fence marks, which nothing would run."""
    prose = _FENCE.sub("", document.read_text())
    return re.search(r"\n\n {4,}\S", prose) is not None


def without_times(printed: str) -> str:
    return _TIME.sub("#", printed)


def run(document: Path, left_out: set[str]) -> None:
    """Runs the blocks in their order, in the working directory; raises at the first that does not do as shown."""
    namespace: dict[str, object] = {"__name__": "document"}
    printed = ""
    for block in blocks(document):
        place = f"{document.name}:{block.line}"
        if block.kind == "picture":  # tests/tools/test_design.py compares it with the includes
            continue
        if block.kind == "text":
            assert without_times(printed) == without_times(block.text), f"{place}: printed\n{printed}"
        elif block.first_line in left_out:
            printed = ""
        elif block.file:
            Path(block.file).write_text(block.text)
        elif block.kind == "python":
            printed = _python(block, document, namespace)
        elif block.kind == "bash":
            printed = _shell(block, place)
        else:
            raise AssertionError(f"{place}: a block of kind {block.kind!r}")


def _python(block: Block, document: Path, namespace: dict[str, object]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile("\n" * (block.line - 1) + block.text, str(document), "exec"), namespace)
    return out.getvalue()


def _shell(block: Block, place: str) -> str:
    done = subprocess.run(["bash", "-ec", block.text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{place}: {done.stdout}{done.stderr}"
    return done.stdout


if __name__ == "__main__":
    run(Path(sys.argv[1]), set(sys.argv[2:]))
