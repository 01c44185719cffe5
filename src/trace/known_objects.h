// The real objects with identity that a capture has looked into, each with its one value.
//
//   known.add(object, value);
//   known.find(object);                       // the value
//   known.namespace_of(globals, source);      // the variables of a module
//
// A dict is tracked as a dict, as the attributes of an object, or as variables; a segment ends where it would be two of
// them, since each would have a state of its own.
#pragma once
#include <unordered_map>
#include <unordered_set>

#include "trace/values.h"

namespace gramme::trace {

class KnownObjects {
 public:
  KnownObjects(Values& values, source::Pool& pool) : values_(values), pool_(pool) {}
  KnownObjects(const KnownObjects&) = delete;

  /// Null if it was not looked into.
  Value* find(PyObject* object) const {
    const auto found = objects_.find(object);
    return found == objects_.end() ? nullptr : found->second;
  }
  void add(PyObject* object, Value* value) { objects_[object] = value; }
  /// A builtin, type or module as a value, held by the segment; no guard (the caller has one, or it is immortal).
  Value* pinned(PyObject* object) {
    Value* known = find(object);
    return known ? known : values_.see(values_.wrap(object, pool_.pinned(object)));
  }
  /// The variables in the dict.
  value::Namespace* namespace_of(PyObject* dict, const Source* source);

  /// Notes that the attributes of an existing object are tracked. Ends the segment if its dict is tracked as a dict
  /// already.
  void note_dict_of(PyObject* object);
  /// Ends the segment if the dict is tracked as attributes or variables.
  void refuse_as_dict(PyObject* dict) const;

  template <class F>
  void each(F&& f) const {
    for (auto& [object, value] : objects_) f(value);
  }
  template <class F>
  void each_namespace(F&& f) const {
    for (auto& [dict, names] : namespaces_) f(names);
  }

 private:
  Values& values_;
  source::Pool& pool_;
  std::unordered_map<PyObject*, Value*> objects_;
  std::unordered_map<PyObject*, value::Namespace*> namespaces_;
  std::unordered_set<PyObject*> dicts_;  // with attributes of known objects
};

}  // namespace gramme::trace
