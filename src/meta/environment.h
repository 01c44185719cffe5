// The ShapeEnv in which one call is run for all sizes at once. Only meta's own sources include this (torch headers).
#pragma once
#include <ATen/core/Tensor.h>

#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/ref.h"
#include "meta/record.h"
#include "shape/assumptions.h"

namespace gramme::meta {

/// What the operators computed has no form as an expression; the text is sympy's.
struct Inexpressible : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Each distinct expression of the call is a symbol here: how it was computed is none of the call's business, and
/// equal calls have the same answer.
class Environment {
 public:
  explicit Environment(shape::Assumptions& assumptions);
  PyObject* get() const { return environment_.get(); }
  PyObject* shape_env() const { return shape_env_.get(); }

  /// As operators take it: a Python int or torch.SymInt.
  Owned<> number(shape::Expr e);
  c10::SymInt number(shape::SymInt number);
  /// The same of a result. Throws Inexpressible.
  shape::SymInt read(const c10::SymInt& number) const;
  /// Of a torch.SymInt, SymFloat or SymBool.
  shape::Expr read(PyObject* symbolic) const;
  /// What was found true while it was entered, and what it took for granted: other captures may not know it.
  std::vector<shape::Expr> guards() const;

 private:
  shape::Expr convert(PyObject* sympy) const;

  shape::Assumptions& assumptions_;
  Owned<> environment_, shape_env_;
  std::unordered_map<shape::Expr, Owned<>> symbols_;
  std::vector<shape::Expr> assumed_;  // that sizes are one at least
  std::unordered_map<std::string, shape::Expr> named_;
};

/// Is it a torch.SymInt, SymFloat or SymBool?
bool is_symbolic(PyObject* value);

}  // namespace gramme::meta
