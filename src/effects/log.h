// The log of everything a capture would have changed. Nothing is changed until the segment runs.
//
// Replay runs no user code, so only the final state of each (target, key) and the order in which targets were first
// written can be observed; the log keeps one entry for each.
#pragma once
#include <list>
#include <unordered_map>
#include <vector>

#include "value/value.h"

namespace gramme::effects {

enum class Kind : uint8_t {
#define EFFECT(name, ...) name,
#include "effects/effects.def"
#undef EFFECT
};
const char* kind_name(Kind kind);

struct Effect {
  Kind kind;
  value::Value* target;      // null for Call
  PyObject* name = nullptr;  // interned; attribute or global
  size_t graph_length = 0;   // nodes in the graph when it first happened
  size_t settled = 0;        // … and when it last did
  bool anew = false;         // deleted and stored again: takes its place at the end of the target's order
  // Call:
  PyObject* callable = nullptr;
  std::vector<value::Value*> operands;
  value::Value* result = nullptr;  // what the program sees of the call's result; null if nothing
  int32_t call = -1;               // its place among the calls
  bool quiet = false;              // nothing that a segment runs can tell when it happens
};

class Log {
 public:
  /// Records that (target, name) was written; `target->written` becomes true.
  void add(Kind kind, value::Value* target, PyObject* name, size_t graph_length);
  /// The same for what the program deleted before: it goes to the end.
  void add_anew(Kind kind, value::Value* target, PyObject* name, size_t graph_length);
  /// A call in replay. `result` stands for what it returns, which is there for whatever is rebuilt after it.
  void add_call(PyObject* callable, std::vector<value::Value*> operands, size_t graph_length,
                value::Value* result = nullptr);
  /// A call that only counts: operations may come before or after it.
  void add_quiet_call(PyObject* callable, std::vector<value::Value*> operands, size_t graph_length);
  const std::list<Effect>& entries() const { return entries_; }
  /// But for quiet calls.
  bool empty() const { return entries_.size() == quiet_; }
  bool contains(Kind kind, const value::Value* target, PyObject* name) const;
  const Effect* find(Kind kind, const value::Value* target, PyObject* name) const;  // null if there is none

 private:
  struct Key {
    Kind kind;
    const value::Value* target;
    PyObject* name;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const {
      return reinterpret_cast<size_t>(key.target) * 31 + reinterpret_cast<size_t>(key.name) +
             static_cast<size_t>(key.kind);
    }
  };
  std::list<Effect> entries_;
  int32_t calls_ = 0;
  size_t quiet_ = 0;
  std::unordered_map<Key, std::list<Effect>::iterator, Hash> places_;
};

}  // namespace gramme::effects
