// A bump allocator: everything made in it dies with it. One per capture, and for each graph that is kept.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>
#include <vector>

namespace gramme {

class Arena {
 public:
  Arena() = default;
  /// Blocks start at this size and grow: for arenas that live long.
  explicit Arena(size_t first_block) : block_(first_block) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() {
    for (size_t i = finalizers_.size(); i-- > 0;) finalizers_[i].destroy(finalizers_[i].object);
  }

  template <class T, class... Args>
  T* make(Args&&... args) {
    T* object = new (allocate(sizeof(T), alignof(T))) T(std::forward<Args>(args)...);
    if constexpr (!std::is_trivially_destructible_v<T>)
      finalizers_.push_back({object, [](void* p) { static_cast<T*>(p)->~T(); }});
    return object;
  }

  /// Raw memory for trivially destructible arrays.
  void* bytes_for(size_t size) { return allocate(size, alignof(std::max_align_t)); }
  /// What the arena holds in all.
  size_t bytes() const { return bytes_; }

 private:
  void* allocate(size_t size, size_t align) {
    size_t at = (used_ + align - 1) & ~(align - 1);
    if (blocks_.empty() || at + size > capacity_) {
      capacity_ = size > block_ ? size : block_;
      if (block_ < kBlock) block_ *= 2;
      blocks_.emplace_back(std::make_unique_for_overwrite<std::byte[]>(capacity_));  // zeroing costs 3 % of a capture
      bytes_ += capacity_;
      at = 0;
    }
    used_ = at + size;
    return blocks_.back().get() + at;
  }

  static constexpr size_t kBlock = 64 * 1024;
  struct Finalizer {
    void* object;
    void (*destroy)(void*);
  };
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  std::vector<Finalizer> finalizers_;
  size_t block_ = kBlock, used_ = 0, capacity_ = 0, bytes_ = 0;
};

}  // namespace gramme
