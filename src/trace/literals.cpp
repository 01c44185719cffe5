// Interns the values of containers among the constants of code objects.
#include "trace/literals.h"

#include <unordered_map>
#include <utility>

#include "trace/capture.h"

namespace gramme::trace {

using namespace value;

namespace {

struct Literals {
  std::unordered_map<PyObject*, Value*> known;
};

Value* make_literal(Capture& capture, PyObject* object) {
  if (!PyTuple_Check(object)) return capture.adopt(share(object));
  std::vector<Value*> items;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
    items.push_back(literal(capture, PyTuple_GET_ITEM(object, i)));
  return capture.tuple(std::move(items));
}

}  // namespace

Value* literal(Capture& capture, PyObject* object) {
  if (!PyTuple_Check(object) && !PyFrozenSet_Check(object) && !PySlice_Check(object)) return capture.constant(object);
  Value*& known = capture.state<Literals>().known[object];
  if (known) return known;
  known = make_literal(capture, object);
  known->object = capture.keep(share(object));
  return known;
}

bool is_literal(const Value* value) {
  const bool container = value->kind == Kind::Tuple || value->kind == Kind::Set || value->kind == Kind::Slice;
  return container && value->object && !value->existing();
}

bool is_empty_tuple(const Value* value) {
  if (value->kind != Kind::Tuple) return false;
  const auto* tuple = static_cast<const Tuple*>(value);
  return tuple->type == &PyTuple_Type && tuple->items.empty();
}

bool is_same_as_literal(guards::FactList& facts, const Value* a, const Value* b) {
  if (!is_literal(a)) std::swap(a, b);
  if (a->kind != b->kind || !b->existing() || !b->object) return false;
  const bool same = a->object == b->object;
  facts.add_identity(b->source, a->object, same);
  return same;
}

}  // namespace gramme::trace
