// A module's variable that is read often. It is looked up again only when its place in the module's dict may have
// changed.
//
//   static Variable enabled;
//   enabled.set(module_dict, name);
//   if (enabled.value() == Py_True) ...
#pragma once
#include <array>

#include "cpython/features.h"
#include "cpython/objects.h"

namespace gramme::cpython {

class Variable {
 public:
  /// Keeps references to both forever.
  void set(PyObject* dict, PyObject* name) {
    dict_ = share(dict).release();
    name_ = share(name).release();
    look();
  }
  bool is_set() const { return dict_; }
  /// The variable's value, borrowed; null if there is no such variable.
  [[gnu::always_inline]] PyObject* value() {
#if GRAMME_PYTHON_DICT_VERSIONS
    if (dict_version(dict_) != version_) [[unlikely]]
      look();
    return value_;
#else
    for (size_t i = 0; i < kWords; ++i)
      if (*addresses_[i] != words_[i]) return look();
    return address_ && *address_ ? *address_ : look();
#endif
  }

 private:
#if GRAMME_PYTHON_DICT_VERSIONS
  [[gnu::cold]] PyObject* look() {
    version_ = dict_version(dict_);
    return dict_lookup(dict_, name_, &value_) == Lookup::Found ? value_ : value_ = nullptr;
  }
  uint64_t version_ = 0;
  PyObject* value_ = nullptr;
#else
  [[gnu::cold]] PyObject* look() {
    Words words;
    dict_table_words(dict_, words);
    for (size_t i = 0; i < kWords; ++i) words_[i] = *(addresses_[i] = words.at(i));
    address_ = dict_value_address(dict_, name_);
    return address_ ? *address_ : nullptr;
  }
  static constexpr size_t kWords = 3;  // of dict_table_words()
  std::array<const uint64_t*, kWords> addresses_{};
  std::array<uint64_t, kWords> words_{};
  PyObject** address_ = nullptr;
#endif
  PyObject *dict_ = nullptr, *name_ = nullptr;
};

}  // namespace gramme::cpython
