#include "plan/walk.h"

#include "aten/classes.h"
#include "base/imported.h"
#include "base/once.h"
#include "cpython/iterators.h"
#include "cpython/lru_cache.h"
#include "cpython/objects.h"
#include "source/constant.h"

namespace gramme::plan {
namespace {

using cpython::Lookup;
using GuardKind = guards::Kind;
using SourceKind = source::Kind;
using source::same_constant;

/// Types of C modules that gramme reads by layout.
struct KnownTypes {
  PyTypeObject* deque = imported_type("collections", "deque");
  PyTypeObject* defaultdict = imported_type("collections", "defaultdict");
  PyTypeObject* partial = imported_type("functools", "partial");
};
const KnownTypes& known_types() {
  const KnownTypes* types = once([] { return new KnownTypes; });
  return *types;
}

Outcome found(PyObject* object, PyObject** value) {
  *value = object;
  return object ? Outcome::Found : Outcome::Absent;
}

Outcome looked_up(Lookup lookup) {
  switch (lookup) {
    case Lookup::Found:
      return Outcome::Found;
    case Lookup::Absent:
      return Outcome::Absent;
    case Lookup::NeedsPython:
      break;
  }
  return Outcome::Unreadable;
}

Outcome read_attribute(PyObject* base, PyObject* name, PyObject** value) {
  if (PyType_Check(base)) {
    PyObject* dict = reinterpret_cast<PyTypeObject*>(base)->tp_dict;
    return looked_up(cpython::dict_lookup(dict, name, value));
  }
  return looked_up(cpython::instance_attribute(base, name, value));
}

Outcome read_slot(PyObject* base, PyObject* name, PyObject** value) {
  PyObject** address = slot_of(base, name);
  return address ? found(*address, value) : Outcome::Unreadable;
}

inline Outcome read_item(PyObject* base, int64_t index, PyObject** value) {
  bool tuple = PyTuple_Check(base);
  if (!tuple && !PyList_Check(base)) return Outcome::Unreadable;
  if (index < 0) [[unlikely]]
    index += Py_SIZE(base);
  if (index < 0 || index >= Py_SIZE(base)) return found(nullptr, value);
  return found(tuple ? PyTuple_GET_ITEM(base, index) : PyList_GET_ITEM(base, index), value);
}

Outcome read_entry(PyObject* dict, int64_t index, bool want_key, PyObject** value) {
  if (!PyDict_Check(dict)) return Outcome::Unreadable;
  PyObject *key, *content;
  if (!cpython::is_ordered_dict(dict)) {
    if (!cpython::dict_entry(dict, index, &key, &content)) return Outcome::Absent;
    return found(want_key ? key : content, value);
  }
  key = cpython::ordered_dict_key(dict, index);
  if (!key || want_key) return found(key, value);
  if (!cpython::is_inert_key(key)) return Outcome::Unreadable;
  return looked_up(cpython::dict_lookup(dict, key, value));
}

Outcome read_function_field(const Step& step, PyObject* base, PyObject** value) {
  if (!PyFunction_Check(base)) return Outcome::Unreadable;
  PyFunctionObject* function = cpython::as_function(base);
  switch (step.kind) {
    case SourceKind::Globals:
      return found(function->func_globals, value);
    case SourceKind::Builtins:
      return found(function->func_builtins, value);
    case SourceKind::Defaults:
      return found(function->func_defaults, value);
    case SourceKind::KwDefaults:
      return found(function->func_kwdefaults, value);
    default:
      break;
  }
  PyObject* closure = function->func_closure;
  return closure ? read_item(closure, step.index, value) : Outcome::Absent;
}

/// CPython makes the dict of what it kept of the definition when it is first asked for.
Outcome read_annotations(PyObject* base, PyObject** value) {
  if (!PyFunction_Check(base)) return Outcome::Unreadable;
  static PyObject* const name = intern("__annotations__");
  if (!Owned<>::steal(PyObject_GenericGetAttr(base, name))) PyErr_Clear();
  return found(cpython::as_function(base)->func_annotations, value);
}

Outcome read_method_field(bool self, PyObject* base, PyObject** value) {
  if (PyMethod_Check(base)) return found(self ? PyMethod_GET_SELF(base) : PyMethod_GET_FUNCTION(base), value);
  if (self && PyCFunction_Check(base)) return found(PyCFunction_GET_SELF(base), value);
  return Outcome::Unreadable;
}

Outcome read_partial_field(SourceKind kind, PyObject* base, PyObject** value) {
  if (!PyObject_TypeCheck(base, known_types().partial)) return Outcome::Unreadable;
  auto* partial = cpython::as_partial(base);
  return found(kind == SourceKind::PartialFunc   ? partial->func
               : kind == SourceKind::PartialArgs ? partial->args
                                                 : partial->keywords,
               value);
}

Outcome read_grad(PyObject* base, PyObject** value) {
  if (!aten::is_tensor(base)) return Outcome::Unreadable;
  // The gradient's Python object is kept by its tensor, which the base's autograd state keeps.
  return found(Owned<>::steal(aten::grad_of(base)).get(), value);
}

/// The context (or the variable, of its default) keeps the value.
Outcome read_context_value(int index, PyObject* base, PyObject** value) {
  if (!PyContextVar_CheckExact(base)) return Outcome::Unreadable;
  PyObject* const missing =
      once([] { return take(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type))).release(); });
  PyObject* now = nullptr;
  if (PyContextVar_Get(base, index == 0 ? missing : nullptr, &now) < 0) PyErr_Clear();
  Owned<> held = Owned<>::steal(now);
  return found(now == missing ? nullptr : now, value);
}

