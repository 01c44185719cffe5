// Comparisons. Null from the functions below means NotImplemented.
#include "protocol/number.h"
#include "protocol/numpy.h"
#include "protocol/operator_table.h"
#include "protocol/special.h"
#include "protocol/tensors.h"

namespace gramme::protocol {

using namespace value;

namespace {

bool is_equality(int op) { return op == Py_EQ || op == Py_NE; }

[[noreturn]] void unorderable(Trace& trace, int op, Value* left, Value* right) {
  raise(trace, PyExc_TypeError,
        std::string("'") + comparison_row(op).symbol + "' not supported between instances of '" + type_name(left) +
            "' and '" + type_name(right) + "'");
}

bool ordered(int op, size_t a, size_t b) {
  switch (op) {
    case Py_LT:
      return a < b;
    case Py_LE:
      return a <= b;
    case Py_GT:
      return a > b;
    case Py_GE:
      return a >= b;
    case Py_EQ:
      return a == b;
    default:
      return a != b;
  }
}

// ---- sequences

const std::vector<Value*>* sequence_items(Value* seen) {
  if (auto* list = as<List>(seen)) return &list->items();
  if (auto* tuple = as<Tuple>(seen)) return &tuple->items;
  if (auto* deque = as<Deque>(seen)) return &deque->items;
  return nullptr;
}

/// Compares the first differing items, then the lengths.
Value* compare_sequences(Trace& trace, int op, Value* left, Value* right) {
  Trace::Deeper deeper(trace);
  const std::vector<Value*>&a = *sequence_items(left), &b = *sequence_items(right);
  bool by_length = left->kind != Kind::Tuple;  // tuples compare items first
  if (by_length && is_equality(op) && a.size() != b.size()) return trace.boolean(op == Py_NE);
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {  // reads sizes again: __eq__ may change a list
    Value *x = a[i], *y = b[i];
    if (equal(trace, x, y)) continue;
    return is_equality(op) ? trace.boolean(op == Py_NE) : compare(trace, op, x, y);
  }
  return trace.boolean(ordered(op, a.size(), b.size()));
}

// ---- sets and dicts

/// The members of a set, keys or items view.
bool set_items(Trace& trace, Value* seen, Table& table) {
  if (auto* set = as<Set>(seen)) {
    table = set->entries;
    return true;
  }
  auto* view = as<View>(seen);
  if (!view || view->which == View::Values) return false;
  for (Value* item : items_of(trace, seen)) table.set(table_key(trace, item), nullptr);
  return true;
}

bool is_subset(Table& part, Table& whole) {
  bool all = true;
  part.each([&](Table::Entry& entry) { all = all && whole.find(entry.key); });
  return all;
}

Value* compare_sets(Trace& trace, int op, Value* left, Value* right) {
  Table a, b;
  if (!set_items(trace, left, a) || !set_items(trace, right, b)) return nullptr;
  switch (op) {
    case Py_EQ:
    case Py_NE:
      return trace.boolean((a.size() == b.size() && is_subset(a, b)) == (op == Py_EQ));
    case Py_LE:
      return trace.boolean(a.size() <= b.size() && is_subset(a, b));
    case Py_LT:
      return trace.boolean(a.size() < b.size() && is_subset(a, b));
    case Py_GE:
      return trace.boolean(b.size() <= a.size() && is_subset(b, a));
    default:
      return trace.boolean(b.size() < a.size() && is_subset(b, a));
  }
}

bool is_ordered_dict(Value* seen) {
  auto* dict = as<Dict>(seen);
  return dict && PyType_IsSubtype(dict->type, &PyODict_Type);
}

bool equal_dicts(Trace& trace, Value* left, Value* right) {
  Trace::Deeper deeper(trace);
  std::vector<std::pair<Value*, Value*>> a, b;
  mapping_entries(trace, left, a);
  mapping_entries(trace, right, b);
  if (a.size() != b.size()) return false;
  if (is_ordered_dict(left) && is_ordered_dict(right)) {
    for (size_t i = 0; i < a.size(); ++i)
      if (!equal_keys(trace.see(a[i].first), trace.see(b[i].first))) return false;
  }
  Table table;
  for (auto& [key, item] : b) table.set(trace.see(key), item);
  for (auto& [key, item] : a) {
    Table::Entry* other = table.find(trace.see(key));
    if (!other || !equal(trace, item, other->value)) return false;
  }
  return true;
}

// ---- other values made of values

/// Slices compare as tuples of their bounds.
Value* compare_slices(Trace& trace, int op, Slice* a, Slice* b) {
  if (a == b) return trace.boolean(op == Py_EQ || op == Py_LE || op == Py_GE);
  return compare_sequences(trace, op, trace.tuple({a->start, a->stop, a->step}),
                           trace.tuple({b->start, b->stop, b->step}));
}

bool equal_methods(Trace& trace, Method* a, Method* b) {
  return same(trace, a->self, b->self) && same(trace, a->function, b->function);
}

bool equal_builtin_methods(Trace& trace, BuiltinMethod* a, BuiltinMethod* b) {
  return a->object == b->object && same(trace, a->self, b->self);
}

bool is_mapping(Value* seen) { return seen->kind == Kind::Dict || seen->kind == Kind::InstanceDict; }

/// == of values without their own methods; null if only identity counts.
Value* builtin_equal(Trace& trace, int op, Value* left, Value* right) {
  bool result;
  if (is_mapping(left) && is_mapping(right))
    result = equal_dicts(trace, left, right);
  else if (left->kind != right->kind)
    return nullptr;
  else if (auto* method = as<Method>(left))
    result = equal_methods(trace, method, static_cast<Method*>(right));
  else if (auto* builtin = as<BuiltinMethod>(left))
    result = equal_builtin_methods(trace, builtin, static_cast<BuiltinMethod*>(right));
  else
    return nullptr;
  return trace.boolean(result == (op == Py_EQ));
}

Value* fold_compare(Trace& trace, int op, PyObject* left, PyObject* right) {
  return folded(trace, PyObject_RichCompare(left, right, op));
}

/// True for operands that torch.Tensor's comparisons accept; for others they return NotImplemented.
bool compares_with_tensors(Value* seen) {
  return seen->kind == Kind::Tensor || seen->kind == Kind::Number || seen->kind == Kind::Constant;
}

/// Calls the comparison as the method that torch function modes intercept.
Value* seen_by_modes(Trace& trace, int op, Value* left, Value* right) {
  const char* name = op == Py_LT   ? "lt"
                     : op == Py_LE ? "le"
                     : op == Py_GT ? "gt"
                     : op == Py_GE ? "ge"
                     : op == Py_NE ? "ne"
                                   : nullptr;
  if (!name) cannot(Reason::CallUnknown, "a comparison that a torch function mode sees");
  return call(trace, trace.pinned(trace.type_lookup(type_of(left), intern(name))), {left, right});
}

/// Compares by the classes' methods; the right operand's first if its class is a subclass of the left one's.
Value* compare_by_methods(Trace& trace, int op, Value* left, Value* right) {
  const Comparison &row = comparison_row(op), &swapped = comparison_row(row.swapped);
  const bool first =
      right->kind == Kind::Tensor && type_of(left) != type_of(right) && trace.is_subtype(type_of(right), type_of(left));
  if (first)
    if (Value* result = call_by_name(trace, right, swapped.method, {left})) return result;
  if (Value* result = call_by_name(trace, left, row.method, {right})) return result;
  if (!first)
    if (Value* result = call_by_name(trace, right, swapped.method, {left})) return result;
  cannot(Reason::TensorSubclass, "operands that do not go together");
}

Value* tensor_compare(Trace& trace, int op, Value* left, Value* right) {
  if (left->kind != Kind::Tensor) {  // reflected, as in Python: 1 < x is x > 1
    op = comparison_row(op).swapped;
    std::swap(left, right);
  }
  if (!compares_with_tensors(right)) return nullptr;
  if (is_asked(trace, left) || is_asked(trace, right)) return compare_by_methods(trace, op, left, right);
  if (trace.scope().modes().in_function_mode()) return seen_by_modes(trace, op, left, right);
  refuse_replaced(trace, {left, right}, {comparison_row(op).method, comparison_row(comparison_row(op).swapped).method});
  return trace.emit(comparison_row(op).function, {left, right});
}

/// Comparisons of values without their own methods.
Value* builtin_compare(Trace& trace, int op, Value* left, Value* right) {
  if (left->kind == Kind::Constant && right->kind == Kind::Constant)
    return fold_compare(trace, op, left->object, right->object);
  if (left->kind == Kind::Tensor || right->kind == Kind::Tensor) return tensor_compare(trace, op, left, right);
  if (left->kind == Kind::Number || right->kind == Kind::Number) return number_compare(trace, op, left, right);
  if (left->kind == right->kind && sequence_items(left)) return compare_sequences(trace, op, left, right);
  if (left->kind == Kind::Slice && right->kind == Kind::Slice)
    return compare_slices(trace, op, static_cast<Slice*>(left), static_cast<Slice*>(right));
  if (Value* result = compare_sets(trace, op, left, right)) return result;
  return is_equality(op) ? builtin_equal(trace, op, left, right) : nullptr;
}

// ---- classes of the program

/// object.__ne__: the opposite of the class' own __eq__.
Value* inverted_equal(Trace& trace, Value* left, Value* right) {
  static PyObject* const ne = intern("__ne__");
  PyObject* raw = trace.type_lookup(type_of(left), ne);
  if (Py_TYPE(raw) != &PyWrapperDescr_Type || reinterpret_cast<PyDescrObject*>(raw)->d_type != &PyBaseObject_Type)
    return nullptr;
  Value* result = attempt(trace, left, comparison_row(Py_EQ).method, {right});
  return result ? trace.boolean(!truth(trace, result)) : nullptr;
}

Value* one_side(Trace& trace, int op, Value* left, Value* right) {
  if (Value* result = attempt(trace, left, comparison_row(op).method, {right})) return result;
  return op == Py_NE && has_own_class(left) ? inverted_equal(trace, left, right) : nullptr;
}

Value* constant_compare(Trace& trace, int op, PyObject* left, PyObject* right) {
  richcmpfunc slot = Py_TYPE(left)->tp_richcompare;
  Owned<> result = Owned<>::steal(slot ? slot(left, right, op) : nullptr);
  if (!slot || result.get() == Py_NotImplemented) return nullptr;
  return folded(trace, result.release());
}

/// The comparison by `left`'s C method, which looks at the builtin part of the right operand.
Value* c_side(Trace& trace, int op, Value* left, Value* right) {
  bool inherited = left->kind == Kind::Tuple || payload_for(trace, left, comparison_row(op).method);
  if (has_own_class(left) && !inherited) return nullptr;
  Value *a = builtin_part(left), *b = builtin_part(right);
  for (Value* part : {a, b})
    if (part->kind == Kind::Object || part->kind == Kind::Tensor || part->kind == Kind::Class) return nullptr;
  if (a->kind == Kind::Constant && b->kind == Kind::Constant) return constant_compare(trace, op, a->object, b->object);
  return builtin_compare(trace, op, a, b);
}

Value* user_compare(Trace& trace, int op, Value* left, Value* right) {
  for (Value* operand : {left, right})
    if (auto* held = payload_of(operand); held && held->kind == Kind::Deque)
      cannot(Reason::ArgumentKind, "a comparison of a deque's subclass");  // CPython calls its __iter__
  int swapped = comparison_row(op).swapped;
  PyTypeObject *a = type_of(left), *b = type_of(right);
  bool right_first = a != b && trace.is_subtype(b, a);
  if (right_first)
    if (Value* result = one_side(trace, swapped, right, left)) return result;
  if (right_first)
    if (Value* result = c_side(trace, swapped, right, left)) return result;
  if (Value* result = one_side(trace, op, left, right)) return result;
  if (Value* result = c_side(trace, op, left, right)) return result;
  return right_first ? nullptr : one_side(trace, swapped, right, left);
}

/// Tries the classes' methods, then the builtin parts, then identity.
Value* rich_compare(Trace& trace, int op, Value* left, Value* right) {
  if (has_own_class(left) || has_own_class(right)) {
    const bool left_first = takes_first(left, right);
    if (left_first && is_opaque_scalar(right)) cannot(Reason::ArgumentKind, "an operand of type " + type_name(right));
    Value* result = left_first ? nullptr : user_compare(trace, op, left, right);
    if (result) return result;
    if (is_opaque_scalar(left) || is_opaque_scalar(right))
      cannot(Reason::ArgumentKind, "operands of types " + type_name(left) + " and " + type_name(right));
  }
  Value *a = builtin_part(left), *b = builtin_part(right);
  bool foreign = a->kind == Kind::Object || b->kind == Kind::Object;
  bool right_first = type_of(left) != type_of(right) && trace.is_subtype(type_of(right), type_of(left));
  Value* result = nullptr;
  if (!foreign)
    result = on_parts(trace, left != a || right != b, [&] {
      return right_first ? builtin_compare(trace, comparison_row(op).swapped, b, a) : builtin_compare(trace, op, a, b);
    });
  if (result) return result;
  if (!is_equality(op)) unorderable(trace, op, left, right);
  return trace.boolean(same(trace, left, right) == (op == Py_EQ));
}

}  // namespace

bool answers_comparison(Trace& trace, int op, Value* left, Value* right, PyObject* function) {
  auto is = [&](Value* operand, int asked) {
    return trace.type_lookup(type_of(trace.see(operand)), comparison_row(asked).method) == function;
  };
  return is(left, op) || is(right, comparison_row(op).swapped);
}

Value* compare(Trace& trace, int op, Value* left, Value* right) {
  left = trace.see(left);
  right = trace.see(right);
  if (left->kind == Kind::Constant && right->kind == Kind::Constant)
    return fold_compare(trace, op, left->object, right->object);
  auto by_numpy = [](int op, PyObject* a, PyObject* b) { return PyObject_RichCompare(a, b, op); };
  if (is_numpy_scalar(left) || is_numpy_scalar(right))
    if (Value* result = numpy_operator(trace, by_numpy, op, left, right)) return result;
  return rich_compare(trace, op, left, right);
}

bool equal(Trace& trace, Value* left, Value* right) {
  left = trace.see(left);
  right = trace.see(right);
  if (left == right) return true;
  bool constants = left->kind == Kind::Constant && right->kind == Kind::Constant;
  if (constants && left->object == right->object) return true;
  if (left->object && left->object == right->object && is_numpy_scalar(left)) return same(trace, left, right);  // NaN
  return truth(trace, compare(trace, Py_EQ, left, right));
}

}  // namespace gramme::protocol
