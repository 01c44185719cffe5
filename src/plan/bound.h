// The bound form of a part of the program: words {address, expected} that stand for "nothing has changed".
//
// Words are compared in pre-order with early exit, which is what makes it safe: an address below an object is read only
// after the words above have shown that the object is still there. They rest on four kinds of evidence:
//   a stamp      the version of a dict or the tag of a type, never given out twice: same content, all of it alive.
//                Instead of a version a dict may be watched, without a word, or have words for its table, keys and
//                values (evidence.h)
//   a pointer    an item, a cell, a slot, an attribute stored inline; what it points to may be another object at the
//                same address, so its type and everything read below it have words of their own
//   a hold       immutable leaves are held, so an equal pointer is the same value
//   an anchor    pinned objects, and what immutable fields of anchored objects hold: no words needed
// An object without a Type fact but with sources below it must be of a type that outlives the plan (captures look at no
// other); the operands of Type facts are held.
// A word that differs is no miss yet: the step it belongs to is read again, and only if the facts below fail it is one.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/ref.h"
#include "cpython/watched_dicts.h"
#include "plan/program.h"

namespace gramme::plan {

struct Word {
  const uint64_t* address;
  uint64_t expected;
};

/// What to do when a word differs.
enum class Cause : uint8_t {
  Moved,      // an object or its parts are elsewhere: read the step and all below again
  Versioned,  // a stamp rose: look the children up again, those that are the same objects stay as they are
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

/// What is known of a register besides its object.
struct Mark {
  PyTypeObject* type = nullptr;
  Owned<> held;           // a leaf, or the elements of a set
  Owned<> keys;           // of dicts, whose words are pointers to them
  bool anchored = false;  // alive and the same object as long as the plan, or the held leaf, exists
};

/// What blocks need while they record words, one at a time.
struct Scratch {
  std::vector<Word> words;
  std::vector<Origin> origins;
  std::vector<uint32_t> begins;  // first word of each step
  std::vector<Watched> watches;
  std::vector<PyObject*> kept_registers;
  std::vector<Mark> kept_marks;
};

/// Of all blocks, guarded by the GIL: no Python runs while one uses it.
extern Scratch& scratch_of_all;

class Block {
 public:
  /// Steps [begin, end): one root and what hangs off it, or all pinned objects. What the block lets go is put into
  /// `dropped`.
  Block(const Program& program, uint32_t begin, uint32_t end, Scratch& scratch, Dropped& dropped);

  bool is_bound_to(PyObject* root) const { return bound_ && root_ == root; }
  /// Reads everything anew from the root (null for pinned objects) and records words. On failure nothing has changed.
  bool bind(PyObject* root, PyObject** registers);
  /// True if the facts still hold. Registers are brought up to date. 0.6 ns a word, 4 ns a tensor. On failure the block
  /// is as it was.
  bool holds(PyObject** registers);
  void unbind();

  uint32_t begin() const { return begin_; }
  uint32_t end() const { return end_; }
  size_t words() const { return words_.size(); }
  size_t tensors() const { return tensors_.size(); }
  /// True if the last holds() read so much again that a walk would have been as cheap.
  bool unsettled() const { return rereads_ > 8 || rereads_ * 4 > end_ - begin_; }

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
  PyObject* root_ = nullptr;  // not held: an impostor at its address is found out by the words
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
