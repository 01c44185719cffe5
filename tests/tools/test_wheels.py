"""What the tools around wheels and other torches refuse, skip and tell."""

import os
import re
import subprocess
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import matrix
import pytest
import pythons
import torches
import wheels
from gramme import _extension

ROOT = Path(__file__).parents[2]
SUFFIX = "cpython-311-x86_64-linux-gnu.so"


def wheel_of(folder: Path, *names: str) -> Path:
    wheel = folder / "gramme-0.1.0-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in ("gramme/__init__.py", *names):
            archive.writestr(name, "")
    return wheel


def test_a_wheel_holds_a_module_for_each_torch(tmp_path: Path) -> None:
    modules = [f"gramme/_torch/2_{minor}/_C.{SUFFIX}" for minor in (13, 15)]
    wheels.look_into(wheel_of(tmp_path, *modules), ["2.13.0", "2.15.1"])
    for names, versions in [
        (modules, ["2.13.0"]),
        (modules, ["2.13.0", "2.14.1", "2.15.0"]),
        ([*modules, f"gramme/_C.{SUFFIX}"], ["2.13.0", "2.15.0"]),
        ([*modules, "gramme.libs/libc10-1a2b3c4d.so"], ["2.13.0", "2.15.0"]),
        ([], ["2.13.0"]),
    ]:
        with pytest.raises(wheels.Failed, match="holds"):
            wheels.look_into(wheel_of(tmp_path, *names), versions)


@pytest.mark.parametrize("system", ["Darwin", "Windows"])
def test_other_systems_are_refused_in_words(tmp_path: Path, system: str) -> None:
    tools = ROOT / ".venv/bin"
    if not (tools / "cmake").exists():
        pytest.skip("no .venv")
    command = [tools / "cmake", "-S", ROOT, "-B", tmp_path, "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={tools / 'ninja'}"]
    pretended = [f"-DCMAKE_SYSTEM_NAME={system}", "-DCMAKE_CXX_COMPILER_WORKS=1"]
    done = subprocess.run([*command, *pretended], text=True, capture_output=True, check=False)
    assert done.returncode == 1
    assert f"gramme runs on Linux only, this is {system}" in done.stderr


def test_one_set_of_versions_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    minors = sorted({int(torch.split(".")[1]) for row in wheels.TORCHES.values() for torch in row})
    wanted = f"torch>=2.{minors[0]},<2.{minors[-1] + 1}"
    assert wanted in project["project"]["dependencies"]
    assert wanted in project["build-system"]["requires"]
    assert [f"{major}.{minor}" for major, minor in _extension.PYTHONS] == list(wheels.TORCHES)
    said = re.search(r"set\(GRAMME_PYTHONS (.*)\)", (ROOT / "CMakeLists.txt").read_text())
    assert said is not None
    assert said[1].split() == list(wheels.TORCHES)
    left_out = set(re.findall(r"!=3\.(\d+)\.\*", project["project"]["requires-python"]))
    assert {f"3.{minor}" for minor in range(11, 15) if str(minor) not in left_out} == set(wheels.TORCHES)


def test_what_cannot_be_set_up_is_told_and_fails_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_network(*_: Any) -> Path:
        raise torches.SkippedError("pip install torch==2.15.0: no network")

    monkeypatch.setattr(torches, "FOLDER", tmp_path)
    monkeypatch.setattr(torches, "SET_UP", ["2.15"])
    monkeypatch.setattr(torches, "set_up", no_network)
    monkeypatch.setenv("GRAMME_TOLD", str(tmp_path / "told.txt"))
    assert torches.main(["test"]) == 0
    told = (tmp_path / "told.txt").read_text()
    assert told == capsys.readouterr().out
    assert "torch 2.15 SKIPPED: pip install torch==2.15.0: no network\n" in told
    assert "torch 2.15 for CPython 3.14 SKIPPED: no environment" in told


@pytest.mark.parametrize(
    ("why", "code", "told"),
    [
        (torches.LateError("the build: not done in 1200 s"), 0, "torch 2.15 SKIPPED: the build: not done in 1200 s\n"),
        (torches.SkippedError("the build: x.cpp:1: error"), 1, "torch 2.15 FAILED: the build: x.cpp:1: error\n"),
    ],
)
def test_what_does_not_compile_has_failed_and_what_takes_too_long_has_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: Exception, code: int, told: str
) -> None:
    def build(*_: Any) -> None:
        raise why

    monkeypatch.setattr(torches, "VERSIONS", ("2.15",))
    monkeypatch.setattr(torches, "FOLDER", tmp_path)
    (tmp_path / "2.15").mkdir()
    (tmp_path / "2.15" / torches.READY).touch()
    monkeypatch.setattr(torches, "build", build)
    monkeypatch.setenv("GRAMME_TOLD", str(tmp_path / "told.txt"))
    assert torches.main(["test"]) == code
    assert (tmp_path / "told.txt").read_text() == told


