// The bound form of a part of the program: words {address, expected} which together prove that nothing has changed.
//
// Words are compared in pre-order with early exit. That makes it safe: an address inside an object is read only after
// earlier words have shown that the object still exists. Words rest on four kinds of evidence:
//   a stamp      the version of a dict or the tag of a type, never given out twice: same content, all of it alive.
//                Instead of a version a dict may be watched, without a word, or have words for its table, keys and
//                values (evidence.h)
//   a pointer    an item, a cell, a slot, an attribute stored inline; what it points to may be another object at the
//                same address, so its type and everything read below it have words of their own
//   a hold       immutable leaves are held, so an equal pointer is the same value
//   an anchor    pinned objects, and what immutable fields of anchored objects hold: no words needed
// An object with sources below it but no Type fact must have a type that outlives the plan; captures look into no
// others. The operands of Type facts are held. A differing word is not a miss yet. Its step is read again, and only a
// failing fact makes a miss.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/process.h"
#include "base/ref.h"
#include "cpython/watched_dicts.h"
#include "plan/program.h"

namespace gramme::plan {

struct Word {
  const uint64_t* address;
  uint64_t expected;
};

/// What a differing word means, and how to repair it.
enum class Cause : uint8_t {
  Moved,      // an object or its storage has moved: read the step and its subtree again
  Versioned,  // a version changed: look up the children again, and keep those that are the same objects
};

struct Origin {
  uint32_t step;
  Cause cause;
};

/// A dict of the step whose changes CPython tells of: no words stand for it.
struct Watched {
  uint32_t step;
  cpython::DictWatch watch;
};

/// What is recorded about a register's object.
struct Mark {
  PyTypeObject* type = nullptr;
  Owned<> held;            // a leaf, or the elements of a set
  Owned<> keys;            // keys of a dict whose words are pointers to keys
  bool anchored = false;   // surely the same living object as long as the plan, or the held leaf, exists
  bool same_dict = false;  // words show that the object has the same attribute dict, or that its type has none
};

/// Buffers for recording words. One block uses them at a time, since no Python runs meanwhile.
struct Scratch {
  std::vector<Word> words;                // GIL
  std::vector<Origin> origins;            // GIL
  std::vector<uint32_t> begins;           // GIL: first word of each step
  std::vector<Watched> watches;           // GIL
  std::vector<PyObject*> kept_registers;  // GIL
  std::vector<Mark> kept_marks;           // GIL
};

/// Shared by all blocks.
extern OfProcess<Scratch> scratch_of_all;

class Block {
 public:
  /// Covers steps [begin, end): one root with its subtree, or all pinned objects. References that the block drops go
  /// into `dropped`.
  Block(const Program& program, uint32_t begin, uint32_t end, Scratch& scratch, Dropped& dropped);

  bool is_bound_to(PyObject* root) const { return bound_ && root_ == root; }
  /// Reads everything from the root (null for pinned objects) and records words. Changes nothing on failure.
  bool bind(PyObject* root, PyObject** registers);
  /// True if the facts still hold; updates the registers. Costs 0.6 ns per word and 4 ns per tensor. Changes nothing on
  /// failure.
  bool holds(PyObject** registers);
  void unbind();

  uint32_t begin() const { return begin_; }
  uint32_t end() const { return end_; }
  size_t words() const { return words_.size(); }
  size_t tensors() const { return tensors_.size(); }
  /// True if the last holds() had to read so much again that a walk would have cost no more.
  bool unsettled() const { return rereads_ > 8 || rereads_ * 4 > end_ - begin_; }
  /// How many steps the last holds() read again: 0 if no register changed.
  uint32_t rereads() const { return rereads_; }
  /// True if words show that the step's object has the attribute dict that it had when it was recorded, or none.
  bool has_same_dict(uint32_t step) const { return marks_[step - begin_].same_dict; }

 private:
  friend class Recorder;

  bool holds_after_changes(PyObject** registers);
  bool settle(PyObject** registers);
  bool look_again(uint32_t step, PyObject** registers, size_t* word);
  std::span<Watched> watches_of(uint32_t first, uint32_t last);
  bool has_changed(uint32_t step);
  bool repair_from(size_t first, PyObject** registers);
  bool repair_until(size_t* word, uint32_t last, PyObject** registers);
  bool repair(size_t word, PyObject** registers, size_t* next);
  bool reread(uint32_t step, PyObject** registers);
  bool refresh(uint32_t step, PyObject** registers);
  void renew_stamps(uint32_t step);
  void splice(uint32_t first, uint32_t last);
  void keep(uint32_t first, uint32_t last, PyObject** registers);
  void put_back(uint32_t first, uint32_t last, PyObject** registers);
  void forget(Mark& mark);
  void forget_kept();

  const Program& program_;
  Scratch& scratch_;
  Dropped& dropped_;
  uint32_t begin_, end_;
  bool bound_ = false;
  PyObject* root_ = nullptr;  // no reference: words detect another object at its address
  uint32_t rereads_ = 0;
  cpython::Alarm alarm_;  // of watches_
  uint32_t alarms_ = 0;   // how many checks in a row it was raised for
  std::vector<Word> words_;
  std::vector<Origin> origins_;
  std::vector<uint32_t> begins_;  // first word of step begin_ + i, and the end
  std::vector<Watched> watches_;  // in order of the steps
  std::vector<Mark> marks_;
  std::vector<aten::TensorCheck> tensors_;
};

}  // namespace gramme::plan
