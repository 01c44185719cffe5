// Replaces the slots and methods by which CPython's generator types are resumed, thrown into, closed and freed, once in
// the process.
#include "cpython/generators.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "base/process.h"
#include "base/type_dict.h"
#include "cpython/code_object.h"
#include "cpython/evaluator.h"
#include "cpython/generator_image.h"
#include "cpython/internal.h"

namespace gramme::cpython {
namespace {

struct Watched {
  std::shared_ptr<Resumer> resumer;
  std::unique_ptr<ResumesBySlots> by_slots;  // until the generator has ended
};

/// CPython's own functions in the slots of one of the two types.
struct Slots {
  iternextfunc next;
  sendfunc send;
  PyCFunction send_method, close_method;
  _PyCFunctionFast throw_method;
  destructor deallocate;
  traverseproc traverse;
};

/// Generators outlive whatever is dropped.
struct State {
  Slots of_generators{};                            // GIL: null until the slots are replaced, constant afterwards
  Slots of_coroutines{};                            // GIL: the same
  std::unordered_map<PyObject*, Watched> resumers;  // GIL: of all existing watched generators
  /// GIL: unwatched generators into which the program is throwing an exception. Threads and libraries that switch
  /// stacks remove entries in any order.
  std::vector<PyObject*> thrown_into;

  size_t size() const { return resumers.size(); }
};
Lasting<State> state;

constexpr char kWatched = 0x5a;

/// A byte of the generator that only asynchronous generators use marks those that may be watched: CPython clears it in
/// new ones.
bool may_be_watched(PyObject* generator) { return as_generator(generator)->gi_hooks_inited == kWatched; }

std::shared_ptr<Resumer> resumer_of(PyObject* generator) {
  auto found = state->resumers.find(generator);
  return found == state->resumers.end() ? nullptr : found->second.resumer;
}

const Slots& slots_of(PyObject* generator) {
  return PyGen_CheckExact(generator) ? state->of_generators : state->of_coroutines;
}

PyObject* run_watched(void* context, PyThreadState* thread, LiveFrame frame) {
  return static_cast<Resumer*>(context)->run(thread, frame);
}

bool waits(PyObject* generator) { return is_created(generator) || is_suspended(generator); }

/// Releases the hook for a generator that has ended but still exists.
void note_end(PyObject* generator) {
  if (waits(generator) || is_executing(generator)) return;
  if (auto found = state->resumers.find(generator); found != state->resumers.end()) found->second.by_slots.reset();
}

/// Resumes a watched generator by its type's original function.
template <class Resume>
[[gnu::noinline]] void resume_watched(PyObject* generator, Resume resume) {
  PyThreadState* thread = PyThreadState_Get();
  const std::shared_ptr<Resumer> resumer = resumer_of(generator);
  if (!resumer || !waits(generator) || !resumer->wants(thread)) return resume();
  const FrameResumed scope(thread, generator, run_watched, resumer.get());
  resume();
  note_end(generator);
}

/// Calls a function that may resume the generator and returns an object.
template <class Resume>
PyObject* resumed(PyObject* generator, Resume resume) {
  if (!may_be_watched(generator)) return resume();
  PyObject* result = nullptr;
  resume_watched(generator, [&] { result = resume(); });
  return result;
}

PyObject* next(PyObject* generator) {
  return resumed(generator, [&] { return slots_of(generator).next(generator); });
}

PySendResult send(PyObject* generator, PyObject* value, PyObject** result) {
  if (!may_be_watched(generator)) return slots_of(generator).send(generator, value, result);
  PySendResult status = PYGEN_ERROR;
  resume_watched(generator, [&] { status = slots_of(generator).send(generator, value, result); });
  return status;
}

PyObject* send_method(PyObject* generator, PyObject* value) {
  return resumed(generator, [&] { return slots_of(generator).send_method(generator, value); });
}

/// The generator or coroutine that this one waits for, borrowed; null if there is none.
PyObject* awaited_by(PyObject* generator) {
  if (!is_suspended(generator) || !waits_for_another(frame_of(generator))) return nullptr;
  PyObject* awaited = waited_for(frame_of(generator));
  return PyGen_CheckExact(awaited) || PyCoro_CheckExact(awaited) ? awaited : nullptr;
}

class ThrownInto {
 public:
  explicit ThrownInto(PyObject* generator) : generator_(generator) { state->thrown_into.push_back(generator); }
  ~ThrownInto() { state->thrown_into.erase(std::ranges::find(state->thrown_into, generator_)); }
  ThrownInto(const ThrownInto&) = delete;

