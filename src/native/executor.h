// Programs as callables: recorded at the first call, replayed afterwards.
//
//   PyObject* run = make_executor(std::move(program), {Trust::Guarded});
//   PyObject_Vectorcall(run, inputs, count, nullptr);   // the program's output
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "base/ref.h"
#include "native/program.h"

namespace gramme::native {

/// Who answers for the inputs being like those of the first call.
enum class Trust : uint8_t {
  Guarded,    // the caller: guards fix tensors and the thread's state before each call
  Unguarded,  // nobody: they are compared, and another tape is recorded for others
};

struct Counters {
  uint64_t calls = 0, recorded = 0, stepwise = 0;
  uint64_t backwards = 0;  // calls whose backward is a recorded one
};

/// Who makes gradients (training.h), for who is guarded.
enum class Backward : uint8_t {
  Engine,
  Recorded,
  RecordedOnCpu,  // elsewhere a tape saves little, and the pass that is recorded takes memory
};

struct Settings {
  Trust trust = Trust::Unguarded;
  bool caches_memory = false;  // memory.h
  Backward backward = Backward::Engine;
};

/// A Python callable (type gramme._C.NativeGraph). Calls that no tape is fit for (tensor subclasses, active dispatch or
/// torch function modes, while another thread records) go step by step through Python. Throws PythonError.
Owned<> make_executor(Program program, Settings settings);
bool is_executor(PyObject* object);
/// Calls an executor whose program gives a tuple or list: its items, new references, go to `outputs`. False with an
/// error set if it raises, or gives another number of them; `*failed` is the step that raised.
bool call_graph(PyObject* executor, PyObject* const* inputs, size_t input_count, PyObject** outputs,
                size_t output_count, size_t* failed) noexcept;

/// The objects of the program that an executor runs: what its steps call, and their constants.
void each_object(PyObject* executor, const std::function<void(const char* place, PyObject* object)>& visit);

/// An executor's tapes as text, counts of its calls, the numbers of instructions of its last tape.
std::string print_tapes(PyObject* executor);
Counters counters(PyObject* executor);
struct Composition {
  size_t typed = 0, boxed = 0, views = 0, modes = 0, python = 0;
};
Composition composition(PyObject* executor);

}  // namespace gramme::native
