// A call as every program makes it that has the same operands at other sizes. Only meta's own sources include this.
#pragma once
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "base/arena.h"
#include "meta/infer.h"

namespace gramme::meta {

/// True if a size, a stride, an offset or a number of the call is an expression.
bool takes_expressions(const Call& call);

/// The outcome of a call whose sizes must be numbers.
Outcome inexpressible(const char* why);

/// The call with one atom, a symbol of its own, for each distinct expression: v0, v1 … as they come. Numbers of which
/// only the type matters are plain ones.
class Pattern {
 public:
  Pattern(const Call& call, shape::Assumptions& assumptions);
  Pattern(const Pattern&) = delete;

  /// Why there is none; null if there is one.
  const char* refused() const { return refused_; }
  const Call& call() const { return call_; }
  /// What every user of the pattern's outcome may be told: what the atoms are now, and which are one at least.
  shape::Assumptions& assumptions() { return atoms_; }
  /// An outcome of call() for the call that the pattern was made of.
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
  std::vector<shape::Expr> expressions_;  // by atom
  shape::Assumptions atoms_;
  Arena arena_;
  Call call_;
  const char* refused_ = nullptr;
};

/// The call with its expressions at their values of now.
class CallNow {
 public:
  CallNow(const Call& call, shape::Assumptions& assumptions);
  const Call& call() const { return call_; }

 private:
  std::vector<Owned<>> numbers_;
  Arena arena_;
  Call call_;
};

/// True if the one, at the present sizes, is what the other is on numbers.
bool agree(const Outcome& general, const Outcome& on_numbers, shape::Assumptions& assumptions);

}  // namespace gramme::meta
