"""What gramme names of torch is there: every row, those of modules too that are imported late."""

import ast
import subprocess
import sys
import textwrap
from pathlib import Path

import compare_torches
import pytest
import torch
import torch_tables
from gramme._torch import names

ROOT = Path(__file__).parents[2]
TORCH = Path(torch.__file__).parents[1]


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code)], text=True, capture_output=True, check=False)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_row_is_there() -> None:
    rows, found = compare_torches.described(sys.executable)
    gone = [row for row, answer in zip(rows, found["rows"], strict=True) if "gone" in answer and row.kind != "SETTING"]
    assert gone == []


def test_the_module_finds_every_name() -> None:
    """With all modules imported, in a process of its own: importing torch._dynamo changes torch."""
    done = run("import gramme; print(gramme._C.testing.missing_names())")
    assert done.stdout.strip() == "[]", done.stderr


def test_a_missing_name_of_cpp_is_in_one_error() -> None:
    done = run(
        """
        import torch
        del torch._C._group_tensors_by_device_and_dtype, torch._C._is_tracing
        try:
            import gramme
        except ImportError as error:
            print(str(error))
        """
    )
    assert "torch._C._group_tensors_by_device_and_dtype" in done.stdout
    assert "torch._C._is_tracing" in done.stdout


def test_a_missing_name_of_python_is_in_one_error() -> None:
    done = run(
        """
        import torch
        from torch import _guards
        del _guards.StorageOverlap, _guards.GuardEnvExpr
        try:
            import gramme
        except ImportError as error:
            print(str(error))
        """
    )
    assert "torch._guards.GuardEnvExpr, torch._guards.StorageOverlap" in done.stdout


def test_rows_of_python_that_are_imported_late() -> None:
    for name in names.NAMES:
        assert getattr(names, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = names.no_such_name  # type: ignore[attr-defined]


def test_type_checkers_see_the_rows() -> None:
    tree = ast.parse(Path(names.__file__).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    seen: dict[str, tuple[str, ...]] = {}
    for node in block.body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                seen[alias.asname or alias.name] = (f"{node.module}", alias.name)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                seen[alias.asname or alias.name] = (alias.name, "")
    modules = {
        name: tuple(f"{module}.{attribute}".rstrip(".").split(".")) for name, (module, attribute) in names.NAMES.items()
    }
    assert {name: tuple(".".join(part for part in row if part).split(".")) for name, row in seen.items()} == modules


def test_importing_gramme_does_not_import_dynamo() -> None:
    done = run(
        "import sys, gramme; print([m for m in sys.modules if m.startswith(('torch._dynamo', 'torch._inductor'))])"
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_each_version_has_its_folder() -> None:
    """The folders are of one form: what a version says is known to the table of the first."""
    ids = {row.id for row in torch_tables.rows_of(torch_tables.FOLDERS[0] / "torch_names.def") if row.id}
    for folder in torch_tables.FOLDERS:
        assert (folder / "torch_version.h").exists()
        assert (ROOT / "python/gramme/_torch" / folder.name / "rules.txt").exists()
        for row in (
            torch_tables.rows_of(folder / "torch_changes.def") if (folder / "torch_changes.def").exists() else []
        ):
            assert row.id in ids, f"{folder.name}: {row}"


def changes(old: dict[str, str], new: dict[str, str], kind: str = "NAME") -> list[str]:
    return [change.what for change in compare_torches.changes_of(torch_tables.Row(kind, "", "torch", "x"), old, new)]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ({"kind": "function", "body": "a"}, {"kind": "function", "body": "a"}, []),
        ({"kind": "function", "body": "a"}, {"kind": "function", "body": "b"}, ["body"]),
        ({"kind": "function", "body": "a"}, {"gone": "x"}, ["gone"]),
        ({"gone": "x"}, {"kind": "function"}, ["new"]),
        ({"gone": "x"}, {"gone": "x"}, []),
        ({"kind": "function"}, {"kind": "type"}, ["kind"]),
        ({"kind": "function", "signature": "(a)"}, {"kind": "function", "signature": "(a, b)"}, ["signature"]),
        ({"kind": "function"}, {"known": "gone"}, ["told gone"]),
    ],
)
def test_comparison(old: dict[str, str], new: dict[str, str], told: list[str]) -> None:
    assert changes(old, new) == told


def test_operators_that_changed() -> None:
    old = {"aten::a": "a(Tensor x)", "aten::b": "b(Tensor x)", "aten::c": "c()"}
    new = {"aten::a": "a(Tensor x, int y)", "aten::b": "b(Tensor x)", "aten::d": "d()"}
    assert [change.what for change in compare_torches.operator_changes(old, new)] == [
        "operator gone",
        "operator new",
        "schema",
    ]
