// Records the words of a bound form while the program is walked.
#pragma once
#include "plan/bound.h"

namespace gramme::plan {

class Recorder {
 public:
  /// Words go to the block's recording; marks and registers are written in place.
  Recorder(Block& block, PyObject** registers);
  /// Reads steps [first, last) and checks their facts. The block's roots find their object in the register.
  bool record(uint32_t first, uint32_t last);

 private:
  bool record_step(uint32_t index);
  /// How the child was found. True if a stamp of the base covers it.
  bool add_fetch(const Step& step, PyObject* base, PyObject* value);
  bool add_attribute(const Step& step, PyObject* base, PyObject* value);
  void add_absent_inline(PyObject* base);
  bool add_immutable_field(const Step& step, PyObject* const* address, PyObject* value);
  bool add_closure(const Step& step, PyObject* function, PyObject* value);
  void add_object(const Step& step, PyObject* object, bool stamped);
  void add_type(const Step& step, PyObject* object, bool stamped);
  void add_content(const Step& step, PyObject* object);
  void add_size(PyObject* object);
  void add_attributes(PyObject* object);
  void add_members(PyObject* set);
  void add_class_tag(PyObject* type);

  void add(const void* address, uint64_t expected, Cause cause);
  void add_pointer(PyObject* const* address, PyObject* value);
  void add_number(const void* address, Cause cause);
  /// A word that always differs.
  void add_marks(PyObject* tensor);
  void add_registrations();
  void add_subclasses(PyObject* cls);
  void add_field(const Check& check, PyObject* object);
  void add_unstamped();
  Mark& mark(uint32_t step) { return block_.marks_[step - block_.begin_]; }

  Block& block_;
  const Program& program_;
  PyObject** registers_;
  uint32_t index_ = 0;  // the step being recorded
};

extern const uint64_t kNever;  // the address of a word that always differs

}  // namespace gramme::plan
