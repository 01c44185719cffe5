// Reads sources and checks facts about the objects found, without running any Python.
#pragma once
#include <string>

#include "base/mismatch.h"
#include "base/process.h"
#include "guards/marks.h"
#include "plan/program.h"

namespace gramme::plan {

enum class Outcome : uint8_t {
  Found,
  Absent,
  Unreadable,  // the base is of a wrong type, or its keys cannot be compared without running Python
};

/// The module of that name, borrowed; null if it is not imported.
PyObject* read_module(const Step& step);

/// The root's object, or null.
inline PyObject* read_root(const Step& step, const Roots& roots) {
  using Kind = source::Kind;
  if (step.kind == Kind::Pinned) return step.key;
  if (step.kind == Kind::Exception) return step.index ? roots.outer : roots.exception;
  if (step.kind == Kind::Module) [[unlikely]]
    return read_module(step);
  const int frame = source::frame_of(step.index), index = source::within_frame(step.index);
  if (frame > roots.caller_count) return nullptr;
  const Roots& of = frame ? roots.callers[frame - 1] : roots;
  if (step.kind == Kind::Function) return reinterpret_cast<PyObject*>(of.function);
  return (step.kind == Kind::Local ? of.locals : of.stack)[index];
}

struct Reading {
  std::vector<Owned<>> made;  // GIL: objects created by reading a source, kept alive until the check is over
};
extern OfProcess<Reading> reading;
/// Reads the step's source from its base; `value` is null unless found.
Outcome read_child(const Step& step, PyObject* base, PyObject** value);
/// The address at which the base keeps the child. Null unless the step's evidence is Field or Fixed and the base is of
/// the right type.
PyObject* const* field_address(const Step& step, PyObject* base);
bool matches_check(const Check& check, PyObject* object);
/// True if the object passes all checks of the step.
inline bool passes(const Program& program, const Step& step, PyObject* object) {
  if (step.spec && !aten::matches(*step.spec, object)) return false;
  const Check* check = program.checks.data() + step.first_check;
  for (const Check* end = check + step.check_count; check < end; ++check) {
    const bool of_attributes = check->kind == guards::Kind::Marks || check->kind == guards::Kind::HidesNothing;
    if (of_attributes && !guards::may_have_attributes(object)) continue;  // true of nearly every tensor
    if (!matches_check(*check, object)) return false;
  }
  return true;
}
bool holds(const Relation& relation, PyObject* const* registers);
bool holds(const Content& content, PyObject* const* registers);

/// Runs the steps of a subtree whose root (at `first`) is in its register already. Costs 5 to 10 ns per step.
bool walk_below(const Program& program, uint32_t first, PyObject** registers);
/// Checks a root's object and walks its subtree.
bool walk_root(const Program& program, uint32_t first, PyObject* object, PyObject** registers);

/// The instance's attribute dict, created from inline values if necessary; null if its type has none.
PyObject* instance_dict(PyObject* base);
/// True for a collections.deque.
bool is_deque(PyObject* object);
/// Address of the __slots__ member `name`, or null if the object's type has none.
PyObject** slot_of(PyObject* base, PyObject* name);
/// The address of a function's or class's name (source::Kind::Name); null if there is no such field.
PyObject** name_address(PyObject* base, int64_t index);

/// Why the object read (null: nothing) fails the step; with an empty text if it does not.
Mismatch explain_step(const Program& program, const Step& step, Outcome outcome, PyObject* object);
Mismatch explain_relation(const Program& program, const Relation& relation);
Mismatch explain_content(const Program& program, const Content& content, PyObject* const* registers);

}  // namespace gramme::plan
