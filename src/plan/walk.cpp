// One reader for each kind of source. All read by C layout or C API that runs no Python.
#include "plan/walk.h"

#include <algorithm>
#include <iterator>

#include "aten/arrays.h"
#include "base/type_dict.h"
#include "plan/fields.h"

namespace gramme::plan {
namespace {

using cpython::Lookup;
using SourceKind = source::Kind;

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

Outcome read_field(PyObject* const* address, PyObject** value) {
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

[[gnu::noinline]] Outcome read_ahead(const Step& step, PyObject* base, PyObject** value) {
  cpython::Ahead ahead = cpython::look_ahead(base, step.index);
  if (ahead.next == cpython::Next::End) return found(nullptr, value);
  PyObject* item = step.kind == SourceKind::Ahead ? ahead.item : ahead.value;
  if (!item) return Outcome::Unreadable;
  if (ahead.made) reading->made.push_back(std::move(ahead.made));
  return found(item, value);
}

/// Reads a source of this kind from its base, for kinds that are no field.
template <SourceKind kind>
Outcome read(const Step& step, PyObject* base, PyObject** value) = delete;

#define READ(kind) \
  template <>      \
  Outcome read<SourceKind::kind>([[maybe_unused]] const Step& step, PyObject* base, PyObject** value)

READ(Attr) {
  return looked_up(PyType_Check(base) ? cpython::dict_lookup(type_dict(base), step.key, value)
                                      : cpython::instance_attribute(base, step.key, value));
}
READ(TypeAttr) {
  if (!PyType_Check(base)) return Outcome::Unreadable;
  return found(cpython::type_lookup(reinterpret_cast<PyTypeObject*>(base), step.key), value);
}
READ(Item) { return read_item(base, step.index, value); }
READ(DequeItem) {
  if (!is_deque(base)) return Outcome::Unreadable;
  PyObject** address = cpython::deque_item_address(base, step.index);
  return found(address ? *address : nullptr, value);
}
READ(Value) {
  return PyDict_Check(base) ? looked_up(cpython::dict_lookup(base, step.key, value)) : Outcome::Unreadable;
}
READ(MemberAt) {
  return PyAnySet_Check(base) ? found(cpython::set_member(base, step.index), value) : Outcome::Unreadable;
}
READ(KeyAt) { return read_entry(base, step.index, true, value); }
READ(ValueAt) { return read_entry(base, step.index, false, value); }
READ(Closure) {
  if (!PyFunction_Check(base)) return Outcome::Unreadable;
  PyObject* closure = cpython::as_function(base)->func_closure;
  return closure ? read_item(closure, step.index, value) : Outcome::Absent;
}
READ(InstanceDict) { return found(instance_dict(base), value); }
READ(WeakTarget) { return PyWeakref_CheckRef(base) ? found(PyWeakref_GET_OBJECT(base), value) : Outcome::Unreadable; }
/// The gradient's Python object is kept alive by its C++ tensor, and that by the base's autograd state.
READ(Grad) {
  return aten::is_tensor(base) ? found(Owned<>::steal(aten::grad_of(base)).get(), value) : Outcome::Unreadable;
}
/// The context keeps the value alive, or the variable its default.
READ(ContextValue) {
  if (!PyContextVar_CheckExact(base)) return Outcome::Unreadable;
  PyObject* const missing =
      once([] { return take(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type))).release(); });
  PyObject* now = nullptr;
  if (PyContextVar_Get(base, step.index == 0 ? missing : nullptr, &now) < 0) PyErr_Clear();
  Owned<> held = Owned<>::steal(now);
  return found(now == missing ? nullptr : now, value);
}
READ(ArrayTensor) {
  if (!aten::is_array(base) || aten::is_writeable(base) != (step.index == 1)) return Outcome::Unreadable;
  Owned<> tensor = aten::tensor_over(base);
  if (!tensor) return Outcome::Unreadable;
  reading->made.push_back(std::move(tensor));
  return found(reading->made.back().get(), value);
}
READ(TokenPart) {
  if (!PyContextToken_CheckExact(base)) return Outcome::Unreadable;
  return found(cpython::token_part(base, static_cast<int>(step.index)), value);
}
READ(ThreadDict) {
  return cpython::is_thread_local(base) ? found(cpython::thread_dict(base), value) : Outcome::Unreadable;
}
READ(Ahead) { return read_ahead(step, base, value); }
READ(ValueAhead) { return read_ahead(step, base, value); }

#undef READ

}  // namespace

const KnownTypes& known_types() {
  const KnownTypes* types = once([] { return new KnownTypes; });
  return *types;
}

OfProcess<Reading> reading;

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
  PyObject** const fields[] = {
      &function->func_name,       &function->func_qualname, &function->func_module, &function->func_doc,
#if GRAMME_PYTHON_TYPE_PARAMETERS
      &function->func_typeparams,
#endif
#if GRAMME_PYTHON_ANNOTATE
      &function->func_annotate,
#endif
  };
  return fields[index];
}

PyObject* instance_dict(PyObject* base) {
  PyObject** address = cpython::instance_dict_address(base);
  if (!address) return nullptr;
  if (*address) return *address;
  if (!Owned<>::steal(PyObject_GenericGetDict(base, nullptr))) PyErr_Clear();
  return *cpython::instance_dict_address(base);  // the dict may have taken the place of the attributes' array
}

bool is_deque(PyObject* object) { return PyObject_TypeCheck(object, known_types().deque); }

PyObject* read_module(const Step& step) {
  PyObject* module;
  return cpython::dict_lookup(PyImport_GetModuleDict(), step.key, &module) == Lookup::Found ? module : nullptr;
}

// By the columns of sources.def.
#define BY_Field(name) read_field(field<SourceKind::name>(step, base), value)
#define BY_Fixed(name) BY_Field(name)
#define BY_Own(name) read<SourceKind::name>(step, base, value)
#define BY_Stamp(name) BY_Own(name)
#define BY_Unstamped(name) BY_Own(name)
#define BY_Ahead(name) BY_Own(name)
#define BY_Root(name) Outcome::Unreadable

Outcome read_child(const Step& step, PyObject* base, PyObject** value) {
  *value = nullptr;
  switch (step.kind) {
#define SOURCE(name, uses, place, needs, evidence, text) \
  case SourceKind::name:                                 \
    return BY_##evidence(name);
#include "source/sources.def"
#undef SOURCE
  }
  return Outcome::Unreadable;
}

#undef BY_Field
#undef BY_Own
#define BY_Field(name) field<SourceKind::name>(step, base)
#define BY_Own(name) nullptr
#undef BY_Root
#define BY_Root(name) nullptr

PyObject* const* field_address(const Step& step, PyObject* base) {
  switch (step.kind) {
#define SOURCE(name, uses, place, needs, evidence, text) \
  case SourceKind::name:                                 \
    return BY_##evidence(name);
#include "source/sources.def"
#undef SOURCE
  }
  return nullptr;
}

// read_root() in walk.h handles these by name.
static_assert(std::count(std::begin(source::kPlaces), std::end(source::kPlaces), source::Place::Root) == 6);

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
