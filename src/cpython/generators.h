// Watches generators and coroutines: whoever resumes one, its frame is offered to its resumer.
#pragma once
#include <Python.h>

#include <memory>

#include "cpython/frame.h"

namespace gramme::cpython {

/// Gets the frame of one generator, and lives as long as that.
class Resumer {
 public:
  virtual ~Resumer() = default;
  /// True to take the frame this time. Must run no Python.
  virtual bool wants(PyThreadState* thread) noexcept = 0;
  /// Runs the frame in place of the evaluator until it yields, returns or raises. An exception thrown into it is set.
  virtual PyObject* run(PyThreadState* thread, LiveFrame frame) noexcept = 0;
  /// For the garbage collector: visits the resumer's objects as the generator's.
  virtual int traverse(visitproc visit, void* arg) const = 0;
};

/// True for a generator whose death runs none of its code: it has not begun or has ended, or it waits outside of any
/// `try` and `with` and not for another generator.
bool closes_quietly(PyObject* object);

/// True for a generator or coroutine that can be resumed; false for asynchronous generators.
bool can_watch(PyObject* object);

/// Must be called before is_thrown_into(): from now on throw(), close() and a generator's death are distinguished.
void know_who_throws();
/// True while the program throws into the generator or closes it. Only for generators that are not watched.
bool is_thrown_into(PyObject* generator);

/// From now on the resumer gets the generator's frame when it is resumed with a value, or with an exception by throw()
/// or close(), directly or through a generator that waits for it. Not while tracing, and not when it dies. The program
/// sees nothing of it: the slots and methods of CPython's own types are replaced. That costs other generators a
/// comparison and, from 3.12 on, the evaluation hook until this generator ends.
void watch(PyObject* generator, std::unique_ptr<Resumer> resumer);
bool is_watched(PyObject* generator);
/// If the object is a generator or coroutine, only CPython resumes it from now on.
void leave_alone(PyObject* object);

}  // namespace gramme::cpython