def test_a_full_disk_is_not_set_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torches, "FOLDER", tmp_path)
    monkeypatch.setattr(torches, "SPACE", 1e18)
    with pytest.raises(torches.SkippedError, match="GB are free, it wants 1000000000"):
        torches.set_up_by_name("3.14-2.15")
    assert list(tmp_path.iterdir()) == []


def test_a_python_that_is_late_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pythons, "set_up", lambda _: pythons.run("sleep", "20", what="apt-get"))
    monkeypatch.setattr(pythons, "SET_UP", ["3.15"])
    monkeypatch.setattr(pythons, "SET_UP_LIMIT", 0.1)
    assert pythons.test("3.15", None, sanitize=False) == "SKIPPED: apt-get: not done in 0 s"
    monkeypatch.setattr(pythons, "SET_UP", [])
    assert pythons.test("3.15", None, sanitize=False) == "SKIPPED: not there; tools/pythons.py set-up 3.15"


def test_a_late_command_ends_with_what_it_has_started(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(pythons.LateError):
        pythons.run("sh", "-c", f"sleep 600 > {fifo} & echo begun > {fifo}; wait", what="waiting", limit=1)
    assert os.read(reader, 100) == b"begun\n"
    os.set_blocking(reader, True)
    assert os.read(reader, 100) == b"", "nobody is left who could write"
    os.close(reader)


def test_commands_together_take_no_longer_than_they_may() -> None:
    with pythons.within(0.5), pytest.raises(pythons.LateError):  # noqa: PT012
        for _ in range(20):
            pythons.run("sleep", "0.2", what="waiting")
    assert pythons.run("echo", "on time", what="afterwards") == "on time\n"


def test_a_command_that_takes_too_long_is_given_up() -> None:
    with pytest.raises(torches.SkippedError, match="waiting: not done in 0 s"):
        torches.run("sleep", "20", what="waiting", limit=0.1)
    with pytest.raises(pythons.SkippedError, match="waiting: not done in 0 s"):
        pythons.run("sleep", "20", what="waiting", limit=0.1)


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (None, "—"),
        ({"kind": "import", "commit": "abc"}, "wheel tried (abc)"),
        ({"kind": "full", "commit": "abc", "passed": 21751}, "all tests: 21,751 passed (abc)"),
        (
            {"kind": "all", "commit": "abc", "passed": 9, "xfailed": 7, "failed": 1, "error": 2},
            "all quick tests: 9 passed, 7 differ as listed, **3 failed** (abc)",
        ),
    ],
)
def test_a_cell_says_what_ran(record: dict[str, Any] | None, text: str) -> None:
    assert matrix.cell(record) == text


def test_the_table_has_a_row_for_each_python() -> None:
    lines = matrix.table({"3.14-2.15": {"kind": "import", "commit": "abc"}}).splitlines()
    assert lines[0] == "| CPython | torch 2.13 | torch 2.14 | torch 2.15 |"
    assert [line[:6] for line in lines[2:]] == ["| 3.11", "| 3.12", "| 3.13", "| 3.14"]
    assert lines[2::3] == ["| 3.11 | — | — | — |", "| 3.14 | — | — | wheel tried (abc) |"]


def test_counts_are_those_of_the_last_line() -> None:
    last = "3 failed, 2015 passed, 12 skipped, 16 xfailed, 1 error in 301.22s (0:05:01)"
    counts = {word.rstrip("s"): int(number) for number, word in matrix.COUNTS.findall(last)}
    assert counts == {"failed": 3, "passed": 2015, "skipped": 12, "xfailed": 16, "error": 1}


@pytest.mark.parametrize(
    ("lines", "code", "passed", "told"),
    [
        (["....", "4 passed in 2.00s"], 0, True, "4 passed in 2.00s"),
        (["..F.", "1 failed, 3 passed in 2.00s"], 1, False, "1 failed, 3 passed in 2.00s"),
        (
            ["....", "!!! session-timeout: 7 sec exceeded !!!", "4 passed in 9.00s"],
            2,
            True,
            "4 passed in 9.00s, the rest",
        ),
        (["..F.", "!!! session-timeout: 7 sec exceeded !!!", "1 failed, 3 passed in 9.00s"], 2, False, "1 failed"),
        (["..", "Fatal Python error: Segmentation fault"], 139, False, "Fatal Python error"),
    ],
)
def test_what_the_time_leaves_out_has_not_failed(
    tmp_path: Path, lines: list[str], code: int, passed: bool, told: str
) -> None:
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin/python"
    python.write_text("#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in lines) + f"exit {code}\n")
    python.chmod(0o755)
    done, last = torches.run_tests(tmp_path, limit=7)
    assert done is passed
    assert last.startswith(told)
