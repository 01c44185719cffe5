// The log of everything that a captured segment changes. Nothing is changed until the segment runs.
//
// Replay runs no user code, so the program can observe only the final state of each (target, key) and the order of
// first writes. The log keeps one entry for each.
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
  bool anew = false;         // deleted and stored again: last in the target's order
  // Call:
  PyObject* callable = nullptr;
  std::vector<value::Value*> operands;
  value::Value* result = nullptr;  // value that stands for the call's result, or null
  int32_t call = -1;               // index among the calls
  bool quiet = false;              // nothing that a segment runs can observe when it happens
};

class Log {
 public:
  /// Records that (target, name) was written; `target->written` becomes true.
  void add(Kind kind, value::Value* target, PyObject* name, size_t graph_length);
  /// The same for a name that the program deleted before: it moves to the end.
  void add_anew(Kind kind, value::Value* target, PyObject* name, size_t graph_length);
  /// Records a call that replay makes. `result` stands for its value, which objects rebuilt after it may contain.
  void add_call(PyObject* callable, std::vector<value::Value*> operands, size_t graph_length,
                value::Value* result = nullptr);
  /// Records a call that only counts something, so its order relative to operations does not matter.
  void add_quiet_call(PyObject* callable, std::vector<value::Value*> operands, size_t graph_length);
  const std::list<Effect>& entries() const { return entries_; }
  /// Ignores quiet calls.
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
