// A recorded tape and the calls it answers.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "aten/spec.h"
#include "aten/state.h"
#include "native/frames.h"
#include "native/place.h"
#include "native/training.h"

namespace gramme::native {

/// What a tensor is apart from its sizes.
struct Outside {
  explicit Outside(PyObject* tensor);
  bool operator==(const Outside&) const = default;

  PyTypeObject* type;
  uint64_t keys;
  c10::ScalarType dtype;
  c10::Device device;
  int64_t rank;
  bool requires_grad, is_odd;
};

/// What a tape was recorded under, for callers without guards.
class Conditions {
 public:
  Conditions() = default;
  /// `any_sizes`: of tensors not their sizes, and of numbers only that they are some.
  Conditions(const Program& program, PyObject* const* inputs, bool any_sizes);
  bool hold(PyObject* const* inputs) const;

 private:
  bool holds(size_t input, PyObject* object) const;

  std::vector<const aten::TensorSpec*> specs_;    // by input; null if it is no tensor, or any sizes will do
  std::vector<std::optional<Outside>> outsides_;  // by input, if any sizes will do
  std::vector<bool> numbers_;                     // by input, if any sizes will do
  std::vector<std::pair<size_t, size_t>> same_;
  std::optional<aten::GlobalState> state_;
};

struct Recorded {
  explicit Recorded(Conditions conditions) : conditions(std::move(conditions)) {}
  /// Runs the tape: new references to what it leaves at `wanted`, of its output, go to `outputs`. Throws; what an
  /// operator threw as a PythonError. `failed`: see note_origin. False, and nothing has happened, if a number that it
  /// computes from the inputs alone has no value: it takes more than 64 bits, or Python raises.
  bool call(PyObject* const* inputs, std::span<const Place> wanted, PyObject** outputs, size_t* failed);

  /// The same with a backward of gramme's own: all of the output, or its items. False: not this time.
  bool train(PyObject* const* inputs, bool whole, PyObject** outputs, size_t* failed);

  Conditions conditions;
  std::shared_ptr<const Tape> tape;
  std::shared_ptr<Training> training;  // may be null
  std::string why_not_training;
  FramePool frames;
};

/// The value of a dotted name below a module; parameters and buffers are found without Python. Throws PythonError.
Owned<> module_attribute(PyObject* module, PyObject* dotted);
/// Tells the step that the exception which is set came from: its node in `*failed`, or if that is null in a note.
void note_origin(const Program& program, size_t step, size_t* failed);

}  // namespace gramme::native
