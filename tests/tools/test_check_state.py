"""Variables that outlive a call: what tools/check_state.py lets pass, what it refuses, and the table it writes."""

from pathlib import Path

import check_state
import pytest

ROOT = Path(__file__).parents[2]


def refused(source: str) -> list[int]:
    return [finding.line for finding in check_state.check_source("meta", source)]


@pytest.mark.parametrize(
    "source",
    [
        "struct State {\n  int count = 0;  // GIL, a word\n};\nOfProcess<State> state;\n",
        "struct State {\n  /// GIL: by name,\n  /// which lives.\n  std::set<int> all;\n};\nLasting<State> state;\n",
        "class Pool {\n public:\n  int size() const { return 1; }\n\n private:\n  std::mutex mutex_;\n"
        "  int last_ = 0;  // mutex_: of the pool\n};\nLasting<Pool> pool;\n",
        "AtLoad<std::unordered_map<std::string, Row>> rows;\n",
        "thread_local constinit Thread of_thread;\n",
        "void f() {\n  thread_local Counters counters;\n}\n",
        "constexpr int kMost = 3;\n",
        'PyObject* const k_iter = intern("__iter__");\n',
        "void f() {\n  static const auto* const known = new Names{};\n}\n",
        'void f() {\n  static Option option(of_torch::DynamoConfig, "disable");\n}\n',
        "PyMethodDef kMethods[] = {{}};\n",
        "bool is_known(int number);\n",
        "struct Known {\n  static int unit_of(PyObject* index);\n};\n",
    ],
)
def test_allowed(source: str) -> None:
    assert refused(source) == []


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("unsigned generation = 1;\n", 1),
        ("\nconstinit std::atomic<int> watchers{0};\n", 2),
        ("std::vector<int> made;\n", 1),
        ("extern bool rebinds;\n", 1),
        ("thread_local Watch* current = nullptr;\n", 1),
        ("Known& known = *new Known;\n", 1),
        ("const char* name = nullptr;\n", 1),
        ("struct Hook {\n  int deep = 0;\n} hook;\n", 3),
        ("void f() {\n  static bool told = false;\n}\n", 2),
        ("void f() {\n  static auto* const all = new std::vector<int>;\n}\n", 2),
        ('void f() {\n  static std::string text("a");\n}\n', 2),
        ("class Recording {\n  static inline Recording* current_ = nullptr;\n};\n", 2),
        ("struct State {\n  int count = 0;\n};\nOfProcess<State> state;\n", 4),
        ("struct State {\n  int count = 0;  // of calls\n};\nLasting<State> state;\n", 4),
        ("OfProcess<Elsewhere> state;\n", 1),
    ],
)
def test_refused(source: str, line: int) -> None:
    assert refused(source) == [line]


def test_table_is_up_to_date() -> None:
    assert check_state.TABLE.read_text() == check_state.table(ROOT / "src")


def test_exceptions_are_there() -> None:
    met = {
        (path.relative_to(ROOT / "src").parts[0], variable.name)
        for path, source in check_state.sources(ROOT / "src")
        for variable in check_state.variables(source)
    }
    assert check_state.EXCEPTIONS.keys() <= met
