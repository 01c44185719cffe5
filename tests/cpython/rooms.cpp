// What src/cpython does beside steps, for rooms.py: catching and taking frames, generators that are watched or made in
// the middle of their code, objects looked into by their layout.
#include "rooms.h"

#include <memory>

#include "base/error.h"
#include "base/signals.h"
#include "cpython/encoding.h"
#include "cpython/evaluator.h"
#include "cpython/generators.h"
#include "cpython/iterators.h"
#include "cpython/lru_cache.h"
#include "cpython/objects.h"
#include "cpython/probe.h"
#include "cpython/replayed.h"
#include "stepper.h"

namespace frames {
namespace {

using gramme::Owned;
namespace cpython = gramme::cpython;

PyObject* run_stepped(void* rules, PyThreadState* thread, cpython::LiveFrame frame) {
  return run(thread, frame, *static_cast<Rules*>(rules), PyErr_Occurred() != nullptr);
}

/// catch_frame(function, arguments, steps): its frame is caught where it begins.
PyObject* catch_frame(PyObject*, PyObject* arguments) {
  PyObject *function, *values;
  Rules rules{0, Holds::AsCompiled, Calls::Vectorcall, false};
  if (!PyArg_ParseTuple(arguments, "O!O!i", &PyFunction_Type, &function, &PyTuple_Type, &values, &rules.steps))
    return nullptr;
  return cpython::call_with_frame(PyThreadState_Get(), cpython::as_function(function), &PyTuple_GET_ITEM(values, 0),
                                  static_cast<size_t>(PyTuple_GET_SIZE(values)), nullptr, run_stepped, &rules);
}

/// How many references its caller has to what the frame was called with; the frame itself has let go of it.
PyObject* count_first(void*, PyThreadState* thread, cpython::LiveFrame frame) {
  const cpython::LinkedFrame linked(thread, frame);
  const Owned<> first = Owned<>::share(frame.local(0));
  frame.set_local(0, Py_NewRef(Py_None));
  return PyLong_FromSsize_t(Py_REFCNT(first.get()) - 1);
}

/// Every call in the frame is one of the function, whose frame is caught.
PyObject* run_caller(void* function, PyThreadState* thread, cpython::LiveFrame frame) {
  const cpython::LinkedFrame linked(thread, frame);
  cpython::StepResult result{cpython::Outcome::Next};
  while (result.outcome == cpython::Outcome::Next) {
    const bool taken_over = false;
    const gramme::opcode::Op op = cpython::decode_at(cpython::units_of(frame.code()), frame.next()).parts[0].op;
    result = op == gramme::opcode::Op::CALL || op == gramme::opcode::Op::CALL_KW
                 ? cpython::step_into(thread, frame, static_cast<PyFunctionObject*>(function), count_first, nullptr,
                                      &taken_over)
                 : cpython::step(thread, frame);
  }
  return result.value;
}

/// stepped_into(caller, arguments, callee): the caller's value; that of the callee is what count_first says.
PyObject* stepped_into(PyObject*, PyObject* arguments) {
  PyObject *caller, *values, *callee;
  if (!PyArg_ParseTuple(arguments, "O!O!O!", &PyFunction_Type, &caller, &PyTuple_Type, &values, &PyFunction_Type,
                        &callee))
    return nullptr;
  return cpython::call_with_frame(PyThreadState_Get(), cpython::as_function(caller), &PyTuple_GET_ITEM(values, 0),
                                  static_cast<size_t>(PyTuple_GET_SIZE(values)), nullptr, run_caller, callee);
}

class Taker final : public cpython::FrameTaker {
 public:
  Taker(PyObject* codes, Rules rules) : codes_(codes), rules_(rules) {}
  cpython::FrameRule ask(PyFunctionObject* function) noexcept override {
    return PySet_Contains(codes_, function->func_code) == 1 ? cpython::FrameRule::Take : cpython::FrameRule::PassOn;
  }
  PyObject* run(PyThreadState* thread, cpython::LiveFrame frame) noexcept override {
    const cpython::TakesFrames inside(thread, this);
    return frames::run(thread, frame, rules_, PyErr_Occurred() != nullptr);
  }

