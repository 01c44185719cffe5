"""Packages whose functions run for real do so wherever they lie: in a folder of the program's path, vendored."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import gramme, torch, {name}
function = {name}.doubled
said = gramme.explain(lambda x: function(x) + 1)(torch.ones(2))
assert torch.equal(gramme.compile(lambda x: function(x) + 1, backend="eager")(torch.ones(2)), torch.full((2,), 3.0))
print(said.graph_count, said.op_count)
"""
FUNCTION = "def doubled(x):\n    return x * 2\n"


@pytest.mark.parametrize(
    ("name", "file", "expected"),
    [
        ("tabulate", "tabulate.py", "1 1"),
        ("tabulate", "tabulate/__init__.py", "1 1"),
        ("another", "another/__init__.py", "1 2"),
        ("tabulate_more", "tabulate_more.py", "1 2"),
    ],
    ids=["a file", "a folder", "another package", "a name that begins alike"],
)
def test_it_runs_for_real(name: str, file: str, expected: str, tmp_path: Path) -> None:
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(FUNCTION)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{PROGRAM.format(name=name)}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split("\n")[0] == expected, done.stderr