 private:
  PyObject* const generator_;
};

/// Throws into a generator: if it waits for another, that one gets the exception first.
template <class Throw>
void throw_into(PyObject* generator, const Throw& do_throw) {
  auto throw_further = [&] {
    PyObject* awaited = awaited_by(generator);
    awaited ? throw_into(awaited, do_throw) : do_throw();
  };
  if (may_be_watched(generator)) return resume_watched(generator, throw_further);
  const ThrownInto scope(generator);
  throw_further();
}

PyObject* throw_method(PyObject* generator, PyObject* const* args, Py_ssize_t count) {
  PyObject* result = nullptr;
  throw_into(generator, [&] { result = slots_of(generator).throw_method(generator, args, count); });
  return result;
}

PyObject* close_method(PyObject* generator, PyObject* none) {
  PyObject* result = nullptr;
  throw_into(generator, [&] { result = slots_of(generator).close_method(generator, none); });
  return result;
}

/// Ends the watch before CPython frees the generator: a finalizer may resurrect it.
void deallocate(PyObject* generator) {
  if (!may_be_watched(generator)) return slots_of(generator).deallocate(generator);
  const std::shared_ptr<Resumer> dies_last = resumer_of(generator);
  state->resumers.erase(generator);
  as_generator(generator)->gi_hooks_inited = 0;
  slots_of(generator).deallocate(generator);
}

int traverse(PyObject* generator, visitproc visit, void* arg) {
  if (may_be_watched(generator)) {
    auto found = state->resumers.find(generator);
    const int stop = found == state->resumers.end() ? 0 : found->second.resumer->traverse(visit, arg);
    if (stop) return stop;
  }
  return slots_of(generator).traverse(generator, visit, arg);
}

PyObject* own_attribute(PyTypeObject& type, const char* name) { return PyDict_GetItemString(type_dict(&type), name); }

PyCFunction& method_of(PyTypeObject& type, const char* name) {
  return reinterpret_cast<PyMethodDescrObject*>(own_attribute(type, name))->d_method->ml_meth;
}

template <class To, class From>
To as_method(From function) {
  return reinterpret_cast<To>(reinterpret_cast<void (*)()>(function));
}

void take_slots(PyTypeObject& type, Slots& original) {
  original = {type.tp_iternext,
              type.tp_as_async->am_send,
              method_of(type, "send"),
              method_of(type, "close"),
              as_method<_PyCFunctionFast>(method_of(type, "throw")),
              type.tp_dealloc,
              type.tp_traverse};
  type.tp_as_async->am_send = send;
  method_of(type, "send") = send_method;
  method_of(type, "close") = close_method;
  method_of(type, "throw") = as_method<PyCFunction>(throw_method);
  type.tp_dealloc = deallocate;
  type.tp_traverse = traverse;
  if (!type.tp_iternext) return;
  type.tp_iternext = next;
  reinterpret_cast<PyWrapperDescrObject*>(own_attribute(type, "__next__"))->d_wrapped = reinterpret_cast<void*>(next);
}

void take_all_slots() {
  if (state->of_generators.next) return;
  take_slots(PyGen_Type, state->of_generators);
  take_slots(PyCoro_Type, state->of_coroutines);
}

class LeftAlone final : public Resumer {
 public:
  bool wants(PyThreadState*) noexcept override { return false; }
  PyObject* run(PyThreadState*, LiveFrame) noexcept override { return nullptr; }
  int traverse(visitproc, void*) const override { return 0; }
};

void watch_by(PyObject* generator, Watched watched) {
  take_all_slots();
  state->resumers[generator] = std::move(watched);
  as_generator(generator)->gi_hooks_inited = kWatched;
}

}  // namespace

bool closes_quietly(PyObject* object) {
  if (!PyGen_CheckExact(object)) return false;  // a coroutine's death may warn
  if (!is_suspended(object)) return !is_executing(object);
  const FrameImage frame = frame_of(object);
  ExceptionTable::Entry handler;
  return !waits_for_another(frame) && !find_handler(frame.code(), frame.suspended_at(), &handler);
}

bool can_watch(PyObject* object) {
  if (!PyGen_CheckExact(object) && !PyCoro_CheckExact(object)) return false;
  return waits(object) && !(code_of_generator(object)->co_flags & CO_ITERABLE_COROUTINE);
}

void know_who_throws() { take_all_slots(); }
bool is_thrown_into(PyObject* generator) {
  return std::ranges::find(state->thrown_into, generator) != state->thrown_into.end();
}

bool is_watched(PyObject* generator) { return may_be_watched(generator) && state->resumers.contains(generator); }

void leave_alone(PyObject* object) {
  if (can_watch(object)) watch_by(object, {std::make_unique<LeftAlone>(), nullptr});
}

void watch(PyObject* generator, std::unique_ptr<Resumer> resumer) {
  watch_by(generator, {std::move(resumer), std::make_unique<ResumesBySlots>()});
}

}  // namespace gramme::cpython
