// Links and unlinks frames as each version's evaluator does, and unwinds by the exception table.
#include "cpython/frame.h"

#include <frameobject.h>

#include <algorithm>

#include "base/code_unit.h"
#include "cpython/clear_frame.h"
#include "cpython/code_object.h"
#include "cpython/generator_image.h"
#include "cpython/internal.h"

namespace gramme::cpython {

void LiveFrame::suspend() const {
  set_suspended(*this);
#if GRAMME_PYTHON_YIELD_FLAG
  auto& kind = reinterpret_cast<_PyThreadStateImpl*>(PyThreadState_Get())->generator_return_kind;
  kind = std::remove_reference_t<decltype(kind)>::GENERATOR_YIELD;
#endif
}

#if GRAMME_PYTHON_EVALUATOR_TRACES
LinkedFrame::LinkedFrame(PyThreadState* thread, LiveFrame frame) : thread_(thread), frame_(frame) {
  _PyCFrame* outer = thread->cframe;
  cframe_.use_tracing = outer->use_tracing;
  cframe_.previous = outer;
  cframe_.current_frame = frame.raw();
  frame.raw()->is_entry = true;
  frame.raw()->previous = outer->current_frame;
  thread->cframe = &cframe_;
  entered_ = enter_frame(thread);
}

void LinkedFrame::unlink() {
  leave_frame(thread_);
  thread_->cframe = cframe_.previous;
  thread_->cframe->use_tracing = cframe_.use_tracing;
  linked_ = false;
}

bool LinkedFrame::tracing() const { return cframe_.use_tracing != 0; }
#else
LinkedFrame::LinkedFrame(PyThreadState* thread, LiveFrame frame) : thread_(thread), frame_(frame) {
  frame.raw()->previous = current_frame(thread);
  set_current_frame(thread, frame.raw());
  entered_ = enter_frame(thread);
}

void LinkedFrame::unlink() {
  leave_frame(thread_);
  set_current_frame(thread_, frame_.raw()->previous);
  linked_ = false;
}

bool LinkedFrame::tracing() const { return is_observed(thread_, frame_.code()); }
#endif

namespace {

/// Clears or suspends a frame that the evaluator would clear or suspend itself.
void leave(PyThreadState* thread, FrameImage frame) {
#if GRAMME_PYTHON_EVALUATOR_ENDS
  if (!frame.of_generator() || !is_suspended(generator_of(frame))) return clear_frame(thread, frame.raw());
  PyGenObject* generator = as_generator(generator_of(frame));
  thread->exc_info = generator->gi_exc_state.previous_item;
  generator->gi_exc_state.previous_item = nullptr;
  frame.raw()->previous = nullptr;
  frame.raw()->return_offset = 0;
#else
  static_cast<void>(thread);
  static_cast<void>(frame);
#endif
}

}  // namespace

LinkedFrame::~LinkedFrame() {
  if (!linked_) return;
  unlink();
  leave(thread_, frame_);
}

PyObject* LinkedFrame::evaluate() {
  unlink();
  return _PyEval_EvalFrameDefault(thread_, frame_.raw(), 0);
}

void add_traceback(PyThreadState* thread, LiveFrame frame) {
  if (!frame.complete()) return;
  if (PyFrameObject* object = PyThreadState_GetFrame(thread)) {
    PyTraceBack_Here(object);
    Py_DECREF(object);
  }
}

namespace {
/// Gives a traceback's frame empty cells: code that reads its variables expects a cell for each free one.
bool give_cells(FrameImage frame) {
  for (int i = frame.local_count() - frame.code()->co_nfreevars; i < frame.local_count(); ++i) {
    frame.set_local(i, PyCell_New(nullptr));
    if (!frame.local(i)) return false;
  }
  return true;
}
}  // namespace

Owned<> traceback_entry(PyObject* inner, PyCodeObject* code, int unit, PyObject* globals) {
  Owned<> empty = Owned<>::steal(globals ? nullptr : PyDict_New());
  PyFrameObject* frame = PyFrame_New(PyThreadState_Get(), code, globals ? globals : empty.get(), nullptr);
  auto held = Owned<>::steal(reinterpret_cast<PyObject*>(frame));
  if (!held || !give_cells(FrameImage(frame->f_frame))) return {};
  // At its first instruction a frame would still copy cells from a closure, and this one has none.
  if (unit >= 0 || code->co_nfreevars) FrameImage(frame->f_frame).set_current(std::max(unit, 0));
  const int byte = unit < 0 ? 0 : unit * kCodeUnit;
  const int line = unit < 0 ? code->co_firstlineno : PyCode_Addr2Line(code, byte);
  return Owned<>::steal(PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyTraceBack_Type), "OOii",
                                              inner ? inner : Py_None, held.get(), byte, line));
}

bool unwind(LiveFrame frame, int unit) {
  ExceptionTable::Entry handler;
  if (!find_handler(frame.code(), unit, &handler)) {
    frame.drop(frame.depth());
    return false;
  }
  frame.drop(frame.depth() - handler.depth);
  // If there is no memory for the index, MemoryError takes the exception's place.
  if (handler.lasti && !frame.push_index(frame.current())) return unwind(frame, unit);
  frame.push(take_exception().release());
  frame.set_next(handler.target);
  return true;
}

}  // namespace gramme::cpython