[[gnu::noinline]] Outcome read_ahead(const Step& step, PyObject* base, PyObject** value) {
  cpython::Ahead ahead = cpython::look_ahead(base, step.index);
  if (ahead.next == cpython::Next::End) return found(nullptr, value);
  PyObject* item = step.kind == SourceKind::Ahead ? ahead.item : ahead.value;
  if (!item) return Outcome::Unreadable;
  if (ahead.made) made_by_reading.push_back(std::move(ahead.made));
  return found(item, value);
}

}  // namespace

std::vector<Owned<>> made_by_reading;

PyObject** slot_of(PyObject* base, PyObject* name) {
  PyObject* descriptor = cpython::type_lookup(Py_TYPE(base), name);
  Py_ssize_t offset = descriptor ? cpython::slot_offset(descriptor, Py_TYPE(base)) : -1;
  return offset < 0 ? nullptr : cpython::slot_address(base, offset);
}

PyObject** name_address(PyObject* base, int64_t index) {
  if (PyType_Check(base)) {
    auto* type = reinterpret_cast<PyHeapTypeObject*>(base);
    bool named = (type->ht_type.tp_flags & Py_TPFLAGS_HEAPTYPE) && index < 2;
    return named ? (index == 0 ? &type->ht_name : &type->ht_qualname) : nullptr;
  }
  if (!PyFunction_Check(base)) return nullptr;
  PyFunctionObject* function = cpython::as_function(base);
  PyObject** const fields[] = {&function->func_name, &function->func_qualname, &function->func_module,
                               &function->func_doc};
  return fields[index];
}

PyObject* instance_dict(PyObject* base) {
  PyObject** address = cpython::instance_dict_address(base);
  if (!address) return nullptr;
  if (!*address) {
    Owned<> made = Owned<>::steal(PyObject_GenericGetDict(base, nullptr));
    if (!made) PyErr_Clear();
  }
  return *address;
}

bool is_deque(PyObject* object) { return PyObject_TypeCheck(object, known_types().deque); }

PyObject* read_module(const Step& step) {
  PyObject* module;
  return cpython::dict_lookup(PyImport_GetModuleDict(), step.key, &module) == Lookup::Found ? module : nullptr;
}

