"""The arrows between rooms: what tools/check_includes.py lets pass and what it refuses."""

from pathlib import Path

import check_includes
import pytest

ROOT = Path(__file__).parents[2]


def errors(room: str, *lines: str) -> list[int]:
    """The numbers of the lines refused in a file of `room`."""
    return [line for line, _, is_error in check_includes.check_lines(room, list(lines)) if is_error]


@pytest.mark.parametrize(
    ("room", "line"),
    [
        ("interp", '#include "interp/frame.h"'),
        ("interp", '#include "protocol/call.h"'),
        ("guards", '#include "aten/spec.h"'),
        ("effects", '#include "plan/replay.h"'),
        ("runtime", '#include "plan/segment.h"'),
        ("api", '#include "interp/capture.h"'),
        ("cpython", '#include "cpython/frame.h"'),
        ("cpython", "#include <internal/pycore_frame.h>"),
        ("meta", "#include <ATen/ATen.h>"),
        ("base", "Py_INCREF(object);"),
        ("value", "// never Py_INCREF here"),
        ("native", "#include <torch/csrc/autograd/variable.h>"),
        ("native", "#include <torch/csrc/Exceptions.h>  // sees pybind11: python_error"),
    ],
)
def test_allowed(room: str, line: str) -> None:
    assert errors(room, line) == []


@pytest.mark.parametrize(
    ("room", "line"),
    [
        ("trace", 'auto* module = PyImport_ImportModule("torch");'),
        ("meta", "Owned<> module = take(PyImport_Import(name));"),
        ("interp", '#include "builtins/len.h"'),
        ("value", "#include <c10/util/SmallVector.h>"),
        ("builtins", '#include "hop/cond.h"'),
        ("runtime", '#include "trace/trace.h"'),
        ("runtime", '  # include "value/value.h"'),
        ("graph", '#include "effects/log.h"'),
        ("base", '#include "cpython/frame.h"'),
        ("plan", '#include "value/value.h"'),
        ("native", '#include "api/entry.h"'),
        ("source", '#include "../value/value.h"'),
        ("value", "#include <torch/extension.h>"),
        ("value", "#include <c10/core/ScalarType.h>"),
        ("runtime", "#if PY_VERSION_HEX < 0x030c0000"),
        ("cpython", "#if PY_VERSION_HEX < 0x030c0000"),
        ("cpython", "frame->localsplus[0] = nullptr;"),
        ("runtime", "frame.raw()->prev_instr += 1;"),
        ("interp", "#include <internal/pycore_code.h>"),
        ("value", "  Py_XDECREF(object);"),
        ("native", "#include <torch/csrc/autograd/python_variable.h>"),
        ("meta", "#include <pybind11/pybind11.h>"),
        ("attic", ""),
    ],
)
def test_refused(room: str, line: str) -> None:
    assert errors(room, line) == [1]


def test_versions_and_slots_are_known_in_one_file_each() -> None:
    version, slot = ["#if PY_VERSION_HEX < 0x030c0000"], ["frame_->localsplus[0]", "PyStackRef_Borrow(word)"]
    assert not list(check_includes.check_lines("cpython", version, "features.h"))
    assert not list(check_includes.check_lines("cpython", slot, "image.h"))
    assert not list(check_includes.check_lines("cpython", slot, "image.cpp"))
    assert len(list(check_includes.check_lines("cpython", slot, "frame.cpp"))) == 2
    assert len(list(check_includes.check_lines("cpython", version, "image.h"))) == 1


def test_a_count_with_a_reason_is_only_listed() -> None:
    lines = ["// counts by hand: the tuple steals it", "Py_INCREF(item);", "Py_INCREF(item);"]
    assert [(line, is_error) for line, _, is_error in check_includes.check_lines("aten", lines)] == [
        (2, False),
        (3, True),
    ]


def test_no_arrow_leads_back() -> None:
    def reached(room: str) -> set[str]:
        return {room}.union(*(reached(below) for below in check_includes.ALLOWED[room] - {room}))

    for room, below in check_includes.ALLOWED.items():
        assert not [other for other in below - {room} if room in reached(other)], room


def test_main_names_the_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "a.h").write_text('#pragma once\n#include "api/module.h"\n')
    assert check_includes.main([str(tmp_path)]) == 1
    assert "a.h:2: error: base must not include api" in capsys.readouterr().out
