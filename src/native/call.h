// A recorded tape, with the conditions under which a call may use it.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "aten/spec.h"
#include "aten/state.h"
#include "tape/frames.h"
#include "tape/place.h"
#include "training/training.h"

namespace gramme::native {

/// True for a tensor of no subclass in whose operators neither Python code nor functorch takes part; false for null.
bool is_plain_tensor(PyObject* object);

/// Properties of a tensor other than its sizes.
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

/// The conditions of a recording, checked for callers without guards.
class Conditions {
 public:
  Conditions() = default;
  /// `any_sizes`: sizes of tensors and values of numbers do not count. `any_hooks`: hooks of saved tensors do not.
  Conditions(const Program& program, PyObject* const* inputs, bool any_sizes, bool any_hooks);
  bool hold(PyObject* const* inputs) const;

 private:
  bool holds(size_t input, PyObject* object) const;
  aten::GlobalState state() const;

  std::vector<const aten::TensorSpec*> specs_;    // by input; null if it is no tensor, or under any_sizes
  std::vector<std::optional<Outside>> outsides_;  // by input, if any sizes will do
  std::vector<bool> numbers_;                     // by input, if any sizes will do
  std::vector<std::pair<size_t, size_t>> same_;
  bool any_hooks_ = false;
  std::optional<aten::GlobalState> state_;
};

struct Recorded {
  explicit Recorded(Conditions conditions) : conditions(std::move(conditions)) {}
  /// Runs the tape and stores new references to the values at `wanted` in `outputs`. Throws, for an operator's
  /// exception PythonError. `failed`: see note_origin. Returns false, without effects, if a number computed from the
  /// inputs alone has no value: it exceeds 64 bits, or Python would raise.
  bool call(PyObject* const* inputs, std::span<const Place> wanted, PyObject** outputs, size_t* failed);

  /// The same with a recorded backward; outputs are the whole output, or its items. False if this call cannot be made
  /// that way. `arguments`: see ForwardCall::note.
  bool train(PyObject* const* inputs, bool whole, PyObject** outputs, size_t* failed,
             std::span<const size_t> arguments = {});

  Conditions conditions;
  std::shared_ptr<const Tape> tape;
  std::shared_ptr<Training> training;  // may be null
  std::string why_not_training;
  FramePool frames;
};

/// The attribute of a dotted name below a module; finds parameters and buffers without running Python. Throws
/// PythonError.
Owned<> module_attribute(PyObject* module, PyObject* dotted);
/// Records the step that raised the exception which is set: its node in `*failed`, or a note on the exception if
/// `failed` is null.
void note_origin(const Program& program, size_t step, size_t* failed);

}  // namespace gramme::native
