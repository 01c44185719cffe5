// The pool of all tensor types of the process: each description is kept once, so that equal types have one address.
#include "aten/tensor_type.h"

#include <ATen/core/Tensor.h>
#include <pthread.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <unordered_set>

#include "aten/python.h"
#include "base/process.h"
#include "base/ref.h"

namespace gramme::aten {
namespace {

struct Hash {
  size_t operator()(const TensorDescription* t) const {
    size_t hash = reinterpret_cast<size_t>(t->type);
    auto add = [&hash](int64_t value) { hash = (hash ^ static_cast<size_t>(value)) * 0x9e3779b97f4a7c15u; };
    add(t->dtype | t->device_type << 8 | t->device_index << 16 | t->layout << 24);
    add(t->requires_grad | t->is_leaf << 1 | t->is_inference << 2 | t->is_conj << 3 | t->is_neg << 4 | t->opaque << 5);
    for (shape::SymInt size : t->sizes) add(size.word());
    for (shape::SymInt stride : t->strides) add(stride.word());
    add(t->storage_offset.word());
    add(reinterpret_cast<int64_t>(t->inner) ^ t->level ^ int64_t{t->batch_dim} << 8);
    for (const TensorType* part : t->parts) add(reinterpret_cast<int64_t>(part));
    add(t->ragged);
    return hash ^ hash >> 29;
  }
};

struct Equal {
  bool operator()(const TensorDescription* a, const TensorDescription* b) const { return *a == *b; }
};

bool is_symbolic(const TensorDescription& type) {
  auto varies = [](shape::SymInt number) { return !number.is_number(); };
  return std::ranges::any_of(type.sizes, varies) || std::ranges::any_of(type.strides, varies) ||
         varies(type.storage_offset) || (type.inner && type.inner->symbolic) ||
         std::ranges::any_of(type.parts, &TensorType::symbolic);
}

/// All types of the process. Operators are recorded without the GIL, so a lock protects the pool; nothing blocks while
/// it is held, and a forked child finds it free.
class Types {
 public:
  Types() { pthread_atfork(lock, unlock, unlock); }

  const TensorType* find_or_add(TensorDescription&& described) {
    std::lock_guard lock(mutex_);
    auto found = known_.find(&described);
    if (found != known_.end()) return static_cast<const TensorType*>(*found);
    hold(described);
    const bool symbolic = is_symbolic(described);
    const auto id = static_cast<uint32_t>(pool_.size());
    known_.insert(&pool_.emplace_back(TensorType{std::move(described), id, symbolic}));
    return &pool_.back();
  }

  size_t size() const {
    std::lock_guard lock(mutex_);
    return pool_.size();
  }

 private:
  static void lock();
  static void unlock();

  /// Keeps class and context alive for good: another object at the same address would be taken for them. PyTorch's own
  /// classes live on anyway.
  static void hold(const TensorDescription& type) {
    if (!is_exact_tensor_type(type.type)) share(reinterpret_cast<PyObject*>(type.type)).release();
    if (type.context) share(type.context).release();
  }

  mutable std::mutex mutex_;
  std::deque<TensorType> pool_;                                      // mutex_
  std::unordered_set<const TensorDescription*, Hash, Equal> known_;  // mutex_: those of the pool
};

/// Specs, records and segments point to types.
Lasting<Types> types;

void Types::lock() { types->mutex_.lock(); }
void Types::unlock() { types->mutex_.unlock(); }

}  // namespace

const TensorType* interned(TensorDescription described) { return types->find_or_add(std::move(described)); }

bool is_jagged(const at::Tensor& tensor) {
  return tensor.is_nested() && tensor.unsafeGetTensorImpl()->is_python_dispatch();
}

const TensorType* type_below_autograd(const at::Tensor& tensor, bool whole) {
  const c10::Device device = tensor.device();
  TensorDescription t{};
  t.type = tensor_type();
  t.dtype = static_cast<int8_t>(tensor.scalar_type());
  t.device_type = static_cast<int8_t>(device.type());
  t.device_index = device.index();
  t.layout = static_cast<int8_t>(tensor.layout());
  t.is_leaf = true;
  t.opaque = !whole;
  if (whole) {
    t.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
    t.strides.assign(tensor.strides().begin(), tensor.strides().end());
    t.storage_offset = tensor.storage_offset();
  }
  return interned(std::move(t));
}

const TensorType* with_requires_grad(const TensorType* type, bool requires_grad, bool is_leaf) {
  if (type->requires_grad == requires_grad && type->is_leaf == is_leaf) return type;
  TensorDescription changed = *type;
  changed.requires_grad = requires_grad;
  changed.is_leaf = is_leaf;
  return interned(std::move(changed));
}

}  // namespace gramme::aten
