// A copy of what CPython does inside its evaluator, for versions that do not export the function.
#include "cpython/clear_frame.h"

#include <cstring>
#include <utility>

#include "base/ref.h"
#include "cpython/generator_image.h"
#include "cpython/internal.h"

namespace gramme::cpython {

#if GRAMME_PYTHON_EXPORTED_FRAMES
void clear_frame(PyThreadState* thread, _PyInterpreterFrame* frame) { _PyEval_FrameClearAndPop(thread, frame); }
#elif GRAMME_PYTHON_EVALUATOR_ENDS
namespace {

/// Moves the frame's content into its frame object, which other code holds.
void hand_to_object(PyThreadState* thread, PyFrameObject* object, FrameImage frame) {
  Py_INCREF(frame.code());
  auto* kept = reinterpret_cast<_PyInterpreterFrame*>(object->_f_frame_data);
  std::memcpy(kept, frame.raw(), frame.size());
  object->f_frame = kept;
  kept->owner = FRAME_OWNED_BY_FRAME_OBJECT;
  kept->previous = nullptr;
  if (_PyFrame_IsIncomplete(kept)) FrameImage(kept).set_current(frame.code()->_co_firsttraceable);
  const ErrorState raised;
  object->f_back = PyThreadState_GetFrame(thread);  // the frame is unlinked, so the current one is its caller
  if (!PyObject_GC_IsTracked(reinterpret_cast<PyObject*>(object))) PyObject_GC_Track(object);
}

void clear_content(PyThreadState* thread, FrameImage frame) {
  if (PyFrameObject* object = std::exchange(frame.raw()->frame_obj, nullptr)) {
    const auto held = Owned<>::steal(reinterpret_cast<PyObject*>(object));
    if (Py_REFCNT(object) > 1) return hand_to_object(thread, object, frame);
  }
  for (int slot = 0; slot < frame.local_count(); ++slot) frame.set_local(slot, nullptr);
  while (frame.depth() > 0) Py_XDECREF(frame.pop());
  Py_XDECREF(frame.namespace_object());
  Py_DECREF(frame.function());
}

/// Frees the frame's memory: frames follow each other in chunks, of which the first is never freed.
void take_off_stack(PyThreadState* thread, _PyInterpreterFrame* frame) {
  auto** base = reinterpret_cast<PyObject**>(frame);
  _PyStackChunk* chunk = thread->datastack_chunk;
  if (base != &chunk->data[0]) {
    thread->datastack_top = base;
    return;
  }
  _PyStackChunk* previous = chunk->previous;
  thread->datastack_top = &previous->data[previous->top];
  thread->datastack_chunk = previous;
  PyObjectArenaAllocator allocator;
  PyObject_GetArenaAllocator(&allocator);
  allocator.free(allocator.ctx, chunk, chunk->size);
  thread->datastack_limit = reinterpret_cast<PyObject**>(reinterpret_cast<char*>(previous) + previous->size);
}

}  // namespace

void clear_frame(PyThreadState* thread, _PyInterpreterFrame* raw) {
  const FrameImage frame(raw);
  if (!frame.of_generator()) {
    PyCodeObject* code = frame.code();
    clear_content(thread, frame);
    Py_DECREF(code);
    return take_off_stack(thread, raw);
  }
  PyGenObject* generator = as_generator(generator_of(frame));
  generator->gi_frame_state = FRAME_CLEARED;
  thread->exc_info = generator->gi_exc_state.previous_item;
  generator->gi_exc_state.previous_item = nullptr;
  clear_content(thread, frame);
  raw->previous = nullptr;
}
#endif

}  // namespace gramme::cpython
