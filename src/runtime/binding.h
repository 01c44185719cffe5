// Binding a call's arguments to a function's parameters without a frame, by CPython's rules.
//
//   BoundArguments bound(code->co_nlocalsplus);
//   if (binder.bind(function, args, nargs, kwnames, bound)) use(bound.locals());
//   else call the function really: it raises CPython's own TypeError
#pragma once
#include <Python.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/ref.h"

namespace gramme::plan {
struct Segment;
}

namespace gramme::runtime {

/// A tuple that successive calls share for *args. Its items are borrowed; items that no guard reads may be left over
/// from earlier calls. Only guards see this tuple, and the collector does not track it.
struct LentTuple {
  LentTuple() = default;
  LentTuple(const LentTuple&) = delete;
  ~LentTuple() { drop(); }
  void drop();

  Owned<> tuple;
  bool lent = false;
};

/// The arguments in the order of localsplus, then nulls: what a frame holds before its first instruction. All are
/// borrowed from the caller and the function, except the *args tuple and the **kwargs dict.
class BoundArguments {
 public:
  explicit BoundArguments(int slots) : slots_(slots), locals_(small_) {
    if (slots > kSmall) {
      large_.reset(new PyObject*[static_cast<size_t>(slots)]);
      locals_ = large_.get();
    }
  }
  ~BoundArguments();
  BoundArguments(const BoundArguments&) = delete;
  PyObject** locals() { return locals_; }
  int slots() const { return slots_; }

 private:
  friend class Binder;
  static constexpr int kSmall = 32;
  int slots_;
  PyObject** locals_;
  PyObject* small_[kSmall];
  std::unique_ptr<PyObject*[]> large_;
  Owned<> rest_, extra_;             // *args, **kwargs
  std::shared_ptr<LentTuple> lent_;  // owner of rest_, whose items are borrowed then
  PyObject* const* lent_from_ = nullptr;
};

/// Remembers, for the last few shapes of calls (number of arguments, keyword names), where each slot comes from. A call
/// of a known shape costs a few ns and about 1 ns an argument. Belongs to one code object.
class Binder {
 public:
  /// False (without an error set) if CPython would refuse the arguments or there is no memory. Runs no Python: the
  /// garbage collector is off where it allocates.
  bool bind(PyFunctionObject* function, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames,
            BoundArguments& bound);
  /// Adapts how *args and **kwargs are made to what a new segment of the code reads of them.
  void note_reads(const plan::Segment& segment, PyCodeObject* code);

 private:
  struct Shape {
    Py_ssize_t nargs;
    Owned<> kwnames;             // tuple of str or null
    Py_ssize_t default_count;    // length of __defaults__
    std::vector<int32_t> from;   // per parameter: an argument, a default, or a keyword default
    std::vector<int32_t> extra;  // keywords that go to **kwargs
    bool fits(PyFunctionObject* function, Py_ssize_t nargs, PyObject* kwnames) const;
  };
  static constexpr size_t kShapes = 4;
  static constexpr int32_t kUnset = INT32_MIN, kKeywordDefault = INT32_MIN + 1;  // other negatives: default -1 - index

  const Shape* find(PyFunctionObject* function, Py_ssize_t nargs, PyObject* kwnames);
  static bool make(PyFunctionObject* function, Py_ssize_t nargs, PyObject* kwnames, Shape& shape);
  static bool place_keywords(PyCodeObject* code, Py_ssize_t nargs, PyObject* kwnames, Shape& shape);
  static bool place_defaults(PyFunctionObject* function, Shape& shape);
  bool collect(PyCodeObject* code, const Shape& shape, PyObject* const* args, BoundArguments& bound);
  bool collect_rest(PyObject* const* args, Py_ssize_t count, BoundArguments& bound);
  void lends_for(const std::optional<std::vector<Py_ssize_t>>& items);
  bool lend_rest(PyObject* const* args, Py_ssize_t count, BoundArguments& bound);

  bool gives_rest_away_ = false;   // some segment reads the *args tuple itself: each call needs a new one
  bool gives_extra_away_ = false;  // the same for the **kwargs dict, also when it is empty
  bool lends_all_ = false;
  std::vector<Py_ssize_t> lent_items_;  // unless lends_all_: the only items of a lent tuple that are read
  std::shared_ptr<LentTuple> rest_ = std::make_shared<LentTuple>();
  std::vector<Shape> shapes_;  // last used first
};

}  // namespace gramme::runtime
