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

/// It computed with what comes out of data.
struct OutOfData : Inexpressible {
  using Inexpressible::Inexpressible;
};

/// Each distinct expression of the call is a symbol here: how it was computed is none of the call's business, and
/// equal calls have the same answer.
class Environment {
 public:
  explicit Environment(shape::Assumptions& assumptions);
  virtual ~Environment() = default;
  Environment(const Environment&) = delete;
  PyObject* get() const { return environment_.get(); }
  PyObject* shape_env() const { return shape_env_.get(); }

  /// As operators take it: a Python int or torch.SymInt.
  virtual Owned<> number(shape::Expr e);
  c10::SymInt number(shape::SymInt number);
  /// The same of a result. Throws Inexpressible.
  shape::SymInt read(const c10::SymInt& number);
  /// The expression of a torch.SymInt, SymFloat or SymBool; null if it is data to the capture.
  virtual shape::Expr read(PyObject* symbolic);
  /// What was found true while it was entered, and what it took for granted: other captures may not know it.
  std::vector<shape::Expr> guards();

 protected:
  /// `environment` is a gramme._environment.Environment.
  Environment(shape::Assumptions& assumptions, Owned<> environment);
  /// The symbol of that name, which a call has taken out of data; null if it has no form.
  virtual shape::Expr unknown(PyObject* name);
  shape::Expr convert(PyObject* sympy);
  std::vector<shape::Expr> convert_all(const char* method);
  /// (symbol, its name), which stands for the expression from now on.
  Owned<> add(shape::Expr e, Owned<> made);

  shape::Assumptions& assumptions_;
  Owned<> environment_, shape_env_;
  std::unordered_map<shape::Expr, Owned<>> symbols_;
  std::unordered_map<std::string, shape::Expr> named_;

 private:
  std::vector<shape::Expr> assumed_;  // that sizes are one at least
};

/// True for a torch.SymInt, SymFloat or SymBool.
bool is_symbolic(PyObject* value);
/// What it is to Python: Int, Float or Bool.
shape::Type type_of_symbolic(PyObject* value);

}  // namespace gramme::meta
