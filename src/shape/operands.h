// Prepares the operands of a new expression node.
#pragma once
#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <type_traits>

#include "shape/expression.h"

namespace gramme::shape {

/// A vector of operands with room for six inline; few expressions have more.
class Operands {
 public:
  Operands() = default;
  Operands(std::initializer_list<Operand> operands) { append(operands); }
  Operands(const Operands& other) { append(other); }
  Operands& operator=(const Operands& other) {
    if (this == &other) return *this;
    size_ = 0;
    append(other);
    return *this;
  }
  ~Operands() {
    if (data_ != here()) std::allocator<Operand>().deallocate(data_, capacity_);
  }

  Operand* begin() { return data_; }
  Operand* end() { return data_ + size_; }
  const Operand* begin() const { return data_; }
  const Operand* end() const { return data_ + size_; }
  Operand* data() { return data_; }
  const Operand* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  Operand& operator[](size_t at) { return data_[at]; }
  const Operand& operator[](size_t at) const { return data_[at]; }
  Operand& back() { return data_[size_ - 1]; }

  void push_back(Operand operand) {
    if (size_ == capacity_) grow(size_ + 1);
    std::construct_at(data_ + size_++, operand);
  }
  /// `others` must not be part of this vector.
  void append(std::span<const Operand> others) {
    if (size_ + others.size() > capacity_) grow(size_ + others.size());
    std::uninitialized_copy(others.begin(), others.end(), end());
    size_ += others.size();
  }
  /// Only shrinks.
  void resize(size_t size) { size_ = size; }
  void erase(Operand* first, Operand* last) { size_ = static_cast<size_t>(std::copy(last, end(), first) - data_); }

 private:
  static_assert(std::is_trivially_copyable_v<Operand>);
  static constexpr size_t kInPlace = 6;

  Operand* here() { return reinterpret_cast<Operand*>(in_place_); }
  void grow(size_t least) {
    const size_t capacity = std::max(least, 2 * capacity_);
    Operand* data = std::allocator<Operand>().allocate(capacity);
    std::uninitialized_copy(begin(), end(), data);
    if (data_ != here()) std::allocator<Operand>().deallocate(data_, capacity_);
    data_ = data;
    capacity_ = capacity;
  }

  alignas(Operand) std::byte in_place_[kInPlace * sizeof(Operand)];
  Operand* data_ = here();
  size_t size_ = 0, capacity_ = kInPlace;
};

}  // namespace gramme::shape
