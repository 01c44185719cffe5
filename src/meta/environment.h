// The ShapeEnv in which a call runs for all sizes at once. Only meta's own sources include this (torch headers).
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

/// Thrown if a computed size has no form as an expression; the text is sympy's.
struct Inexpressible : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Thrown if a size is data-dependent.
struct OutOfData : Inexpressible {
  using Inexpressible::Inexpressible;
};

/// Each distinct expression of the call is one symbol here. The call must not depend on how it was computed, so that
/// equal calls have equal outcomes.
class Environment {
 public:
  explicit Environment(shape::Assumptions& assumptions);
  virtual ~Environment() = default;
  Environment(const Environment&) = delete;
  PyObject* get() const { return environment_.get(); }
  PyObject* shape_env() const { return shape_env_.get(); }

  /// The number in the form that operators take: a Python int or torch.SymInt.
  virtual Owned<> number(shape::Expr e);
  c10::SymInt number(shape::SymInt number);
  /// The expression of a result's number. Throws Inexpressible.
  shape::SymInt read(const c10::SymInt& number);
  /// The expression of a torch.SymInt, SymFloat or SymBool; null if it is data-dependent without an expression.
  virtual shape::Expr read(PyObject* symbolic);
  /// The conditions decided while the environment was entered, and its assumptions: other captures must check them.
  std::vector<shape::Expr> guards();

 protected:
  /// `environment` is a gramme._environment.Environment.
  Environment(shape::Assumptions& assumptions, Owned<> environment);
  /// The data-dependent symbol of that name; null if it has no form.
  virtual shape::Expr unknown(PyObject* name);
  shape::Expr convert(PyObject* sympy);
  std::vector<shape::Expr> convert_all(const char* method);
  /// Registers `made`, a pair (symbol, name), for the expression.
  Owned<> add(shape::Expr e, Owned<> made);

  shape::Assumptions& assumptions_;
  Owned<> environment_, shape_env_;
  std::unordered_map<shape::Expr, Owned<>> symbols_;
  std::unordered_map<std::string, shape::Expr> named_;

 private:
  std::vector<shape::Expr> assumed_;  // assumptions that sizes are at least one
};

/// True for a torch.SymInt, SymFloat or SymBool.
bool is_symbolic(PyObject* value);
/// Its type in Python: Int, Float or Bool.
shape::Type type_of_symbolic(PyObject* value);

}  // namespace gramme::meta
