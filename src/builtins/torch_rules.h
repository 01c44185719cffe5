// Whether a call of a function of torch or the standard library becomes a graph node, is traced, or runs for real. The
// rules are in python/gramme/_torch/*/rules.txt, written by tools/make_torch_rules.py.
#pragma once
#include "cpython/evaluator.h"
#include "protocol/protocol.h"

namespace gramme::builtins {

/// The classifier for protocol::set_classifier. Ends the segment for functions marked with disable() and for
/// graph_break(). C functions without a rule are Inline; callers know that one without a model cannot be inlined. Costs
/// 30 to 150 ns.
protocol::Treatment classify(PyObject* callable);

/// What becomes of a frame that begins during a concrete instruction. It is captured if a call of the function would be
/// traced and it belongs to the program or to torch's modules. Disabled functions, finalizers, and tools that inspect
/// programs (importlib, PyTorch's compilers and tracers, gramme) run alone, with all that they call.
cpython::FrameRule frame_rule(PyFunctionObject* function);

/// True for functions that have a frame of their own only when they run uncaptured, as a whole: the forward() of a
/// recurrent layer, which received a PackedSequence, and collectives.
bool runs_whole(PyCodeObject* code);

}  // namespace gramme::builtins
