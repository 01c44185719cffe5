// Accesses the frame and state of generators and coroutines, which share a layout.
#pragma once
#include <cstddef>

#include "cpython/image.h"
#include "cpython/units.h"

namespace gramme::cpython {

inline PyGenObject* as_generator(PyObject* object) { return reinterpret_cast<PyGenObject*>(object); }

/// The generator's frame; it must not have ended.
inline FrameImage frame_of(PyObject* generator) {
  return FrameImage(reinterpret_cast<_PyInterpreterFrame*>(&as_generator(generator)->gi_iframe));
}
/// The generator that the frame belongs to, borrowed.
inline PyObject* generator_of(FrameImage frame) {
  return reinterpret_cast<PyObject*>(reinterpret_cast<char*>(frame.raw()) - offsetof(PyGenObject, gi_iframe));
}
/// The generator's code, also if it has ended.
inline PyCodeObject* code_of_generator(PyObject* generator) {
#if GRAMME_PYTHON_GENERATOR_CODE
  return as_generator(generator)->gi_code;
#else
  return frame_of(generator).code();
#endif
}

inline bool is_created(PyObject* generator) { return as_generator(generator)->gi_frame_state == FRAME_CREATED; }
inline bool is_executing(PyObject* generator) { return as_generator(generator)->gi_frame_state == FRAME_EXECUTING; }
inline bool is_suspended(PyObject* generator) {
#if GRAMME_PYTHON_DELEGATING_STATE
  return FRAME_STATE_SUSPENDED(as_generator(generator)->gi_frame_state);
#else
  return as_generator(generator)->gi_frame_state == FRAME_SUSPENDED;
#endif
}

/// True if a suspended frame waits for another generator; the argument of the RESUME that comes next tells.
inline bool waits_for_another(FrameImage frame) { return (raw_unit(frame.code(), frame.next()).arg & 3) >= 2; }
/// The object that the frame waits for, borrowed.
inline PyObject* waited_for(FrameImage frame) { return frame.item(GRAMME_PYTHON_ITERATOR_PAIRS ? 2 : 1); }
/// Marks the generator as suspended; the frame is at the instruction to resume with.
inline void set_suspended(FrameImage frame) {
  as_generator(generator_of(frame))->gi_frame_state =
#if GRAMME_PYTHON_DELEGATING_STATE
      waits_for_another(frame) ? FRAME_SUSPENDED_YIELD_FROM :
#endif
                               FRAME_SUSPENDED;
}

}  // namespace gramme::cpython
