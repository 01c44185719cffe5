// One set of accessors for live frames of CPython 3.11 to 3.15. No other file knows the offsets of fields, how an
// instruction pointer counts, or that a slot may hold a borrowed reference.
//
// A slot holds nothing, an owned reference, a borrowed reference, or an instruction index (SlotKind). Since 3.14 an
// item of the value stack may be borrowed from a local of the same frame, and an argument from the caller's stack.
// CPython's compiler ensures that no lender is written while it lends, so executing instructions as compiled is safe.
// Code that writes a frame in another way first calls make_safe() on it and on the frames that it called: then each
// slot owns its reference.
#pragma once
#include <utility>
#include <vector>

#include "cpython/features.h"

#undef HAVE_STD_ATOMIC          // replaces C's <stdatomic.h> by the builtin atomics, which have the same layout
#undef _PyObject_LookupSpecial  // Python.h renames them outside the core
#undef _PyGC_FINALIZED
#if GRAMME_PYTHON_CORE_FRAMES
#define Py_BUILD_CORE 1
#endif
#include <internal/pycore_frame.h>
#if GRAMME_PYTHON_TAGGED_SLOTS
#include <internal/pycore_genobject.h>
#include <internal/pycore_interpframe.h>
#include <internal/pycore_stackref.h>
#endif
#undef Py_BUILD_CORE

namespace gramme::cpython {

/// The order in which an instruction drops its operands.
enum class DropOrder : uint8_t { LowFirst, TopFirst };
inline constexpr DropOrder kDropOrder = GRAMME_PYTHON_TAGGED_SLOTS ? DropOrder::TopFirst : DropOrder::LowFirst;
inline constexpr DropOrder kBinaryDropOrder = GRAMME_PYTHON_BINARY_DROPS_LEFT ? DropOrder::LowFirst : kDropOrder;

enum class SlotKind : uint8_t { Empty, Owned, Borrowed, Index };  // immortal objects look borrowed

#if GRAMME_PYTHON_TAGGED_SLOTS
/// Represents an instruction index where slots are read and written as objects: reading a slot with an index returns
/// this object, writing the object stores the index. No program sees it. One immortal object for each index.
struct IndexObject {
  PyObject head;
  int unit;
  static PyTypeObject type;
  static IndexObject* of(int unit);
  static int unit_of(PyObject* index);  // out of line: GCC would see a read past the end of None
};
#endif

/// The object for an instruction index: a new reference, or null with an error set.
inline PyObject* new_index(int unit) {
#if GRAMME_PYTHON_TAGGED_SLOTS
  return &IndexObject::of(unit)->head;
#else
  return PyLong_FromLong(unit);
#endif
}

/// One slot of locals or stack. Copying it copies the word; the frame is responsible for ownership.
class Slot {
 public:
#if GRAMME_PYTHON_TAGGED_SLOTS
  using Word = _PyStackRef;
  static Word own(PyObject* owned) {
    if (!owned) return PyStackRef_NULL;
    if (Py_IS_TYPE(owned, &IndexObject::type)) [[unlikely]]
      return index(IndexObject::unit_of(owned));
    return PyStackRef_FromPyObjectSteal(owned);
  }
  static Word index(int unit) { return PyStackRef_TagInt(unit); }
  static PyObject* read(Word word) {
    return PyStackRef_IsNullOrInt(word) ? without_object(word) : PyStackRef_AsPyObjectBorrow(word);
  }
  static SlotKind kind(Word word) {
    if (PyStackRef_IsNull(word)) return SlotKind::Empty;
    if (PyStackRef_IsTaggedInt(word)) return SlotKind::Index;
    return PyStackRef_RefcountOnObject(word) ? SlotKind::Owned : SlotKind::Borrowed;
  }
  static void drop(Word word) { PyStackRef_XCLOSE(word); }  // an index has no reference count
  static Word make_safe(Word word) { return PyStackRef_MakeHeapSafe(word); }
  static Word lend(Word word) { return PyStackRef_Borrow(word); }
  static PyObject* take(Word word) {
    return PyStackRef_IsNullOrInt(word) ? without_object(word) : PyStackRef_AsPyObjectSteal(word);
  }

