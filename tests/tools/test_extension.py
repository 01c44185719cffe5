"""Which extension module is loaded, and what is said where none can be."""

import importlib.machinery
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gramme
import pytest
import torch
from gramme import _extension as extension

PACKAGES = Path(gramme.__file__).parents[1]
SUFFIX = importlib.machinery.EXTENSION_SUFFIXES[0]


def built_for(folder: Path, *minors: str, suffix: str = SUFFIX) -> dict[str, Path]:
    for minor in minors:
        module = folder / minor.replace(".", "_") / f"_C{suffix}"
        module.parent.mkdir(parents=True, exist_ok=True)
        module.touch()
    return extension.modules(folder)


def refusal(*arguments: Any) -> str:
    with pytest.raises(ImportError) as raised:
        extension.choose(*arguments)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_the_module_of_the_installed_torch_is_the_only_one() -> None:
    minor = extension.minor_of(torch.__version__).replace(".", "_")
    assert Path(gramme._C.__file__).parent == PACKAGES / "gramme/_torch" / minor  # type: ignore[attr-defined]
    assert [name for name in sys.modules if name.endswith("._C") and name.startswith("gramme")] == ["gramme._C"]
    assert extension.load() is gramme._C


def test_modules_of_other_pythons_do_not_count(tmp_path: Path) -> None:
    built_for(tmp_path, "2.13", suffix=".cpython-39-x86_64-linux-gnu.so")
    assert list(built_for(tmp_path, "2.15", "2.9", "2.14")) == ["2.9", "2.14", "2.15"]


@pytest.mark.parametrize(
    ("version", "minor"),
    [("2.13.0+cpu", "2.13"), ("2.14.1", "2.14"), ("2.14.0a0+git1234567", "2.14"), ("2.15.0.dev20260101+cu132", "2.15")],
)
def test_a_torch_has_the_module_of_its_minor_version(tmp_path: Path, version: str, minor: str) -> None:
    found = built_for(tmp_path, "2.13", "2.14", "2.15")
    assert extension.choose(version, found) == tmp_path / minor.replace(".", "_") / f"_C{SUFFIX}"


@pytest.mark.parametrize("version", ["2.12.1", "2.16.0", "2.1.3", "2.130.0", "3.13.0", "nightly"])
def test_another_torch_is_refused(tmp_path: Path, version: str) -> None:
    text = refusal(version, built_for(tmp_path, "2.13", "2.14", "2.15"))
    assert f"torch 2.13, 2.14 or 2.15, not for {version}" in text
    assert "pip install 'torch==2.15.*'" in text


def test_without_torch_it_says_what_to_install(tmp_path: Path) -> None:
    assert refusal(None, built_for(tmp_path, "2.13", "2.14")) == (
        "gramme needs torch 2.13 or 2.14: pip install 'torch==2.14.*'"
    )
    assert "pip install 'torch==2.13.*'" in refusal(None, built_for(tmp_path / "other", "2.13"))


def test_a_tree_that_is_not_built_says_so(tmp_path: Path) -> None:
    assert "not built" in refusal("2.13.0", built_for(tmp_path))


@pytest.mark.parametrize(
    ("version", "name", "text"),
    [
        ((3, 10, 12), "cpython", "gramme needs CPython 3.11, 3.12, 3.13 or 3.14, this is 3.10.12"),
        ((3, 15, 0), "cpython", "gramme needs CPython 3.11, 3.12, 3.13 or 3.14, this is 3.15.0"),
        ((3, 13, 0), "cpython", "this is 3.13.0: of 3.13, 3.13.5 or later"),
        ((3, 13, 4), "cpython", "this is 3.13.4: of 3.13, 3.13.5 or later"),
        ((3, 11, 13), "pypy", "gramme needs CPython 3.11, 3.12, 3.13 or 3.14, this is pypy 3.11.13"),
    ],
)
def test_another_python_is_refused(version: tuple[int, ...], name: str, text: str) -> None:
    with pytest.raises(ImportError) as raised:
        extension.refuse_python(version, name)
    assert text in str(raised.value)


def test_this_python_is_not_refused_unless_it_has_no_gil(monkeypatch: pytest.MonkeyPatch) -> None:
    extension.refuse_python()
    for version in ((3, 11, 7), (3, 12, 1), (3, 13, 5), (3, 14, 0)):
        extension.refuse_python(version, "cpython")
    monkeypatch.setattr("sysconfig.get_config_var", lambda name: int(name == "Py_GIL_DISABLED"))
    with pytest.raises(ImportError, match="with the GIL, this is a free-threaded build of 3.14.0"):
        extension.refuse_python((3, 14, 0), "cpython")


def imported_beside(folder: Path, torch_says: str | None) -> str:
    """The last line of `import gramme` in a process whose torch is that text, or that has no torch."""
    if torch_says is not None:
        (folder / "torch").mkdir(parents=True)
        (folder / "torch/__init__.py").write_text(torch_says)
    code = f"import sys; sys.path[:0] = [{str(folder)!r}, {str(PACKAGES)!r}]; import gramme"
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([sys.executable, "-S", "-c", code], env=env, text=True, capture_output=True, check=False)
    assert done.returncode == 1, done.stderr  # no signal
    return done.stderr.splitlines()[-1]


def test_no_process_dies_of_a_torch_that_is_not_there(tmp_path: Path) -> None:
    assert imported_beside(tmp_path, None).startswith("ImportError: gramme needs torch ")


def test_no_process_dies_of_another_torch(tmp_path: Path) -> None:
    line = imported_beside(tmp_path, "__version__ = '2.99.0'")
    assert line.startswith("ImportError: this gramme was built for torch ")
    assert "not for 2.99.0" in line


def test_what_torch_itself_lacks_is_told_as_it_is(tmp_path: Path) -> None:
    line = imported_beside(tmp_path, "import a_module_that_is_missing")
    assert line == "ModuleNotFoundError: No module named 'a_module_that_is_missing'"
    assert "libother.so" in imported_beside(tmp_path / "other", "raise ImportError('libother.so: cannot open')")


def test_layouts_are_those_of_this_process() -> None:
    rows = gramme._C.testing.layouts()  # type: ignore[attr-defined]
    named = {what: (built, found) for what, built, found in rows}
    assert len(named) == len(rows) > 35
    assert all(built == found for built, found in named.values()), named
    assert named["the size of 'function'"] == (type(test_layouts_are_those_of_this_process).__basicsize__,) * 2
    assert named["the size of a tensor's object"] == (torch._C.TensorBase.__basicsize__,) * 2
    assert named["a tensor's rank"] == (2, 2)


def test_another_layout_is_told_in_one_sentence() -> None:
    mismatch = gramme._C.testing.mismatch  # type: ignore[attr-defined]
    assert mismatch("the size of 'function'", 136, 136) == ""
    assert mismatch("the size of 'function'", 136, 144) == (
        "gramme was built for another build of CPython: the size of 'function' is 144 here and 136 there; "
        "build gramme anew with this one"
    )
