// The rows of higher_order.def, and the functions that model each operator.
#pragma once
#include "protocol/protocol.h"

namespace gramme::hop {

using trace::Args;
using trace::Trace;
using value::Value;

enum class Effects : uint8_t { Kept, Forbidden };
enum class Floats : uint8_t { Any, Own, Never };
enum class Broken : uint8_t { Any, Error };

struct Row {
  const char* name;
  const char* prefix;
  Effects effects;
  Floats floats;
  Broken broken;
  Value* (*call)(Trace& trace, const Row& row, PyObject* op, const Args& args);
};

/// The row of an operator; null if it has none.
const Row* row_of(PyObject* op);

// ---- models of operators
Value* wrap(Trace& trace, const Row& row, PyObject* op, const Args& args);
Value* cond(Trace& trace, const Row& row, PyObject* op, const Args& args);
Value* while_loop(Trace& trace, const Row& row, PyObject* op, const Args& args);
Value* map(Trace& trace, const Row& row, PyObject* op, const Args& args);
Value* scan(Trace& trace, const Row& row, PyObject* op, const Args& args);
Value* flex_attention(Trace& trace, const Row& row, PyObject* op, const Args& args);
Value* wrap_with_grad_mode(Trace& trace, const Row& row, PyObject* op, const Args& args);
Value* wrap_with_autocast(Trace& trace, const Row& row, PyObject* op, const Args& args);
Value* wrap_bypassing(Trace& trace, const Row& row, PyObject* op, const Args& args);
Value* hints(Trace& trace, const Row& row, PyObject* op, const Args& args);
Value* strict(Trace& trace, const Row& row, PyObject* op, const Args& args);
Value* base_operator(Trace& trace, const Row& row, PyObject* op, const Args& args);
Value* node(Trace& trace, const Row& row, PyObject* op, const Args& args);

// ---- models of torch's functions around operators
/// torch.utils.checkpoint.checkpoint
Value* checkpoint(Trace& trace, value::Function* function, const Args& args);
/// torch.utils.checkpoint.create_selective_checkpoint_contexts
Value* selective_contexts(Trace& trace, value::Function* function, const Args& args);
/// torch.is_grad_enabled(), whose result differs between the two runs of a checkpointed function.
Value* is_grad_enabled(Trace& trace, const Args& args);
/// A function wrapped by torch.compiler.nested_compile_region.
Value* region(Trace& trace, value::Function* function, const Args& args);

}  // namespace gramme::hop
