// Advancing the iterators that a capture makes. Not for other rooms.
#pragma once
#include "protocol/iterate.h"

namespace gramme::protocol {

/// The next value, or null at the end.
Value* step(Trace& trace, value::Iterator* iterator);
/// The same for those of sort Entries.
Value* next_of_entries(Trace& trace, value::Iterator* iterator);
/// What type() says of one of sort Other.
PyTypeObject* other_iterator_type(const value::Iterator* iterator);
/// At the end: nothing more comes, ever.
inline Value* end(value::Iterator* iterator) {
  iterator->done = true;
  return nullptr;
}
/// The size of a deque when the iteration begins: it may not change.
void note_size(Trace& trace, value::Iterator* iterator);
/// iter() or reversed() of a real range; ends the segment if it does not fit into machine words.
value::Iterator* range_constant_iterator(Trace& trace, PyObject* range, bool backwards);

}  // namespace gramme::protocol
