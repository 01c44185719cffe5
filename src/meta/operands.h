// A rule's view of a call: arguments by parameter, and the results. Only meta's own sources include this.
#pragma once
#include <unordered_set>

#include "meta/argument.h"
#include "meta/geometry.h"

namespace gramme::meta {

/// Names of a target's parameters.
struct Signature {
  std::vector<PyObject*> names;
  size_t positional = 0;        // number of positional parameters
  size_t rest_from = SIZE_MAX;  // parameter that collects the remaining positional arguments
};

/// Arguments by index in the rule's signature (torch_shapes.def). Accessors throw NoRule for unexpected arguments.
class Operands {
 public:
  /// `results`: the number of tensors that the call returns.
  Operands(const Call& call, const Signature& signature, size_t results, Decisions& decide);

  Decisions& decide;
  std::vector<Geometry> results;  // by result tensor
  size_t expected() const { return expected_; }

  const Argument* at(size_t i) const { return i < arguments_.size() ? arguments_[i] : nullptr; }
  /// True if the argument is missing or None.
  bool is_absent(size_t i) const;
  bool is_tensor(size_t i) const { return at(i) && at(i)->kind == Argument::Tensor; }

  const Record& record(size_t i) const;
  Geometry tensor(size_t i) const { return Geometry(record(i)); }
  std::vector<Geometry> tensors(size_t i) const;
  /// All tensor arguments; `mixed`: whether there are Python numbers too.
  std::vector<Geometry> all_tensors(bool& mixed) const;
  Expr integer(size_t i) const { return integer_of(at(i)); }
  Expr integer(size_t i, int64_t otherwise) const { return is_absent(i) ? number(otherwise) : integer(i); }
  int64_t fixed(size_t i) const;
  int64_t fixed(size_t i, int64_t otherwise) const { return is_absent(i) ? otherwise : fixed(i); }
  bool flag(size_t i) const;
  /// Integers in a list or tuple, or given one by one from there; also a single one.
  Extents integers(size_t i) const;
  std::vector<int64_t> fixed_integers(size_t i) const;
  /// A dimension of `among`, counted from 0.
  size_t dimension(size_t i, size_t among) const { return wrapped(fixed(i), among); }
  size_t dimension(size_t i, size_t among, int64_t otherwise) const { return wrapped(fixed(i, otherwise), among); }
  static size_t wrapped(int64_t dimension, size_t among);

  Expr integer_of(const Argument* argument) const;
  static Expr integer_of(PyObject* object);
  /// True if the rule read the number. A rule does not cover numbers it never reads, since others might be refused.
  bool read(const Argument& number) const { return read_.contains(&number); }
  /// Declares that the rule holds for any number of this type.
  void take_any(const Argument& number) const { read_.insert(&number); }

 private:
  mutable std::unordered_set<const Argument*> read_;  // varying numbers that were read
  std::vector<const Argument*> arguments_, rest_;
  size_t rest_from_ = SIZE_MAX;  // first of the arguments given one by one
  size_t expected_;
};

using Rule = void (*)(Operands&);

}  // namespace gramme::meta
