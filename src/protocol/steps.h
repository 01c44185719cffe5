// Advancing the iterators that a capture makes. For this room only.
#pragma once
#include "protocol/iterate.h"

namespace gramme::protocol {

/// The next value, or null at the end.
Value* step(Trace& trace, value::Iterator* iterator);
/// The same for iterators of sort Entries.
Value* next_of_entries(Trace& trace, value::Iterator* iterator);
/// The real type of an iterator of sort Other.
PyTypeObject* other_iterator_type(const value::Iterator* iterator);
/// Ends the iterator for good; returns null.
inline Value* end(value::Iterator* iterator) {
  iterator->done = true;
  return nullptr;
}
/// Records a deque's size at the start of the iteration, during which it must not change.
void note_size(Trace& trace, value::Iterator* iterator);
/// iter() or reversed() of a real range; ends the segment if it does not fit into machine words.
value::Iterator* range_constant_iterator(Trace& trace, PyObject* range, bool backwards);

}  // namespace gramme::protocol
