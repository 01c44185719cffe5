// Clears a frame that has ended, as the evaluator does.
#pragma once
#include "cpython/image.h"

namespace gramme::cpython {

#if GRAMME_PYTHON_EVALUATOR_ENDS
/// Clears an unlinked frame and takes it off the thread's stack. A generator's frame stays in the generator, which has
/// ended.
void clear_frame(PyThreadState* thread, _PyInterpreterFrame* frame);
#endif

}  // namespace gramme::cpython
