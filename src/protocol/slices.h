// Slices of sequences held by the capture. Not for other rooms.
#pragma once
#include "protocol/protocol.h"

namespace gramme::protocol {

/// The slice as a real object; TypeError for bounds that are no indices.
Owned<> real_slice(Trace& trace, value::Slice* slice);

/// The positions a slice selects from a sequence of a length.
struct Span {
  Py_ssize_t start, stop, step, count;
  Py_ssize_t at(Py_ssize_t i) const { return start + i * step; }
};
Span span_of(Trace& trace, value::Slice* slice, size_t length);

Value* get_slice(Trace& trace, Value* sequence, value::Slice* slice);  // Tuple or List
void set_slice(Trace& trace, value::List* list, value::Slice* slice, Value* value);
void delete_slice(Trace& trace, value::List* list, value::Slice* slice);

}  // namespace gramme::protocol
