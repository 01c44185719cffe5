// A part of the program that may change only what it makes itself: a body that an operator runs as often as it likes.
//
//   Confined confined(capture);   // until it dies: a change of anything else ends the segment
//   ... the program runs ...
//   confined.check();             // but for what was put back
//
// Where the part runs later than it is captured, `runs_later()`: it may read only what is the same then.
#pragma once
#include <functional>
#include <string>
#include <unordered_set>
#include <vector>

#include "value/value.h"

namespace gramme::trace {

using value::Value;
class Capture;

class Confined {
 public:
  /// (holder, name, found): it was read of what another one can be put in.
  using Rebindable = std::function<void(Value*, PyObject*, Value*)>;

  explicit Confined(Capture& capture);
  ~Confined();
  Confined(const Confined&) = delete;

  void add(const Value* made) { made_.insert(made); }
  /// It stands for something outside.
  void disown(const Value* made) { made_.erase(made); }
  /// The value is about to change.
  void change(Value* target);
  /// A part of it is, under this name if it has one, which is read by `read`: it may be put back.
  void change(Value* target, PyObject* attribute, std::function<Value*()> read);
  void check();
  /// Nor may a tensor from outside be written.
  void forbid_writes() { writes_ = false; }
  /// The tensor is about to be written.
  void write(const value::Tensor* tensor);
  /// Nor may it write to tensors that it did not make, or read what may be another thing by then: objects and
  /// containers that it did not make, but for those `kept` as they are. What a module or a cell holds under a name
  /// counts as lasting, if it is a module; `rebindable` is asked about what the program may bind anew.
  void runs_later(const std::unordered_set<const Value*>& kept, Rebindable rebindable) {
    kept_ = &kept;
    rebindable_ = std::move(rebindable);
    writes_ = false;
  }
  /// Something, null if there is nothing, was read of the owner, null for the variables of modules and functions. The
  /// holder, if any, is what another thing can be put in later, under the name or, without, as into a cell. Defaults
  /// are read of functions, under the name of all of them.
  void read(const Value* owner, Value* found, Value* holder, PyObject* name) const {
    if (kept_) refuse_passing(owner, found, holder, name);
  }

 private:
  bool may_change(const Value* target) const;
  void refuse_passing(const Value* owner, Value* found, Value* holder, PyObject* name) const;
  bool is_own(const Value* value) const;
  bool lasts(Value* value) const;

  Capture& capture_;
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

}  // namespace gramme::trace