Outcome read_child(const Step& step, PyObject* base, PyObject** value) {
  *value = nullptr;
  switch (step.kind) {
    case SourceKind::Attr:
      return read_attribute(base, step.key, value);
    case SourceKind::Slot:
      return read_slot(base, step.key, value);
    case SourceKind::TypeAttr:
      if (!PyType_Check(base)) return Outcome::Unreadable;
      return found(cpython::type_lookup(reinterpret_cast<PyTypeObject*>(base), step.key), value);
    case SourceKind::Item:
      return read_item(base, step.index, value);
    case SourceKind::DequeItem: {
      if (!is_deque(base)) return Outcome::Unreadable;
      PyObject** address = cpython::deque_item_address(base, step.index);
      return found(address ? *address : nullptr, value);
    }
    case SourceKind::Value:
      return PyDict_Check(base) ? looked_up(cpython::dict_lookup(base, step.key, value)) : Outcome::Unreadable;
    case SourceKind::MemberAt:
      return PyAnySet_Check(base) ? found(cpython::set_member(base, step.index), value) : Outcome::Unreadable;
    case SourceKind::KeyAt:
      return read_entry(base, step.index, true, value);
    case SourceKind::ValueAt:
      return read_entry(base, step.index, false, value);
    case SourceKind::Contents:
      return PyCell_Check(base) ? found(PyCell_GET(base), value) : Outcome::Unreadable;
    case SourceKind::Closure:
    case SourceKind::Globals:
    case SourceKind::Builtins:
    case SourceKind::Defaults:
    case SourceKind::KwDefaults:
      return read_function_field(step, base, value);
    case SourceKind::Annotations:
      return read_annotations(base, value);
    case SourceKind::MethodSelf:
      return read_method_field(true, base, value);
    case SourceKind::MethodFunc:
      return read_method_field(false, base, value);
    case SourceKind::PartialFunc:
    case SourceKind::PartialArgs:
    case SourceKind::PartialKw:
      return read_partial_field(step.kind, base, value);
    case SourceKind::InstanceDict:
      return found(instance_dict(base), value);
    case SourceKind::Grad:
      return read_grad(base, value);
    case SourceKind::DefaultFactory:
      if (!PyObject_TypeCheck(base, known_types().defaultdict)) return Outcome::Unreadable;
      return found(*cpython::default_factory_address(base), value);
    case SourceKind::ProxyMapping:
      return Py_IS_TYPE(base, &PyDictProxy_Type) ? found(cpython::proxy_mapping(base), value) : Outcome::Unreadable;
    case SourceKind::Mro:
      return PyType_Check(base) ? found(reinterpret_cast<PyTypeObject*>(base)->tp_mro, value) : Outcome::Unreadable;
    case SourceKind::ContextValue:
      return read_context_value(static_cast<int>(step.index), base, value);
    case SourceKind::TokenPart:
      if (!PyContextToken_CheckExact(base)) return Outcome::Unreadable;
      return found(cpython::token_part(base, static_cast<int>(step.index)), value);
    case SourceKind::IteratorOf: {
      PyObject** address = cpython::iterated_address(base);
      return address ? found(*address, value) : Outcome::Unreadable;
    }
    case SourceKind::Ahead:
    case SourceKind::ValueAhead:
      return read_ahead(step, base, value);
    case SourceKind::Name: {
      PyObject** address = name_address(base, step.index);
      return address ? found(*address, value) : Outcome::Unreadable;
    }
    case SourceKind::ThreadDict:
      return cpython::is_thread_local(base) ? found(cpython::thread_dict(base), value) : Outcome::Unreadable;
    case SourceKind::CacheTable:
      if (!cpython::is_lru_cache(base) || cpython::is_typed_cache(base) != (step.index != 0))
        return Outcome::Unreadable;
      return found(*cpython::cache_table_address(base), value);
    case SourceKind::CacheResult: {
      PyObject** address = cpython::cached_result_address(base);
      return address ? found(*address, value) : Outcome::Unreadable;
    }
    case SourceKind::WeakTarget:
      return PyWeakref_CheckRef(base) ? found(PyWeakref_GET_OBJECT(base), value) : Outcome::Unreadable;
    default:
      break;  // roots
  }
  return Outcome::Unreadable;
}

bool walk_below(const Program& program, uint32_t first, PyObject** registers) {
  const Step* steps = program.steps.data();
  for (uint32_t i = first + 1, end = steps[first].end; i < end; ++i) {
    const Step& step = steps[i];
    PyObject* base = registers[step.base];
    if (!base) return false;
    Outcome outcome = step.kind == SourceKind::Item ? read_item(base, step.index, &registers[i])
                                                    : read_child(step, base, &registers[i]);
    if (outcome != (step.absent ? Outcome::Absent : Outcome::Found)) return false;
    if (!step.absent && !passes(program, step, registers[i])) return false;
  }
  return true;
}

bool walk_root(const Program& program, uint32_t first, PyObject* object, PyObject** registers) {
  const Step& step = program.steps[first];
  registers[first] = object;
  if (!object) return step.absent;
  return !step.absent && passes(program, step, object) && walk_below(program, first, registers);
}

}  // namespace gramme::plan
