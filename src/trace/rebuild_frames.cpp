// How replay makes generators and tracebacks, whose frames stand where the capture left them.
#include "cpython/replayed.h"
#include "trace/rebuild.h"

namespace gramme::trace {

using namespace value;
using plan::Register;

namespace {

// Frame states as numbered by CPython.
constexpr int kNotStarted = -2, kSuspended = -1, kLeft = 0;

}  // namespace

/// Fills a frame after its object was made, since the frame may refer to that object.
void Rebuilder::fill_frame(Register target, Register function, const FrameState& state, int phase) {
  std::string places;
  std::vector<Register> parts{target, function, integer(phase), integer(state.unit), 0};
  for (const std::vector<Value*>* values : {&state.slots, &state.stack}) {
    for (Value* value : *values) {
      bool there = value && value->kind != Kind::Null;
      places.push_back(there ? 1 : 0);
      if (there) parts.push_back((*this)(value));
    }
  }
  parts[4] =
      constant(trace_.keep(take(PyBytes_FromStringAndSize(places.data(), static_cast<Py_ssize_t>(places.size())))));
  call(cpython::frame_filler(), parts);
}

Register Rebuilder::make_new(Generator* generator) {
  if (generator->handled) unsupported("a generator left while it handles an exception");
  Register function = (*this)(generator->function);
  if (auto* known = remembered(generator)) return *known;  // it was reached by its function's closure
  Register made = call(cpython::generator_maker(), {function});
  memo_[generator] = made;
  if (!generator->frame) return made;
  generator->escapes = true;
  FrameState state = trace_.inliner->state(*generator->frame);
  fill_frame(made, function, state, generator->started ? kSuspended : kNotStarted);
  return made;
}

Register Rebuilder::frame_object(interp::Frame* frame) {
  if (auto found = frames_.find(frame); found != frames_.end()) return found->second;
  FrameState state = trace_.inliner->state(*frame);
  if (!state.ended) unsupported("an exception with a traceback of a frame that goes on");
  Register function = (*this)(state.function);
  if (auto found = frames_.find(frame); found != frames_.end()) return found->second;
  Register made = call(cpython::frame_maker(), {function});
  frames_[frame] = made;
  static const std::vector<Value*> kNothing;
  fill_frame(made, function, {state.function, state.unit, state.slots, kNothing, true}, kLeft);
  return made;
}

void Rebuilder::set_field(Register exception, const char* name, Register value) {
  Owned<> field = take(PyObject_GetAttrString(PyExc_BaseException, name));
  call(trace_.keep(take(PyObject_GetAttrString(field.get(), "__set__"))), {exception, value});
}

/// Sets context, cause and traceback of an exception.
void Rebuilder::describe_exception(Register result, Object* exception) {
  if (exception->retraced) unsupported("an exception with a traceback that the program gave it");
  if (exception->cause && trace_.see(exception->cause) != trace_.none())
    set_field(result, "__cause__", (*this)(exception->cause));
  if (exception->context && trace_.see(exception->context) != trace_.none())
    set_field(result, "__context__", (*this)(exception->context));
  if (exception->suppress_context) set_field(result, "__suppress_context__", (*this)(trace_.boolean(true)));
  if (exception->passed.empty()) return;
  Register traceback = (*this)(trace_.none());
  for (const Passed& passed : exception->passed)
    traceback = call(reinterpret_cast<PyObject*>(&PyTraceBack_Type),
                     {traceback, frame_object(passed.frame), integer(passed.unit * 2), integer(passed.line)});
  set_field(result, "__traceback__", traceback);
}

}  // namespace gramme::trace
