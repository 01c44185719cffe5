// What happens to a call of a function of torch or of the standard library: it stands in the graph, is traced, or is
// made for real. The rules are python/gramme/_torch/*/rules.txt, written by tools/make_torch_rules.py.
#pragma once
#include "cpython/evaluator.h"
#include "protocol/protocol.h"

namespace gramme::builtins {

/// The classifier of protocol::set_classifier. Ends the segment for functions marked with disable() and for
/// graph_break(). C functions without a rule are Inline: whoever calls one with no model knows that it cannot. 30 to
/// 150 ns.
protocol::Treatment classify(PyObject* callable);

/// What becomes of a function's frame while an instruction is carried out for real: captured if a call of it would be
/// traced, and it belongs to the program or to modules of torch. Alone are functions the user disabled, finalizers, and
/// tools that look at the program themselves: importlib, PyTorch's compilers and tracers, gramme.
cpython::FrameRule frame_rule(PyFunctionObject* function);

/// True for the forward() of a recurrent layer: as a frame of its own it is one that got a PackedSequence.
bool takes_packed(PyCodeObject* code);

}  // namespace gramme::builtins
