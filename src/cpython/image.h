// A live frame of CPython 3.11 to 3.15 through one set of accessors. Nothing else knows where a field lies, which way
// an instruction pointer counts, or that a slot may hold a reference that is not its own.
//
// A slot holds (SlotKind): nothing, a reference of its own, a reference of somebody else's, or an instruction index.
// With 3.14 an item of the value stack may borrow from a local of the same frame, and an argument from the stack of the
// frame that called. CPython's compiler sees to it that no lender is written while it lends, so instructions are
// carried out as it compiled them; whoever writes a frame otherwise makes it safe first, and those that it called: then
// each slot has a reference of its own.
#pragma once
#include <utility>
#include <vector>

#include "cpython/features.h"

#undef HAVE_STD_ATOMIC          // <stdatomic.h> of C; the builtin atomics have the same layout
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

/// In which order an instruction lets go of its operands.
enum class DropOrder : uint8_t { LowFirst, TopFirst };
inline constexpr DropOrder kDropOrder = GRAMME_PYTHON_TAGGED_SLOTS ? DropOrder::TopFirst : DropOrder::LowFirst;
inline constexpr DropOrder kBinaryDropOrder = GRAMME_PYTHON_BINARY_DROPS_LEFT ? DropOrder::LowFirst : kDropOrder;

enum class SlotKind : uint8_t { Empty, Owned, Borrowed, Index };  // immortal objects look borrowed

#if GRAMME_PYTHON_TAGGED_SLOTS
/// What an instruction index is where slots are read and written as objects: a slot with an index reads as its object,
/// and a slot that the object is written into gets the index. No program sees it. One for each index, immortal.
struct IndexObject {
  PyObject head;
  int unit;
  static PyTypeObject type;
  static IndexObject* of(int unit);
  static int unit_of(PyObject* index);  // out of line: GCC would see a read past the end of None
};
#endif

/// An instruction index as slots are read: a new reference, or null with an error set.
inline PyObject* new_index(int unit) {
#if GRAMME_PYTHON_TAGGED_SLOTS
  return &IndexObject::of(unit)->head;
#else
  return PyLong_FromLong(unit);
#endif
}

/// One slot of locals or stack. Copies are the same word; who owns what is the frame's affair.
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
  static void drop(Word word) { PyStackRef_XCLOSE(word); }  // an index counts nothing
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

/// The frame's fields by name. Copies are the same frame. The value stack is exact while C++ runs the frame.
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
  /// Drops the function that the frame has, which may be no object yet.
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
  /// The memory of a generator, which has the code already, becomes its frame. On 3.11 its locals are not written.
  void begin(PyFunctionObject* function, PyCodeObject* code) const {
    Py_INCREF(function);
#if GRAMME_PYTHON_TAGGED_SLOTS
    const _PyStackRef before = frame_->f_executable;
    _PyFrame_Initialize(PyThreadState_Get(), frame_,
                        PyStackRef_FromPyObjectSteal(reinterpret_cast<PyObject*>(function)), nullptr, code, 0, nullptr);
    PyStackRef_CLOSE(before);
#elif GRAMME_PYTHON_FOREIGN_FRAMES
    Py_DECREF(code);  // it is held anew
    _PyFrame_Initialize(frame_, function, nullptr, code, 0);
#else
    _PyFrame_InitializeSpecials(frame_, function, nullptr, code->co_nlocalsplus);
#endif
    frame_->previous = nullptr;
    frame_->owner = FRAME_OWNED_BY_GENERATOR;
  }
  /// The namespace of a class body or module, null in functions.
  PyObject* namespace_object() const { return frame_->f_locals; }

  /// Each slot gets a reference of its own. Before the first write of a frame that somebody else has run.
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
  /// The same, but what was there becomes a reference of the caller's.
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
  /// What handlers with `lasti` find below the exception. False: no memory, MemoryError is set.
  bool push_index(int unit) const {
    const Slot::Word word = Slot::index(unit);
    if (Slot::kind(word) == SlotKind::Empty) return false;
    push_word(word);
    return true;
  }
  /// What a local holds, without a reference where CPython's compiler would load it so.
  void push_lent(int slot) const { push_word(Slot::lend(frame_->localsplus[slot])); }
  /// Takes the top item over: a reference of the caller's, null for an empty one.
  PyObject* pop() const { return Slot::take(pop_word()); }
  /// An item gives way to an owned reference (or null), and is dropped.
  void set_item(int n, PyObject* owned) const { Slot::drop(std::exchange(top(n), Slot::own(owned))); }
  void swap(int n) const { std::swap(top(), top(n)); }
  /// One more of the same kind on top.
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
  /// Drops the top items in the order of the instruction (finalizers show it); each dies while the others are still on
  /// the stack.
  void drop_operands(int count, DropOrder order = kDropOrder) const {
    for (int k = 0; k < count; ++k) set_item(order == DropOrder::LowFirst ? count - k : k + 1, nullptr);
    drop(count);
  }
  /// They give way to an owned reference. Where the lowest dies first, that has its place before.
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
  /// Drops the top items, the lowest first (finalizers show it).
  void drop_operands(int count, DropOrder = kDropOrder) const {
    PyObject* const* operands = &top(count);
    frame_->stacktop -= count;
    for (int i = 0; i < count; ++i) Py_XDECREF(operands[i]);
  }
  /// They give way to an owned reference.
  void replace(int count, PyObject* owned, DropOrder = kDropOrder) const {
    drop_operands(count);
    push(owned);
  }
