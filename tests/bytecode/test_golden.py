"""Decoding as a reviewer reads it: tests/bytecode/golden/*.txt hold a source and, below, what the decoder makes of it.

To write a case anew, delete what stands below the line of dashes and run the test: it fails once.
"""

from pathlib import Path

import pytest

from bytecode.support import listing, nested, only_311

CASES = sorted(Path(__file__).with_name("golden").glob("*.txt"))
LINE = "---- decoded ----\n"


@only_311
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_golden(path: Path) -> None:
    source, line, expected = path.read_text().partition(LINE)
    assert line, f"{path} has no line {LINE!r}"
    module = compile(source, path.name, "exec")
    decoded = "\n\n".join(listing(code) for code in nested(module) if code is not module) + "\n"
    if not expected:
        path.write_text(source + LINE + decoded)
        pytest.fail(f"{path.name} written: read it")
    assert decoded == expected
