"""README.md and docs/*.md: every block of code runs, and prints what stands below it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from . import document_blocks
from .document_blocks import DOCUMENTS, ROOT, blocks

# Blocks that are not run, by their first line, and why.
LEFT_OUT = {
    "make build && .venv/bin/pip wheel --no-build-isolation --no-deps -w dist .": "builds gramme: ten minutes",
    "make demo    # builds, then shows a report, speed, and captures beside torch.compile": "minutes; make test builds",
}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_blocks_run_and_print_what_the_document_shows(document: Path, tmp_path: Path) -> None:
    if not blocks(document):
        return
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT / "python"),
    }
    done = subprocess.run(
        [sys.executable, document_blocks.__file__, str(document), *LEFT_OUT],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_is_left_out_is_there() -> None:
    lines = {block.first_line for document in DOCUMENTS for block in blocks(document)}
    assert lines >= LEFT_OUT.keys()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_code_is_fenced(document: Path) -> None:
    assert not document_blocks.has_indented_code(document)


def test_a_block_that_fails_or_prints_something_else_is_found(tmp_path: Path) -> None:
    document = tmp_path / "document.md"
    document.write_text("```python\nprint('took', 3.2, 'ms')\n```\n\n```text\ntook 7.5 ms\n```\n")
    document_blocks.run(document, set())
    for code, text in (("print(1)", "2"), ("print(1)", "1 "), ("raise ValueError", "")):
        document.write_text(f"```python\n{code}\n```\n```text\n{text}\n```\n")
        with pytest.raises((AssertionError, ValueError)):
            document_blocks.run(document, set())
