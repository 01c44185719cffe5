// Finds whether a special method is the program's or that of a builtin base, and which builtin part an operand
// contributes.
#include "protocol/special.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/text.h"
#include "value/traits.h"

namespace gramme::protocol {

using namespace value;

namespace {

bool is_c_method(PyObject* raw) { return Py_TYPE(raw) == &PyWrapperDescr_Type || Py_TYPE(raw) == &PyMethodDescr_Type; }
PyTypeObject* owner(PyObject* raw) { return reinterpret_cast<PyDescrObject*>(raw)->d_type; }
bool is_heap_type(PyTypeObject* type) { return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0; }

}  // namespace

Value* payload_of(Value* seen) {
  auto* object = as<Object>(seen);
  if (!object || !object->payload) return nullptr;
  return PyType_IsSubtype(object->type, reinterpret_cast<PyTypeObject*>(PyExc_BaseException)) ? nullptr
                                                                                              : object->payload;
}

namespace {
bool own_class(Object*) { return true; }
bool own_class(Tuple* tuple) { return is_heap_type(tuple->type); }
bool own_class(Class* cls) { return Py_TYPE(cls->object) != &PyType_Type; }
}  // namespace

bool has_own_class(Value* seen) {
  if (!has(seen->kind, SUBCLASSED)) return false;
  return as_kind<SUBCLASSED>(seen, [](auto* value) { return own_class(value); });
}

bool extends(Value* seen, PyTypeObject* number) {
  auto* object = as<Object>(seen);
  return object && PyType_IsSubtype(object->type, number);
}

bool extends_builtin(Value* seen) {
  auto* tuple = as<Tuple>(seen);
  bool leaf = false;
  for (PyTypeObject* type : {&PyLong_Type, &PyFloat_Type, &PyComplex_Type, &PyUnicode_Type, &PyBytes_Type})
    leaf = leaf || extends(seen, type);
  return leaf || payload_of(seen) || (tuple && is_heap_type(tuple->type));
}

Value* payload_for(Trace& trace, Value* seen, PyObject* name) {
  Value* payload = payload_of(seen);
  if (!payload) return nullptr;
  PyObject* raw = trace.type_lookup(static_cast<Object*>(seen)->type, name);
  if (!raw || !is_c_method(raw) || owner(raw) == &PyBaseObject_Type) return nullptr;
  return PyType_IsSubtype(type_of(payload), owner(raw)) ? payload : nullptr;
}

Value* own_method(Trace& trace, Value* seen, PyObject* name) {
  if (!has_own_class(seen)) return nullptr;
  PyObject* raw = trace.type_lookup(type_of(seen), name);
  if (!raw) return nullptr;
  if (raw == Py_None) cannot(Reason::OpaqueCallback, utf8_of(name) + " that is None");
  if (is_c_method(raw)) {
    if (owner(raw) == &PyBaseObject_Type || seen->kind != Kind::Object) return nullptr;  // of tuple or type: modelled
    if (payload_for(trace, seen, name)) return nullptr;
  }
  return special_method(trace, seen, name);
}

Value* attempt(Trace& trace, Value* seen, PyObject* name, std::initializer_list<Value*> args) {
  Value* method = own_method(trace, seen, name);
  if (!method) return nullptr;
  Value* result = trace.see(call(trace, method, args));
  return result->kind == Kind::Constant && result->object == Py_NotImplemented ? nullptr : result;
}

bool forbidden(Trace& trace, Value* seen, PyObject* name) {
  return has_own_class(seen) && trace.type_lookup(type_of(seen), name) == Py_None;
}

bool is_constant_of(Value* seen, PyTypeObject* type) {
  return seen->kind == Kind::Constant && Py_TYPE(seen->object) == type;
}

bool is_int(Value* seen) { return is_constant_of(seen, &PyLong_Type) || is_constant_of(seen, &PyBool_Type); }

bool has_index(Trace& trace, Value* seen) {
  static PyObject* const name = intern("__index__");
  if (seen->kind == Kind::Constant) return PyIndex_Check(seen->object);
  if (auto* number = as<Number>(seen)) return number->type != &PyFloat_Type;
  if (seen->kind == Kind::Tensor) return true;
  return seen->kind == Kind::Object && trace.type_lookup(static_cast<Object*>(seen)->type, name);
}

namespace {

/// The builtin type as which operators treat an instance of its subclass (number, text or set).
PyTypeObject* builtin_base(PyTypeObject* type) {
  for (PyTypeObject* base :
       {&PyLong_Type, &PyFloat_Type, &PyComplex_Type, &PyUnicode_Type, &PyBytes_Type, &PySet_Type, &PyFrozenSet_Type})
    if (PyType_IsSubtype(type, base)) return base;
  return nullptr;
}

/// The rank of int, float, complex: each accepts the lower ones. 0: no number.
int number_rank(PyTypeObject* type) {
  if (type == &PyLong_Type) return 1;
  return type == &PyFloat_Type ? 2 : type == &PyComplex_Type ? 3 : 0;
}

}  // namespace

bool is_opaque_scalar(Value* seen) {
  auto* object = as<Object>(seen);
  PyTypeObject* base = object && !object->payload && !is_address(object) ? builtin_base(object->type) : nullptr;
  return base && base != &PySet_Type && base != &PyFrozenSet_Type;
}

bool takes_first(Value* left, Value* right) {
  if (right->kind != Kind::Object || has_own_class(left)) return false;
  PyTypeObject *type = type_of(left), *subclass = type_of(right), *taken = builtin_base(subclass);
  if (!taken || PyType_IsSubtype(subclass, type)) return false;
  const int rank = number_rank(taken);
  if (left->kind == Kind::Tensor) return rank > 0;
  PyTypeObject* own = builtin_base(type);
  if (rank > 0) return own && rank <= number_rank(own);
  const bool sets = taken == &PySet_Type || taken == &PyFrozenSet_Type;
  return sets && (own == &PySet_Type || own == &PyFrozenSet_Type || left->kind == Kind::View);
}

Value* folded(Trace& trace, PyObject* result) {
  if (!result) raise_current(trace);
  return trace.adopt(Owned<>::steal(result));
}

void raise_about(Trace& trace, PyObject* type, std::string text, Value* seen) {
  if (size_t at = text.find("{}"); at != std::string::npos) text.replace(at, 2, type_name(seen));
  raise(trace, type, text);
}

namespace {

bool runs_code(Trace& trace, Value* value);

bool any_runs_code(Trace& trace, const std::vector<Value*>& items) {
  return std::any_of(items.begin(), items.end(), [&](Value* item) { return runs_code(trace, item); });
}

bool any_runs_code(Trace& trace, Table& table) {
  bool found = false;
  table.each([&](Table::Entry& entry) {
    found = found || runs_code(trace, entry.key) || (entry.value && runs_code(trace, entry.value));
  });
  return found;
}

bool holds_code(Trace& trace, Tuple* tuple) { return any_runs_code(trace, tuple->items); }
bool holds_code(Trace& trace, List* list) { return any_runs_code(trace, list->items()); }
bool holds_code(Trace& trace, Set* set) { return any_runs_code(trace, set->entries); }
bool holds_code(Trace& trace, Dict* dict) {
  trace.load(dict);
  return any_runs_code(trace, dict->entries);
}
bool holds_code(Trace&, Value*) { return false; }

/// True if a real object equal to the value could run the program's code.
bool runs_code(Trace& trace, Value* value) {
  Trace::Deeper deeper(trace);
  value = trace.see(value);
  if (has_own_class(value)) return true;
  return has(value->kind, CONCRETE) && as_kind<CONCRETE>(value, [&](auto* seen) { return holds_code(trace, seen); });
}

}  // namespace

Owned<> inert(Trace& trace, Value* value) { return runs_code(trace, value) ? Owned<>() : trace.concrete(value); }

bool mapping_entries(Trace& trace, Value* seen, std::vector<std::pair<Value*, Value*>>& entries) {
  if (auto* dict = as<Dict>(seen)) {
    trace.load(dict);
    dict->entries.each([&](Table::Entry& entry) { entries.emplace_back(entry.key, entry.value); });
    return true;
  }
  auto* instance = as<InstanceDict>(seen);
  if (!instance) return false;
  for (const Attribute& attribute : trace.all_attributes(instance->owner)) {
    if (attribute.value) entries.emplace_back(trace.constant(attribute.name), attribute.value);
  }
  return true;
}

}  // namespace gramme::protocol
