// Carrying out one instruction of a live frame for real, through CPython's API, with CPython's results and messages.
//
//   StepResult result = step(thread, frame);
//   if (result.outcome == Outcome::Raised && !leave_instruction(thread, frame, result)) return nullptr;
#pragma once
#include <Python.h>

#include "cpython/frame.h"

namespace gramme::cpython {

enum class Outcome : uint8_t {
  Next,      // the frame stands at the instruction to go on with
  Raised,    // an exception is set
  Returned,  // `value` is the function's result, and the frame is done; or what a generator yields, and it is suspended
  HandOver,  // nothing happened: only CPython can run this instruction
};

struct StepResult {
  Outcome outcome;
  PyObject* value = nullptr;  // Returned: owned
  int raised_at = -1;         // Raised: code unit whose handler is looked up
  bool traceback = true;      // Raised: the frame gets a traceback entry (not if the exception is raised again)
};

/// Stands in for CALL and CALL_FUNCTION_EX calling `callable`; same contract as PyObject_Vectorcall.
struct CallHook {
  PyObject* (*call)(const void* context, PyObject* callable, PyObject* const* args, size_t nargsf, PyObject* kwnames);
  const void* context;
};

/// Carries out the frame's next instruction, with those in front of it that are parts of it. The frame must be linked.
/// Nobody is let in behind the instruction where `*taken_over` has become true.
StepResult step(PyThreadState* thread, LiveFrame frame, const CallHook* hook = nullptr,
                const bool* taken_over = nullptr);

/// After Raised: adds the traceback entry and goes to the handler. False: there is none, the exception leaves the
/// frame.
bool leave_instruction(PyThreadState* thread, LiveFrame frame, const StepResult& raised);

/// What BINARY_OP with this argument (NB_ADD … NB_INPLACE_XOR) computes: a new reference, or null with an error set.
PyObject* binary_operation(int op, PyObject* left, PyObject* right);

/// True if step() knows the instruction of this name, in the vocabulary; otherwise it hands over.
bool can_step(const char* name);

}  // namespace gramme::cpython
