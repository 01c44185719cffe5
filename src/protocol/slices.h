// Slices of sequences that the capture holds. For this room only.
#pragma once
#include "protocol/protocol.h"

namespace gramme::protocol {

/// The slice as a real object; raises TypeError for bounds without __index__.
Owned<> real_slice(Trace& trace, value::Slice* slice);

/// The positions that a slice selects from a sequence of a given length.
struct Span {
  Py_ssize_t start, stop, step, count;
  Py_ssize_t at(Py_ssize_t i) const { return start + i * step; }
};
Span span_of(Trace& trace, value::Slice* slice, size_t length);

Value* get_slice(Trace& trace, Value* sequence, value::Slice* slice);  // Tuple or List
void set_slice(Trace& trace, value::List* list, value::Slice* slice, Value* value);
void delete_slice(Trace& trace, value::List* list, value::Slice* slice);

}  // namespace gramme::protocol
