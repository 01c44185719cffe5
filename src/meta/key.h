// The memo key of a call, as a flat list of words. Only meta's own sources include this.
#pragma once
#include <cstdint>
#include <vector>

#include "base/ref.h"
#include "meta/infer.h"

namespace gramme::meta {

class Key {
 public:
  /// Builds the key of a call in the thread's present state and these transform levels.
  void build(const Call& call, const std::vector<Level>& levels);

  const std::vector<uint64_t>& words() const { return words_; }
  uint64_t hash() const;
  /// Objects whose addresses are in the words; a memo entry must keep them alive.
  const std::vector<PyObject*>& objects() const { return objects_; }
  /// False if an argument cannot be identified later.
  bool memoizable() const { return memoizable_; }

 private:
  void add(uint64_t word) { words_.push_back(word); }
  void add_pointer(const void* pointer) { add(reinterpret_cast<uint64_t>(pointer)); }
  void add_held(PyObject* object);
  void add_state();
  void add_target(PyObject* target);
  void add_argument(const Argument& argument);
  void add_leaf(const Argument& leaf);
  void add_object(PyObject* object);
  void add_number(PyObject* object);
  void add_text(PyObject* object);

  std::vector<uint64_t> words_;
  std::vector<PyObject*> objects_;
  std::vector<Owned<>> strings_;            // interned copies
  std::vector<const graph::Node*> leaves_;  // distinct nodes so far
  bool memoizable_ = true;
  bool only_types_ = false;  // numbers in the present argument enter by type only
};

}  // namespace gramme::meta
