// sum(). Since 3.12 it differs from repeated addition: as long as all items are numbers, it compensates the rounding
// errors of float additions.
#include "builtins/python_sum.h"

#include <opcode.h>

#include <algorithm>

#include "base/once.h"
#include "cpython/features.h"
#include "protocol/number.h"

namespace gramme::builtins {
namespace {

using value::Kind;

bool is_of(Value* seen, PyTypeObject* type) { return protocol::type_of(seen) == type; }

bool is_inexact(Value* seen) { return is_of(seen, &PyFloat_Type) || is_of(seen, &PyComplex_Type); }

bool is_whole(Value* seen) { return is_of(seen, &PyLong_Type) || is_of(seen, &PyBool_Type); }

bool fits_a_word(Value* seen) {
  if (seen->kind != Kind::Constant) return true;
  int beyond = 0;
  PyLong_AsLongAndOverflow(seen->object, &beyond);
  return beyond == 0;
}

/// Adds in CPython's order: a loop for ints, then loops for floats and complex numbers from the first such item on.
class Sum {
 public:
  Sum(Trace& trace, Value* start) : trace_(trace), total_(start) {
    compensates_ = GRAMME_PYTHON_SUM_COMPENSATES && (is_of(start, &PyLong_Type) || is_inexact(start));
  }

  void add(Value* item) {
    Value* seen = trace_.see(item);
    if (compensates_ && is_inexact(total_)) {
      if (is_inexact(seen) || is_whole(seen)) return waiting_.push_back(seen);
      if (PyType_IsSubtype(protocol::type_of(seen), &PyLong_Type))
        cannot(Reason::ArgumentKind, "sum() of floats and an instance of a subclass of int");
    }
    settle();
    Value* before = total_;
    total_ = trace_.see(protocol::binary(trace_, NB_ADD, total_, item));
    compensates_ = compensates_ && stays(before, seen);
  }

  Value* result() {
    settle();
    return total_;
  }

 private:
  /// True if CPython stays in one of these loops after this addition. After leaving them it adds by the operator.
  bool stays(Value* before, Value* item) const {
    if (is_inexact(total_)) return is_of(before, &PyLong_Type);
    return is_of(before, &PyLong_Type) && is_whole(item) && fits_a_word(item) && fits_a_word(total_);
  }

  /// Adds the waiting numbers. A single addition of two floats needs no compensation.
  void settle() {
    if (waiting_.empty()) return;
    auto varies = [](Value* item) { return item->kind != Kind::Constant; };
    const auto floats = std::count_if(waiting_.begin(), waiting_.end(), is_inexact) + 1;
    const bool by_parts = floats <= 2 && (varies(total_) || std::any_of(waiting_.begin(), waiting_.end(), varies));
    if (by_parts)
      for (Value* item : waiting_) total_ = trace_.see(protocol::binary(trace_, NB_ADD, total_, item));
    else
      total_ = trace_.constant(added_by_python());
    waiting_.clear();
  }

  Owned<> added_by_python() {
    PyObject* const real_sum = once([] { return real("builtins", "sum"); });
    Owned<> items = take(PyList_New(0));
    for (Value* item : waiting_) check(PyList_Append(items.get(), known(item)));
    return call_real(trace_, real_sum, {items.get(), known(total_)});
  }

  PyObject* known(Value* number) {
    auto* varying = value::as<value::Number>(number);
    return varying ? protocol::known_number(trace_, varying, Reason::DataDependentValue) : number->object;
  }

  Trace& trace_;
  Value* total_;
  bool compensates_;
  std::vector<Value*> waiting_;  // numbers to add to a float or complex total
};

}  // namespace

Value* sum(Trace& trace, const Args& args) {
  auto [iterable, start] = bind(args, 1, {"", "start"});
  Value* first = start ? trace.see(start) : trace.integer(0);
  PyTypeObject* type = protocol::type_of(first);
  if (PyType_IsSubtype(type, &PyUnicode_Type) || PyType_IsSubtype(type, &PyBytes_Type) ||
      PyType_IsSubtype(type, &PyByteArray_Type))
    cannot(Reason::ArgumentKind, "sum() of text");  // a TypeError, with a message for each type
  Sum total(trace, first);
  Value* iterator = protocol::get_iterator(trace, iterable);
  while (Value* item = protocol::next(trace, iterator)) total.add(item);
  return total.result();
}

}  // namespace gramme::builtins
