// Walks the program and records the words of a bound form.
#pragma once
#include "plan/bound.h"

namespace gramme::plan {

class Recorder {
 public:
  /// Words go to the block's buffer; marks and registers are written in place.
  Recorder(Block& block, PyObject** registers);
  /// Reads steps [first, last) and checks their facts. Roots take their object from the register.
  bool record(uint32_t first, uint32_t last);

 private:
  bool record_step(uint32_t index);
  /// Adds words for how the child was found. True if words of the base vouch for the child and keep it alive.
  bool add_fetch(const Step& step, PyObject* base, PyObject* value);
  void add_field(PyObject* const* address, PyObject* value);
  void add_fixed_field(const Step& step, PyObject* const* address, PyObject* value);
  bool add_by_kind(const Step& step, PyObject* base, PyObject* value);
  template <source::Kind kind>
  bool add_own(const Step& step, PyObject* base, PyObject* value) = delete;
  void add_absent_inline(PyObject* base);

  void add_object(const Step& step, PyObject* object, bool stamped);
  void add_type(const Step& step, PyObject* object, bool stamped);
  void add_content(const Step& step, PyObject* object);
  /// Adds what shows that the needed parts of a dict are unchanged. True if it stands for all that the dict holds, and
  /// keeps it alive.
  bool add_dict(PyObject* dict, uint32_t needs);
  bool add_watch(PyObject* dict);
  bool is_stamped(int32_t step, PyObject* dict) const;
  void add_table(PyObject* dict, uint32_t needs);
  bool add_entry(int32_t step, PyObject* dict, PyObject* key, PyObject* value);
  void hold_key(Owned<> key);
  void add_size(PyObject* object);
  void add_attributes(PyObject* object, uint32_t needs);
  void add_members(PyObject* set);
  void add_class_tag(PyObject* type);
  void add_marks(PyObject* tensor);
  void add_own_names(PyObject* object);
  void add_registrations();
  void add_subclasses(PyObject* cls);

  void add(const void* address, uint64_t expected, Cause cause);
  void add_pointer(PyObject* const* address, PyObject* value);
  void add_number(const void* address, Cause cause);
  /// Adds a word that always differs, so that the step's children are looked up in every check.
  void add_unstamped();
  /// The same, and the step itself is read in every check.
  void add_unknown();
  Mark& mark(uint32_t step) { return block_.marks_[step - block_.begin_]; }

  Block& block_;
  const Program& program_;
  PyObject** registers_;
  uint32_t first_ = 0, index_ = 0;  // the first step that is recorded, and the current one
};

// In recorder_dicts.cpp.
template <>
bool Recorder::add_own<source::Kind::Attr>(const Step& step, PyObject* base, PyObject* value);
template <>
bool Recorder::add_own<source::Kind::Value>(const Step& step, PyObject* base, PyObject* value);
template <>
bool Recorder::add_own<source::Kind::KeyAt>(const Step& step, PyObject* base, PyObject* value);
template <>
bool Recorder::add_own<source::Kind::ValueAt>(const Step& step, PyObject* base, PyObject* value);

extern const uint64_t kNever;  // the address of a word that always differs

}  // namespace gramme::plan
