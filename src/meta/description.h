// What a call on fakes returned, described. Only meta's own sources include this.
#pragma once

#include <string>
#include <vector>

#include "aten/python.h"
#include "meta/batched.h"
#include "meta/fakes.h"
#include "meta/infer.h"
#include "meta/wrapped.h"

namespace gramme::meta {

/// One distinct tensor of the call.
struct FakeInput {
  const graph::Node* node;
  int leaf;  // its first place among the tensor leaves
  const Record* record;
  Owned<> fake;
  const Record* before = nullptr;  // what is read of the fake while nothing has happened, where sizes vary
  int64_t version = 0;
  const c10::StorageImpl* storage;
  Parts parts = {};  // of a wrapper

  bool shares(const c10::StorageImpl* other) const;
  const at::Tensor& tensor() const { return aten::tensor_of(fake.get()); }
  at::Tensor physical() const { return innermost(tensor()); }
};

/// torch.Tensor or Parameter.
PyTypeObject* type_of_fake(PyObject* fake);

class Description {
 public:
  /// `environment` is null where sizes are numbers; `has_number`: the call takes some, and any it returns may be
  /// another.
  Description(const std::vector<FakeInput>& inputs, Environment* environment, bool has_number)
      : inputs_(inputs), environment_(environment), has_number_(has_number) {}

  /// False if the value cannot be described.
  bool describe(PyObject* value, Result& result);

  std::string message;  // why it cannot

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
