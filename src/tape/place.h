// Places: where a program's value is found while its tape runs.
#pragma once
#include <vector>

#include "tape/tape.h"

namespace gramme::native {

struct Place {
  enum Kind : uint8_t {
    Constant,  // object: the same at every call
    Tensor,    // index: a register
    Object,    // index: into Run::objects
    Number,    // index: into Run::numbers
    Float,     // index: into Run::numbers, a float
    Sequence,  // items of a tuple or list of type `object`
    Mapping,   // items of a dict: key, value, key, value …
    Range,     // a slice: start, stop, step
  };
  Kind kind = Constant;
  int32_t index = 0;
  Owned<> object;
  std::vector<Place> items;
  bool last = false;  // Tensor: a temporary not needed afterwards
};

inline bool is_number(const Place& place) { return place.kind == Place::Number || place.kind == Place::Float; }

/// Calls `visit` with the register of each tensor.
template <class Visit>
void each_register(const Place& place, Visit&& visit) {
  if (place.kind == Place::Tensor) visit(place.index);
  for (const Place& item : place.items) each_register(item, visit);
}

/// Calls `visit` with each number.
template <class Visit>
void each_number(const Place& place, Visit&& visit) {
  if (is_number(place)) visit(place.index);
  for (const Place& item : place.items) each_number(item, visit);
}

/// A new reference to the Python object at the place. Needs the GIL; throws PythonError.
Owned<> object_at(const Place& place, Run& run);
/// Stores an object and its parts in its place. Throws PythonError if its form differs from the recording's.
void put_object(PyObject* object, const Place& place, Run& run);

}  // namespace gramme::native
