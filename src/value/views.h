// Tensors that are views of others.
#pragma once
#include "value/value.h"

namespace gramme::value {

/// The tensor at the start of a chain of views; detach() is one here.
inline const Tensor* storage_root(const Tensor* tensor) {
  while (tensor->base) tensor = tensor->base;
  return tensor;
}
inline Tensor* storage_root(Tensor* tensor) {
  while (tensor->base) tensor = tensor->base;
  return tensor;
}

}  // namespace gramme::value
