// The rows of higher_order.def.
#pragma once
#include "protocol/protocol.h"

namespace gramme::hop {

using trace::Args;
using trace::Trace;
using value::Value;

enum class Effects : uint8_t { Kept, Forbidden };

struct Row {
  const char* name;
  const char* prefix;
  Effects effects;
  Value* (*call)(Trace& trace, const Row& row, PyObject* op, const Args& args);
};

/// The row of an operator; null if it has none.
const Row* row_of(PyObject* op);

// ---- what calls become, one function for each way
Value* wrap(Trace& trace, const Row& row, PyObject* op, const Args& args);
Value* cond(Trace& trace, const Row& row, PyObject* op, const Args& args);
Value* while_loop(Trace& trace, const Row& row, PyObject* op, const Args& args);
Value* map(Trace& trace, const Row& row, PyObject* op, const Args& args);
Value* scan(Trace& trace, const Row& row, PyObject* op, const Args& args);

}  // namespace gramme::hop
