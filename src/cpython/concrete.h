// Executes one instruction of a live frame through CPython's API, with CPython's results and messages.
//
//   StepResult result = step(thread, frame);
//   if (result.outcome == Outcome::Raised && !leave_instruction(thread, frame, result)) return nullptr;
#pragma once
#include <Python.h>

#include "cpython/frame.h"

namespace gramme::cpython {

enum class Outcome : uint8_t {
  Next,      // the frame is at the next instruction to run
  Raised,    // an exception is set
  Returned,  // `value` is the result of an ended frame, or what a suspended generator yielded
  HandOver,  // nothing was done: only CPython can run this instruction
};

struct StepResult {
  Outcome outcome;
  PyObject* value = nullptr;  // Returned: owned
  int raised_at = -1;         // Raised: code unit for the look-up of the handler
  bool traceback = true;      // Raised: the frame gets a traceback entry (not if the exception is raised again)
};

/// Stands in for CALL and CALL_FUNCTION_EX calling `callable`; same contract as PyObject_Vectorcall.
struct CallHook {
  PyObject* (*call)(const void* context, PyObject* callable, PyObject* const* args, size_t nargsf, PyObject* kwnames);
  const void* context;
  PyObject* only = nullptr;  // the one callable that it stands in for; null: all
};

/// Executes the frame's next instruction with its prefixes. The frame must be linked. If `*taken_over` is true
/// afterwards, no signal handler or pending call runs after the instruction.
StepResult step(PyThreadState* thread, LiveFrame frame, const CallHook* hook = nullptr,
                const bool* taken_over = nullptr);

/// Call after Raised: adds the traceback entry and moves the frame to its handler. False if there is none: the
/// exception leaves the frame.
bool leave_instruction(PyThreadState* thread, LiveFrame frame, const StepResult& raised);

/// The result of BINARY_OP with this argument (NB_ADD … NB_INPLACE_XOR): a new reference, or null with an error set.
PyObject* binary_operation(int op, PyObject* left, PyObject* right);

/// True if step() executes the instruction of this name in the vocabulary; otherwise it returns HandOver.
bool can_step(const char* name);

}  // namespace gramme::cpython
