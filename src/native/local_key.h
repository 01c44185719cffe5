// What a run of steps on distributed tensors depends on, beside the numbers in its tensors.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <span>
#include <vector>

#include "aten/state.h"
#include "aten/tensor_type.h"
#include "base/ref.h"
#include "tape/composites.h"

namespace gramme::native {

/// An input of such a run.
struct LocalInput {
  const aten::TensorType* type;  // of a plain tensor, or of a distributed tensor's local one; null: no tensor
  Owned<> object;                // the specification of a distributed tensor, or what is no tensor; null: plain
  bool requires_grad;

  bool is_distributed() const { return type && object; }
  bool operator==(const LocalInput& other) const;
};

struct LocalKey {
  /// Adds the plain or local tensors to `locals`, undefined for what is no tensor. Nullopt if such a run must be left
  /// to DTensor's dispatch now: something sees its steps, or what autograd saves. Throws PythonError.
  static std::optional<LocalKey> read(std::span<PyObject* const> inputs, std::vector<at::Tensor>& locals);
  bool operator==(const LocalKey& other) const;

  std::vector<LocalInput> inputs;
  bool differentiable = false;  // a gradient may be asked for
  aten::GlobalState state;
  KernelSettings settings;
  Owned<> cheapest, plain;  // how redistributions are planned: values of DTensor's settings
};

/// The local tensor of a distributed one, which may be a wrapper that waits. Throws PythonError.
Owned<> local_of(PyObject* distributed);
/// The specification of a distributed tensor. Throws PythonError.
Owned<> spec_of(PyObject* distributed);
/// True for a distributed tensor of no subclass.
bool is_distributed(PyObject* object);
/// A distributed tensor without history. Throws PythonError.
Owned<> distributed(const at::Tensor& local, PyObject* spec);

}  // namespace gramme::native
