// What happens to a call of a function of torch or of the standard library: it stands in the graph, is traced, or is
// made for real. The rules are python/gramme/_torch_rules_2_13.txt, written by tools/make_torch_rules.py.
#pragma once
#include "protocol/protocol.h"

namespace gramme::builtins {

/// The classifier of protocol::set_classifier. Ends the segment for functions marked with disable() and for
/// graph_break(). C functions without a rule are Inline: whoever calls one with no model knows that it cannot. 30 to
/// 150 ns.
protocol::Treatment classify(PyObject* callable);

}  // namespace gramme::builtins
