// Clears a frame that has ended, as the evaluator does.
#pragma once
#include "cpython/image.h"

namespace gramme::cpython {

#if GRAMME_PYTHON_EVALUATOR_ENDS
/// Clears a frame that is not linked any more and takes it off the thread's stack; one of a generator stays there, and
/// is over.
void clear_frame(PyThreadState* thread, _PyInterpreterFrame* frame);
#endif

}  // namespace gramme::cpython