 private:
  PyObject* const codes_;
  const Rules rules_;
};

/// taken(callable, codes, steps): frames of these code objects are taken where they begin or are resumed.
PyObject* taken(PyObject*, PyObject* arguments) {
  PyObject *callable, *codes;
  Rules rules{0, Holds::AsCompiled, Calls::Vectorcall, false};
  if (!PyArg_ParseTuple(arguments, "OOi", &callable, &codes, &rules.steps)) return nullptr;
  const auto taker = std::make_shared<Taker>(codes, rules);
  const cpython::TakesFrames scope(PyThreadState_Get(), taker.get());
  return PyObject_CallNoArgs(callable);
}

class Stepping final : public cpython::Resumer {
 public:
  explicit Stepping(int steps) : rules_{steps, Holds::All, Calls::Vectorcall, false} {}
  bool wants(PyThreadState*) noexcept override { return true; }
  PyObject* run(PyThreadState* thread, cpython::LiveFrame frame) noexcept override {
    ++resumed;
    return frames::run(thread, frame, rules_, PyErr_Occurred() != nullptr);
  }
  int traverse(visitproc, void*) const override { return 0; }
  static inline int resumed = 0;

 private:
  const Rules rules_;
};

/// watch(generator, steps)
PyObject* watch(PyObject*, PyObject* arguments) {
  PyObject* generator;
  int steps;
  if (!PyArg_ParseTuple(arguments, "Oi", &generator, &steps)) return nullptr;
  if (!cpython::can_watch(generator)) Py_RETURN_FALSE;
  cpython::watch(generator, std::make_unique<Stepping>(steps));
  Py_RETURN_TRUE;
}

/// resumed(): how often frames of watched generators came.
PyObject* resumed(PyObject*, PyObject*) { return PyLong_FromLong(std::exchange(Stepping::resumed, 0)); }

/// of_replay(): by name, what a replay calls.
PyObject* of_replay(PyObject*, PyObject*) {
  return Py_BuildValue("{sOsOsOsOsO}", "make_generator", cpython::generator_maker(), "make_frame",
                       cpython::frame_maker(), "fill", cpython::frame_filler(), "move_iterator",
                       cpython::iterator_mover(), "advance_iterator", cpython::iterator_advancer());
}

/// look_ahead(iterator, passed): (key or item, value or None); None at the end.
PyObject* look_ahead(PyObject*, PyObject* arguments) {
  PyObject* iterator;
  Py_ssize_t passed;
  if (!PyArg_ParseTuple(arguments, "On", &iterator, &passed)) return nullptr;
  const cpython::Ahead ahead = cpython::look_ahead(iterator, passed);
  if (ahead.next == cpython::Next::Unknown) return PyErr_Format(PyExc_LookupError, "unknown");
  if (ahead.next == cpython::Next::End) Py_RETURN_NONE;
  return Py_BuildValue("(OO)", ahead.item, ahead.value ? ahead.value : Py_None);
}

/// attribute(object, name): the instance's own; None if there is none.
PyObject* attribute(PyObject*, PyObject* arguments) {
  PyObject *object, *name, *value;
  if (!PyArg_ParseTuple(arguments, "OO", &object, &name)) return nullptr;
  if (cpython::instance_attribute(object, name, &value) != cpython::Lookup::Found) Py_RETURN_NONE;
  PyObject** address = cpython::instance_attribute_address(object, name);
  if (!address || *address != value) return PyErr_Format(PyExc_AssertionError, "the address has another object");
  return Py_NewRef(value);
}

bool add_words(PyObject* list, const cpython::Words& words) {
  for (const uint64_t* word : words) {
    const Owned<> pair = Owned<>::steal(Py_BuildValue("(KK)", word, *word));
    if (!pair || PyList_Append(list, pair.get()) < 0) return false;
  }
  return true;
}

/// words(object): (inline or not, words that change with its attributes' names): address and content of each.
PyObject* words_of(PyObject*, PyObject* object) {
  Owned<> list = Owned<>::steal(PyList_New(0));
  cpython::Words words;
  const bool inlined = cpython::has_inline_values(object);
  if (inlined) {
    words.push_back(static_cast<const uint64_t*>(cpython::inline_word_address(object)));
    cpython::inline_order_words(object, words);
  } else if (PyObject* dict = cpython::instance_dict_if_any(object)) {
    Owned<> keys;
    cpython::dict_table_words(dict, words);
    if (!cpython::dict_key_words(dict, words, keys)) return PyErr_Format(PyExc_LookupError, "unknown keys");
  }
  return add_words(list.get(), words) ? Py_BuildValue("(iO)", inlined, list.get()) : nullptr;
}

/// inline_names(object): in the order in which it got them.
PyObject* inline_names(PyObject*, PyObject* object) {
  Owned<> list = Owned<>::steal(PyList_New(0));
  for (Py_ssize_t i = 0; i < cpython::inline_count(object); ++i)
    PyList_Append(list.get(), cpython::shared_key_at(Py_TYPE(object), cpython::inline_insertion_order(object, i)));
  return list.release();
}

/// entry(dict, index): (key, value), read by address; None past the end.
PyObject* entry(PyObject*, PyObject* arguments) {
  PyObject *dict, *key, *value;
  Py_ssize_t index;
  if (!PyArg_ParseTuple(arguments, "On", &dict, &index)) return nullptr;
  if (!cpython::dict_entry(dict, index, &key, &value)) Py_RETURN_NONE;
  PyObject** address = cpython::dict_entry_address(dict, index);
  PyObject** key_address = cpython::dict_key_address(dict, key);
  if (!address || *address != value || !key_address || *key_address != key)
    return PyErr_Format(PyExc_AssertionError, "the address has another object");
  return Py_BuildValue("(OO)", key, value);
}

/// subclasses(type): the dict in which they are, or None.
PyObject* subclasses(PyObject*, PyObject* type) {
  PyObject* dict = *cpython::subclasses_address(reinterpret_cast<PyTypeObject*>(type));
  return Py_NewRef(dict ? dict : Py_None);
}

/// thread_dict(local): the thread's, or None.
PyObject* thread_dict(PyObject*, PyObject* local) {
  if (!cpython::is_thread_local(local)) return PyErr_Format(PyExc_TypeError, "no threading.local");
  PyObject* dict = cpython::thread_dict(local);
  return Py_NewRef(dict ? dict : Py_None);
}

/// make_type(meta, name, bases, names)
PyObject* make_type(PyObject*, PyObject* arguments) {
  PyObject *meta, *name, *bases, *names;
  if (!PyArg_ParseTuple(arguments, "OOOO", &meta, &name, &bases, &names)) return nullptr;
  return cpython::make_type(reinterpret_cast<PyTypeObject*>(meta), name, bases, names);
}

/// others(lru, deque, ordered, token): what is in them, read by layout.
PyObject* others(PyObject*, PyObject* arguments) {
  PyObject *lru, *deque, *ordered, *token;
  if (!PyArg_ParseTuple(arguments, "OOOO", &lru, &deque, &ordered, &token)) return nullptr;
  if (!cpython::is_lru_cache(lru)) return PyErr_Format(PyExc_TypeError, "no lru_cache");
  const uint64_t* registrations = cpython::abc_registrations();
  return Py_BuildValue("(OOOOi)", *cpython::cache_table_address(lru), *cpython::deque_item_address(deque, 1),
                       cpython::ordered_dict_key(ordered, 0), cpython::token_part(token, 0), registrations != nullptr);
}

/// held(callable): calls it while no handler of a signal runs; then lets them.
PyObject* held(PyObject*, PyObject* callable) {
  const gramme::SignalsHeld scope;
  return PyObject_CallNoArgs(callable);
}

/// layouts(changed): rows (what, built, found), the row of that number as if it had been built otherwise; and what is
/// said.
PyObject* layouts(PyObject*, PyObject* changed) {
  try {
    std::vector<gramme::Layout> all = cpython::layouts();
    const auto row = static_cast<size_t>(PyLong_AsLong(changed));
    if (row < all.size()) all[row].built += 8;
    Owned<> rows = Owned<>::steal(PyList_New(0));
    for (const gramme::Layout& layout : all) {
      Owned<> one = Owned<>::steal(Py_BuildValue("sLL", layout.of.c_str(), static_cast<long long>(layout.built),
                                                 static_cast<long long>(layout.found)));
      if (!one || PyList_Append(rows.get(), one.get()) != 0) return nullptr;
    }
    return Py_BuildValue("Os", rows.get(), gramme::mismatch(all, "this").c_str());
  } catch (const gramme::PythonError&) {
    return nullptr;
  }
}

}  // namespace

PyMethodDef of_rooms[] = {
    {"catch_frame", catch_frame, METH_VARARGS, nullptr},
    {"stepped_into", stepped_into, METH_VARARGS, nullptr},
    {"taken", taken, METH_VARARGS, nullptr},
    {"watch", watch, METH_VARARGS, nullptr},
    {"resumed", resumed, METH_NOARGS, nullptr},
    {"of_replay", of_replay, METH_NOARGS, nullptr},
    {"look_ahead", look_ahead, METH_VARARGS, nullptr},
    {"attribute", attribute, METH_VARARGS, nullptr},
    {"words", words_of, METH_O, nullptr},
    {"inline_names", inline_names, METH_O, nullptr},
    {"entry", entry, METH_VARARGS, nullptr},
    {"subclasses", subclasses, METH_O, nullptr},
    {"thread_dict", thread_dict, METH_O, nullptr},
    {"make_type", make_type, METH_VARARGS, nullptr},
    {"others", others, METH_VARARGS, nullptr},
    {"held", held, METH_O, nullptr},
    {"layouts", layouts, METH_O, nullptr},
    {},
};

}  // namespace frames
