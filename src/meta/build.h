// Builds the arguments of a call as Python objects, with leaves supplied by a callback.
#pragma once
#include <functional>

#include "base/ref.h"
#include "meta/argument.h"

namespace gramme::meta {

class Builder {
 public:
  /// Returns the object for a Tensor or Number leaf.
  using Leaf = std::function<Owned<>(const Argument&)>;
  explicit Builder(Leaf leaf) : leaf_(std::move(leaf)) {}

  Owned<> args(const Call& call) const { return tuple_of(call.args, call.arg_count); }
  /// The keyword arguments as a dict; null if there are none.
  Owned<> kwargs(const Call& call) const;

 private:
  Owned<> build(const Argument& argument) const;
  Owned<> build_tuple(const Argument& argument) const;
  Owned<> tuple_of(const Argument* items, uint32_t count) const;

  Leaf leaf_;
};

/// Makes the call with warnings and logs suppressed (silence.h). A new reference, or null with the error set.
PyObject* run_silently(const Call& call, PyObject* args, PyObject* kwargs);

}  // namespace gramme::meta
