#include "plan/recorder.h"

#include <cstddef>

#include "cpython/iterators.h"
#include "cpython/lru_cache.h"
#include "cpython/objects.h"
#include "guards/marks.h"
#include "plan/walk.h"

namespace gramme::plan {
namespace {

using SourceKind = source::Kind;

// The tag has 32 bits and padding behind it that nobody writes, so it can be compared as a word.
static_assert(offsetof(PyTypeObject, tp_version_tag) % 8 == 0);
static_assert(offsetof(PyTypeObject, tp_finalize) == offsetof(PyTypeObject, tp_version_tag) + 8);

uint64_t bits(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

/// Can the type of this object change while it lives?
bool type_may_change(PyObject* object) {
  return (Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE) || PyModule_Check(object);
}

PyObject* const* function_field(const Step& step, PyObject* object) {
  PyFunctionObject* function = cpython::as_function(object);
  switch (step.kind) {
    case SourceKind::Globals:
      return &function->func_globals;
    case SourceKind::Builtins:
      return &function->func_builtins;
    case SourceKind::Defaults:
      return &function->func_defaults;
    default:
      return &function->func_kwdefaults;
  }
}

PyObject* const* method_field(const Step& step, PyObject* object) {
  if (PyCFunction_Check(object)) return &reinterpret_cast<PyCFunctionObject*>(object)->m_self;
  auto* method = reinterpret_cast<PyMethodObject*>(object);
  return step.kind == SourceKind::MethodSelf ? &method->im_self : &method->im_func;
}

PyObject* const* partial_field(const Step& step, PyObject* object) {
  auto* partial = cpython::as_partial(object);
  if (step.kind == SourceKind::PartialFunc) return &partial->func;
  return step.kind == SourceKind::PartialArgs ? &partial->args : &partial->keywords;
}

}  // namespace

const uint64_t kNever = 0;

Recorder::Recorder(Block& block, PyObject** registers)
    : block_(block), program_(block.program_), registers_(registers) {
  block_.scratch_.words.clear();
  block_.scratch_.origins.clear();
  block_.scratch_.begins.clear();
}

bool Recorder::record(uint32_t first, uint32_t last) {
  for (index_ = first; index_ < last; ++index_) {
    block_.scratch_.begins.push_back(static_cast<uint32_t>(block_.scratch_.words.size()));
    if (!record_step(index_)) return false;
  }
  return true;
}

bool Recorder::record_step(uint32_t index) {
  const Step& step = program_.steps[index];
  PyObject*& object = registers_[index];
  bool stamped = false;
  block_.forget(mark(index));
  if (step.base >= static_cast<int32_t>(block_.begin_)) {
    PyObject* base = registers_[step.base];
    if (!base) return false;
    Outcome outcome = read_child(step, base, &object);
    if (outcome != (step.absent ? Outcome::Absent : Outcome::Found)) return false;
    stamped = add_fetch(step, base, object);
  }
  if (!object) return step.absent;
  if (step.absent || !passes(program_, step, object)) return false;
  add_object(step, object, stamped);
  return true;
}

bool Recorder::add_fetch(const Step& step, PyObject* base, PyObject* value) {
  switch (step.kind) {
    case SourceKind::TypeAttr:
    case SourceKind::Value:
    case SourceKind::KeyAt:
    case SourceKind::ValueAt:
    case SourceKind::DequeItem:
    case SourceKind::MemberAt:
    case SourceKind::Grad:
    case SourceKind::ContextValue:
    case SourceKind::ThreadDict:
    case SourceKind::TokenPart:
      return true;
    case SourceKind::Attr:
      return add_attribute(step, base, value);
    case SourceKind::Slot:
      add_pointer(slot_of(base, step.key), value);
      return false;
    case SourceKind::Item:
      if (!value) return true;  // the size is stamped
      if (PyTuple_Check(base)) return add_immutable_field(step, &PyTuple_GET_ITEM(base, step.index), value);
      add_pointer(&PyList_GET_ITEM(base, step.index < 0 ? step.index + Py_SIZE(base) : step.index), value);
      return false;
    case SourceKind::Closure:
      return add_closure(step, base, value);
    case SourceKind::Globals:
    case SourceKind::Builtins:
      return add_immutable_field(step, function_field(step, base), value);
    case SourceKind::Defaults:
    case SourceKind::KwDefaults:
      add_pointer(function_field(step, base), value);
      return false;
    case SourceKind::Contents:
      add_pointer(cpython::cell_address(base), value);
      return false;
    case SourceKind::Annotations:
      add_pointer(&cpython::as_function(base)->func_annotations, value);
      return false;
    case SourceKind::MethodSelf:
    case SourceKind::MethodFunc:
      return add_immutable_field(step, method_field(step, base), value);
    case SourceKind::PartialFunc:
    case SourceKind::PartialArgs:
    case SourceKind::PartialKw:
      add_pointer(partial_field(step, base), value);
      return false;
    case SourceKind::InstanceDict:
      if (value) add_pointer(cpython::instance_dict_address(base), value);
      return false;
    case SourceKind::DefaultFactory:
      add_pointer(cpython::default_factory_address(base), value);
      return false;
    case SourceKind::ProxyMapping:
      return add_immutable_field(step, &reinterpret_cast<cpython::layout::MappingProxy*>(base)->mapping, value);
    case SourceKind::Mro:
      add_pointer(&reinterpret_cast<PyTypeObject*>(base)->tp_mro, value);
      return false;
    case SourceKind::IteratorOf:
      add_pointer(cpython::iterated_address(base), value);
      return false;
    case SourceKind::CacheTable:
      return add_immutable_field(step, cpython::cache_table_address(base), value);
    case SourceKind::CacheResult:
      add_pointer(cpython::cached_result_address(base), value);
      return false;
    case SourceKind::Name:
      add_pointer(name_address(base, step.index), value);
      return false;
    case SourceKind::WeakTarget:
      add_pointer(&reinterpret_cast<PyWeakReference*>(base)->wr_object, value);
      return false;
    default:
      return false;  // roots
  }
}

bool Recorder::add_attribute(const Step& step, PyObject* base, PyObject* value) {
  if (PyType_Check(base) || !cpython::has_inline_values(base)) return true;  // add_attributes stamped the dict
  Py_ssize_t index = cpython::shared_key_index(Py_TYPE(base), step.key);
  if (index >= 0)
    add_pointer(*cpython::instance_values_address(base) + index, value);
  else
    add_absent_inline(base);
  return false;
}

/// The instances of the type share no key of that name yet. If this one gets it, its list of attributes in order of
/// insertion changes: bytes below the values, the count first.
void Recorder::add_absent_inline(PyObject* base) {
  const uint8_t* address = cpython::inline_order_address(base);
  for (Py_ssize_t bytes = 2 + cpython::inline_count(base); bytes > 0; bytes -= 8, address -= 8)
    add_number(address, Cause::Moved);
}

bool Recorder::add_immutable_field(const Step& step, PyObject* const* address, PyObject* value) {
  if (mark(static_cast<uint32_t>(step.base)).anchored)
    mark(index_).anchored = true;
  else
    add_pointer(address, value);
  return false;
}

bool Recorder::add_closure(const Step& step, PyObject* function, PyObject* value) {
  PyObject** closure = &cpython::as_function(function)->func_closure;
  if (!mark(static_cast<uint32_t>(step.base)).anchored) {
    add_pointer(closure, *closure);
    if (*closure) add_size(*closure);
  }
  return value ? add_immutable_field(step, &PyTuple_GET_ITEM(*closure, step.index), value) : false;
}

void Recorder::add_object(const Step& step, PyObject* object, bool stamped) {
  Mark& here = mark(index_);
  here.type = Py_TYPE(object);
  if (step.kind == SourceKind::Pinned) here.anchored = true;
  bool frozen = (step.needs & kMembers) && PyFrozenSet_CheckExact(object);
  if (step.constant || frozen) {
    here.held = share(object);
    here.anchored = true;
    return;
  }
  for (uint32_t i = step.first_check; i < step.first_check + step.check_count; ++i)
    here.anchored |= program_.checks[i].kind == guards::Kind::Identity;  // held by the fact
  add_type(step, object, stamped);
  if (step.needs) add_content(step, object);
  for (uint32_t i = step.first_check; i < step.first_check + step.check_count; ++i)
    add_field(program_.checks[i], object);
}

/// What a check compares at a fixed address.
void Recorder::add_field(const Check& check, PyObject* object) {
  if (check.kind == guards::Kind::Code) add_pointer(&cpython::as_function(object)->func_code, check.object);
  if (check.kind != guards::Kind::MethodDef) return;
  auto* function = reinterpret_cast<PyCFunctionObject*>(object);
  add(&function->m_ml, bits(function->m_ml), Cause::Moved);
}

/// Below a stamp an object is the same one, or refresh() compares its type: only a type that can be assigned needs a
/// word.
void Recorder::add_type(const Step& step, PyObject* object, bool stamped) {
  if (!step.typed || ((stamped || mark(index_).anchored) && !type_may_change(object))) return;
  add(cpython::type_address(object), bits(Py_TYPE(object)), Cause::Moved);
}

void Recorder::add_content(const Step& step, PyObject* object) {
  uint16_t needs = step.needs;
  if ((needs & (kContent | kSize)) && PyDict_Check(object)) {
    add_number(cpython::dict_version_address(object), Cause::Versioned);
    if ((needs & kOrder) && cpython::is_ordered_dict(object))
      add_number(cpython::ordered_dict_state_address(object), Cause::Versioned);
  }
  if (needs & kMembers)
    add_members(object);
  else if (needs & (kItems | kSize))
    add_size(object);
  if ((needs & kItems) && PyList_Check(object)) {
    auto* list = reinterpret_cast<PyListObject*>(object);
    add(&list->ob_item, bits(list->ob_item), Cause::Moved);
  }
  if ((needs & kPosition) && Py_IS_TYPE(object, &PyListIter_Type))
    add_number(cpython::list_iterator_position(object), Cause::Moved);
  if ((needs & kMaxLength) && is_deque(object)) add_number(&cpython::as_deque(object)->maxlen, Cause::Moved);
  if (needs & kInstanceDict) instance_dict(object);  // attributes move into it: before anything says where they are
  if (needs & kAttributes) add_attributes(object);
  if (needs & kClassLookup) add_class_tag(object);
  if (needs & kMarks) add_marks(object);
  if (needs & kRegistered) add_registrations();
  if (needs & kSubclasses) add_subclasses(object);
  if (needs & kUnstamped) add_unstamped();
}

/// A mark is an attribute; what is marked already may be marked further.
void Recorder::add_marks(PyObject* tensor) {
  if (guards::marks_of(tensor).get() != Py_None) return add_unstamped();
  add_attributes(tensor);
  if (cpython::has_inline_values(tensor)) add_absent_inline(tensor);
}

/// Every registration with an abstract class raises one count.
void Recorder::add_registrations() {
  if (const uint64_t* count = cpython::abc_registrations())
    add_number(count, Cause::Moved);
  else
    add_unstamped();
}

/// CPython keeps them in a dict, from the first one on.
void Recorder::add_subclasses(PyObject* cls) {
  if (!PyType_Check(cls)) return;
  PyObject** below = cpython::subclasses_address(reinterpret_cast<PyTypeObject*>(cls));
  add_pointer(below, *below);
  if (*below) add_number(cpython::dict_version_address(*below), Cause::Versioned);
}

void Recorder::add_size(PyObject* object) {
  if (PyTuple_Check(object) && mark(index_).anchored) return;
  if (PyTuple_Check(object) || PyList_Check(object) || is_deque(object))
    add_number(&reinterpret_cast<PyVarObject*>(object)->ob_size, Cause::Moved);
  else if (PyAnySet_Check(object))
    add_number(&reinterpret_cast<PySetObject*>(object)->used, Cause::Moved);
}

/// Inline values at a fixed address, or a dict with its version, or neither.
void Recorder::add_attributes(PyObject* object) {
  if (PyType_Check(object)) {
    add_number(cpython::dict_version_address(reinterpret_cast<PyTypeObject*>(object)->tp_dict), Cause::Versioned);
    return;
  }
  PyObject** dict = cpython::instance_dict_address(object);
  if (!dict) return;  // the type has no instance dict
  if (cpython::has_managed_dict(Py_TYPE(object)) && !*dict)
    add_number(cpython::instance_values_address(object), Cause::Moved);
  if (cpython::has_inline_values(object)) return;
  add_pointer(dict, *dict);
  if (*dict) add_number(cpython::dict_version_address(*dict), Cause::Versioned);
}

/// A set has no version: its table and all slots.
void Recorder::add_members(PyObject* object) {
  auto* set = reinterpret_cast<PySetObject*>(object);
  mark(index_).held = take(PyFrozenSet_New(object));  // copies the table: calls no __hash__ and no __eq__
  add_number(&set->used, Cause::Moved);
  add_number(&set->mask, Cause::Moved);
  add(&set->table, bits(set->table), Cause::Moved);
  for (Py_ssize_t i = 0; i <= set->mask; ++i) add(&set->table[i].key, bits(set->table[i].key), Cause::Moved);
}

void Recorder::add_class_tag(PyObject* type) {
  if (!PyType_Check(type)) return;
  if (cpython::type_tag(reinterpret_cast<PyTypeObject*>(type)))
    add_number(cpython::type_tag_address(reinterpret_cast<PyTypeObject*>(type)), Cause::Versioned);
  else
    add_unstamped();
}

void Recorder::add(const void* address, uint64_t expected, Cause cause) {
  block_.scratch_.words.push_back({static_cast<const uint64_t*>(address), expected});
  block_.scratch_.origins.push_back({index_, cause});
}

void Recorder::add_pointer(PyObject* const* address, PyObject* value) { add(address, bits(value), Cause::Moved); }

void Recorder::add_number(const void* address, Cause cause) {
  add(address, *static_cast<const uint64_t*>(address), cause);
}

void Recorder::add_unstamped() { add(&kNever, 1, Cause::Versioned); }

}  // namespace gramme::plan