#endif
  /// The iterable, which is no item, gives items on top of the stack, the first one highest: `before` of them, and if
  /// `after` is not -1 a list of the rest and so many behind it. False with an error set: none is there.
  bool unpack(PyThreadState* thread, PyObject* iterable, int before, int after) const;
#if GRAMME_PYTHON_ITERATOR_PAIRS
  /// The top item gives way to what a loop, or `yield from` of that kind, goes through. False with an error set.
  bool get_iter(int kind) const;
  /// Pushes the next item of the pair on top: 1; 0 at its end; -1 with an error set.
  int push_next(PyThreadState* thread) const;
#endif
#if GRAMME_PYTHON_SPECIAL_METHODS
  /// The top item gives way to a method of its class, as `with` looks it up, and to itself or NULL. 1; 0 if there is
  /// none; -1 with an error set.
  int load_special(PyObject* name) const;
#endif
#if GRAMME_PYTHON_MOVES_ARGUMENTS
  /// A call as the evaluator makes it: the frame that begins takes over `count` items below `above` others, `names` of
  /// which (or null) name the last, and the function, which is at depth `bottom`. A new reference, or null with an
  /// error set.
  PyObject* call_moved(PyThreadState* thread, int bottom, int count, int above, PyObject* names) const;
#endif

  // ---- where it stands

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
  /// Code unit that tracebacks and line numbers speak of: the instruction being carried out, EXTENDED_ARG excluded.
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
  /// Where a generator's frame waits, as handlers are looked up: the instruction before the one where it goes on.
  int suspended_at() const { return next() - 1; }
  bool of_function() const { return frame_->owner == FRAME_OWNED_BY_THREAD; }
  bool of_generator() const { return frame_->owner == FRAME_OWNED_BY_GENERATOR; }
  _PyInterpreterFrame* raw() const { return frame_; }
#if !GRAMME_PYTHON_TAGGED_SLOTS
  /// Bytes of it, up to the top of the stack.
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

/// The objects in a frame's slots, borrowed: null for an empty one. Good as long as the frame is as it was, and until
/// the next question. Where a slot is a pointer they are the slots themselves, and nothing is copied.
class SlotObjects {
 public:
  struct View {
    PyObject* const* locals;  // local_count() of them
    PyObject* const* stack;   // depth() of them, the lowest first
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

/// The top items of a frame's stack below `above` others as an array of objects, with a place in front that may be
/// written. Where a slot is a pointer they are the slots, and the place in front is the item below.
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

/// The frame that the thread runs; null if there is none.
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
