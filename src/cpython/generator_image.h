// Generators and coroutines by their layout, which they share: the frame, and where it stands.
#pragma once
#include <cstddef>

#include "cpython/image.h"
#include "cpython/units.h"

namespace gramme::cpython {

inline PyGenObject* as_generator(PyObject* object) { return reinterpret_cast<PyGenObject*>(object); }

/// Its frame; not of one that has ended.
inline FrameImage frame_of(PyObject* generator) {
  return FrameImage(reinterpret_cast<_PyInterpreterFrame*>(&as_generator(generator)->gi_iframe));
}
/// Whose frame it is, borrowed.
inline PyObject* generator_of(FrameImage frame) {
  return reinterpret_cast<PyObject*>(reinterpret_cast<char*>(frame.raw()) - offsetof(PyGenObject, gi_iframe));
}
/// Its code, whether it has ended or not.
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

/// True if a suspended frame stands where it waits for another generator. The RESUME in front of which it stands says
/// so.
inline bool waits_for_another(FrameImage frame) { return (raw_unit(frame.code(), frame.next()).arg & 3) >= 2; }
/// What that is, borrowed.
inline PyObject* waited_for(FrameImage frame) { return frame.item(GRAMME_PYTHON_ITERATOR_PAIRS ? 2 : 1); }
/// The frame stands where it goes on.
inline void set_suspended(FrameImage frame) {
  as_generator(generator_of(frame))->gi_frame_state =
#if GRAMME_PYTHON_DELEGATING_STATE
      waits_for_another(frame) ? FRAME_SUSPENDED_YIELD_FROM :
#endif
                               FRAME_SUSPENDED;
}

}  // namespace gramme::cpython
