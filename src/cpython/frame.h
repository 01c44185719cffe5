// A running frame of CPython: reading it, rewriting it, linking it, unwinding it. One folder per version.
//
//   LiveFrame frame(raw);                    // what an evaluation hook is given
//   LinkedFrame linked(thread, frame);       // now the current frame: tracebacks and sys._getframe see it
//   if (!linked.entered()) return nullptr;   // RecursionError is set
//   ...
//   return linked.evaluate();                // CPython runs the rest of the frame
#pragma once
#include "cpython/features.h"

#if GRAMME_PYTHON_IS_311
#include "cpython/v311/frame.h"
#else
#error "no folder of src/cpython for this version of Python"
#endif
