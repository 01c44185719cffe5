// A part of the program that may change only objects it makes itself, such as the body of an operator that may run it
// any number of times.
//
//   Confined confined(trace.confinement, trace.inliner);  // until it is destroyed, a change of anything else ends the
//   segment
//   ... the program runs ...
//   confined.check();            // ends the segment unless every tolerated change was put back
//
// Call `runs_later()` if the part runs later than it is captured: it may then read only what is still the same at that
// time.
#pragma once
#include <functional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "value/value.h"

namespace gramme::trace {

using value::Value;
class Confinement;
class Inliner;
class Values;

class Confined {
 public:
  /// Called with (holder, name, found) for a read from a holder that may be rebound later.
  using Rebindable = std::function<void(Value*, PyObject*, Value*)>;

  Confined(Confinement& confinement, Inliner* inliner);
  ~Confined();
  Confined(const Confined&) = delete;

  /// Treats a value made inside as one from outside, because it stands for an outside object.
  void disown(const Value* made) { made_.erase(made); }
  /// Call before the value changes.
  void change(Value* target);
  /// Call before a part of the value changes that the body may put back: `attribute` is its name, if any, and `read`
  /// reads it.
  void change(Value* target, PyObject* attribute, std::function<Value*()> read);
  void check();
  /// Also forbids writes to tensors from outside.
  void forbid_writes() { writes_ = false; }
  /// Call before the tensor is written.
  void write(const value::Tensor* tensor);
  /// Also forbids writes to outside tensors, and reads that may have another result by then: of outside objects and
  /// containers, except those `kept` unchanged. `rebindable` is called for reads of names that the program may rebind.
  void runs_later(const std::unordered_set<const Value*>& kept, Rebindable rebindable) {
    kept_ = &kept;
    rebindable_ = std::move(rebindable);
    writes_ = false;
  }
  /// Call when `found` (null: nothing) was read from `owner` (null for variables of modules and functions). `holder` is
  /// the object in which it can be rebound, under `name`, or in a cell if there is no name. Defaults count as one name
  /// of their function.
  void read(const Value* owner, Value* found, Value* holder, PyObject* name) const {
    if (kept_) refuse_passing(owner, found, holder, name);
  }

 private:
  bool may_change(const Value* target) const;
  void refuse_passing(const Value* owner, Value* found, Value* holder, PyObject* name) const;
  bool is_own(const Value* value) const;
  bool lasts(Value* value) const;

  Confinement& confinement_;
  Values& values_;
  Inliner* inliner_;
  const std::unordered_set<const Value*>* kept_ = nullptr;
  Rebindable rebindable_;
  Confined* around_;
  std::unordered_set<const Value*> made_;
  struct Touched {
    const Value* target;
    const PyObject* attribute;
    std::string what;
    std::function<Value*()> read;
    Value* before;
  };
  std::vector<Touched> touched_;
  bool writes_ = true;
};

/// Tells the innermost confined part, if there is one, what the program changes, reads and writes.
class Confinement {
 public:
  explicit Confinement(Values& values) : values_(values) {}
  Confinement(const Confinement&) = delete;

  bool any() const { return innermost_ != nullptr; }
  /// Call before the program changes the value. Ends the segment in a part that may not do so.
  void changes(Value* target) {
    if (innermost_) [[unlikely]]
      innermost_->change(target);
  }
  /// The same for a part of the value that the program may put back: see Confined::change.
  template <class Read>
  void changes(Value* target, PyObject* attribute, Read&& read) {
    if (innermost_) [[unlikely]]
      innermost_->change(target, attribute, std::forward<Read>(read));
  }
  /// Call when the program has read an attribute or a variable: see Confined::read.
  void reads(const Value* owner, Value* found, Value* holder = nullptr, PyObject* name = nullptr) const {
    if (innermost_) [[unlikely]]
      innermost_->read(owner, found, holder, name);
  }
  /// Call when the program has written to the memory of a tensor.
  void writes(const value::Tensor* target) {
    if (innermost_) [[unlikely]]
      innermost_->write(target);
  }

  /// Parts being traced that receive gradients. Only their sizes, dtype and device are known, and they run under a
  /// different grad mode than they are traced with.
  int of_gradients = 0;
  bool is_of_gradients() const { return any() && of_gradients > 0; }

 private:
  friend class Confined;
  Values& values_;
  Confined* innermost_ = nullptr;
};

}  // namespace gramme::trace