 private:
  static PyObject* without_object(Word word) {
    return PyStackRef_IsNull(word) ? nullptr : &IndexObject::of(static_cast<int>(PyStackRef_UntagInt(word)))->head;
  }
#else
  using Word = PyObject*;
  static Word own(PyObject* owned) { return owned; }
  static Word index(int unit) { return PyLong_FromLong(unit); }
  static PyObject* read(Word word) { return word; }
  static SlotKind kind(Word word) { return word ? SlotKind::Owned : SlotKind::Empty; }
  static void drop(Word word) { Py_XDECREF(word); }
  static Word make_safe(Word word) { return word; }
  static Word lend(Word word) { return Py_XNewRef(word); }
  static PyObject* take(Word word) { return word; }
#endif
};

/// A frame's fields by name. Copies refer to the same frame. The value stack is exact while C++ runs the frame.
class FrameImage {
 public:
  explicit FrameImage(_PyInterpreterFrame* frame) : frame_(frame) {}

  PyCodeObject* code() const {
#if GRAMME_PYTHON_TAGGED_SLOTS
    return reinterpret_cast<PyCodeObject*>(PyStackRef_AsPyObjectBorrow(frame_->f_executable));
#elif GRAMME_PYTHON_INSTR_PTR
    return reinterpret_cast<PyCodeObject*>(frame_->f_executable);
#else
    return frame_->f_code;
#endif
  }
  PyFunctionObject* function() const {
#if GRAMME_PYTHON_TAGGED_SLOTS
    return reinterpret_cast<PyFunctionObject*>(PyStackRef_AsPyObjectBorrow(frame_->f_funcobj));
#elif GRAMME_PYTHON_FOREIGN_FRAMES
    return reinterpret_cast<PyFunctionObject*>(frame_->f_funcobj);
#else
    return frame_->f_func;
#endif
  }
  PyObject* globals() const { return frame_->f_globals; }
  PyObject* builtins() const { return frame_->f_builtins; }
  /// Replaces the frame's function, which may be null.
  void set_function(PyFunctionObject* function) const {
    PyObject* object = Py_NewRef(reinterpret_cast<PyObject*>(function));
#if GRAMME_PYTHON_TAGGED_SLOTS
    PyStackRef_XCLOSE(std::exchange(frame_->f_funcobj, PyStackRef_FromPyObjectSteal(object)));
#elif GRAMME_PYTHON_FOREIGN_FRAMES
    Py_XDECREF(std::exchange(frame_->f_funcobj, object));
#else
    Py_XDECREF(std::exchange(frame_->f_func, reinterpret_cast<PyFunctionObject*>(object)));
#endif
  }
#if !GRAMME_PYTHON_GENERATOR_CODE
  /// For a generator that has no frame yet.
  void set_code(PyCodeObject* code) const {
#if GRAMME_PYTHON_TAGGED_SLOTS
    frame_->f_executable = PyStackRef_FromPyObjectNew(reinterpret_cast<PyObject*>(code));
#elif GRAMME_PYTHON_INSTR_PTR
    frame_->f_executable = Py_NewRef(reinterpret_cast<PyObject*>(code));
#else
    frame_->f_code = reinterpret_cast<PyCodeObject*>(Py_NewRef(reinterpret_cast<PyObject*>(code)));
#endif
  }
#endif
  /// Initialises a generator's memory, which already has the code, as its frame. On 3.11 the locals are left unwritten.
  void begin(PyFunctionObject* function, PyCodeObject* code) const {
    Py_INCREF(function);
#if GRAMME_PYTHON_TAGGED_SLOTS
    const _PyStackRef before = frame_->f_executable;
    _PyFrame_Initialize(PyThreadState_Get(), frame_,
                        PyStackRef_FromPyObjectSteal(reinterpret_cast<PyObject*>(function)), nullptr, code, 0, nullptr);
    PyStackRef_CLOSE(before);
#elif GRAMME_PYTHON_FOREIGN_FRAMES
    Py_DECREF(code);  // the frame takes its own reference
    _PyFrame_Initialize(frame_, function, nullptr, code, 0);
#else
    _PyFrame_InitializeSpecials(frame_, function, nullptr, code->co_nlocalsplus);
#endif
    frame_->previous = nullptr;
    frame_->owner = FRAME_OWNED_BY_GENERATOR;
  }
  /// The namespace of a class body or module, null in functions.
  PyObject* namespace_object() const { return frame_->f_locals; }

