// The index by name, built once there are more than a few entries.
#include "value/attributes.h"

namespace gramme::value {

/// The index of the entry; the number of entries if there is none of that name.
size_t Attributes::place_of(PyObject* name) const {
  if (size() <= kLinear) {
    size_t at = 0;
    while (at < size() && rows_[at].name != name) ++at;
    return at;
  }
  for (; indexed_ < size(); ++indexed_) places_.try_emplace(rows_[indexed_].name, indexed_);
  auto found = places_.find(name);
  return found == places_.end() ? size() : found->second;
}

}  // namespace gramme::value
