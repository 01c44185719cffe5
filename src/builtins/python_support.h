// Helpers for models of Python's library: tables of rows, binding of arguments, access to builtin containers.
//
//   Value* list_append(Trace& trace, const Args& args) {
//     auto [self, item] = positional<2>(args, 2);
//     changing_list(trace, self)->items.push_back(item);
//     return trace.none();
//   }
//   add_rows("builtins", {{"list.append", &list_append}, …});
//
// A call with a wrong number of arguments ends the segment; run for real, it raises CPython's error.
#pragma once
#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>
#include <vector>

#include "protocol/iterate.h"
#include "protocol/protocol.h"
#include "torch/names.h"

namespace gramme::builtins {

using trace::Args;
using trace::Trace;
using value::Value;

// ---- tables

struct Row {
  const char* name;  // qualified name in the module, or name in the type
  protocol::Model model;
};
using protocol::Takes;
/// Without `takes`: for functions of torch, whose models see tensors and constants.
void add_rows(const char* module, std::initializer_list<Row> rows);
void add_rows(const char* module, Takes takes, std::initializer_list<Row> rows);
/// The same methods for several types of a module.
void add_rows(const char* module, std::initializer_list<const char*> types, Takes takes,
              std::initializer_list<Row> rows);
/// Methods of a type that no module exports (generator, dict_keys, …).
void add_rows(PyTypeObject* type, std::initializer_list<Row> rows);
void add_rows(PyTypeObject* type, Takes takes, std::initializer_list<Row> rows);
/// A row for a private name of torch.
struct NamedRow {
  of_torch::Name name;
  protocol::Model model;
};
void add_rows(std::initializer_list<NamedRow> rows);
void add_pure(std::initializer_list<of_torch::Name> names);
void add_pure(const char* module, std::initializer_list<const char*> names);
/// Declares every C method of the type pure, except the named ones and those that make, change or pickle an instance.
void add_pure_methods(PyTypeObject* type, std::initializer_list<const char*> except = {});

/// A string as template argument.
template <size_t N>
struct Text {
  char text[N];
  constexpr Text(const char (&from)[N]) { std::copy_n(from, N, text); }  // NOLINT: implicit on purpose
};
/// A model that ends the segment, so that the call runs for real: files, time, randomness, the evaluator.
template <Text name>
Value* run_for_real(Trace&, const Args&) {
  cannot(Reason::CallSkipped, name.text);
}

/// module.qualified_name as a real object that lives as long as the process; null if this Python does not have it.
PyObject* real(const char* module, const char* qualified_name);

// ---- arguments

void bind_into(const Args& args, size_t required, const char* const* names, size_t count, Value** out);

/// Arguments by position or name ("" for positional-only); null where the optional ones are missing.
template <size_t N>
std::array<Value*, N> bind(const Args& args, size_t required, const char* const (&names)[N]) {
  std::array<Value*, N> bound{};
  bind_into(args, required, names, N, bound.data());
  return bound;
}
/// The same for functions that take no keywords.
template <size_t N>
std::array<Value*, N> positional(const Args& args, size_t required) {
  std::array<Value*, N> bound{};
  bind_into(args, required, nullptr, N, bound.data());
  return bound;
}
/// Arguments from `from` on, with all keywords.
inline Args rest(const Args& args, size_t from) {
  return {args.values + from, args.positional - from, args.names, args.keywords};
}
/// f(*args): all positional arguments; keywords end the segment.
std::vector<Value*> all_positional(const Args& args, size_t from = 0);

/// An interned str from an argument; raises TypeError otherwise.
PyObject* name_argument(Trace& trace, Value* name);
bool flag(Trace& trace, Value* argument, bool missing);                  // truth of an optional argument
Py_ssize_t index_or(Trace& trace, Value* argument, Py_ssize_t missing);  // None counts as missing
bool is_none(Trace& trace, Value* argument);                             // or missing
const char* type_name(Value* seen);                                      // as CPython's messages spell it

// ---- calling real functions

/// Calls a real function on real objects; its exception becomes the program's. Only for functions that run no user
/// code.
Owned<> call_real(Trace& trace, PyObject* function, std::initializer_list<PyObject*> args);
/// Folds the call, or ends the segment.
Value* fold_or_stop(Trace& trace, PyObject* function, const Args& args, const char* name);
/// An immutable real object made of constants (an itemgetter, a Signature), held by the segment.
Value* pin(Trace& trace, Owned<> object);
/// A real object equal to the value that can be compared and printed without running the program's code; null if there
/// is none.
Owned<> inert(Trace& trace, Value* value);
/// The real object of an existing immutable leaf (a compiled pattern, an itemgetter), guarded by identity.
PyObject* leaf(Trace& trace, Value* value);

// ---- exceptions

[[noreturn]] void raise_key_error(Trace& trace, Value* key);
[[noreturn]] void raise_stop_iteration(Trace& trace, Value* returned);
/// Runs `body`; true if it raised `type`, which is then dropped.
template <class Body>
bool raises(Trace& trace, PyObject* type, Body&& body) {
  try {
    body();
    return false;
  } catch (const value::UserError& error) {
    if (!protocol::matches(trace, error.exception, trace.pinned(type))) throw;
    return true;
  }
}

// ---- containers

/// The content of a free variable of the function; ends the segment if there is none.
Value* free_variable(Trace& trace, value::Function* function, const char* name);
/// A value as a key of dicts and sets, seen all the way down. Raises TypeError if it is unhashable; ends the segment if
/// its class has its own equality.
Value* as_key(Trace& trace, Value* key);
/// The payload of a builtin's subclass instance, or the mapping of an existing mappingproxy; null for other objects.
Value* payload(Trace& trace, value::Object* object);
/// The container that a method works on: self, or the payload of a subclass instance. Ends the segment if there is
/// none.
template <class T>
T* content(Trace& trace, Value* self) {
  Value* seen = trace.see(self);
  if (auto* found = value::as<T>(seen)) return found;
  if (auto* object = value::as<value::Object>(seen))
    if (Value* held = payload(trace, object); held && value::as<T>(held)) return value::as<T>(held);
  cannot(Reason::ArgumentKind, std::string("a method of a builtin container called on ") + type_name(seen));
}
/// The container of a method that changes it.
value::List* changing_list(Trace& trace, Value* self);
value::Deque* changing_deque(Trace& trace, Value* self);
value::Set* changing_set(Trace& trace, Value* self);

value::Set* new_set(Trace& trace, bool frozen);
PyTypeObject* class_argument(Trace& trace, Value* cls);
/// Self of a method of object, as an Object; ends the segment for other values.
value::Object* object_argument(Trace& trace, Value* self);
/// Start and stop of index(x, start, stop), clamped to `size` as in slices.
std::pair<Py_ssize_t, Py_ssize_t> clamp(Trace& trace, Value* start, Value* stop, Py_ssize_t size);
/// Calls a special method of the object's class; null if the class has none.
Value* call_special(Trace& trace, Value* object, PyObject* method, std::initializer_list<Value*> args = {});
/// The value as a number with an expression over symbols; else null.
value::Number* symbolic_number(Value* seen);
/// The truth of sort()'s reverse=, which must be an int.
bool reverse_flag(Trace& trace, Value* reverse);
/// Sorts items as list.sort does (python_sort.cpp). If a comparison raises, items keep the order reached then.
void sort_values(Trace& trace, std::vector<Value*>& items, Value* key, bool reverse);

// ---- families, one file each
void register_core();
void register_numbers();
void register_math();
void register_objects();
void register_abc();
void register_exceptions();
void register_container_slots();
void register_list();
void register_dict();
void register_set();
void register_text();
void register_iterators();
void register_itertools();
void register_functools();
void register_lru_cache();
void register_operator();
void register_collections();
void register_made_classes();
void register_context();
void register_copy();
void register_descriptors();
void register_heap();
void register_inspect();
void register_weakref();
void register_numpy();
void register_logging();
void register_process();
void register_threads();

}  // namespace gramme::builtins
