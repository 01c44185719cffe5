// Makes the values of a capture, keeps the real objects behind them alive, and leads from a lazy value to what it
// stands for.
//
//   Value* sum = values.integer(3);
//   Value* x = values.wrap(object, source);   // Lazy: nothing looked into yet
//   Value* seen = values.see(x);              // its kind; the same value each time
//
// All values live until the end of the capture, and so do the objects. What a real object becomes is for whoever
// implements realize(): a capture, which guards what it looks at.
#pragma once
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/arena.h"
#include "base/error.h"
#include "base/stack.h"
#include "value/value.h"

namespace gramme::trace {

using source::Source;
using value::Value;

class Values {
 public:
  Values();
  virtual ~Values() = default;
  Values(const Values&) = delete;

  Arena arena;

  // ---- new values
  template <class T, class... A>
  T* make(A&&... a) {
    T* made = arena.make<T>(std::forward<A>(a)...);
    if constexpr (std::is_base_of_v<Value, T>)
      if (collected_) [[unlikely]]
        collect(made);
    return made;
  }
  Value* constant(PyObject* object);  // shares it
  Value* constant(Owned<> object);
  Value* none() const { return none_; }
  Value* boolean(bool b) const { return b ? true_ : false_; }
  Value* null() const { return null_; }
  Value* integer(int64_t n);
  Value* text(const std::string& s);
  value::Tuple* tuple(std::vector<Value*> items);
  value::List* list(std::vector<Value*> items);
  value::Dict* dict() { return make<value::Dict>(); }
  /// The value of a constant of a code object; one value for one container (trace/literals.h).
  Value* literal(PyObject* object);
  /// The value of a real object that a pure C function made of constants: a constant, or a new container of constants.
  Value* adopt(Owned<> object);
  /// A lazy value for a real object at a source; nothing is guarded yet.
  Value* wrap(PyObject* object, const Source* source);

  // ---- real objects
  /// Keeps a real object alive until the end of the capture.
  PyObject* keep(Owned<> object);
  /// The number of references to the object that the capture itself holds.
  Py_ssize_t references_to(PyObject* object) const;

  // ---- looking into values
  /// The value behind a Lazy, with the guards of looking into it; never a Lazy itself. All recursion into values passes
  /// through here, so this also checks the stack.
  Value* see(Value* value) {
    need_room();
    return value->kind == value::Kind::Lazy ? force(static_cast<value::Lazy*>(value)) : value;
  }
  template <class T>
  T* see_as(Value* value) {
    return value::as<T>(see(value));
  }
  /// Call before recursing: ends the segment if the thread's stack is nearly used up.
  void need_room() const {
    if (reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) < lowest_) [[unlikely]]
      gramme::need_room();
  }
  /// Scope of one level of recursion into a value. A container may contain itself, so depth is limited.
  class Deeper {
   public:
    explicit Deeper(Values& values) : values_(values) {
      if (values.nesting_ > kDeepest) cannot(Reason::TooDeep);
      values.need_room();
      ++values.nesting_;
    }
    ~Deeper() { --values_.nesting_; }
    Deeper(const Deeper&) = delete;

   private:
    static constexpr int kDeepest = 500;
    Values& values_;
  };

  // ---- who made what
  using Made = std::unordered_set<const Value*>;
  /// Adds each value to the set that is made from here on; null ends that. Returns the set before.
  Made* collect_into(Made* made) { return std::exchange(collected_, made); }

 protected:
  /// The value of a real object that is looked into for the first time.
  virtual Value* realize(PyObject* object, const Source* source) = 0;
  /// What adopt() makes of an object that is neither a constant nor a container, such as a class.
  virtual Value* adopt_held(Owned<> object) { return constant(std::move(object)); }

 private:
  Value* force(value::Lazy* lazy);
  void collect(const Value* made);

  Made* collected_ = nullptr;
  std::vector<Owned<>> kept_;
  Value *none_, *true_, *false_, *null_;
  std::unordered_map<PyObject*, Value*> literals_;
  int nesting_ = 0;
  const uintptr_t lowest_ = lowest_with(Room::Capture);  // lowest stack address that a capture may reach
};

}  // namespace gramme::trace
