// Tensors inside torch.vmap. Only meta's own sources include this (torch headers).
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "meta/infer.h"

namespace gramme::meta {

/// Levels of torch.vmap, outermost first, from construction to destruction. The thread must be in none.
class EnteredLevels {
 public:
  explicit EnteredLevels(const std::vector<VmapLevel>& levels);
  ~EnteredLevels();
  EnteredLevels(const EnteredLevels&) = delete;

 private:
  void leave();
  size_t count_ = 0;
};

/// The tensor that a batched one wraps; null for others.
const at::Tensor* unwrap(const at::Tensor& tensor);
/// The tensor with the memory.
const at::Tensor& innermost(const at::Tensor& tensor);
/// The tensor wrapped as the record says.
at::Tensor wrapped(const at::Tensor& innermost, const Record& record);
/// So many levels down `outer` wraps the very tensor; 0 if it is that, -1 if it does not.
int depth_in(const at::Tensor& tensor, const at::Tensor& outer);

}  // namespace gramme::meta
