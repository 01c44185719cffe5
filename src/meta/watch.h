// What a call does at the dispatcher's boundary while it runs on fakes: the operators it reaches say whether it is
// random, may raise on data or warns, and which storages it writes. Only meta's own sources include this.
#pragma once
#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <optional>
#include <unordered_set>

#include "aten/state.h"
#include "base/ref.h"

namespace gramme::meta {

/// A new FakeTensorMode that reports each operator to the innermost Watch of its thread before it runs. Without a
/// ShapeEnv all sizes are numbers.
Owned<> new_watching_mode(PyObject* shape_env);

/// Active from construction to destruction. Generators drawn from meanwhile (a kernel run on zeros for want of a meta
/// kernel) are put back.
class Watch {
 public:
  Watch();
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  bool random = false;
  bool may_raise = false;
  bool warns = false;   // though its fakes do not
  bool opaque = false;  // an operator without a schema was reached
  int operators = 0;    // under way, as the dispatcher sees them
  int fakes = 0;        // under way in the mode
  bool runs_python = false;
  bool asks_program = false;  // what is not PyTorch's own was reached
  std::unordered_set<const c10::StorageImpl*> written;

  void save_generator();

 private:
  Watch* outer_;
  std::optional<uint64_t> callback_;  // an at::CallbackHandle
  bool drew_ = false;
  aten::RandomState generator_;
};

}  // namespace gramme::meta
