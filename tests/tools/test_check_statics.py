"""Static initialisers: what tools/check_statics.py lets pass and what it refuses."""

from pathlib import Path

import check_statics
import pytest

ROOT = Path(__file__).parents[2]


def refused(source: str) -> list[int]:
    return [finding.line for finding in check_statics.check_source(source)]


@pytest.mark.parametrize(
    "source",
    [
        '  static PyObject* const name = intern("sin");',
        '  static PyObject* const names[] = {intern("a"), intern("b")};',
        '  static constexpr const char* kNames[] = {"take(x)", "b"};',
        '  static const std::unordered_set<std::string> names = {"a", "b"};',
        "  static auto* pool = new std::vector<Fakes*>;",
        "  static constinit std::atomic<int> count{0};",
        "  static uint64_t last = 0;",
        "  // no Python: a table of the dispatcher\n  static const Handle op = find(name);",
        "  static int traverse(PyObject* self, visitproc visit);",
        '  PyObject* const full = once([] { return real("torch", "full"); });',
        'PyObject* const k_iter = intern("__iter__");',
        "  static_cast<void>(take(PyList_New(0)));",
    ],
)
def test_allowed(source: str) -> None:
    assert refused(source) == []


@pytest.mark.parametrize(
    "source",
    [
        '  static PyObject* const full = real("torch", "full");',
        '  static PyObject* getitem = PyObject_GetAttrString(operator_module(), "getitem");',
        '  static PyObject* kinds[] = {intern("a"), attribute("torch", "b")};',
        "  static const Fx* fx = new Fx;",
        "  static PyTypeObject* const type = [] {\n    return named();\n  }();",
        "  static const Table table{read_table()};",
        '  static PyObject* const function =\n      take(PyImport_ImportModule("abc")).release();',
        'PyObject* const module = PyImport_ImportModule("abc");',
        'static PyObject* const module = take(PyImport_ImportModule("abc")).release();',
    ],
)
def test_refused(source: str) -> None:
    assert refused(source) == [1]


def test_a_reason_is_no_reason_without_text() -> None:
    assert refused("  // no Python:\n  static const Handle op = find(name);") == [2]


def test_this_repository() -> None:
    assert check_statics.main([str(ROOT / "src")]) == 0
