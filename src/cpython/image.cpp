// What FrameImage does in several lines for some versions: unpacking, iteration pairs, calls that move arguments; and
// the layouts of frames.
#include "cpython/image.h"

#include <cstddef>
#include <memory>

#include "base/error.h"
#include "base/process.h"
#include "base/ref.h"
#include "cpython/internal.h"
#include "cpython/probe.h"

namespace gramme::cpython {

#if GRAMME_PYTHON_TAGGED_SLOTS

PyTypeObject IndexObject::type = {
    .ob_base = PyVarObject_HEAD_INIT(&PyType_Type, 0).tp_name = "gramme.index",
    .tp_basicsize = sizeof(IndexObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
};

namespace {
/// Slots hold these objects.
struct Indices {
  std::vector<std::unique_ptr<IndexObject>> all;  // GIL: by index
};
Lasting<Indices> indices;
}  // namespace

IndexObject* IndexObject::of(int unit) {
  std::vector<std::unique_ptr<IndexObject>>& all = indices->all;
  if (all.empty() && PyType_Ready(&type) < 0) GRAMME_BUG("no type of indices");
  const auto at = static_cast<size_t>(unit);
  if (at >= all.size()) all.resize(at + 1);
  if (!all[at]) all[at].reset(new IndexObject{PyObject_HEAD_INIT(&type) unit});
  return all[at].get();
}

int IndexObject::unit_of(PyObject* index) { return reinterpret_cast<IndexObject*>(index)->unit; }

bool FrameImage::unpack(PyThreadState* thread, PyObject* iterable, int before, int after) const {
  Slot::Word* top = frame_->stackpointer + before + (after < 0 ? 0 : 1 + after);
  if (!_PyEval_UnpackIterableStackRef(thread, iterable, before, after, top)) return false;
  frame_->stackpointer = top;
  return true;
}

#elif GRAMME_PYTHON_EXPORTED_HELPERS

bool FrameImage::unpack(PyThreadState* thread, PyObject* iterable, int before, int after) const {
  const int total = before + (after < 0 ? 0 : 1 + after);
  if (!_PyEval_UnpackIterable(thread, iterable, before, after, &top(-total))) return false;
  frame_->stacktop += total;
  return true;
}

#else

namespace {

/// "not enough values" when the iterator ended after `got` items.
void set_too_few(int before, int after, Py_ssize_t got) {
  if (after < 0)
    PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected %d, got %zd)", before, got);
  else
    PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected at least %d, got %zd)", before + after, got);
}

/// True if the iterator has ended, as an unpacking without a star asks.
bool ended(PyObject* iterator, int expected) {
  auto extra = Owned<>::steal(PyIter_Next(iterator));
  if (!extra) return !PyErr_Occurred();
  PyErr_Format(PyExc_ValueError, "too many values to unpack (expected %d)", expected);
  return false;
}

/// The rest of the iterator as a list without the last `after` items, which go on top of it.
bool unpack_rest(PyObject* iterator, int before, int after, PyObject** top) {
  auto rest = Owned<>::steal(PySequence_List(iterator));
  if (!rest) return false;
  Py_ssize_t length = PyList_GET_SIZE(rest.get());
  if (length < after) {
    set_too_few(before, after, before + length);
    return false;
  }
  for (int i = 0; i < after; ++i) top[-2 - i] = PyList_GET_ITEM(rest.get(), length - after + i);
  Py_SET_SIZE(rest.get(), length - after);  // those items belong to the stack now
  top[-1] = rest.release();
  return true;
}

/// Unpacks into the slots below `top`. False with an error set; the slots then hold no references.
bool unpack_below(PyObject* iterable, int before, int after, PyObject** top) {
  auto iterator = Owned<>::steal(PyObject_GetIter(iterable));
  if (!iterator) {
    if (PyErr_ExceptionMatches(PyExc_TypeError) && !Py_TYPE(iterable)->tp_iter && !PySequence_Check(iterable))
      PyErr_Format(PyExc_TypeError, "cannot unpack non-iterable %.200s object", Py_TYPE(iterable)->tp_name);
    return false;
  }
  int count = 0;
  for (; count < before; ++count) {
    PyObject* item = PyIter_Next(iterator.get());
    if (!item) break;
    top[-1 - count] = item;
  }
  if (count < before && !PyErr_Occurred()) set_too_few(before, after, count);
  if (count == before &&
      (after < 0 ? ended(iterator.get(), before) : unpack_rest(iterator.get(), before, after, top - before)))
    return true;
  while (count > 0) Py_DECREF(top[-1 - --count]);
  return false;
}

}  // namespace

