// The end of a frame, where the evaluator sees to it.
#pragma once
#include "cpython/image.h"

namespace gramme::cpython {

#if GRAMME_PYTHON_EVALUATOR_ENDS
/// Clears a frame that is not linked any more and takes it off the thread's stack; one of a generator stays there, and
/// is over.
void clear_frame(PyThreadState* thread, _PyInterpreterFrame* frame);
#endif

}  // namespace gramme::cpython
