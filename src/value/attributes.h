// A value's attributes by name, in the order in which they were found or written. A null value means deleted.
#pragma once
#include <Python.h>

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace gramme::value {

struct Value;

struct Attribute {
  PyObject* name;  // interned
  Value* value;
};

class Attributes {
 public:
  using Rows = std::vector<Attribute>;
  size_t size() const { return rows_.size(); }
  bool empty() const { return rows_.empty(); }
  Rows::iterator begin() { return rows_.begin(); }
  Rows::iterator end() { return rows_.end(); }
  Rows::const_iterator begin() const { return rows_.begin(); }
  Rows::const_iterator end() const { return rows_.end(); }
  Attribute* data() { return rows_.data(); }
  const Attribute& at(size_t i) const { return rows_.at(i); }
  void push_back(Attribute attribute) { rows_.push_back(attribute); }
  void erase(Rows::iterator at) {
    rows_.erase(at);
    places_.clear();
    indexed_ = 0;
  }

  /// The entry under an interned name, or null. Constant time, apart from entries added since the last call.
  friend const Attribute* find(const Attributes& attributes, PyObject* name) {
    size_t at = attributes.place_of(name);
    return at < attributes.size() ? &attributes.rows_[at] : nullptr;
  }
  friend Attribute* find(Attributes& attributes, PyObject* name) {
    size_t at = attributes.place_of(name);
    return at < attributes.size() ? &attributes.rows_[at] : nullptr;
  }

 private:
  static constexpr size_t kLinear = 16;  // up to this size linear search is faster
  size_t place_of(PyObject* name) const;
  Rows rows_;
  mutable std::unordered_map<PyObject*, size_t> places_;  // index of the first `indexed_` entries
  mutable size_t indexed_ = 0;
};

}  // namespace gramme::value
