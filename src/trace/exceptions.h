// The program's exceptions: which one is being handled, how one is raised, and what becomes a guard once the program
// can see an exception's text.
//
//   exceptions.raise(exceptions.make(PyExc_TypeError, {text}));   // throws UserError
//   exceptions.told(error.exception, inliner);                    // the program handles it
//
// If an exception leaves the program its text need not be right, since the frames then run uncompiled.
#pragma once
#include <vector>

#include "trace/classes.h"
#include "trace/confined.h"
#include "trace/inliner.h"
#include "trace/shapes.h"
#include "trace/values.h"

namespace gramme::trace {

class Exceptions {
 public:
  Exceptions(Values& values, Confinement& confinement, Classes& classes, Shapes& shapes)
      : values_(values), confinement_(confinement), classes_(classes), shapes_(shapes) {}
  Exceptions(const Exceptions&) = delete;

  Value* handled = nullptr;  // the exception handled in the innermost running generator, or by functions if none runs
  Value* outer_handled = nullptr;  // the exception handled by whoever resumed that generator
  /// The exception of sys.exc_info(), which becomes the context of a raised one; null if there is none.
  Value* current() const { return handled ? handled : outer_handled; }

  value::Object* make(PyTypeObject* type, std::vector<Value*> args);
  [[noreturn]] void raise(value::Object* exception);
  /// Raises the Python error that is set as the program's exception.
  [[noreturn]] void raise_error();
  /// The same at an operation that raises at all sizes which the guards admit, but with a message that may mention
  /// these.
  [[noreturn]] void raise_error_with(std::vector<shape::Expr> numbers);
  /// True if `to` is reachable from `from` by contexts and causes. Chains have no cycles: the segment ends before one
  /// is made.
  bool leads_to(Value* from, const Value* to);

  /// Notes that the capture wrote the exception's text: once the program can read it, the names in it are guarded.
  void note_own_text(value::Object* exception) { untold_.push_back(exception); }
  /// Call when the program handles the exception.
  void told(Value* exception, Inliner* inliner);
  /// Makes the numbers constants that the exception's text (or any, if none is named) may mention, because the program
  /// continues after it.
  void settle(Inliner* inliner, const Value* exception = nullptr);

 private:
  struct Failure {
    value::Object* exception;
    std::vector<shape::Expr> numbers;  // that the text may mention
  };

  Values& values_;
  Confinement& confinement_;
  Classes& classes_;
  Shapes& shapes_;
  std::vector<value::Object*> untold_;  // made by models
  std::vector<Failure> failures_;
};

}  // namespace gramme::trace
