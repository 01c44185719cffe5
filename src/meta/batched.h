// Tensors inside transforms of torch.func. Only meta's own sources include this (torch headers).
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "meta/infer.h"

namespace gramme::meta {

/// Scope in which the given levels of torch.func's transforms are entered, outermost first. The thread must be in none.
class EnteredLevels {
 public:
  explicit EnteredLevels(const std::vector<Level>& levels);
  ~EnteredLevels();
  EnteredLevels(const EnteredLevels&) = delete;

 private:
  void enter(const Level& level);
  void leave();
  std::vector<Level::Kind> entered_;
  bool dual_ = false;  // the forward-AD level is entered too
};

/// True for a wrapper inside a transform of gradients or tangents, which knows its level while the level exists.
bool tracks_gradients(const at::Tensor& tensor);
int32_t level_of(const at::Tensor& tensor);
/// The tensor that a wrapper wraps; undefined for others.
at::Tensor unwrap(const at::Tensor& tensor);
/// The innermost tensor, which owns the memory.
at::Tensor innermost(const at::Tensor& tensor);
/// The tensor's storage; null if it has none.
inline const c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}
/// True if a tensor can be wrapped as described by the record, inside these levels.
bool can_wrap(const Record& record, const std::vector<Level>& levels);
/// Wraps the tensor as described by the record.
at::Tensor wrapped(const at::Tensor& innermost, const Record& record);
/// The depth at which `outer` wraps the tensor; 0 if it is the tensor itself, -1 if it does not.
int depth_in(const at::Tensor& tensor, const at::Tensor& outer);

}  // namespace gramme::meta
