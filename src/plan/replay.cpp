#include "plan/replay.h"

#include <structmember.h>

#include <iterator>

#include "base/imported.h"
#include "base/once.h"
#include "base/signals.h"
#include "cpython/objects.h"
#include "torch/names.h"

namespace gramme::plan {

namespace {

/// One run of a replay program. Every function returns false with a Python error set if a step failed.
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
    Py_XDECREF(result);  // counts by hand: the result of a call made for its effect
    return result != nullptr;
  }

  PyObject* make_tuple(const ReplayOp& op) const;
  PyObject* make_dict(const ReplayOp& op) const;
  PyObject* make_function(const ReplayOp& op) const;
  PyObject* make_object(const ReplayOp& op) const;
  PyObject* make_deque(const ReplayOp& op) const;
  bool fill_list(const ReplayOp& op) const;
  bool fill_dict(const ReplayOp& op) const;
  bool assign_dict(const ReplayOp& op) const;
  bool assign_deque(const ReplayOp& op) const;
  bool assign_set(const ReplayOp& op) const;
  bool set_grad(const ReplayOp& op) const;
  bool store_own(const ReplayOp& op) const;

  const Replay& replay_;
  PyObject** r_;
};

PyObject* imported(const char* module, const char* name) {
  Owned<> found = Owned<>::steal(import_module(module));
  return found ? PyObject_GetAttrString(found.get(), name) : nullptr;
}

Owned<> Run::operand_tuple(const ReplayOp& op) const {
  Owned<> tuple = Owned<>::steal(PyTuple_New(op.count));
  for (int i = 0; tuple && i < op.count; ++i) PyTuple_SET_ITEM(tuple.get(), i, share(operand(op, i)).release());
  return tuple;
}

Owned<> Run::operand_list(const ReplayOp& op) const {
  Owned<> list = Owned<>::steal(PyList_New(op.count));
  for (int i = 0; list && i < op.count; ++i) PyList_SET_ITEM(list.get(), i, share(operand(op, i)).release());
  return list;
}

/// Subclasses with items only: namedtuples by tuple.__new__, torch.Size and structure sequences by their own
/// constructor.
PyObject* Run::make_tuple(const ReplayOp& op) const {
  Owned<> plain = operand_tuple(op);
  if (!op.object || !plain) return plain.release();
  auto* type = reinterpret_cast<PyTypeObject*>(op.object.get());
  bool python_class =
      type->tp_flags & Py_TPFLAGS_HEAPTYPE && !PyObject_HasAttrString(op.object.get(), "n_sequence_fields");
  if (!python_class && type->tp_new != PyTuple_Type.tp_new) return PyObject_CallOneArg(op.object.get(), plain.get());
  Owned<> args = Owned<>::steal(PyTuple_Pack(1, plain.get()));
  return args ? PyTuple_Type.tp_new(type, args.get(), nullptr) : nullptr;
}

PyObject* Run::make_dict(const ReplayOp& op) const {
  return op.object ? PyObject_CallNoArgs(op.object.get()) : PyDict_New();
}

PyObject* Run::make_deque(const ReplayOp& op) const {
  PyObject* const deque = once([] { return imported("collections", "deque"); });
  Owned<> none = Owned<>::steal(PyTuple_New(0));
  return none ? PyObject_CallFunctionObjArgs(deque, none.get(), at(op.a), nullptr) : nullptr;
}

PyObject* Run::make_function(const ReplayOp& op) const {
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
  return made.release();
}

/// The container in C that allocates instances of the type; object if there is none.
PyTypeObject* container_base(PyTypeObject* type) {
  for (PyTypeObject* candidate : {&PyODict_Type, &PyDict_Type, &PyList_Type, &PySet_Type})
    if (PyType_IsSubtype(type, candidate)) return candidate;
  return &PyBaseObject_Type;
}

