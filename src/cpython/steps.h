// State and helpers of the functions in steps.def. These follow the cases of CPython's evaluator. Operands stay on the
// stack until the work is done, so that unwinding drops them if it fails.
#pragma once
#include <string_view>

#include "cpython/concrete.h"
#include "cpython/encoding.h"
#include "cpython/stack.h"

namespace gramme::cpython {

/// The instruction being executed.
struct Step {
  PyThreadState* thread;
  LiveFrame frame;
  const CallHook* hook;
  const bool* taken_over;  // from step_into, whose callee takes no operands over; else null
  Decoded decoded;
  int arg;   // argument of the part being executed
  int next;  // code unit to continue at: after the inline caches, or a jump's target
  StepResult result{Outcome::Next};

  PyObject* name(int index) const { return PyTuple_GET_ITEM(frame.code()->co_names, index); }
  PyObject* constant(int index) const { return PyTuple_GET_ITEM(frame.code()->co_consts, index); }
  PyObject* local_name(int slot) const { return PyTuple_GET_ITEM(frame.code()->co_localsplusnames, slot); }

  Outcome push(PyObject* owned) {
    if (!owned) return Outcome::Raised;
    frame.push(owned);
    return Outcome::Next;
  }
  /// Replaces the top `count` items by a new reference; Raised if that is null.
  Outcome replace(int count, PyObject* owned, DropOrder order = kDropOrder) {
    if (!owned) return Outcome::Raised;
    frame.replace(count, owned, order);
    return Outcome::Next;
  }
  /// For a status of the C API: drops the top `count` items for 0; Raised for -1.
  Outcome dropped(int count, int status) {
    if (status < 0) return Outcome::Raised;
    frame.drop_operands(count);
    return Outcome::Next;
  }
  /// Pushes a callable that is no method, and the NULL beside it. Takes the reference over.
  void push_callable(PyObject* owned) {
    if (!kStack.null_above) frame.push(nullptr);
    frame.push(owned);
    if (kStack.null_above) frame.push(nullptr);
  }
};

#define STEP(op, function) Outcome function(Step& s);
#include "cpython/steps.def"
#undef STEP

inline PyObject* new_bool(bool value) { return Py_NewRef(value ? Py_True : Py_False); }

#if GRAMME_PYTHON_TAGGED_SLOTS
/// True if CPython's compiler decided that the instruction loads a borrowed reference.
inline bool lends(uint8_t raw) { return std::string_view(opcode_name(raw)).starts_with("LOAD_FAST_BORROW"); }
#endif

/// Sets an error of `type` with a message that names a variable; a NameError gets the name for its suggestions.
void set_name_error(PyObject* type, const char* format, PyObject* name);
/// Sets the error for an empty slot (a local or a cell): UnboundLocalError, or NameError for a free variable.
void set_unbound_error(const Step& s, int slot);
inline constexpr char kNameError[] = "name '%.200s' is not defined";
inline constexpr char kUnboundLocal[] = "cannot access local variable '%s' where it is not associated with a value";
inline constexpr char kUnboundFree[] =
    "cannot access free variable '%s' where it is not associated with a value in enclosing scope";
/// mapping[key] as a new reference; null without an error if there is no such key.
PyObject* get_item_if_any(PyObject* mapping, PyObject* key);
/// A new reference to a global or builtin; null with an error set.
PyObject* global_or_builtin(Step& s, PyObject* name);
/// Adds a mapping's items to the dict of a call's keywords. False with a TypeError that names the function set if a key
/// is there already.
bool merge_keywords(Step& s, PyObject* dict, PyObject* mapping, PyObject* function);
/// Handles signals, pending calls and requests for the GIL, at backward jumps and after calls. False with an exception
/// set.
inline bool check_pending(Step& s) {
  return (s.taken_over && *s.taken_over) || !eval_breaker(s.thread) || handle_pending(s.thread);
}

}  // namespace gramme::cpython
