// Checks of facts about one object or two, by kind, and the explanation of each failure.
#include <algorithm>

#include "aten/classes.h"
#include "cpython/entries.h"
#include "cpython/objects.h"
#include "guards/marks.h"
#include "guards/warnings.h"
#include "plan/walk.h"
#include "source/constant.h"

namespace gramme::plan {
namespace {

using GuardKind = guards::Kind;
using source::describe;
using source::same_constant;

/// Number of items by the C layout, or -1.
Py_ssize_t length_of(PyObject* object) {
  if (PyTuple_Check(object) || PyList_Check(object) || is_deque(object)) return Py_SIZE(object);
  if (PyDict_Check(object)) return PyDict_GET_SIZE(object);
  if (PyAnySet_Check(object)) return PySet_GET_SIZE(object);
  return -1;
}

/// Calls `visit(key)` for a dict's keys in iteration order, until it returns false.
template <class Visit>
void visit_keys(PyObject* dict, Visit visit) {
  PyObject *key, *value;
  if (cpython::is_ordered_dict(dict)) {
    auto* node = reinterpret_cast<cpython::layout::ODict*>(dict)->first;
    for (; node && visit(node->key); node = node->next) {
    }
    return;
  }
  Py_ssize_t position = 0;
  while (PyDict_Next(dict, &position, &key, &value) && visit(key)) {
  }
}

bool keys_are(PyObject* dict, PyObject* expected) {
  if (!PyDict_Check(dict) || PyDict_GET_SIZE(dict) != PyTuple_GET_SIZE(expected)) return false;
  Py_ssize_t at = 0, size = PyTuple_GET_SIZE(expected);
  visit_keys(dict, [&](PyObject* key) {
    bool same = at < size && same_constant(key, PyTuple_GET_ITEM(expected, at));
    at += same;
    return same;
  });
  return at == size;
}

bool hashes_are(PyObject* dict, PyObject* expected) {
  if (!PyDict_CheckExact(dict) || PyDict_GET_SIZE(dict) != PyTuple_GET_SIZE(expected)) return false;
  PyObject *key, *value;
  Py_hash_t hash;
  Py_ssize_t position = 0, at = 0;
  while (cpython::next_entry(dict, &position, &key, &value, &hash))
    if (PyLong_AsSsize_t(PyTuple_GET_ITEM(expected, at++)) != hash) return false;
  return true;
}

/// The keys as text, "(1, 'a')"; they need not be constants.
std::string describe_keys(PyObject* dict) {
  std::string text = "(";
  visit_keys(dict, [&](PyObject* key) {
    text += (text.size() > 1 ? ", " : "") + describe(key);
    return text.size() < 200;
  });
  return text + ")";
}

std::string describe_members(PyObject* set) {
  std::string text = "{";
  Py_ssize_t at = 0;
  PyObject* element;
  Py_hash_t hash;
  while (cpython::next_member(set, &at, &element, &hash) && text.size() < 200)
    text += (text.size() > 1 ? ", " : "") + describe(element);
  return text + "}";
}

std::string changed(const std::string& what, const std::string& from, const std::string& to) {
  return what + " changed from " + from + " to " + to;
}

/// The kind of mismatch when an expected object was replaced by another.
Mismatched kind_of(PyObject* expected, PyObject* object) {
  auto is_number = [](PyObject* x) { return PyFloat_CheckExact(x) || PyLong_CheckExact(x); };
  if (expected == Py_None) return Mismatched::Created;
  if (is_number(expected) && is_number(object)) return Mismatched::Number;
  return source::is_constant(expected) ? Mismatched::Value : Mismatched::Object;
}

Mismatch explain_check(const Check& check, const std::string& name, PyObject* object) {
  auto type_name = [](PyObject* x) { return std::string(Py_TYPE(x)->tp_name); };
  auto say = [&](Mismatched kind, std::string text) { return Mismatch{kind, name, std::move(text)}; };
  auto other_type = [&] {
    const char* before = reinterpret_cast<PyTypeObject*>(check.object)->tp_name;
    return say(Mismatched::Type, changed("type(" + name + ")", before, type_name(object)));
  };
  switch (check.kind) {
    case GuardKind::Type:
      return other_type();
    case GuardKind::Narrow:
      if (reinterpret_cast<PyObject*>(Py_TYPE(object)) != check.object) return other_type();
      return say(Mismatched::Number, name + " is beyond 2**30: " + describe(object));
    case GuardKind::Constant: {
      std::string from = describe(check.object), to = describe(object);
      if (from == to) from += " (" + type_name(check.object) + ")", to += " (" + type_name(object) + ")";
      return say(kind_of(check.object, object), changed(name, from, to));
    }
    case GuardKind::Identity: {
      std::string from = describe(check.object), to = describe(object);
      return say(kind_of(check.object, object), changed(name, from, from == to ? "another object, also " + to : to));
    }
    case GuardKind::Length: {
      Py_ssize_t now = length_of(object);
      if (now < 0) return say(Mismatched::Type, name + " changed to " + describe(object) + ", which has no length");
      return say(Mismatched::Container,
                 changed("len(" + name + ")", std::to_string(check.number), std::to_string(now)));
    }
    case GuardKind::Keys:
      if (!PyDict_Check(object)) return say(Mismatched::Type, name + " is no dict any more but " + describe(object));
      return say(Mismatched::Container, changed("list(" + name + ")", describe(check.object), describe_keys(object)));
    case GuardKind::SetIs:
    case GuardKind::Places:
      if (!PyAnySet_Check(object)) return say(Mismatched::Type, name + " is no set any more but " + describe(object));
      return say(Mismatched::Container, changed(check.kind == GuardKind::Places ? "the order of " + name : name,
                                                describe_members(check.object), describe_members(object)));
    case GuardKind::Hashes:
      return say(Mismatched::Container, "the hashes of " + name + " changed");
    case GuardKind::Position:
      return say(Mismatched::LoopPosition, name + " does not stand at " + std::to_string(check.number) + " any more");
    case GuardKind::MaxLength: {
      if (!is_deque(object)) return say(Mismatched::Type, name + " is no deque any more but " + describe(object));
      auto text = [](int64_t length) { return length < 0 ? "None" : std::to_string(length); };
      return say(Mismatched::Container,
                 changed(name + ".maxlen", text(check.number), text(cpython::as_deque(object)->maxlen)));
    }
    case GuardKind::Marks:
      return say(Mismatched::Mark, name + " was marked (torch._dynamo.mark_dynamic or its like)");
    case GuardKind::HidesNothing:
      return say(Mismatched::Definition, name + " has an attribute that hides one of its class");
    case GuardKind::Code:
      return say(Mismatched::Definition, name + ".__code__ changed");
    case GuardKind::MethodDef:
      return say(Mismatched::Definition, name + " is not bound from " + describe(check.object) + " any more");
    case GuardKind::Warning:
      return {Mismatched::Warning, "",
              "the warning " + describe(PyTuple_GET_ITEM(check.object, 0)) +
                  " is raised now, or shown by another function"};
    case GuardKind::Subclasses:
      return say(Mismatched::Definition, "the classes below " + name + " changed");
    case GuardKind::Subclass:
      return say(Mismatched::Definition, changed("issubclass(" + describe(check.object) + ", " + name + ")",
                                                 check.number ? "True" : "False", check.number ? "False" : "True"));
    case GuardKind::SameAs:
    case GuardKind::NotSameAs:
    case GuardKind::Absent:
    case GuardKind::Present:
    case GuardKind::Tensor:
    case GuardKind::Content:
    case GuardKind::NoOverlap:
    case GuardKind::OtherStorage:
    case GuardKind::Apart:
    case GuardKind::Distinct:
    case GuardKind::Other:
    case GuardKind::Unguarded:
      break;  // no checks
  }
  return say(Mismatched::Unreadable, name + " changed");
}

/// Asks issubclass again after a class was registered with an ABC. A check that raises fails; the program then raises
/// itself.
[[gnu::cold]] bool answers_subclass(PyObject* cls, PyObject* subclass, bool expected) {
  int answer = cpython::is_abstract_subclass(subclass, cls);
  if (answer < 0) PyErr_Clear();
  return answer == (expected ? 1 : 0);
}

[[gnu::cold]] bool are_subclasses(PyObject* cls, PyObject* expected) {
  Owned<> below = PyType_Check(cls) ? cpython::subclasses(reinterpret_cast<PyTypeObject*>(cls)) : Owned<>();
  if (!below || PyList_GET_SIZE(below.get()) != PyTuple_GET_SIZE(expected)) return false;
  auto* first = reinterpret_cast<PyListObject*>(below.get())->ob_item;
  return std::equal(first, first + PyTuple_GET_SIZE(expected), &PyTuple_GET_ITEM(expected, 0));
}

/// True if a check of this kind holds for the object.
template <GuardKind kind>
bool matches([[maybe_unused]] const Check& check, PyObject* object) = delete;

#define MATCHES(kind) \
  template <>         \
  inline bool matches<GuardKind::kind>([[maybe_unused]] const Check& check, PyObject* object)

MATCHES(Type) { return reinterpret_cast<PyObject*>(Py_TYPE(object)) == check.object; }
MATCHES(Narrow) { return reinterpret_cast<PyObject*>(Py_TYPE(object)) == check.object && source::is_narrow(object); }
MATCHES(Constant) { return object == check.object || same_constant(object, check.object); }
MATCHES(Identity) { return object == check.object; }
MATCHES(Length) { return length_of(object) == check.number; }
MATCHES(Keys) { return keys_are(object, check.object); }
MATCHES(Hashes) { return hashes_are(object, check.object); }
MATCHES(Position) {
  return Py_IS_TYPE(object, &PyListIter_Type) && *cpython::list_iterator_position(object) == check.number;
}
MATCHES(MaxLength) { return is_deque(object) && cpython::as_deque(object)->maxlen == check.number; }
MATCHES(SetIs) { return PyAnySet_Check(object) && source::same_elements(object, check.object); }
MATCHES(Places) { return PyAnySet_Check(object) && cpython::same_places(object, check.object, same_constant); }
MATCHES(MethodDef) {
  return PyCFunction_Check(object) && reinterpret_cast<PyCFunctionObject*>(object)->m_ml ==
                                          reinterpret_cast<PyMethodDescrObject*>(check.object)->d_method;
}
MATCHES(Warning) { return guards::is_harmless_warning(object, check.object); }
MATCHES(Subclasses) { return are_subclasses(object, check.object); }
MATCHES(Subclass) { return answers_subclass(object, check.object, check.number != 0); }
MATCHES(HidesNothing) { return guards::hides_nothing(object); }
MATCHES(Marks) { return guards::are_marks_within(object, check.object); }
MATCHES(Code) { return PyFunction_Check(object) && cpython::as_function(object)->func_code == check.object; }

#undef MATCHES

bool are_tensors(PyObject* a, PyObject* b) { return a && b && aten::is_tensor(a) && aten::is_tensor(b); }

/// True if a relation of this kind holds for the two objects.
template <GuardKind kind>
bool relates(PyObject* a, PyObject* b) = delete;

#define RELATES(kind) \
  template <>         \
  inline bool relates<GuardKind::kind>(PyObject * a, PyObject * b)

RELATES(SameAs) { return a == b; }
RELATES(NotSameAs) { return a != b; }
RELATES(NoOverlap) { return are_tensors(a, b) && !aten::overlap(a, b); }
RELATES(OtherStorage) { return are_tensors(a, b) && !aten::same_storage(a, b); }

#undef RELATES

}  // namespace

// Dispatch by the role column of guards.def. A kind with another role is no check or relation, and never holds as one.
#define BY_Check(name) matches<GuardKind::name>(check, object)
#define BY_Leaf(name) BY_Check(name)
#define BY_Relation(name) false
#define BY_Signature(name) false
#define BY_Absent(name) false
#define BY_Read(name) false
#define BY_Apart(name) false
#define BY_Distinct(name) false
#define BY_Others(name) false
#define BY_Content(name) false

[[gnu::hot]] bool matches_check(const Check& check, PyObject* object) {
  switch (check.kind) {
#define GUARD(name, operand, role, needs, text) \
  case GuardKind::name:                         \
    return BY_##role(name);
#include "guards/guards.def"
#undef GUARD
  }
  return false;
}

#undef BY_Check
#define BY_Check(name) false
#undef BY_Relation
#define BY_Relation(name) relates<GuardKind::name>(a, b)

bool holds(const Relation& relation, PyObject* const* registers) {
  PyObject *a = registers[relation.a], *b = registers[relation.b];
  switch (relation.kind) {
#define GUARD(name, operand, role, needs, text) \
  case GuardKind::name:                         \
    return BY_##role(name);
#include "guards/guards.def"
#undef GUARD
  }
  return false;
}

Mismatch explain_step(const Program& program, const Step& step, Outcome outcome, PyObject* object) {
  std::string name = step.source->print();
  if (outcome == Outcome::Unreadable) return {Mismatched::Unreadable, name, name + " cannot be read any more"};
  if (step.absent) {
    if (outcome == Outcome::Absent) return {};
    const bool goes_on = is_read_ahead(step.kind);
    return {goes_on ? Mismatched::LoopPosition : Mismatched::Created, name, name + " exists now: " + describe(object)};
  }
  if (outcome == Outcome::Absent)
    return {is_read_ahead(step.kind) ? Mismatched::LoopEnd : Mismatched::Gone, name, name + " is gone"};
  for (uint32_t i = step.first_check; i < step.first_check + step.check_count; ++i) {
    const Check& check = program.checks[i];
    if (!matches_check(check, object)) return explain_check(check, name, object);
  }
  if (!step.spec || aten::matches(*step.spec, object)) return {};
  Mismatch why = aten::explain_mismatch(*step.spec, object);
  why.text = name + ": " + why.text;
  why.subject = std::move(name);
  return why;
}

[[gnu::hot]] bool holds(const Content& content, PyObject* const* registers) {
  PyObject* object = registers[content.of];
  return object && aten::holds_within(object, content.low, content.high, content.whole);
}

Mismatch explain_content(const Program& program, const Content& content, PyObject* const* registers) {
  PyObject* object = registers[content.of];
  double now = 0;
  std::string name = program.steps[content.of].source->print();
  const bool is_float = object && PyFloat_CheckExact(object);
  if (is_float) now = PyFloat_AS_DOUBLE(object);
  if (!object || !(is_float || aten::number_in(object, now)))
    return {Mismatched::Type, name, name + " is no number any more"};
  std::string text = name + (is_float ? " is " : " holds ") + describe(take(PyFloat_FromDouble(now)).get()) +
                     " now, not a" + (content.whole ? " whole" : "") + " number from " +
                     describe(take(PyFloat_FromDouble(content.low)).get()) + " to " +
                     describe(take(PyFloat_FromDouble(content.high)).get());
  return {Mismatched::Number, std::move(name), std::move(text)};
}

Mismatch explain_relation(const Program& program, const Relation& relation) {
  auto about = [&](const char* what) {
    std::string a = program.steps[relation.a].source->print(), b = program.steps[relation.b].source->print();
    std::string text = a + " and " + b + what;
    return Mismatch{Mismatched::Sharing, std::move(a), std::move(text)};
  };
  if (relation.kind == GuardKind::SameAs) return about(" are not one object any more");
  if (relation.kind == GuardKind::NotSameAs) return about(" are one object now");
  if (relation.kind == GuardKind::OtherStorage) return about(" lie in one storage now");
  return about(" share memory now");
}

}  // namespace gramme::plan
