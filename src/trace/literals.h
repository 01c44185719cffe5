// Constants of code objects that are containers: tuples, frozensets, slices. Each is one object, whose identity
// programs can see: `() is x`, `f() is f()`, two uses of one constant in a function.
#pragma once
#include "guards/fact_list.h"
#include "value/value.h"

namespace gramme::trace {

/// True for the value that Values::literal() made of such a container. It has an object and no source.
bool is_literal(const value::Value* value);
/// True for a tuple without items, which is one object in the process, however it is made.
bool is_empty_tuple(const value::Value* value);
/// `a is b` for two values of which at least one is a literal; guards the identity of the other.
bool is_same_as_literal(guards::FactList& facts, const value::Value* a, const value::Value* b);

}  // namespace gramme::trace
