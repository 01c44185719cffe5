// Shared objects that own Python objects.
#pragma once
#include <memory>

#include "base/gil.h"

namespace gramme {

/// Takes the object over; its destruction takes the GIL.
template <class T>
std::shared_ptr<T> with_gil(T* made) {
  return std::shared_ptr<T>(made, [](T* object) {
    if (!Py_IsInitialized()) return;
    const GilHeld gil;
    delete object;
  });
}

}  // namespace gramme
