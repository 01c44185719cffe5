// For each kind of evidence, the words that prove that an object and what was read of it are unchanged.
#include "plan/recorder.h"

#include <cstddef>

#include "base/type_dict.h"
#include "cpython/iterators.h"
#include "cpython/lru_cache.h"
#include "cpython/objects.h"
#include "guards/marks.h"
#include "plan/walk.h"

namespace gramme::plan {
namespace {

using SourceKind = source::Kind;

// The tag has 32 bits followed by padding that is never written, so it can be compared as one word.
static_assert(offsetof(PyTypeObject, tp_version_tag) % 8 == 0);
static_assert(offsetof(PyTypeObject, tp_finalize) == offsetof(PyTypeObject, tp_version_tag) + 8);

uint64_t bits(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

/// True if the type of this object can change while it lives.
bool type_may_change(PyObject* object) {
  return (Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE) || PyModule_Check(object);
}

/// True if nothing can give the object another one's attribute dict. An OrderedDict makes one of its own,
/// and its __dict__ cannot be set.
bool keeps_its_dict(PyObject* object) { return !cpython::instance_dict_address(object) || PyODict_CheckExact(object); }

}  // namespace

const uint64_t kNever = 0;

Recorder::Recorder(Block& block, PyObject** registers)
    : block_(block), program_(block.program_), registers_(registers) {
  block_.scratch_.words.clear();
  block_.scratch_.origins.clear();
  block_.scratch_.begins.clear();
  block_.scratch_.watches.clear();
}

bool Recorder::record(uint32_t first, uint32_t last) {
  first_ = first;
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
  switch (step.evidence) {
    case Evidence::Unstamped:  // the base is read in every check
    case Evidence::Stamp:
      return true;
    case Evidence::Field:
      add_field(field_address(step, base), value);
      return false;
    case Evidence::Fixed:
      add_fixed_field(step, field_address(step, base), value);
      return false;
    case Evidence::Own:
      return add_by_kind(step, base, value);
    case Evidence::Root:
    case Evidence::Ahead:
      break;
  }
  add_unknown();
  return false;
}

void Recorder::add_field(PyObject* const* address, PyObject* value) {
  if (address)
    add_pointer(address, value);
  else
    add_unknown();
}

/// A field that is never assigned: unchanged as long as its object lives.
void Recorder::add_fixed_field(const Step& step, PyObject* const* address, PyObject* value) {
  if (mark(static_cast<uint32_t>(step.base)).anchored)
    mark(index_).anchored = true;
  else
    add_field(address, value);
}

// ---- children whose evidence is their own; those in dicts are in recorder_dicts.cpp

template <>
bool Recorder::add_own<SourceKind::Item>(const Step& step, PyObject* base, PyObject* value) {
  if (!value) return true;  // the base has a word for its size
  if (PyTuple_Check(base))
    add_fixed_field(step, &PyTuple_GET_ITEM(base, step.index), value);
  else
    add_pointer(&PyList_GET_ITEM(base, step.index < 0 ? step.index + Py_SIZE(base) : step.index), value);
  return false;
}

template <>
bool Recorder::add_own<SourceKind::Closure>(const Step& step, PyObject* function, PyObject* value) {
  PyObject** closure = &cpython::as_function(function)->func_closure;
  if (!mark(static_cast<uint32_t>(step.base)).anchored) {
    add_pointer(closure, *closure);
    if (*closure) add_size(*closure);
  }
  if (value) add_fixed_field(step, &PyTuple_GET_ITEM(*closure, step.index), value);
  return false;
}

template <>
bool Recorder::add_own<SourceKind::InstanceDict>(const Step&, PyObject* base, PyObject* value) {
  if (value) add_pointer(cpython::instance_dict_address(base), value);
  return false;
}

template <>
bool Recorder::add_own<SourceKind::WeakTarget>(const Step&, PyObject* base, PyObject* value) {
  add_pointer(&reinterpret_cast<PyWeakReference*>(base)->wr_object, value);
  return false;
}

bool Recorder::add_by_kind(const Step& step, PyObject* base, PyObject* value) {
#define BY_Own(name) return add_own<SourceKind::name>(step, base, value)
#define BY_Field(name) break
#define BY_Fixed(name) break
#define BY_Stamp(name) break
#define BY_Unstamped(name) break
#define BY_Root(name) break
#define BY_Ahead(name) break
  switch (step.kind) {
#define SOURCE(name, uses, place, needs, evidence, text) \
  case SourceKind::name:                                 \
    BY_##evidence(name);
#include "source/sources.def"
#undef SOURCE
  }
  add_unknown();
  return false;
}

// ---- objects

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
  here.same_dict = ((step.needs & kType) || here.anchored) && keeps_its_dict(object);
  if (step.needs & ~kType) add_content(step, object);
}

/// Under a stamp the object is the same, or refresh() compares its type. So only a type that can be reassigned needs a
/// word.
void Recorder::add_type(const Step& step, PyObject* object, bool stamped) {
  if (!(step.needs & kType) || ((stamped || mark(index_).anchored) && !type_may_change(object))) return;
  add(cpython::type_address(object), bits(Py_TYPE(object)), Cause::Moved);
}

void Recorder::add_content(const Step& step, PyObject* object) {
  const uint32_t needs = step.needs;
  if ((needs & (kContent | kSize)) && PyDict_Check(object)) add_dict(object, needs);
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
  if (needs & kCode) add_pointer(&cpython::as_function(object)->func_code, cpython::as_function(object)->func_code);
  if (needs & kMethod) add_number(&reinterpret_cast<PyCFunctionObject*>(object)->m_ml, Cause::Moved);
  if (needs & kInstanceDict) instance_dict(object);  // moves attributes, so it precedes words about their places
  if (needs & kAttributes) add_attributes(object, needs & kKeys);
  if (needs & kClassLookup) add_class_tag(object);
  if (needs & kMarks)
    add_marks(object);
  else if (needs & kOwnNames)
    add_own_names(object);
  if (needs & kRegistered) add_registrations();
  if (needs & kSubclasses) add_subclasses(object);
  constexpr uint32_t kRecorded = kType | kContent | kKeys | kOrder | kItems | kSize | kAttributes | kClassLookup |
                                 kMembers | kPosition | kInstanceDict | kRegistered | kMaxLength | kMarks | kOwnNames |
                                 kSubclasses | kCode | kMethod;
  if (needs & ~kRecorded) add_unstamped();
}

/// Marks are attributes. A tensor that has some may get more, so it is read in every check; for others the names of its
/// attributes suffice.
void Recorder::add_marks(PyObject* tensor) {
  if (guards::marks_of(tensor).get() != Py_None) return add_unstamped();
  add_own_names(tensor);
}

void Recorder::add_own_names(PyObject* object) {
  add_attributes(object, kKeys);
  if (cpython::has_inline_values(object)) add_absent_inline(object);
}

/// One word for the global counter of ABC registrations.
void Recorder::add_registrations() {
  if (const uint64_t* count = cpython::abc_registrations())
    add_number(count, Cause::Moved);
  else
    add_unstamped();
}

void Recorder::add_size(PyObject* object) {
  if (PyTuple_Check(object) && mark(index_).anchored) return;
  if (PyTuple_Check(object) || PyList_Check(object) || is_deque(object))
    add_number(&reinterpret_cast<PyVarObject*>(object)->ob_size, Cause::Moved);
  else if (PyAnySet_Check(object))
    add_number(&reinterpret_cast<PySetObject*>(object)->used, Cause::Moved);
}

/// Sets have no version: words for the table and all slots.
void Recorder::add_members(PyObject* object) {
  auto* set = reinterpret_cast<PySetObject*>(object);
  mark(index_).held = take(PyFrozenSet_New(object));  // copying a table calls no __hash__ and no __eq__
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

void Recorder::add_unknown() { add(&kNever, 1, Cause::Moved); }

}  // namespace gramme::plan
