// What an operator does whatever its arguments. Only meta's own sources include this.
#pragma once
#include <ATen/core/operator_name.h>
#include <Python.h>

#include <utility>
#include <vector>

#include "meta/targets.h"

namespace gramme::meta {

/// What an operator does, from its schema, tags and our tables.
struct Traits {
  bool random = false;
  bool raises = true;
  bool integers = false;
  Numbers numbers = Numbers::Any;
  Warns warns = Warns::Never;
  bool opaque = true;                              // no schema says what it writes
  bool composite = false;                          // made of other operators
  bool python = false;                             // has kernels in Python that see more than their arguments
  bool own = false;                                // PyTorch's alone
  bool faked = true;                               // fakes tell what it returns
  int dropout = -1;                                // position of dropout_p: random only if it is not 0
  int training = -1;                               // position of `training`: writes only if true
  int indices = -1;                                // position of the indices that are written at
  std::vector<std::pair<int, PyObject*>> written;  // positions and names of written arguments
};

/// With data. Assumed true for operators outside ATen.
bool may_raise(const c10::OperatorName& op);
/// The traits of an OpOverload. The reference holds until an operator gets another kernel in Python.
const Traits& traits_of(PyObject* op);

}  // namespace gramme::meta