PyObject* Run::make_object(const ReplayOp& op) const {
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

bool Run::fill_list(const ReplayOp& op) const {
  Borrowed<> list = at(op.a);
  if (op.count == 0 && PyList_GET_SIZE(list) == 0)
    return PyList_Append(list, Py_None) == 0 && PyList_SetSlice(list, 0, 1, nullptr) == 0;
  for (int i = 0; i < op.count; ++i)
    if (PyList_Append(list, operand(op, i)) < 0) return false;
  return true;
}

bool Run::fill_dict(const ReplayOp& op) const {
  Borrowed<> dict = at(op.a);
  bool ordered = PyODict_Check(dict);
  for (int i = 0; i < op.count; i += 2) {
    int status = ordered ? PyODict_SetItem(dict, operand(op, i), operand(op, i + 1))
                         : PyDict_SetItem(dict, operand(op, i), operand(op, i + 1));
    if (status < 0) return false;
  }
  return true;
}

bool Run::assign_dict(const ReplayOp& op) const {
  Borrowed<> dict = at(op.a);
  if (!PyODict_Check(dict)) {
    PyDict_Clear(dict);
    return fill_dict(op);
  }
  PyObject* const clear = once([] { return imported("collections", "OrderedDict"); });
  return call_for_effect(PyObject_CallMethod(clear, "clear", "O", dict)) && fill_dict(op);
}

/// By deque's own methods, whatever a subclass makes of them.
bool Run::assign_deque(const ReplayOp& op) const {
  PyObject* const type = once([] { return imported("collections", "deque"); });
  Owned<> items = operand_list(op);
  return items && call_for_effect(PyObject_CallMethod(type, "clear", "O", at(op.a))) &&
         call_for_effect(PyObject_CallMethod(type, "extend", "OO", at(op.a), items.get()));
}

/// What stays keeps its place in the table; iteration order depends on it.
bool Run::assign_set(const ReplayOp& op) const {
  Owned<> wanted = Owned<>::steal(PySet_New(nullptr));
  for (int i = 0; wanted && i < op.count; ++i)
    if (PySet_Add(wanted.get(), operand(op, i)) < 0) return false;
  if (!wanted || !call_for_effect(PyObject_CallMethod(at(op.a), "intersection_update", "O", wanted.get())))
    return false;
  for (int i = 0; i < op.count; ++i)
    if (PySet_Add(at(op.a), operand(op, i)) < 0) return false;
  return true;
}

bool Run::set_grad(const ReplayOp& op) const {
  PyObject* const setter = of_torch::object(of_torch::SetGradEnabled);
  return call_for_effect(PyObject_CallOneArg(setter, op.number ? Py_True : Py_False));
}

bool Run::store_own(const ReplayOp& op) const {
  Owned<> dict = Owned<>::steal(PyObject_GenericGetDict(at(op.a), nullptr));
  if (!dict) return false;
  return (op.kind == ReplayKind::DeleteOwn ? PyDict_DelItem(dict.get(), op.object.get())
                                           : PyDict_SetItem(dict.get(), op.object.get(), at(op.b))) == 0;
}

bool Run::step(const ReplayOp& op) {
  using K = ReplayKind;
  switch (op.kind) {
    case K::MakeTuple:
      return put(op, make_tuple(op));
    case K::MakeList:
      return put(op, PyList_New(0));
    case K::FillList:
      return fill_list(op);
    case K::MakeDict:
      return put(op, make_dict(op));
    case K::MakeDefaultDict: {
      PyObject* const type = once([] { return imported("collections", "defaultdict"); });
      return put(op, PyObject_CallOneArg(type, at(op.a)));
    }
    case K::FillDict:
      return fill_dict(op);
    case K::MakeSet:
      return put(op, PySet_New(nullptr));
    case K::FillSet:
      for (int i = 0; i < op.count; ++i)
        if (PySet_Add(at(op.a), operand(op, i)) < 0) return false;
      return true;
    case K::CopySet: {
      Owned<> copy = Owned<>::steal(op.number ? PyFrozenSet_New(nullptr) : PySet_New(nullptr));
      return copy && cpython::place_members(copy.get(), op.object.get()) && put(op, copy.release());
    }
    case K::PlaceMembers:
      return cpython::place_members(at(op.a), op.object.get());
    case K::MakeFrozenSet: {
      Owned<> items = operand_tuple(op);
      return put(op, items ? PyFrozenSet_New(items.get()) : nullptr);
    }
    case K::MakeDeque:
      return put(op, make_deque(op));
    case K::FillDeque: {
      Owned<> items = operand_list(op);
      return items && call_for_effect(PyObject_CallMethod(at(op.a), "extend", "O", items.get()));
    }
    case K::MakeSlice:
      return put(op, PySlice_New(at(op.a), at(op.b), at(op.c)));
    case K::MakeCell:
      return put(op, PyCell_New(nullptr));
    case K::MakeFunction:
      return put(op, make_function(op));
    case K::MakeMethod:
      return put(op, PyMethod_New(at(op.a), at(op.b)));
    case K::MakePartial: {
      PyObject* const type = once([] { return imported("functools", "partial"); });
      Owned<> function = Owned<>::steal(PyTuple_Pack(1, at(op.a)));
      Owned<> args = function ? Owned<>::steal(PySequence_Concat(function.get(), at(op.b))) : Owned<>();
      return put(op, args ? PyObject_Call(type, args.get(), at(op.c)) : nullptr);
    }
    case K::MakeClass:
      return put(op,
                 cpython::make_type(reinterpret_cast<PyTypeObject*>(op.object.get()), at(op.a), at(op.b), at(op.c)));
    case K::MakeObject:
      return put(op, make_object(op));
    case K::CallConstant:
    case K::CallEffect: {
      const SignalsHeld held;  // half of a replay is no moment of the program
      Owned<> args = operand_tuple(op);
      return put(op, args ? PyObject_Call(op.object.get(), args.get(), nullptr) : nullptr);
    }
    case K::StoreAttr:
      return PyObject_GenericSetAttr(at(op.a), op.object.get(), at(op.b)) == 0;
    case K::DeleteAttr:
      return PyObject_GenericSetAttr(at(op.a), op.object.get(), nullptr) == 0;
    case K::StoreSlot:
      return Py_TYPE(op.object.get())->tp_descr_set(op.object.get(), at(op.a), at(op.b)) == 0;
    case K::StoreOwn:
    case K::DeleteOwn:
      return store_own(op);
    case K::StoreTypeAttr:
      return PyType_Type.tp_setattro(at(op.a), op.object.get(), at(op.b)) == 0;
    case K::StoreDict:
      return (PyODict_Check(at(op.a)) ? PyODict_SetItem(at(op.a), at(op.b), at(op.c))
                                      : PyDict_SetItem(at(op.a), at(op.b), at(op.c))) == 0;
    case K::DeleteDict:
      return PyDict_DelItem(at(op.a), at(op.b)) == 0;
    case K::StoreItem:
      return PySequence_SetItem(at(op.a), static_cast<Py_ssize_t>(op.number), at(op.b)) == 0;
    case K::AssignList: {
      Owned<> items = operand_list(op);
      return items && PyList_SetSlice(at(op.a), 0, PyList_GET_SIZE(at(op.a)), items.get()) == 0;
    }
    case K::AssignDict:
      return assign_dict(op);
    case K::AssignSet:
      return assign_set(op);
    case K::AssignDeque:
      return assign_deque(op);
    case K::StoreCell:
      return PyCell_Set(at(op.a), at(op.b)) == 0;
    case K::SetGradMode:
      return set_grad(op);
  }
  return false;
}

}  // namespace

const char* kind_name(ReplayKind kind) {
  constexpr const char* kNames[] = {
#define REPLAY(name, operands, text) #name,
#include "plan/replay.def"
#undef REPLAY
  };
  return kNames[static_cast<int>(kind)];
}

bool Replay::run(PyObject** registers, size_t count) const {
  Run run(*this, registers);
  for (size_t i = 0; i < count; ++i)
    if (!run.step(ops[i])) return false;
  return true;
}

}  // namespace gramme::plan
