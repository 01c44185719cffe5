// Messages with a variant for each version of CPython.
#include "protocol/texts.h"

#include "base/text.h"
#include "cpython/features.h"
#include "protocol/protocol.h"
#include "protocol/special.h"

namespace gramme::protocol {

using namespace value;

namespace {

constexpr int kTexts = GRAMME_PYTHON_TEXTS;

std::string quoted(const std::string& text) { return "'" + text + "'"; }

/// The class's name as in errors of slots, which include the module.
std::string name_for_slots(PyTypeObject* type) {
#if GRAMME_PYTHON_TEXTS >= 13
  return utf8_of(take(PyType_GetFullyQualifiedName(type)).get());
#else
  return type->tp_name;
#endif
}

}  // namespace

std::string no_attribute_text(Trace& trace, PyTypeObject* type, PyObject* name) {
  PyObject* field = trace.type_lookup(type, name);
  const bool is_slot = field && Py_IS_TYPE(field, &PyMemberDescr_Type);
  return quoted(is_slot ? name_for_slots(type) : type->tp_name) + " object has no attribute " + quoted(utf8_of(name));
}

const char* no_callable_text() {
  return kTexts == 12 ? "iter(object, sentinel): object must be callable" : "iter(v, w): v must be callable";
}

std::string no_place_text(PyTypeObject* type, PyObject* name) {
  const char* why =
      kTexts >= 13 && type->tp_setattro == PyObject_GenericSetAttr ? " and no __dict__ for setting new attributes" : "";
  return quoted(type->tp_name) + " object has no attribute " + quoted(utf8_of(name)) + why;
}

void raise_no_container(Trace& trace, Value* container) {
  const char* what = kTexts >= 14 ? "is not a container or iterable" : "is not iterable";
  raise_about(trace, PyExc_TypeError, std::string("argument of type '{}' ") + what, container);
}

std::string wrong_super_text(Trace& trace, PyTypeObject* type, Value* object) {
  if (kTexts < 13) return "super(type, obj): obj must be an instance or subtype of type";
  auto* cls = as<Class>(trace.see(object));
  const std::string given = cls ? std::string("type ") + cls->type()->tp_name : "instance of " + type_name(object);
  return "super(type, obj): obj (" + given + ") is not an instance or subtype of type (" + type->tp_name + ").";
}

void raise_not_in(Trace& trace, const std::string& method, const std::string& container, Value* item) {
  if (kTexts >= 14) raise(trace, PyExc_ValueError, container + "." + method + "(x): x not in " + container);
  PyObject* shown = trace.constant_of(to_repr(trace, item));
  if (!shown) cannot(Reason::ArgumentKind, "the message of " + container + "." + method);
  raise(trace, PyExc_ValueError, utf8_of(shown) + " is not in " + container);
}

std::string too_many_text(int expected, size_t got, bool counted) {
  const std::string more = kTexts >= 14 && counted ? ", got " + std::to_string(got) : "";
  return "too many values to unpack (expected " + std::to_string(expected) + more + ")";
}

}  // namespace gramme::protocol
