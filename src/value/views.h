// Walks over chains of views.
#pragma once
#include "value/value.h"

namespace gramme::value {

/// The tensor at the start of a chain of views; a result of detach() counts as a view.
inline const Tensor* storage_root(const Tensor* tensor) {
  while (tensor->base) tensor = tensor->base;
  return tensor;
}
inline Tensor* storage_root(Tensor* tensor) {
  while (tensor->base) tensor = tensor->base;
  return tensor;
}

}  // namespace gramme::value
