// Compares the identity of literals.
#include "trace/literals.h"

#include <utility>

namespace gramme::trace {

using namespace value;

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
