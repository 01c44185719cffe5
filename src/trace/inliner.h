// How a capture runs Python functions: implemented by interp, asked by everybody who calls one.
#pragma once
#include <vector>

#include "graph/graph.h"
#include "value/value.h"

namespace gramme::trace {

using value::Value;

/// Vectorcall's shape: values[0, positional) then one value for each name.
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

/// Where a frame of the capture stands.
struct FrameState {
  value::Function* function;
  int unit;                          // of the last instruction begun
  const std::vector<Value*>& slots;  // null where unbound
  const std::vector<Value*>& stack;
  bool ended;  // nothing will run in it any more
};

/// A call in the program: its function's globals, and where it stands.
struct CallSite {
  value::Namespace* globals = nullptr;  // null: not known
  PyCodeObject* code = nullptr;
  int line = 0;
};

/// Runs Python functions symbolically.
class Inliner {
 public:
  virtual ~Inliner() = default;
  /// Code in C runs that cannot be entered again where it calls a Python function: what the instruction calls from
  /// here on is no frame that a segment may end in.
  virtual void enter_opaque() = 0;
  /// The same, unless the instruction calls the class, and the instance stays the first variable of the __init__ that
  /// is called next.
  virtual void enter_init(const value::Class* cls, PyCodeObject* init) = 0;
  virtual Value* call(value::Function* function, const Args& args) = 0;
  /// Resumes a generator: `sent` becomes the value of its yield, or `thrown` is raised there. The yielded value, or
  /// null when it returned (`returned` then holds the value).
  virtual Value* resume(value::Generator* generator, Value* sent, const value::UserError* thrown, Value** returned) = 0;
  /// The next item of an iterator from before, null at its end. Each instruction may ask for one.
  virtual Value* advance(value::Iterator* iterator) = 0;
  /// Locals of the nearest frame, for zero-argument super(), locals(), …: the value of a variable (or free variable),
  /// or null.
  virtual Value* variable(PyObject* name) = 0;
  /// The name of a variable that holds the value, of the innermost function under way that has one; empty if none has.
  virtual std::string variable_of(const Value* held) = 0;
  /// True if a local of the nearest frame holds the value. Looks into no other.
  virtual bool is_in_local(Value* seen) = 0;
  /// What the slot of a frame (source::in_frame) holds now, if that is the root frame; else null.
  virtual Value* root_local(int64_t index) = 0;
  virtual value::Function* current_function() = 0;
  /// The place of the last call, or so many frames further out; not known outside the root, and through functions that
  /// have models in place of frames.
  virtual CallSite call_site(size_t outward) = 0;
  virtual FrameState state(const interp::Frame& frame) = 0;
  /// First argument of the nearest frame (for super()), or null.
  virtual Value* first_argument() = 0;
  virtual const graph::Position* position() = 0;
  /// True if a frame on the stack has a handler over its instruction: except, finally, perhaps with.
  virtual bool handles(bool with) const = 0;
  /// User line of the instruction being executed in the root frame.
  virtual int root_line() = 0;
  /// Instructions begun of frames that a segment may end in.
  virtual size_t steps() = 0;
  /// True if the root frame still holds every object it started with, the handled exception included, leaves aside.
  /// False if an exhausted iterator released its container.
  virtual bool holds_its_start() = 0;
};

}  // namespace gramme::trace
