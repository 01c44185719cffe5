// The pattern of a call: shared by all calls that differ only in their expressions for sizes. Only meta's own sources
// include this.
#pragma once
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "base/arena.h"
#include "meta/infer.h"

namespace gramme::meta {

/// True if a size, a stride, an offset or a number of the call is an expression.
bool takes_expressions(const Call& call);

/// The error outcome of a call whose sizes must be numbers.
Outcome inexpressible(const char* why);

/// The call with an atom (v0, v1 … in order) for each distinct expression. Numbers of which only the type matters
/// become plain numbers.
class Pattern {
 public:
  Pattern(const Call& call, shape::Assumptions& assumptions);
  Pattern(const Pattern&) = delete;

  /// Why there is no pattern; null if there is one.
  const char* refused() const { return refused_; }
  const Call& call() const { return call_; }
  /// Assumptions about the atoms: their present values, and which are at least one.
  shape::Assumptions& assumptions() { return atoms_; }
  /// The outcome of call() translated back to the original call.
  Outcome instantiated(const Outcome& general) const;

 private:
  Argument abstract(const Argument& argument);
  shape::SymInt abstract(shape::SymInt number);
  shape::Expr atom(shape::Expr e);
  shape::Expr concrete(shape::Expr general) const;
  bool instantiate(Result& result) const;
  bool instantiate(const Record*& record) const;

  shape::Assumptions& assumptions_;
  std::unordered_set<const Argument*> only_types_;  // numbers
  std::unordered_map<shape::Expr, shape::Expr> known_;
  std::vector<shape::Expr> expressions_;  // expression of each atom
  shape::Assumptions atoms_;
  Arena arena_;
  Call call_;
  const char* refused_ = nullptr;
};

/// The call with expressions replaced by their present values.
class CallNow {
 public:
  CallNow(const Call& call, shape::Assumptions& assumptions);
  const Call& call() const { return call_; }

 private:
  std::vector<Owned<>> numbers_;
  Arena arena_;
  Call call_;
};

/// True if the general outcome, at the present sizes, equals that on numbers.
bool agree(const Outcome& general, const Outcome& on_numbers, shape::Assumptions& assumptions);

}  // namespace gramme::meta
