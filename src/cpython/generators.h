// Generators and coroutines whose frames come to us where they are resumed, whoever does it.
#pragma once
#include <Python.h>

#include <memory>

#include "cpython/frame.h"

namespace gramme::cpython {

/// Lives as long as the generator that it is given the frame of.
class Resumer {
 public:
  virtual ~Resumer() = default;
  /// True if it takes the frame this time. Runs no Python.
  virtual bool wants(PyThreadState* thread) noexcept = 0;
  /// Runs the frame in the evaluator's place, to where it yields, returns or raises. What is thrown into it is set.
  virtual PyObject* run(PyThreadState* thread, LiveFrame frame) noexcept = 0;
  /// For the garbage collector: visits what this holds, as if the generator did.
  virtual int traverse(visitproc visit, void* arg) const = 0;
};

/// True for a generator whose death runs none of its code: it has not begun, or is done, or waits outside of any `try`
/// and `with`, and not for another.
bool closes_quietly(PyObject* object);

/// True for a generator or coroutine, no asynchronous generator, that can be resumed.
bool can_watch(PyObject* object);

/// From now on it is known whether the program throws into a generator, or closes it, or it dies.
void know_who_throws();
/// True if the program throws into it, or closes it. Only for those that are not watched.
bool is_thrown_into(PyObject* generator);

/// From now on the resumer gets the generator's frame where it is sent a value, or an exception by throw() or close(),
/// which is then set, and nobody traces; what is thrown into one that waits for it, too. What dies stays CPython's.
/// Nothing of this shows to the program: it is the slots and methods of CPython's own types that look for it, which
/// costs other generators a comparison, and from 3.12 on the evaluation hook, which is in until it ends.
void watch(PyObject* generator, std::unique_ptr<Resumer> resumer);
bool is_watched(PyObject* generator);
/// From now on only CPython resumes it, if the object is a generator or coroutine.
void leave_alone(PyObject* object);

}  // namespace gramme::cpython
