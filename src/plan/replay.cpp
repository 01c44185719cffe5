// One short function for each kind of operation, and the loop that runs them.
#include "plan/replay.h"

#include <structmember.h>

#include <algorithm>
#include <iterator>

#include "base/imported.h"
#include "base/once.h"
#include "base/signals.h"
#include "cpython/objects.h"
#include "torch/names.h"

namespace gramme::plan {

namespace {

/// One run of a replay program. Functions return false (or null) with a Python error set if a step failed.
class Run {
 public:
  Run(const Replay& replay, PyObject** registers) : replay_(replay), r_(registers) {}
  bool step(const ReplayOp& op);

 private:
  Borrowed<> at(Register r) const { return r == kNull ? nullptr : r_[r]; }
  Borrowed<> operand(const ReplayOp& op, int i) const { return at(replay_.operands[op.first + i]); }
  bool put(const ReplayOp& op, PyObject* made) const {
    r_[op.dst] = made;
    return made != nullptr;
  }
  Owned<> operand_tuple(const ReplayOp& op) const;
  Owned<> operand_list(const ReplayOp& op) const;
  bool call_for_effect(PyObject* result) const {
    Py_XDECREF(result);  // counts by hand: drops the result of a call made for its effect
    return result != nullptr;
  }

  /// Makes the object of an operation of this kind; new reference.
  template <ReplayKind kind>
  PyObject* make(const ReplayOp& op) const = delete;
  template <ReplayKind kind>
  bool does(const ReplayOp& op) const = delete;
  PyObject* called(const ReplayOp& op) const;
  bool store_own(const ReplayOp& op, PyObject* value) const;

