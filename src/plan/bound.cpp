// Comparing words and repairing those that differ: the affected steps are read again, their words recorded in place of
// the old ones, and on failure everything is put back.
#include "plan/bound.h"

#include <algorithm>

#include "cpython/objects.h"
#include "plan/recorder.h"
#include "plan/walk.h"

namespace gramme::plan {

Scratch& scratch_of_all = *new Scratch;

Block::Block(const Program& program, uint32_t begin, uint32_t end, Scratch& scratch, Dropped& dropped)
    : program_(program),
      scratch_(scratch),
      dropped_(dropped),
      begin_(begin),
      end_(end),
      begins_(end - begin + 1),
      marks_(end - begin) {
  for (uint32_t i = begin; i < end; ++i)
    if (program.steps[i].spec) tensors_.push_back({i, program.steps[i].spec});
}

void Block::unbind() {
  if (!bound_) return;
  bound_ = false;
  root_ = nullptr;
  words_.clear();
  origins_.clear();
  for (Mark& mark : marks_) forget(mark);
}

bool Block::bind(PyObject* root, PyObject** registers) {
  keep(begin_, end_, registers);
  for (uint32_t i = begin_; i < end_; i = program_.steps[i].end)
    registers[i] = program_.steps[i].kind == source::Kind::Pinned ? program_.steps[i].key : root;
  Recorder recorder(*this, registers);
  if (!recorder.record(begin_, end_)) {
    put_back(begin_, end_, registers);
    return false;
  }
  words_.assign(scratch_.words.begin(), scratch_.words.end());
  origins_.assign(scratch_.origins.begin(), scratch_.origins.end());
  std::copy(scratch_.begins.begin(), scratch_.begins.end(), begins_.begin());
  begins_.back() = static_cast<uint32_t>(words_.size());
  forget_kept();
  bound_ = true;
  root_ = root;
  return true;
}

[[gnu::hot]] bool Block::holds(PyObject** registers) {
  rereads_ = 0;
  const Word* word = words_.data();
  const Word* end = word + words_.size();
  for (; word < end; ++word) {
    if (*word->address == word->expected) [[likely]]
      continue;
    if (!repair_from(static_cast<size_t>(word - words_.data()), registers)) return false;
    break;
  }
  return aten::all_match(tensors_.data(), tensors_.size(), registers);
}

/// Checks the rest of the words, from the first that differs, repairing as it goes.
[[gnu::hot]] bool Block::repair_from(size_t first, PyObject** registers) {
  WithoutCollection no_finalizers;
  const Word* word = words_.data() + first;
  const Word* end = words_.data() + words_.size();
  for (; word < end; ++word) {
    if (*word->address == word->expected) [[likely]]
      continue;
    size_t next;
    if (!repair(static_cast<size_t>(word - words_.data()), registers, &next)) return false;
    word = words_.data() + next - 1;
    end = words_.data() + words_.size();
  }
  return true;
}

/// Repairs at a differing word. Words before it held, so the objects that its step is read from are alive and
/// unchanged.
bool Block::repair(size_t word, PyObject** registers, size_t* next) {
  Origin origin = origins_[word];
  if (origin.cause == Cause::Versioned) {
    *next = word + 1;
    return refresh(origin.step, registers);
  }
  if (!reread(origin.step, registers)) return false;
  *next = begins_[program_.steps[origin.step].end - begin_];
  return true;
}

bool Block::reread(uint32_t step, PyObject** registers) {
  ++rereads_;
  uint32_t last = program_.steps[step].end;
  keep(step, last, registers);
  Recorder recorder(*this, registers);
  if (!recorder.record(step, last)) {
    put_back(step, last, registers);
    return false;
  }
  forget_kept();
  splice(step, last);
  return true;
}

bool Block::refresh(uint32_t index, PyObject** registers) {
  const Step& step = program_.steps[index];
  if (!passes(program_, step, registers[index])) return false;
  for (uint32_t child = index + 1; child < step.end; child = program_.steps[child].end) {
    PyObject* now;
    Outcome outcome = read_child(program_.steps[child], registers[index], &now);
    if (outcome != (program_.steps[child].absent ? Outcome::Absent : Outcome::Found)) return false;
    // A different object at the old address passes only if its type is the same; its words then differ.
    bool same = now == registers[child] && (!now || Py_TYPE(now) == marks_[child - begin_].type);
    if (!same && !reread(child, registers)) return false;
  }
  renew_stamps(index);
  return true;
}

void Block::renew_stamps(uint32_t step) {
  for (uint32_t i = begins_[step - begin_]; i < begins_[step + 1 - begin_]; ++i) {
    if (origins_[i].cause != Cause::Versioned || words_[i].address == &kNever) continue;
    words_[i].expected = *words_[i].address;
    if (words_[i].expected == 0) words_[i] = {&kNever, 1};  // the type got no new tag, so the word must never match
  }
}

/// Replaces the words of steps [first, last) by the recorded ones.
void Block::splice(uint32_t first, uint32_t last) {
  uint32_t from = begins_[first - begin_], to = begins_[last - begin_];
  auto count = static_cast<uint32_t>(scratch_.words.size());
  if (count != to - from) {
    words_.erase(words_.begin() + from, words_.begin() + to);
    origins_.erase(origins_.begin() + from, origins_.begin() + to);
    words_.insert(words_.begin() + from, count, Word{});
    origins_.insert(origins_.begin() + from, count, Origin{});
    for (size_t i = last - begin_; i < begins_.size(); ++i) begins_[i] += count - (to - from);
  }
  std::copy(scratch_.words.begin(), scratch_.words.end(), words_.begin() + from);
  std::copy(scratch_.origins.begin(), scratch_.origins.end(), origins_.begin() + from);
  for (uint32_t i = first; i < last; ++i) begins_[i - begin_] = from + scratch_.begins[i - first];
}

void Block::keep(uint32_t first, uint32_t last, PyObject** registers) {
  scratch_.kept_registers.assign(registers + first, registers + last);
  scratch_.kept_marks.assign(marks_.begin() + (first - begin_), marks_.begin() + (last - begin_));
}

void Block::put_back(uint32_t first, uint32_t last, PyObject** registers) {
  std::copy(scratch_.kept_registers.begin(), scratch_.kept_registers.end(), registers + first);
  for (uint32_t i = first; i < last; ++i) forget(marks_[i - begin_]);
  std::move(scratch_.kept_marks.begin(), scratch_.kept_marks.begin() + (last - first),
            marks_.begin() + (first - begin_));
  scratch_.kept_marks.clear();
}

/// Releases a mark's references into `dropped`, since they may be the last ones.
void Block::forget(Mark& mark) {
  if (mark.held) dropped_.push_back(std::move(mark.held));
  if (mark.keys) dropped_.push_back(std::move(mark.keys));
  mark = Mark{};
}

void Block::forget_kept() {
  for (Mark& mark : scratch_.kept_marks) forget(mark);
  scratch_.kept_marks.clear();
}

}  // namespace gramme::plan
