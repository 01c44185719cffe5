// Properties of an operator that do not depend on its arguments. Only meta's own sources include this.
#pragma once
#include <ATen/core/operator_name.h>
#include <Python.h>

#include <utility>
#include <vector>

#include "meta/targets.h"

namespace gramme::meta {

/// Traits from the operator's schema, its tags, and gramme's tables.
struct Traits {
  bool random = false;
  bool raises = true;
  bool integers = false;
  Numbers numbers = Numbers::Any;
  Warns warns = Warns::Never;
  bool opaque = true;                              // no schema, so writes are unknown
  bool composite = false;                          // composite implicit
  bool python = false;                             // has Python kernels that may see more than their arguments
  bool own = false;                                // PyTorch's, without kernels of others
  bool faked = true;                               // fakes can infer it
  int dropout = -1;                                // index of dropout_p: random only if not 0
  int training = -1;                               // index of `training`: writes only if true
  int indices = -1;                                // index of the indices of a write
  std::vector<std::pair<int, PyObject*>> written;  // indices and names of written arguments
};

/// True if the operator may raise for some data; assumed for operators outside ATen.
bool may_raise(const c10::OperatorName& op);
/// The traits of an OpOverload. The reference is valid until a Python kernel is registered.
const Traits& traits_of(PyObject* op);

}  // namespace gramme::meta