  /// Makes each slot own its reference. Needed before the first write to a frame that CPython has run.
  void make_safe() const {
#if GRAMME_PYTHON_TAGGED_SLOTS
    frame_->f_executable = Slot::make_safe(frame_->f_executable);
    frame_->f_funcobj = Slot::make_safe(frame_->f_funcobj);
    for (Slot::Word* slot = frame_->localsplus; slot < frame_->stackpointer; ++slot) *slot = Slot::make_safe(*slot);
#endif
  }

  // ---- localsplus: locals, cells, free variables

  int local_count() const { return code()->co_nlocalsplus; }
  /// Borrowed; null where unbound.
  PyObject* local(int slot) const { return Slot::read(frame_->localsplus[slot]); }
  SlotKind local_kind(int slot) const { return Slot::kind(frame_->localsplus[slot]); }
  /// Replaces a slot by an owned reference (or null) and drops what was there.
  void set_local(int slot, PyObject* owned) const { Slot::drop(exchange(slot, owned)); }
  /// The same, but returns what was there as a new reference.
  PyObject* exchange_local(int slot, PyObject* owned) const { return Slot::take(exchange(slot, owned)); }

  // ---- the value stack; an item at depth n: 1 is the top

  int depth() const {
#if GRAMME_PYTHON_TAGGED_SLOTS
    return static_cast<int>(frame_->stackpointer - stack());
#else
    return frame_->stacktop - local_count();
#endif
  }
  PyObject* item(int n = 1) const { return Slot::read(top(n)); }
  SlotKind item_kind(int n = 1) const { return Slot::kind(top(n)); }
  void push(PyObject* owned) const { push_word(Slot::own(owned)); }
  /// The instruction index at depth n, as handlers keep it; -1 if there is none.
  int index_at(int n) const {
#if GRAMME_PYTHON_TAGGED_SLOTS
    return item_kind(n) == SlotKind::Index ? static_cast<int>(PyStackRef_UntagInt(top(n))) : -1;
#else
    return item(n) && PyLong_Check(item(n)) ? static_cast<int>(PyLong_AsLong(item(n))) : -1;
#endif
  }
  /// Pushes the index that handlers with `lasti` expect below the exception. False: no memory, MemoryError is set.
  bool push_index(int unit) const {
    const Slot::Word word = Slot::index(unit);
    if (Slot::kind(word) == SlotKind::Empty) return false;
    push_word(word);
    return true;
  }
  /// Pushes a local's object, borrowed where CPython's compiler would borrow it.
  void push_lent(int slot) const { push_word(Slot::lend(frame_->localsplus[slot])); }
  /// Pops the top item as a new reference; null if it is empty.
  PyObject* pop() const { return Slot::take(pop_word()); }
  /// Replaces an item by an owned reference (or null), and drops it.
  void set_item(int n, PyObject* owned) const { Slot::drop(std::exchange(top(n), Slot::own(owned))); }
  void swap(int n) const { std::swap(top(), top(n)); }
  /// Pushes a copy of an item, with the same kind of reference.
  void copy(int n) const {
#if GRAMME_PYTHON_TAGGED_SLOTS
    push_word(Slot::kind(top(n)) == SlotKind::Owned ? PyStackRef_DUP(top(n)) : top(n));
#else
    push_word(Py_XNewRef(top(n)));
#endif
  }
  /// Drops the top items, the topmost first, as unwinding does.
  void drop(int count) const {
    for (; count > 0; --count) Slot::drop(pop_word());
  }
#if GRAMME_PYTHON_TAGGED_SLOTS
  /// Drops the top items in the instruction's order, which finalizers can observe; each dies while the others are still
  /// on the stack.
  void drop_operands(int count, DropOrder order = kDropOrder) const {
    for (int k = 0; k < count; ++k) set_item(order == DropOrder::LowFirst ? count - k : k + 1, nullptr);
    drop(count);
  }
  /// Replaces the top items by an owned reference. If the lowest dies first, the reference takes its slot before that.
  void replace(int count, PyObject* owned, DropOrder order = kDropOrder) const {
    if (order == DropOrder::TopFirst) {
      drop_operands(count, order);
      return push(owned);
    }
    set_item(count, owned);
    for (int n = count - 1; n > 0; --n) set_item(n, nullptr);
    drop(count - 1);
  }
#else
  /// Drops the top items, the lowest first, which finalizers can observe.
  void drop_operands(int count, DropOrder = kDropOrder) const {
    PyObject* const* operands = &top(count);
    frame_->stacktop -= count;
    for (int i = 0; i < count; ++i) Py_XDECREF(operands[i]);
  }
  /// Replaces the top items by an owned reference.
  void replace(int count, PyObject* owned, DropOrder = kDropOrder) const {
    drop_operands(count);
    push(owned);
  }
#endif
  /// Pushes items of an iterable that is not on the stack, the first one highest: `before` of them and, unless `after`
  /// is -1, a list of the rest and the last `after`. False with an error set; nothing is pushed then.
  bool unpack(PyThreadState* thread, PyObject* iterable, int before, int after) const;
#if GRAMME_PYTHON_ITERATOR_PAIRS
  /// Replaces the top item by the iterator pair of a loop, or of a `yield from` of that kind. False with an error set.
  bool get_iter(int kind) const;
  /// Pushes the next item of the pair on top and returns 1; 0 at its end; -1 with an error set.
  int push_next(PyThreadState* thread) const;
#endif
#if GRAMME_PYTHON_SPECIAL_METHODS
  /// Replaces the top item by a method of its class, looked up as `with` does, and itself or NULL. Returns 1; 0 if
  /// there is none; -1 with an error set.
  int load_special(PyObject* name) const;
#endif
#if GRAMME_PYTHON_MOVES_ARGUMENTS
  /// Calls as the evaluator does: the new frame takes over the function at depth `bottom` and `count` arguments below
  /// `above` other items; `names` (or null) names the last of them. A new reference, or null with an error set.
  PyObject* call_moved(PyThreadState* thread, int bottom, int count, int above, PyObject* names) const;
#endif

