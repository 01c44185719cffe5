// Tensors inside transforms of torch.func. Only meta's own sources include this (torch headers).
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "meta/infer.h"

namespace gramme::meta {

/// Levels of torch.func's transforms, outermost first, from construction to destruction. The thread must be in none.
class EnteredLevels {
 public:
  explicit EnteredLevels(const std::vector<Level>& levels);
  ~EnteredLevels();
  EnteredLevels(const EnteredLevels&) = delete;

 private:
  void enter(const Level& level);
  void leave();
  std::vector<Level::Kind> entered_;
  bool dual_ = false;  // the level of forward AD is entered too
};

/// True for a wrapper inside a transform that takes gradients or tangents. Such know their level while it lasts.
bool tracks_gradients(const at::Tensor& tensor);
int32_t level_of(const at::Tensor& tensor);
/// The tensor that a wrapper wraps; undefined for others.
at::Tensor unwrap(const at::Tensor& tensor);
/// The tensor with the memory.
at::Tensor innermost(const at::Tensor& tensor);
/// Null if it has none.
inline const c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}
/// True if a tensor can be wrapped as the record says inside these.
bool can_wrap(const Record& record, const std::vector<Level>& levels);
/// The tensor wrapped as the record says.
at::Tensor wrapped(const at::Tensor& innermost, const Record& record);
/// So many levels down `outer` wraps the very tensor; 0 if it is that, -1 if it does not.
int depth_in(const at::Tensor& tensor, const at::Tensor& outer);

}  // namespace gramme::meta
