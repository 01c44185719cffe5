// The ragged sizes of jagged tensors (torch.nested) in a capture.
//
// PyTorch gives each tensor of offsets or lengths a number of its own, the nested int, which is the ragged size of all
// jagged tensors that refer to it. In a capture, records of such tensors have the number (TensorType::ragged), and
// their fakes have it as PyTorch's memo, so that fakes of jagged tensors have equal sizes where real ones do.
#pragma once
#include <Python.h>

#include <cstdint>

#include "meta/record.h"

namespace gramme::meta {

/// A number that no ragged size of this capture has.
int32_t new_ragged();
/// The number that new_ragged() gave last. Set back where a call is inferred once more, to number its sizes the same.
int32_t last_ragged();
void set_last_ragged(int32_t number);
/// True if `now` differs from `before` at most in that jagged tensors came to refer to it.
bool became_ragged(const Record* before, const Record* now);
/// The sizes of a jagged tensor whose parts are known, outermost first; the ragged one is SymInt::any().
std::vector<shape::SymInt> sizes_of_jagged(const Record& record);
/// The inner tensor that jagged tensors have their ragged size from: lengths, or else offsets; -1 if it has neither.
int ragged_part(PyObject* part_names);

/// Gives a fake its ragged size.
void set_ragged(PyObject* fake, int32_t number);
/// The record with the ragged size that the fake has by now.
const Record* with_ragged_of(const Record* record, PyObject* fake);
/// Lets a FakeTensorMode number ragged sizes as captures do.
void number_ragged_sizes(PyTypeObject* base, PyObject* mode_type);

/// Scope of one capture.
class RaggedNumbers {
 public:
  RaggedNumbers();
  ~RaggedNumbers();
  RaggedNumbers(const RaggedNumbers&) = delete;

 private:
  const int32_t outer_;
};

}  // namespace gramme::meta