  // ---- the frame's position

  /// Code unit of the instruction to run next: the first EXTENDED_ARG if it has one.
  void set_next(int unit) const {
#if GRAMME_PYTHON_INSTR_PTR
    frame_->instr_ptr = _PyCode_CODE(code()) + unit;
#else
    set_current(unit - 1);
#endif
  }
  int next() const {
#if GRAMME_PYTHON_INSTR_PTR
    return current();
#else
    return current() + 1;
#endif
  }
  /// The code unit for tracebacks and line numbers: the running instruction, after its EXTENDED_ARGs.
  int current() const {
#if GRAMME_PYTHON_INSTR_PTR
    return static_cast<int>(frame_->instr_ptr - _PyCode_CODE(code()));
#else
    return static_cast<int>(frame_->prev_instr - _PyCode_CODE(code()));
#endif
  }
  void set_current(int unit) const {
#if GRAMME_PYTHON_INSTR_PTR
    frame_->instr_ptr = _PyCode_CODE(code()) + unit;
#else
    frame_->prev_instr = _PyCode_CODE(code()) + unit;
#endif
  }
  /// The code unit by which handlers of a suspended generator are looked up: the one before that where it resumes.
  int suspended_at() const { return next() - 1; }
  bool of_function() const { return frame_->owner == FRAME_OWNED_BY_THREAD; }
  bool of_generator() const { return frame_->owner == FRAME_OWNED_BY_GENERATOR; }
  _PyInterpreterFrame* raw() const { return frame_; }
#if !GRAMME_PYTHON_TAGGED_SLOTS
  /// The frame's size in bytes up to the top of the stack.
  size_t size() const {
    return reinterpret_cast<char*>(&frame_->localsplus[frame_->stacktop]) - reinterpret_cast<char*>(frame_);
  }
#endif

