// Native programs as Python callables: recorded at the first call, replayed afterwards.
//
//   PyObject* run = make_executor(std::move(program), {Trust::Guarded});
//   PyObject_Vectorcall(run, inputs, count, nullptr);   // the program's output
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/ref.h"
#include "tape/memory.h"
#include "tape/program.h"

namespace gramme::native {

/// Who ensures that inputs are like those of the recording.
enum class Trust : uint8_t {
  Guarded,    // the caller's guards, which fix tensors and the thread's state
  Unguarded,  // nobody: inputs are compared, and other inputs get another tape
};

struct Counters {
  uint64_t calls = 0, recorded = 0, stepwise = 0;
  uint64_t backwards = 0;  // calls with a recorded backward, also of checkpointed bodies
};

/// Whether backwards are recorded (training.h) or left to the engine, for guarded callers.
enum class Backward : uint8_t {
  Engine,
  Recorded,
  RecordedOnCpu,  // elsewhere tapes save little, and recording takes memory
};

struct Settings {
  Trust trust = Trust::Unguarded;
  Cached cached = Cached::Nothing;  // memory of small tensors kept for the next ones (memory.h)
  Backward backward = Backward::Engine;
  bool recomputes = false;  // recorded backwards are for call_recomputing() alone, and recompute
};

/// Makes a Python callable (type gramme._C.NativeGraph). Calls without a suitable tape (tensor subclasses, active
/// dispatch or torch function modes, another thread recording) run step by step in Python. Throws PythonError.
Owned<> make_executor(Program program, Settings settings);
bool is_executor(PyObject* object);
/// Calls an executor whose program returns a tuple or list, and stores new references to its items in `outputs`. False
/// with an error set if it raises or returns a wrong number; `*failed` is the step that raised.
bool call_graph(PyObject* executor, PyObject* const* inputs, size_t input_count, PyObject** outputs,
                size_t output_count, size_t* failed) noexcept;

/// Calls an executor made to recompute, with a backward that runs the forward again (training.h); returns its output.
/// None if this call cannot be made so. `arguments`: positions of inputs; a backward after a write to one raises.
/// `keeps_random`: the second forward draws the numbers of the first. Throws PythonError.
Owned<> call_recomputing(PyObject* executor, std::span<PyObject* const> inputs, std::span<const size_t> arguments,
                         bool keeps_random);

/// Visits the objects of an executor's program: its steps' targets and constants.
void each_object(PyObject* executor, const std::function<void(const char* place, PyObject* object)>& visit);

/// An executor's tapes as text, its call counts, and instruction counts of its last tape.
std::string print_tapes(PyObject* executor);
Counters counters(PyObject* executor);
struct Composition {
  size_t typed = 0, boxed = 0, views = 0, modes = 0, python = 0;
};
Composition composition(PyObject* executor);

}  // namespace gramme::native
