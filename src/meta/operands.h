// What a rule sees of a call, and where it puts the results. Only meta's own sources include this.
#pragma once
#include <unordered_set>

#include "meta/argument.h"
#include "meta/geometry.h"

namespace gramme::meta {

/// Names of a target's parameters.
struct Signature {
  std::vector<PyObject*> names;
  size_t positional = 0;        // so many may be given by position
  size_t rest_from = SIZE_MAX;  // the parameter that takes all positional arguments from there on
};

/// Arguments by their place in the rule's signature (torch_shapes.def). What is not as the rule wants it throws NoRule.
class Operands {
 public:
  /// `results`: how many tensors the call returns.
  Operands(const Call& call, const Signature& signature, size_t results, Decisions& decide);

  Decisions& decide;
  std::vector<Geometry> results;  // of the tensors that the call returns, as they come
  size_t expected() const { return expected_; }

  const Argument* at(size_t i) const { return i < arguments_.size() ? arguments_[i] : nullptr; }
  /// Not given, or None.
  bool is_absent(size_t i) const;
  bool is_tensor(size_t i) const { return at(i) && at(i)->kind == Argument::Tensor; }

  const Record& record(size_t i) const;
  Geometry tensor(size_t i) const { return Geometry(record(i)); }
  std::vector<Geometry> tensors(size_t i) const;
  /// Those of all places, and whether there are Python numbers besides.
  std::vector<Geometry> all_tensors(bool& mixed) const;
  Expr integer(size_t i) const { return integer_of(at(i)); }
  Expr integer(size_t i, int64_t otherwise) const { return is_absent(i) ? number(otherwise) : integer(i); }
  int64_t fixed(size_t i) const;
  int64_t fixed(size_t i, int64_t otherwise) const { return is_absent(i) ? otherwise : fixed(i); }
  bool flag(size_t i) const;
  /// Integers in a list or tuple, or all from there on; one stands for itself.
  Extents integers(size_t i) const;
  std::vector<int64_t> fixed_integers(size_t i) const;
  /// A dimension among so many, from 0.
  size_t dimension(size_t i, size_t among) const { return wrapped(fixed(i), among); }
  size_t dimension(size_t i, size_t among, int64_t otherwise) const { return wrapped(fixed(i, otherwise), among); }
  static size_t wrapped(int64_t dimension, size_t among);

  Expr integer_of(const Argument* argument) const;
  static Expr integer_of(PyObject* object);
  /// True if the rule looked at the number. It does not answer for one that it has no use for: another may be refused.
  bool read(const Argument& number) const { return read_.contains(&number); }
  /// The rule holds for any other number of the type too.
  void take_any(const Argument& number) const { read_.insert(&number); }

 private:
  mutable std::unordered_set<const Argument*> read_;  // numbers that vary
  std::vector<const Argument*> arguments_, rest_;
  size_t rest_from_ = SIZE_MAX;  // where arguments were given one by one
  size_t expected_;
};

using Rule = void (*)(Operands&);

}  // namespace gramme::meta