 private:
  friend class SlotObjects;
  friend class OperandArray;

  Slot::Word* stack() const { return frame_->localsplus + local_count(); }
#if GRAMME_PYTHON_TAGGED_SLOTS
  Slot::Word& top(int n = 1) const { return frame_->stackpointer[-n]; }
  void push_word(Slot::Word word) const { *frame_->stackpointer++ = word; }
  Slot::Word pop_word() const { return *--frame_->stackpointer; }
#else
  Slot::Word& top(int n = 1) const { return frame_->localsplus[frame_->stacktop - n]; }
  void push_word(Slot::Word word) const { frame_->localsplus[frame_->stacktop++] = word; }
  Slot::Word pop_word() const { return frame_->localsplus[--frame_->stacktop]; }
#endif
  Slot::Word exchange(int slot, PyObject* owned) const {
    return std::exchange(frame_->localsplus[slot], Slot::own(owned));
  }

  _PyInterpreterFrame* frame_;
};

/// The objects in a frame's slots, borrowed; null for an empty one. Valid while the frame is unchanged and until the
/// next use. If slots are plain pointers, these are the slots themselves, without a copy.
class SlotObjects {
 public:
  struct View {
    PyObject* const* locals;  // local_count() entries
    PyObject* const* stack;   // depth() entries, the lowest first
  };
#if GRAMME_PYTHON_TAGGED_SLOTS
  View of(FrameImage frame) {
    const int locals = frame.local_count();
    objects_.resize(static_cast<size_t>(locals + frame.depth()));
    for (size_t i = 0; i < objects_.size(); ++i) objects_[i] = Slot::read(frame.frame_->localsplus[i]);
    return {objects_.data(), objects_.data() + locals};
  }

 private:
  std::vector<PyObject*> objects_;
#else
  static View of(FrameImage frame) { return {frame.frame_->localsplus, frame.stack()}; }
#endif
};

/// Items of a frame's stack below `above` others as an array of objects, with a writable place before it. If slots are
/// plain pointers, these are the slots, and the place before is the item below.
class OperandArray {
 public:
#if GRAMME_PYTHON_TAGGED_SLOTS
  OperandArray(FrameImage frame, int count, int above = 0) : objects_(static_cast<size_t>(count) + 1) {
    for (int i = 0; i < count; ++i) objects_[static_cast<size_t>(i) + 1] = frame.item(above + count - i);
  }
  PyObject** get() { return objects_.data() + 1; }

 private:
  std::vector<PyObject*> objects_;
#else
  OperandArray(FrameImage frame, int count, int above = 0) : first_(&frame.top(above + count)) {}
  PyObject** get() { return first_; }

 private:
  PyObject** first_;
#endif
};

/// The thread's current frame; null if there is none.
inline _PyInterpreterFrame* current_frame(PyThreadState* thread) {
#if GRAMME_PYTHON_CFRAME
  return thread->cframe->current_frame;
#else
  return thread->current_frame;
#endif
}
inline void set_current_frame(PyThreadState* thread, _PyInterpreterFrame* frame) {
#if GRAMME_PYTHON_CFRAME
  thread->cframe->current_frame = frame;
#else
  thread->current_frame = frame;
#endif
}

}  // namespace gramme::cpython
