// `a is b` on captured values.
#include "base/imported.h"
#include "base/once.h"
#include "protocol/number.h"
#include "protocol/numpy.h"
#include "protocol/special.h"
#include "trace/getters.h"
#include "trace/literals.h"
#include "value/traits.h"

namespace gramme::protocol {

using namespace value;

namespace {

/// True for objects that are unique for their value, or that are guarded by identity anyway.
bool is_unique(PyObject* object) {
  if (object == Py_None || PyBool_Check(object) || object == Py_Ellipsis || object == Py_NotImplemented) return true;
  if (PyLong_CheckExact(object)) {
    int overflow = 0;
    long n = PyLong_AsLongAndOverflow(object, &overflow);
    return !overflow && n >= -5 && n <= 256;
  }
  return !(PyLong_CheckExact(object) || PyFloat_CheckExact(object) || PyUnicode_CheckExact(object) ||
           PyBytes_CheckExact(object) || PyComplex_CheckExact(object) || Py_TYPE(object) == &PyRange_Type);
}

/// True for a device that a call or a tensor's attribute gave: each of those is an object of its own.
bool is_made_device(const Value* value) {
  PyTypeObject* const device = once([] { return imported_type("torch", "device"); });
  return !value->source && Py_IS_TYPE(value->object, device);
}

/// Identity of two constants. Constants are guarded by value, so their identity gets its own guard.
bool same_constants(Trace& trace, Value* left, Value* right) {
  if (is_made_device(left) || is_made_device(right)) return false;
  bool result = left->object == right->object;
  if (is_unique(left->object) || is_unique(right->object) || Py_TYPE(left->object) != Py_TYPE(right->object))
    return result;
  if (left->source && right->source) {
    guards::Fact fact{left->source, result ? guards::Kind::SameAs : guards::Kind::NotSameAs, {}};
    fact.other = right->source;
    trace.facts.add(std::move(fact));
  } else if (left->source || right->source) {
    const bool equal = result || check(PyObject_RichCompareBool(left->object, right->object, Py_EQ));
    Value *held = left->source ? left : right, *known = left->source ? right : left;
    if (equal) trace.facts.add_identity(held->source, known->object, result);
  }
  return result;
}

}  // namespace

bool same(Trace& trace, Value* left, Value* right) {
  left = trace.see(left);
  right = trace.see(right);
  if (left->kind == Kind::Builtin && left->object == right->object && trace::attribute_of_getter(left->object))
    cannot(Reason::ArgumentKind, "the identity of a getter, of which one stands for all");
  if (left == right) return true;
  for (Value* side : {left, right})
    if (auto* number = as<Number>(side)) known_number(trace, number, Reason::DataDependentValue);
  if (left->kind != right->kind) return false;
  if (is_numpy_scalar(left) && is_numpy_scalar(right)) cannot(Reason::ArgumentKind, "the identity of NumPy's scalars");
  if (left->kind == Kind::Constant) return same_constants(trace, left, right);
  if (has(left->kind, BY_OBJECT)) return left->object == right->object;
  return trace.same(left, right);
}

}  // namespace gramme::protocol
