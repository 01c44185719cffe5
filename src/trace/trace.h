// A capture together with the scope of its graph. It begins at a resume point and lives until the capture ends.
//
//   Trace trace(policy);
//   Value* sum = trace.emit(function, {x, y});   // an operation in the graph
//
// Nothing is undone. If an instruction cannot be captured, the trace is thrown away and made again up to that
// instruction (interp/capture.cpp), so a failed instruction leaves no trace.
#pragma once
#include "trace/scope.h"

namespace gramme::trace {

class Trace final : public Capture {
 public:
  explicit Trace(const Policy& policy) : Capture(policy), scope_(*this) {}

  /// The scope, to which operations are added.
  Scope& scope() { return scope_; }
  const Scope& scope() const { return scope_; }

  Value* emit(PyObject* function, const Args& args) { return scope_.emit(function, args); }
  Value* emit(PyObject* function, std::initializer_list<Value*> args) {
    return scope_.emit(function, Args{args.begin(), args.size(), nullptr, 0});
  }
  Value* emit_method(PyObject* name, const Args& args) { return scope_.emit_method(name, args); }

 protected:
  size_t moment() const override { return scope_.root().length(); }
  void found(value::Tensor* tensor) override { scope_.found(tensor); }
  PyObject* specialized_value(value::Number* number) override { return scope_.specialize(number); }

 private:
  Scope scope_;
};

}  // namespace gramme::trace
