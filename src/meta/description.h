// Describes what a call on fakes returned. Only meta's own sources include this.
#pragma once

#include <string>
#include <vector>

#include "aten/python.h"
#include "meta/batched.h"
#include "meta/fakes.h"
#include "meta/infer.h"
#include "meta/wrapped.h"

namespace gramme::meta {

/// A distinct tensor among the call's leaves.
struct FakeInput {
  const graph::Node* node;
  int leaf;  // its first index among the tensor leaves
  const Record* record;
  Owned<> fake;
  const Record* before = nullptr;  // the fake's record before the call, if sizes vary
  int64_t version = 0;
  const c10::StorageImpl* storage;
  Parts parts = {};  // a wrapper's inner tensors

  bool shares(const c10::StorageImpl* other) const;
  const at::Tensor& tensor() const { return aten::tensor_of(fake.get()); }
  at::Tensor physical() const { return innermost(tensor()); }
};

/// The type that the fake stands for: torch.Tensor or Parameter.
PyTypeObject* type_of_fake(PyObject* fake);

class Description {
 public:
  /// `environment` is null if all sizes are numbers. `has_number`: the call takes varying numbers, so returned ones may
  /// vary.
  Description(const std::vector<FakeInput>& inputs, Environment* environment, bool has_number)
      : inputs_(inputs), environment_(environment), has_number_(has_number) {}

  /// Describes the value; false if it cannot be described.
  bool describe(PyObject* value, Result& result);

  std::string message;  // why it cannot be described

 private:
  bool describe_sequence(PyObject* value, Result& result);
  bool describe_tensor(PyObject* value, Result& result);
  bool describe_wrapper(PyObject* value, Result& result);
  Result::Part find_part(const c10::TensorImpl* tensor) const;
  void find_shared(const Parts& parts, Result& result) const;

  const std::vector<FakeInput>& inputs_;
  Environment* environment_;
  bool has_number_;
};

}  // namespace gramme::meta
