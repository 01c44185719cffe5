// Slot wrappers shared by builtin containers, such as super().__getitem__(…), applied to the payload of a subclass
// instance.
#include <opcode.h>

#include "base/once.h"
#include "builtins/python_support.h"
#include "protocol/combine.h"

namespace gramme::builtins {
namespace {

using value::Kind;

/// The payload of a subclass instance; otherwise the value itself.
Value* held(Trace& trace, Value* self) {
  Value* seen = trace.see(self);
  auto* object = value::as<value::Object>(seen);
  Value* inside = object ? payload(trace, object) : seen;
  if (!inside) cannot(Reason::ArgumentKind, "a slot of a builtin called on another class");
  if (object && inside->kind == Kind::Deque) cannot(Reason::ArgumentKind, "a slot of deque called on a subclass");
  return inside;
}

Value* slot_len(Trace& trace, const Args& args) {
  auto [self] = positional<1>(args, 1);
  return trace.integer(protocol::length(trace, held(trace, self)));
}
Value* slot_iter(Trace& trace, const Args& args) {
  auto [self] = positional<1>(args, 1);
  return protocol::get_iterator(trace, held(trace, self));
}
Value* slot_reversed(Trace& trace, const Args& args) {
  auto [self] = positional<1>(args, 1);
  return protocol::reversed(trace, held(trace, self));
}
Value* slot_contains(Trace& trace, const Args& args) {
  auto [self, item] = positional<2>(args, 2);
  return protocol::contains(trace, held(trace, self), item);
}
Value* slot_get(Trace& trace, const Args& args) {
  auto [self, key] = positional<2>(args, 2);
  return protocol::get_item(trace, held(trace, self), key);
}
Value* slot_set(Trace& trace, const Args& args) {
  auto [self, key, item] = positional<3>(args, 3);
  protocol::set_item(trace, held(trace, self), key, item);
  return trace.none();
}
Value* slot_delete(Trace& trace, const Args& args) {
  auto [self, key] = positional<2>(args, 2);
  protocol::delete_item(trace, held(trace, self), key);
  return trace.none();
}
Value* slot_repr(Trace& trace, const Args& args) {
  auto [self] = positional<1>(args, 1);
  return protocol::to_repr(trace, held(trace, self));
}

/// A binary slot; NotImplemented for operands that the C slot does not support.
template <int op>
Value* slot_compare(Trace& trace, const Args& args) {
  auto [self, other] = positional<2>(args, 2);
  Value *left = held(trace, self), *right = trace.see(other);
  if (trace.see(self) != left && protocol::type_of(trace.see(self)) == &PyDictProxy_Type)  // asks the mapping, anew
    return protocol::compare(trace, op, left, right);
  if (auto* object = value::as<value::Object>(right)) right = payload(trace, object);
  if (!right) return trace.constant(Py_NotImplemented);
  if (left->kind != right->kind) return trace.constant(Py_NotImplemented);
  return protocol::compare(trace, op, left, right);
}

template <int op>
Value* slot_binary(Trace& trace, const Args& args) {
  auto [self, other] = positional<2>(args, 2);
  Value *left = held(trace, self), *right = held(trace, other);
  const bool both_sets = left->kind == Kind::Set || (op != NB_ADD && op != NB_MULTIPLY && left->kind != Kind::View);
  if (op != NB_MULTIPLY && left->kind != right->kind) {
    if (!both_sets) cannot(Reason::ArgumentKind, "a slot called with another operand");  // raises, or calls the operand
    return trace.constant(Py_NotImplemented);
  }
  return protocol::binary(trace, op, left, right);
}

/// An in-place slot, which returns the instance itself.
template <int op>
Value* slot_in_place(Trace& trace, const Args& args) {
  auto [self, other] = positional<2>(args, 2);
  Value* left = held(trace, self);
  if (left->kind == Kind::Set && held(trace, other)->kind != Kind::Set) return trace.constant(Py_NotImplemented);
  if (op == NB_INPLACE_ADD && left->kind == Kind::List)
    protocol::extend(trace, left, other);
  else
    protocol::binary(trace, op, left, other);
  return trace.see(self);
}

}  // namespace

/// Types without the method skip the row.
void register_container_slots() {
  PyObject* const deque = once([] { return real("collections", "deque"); });
  auto* deque_type = reinterpret_cast<PyTypeObject*>(deque);
  for (PyTypeObject* type :
       {&PyList_Type, &PyTuple_Type, &PySet_Type, &PyFrozenSet_Type, &PyDict_Type, &PyODict_Type, &PyDictProxy_Type,
        &PyRange_Type, deque_type, &PyDictKeys_Type, &PyDictItems_Type, &PyDictValues_Type})
    add_rows(type, Takes::Asked,
             {
                 {"__len__", &slot_len},
                 {"__iter__", &slot_iter},
                 {"__reversed__", &slot_reversed},
                 {"__repr__", &slot_repr},
                 {"__eq__", &slot_compare<Py_EQ>},
                 {"__ne__", &slot_compare<Py_NE>},
                 {"__lt__", &slot_compare<Py_LT>},
                 {"__le__", &slot_compare<Py_LE>},
                 {"__gt__", &slot_compare<Py_GT>},
                 {"__ge__", &slot_compare<Py_GE>},
             });
  for (PyTypeObject* type : {&PySet_Type, &PyFrozenSet_Type, &PyDictKeys_Type, &PyDictItems_Type})
    add_rows(type, Takes::Asked,
             {
                 {"__contains__", &slot_contains},
                 {"__or__", &slot_binary<NB_OR>},
                 {"__and__", &slot_binary<NB_AND>},
                 {"__xor__", &slot_binary<NB_XOR>},
                 {"__sub__", &slot_binary<NB_SUBTRACT>},
                 {"__ior__", &slot_in_place<NB_INPLACE_OR>},
                 {"__iand__", &slot_in_place<NB_INPLACE_AND>},
                 {"__ixor__", &slot_in_place<NB_INPLACE_XOR>},
                 {"__isub__", &slot_in_place<NB_INPLACE_SUBTRACT>},
             });
  for (PyTypeObject* type : {&PyList_Type, &PyTuple_Type, &PyRange_Type, deque_type})
    add_rows(type, Takes::Asked,
             {
                 {"__contains__", &slot_contains},
                 {"__getitem__", &slot_get},
                 {"__setitem__", &slot_set},
                 {"__delitem__", &slot_delete},
                 {"__add__", &slot_binary<NB_ADD>},
                 {"__mul__", &slot_binary<NB_MULTIPLY>},
                 {"__rmul__", &slot_binary<NB_MULTIPLY>},
                 {"__iadd__", &slot_in_place<NB_INPLACE_ADD>},
                 {"__imul__", &slot_in_place<NB_INPLACE_MULTIPLY>},
             });
}

}  // namespace gramme::builtins
