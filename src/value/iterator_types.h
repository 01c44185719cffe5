// The real types of the iterators that a capture makes, for type().
#pragma once
#include <array>

#include "value/value.h"

namespace gramme::value {

enum class IteratorType {
#define ITERATOR_TYPE(name, example) name,
#include "value/iterator_types.def"
#undef ITERATOR_TYPE
  Count_
};

using IteratorTypes = std::array<PyTypeObject*, static_cast<size_t>(IteratorType::Count_)>;

const IteratorTypes& iterator_types();
PyTypeObject* type_of(IteratorType type);
/// The type that iter() returns for a seen List, Tuple, Deque, str, bytes or an Object with __getitem__.
PyTypeObject* sequence_iterator_type(const Value* sequence);

}  // namespace gramme::value
