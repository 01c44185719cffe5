// The interface by which a capture runs Python functions; implemented by interp.
#pragma once
#include <vector>

#include "graph/graph.h"
#include "value/value.h"

namespace gramme::trace {

using value::Value;

/// Arguments as in vectorcall: values[0, positional), then one value for each name.
struct Args {
  Value* const* values = nullptr;
  size_t positional = 0;
  PyObject* const* names = nullptr;
  size_t keywords = 0;

  Value* operator[](size_t i) const { return values[i]; }
  /// The keyword argument, or null.
  Value* keyword(const char* name) const;
  Value* keyword(PyObject* name) const;
};

/// The position and content of a frame in the capture.
struct FrameState {
  value::Function* function;
  int unit;                          // code unit of the last instruction begun
  const std::vector<Value*>& slots;  // null where unbound
  const std::vector<Value*>& stack;
  bool ended;  // it has returned or raised
};

/// A call in the program: the globals of its function, and its position.
struct CallSite {
  value::Namespace* globals = nullptr;  // null: not known
  PyCodeObject* code = nullptr;
  int line = 0;
};

/// Runs Python functions symbolically.
class Inliner {
 public:
  virtual ~Inliner() = default;
  /// Call before modelling C code that calls Python functions: from here on no segment may end in frames that the
  /// instruction calls, because the C code cannot be entered in its middle.
  virtual void enter_opaque() = 0;
  /// The same, but a segment may end in the __init__ called next if the instruction calls the class and the instance
  /// stays __init__'s first variable.
  virtual void enter_init(const value::Class* cls, PyCodeObject* init) = 0;
  virtual Value* call(value::Function* function, const Args& args) = 0;
  /// Resumes a generator: `sent` becomes the value of its yield, or `thrown` is raised there. The yielded value, or
  /// null when it returned (`returned` then holds the value).
  virtual Value* resume(value::Generator* generator, Value* sent, const value::UserError* thrown, Value** returned) = 0;
  /// The next item of an existing iterator, null at its end. Each instruction may ask for one.
  virtual Value* advance(value::Iterator* iterator) = 0;
  /// Locals of the nearest frame, for zero-argument super(), locals(), …: the value of a variable (or free variable),
  /// or null.
  virtual Value* variable(PyObject* name) = 0;
  /// The name of a variable that holds the value, from the innermost running function that has one; else empty.
  virtual std::string variable_of(const Value* held) = 0;
  /// True if a local of the nearest frame holds the value. Looks into no other value.
  virtual bool is_in_local(Value* seen) = 0;
  /// The present content of a root frame's slot; null if the index (source::in_frame) is of another frame.
  virtual Value* root_local(int64_t index) = 0;
  virtual value::Function* current_function() = 0;
  /// The position of the last call, or of the call `outward` frames further out. Unknown outside the root and across
  /// functions that are modelled.
  virtual CallSite call_site(size_t outward) = 0;
  virtual FrameState state(const interp::Frame& frame) = 0;
  /// First argument of the nearest frame (for super()), or null.
  virtual Value* first_argument() = 0;
  virtual const graph::Position* position() = 0;
  /// True if a frame on the stack has a handler over its instruction: except, finally, perhaps with.
  virtual bool handles(bool with) const = 0;
  /// User line of the instruction being executed in the root frame.
  virtual int root_line() = 0;
  /// The number of instructions begun in frames that a segment may end in.
  virtual size_t steps() = 0;
  /// True if the root frame still holds every object it started with, the handled exception included; constants and the
  /// like do not count. False if an exhausted iterator released its container.
  virtual bool holds_its_start() = 0;
};

/// True if a function of torch.optim is being traced; false without an inliner.
bool is_in_optimizer(Inliner* inliner);

}  // namespace gramme::trace
