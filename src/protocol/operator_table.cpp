// Builds both tables once, from the operator module.
#include "protocol/operator_table.h"

#include <string>
#include <vector>

#include "base/imported.h"
#include "base/once.h"

namespace gramme::protocol {

PyObject* operator_function(const char* name) {
  PyObject* const module = once([] { return take(import_module("_operator")).release(); });
  return take(PyObject_GetAttrString(module, name)).release();
}

namespace {

struct Name {
  const char *function, *in_place, *stem, *symbol;
};
// In the order of NB_ADD … NB_XOR.
constexpr Name kNames[kOperators] = {
    {"add", "iadd", "add", "+"},
    {"and_", "iand", "and", "&"},
    {"floordiv", "ifloordiv", "floordiv", "//"},
    {"lshift", "ilshift", "lshift", "<<"},
    {"matmul", "imatmul", "matmul", "@"},
    {"mul", "imul", "mul", "*"},
    {"mod", "imod", "mod", "%"},
    {"or_", "ior", "or", "|"},
    {"pow", "ipow", "pow", "**"},
    {"rshift", "irshift", "rshift", ">>"},
    {"sub", "isub", "sub", "-"},
    {"truediv", "itruediv", "truediv", "/"},
    {"xor", "ixor", "xor", "^"},
};

PyObject* special(const char* prefix, const char* stem) {
  return intern((std::string("__") + prefix + stem + "__").c_str());
}

std::vector<Operator> make_operators() {
  std::vector<Operator> rows;
  for (const Name& name : kNames) {
    rows.push_back({operator_function(name.function), operator_function(name.in_place), special("", name.stem),
                    special("r", name.stem), special("i", name.stem), name.symbol});
  }
  return rows;
}

std::vector<Comparison> make_comparisons() {
  auto row = [](const char* name, int swapped, const char* symbol) {
    return Comparison{operator_function(name), special("", name), swapped, symbol};
  };
  return {row("lt", Py_GT, "<"),  row("le", Py_GE, "<="), row("eq", Py_EQ, "=="),
          row("ne", Py_NE, "!="), row("gt", Py_LT, ">"),  row("ge", Py_LE, ">=")};
}

}  // namespace

const Operator& operator_row(int op) {
  const auto* const rows = once([] { return new std::vector<Operator>(make_operators()); });
  return (*rows)[plain_operator(op)];
}

const Comparison& comparison_row(int op) {
  const auto* const rows = once([] { return new std::vector<Comparison>(make_comparisons()); });
  return (*rows)[op];
}

}  // namespace gramme::protocol