  const Replay& replay_;
  PyObject** r_;
};

#define MAKE(kind) \
  template <>      \
  PyObject* Run::make<ReplayKind::kind>([[maybe_unused]] const ReplayOp& op) const
#define DOES(kind) \
  template <>      \
  bool Run::does<ReplayKind::kind>([[maybe_unused]] const ReplayOp& op) const

PyObject* imported(const char* module, const char* name) {
  Owned<> found = Owned<>::steal(import_module(module));
  return found ? PyObject_GetAttrString(found.get(), name) : nullptr;
}

Owned<> Run::operand_tuple(const ReplayOp& op) const {
  Owned<> tuple = Owned<>::steal(PyTuple_New(op.count));
  for (int i = 0; tuple && i < op.count; ++i) PyTuple_SET_ITEM(tuple.get(), i, share(operand(op, i)).release());
  if (tuple) cpython::track_as_built(tuple.get());
  return tuple;
}

Owned<> Run::operand_list(const ReplayOp& op) const {
  Owned<> list = Owned<>::steal(PyList_New(op.count));
  for (int i = 0; list && i < op.count; ++i) PyList_SET_ITEM(list.get(), i, share(operand(op, i)).release());
  return list;
}

// ---- containers

/// Also tuple subclasses without other state: namedtuples by tuple.__new__, torch.Size and structure sequences by their
/// constructors.
MAKE(MakeTuple) {
  Owned<> plain = operand_tuple(op);
  if (!op.object || !plain) return plain.release();
  auto* type = reinterpret_cast<PyTypeObject*>(op.object.get());
  bool python_class =
      type->tp_flags & Py_TPFLAGS_HEAPTYPE && !PyObject_HasAttrString(op.object.get(), "n_sequence_fields");
  if (!python_class && type->tp_new != PyTuple_Type.tp_new) return PyObject_CallOneArg(op.object.get(), plain.get());
  Owned<> args = Owned<>::steal(PyTuple_Pack(1, plain.get()));
  return args ? PyTuple_Type.tp_new(type, args.get(), nullptr) : nullptr;
}
MAKE(MakeList) { return PyList_New(0); }
DOES(FillList) {
  Borrowed<> list = at(op.a);
  if (op.count == 0 && PyList_GET_SIZE(list) == 0)
    return PyList_Append(list, Py_None) == 0 && PyList_SetSlice(list, 0, 1, nullptr) == 0;
  for (int i = 0; i < op.count; ++i)
    if (PyList_Append(list, operand(op, i)) < 0) return false;
  return true;
}
MAKE(MakeDict) { return op.object ? PyObject_CallNoArgs(op.object.get()) : PyDict_New(); }
MAKE(MakeDefaultDict) {
  PyObject* const type = once([] { return imported("collections", "defaultdict"); });
  return PyObject_CallOneArg(type, at(op.a));
}
DOES(FillDict) {
  Borrowed<> dict = at(op.a);
  bool ordered = PyODict_Check(dict);
  for (int i = 0; i < op.count; i += 2) {
    int status = ordered ? PyODict_SetItem(dict, operand(op, i), operand(op, i + 1))
                         : PyDict_SetItem(dict, operand(op, i), operand(op, i + 1));
    if (status < 0) return false;
  }
  return true;
}
MAKE(MakeSet) { return PySet_New(nullptr); }
DOES(FillSet) {
  for (int i = 0; i < op.count; ++i)
    if (PySet_Add(at(op.a), operand(op, i)) < 0) return false;
  return true;
}
MAKE(CopySet) {
  Owned<> copy = Owned<>::steal(op.number ? PyFrozenSet_New(nullptr) : PySet_New(nullptr));
  return copy && cpython::place_members(copy.get(), op.object.get()) ? copy.release() : nullptr;
}
DOES(PlaceMembers) { return cpython::place_members(at(op.a), op.object.get()); }
MAKE(MakeFrozenSet) {
  Owned<> items = operand_tuple(op);
  return items ? PyFrozenSet_New(items.get()) : nullptr;
}
MAKE(MakeDeque) {
  PyObject* const deque = once([] { return imported("collections", "deque"); });
  Owned<> none = Owned<>::steal(PyTuple_New(0));
  return none ? PyObject_CallFunctionObjArgs(deque, none.get(), at(op.a), nullptr) : nullptr;
}
DOES(FillDeque) {
  Owned<> items = operand_list(op);
  return items && call_for_effect(PyObject_CallMethod(at(op.a), "extend", "O", items.get()));
}
MAKE(MakeSlice) { return PySlice_New(at(op.a), at(op.b), at(op.c)); }

// ---- functions and objects

MAKE(MakeCell) { return PyCell_New(nullptr); }
MAKE(MakeFunction) {
  Owned<> made = Owned<>::steal(PyFunction_NewWithQualName(op.object.get(), at(op.a), operand(op, 1)));
  if (!made) return nullptr;
  auto* function = reinterpret_cast<PyFunctionObject*>(made.get());
  auto assign = [](PyObject*& slot, Borrowed<> value) {
    Owned<> old = Owned<>::steal(slot);
    slot = share(value).release();
  };
  assign(function->func_name, operand(op, 0));
  if (operand(op, 2)) assign(function->func_defaults, operand(op, 2));
  if (operand(op, 3)) assign(function->func_kwdefaults, operand(op, 3));
  if (operand(op, 4)) assign(function->func_annotations, operand(op, 4));
  if (operand(op, 5)) assign(function->func_closure, operand(op, 5));
#if GRAMME_PYTHON_ANNOTATE
  if (operand(op, 6)) assign(function->func_annotate, operand(op, 6));
#endif
  return made.release();
}
MAKE(MakeMethod) { return PyMethod_New(at(op.a), at(op.b)); }
MAKE(MakePartial) {
  PyObject* const type = once([] { return imported("functools", "partial"); });
  Owned<> function = Owned<>::steal(PyTuple_Pack(1, at(op.a)));
  Owned<> args = function ? Owned<>::steal(PySequence_Concat(function.get(), at(op.b))) : Owned<>();
  return args ? PyObject_Call(type, args.get(), at(op.c)) : nullptr;
}
MAKE(MakeClass) {
  return cpython::make_type(reinterpret_cast<PyTypeObject*>(op.object.get()), at(op.a), at(op.b), at(op.c));
}

/// The builtin container type whose tp_new makes instances of the type; object if there is none.
PyTypeObject* container_base(PyTypeObject* type) {
  for (PyTypeObject* candidate : {&PyODict_Type, &PyDict_Type, &PyList_Type, &PySet_Type})
    if (PyType_IsSubtype(type, candidate)) return candidate;
  return &PyBaseObject_Type;
}

MAKE(MakeObject) {
  auto* type = reinterpret_cast<PyTypeObject*>(op.object ? op.object.get() : at(op.a));
  Owned<> args = operand_tuple(op);
  if (!args) return nullptr;
  PyTypeObject* base = type;
  while (base->tp_flags & Py_TPFLAGS_HEAPTYPE) base = base->tp_base;
  if (PyType_FastSubclass(type, Py_TPFLAGS_BASE_EXC_SUBCLASS)) {
    Owned<> made = Owned<>::steal(base->tp_new(type, args.get(), nullptr));
    if (made && base->tp_init(made.get(), args.get(), nullptr) < 0) return nullptr;
    return made.release();
  }
  if (base != &PyBaseObject_Type) base = container_base(type);
  return base->tp_new(type, args.get(), nullptr);
}

PyObject* Run::called(const ReplayOp& op) const {
  const SignalsHeld held;  // signal handlers must not see a half-done replay
  Owned<> args = operand_tuple(op);
  return args ? PyObject_Call(op.object.get(), args.get(), nullptr) : nullptr;
}
MAKE(CallConstant) { return called(op); }
MAKE(CallEffect) { return called(op); }

// ---- effects

DOES(StoreAttr) { return PyObject_GenericSetAttr(at(op.a), op.object.get(), at(op.b)) == 0; }
DOES(DeleteAttr) { return PyObject_GenericSetAttr(at(op.a), op.object.get(), nullptr) == 0; }
DOES(StoreSlot) { return Py_TYPE(op.object.get())->tp_descr_set(op.object.get(), at(op.a), at(op.b)) == 0; }

/// Null deletes.
bool Run::store_own(const ReplayOp& op, PyObject* value) const {
  Owned<> dict = Owned<>::steal(PyObject_GenericGetDict(at(op.a), nullptr));
  if (!dict) return false;
  return (value ? PyDict_SetItem(dict.get(), op.object.get(), value) : PyDict_DelItem(dict.get(), op.object.get())) ==
         0;
}
DOES(StoreOwn) { return store_own(op, at(op.b)); }
DOES(DeleteOwn) { return store_own(op, nullptr); }
DOES(StoreTypeAttr) { return PyType_Type.tp_setattro(at(op.a), op.object.get(), at(op.b)) == 0; }
DOES(StoreDict) {
  return (PyODict_Check(at(op.a)) ? PyODict_SetItem(at(op.a), at(op.b), at(op.c))
                                  : PyDict_SetItem(at(op.a), at(op.b), at(op.c))) == 0;
}
DOES(DeleteDict) { return PyDict_DelItem(at(op.a), at(op.b)) == 0; }
DOES(StoreItem) { return PySequence_SetItem(at(op.a), static_cast<Py_ssize_t>(op.number), at(op.b)) == 0; }
DOES(AssignList) {
  Owned<> items = operand_list(op);
  return items && PyList_SetSlice(at(op.a), 0, PyList_GET_SIZE(at(op.a)), items.get()) == 0;
}
DOES(AssignDict) {
  Borrowed<> dict = at(op.a);
  if (!PyODict_Check(dict)) {
    PyDict_Clear(dict);
    return does<ReplayKind::FillDict>(op);
  }
  PyObject* const clear = once([] { return imported("collections", "OrderedDict"); });
  return call_for_effect(PyObject_CallMethod(clear, "clear", "O", dict)) && does<ReplayKind::FillDict>(op);
}

/// Members that stay keep their place in the table, on which iteration order depends.
DOES(AssignSet) {
  Owned<> wanted = Owned<>::steal(PySet_New(nullptr));
  for (int i = 0; wanted && i < op.count; ++i)
    if (PySet_Add(wanted.get(), operand(op, i)) < 0) return false;
  return wanted && call_for_effect(PyObject_CallMethod(at(op.a), "intersection_update", "O", wanted.get())) &&
         does<ReplayKind::FillSet>(op);
}

/// Uses deque's own methods, ignoring overrides of a subclass.
DOES(AssignDeque) {
  PyObject* const type = once([] { return imported("collections", "deque"); });
  Owned<> items = operand_list(op);
  return items && call_for_effect(PyObject_CallMethod(type, "clear", "O", at(op.a))) &&
         call_for_effect(PyObject_CallMethod(type, "extend", "OO", at(op.a), items.get()));
}
DOES(StoreCell) { return PyCell_Set(at(op.a), at(op.b)) == 0; }
DOES(SetGradMode) {
  PyObject* const setter = of_torch::object(of_torch::SetGradEnabled);
  return call_for_effect(PyObject_CallOneArg(setter, op.number ? Py_True : Py_False));
}

#undef MAKE
#undef DOES

// By the column of replay.def.
#define BY_Made(name) put(op, make<ReplayKind::name>(op))
#define BY_Done(name) does<ReplayKind::name>(op)

bool Run::step(const ReplayOp& op) {
  switch (op.kind) {
#define REPLAY(name, gives, takes, operands, text) \
  case ReplayKind::name:                           \
    return BY_##gives(name);
#include "plan/replay.def"
#undef REPLAY
  }
  return false;
}

enum class Gives : uint8_t { Made, Done };

struct Row {
  Gives gives;
  uint8_t takes;
};

constexpr Row kRows[] = {
#define REPLAY(name, gives, takes, operands, text) {Gives::gives, takes},
#include "plan/replay.def"
#undef REPLAY
};

}  // namespace

const char* kind_name(ReplayKind kind) {
  constexpr const char* kNames[] = {
#define REPLAY(name, ...) #name,
#include "plan/replay.def"
#undef REPLAY
  };
  return kNames[static_cast<int>(kind)];
}

const char* what_is_missing(const ReplayOp& op, const std::vector<Register>& operands) {
  const Row& row = kRows[static_cast<size_t>(op.kind)];
  if ((op.dst != kNull) != (row.gives == Gives::Made)) return "a register for what it gives";
  if ((row.takes & kA) && op.a == kNull) return "operand a";
  if ((row.takes & kB) && op.b == kNull) return "operand b";
  if ((row.takes & kC) && op.c == kNull) return "operand c";
  if ((row.takes & kObject) && !op.object) return "its object";
  if ((row.takes & kAOrObject) && !op.object && op.a == kNull) return "its object";
  if ((row.takes & kPairs) && op.count % 2 != 0) return "an operand of a pair";
  const auto first = operands.begin() + op.first;
  const bool complete = (row.takes & kHoles) || std::find(first, first + op.count, kNull) == first + op.count;
  return complete ? nullptr : "one of its operands";
}

bool Replay::run(PyObject** registers, size_t count) const {
  Run run(*this, registers);
  for (size_t i = 0; i < count; ++i)
    if (!run.step(ops[i])) return false;
  return true;
}

}  // namespace gramme::plan