/// The items are collected above the stack's top, which no code reads.
bool FrameImage::unpack(PyThreadState*, PyObject* iterable, int before, int after) const {
  const int total = before + (after < 0 ? 0 : 1 + after);
  if (!unpack_below(iterable, before, after, &top(-total))) return false;
  frame_->stacktop += total;
  return true;
}

#endif

#if GRAMME_PYTHON_ITERATOR_PAIRS
bool FrameImage::get_iter(int kind) const {
  Slot::Word index = PyStackRef_NULL;
  const Slot::Word iterator = _PyEval_GetIter(pop_word(), &index, kind);
  if (PyStackRef_IsError(iterator)) return false;
  push_word(iterator);
  push_word(index);
  return true;
}

int FrameImage::push_next(PyThreadState* thread) const {
  const Slot::Word next = _PyForIter_VirtualIteratorNext(thread, frame_, top(2), &top(1));
  if (PyStackRef_IsError(next)) return -1;
  if (PyStackRef_IsNull(next)) return 0;
  push_word(next);
  return 1;
}
#endif

#if GRAMME_PYTHON_SPECIAL_METHODS
int FrameImage::load_special(PyObject* name) const {
  Slot::Word pair[] = {PyStackRef_NULL, pop_word()};
  const int found = _PyObject_LookupSpecialMethod(name, pair);
  if (found > 0) push_word(pair[0]);
  push_word(pair[1]);
  return found;
}
#endif

#if GRAMME_PYTHON_MOVES_ARGUMENTS
PyObject* FrameImage::call_moved(PyThreadState* thread, int bottom, int count, int above, PyObject* names) const {
  std::vector<Slot::Word> arguments;
  for (int n = above + count; n > above; --n) arguments.push_back(std::exchange(top(n), PyStackRef_NULL));
  const Slot::Word function = std::exchange(top(bottom), PyStackRef_NULL);
  const Owned<> held_names = Owned<>::share(names);
  const size_t named = names ? static_cast<size_t>(PyTuple_GET_SIZE(names)) : 0;
  auto* callee =
      _PyEvalFramePushAndInit(thread, function, nullptr, arguments.data(), arguments.size() - named, names, nullptr);
  return callee ? _PyEval_EvalFrame(thread, callee, 0) : nullptr;
}
#endif

std::vector<Layout> frame_layouts() {
  std::vector<Layout> all;
  auto add = [&](const char* of, size_t built, auto found) {
    all.push_back({of, static_cast<int64_t>(built), static_cast<int64_t>(found)});
  };
  constexpr size_t kHead = offsetof(_PyInterpreterFrame, localsplus);
  add("the size of 'frame'", offsetof(PyFrameObject, _f_frame_data) + kHead, PyFrame_Type.tp_basicsize);
  add("the size of 'generator'", offsetof(PyGenObject, gi_iframe) + kHead, PyGen_Type.tp_basicsize);
#if GRAMME_PYTHON_DEBUG_OFFSETS
  const auto& here = _PyRuntime.debug_offsets.interpreter_frame;
  add("the offset of a frame's caller", offsetof(_PyInterpreterFrame, previous), here.previous);
  add("the offset of a frame's code", offsetof(_PyInterpreterFrame, f_executable), here.executable);
  add("the offset of a frame's instruction", offsetof(_PyInterpreterFrame, instr_ptr), here.instr_ptr);
  add("the offset of a frame's locals", kHead, here.localsplus);
  add("the offset of a frame's owner", offsetof(_PyInterpreterFrame, owner), here.owner);
#endif
  return all;
}

}  // namespace gramme::cpython
