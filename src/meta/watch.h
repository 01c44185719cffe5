// Watches the operators of a call on fakes: whether it is random, may raise or warns, and which storages it writes.
// Only meta's own sources include this.
#pragma once
#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <optional>
#include <unordered_set>

#include "aten/state.h"
#include "base/ref.h"

namespace gramme::meta {

/// A new FakeTensorMode that reports each operator, before it runs, to the thread's innermost Watch. Without a ShapeEnv
/// all sizes are numbers.
Owned<> new_watching_mode(PyObject* shape_env);

/// Scope in which the mode answers operators on plain tensors from PyTorch's cache of them, for calls whose outcomes
/// are not kept because a class's own code runs them.
class CachedOperators {
 public:
  explicit CachedOperators(PyObject* mode);
  ~CachedOperators();
  CachedOperators(const CachedOperators&) = delete;

 private:
  PyObject* mode_;
};

/// Scope of watching. Restores generators that were used meanwhile (by a kernel run on zeros for lack of a meta
/// kernel).
class Watch {
 public:
  Watch();
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  bool random = false;
  bool may_raise = false;
  bool warns = false;   // the real kernel warns, although fakes do not
  bool opaque = false;  // reached an operator without a schema
  int operators = 0;    // nesting depth of dispatched operators
  int fakes = 0;        // nesting depth inside the mode
  bool runs_python = false;
  bool asks_program = false;  // reached an operator that is not PyTorch's own
  std::unordered_set<const c10::StorageImpl*> written;

  void save_generator();

 private:
  Watch* outer_;
  std::optional<uint64_t> callback_;  // an at::CallbackHandle
  bool drew_ = false;
  aten::RandomState generator_;
};

}  // namespace gramme::meta
